"""Confusion matrices along thresholds by the CUDA kernels: with the bits of the CPU's."""

import cuda_host
import device
import numpy as np
import nvrtc
import pytest
from checks import assert_same_bits

from cmfast import metrics
from cmfast.kernels.cuda._core import module, resident
from cmfast.kernels.cuda.metrics import values

pytestmark = [pytest.mark.cuda_host, *device.marks]


QUOTIENTS = """
template <typename S>
__global__ void quotients(const double* a, const double* b, double* out, int n) {
  for (int k = threadIdx.x; k < n; k += CM_THREADS) out[k] = divide<S>(a[k], b[k]);
}
"""


def quotients(kind, *pairs):
    """Return both sides of pairs of arrays, and what the kernels of metrics take for their quotients."""
    a, b = (np.concatenate([np.ravel(part) for part in side]) for side in zip(*pairs, strict=True))
    out, name = cuda_host.empty(a.size, np.float64), f"quotients<{kind}>"
    code = module.assemble_source("metrics/values") + QUOTIENTS
    kernel = cuda_host.RawModule(code=code, name_expressions=(name,)).get_function(name)
    kernel((1,), (module.THREADS,), (*map(cuda_host.asarray, (a, b)), out, np.int32(a.size)))
    return a, b, out.get()


@pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))
def test_quotients_of_counts_are_rounded_once():
    """Of products of counts, too: next to halves, to ones, with denominators of one bit and of all bits, and zeros."""
    rng = np.random.default_rng(0)
    small, large = rng.integers(0, 50, (2, 3000)) * 1.0, 2.0 ** rng.uniform(0, 126, (2, 3000))
    b = np.concatenate([rng.integers(2**52, 2**53, 3000), 2**53 - rng.integers(1, 50, 3000)]) * 1.0
    near = np.nextafter(b * (rng.integers(2**52, 2**53, 6000) + 0.5) * 2.0**-53, rng.choice([0.0, np.inf], 6000))
    powers = 2.0 ** np.arange(126)
    pairs = [small, large, (near, b), (np.nextafter(b, 0), b), (b, np.nextafter(b, 0)), (powers, powers[::-1])]
    pairs += [(-large[0], large[1]), (large[0], -large[1]), (np.array([0.0, 7.0, -7.0]), np.zeros(3))]
    pairs += [(powers, np.full(126, 2.0**53 - 1))]
    a, b, found = quotients("i64", *pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_array_equal(found, a / b)


@pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))
def test_quotients_of_any_numbers_have_the_bits_of_a_division():
    """Whatever their size and sign; also quotients that are denormal, halfway between two of these, or too large."""
    rng, n = np.random.default_rng(1), 6000
    tail = rng.integers(0, 2**52, n) * 2.0**-52
    few = rng.integers(0, 60, n) * 2.0**-52
    mantissas = np.concatenate([1 + tail, 1 + few, 2 - 2.0**-52 - few])
    shuffled = rng.permutation(mantissas)
    exponents = rng.integers(-1080, -1015, mantissas.size)
    denormal = np.ldexp(mantissas, exponents // 2), np.ldexp(shuffled, exponents // 2 - exponents)
    halves = np.ldexp(np.rint(8 * mantissas), -1074), np.ldexp(1.0, rng.integers(0, 5, mantissas.size))
    sizes = [0.0, 5e-324, 1e-310, 2.0**-1022, 1e-200, 1.0, 3.0, 1e200, np.finfo(float).max, np.inf, np.nan]
    special = np.meshgrid(*[[*sizes, *(-x for x in sizes)]] * 2)
    anything = rng.integers(0, 2**64, (2, 100_000), dtype=np.uint64).view(float)
    ones = np.ldexp(1.0, rng.integers(-1000, 1000, 99)), np.full(99, 2.0 - 2.0**-52)
    a, b, found = quotients("double", (mantissas, shuffled), denormal, halves, special, anything, ones)
    with np.errstate(all="ignore"):
        want = a / b
    known = ~np.isnan(want)
    assert ((abs(want) > 0.0) & (abs(want) < 2.0**-1022)).sum() > 10_000
    np.testing.assert_array_equal(known, ~np.isnan(found))
    np.testing.assert_array_equal(found[known].view(np.int64), want[known].view(np.int64))


@pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
@pytest.mark.parametrize("kernel", [values._METRICS, values._WHOLE], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("kind", ["i64", "double"])
def test_no_plan_calls_a_division(kernel, kind):
    """The operator is a call, in the machine code, for operands of rare sizes."""
    expression = kernel.expression(next(each for each in kernel.instances if each[0] == kind))
    code, names = module.make_translation_unit(kernel.topic, expression)
    found = nvrtc.Program(code).assembly(names, module.options(kernel.topic))
    assert found.count("fma.rn.f64") > 100
    assert "div.rn.f64" not in found
    assert "rcp.rn.f64" not in found


@pytest.mark.filterwarnings("ignore::cmfast.FailureWarning")
@pytest.mark.parametrize("C", [2, 5, 17])
@pytest.mark.parametrize("of", [np.int32, np.int64])
def test_few_samples_change_no_bit(C, of):
    """Totals about the limit of narrow products: metrics of sums, which know no limit, have the same bits."""
    names = ["mcc", "kappa", "kappa_quadratic", "gerrity", "f1_macro", "recall", "precision_micro", "balanced_accuracy"]
    M = np.random.default_rng(C).integers(0, 2**24 // C**2, (80, C, C)).astype(of)
    M[10:20], M[70] = M[10:20] % 5, 0
    M[:10, 0, 0] += 2**25 - M[:10].sum((1, 2)) + np.arange(-5, 5, dtype=of)  # one warp has both kinds
    M[75, 0, 1] = -1
    there = device.asarray(M)
    d, t, p, bands, tops, *_ = metrics.margins(there)
    options = {"on_failure": "ignore"}
    of_sums = metrics.from_sums(d, t, p, names, bands=bands, tops=tops, **options)
    rows = np.arange(80) != 75
    for name, one in metrics.compute(there, names, **options).items():
        assert_same_bits(one.get()[rows], of_sums[name].get()[rows])


def both(s, y):
    """Return what the CPU and what the CUDA kernels make of one call."""
    there = metrics.threshold_matrices(device.asarray(y), device.asarray(s), on_failure="ignore")
    return metrics.threshold_matrices(y, s, on_failure="ignore"), tuple(part.get() for part in there)


@pytest.mark.filterwarnings("ignore:.*rows of one sample:cmfast.DiagnosticWarning")
@pytest.mark.parametrize("shape", [(5000,), (3, 1500), (300, 7), (2, 150, 3), (1, 9), (70_000, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8", "u1", "?"])
def test_the_cpu_is_matched_bit_for_bit(dtype, shape):
    """Runs of equal scores of every length, and zeros of both signs, whose order is that of the input."""
    rng = np.random.default_rng(len(shape))
    s = (rng.integers(-40, 200, shape) * rng.choice([0.0, 0.25, 0.5, -0.5], shape)).astype(dtype)
    y = rng.integers(0, 2, shape).astype(rng.choice(["u1", "i4", "i8", "?", "i2"]))
    if s.dtype.kind == "f" and s.ndim > 1:
        s[-1, ..., 0] = np.nan
    on_cpu, on_cuda = both(s, y)
    assert on_cuda[0].dtype == on_cpu[0].dtype
    assert_same_bits(on_cuda, tuple(on_cpu))


@pytest.mark.parametrize("exponent", [-1000, -300, 0, 500, 1000])
def test_areas_of_weights_of_any_unit_are_those_of_the_cpu(exponent):
    rng = np.random.default_rng(4)
    s, y, weight = rng.integers(0, 9, (3, 60)) / 8, rng.integers(0, 2, (3, 60)), rng.random((3, 60))
    weight = np.ldexp(weight, exponent)
    for area in (metrics.roc_auc, metrics.average_precision):
        there = area(*map(device.asarray, (y, s)), sample_weight=device.asarray(weight)).get()
        np.testing.assert_allclose(there, area(y, s, sample_weight=weight), rtol=1e-12)


def test_neighbours_and_schedules_change_no_bit():
    rng = np.random.default_rng(2)
    s, y = rng.integers(0, 50, (4, 600)) / 7, rng.integers(0, 2, (4, 600))
    y[2, 5] = 2
    there = device.asarray(y), device.asarray(s)
    want = metrics.threshold_matrices(*there, on_failure="ignore")
    for seed in (1, 2):
        with device.schedule(seed):
            assert_same_bits(tuple(metrics.threshold_matrices(*there, on_failure="ignore")), tuple(want))
    alone = metrics.threshold_matrices(*(a[3] for a in there))
    assert_same_bits(tuple(alone), tuple(part[3] for part in want))


def test_results_are_written_to_arrays_on_the_device():
    matrices = device.asarray(np.random.default_rng(3).integers(0, 9, (5, 3, 3)))
    want = metrics.compute(matrices, ["mcc", "recall"])
    out = {name: device.asarray(np.zeros_like(x.get())) for name, x in want.items()}
    assert metrics.compute(matrices, ["mcc", "recall"], out=out) is out
    assert_same_bits(tuple(x.get() for x in out.values()), tuple(x.get() for x in want.values()))
    with pytest.raises(TypeError, match=r"out must be an array of .*, got numpy"):
        metrics.compute(matrices, "mcc", out=np.empty(5))


def test_nothing_waits_where_failures_are_ignored():
    there = device.asarray(np.ones((3, 9), int)), device.asarray(np.random.default_rng(3).random((3, 9)))
    with device.waits(0):
        found = metrics.threshold_matrices(*there, on_failure="ignore")
    assert all(len(part.get()) == 3 for part in found), "it is done all the same"


@pytest.mark.parametrize(
    ("rows", "n", "n_classes"),
    [(1, 30_000, 10), (4, 900, 12), (1, 9000, 200), (3, 700, 120), (5, 20, 40), (2, 3000, 2600), (1, 20_000, 13)],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["u2", "i8"])
def test_margins_of_labels_by_tables_and_by_counters(rows, n, n_classes, dtype):
    """In a table of all pairs, in counters of shared memory, in those of the device: the same integers."""
    rng = np.random.default_rng(4)
    y, p = rng.integers(0, n_classes, (2, rows, n)).astype(dtype)
    got = metrics.label_margins(device.asarray(y), device.asarray(p), n_classes=n_classes)
    assert_same_bits(tuple(part.get() for part in got), tuple(metrics.label_margins(y, p, n_classes=n_classes)))


@pytest.mark.parametrize("n_classes", [3, 150, 3000])
def test_labels_outside_are_counted_for_margins(n_classes):
    y = np.arange(9000) % n_classes
    y[[5, 8999]] = n_classes, -1
    with pytest.raises(ValueError, match="2 pairs outside"):
        metrics.label_margins(device.asarray(y), device.asarray(y), n_classes=n_classes)


NAMES = ["accuracy", "mcc", "kappa_linear", "gerrity", "recall", "f1_macro", "f1_micro"]


@pytest.mark.parametrize("C", [1, 2, 7, 8, 9, 15, 16, 17, 23, 25, 32, 33])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_metrics_in_shared_memory_are_those_of_margins(monkeypatch, C, dtype):
    """The same bits, also where a matrix is none."""
    M = (np.random.default_rng(6).integers(0, 9, (97, C, C)) / (7 if dtype[0] == "f" else 1)).astype(dtype)
    M[5, -1, -1], M[96] = -1, 0
    if dtype[0] == "f":
        M[7, 0, 0] = np.nan
    there = device.asarray(M)
    for names in (NAMES, NAMES[:2]):  # with sums that depend on the order of classes, and without
        monkeypatch.setattr(values, "MOST_WHOLE", 32)
        got = metrics.compute(there, names, on_failure="ignore")
        want = metrics.compute(M, names, on_failure="ignore")
        monkeypatch.setattr(values, "MOST_WHOLE", 0)
        again = metrics.compute(there, names, on_failure="ignore")
        assert_same_bits(tuple(got.values()), tuple(again.values()))
        for name in names:
            np.testing.assert_allclose(got[name].get(), want[name], rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-12)


@device.of_the_host
def test_a_list_of_metrics_goes_to_a_device_once(monkeypatch):
    """Any number of calls of the same list, one copy; what does not fit among those kept is copied each time."""
    monkeypatch.setattr(resident, "_cached", {})
    there, waits = cuda_host.asarray(np.random.default_rng(5).integers(0, 9, (4, 3, 3))), []
    for names in (["accuracy", "f1_macro"], ["accuracy", "f1_macro"], ["mcc"]):
        before = cuda_host.synchronisations()
        metrics.compute(there, names, on_failure="ignore")
        waits.append(cuda_host.synchronisations() - before)
    assert waits[0] > 0
    assert waits[1] == 0
    kept = dict(resident._cached)
    monkeypatch.setattr(resident, "MOST_RESIDENT_ARRAYS", len(kept))
    want = metrics.compute(there, "kappa", on_failure="ignore")
    assert resident._cached == kept
    assert_same_bits(want, metrics.compute(there, "kappa", on_failure="ignore"))


@device.of_the_host
def test_every_device_has_its_own_list(monkeypatch):
    monkeypatch.setattr(resident, "_cached", {})
    for number in (0, 1):
        with cuda_host.Device(number):
            M = cuda_host.asarray(np.eye(3))
        assert metrics.compute(M, ["accuracy"])["accuracy"].device.id == number


@pytest.mark.parametrize("C", [2, 3, 8, 20, 100])
def test_one_predicted_or_true_class_is_constant(C):
    """Sums of floats in other orders must not leave a rest that is taken for samples of other classes."""
    rng = np.random.default_rng(C)
    M, one = np.zeros((60, C, C)), rng.integers(0, C, 60)
    M[np.arange(60), :, one] = rng.random((60, C))
    y, p, weight = rng.integers(0, C, (60, 50)), np.broadcast_to(one[:, None], (60, 50)).copy(), rng.random((60, 50))
    y[:, :2] = 0, 1
    for name in ("mcc", "kappa"):
        for cells in (M, M.swapaxes(1, 2).copy()):
            assert not metrics.compute(cuda_host.asarray(cells), name, undefined="nan").get().any()
        for truth, guess in ((y, p), (p, y)):
            given = [cuda_host.asarray(a) for a in (truth, guess, weight)]
            found = metrics.from_labels(*given[:2], name, n_classes=C, sample_weight=given[2], undefined="nan")
            assert not found.get().any()
