"""What the CUDA kernels promise beyond the cases of the conformance suite, on the host or on a GPU."""

import math

import cuda_host
import device
import numpy as np
import pytest
from backends import BACKENDS, CUDA_HOST, convert, has_kernels, supports
from calls import CALLS, call
from cases import CASES
from checks import assert_same_bits, host
from conformance import check, expected
from folded import parametrize_folded

import cmfast
from cmfast._core import dispatch
from cmfast.kernels.cuda._core import module
from cmfast.kernels.cuda.geometry import columns
from cmfast.kernels.ops import OPS, Op

pytestmark = [pytest.mark.cuda_host, *device.marks]

MATRICES = np.random.default_rng(3).integers(0, 50, (5, 4, 4)).astype(float)
BAD = MATRICES.copy()
BAD[2, 1, 1] = np.nan


@pytest.mark.parametrize("op", CALLS)
def test_nothing_waits_where_failures_are_ignored(op):
    for M in (MATRICES, BAD):
        there = device.asarray(M)
        with device.waits(0):
            CALLS[op](there, on_failure="ignore")
    there, before = device.asarray(MATRICES), device.copied()
    with device.waits(1):
        CALLS[op](there)
    assert device.IS_GPU or device.copied() - before == 1  # whether anything failed, not what
    with pytest.warns(cmfast.FailureWarning):
        CALLS[op](device.asarray(BAD))


def every_fifth(op):
    """Return every fifth case of an op, of those that the host holds and has kernels for."""
    return [c for c in CASES[op][::5] if supports(CUDA_HOST[0], c) and has_kernels(CUDA_HOST[0], op, c)]


@device.of_the_host
@parametrize_folded({op: every_fifth(op) for op in sorted(OPS)})
def test_results_are_where_the_arrays_are(op, case):
    """On the second device while the first is the current one; what touches the second from the first is refused."""
    with cuda_host.Device(1):
        args, options = (convert(CUDA_HOST[0], value) for value in (case.args, tuple(case.options.values())))
    for one in call(op, args, dict(zip(case.options, options, strict=True)), fails=case.fails):
        assert isinstance(one, int) or one.device.id == 1


@device.of_the_host
def test_devices_do_not_mix():
    S = device.asarray(MATRICES)
    with cuda_host.Device(1):
        T = device.asarray(MATRICES)
    with pytest.raises(TypeError, match="one device, got A on cuda:0, B on cuda:1"):
        cmfast.overlap(S, T)


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("C", [3, 20, 140])
def test_neighbours_and_schedules_change_no_bit(op, C):
    M = device.asarray(np.random.default_rng(C).random((3, C, C)))
    alone = [CALLS[op](M[k : k + 1]) for k in (0, 1, 2)]
    for seed in (0, 1, 2):
        with device.schedule(seed):
            pairs = op in ("overlap", "l1_distance", "kl_divergence")
            together = CALLS[op](device.asarray(np.repeat(M.get()[1:2], 3, 0)) if pairs else M)
        for part, *parts in zip(_parts(together), *map(_parts, alone), strict=True):
            assert_same_bits(host(part)[1], host(parts[1])[0])


def _parts(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("C", [7, 33, 130])
def test_every_width_agrees_with_the_cpu(op, C, dtype):
    M = np.random.default_rng(C).integers(1, 90, (3, C, C)).astype(dtype)
    on_cpu, on_cuda = _parts(CALLS[op](M)), _parts(CALLS[op](device.asarray(M)))
    for one, other in zip(on_cpu, on_cuda, strict=True):
        rtol = OPS[op].rtol[0 if host(one).dtype == np.float32 else 1]
        assert host(other).dtype == host(one).dtype
        np.testing.assert_allclose(host(other), one, rtol=10 * rtol if host(one).dtype.kind == "f" else 0)


@pytest.mark.parametrize(
    "options", [{}, {"sample_weight": None}, {"groups": None}], ids=["counts", "weights", "groups"]
)
@pytest.mark.parametrize("C", [2, 50, 130])
@pytest.mark.parametrize("label", ["u1", "i4", "i8"])
def test_many_samples(label, C, options):
    """So many that several blocks share a row; and more classes than shared memory has room for."""
    rng = np.random.default_rng(C)
    n = 30_000
    y, p = rng.integers(0, C, (2, n)).astype(label)
    make = {"sample_weight": lambda: rng.random(n) * 10.0 ** rng.integers(-30, 30, n), "groups": lambda: y % 3}
    given = {name: make[name]() for name in options}
    on_cpu = cmfast.confusion_matrix(y, p, n_classes=C, **given)
    there = {name: device.asarray(value) for name, value in given.items()}
    on_cuda = cmfast.confusion_matrix(device.asarray(y), device.asarray(p), n_classes=C, **there)
    np.testing.assert_allclose(on_cuda.get(), on_cpu, rtol=1e-13 if on_cpu.dtype.kind == "f" else 0)


def test_sums_of_weights_are_exact():
    """In whatever order: a sum of floats would lose the small ones, or depend on who comes first."""
    w = np.array([1e300, 1.0, 5e-324, -1e300, -1.0, 2.0**-60])
    zeros = np.zeros(6, int)
    want = 2.0**-60  # and 5e-324, which is rounded away
    for order in (slice(None), slice(None, None, -1)):
        labels, weights = device.asarray(zeros), device.asarray(w[order])
        assert cmfast.confusion_matrix(labels, labels, n_classes=1, sample_weight=weights).get() == want


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("C", "rows", "n"), [(2, 1, 20_000), (2, 300, 70), (40, 1, 20_000)])
def test_sums_of_many_weights_are_exact(C, rows, n, seed):
    """Where digits are held in words of 32 bits many carry, up and down; where there is no room for them, as well."""
    rng = np.random.default_rng(seed)
    y, p = rng.integers(0, C, (2, rows, n)) // rng.integers(1, 3, (2, rows, n))
    w = (1.0 - rng.random((rows, n)) * 2.0**-20) * np.where(np.arange(n) < 0.8 * n, 1.0, -1.0)
    w[:, ::7] *= 1e-9
    with device.schedule(seed):
        found = cmfast.confusion_matrix(*map(device.asarray, (y, p)), n_classes=C, sample_weight=device.asarray(w))
    for row in {0, rows // 2, rows - 1}:
        for i, j in {(0, 0), (0, 1), (1, 1), (C - 1, 0)}:
            want = math.fsum(w[row][(y[row] == i) & (p[row] == j)])
            assert found.get()[row, i, j] == want


def test_denormal_floats_are_numbers():
    """CuPy's compiler flushes them to zero wherever it may."""
    M = device.asarray(np.array([[1, 3], [1, 1]], np.uint32).view(np.float32))
    assert cmfast.normalize(M, "row").get()[0].tolist() == [0.25, 0.75]
    tiny = device.asarray(np.array([1e-45, 3e-45], np.float32))
    labels = device.asarray(np.array([0, 0]))
    assert cmfast.confusion_matrix(labels, labels, n_classes=1, sample_weight=tiny).get() == np.float32(4e-45)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, {"n_classes": 3}),
        ({"groups": [0, 1, 5, -1]}, {"n_classes": 9}),
        ({"groups": [0, 1, 5, 1]}, {"n_classes": 9, "n_groups": 2}),
    ],
    ids=["labels", "negative-groups", "groups"],
)
@pytest.mark.parametrize("dtype", ["i1", "i8"])
def test_errors_of_values_read_as_on_the_cpu(given, options, dtype):
    y = np.array([0, 7, 3, -1], dtype)
    given = {name: np.array(value, dtype) for name, value in given.items()}
    with pytest.raises(ValueError, match=r"outside \(first: ") as on_cpu:
        cmfast.confusion_matrix(y, y, **given, **options)
    there = {name: device.asarray(value) for name, value in given.items()}
    with pytest.raises(ValueError, match=r"outside \(first: ") as on_cuda:
        cmfast.confusion_matrix(device.asarray(y), device.asarray(y), **there, **options)
    assert str(on_cuda.value) == str(on_cpu.value)


@pytest.mark.parametrize("factor", [1, 0.5, 2**56, 1e80], ids=["counts", "halves", "large-counts", "far"])
def test_metrics_of_ordered_sums(factor):
    names = ["kappa_linear", "kappa_quadratic", "gerrity", "mcc", "accuracy"]
    d, t, p, bands, tops, *_ = cmfast.metrics.margins(np.random.default_rng(1).integers(0, 9, (6, 3, 3)) * factor)
    tops[1], bands[2], d[4] = -tops[1], bands[2] * 2, d[4] * 3 + 1  # no matrix has these
    there = [device.asarray(a) for a in (d, t, p, bands, tops)]
    with pytest.warns(cmfast.FailureWarning, match="3 of 6"):
        on_cpu = cmfast.metrics.from_sums(d, t, p, names, bands=bands, tops=tops)
    with pytest.warns(cmfast.FailureWarning, match="3 of 6"):
        on_cuda = cmfast.metrics.from_sums(*there[:3], names, bands=there[3], tops=there[4])
    for name in names:
        np.testing.assert_allclose(on_cuda[name].get(), on_cpu[name], rtol=1e-11)


def test_libraries_do_not_mix():
    with pytest.raises(TypeError, match=f"one library, got A from {device.xp.__name__}, B from numpy"):
        cmfast.overlap(device.asarray(MATRICES), MATRICES)


@device.of_the_host
def test_classes_derived_from_theirs_are_taken():
    class Mine(cuda_host.ndarray):
        pass

    there = device.asarray(MATRICES)
    assert module.library(Mine(there._host)) is cuda_host


def test_an_op_without_a_kernel_says_so(monkeypatch):
    monkeypatch.setitem(OPS, "novelty", Op("comparison", "(R,C)->()"))
    with pytest.raises(NotImplementedError, match=r"^novelty has no cuda kernel \(has: cpu\)"):
        dispatch.call("novelty", device.asarray(MATRICES))


HELD = "    if constexpr (HELD) {\n      __syncthreads();\n"
ZEROED = "held[k] = 0;\n      __syncthreads();"
CARRIED = "const i64 x = digit[k] + carry;"

# Faults in the sources: topic, text, what replaces it, op, a case that must then fail.
FAULTS = {
    "counted-before-zero": ("counting", ZEROED, ZEROED[:12], "confusion_matrix", "rows"),
    "added-before-counted": ("counting", HELD, HELD.replace("__syncthreads();", ""), "confusion_matrix", "rows"),
    "carry-lost": ("counting", CARRIED, CARRIED.replace("+ carry", ""), "confusion_matrix", "weights"),
    "carry-held-lost": (
        "counting",
        "? 1u << (32 - CM_SUM_DIGIT_BITS) : 0;",
        "? 0 : 0;",
        "confusion_matrix",
        "weights-of-both-signs",
    ),
    "digits-flushed-early": (
        "counting",
        "    if (HELD) {\n      __syncthreads();\n      for (u64 k = threadIdx.x; k < job.height * cells * digits",
        "    if (HELD) {\n      for (u64 k = threadIdx.x; k < job.height * cells * digits",
        "confusion_matrix",
        "weights-of-both-signs",
    ),
    "bad-cell-unseen": ("comparison", "bad = team_any<W>(bad) ||", "bad =", "overlap", "bad-first-middle-last"),
    "reduction-too-wide": ("prelude", "(W < 32 ? W : 32) / 2", "16", "overlap", "counts"),
    "infinite-sum": (
        "normalizing",
        "Share{CM_SHRINK, small}",
        "Share{1.0, total}",
        "normalize",
        "row-overflowing-sums",
    ),
    "sum-too-large-unseen": ("metrics/values", "|| crowded", "", "margins", "too-many"),
    "rounded-to-zero": (
        "geometry/counts",
        "i64(floor(x)) - low[d]);",
        "i64(x) - low[d]);",
        "cell_counts",
        "minus-zero",
    ),
    "flags-read-early": (
        "prelude",
        "}\n    __syncthreads();\n    for (int job",
        "}\n    for (int job",
        "cell_counts",
        "bad-first-middle-last",
    ),
    "pairs-lost": ("geometry/counts", "held[k] = 0;\n  __syncthreads();", "held[k] = 0;", "pair_counts", "plain"),
    "pair-left-out": ("geometry/counts", "while (u < a) {", "while (u + 1 < a) {", "min_overlap", "counts"),
    "height-of-one-key": ("geometry/counts", "== own) P += mass[k];", "== own) P = mass[k];", "gcm", "plain"),
    "limbs-all-the-same": (
        "geometry/counts",
        "const int down = limb * width - up;",
        "const int down = -up;",
        "gcm",
        "extreme-limbs",
    ),
    "bits-of-limbs-lost": (
        "geometry/counts",
        "head << room | digit >> (width - room)",
        "head << room",
        "gcm",
        "extreme-limbs",
    ),
    "weight-not-in-use": ("geometry/counts", "if (M[at] <= 0) continue;", "", "gcm", "unread-where-no-points"),
    "limb-too-low": ("geometry/counts", "int top = limbs - 1;", "int top = 0;", "gcm", "extreme-limbs"),
    "closure-cut-short": (
        "zeros/support",
        "if (s != k && has(sets, n, s, k))",
        "if (s > k && has(sets, n, s, k))",
        "support",
        "random-8",
    ),
    "flow-not-taken-back": ("zeros/support", "if (k < depth) send(", "if (k > depth) send(", "support", "random-8"),
    "equal-scores-apart": (
        "metrics/thresholds",
        "for (; equal(k + step);",
        "for (; false;",
        "threshold_matrices",
        "ties",
    ),
    "rows-together": ("metrics/thresholds", "key |= K(row) << 32", "key |= 0", "threshold_matrices", "float32"),
    "one-stream": (
        "uncertainty/resample",
        "int(1 + k % C) * C, total,",
        "C, total,",
        "resample",
        "multinomial-missed",
    ),
    "line-added-by-one": ("margins/launch", "target / span_sum(sum, span),", "target / sum,", "ipf_nd", "large"),
    "bad-cell-of-a-table-unseen": (
        "margins/launch",
        "if (team_any<W>(bad)) return",
        "if (bad) return",
        "ipf_nd",
        "bad-targets",
    ),
    "cells-of-zero-targets-alive": (
        "margins/launch",
        "alive &= t.targets()[t.code(b, c) + (b ? t.of.closed : 0)] != 0.0",
        "alive &= true",
        "ipf_nd",
        "zero-targets",
    ),
    "bins-below-missed": ("balancing/launch", "half < 2; ++half", "half < 1; ++half", "balance", "map"),
    "large-counts-missed": ("balancing/launch", "k < rest_stop;", "k < 0;", "balance", "few-large-counts"),
    "distance-twice": ("metrics/values", "k ? plus(above, below) : above", "plus(above, below)", "margins", "counts"),
}


@device.of_the_host
@pytest.mark.parametrize("name", FAULTS)
def test_faults_planted_in_the_sources_are_found(monkeypatch, name):
    topic, text, other, op, case_id = FAULTS[name]
    honest = module.assemble_source
    assert text in honest("comparison" if topic == "prelude" else topic)

    def source(of):
        return honest(of).replace(text, other)

    module._load_function.cache_clear()
    monkeypatch.setattr(module, "assemble_source", source)
    case = next(case for case in CASES[op] if case.id == case_id)
    try:
        failed = [_fails(op, case, backend) for backend in CUDA_HOST]
    finally:
        module._load_function.cache_clear()
    assert any(failed)


def _fails(op, case, backend):
    try:
        check(op, case, backend)
    except (AssertionError, RuntimeError, OverflowError):
        return True
    return False


@device.of_the_host
def test_the_faults_above_are_the_reason():
    for _, _, _, op, case_id in FAULTS.values():
        case = next(case for case in CASES[op] if case.id == case_id)
        assert not _fails(op, case, CUDA_HOST[0])
        assert expected(op, case)
    assert not {backend.name for backend in BACKENDS} & {backend.name for backend in CUDA_HOST}


PROBE = """
__global__ void cmfast_probe(double factor, i64 n, double* out) {
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) out[k] *= factor;
}
"""


def test_numpy_scalars_among_the_arguments_are_no_arrays(monkeypatch):
    """NumPy's scalars have a device, "cpu", and no kernels."""
    honest = module.assemble_source
    monkeypatch.setattr(
        module, "assemble_source", lambda topic: honest("zeros/support") + PROBE if topic == "probe" else honest(topic)
    )
    out = device.asarray(np.arange(4.0))
    module.Kernel("probe", "cmfast_probe").launch((), 1, factor=np.float64(2.0), n=np.int64(3), out=out)
    assert out.get().tolist() == [0.0, 2.0, 4.0, 3.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_table_without_columns(dtype):
    X = np.empty((5, 0), dtype)
    low, high, kept = columns.column_ranges(device.asarray(X))
    assert (low.shape, high.shape, kept) == ((0,), (0,), 5)
    assert columns.column_moments(device.asarray(X), low=(), high=()).shape == (3, 0)
