"""Results that are written to arrays of the caller: what ``metrics.compute`` takes as ``out``."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from checks import assert_same_bits, host
from folded import check_each
from optional import array_api_strict, torch, xarray

import cmfast
from cmfast import metrics
from cmfast.kernels.cpu.metrics.values import PAST_BYTES

NAMES = (
    *("mcc", "recall", None, "per_class", []),
    ["heidke", "kappa", "f1", "recall", "sensitivity", "f1_macro", "mcc_01", "geometric_mean"],
)
BATCHES = [(), (1,), (5,), (8,), (9,), (3, 7), (0,), (2, 0)]
M = np.random.default_rng(0).integers(1, 9, (5, 3, 3)).astype(np.float64)
LIBRARIES = {
    "numpy": np.array,
    "torch": lambda a: torch.from_numpy(np.array(a)),
    "array-api-strict": lambda a: array_api_strict.asarray(np.array(a)),
}


def listed(found):
    """Return the arrays of a result, of one name or of several."""
    return list(found.values()) if isinstance(found, dict) else [found]


def spread(found):
    """Return arrays like those of a result, in any order in one memory that nothing else may be written to."""
    parts = listed(found)
    memory = [np.full(np.size(x) + 3, 7, x.dtype) for x in parts]
    memory = np.concatenate([np.full(1, 7, parts[0].dtype), *memory]) if parts else np.empty(0)
    places = np.random.default_rng(1).permutation(len(parts))
    starts = np.empty(len(parts), int)
    starts[places] = np.cumsum([1, *(np.size(parts[k]) + 3 for k in places)])[: len(parts)]
    arrays = [memory[a : a + np.size(x)].reshape(np.shape(x)) for a, x in zip(starts, parts, strict=True)]
    return (dict(zip(found, arrays, strict=True)) if isinstance(found, dict) else arrays[0]), memory


def check_written(matrices, names, **options):
    """Compare what is written to arrays with what is returned without them, bit for bit; nothing else is written."""
    want = metrics.compute(matrices, names, on_failure="ignore", **options)
    out, memory = spread(want)
    assert metrics.compute(matrices, names, on_failure="ignore", out=out, **options) is out
    assert_same_bits(tuple(listed(out)), tuple(map(np.asarray, listed(want))))
    for x in listed(out):
        x[...] = 7
    assert (memory == 7).all(), "written beside the arrays"


@pytest.mark.exhaustive
@pytest.mark.parametrize("C", [1, 2, 3, 10, 40])
def test_results_are_those_without_out_and_nothing_else_is_written(C, rng):
    """Of all batches, with a bad matrix, counts beyond float64 and fractions; also for averages over some classes."""
    cases = []
    for batch in BATCHES:
        counts = rng.integers(0, 50, (*batch, C, C))
        huge, bad = counts << 52, counts.astype(np.float64)
        bad.flat[:1] = np.nan
        for kind, matrices in (("counts", counts), ("huge", huge), ("bad", bad), ("f4", counts.astype(np.float32))):
            for names in NAMES:
                options = {} if kind != "counts" else {"average_over": [C - 1], "undefined": "nan"}
                cases.append((f"{batch} {kind} {names}", partial(check_written, matrices, names, **options)))
    check_each(cases)


def test_an_earlier_result_is_written_again(rng):
    """Beyond the size that is written past the caches, for results that begin at cache lines and for others."""
    matrices = rng.integers(0, 9, (2, 52_003, 3, 3))
    want = metrics.compute(matrices[1])
    assert 8 * len(want) * len(matrices[1]) > PAST_BYTES
    found = metrics.compute(matrices[0])
    before = dict(found)
    assert metrics.compute(matrices[1], out=found) is found
    assert all(found[name] is before[name] for name in want)
    assert_same_bits(tuple(found.values()), tuple(want.values()))
    check_written(matrices[0], None)


@pytest.mark.parametrize("threads", [1, 2])
def test_names_of_one_result_may_share_an_array_or_have_their_own(threads, rng):
    matrices = rng.integers(0, 9, (3000, 4, 4))
    own, shared = {name: np.empty(3000) for name in ("kappa", "heidke")}, np.empty(3000)
    for out in (own, {"kappa": shared, "heidke": shared}):
        metrics.compute(matrices, ["kappa", "heidke"], out=out, num_threads=threads)
        for x in out.values():
            assert_same_bits(x, metrics.kappa(matrices))


@pytest.mark.torch
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gets_its_own_arrays(library, rng):
    make = LIBRARIES[library]
    for dtype in (np.int32, np.float32):
        matrices = rng.integers(0, 50, (9, 3, 3)).astype(dtype)
        for names in NAMES:
            want = metrics.compute(matrices, names)
            out = {name: make(x + 1) for name, x in want.items()} if isinstance(want, dict) else make(want + 1)
            assert metrics.compute(make(matrices), names, out=out) is out
            assert_same_bits(tuple(map(host, listed(out))), tuple(listed(want)))


def frozen(a):
    a.flags.writeable = False
    return a


def test_what_cannot_be_written_to_is_refused_by_name():
    line = np.empty(9)
    both = ["mcc", "kappa"]
    bad = {
        "shape": (
            M,
            "mcc",
            np.empty(4),
            ValueError,
            r"out must be of shape \(5,\), that of the result, got shape \(4,",
        ),
        "per-class": (M, "recall", np.empty(5), ValueError, r"out must be of shape \(5, 3\)"),
        "dtype": (M, "mcc", np.empty(5, "f4"), TypeError, r"out must be float64, as the result is, got dtype float32"),
        "float32": (M.astype("f4"), "mcc", np.empty(5), TypeError, r"out must be float32.*got dtype float64"),
        "swapped": (M, "mcc", np.empty(5, ">f8"), TypeError, r"out must be float64.*got dtype >f8"),
        "strided": (M, "mcc", line[:9:2], TypeError, r"out must be a C-contiguous array .* got a strided one"),
        "read-only": (M, "mcc", frozen(np.empty(5)), TypeError, r"out must be .* got a read-only one"),
        "misaligned": (M, "mcc", np.empty(41, "i1")[1:].view("f8"), TypeError, "got a misaligned one"),
        "of-M": (M, "mcc", M.reshape(-1)[:5], ValueError, "out must be apart from M in memory"),
        "scalar": (M[0], "mcc", np.float64(1), TypeError, "out must be an ndarray, got float64"),
        "list": (M, "mcc", [0.0] * 5, TypeError, "out must be an ndarray, got list"),
        "series": (M, "mcc", pd.Series(np.empty(5)), TypeError, "out must be an ndarray, got Series"),
        "masked": (M, "mcc", np.ma.masked_array(np.empty(5)), TypeError, "out is a masked array"),
        "no-dict": (
            M,
            both,
            np.empty(5),
            TypeError,
            "out must be a dict of arrays, as several names return, got ndarray",
        ),
        "missing": (M, both, {"mcc": np.empty(5)}, ValueError, "for each of the names, got no array for 'kappa'"),
        "surplus": (M, ["mcc"], {"mcc": np.empty(5), "f1": 3}, ValueError, "of the names, got an array for 'f1'"),
        "each-other": (
            *(M, both, {"mcc": line[:5], "kappa": line[4:]}, ValueError),
            r"out\['mcc'\] must be apart from out\['kappa'\] in memory",
        ),
        "sparse": (
            *(scipy.sparse.csr_array(np.eye(3)), "mcc", np.empty(()), TypeError),
            "None for a sparse matrix, got out with M a csr_array",
        ),
        "scalar of one matrix": (
            *(np.eye(3), ["mcc"], metrics.compute(np.eye(3), ["mcc"]), TypeError),
            r"out\['mcc'\] must be an ndarray, got float64: .* np.empty\(\(\)\) takes one",
        ),
    }
    for what, (matrices, names, out, error, text) in bad.items():
        before = M.copy()
        with pytest.raises(error, match=f"^metrics.compute: {text}" if text.startswith("out") else text):
            metrics.compute(matrices, names, out=out)
        np.testing.assert_array_equal(M, before, err_msg=what)


@pytest.mark.torch
def test_what_has_gradients_axes_or_no_memory_yet_is_refused():
    dask = pytest.importorskip("dask.array")
    tensor, numbers = torch.from_numpy(M), torch.empty(5, dtype=torch.float64)
    bad = {
        "other-library": (tensor, np.empty(5), "out must be an array of torch, got numpy"),
        "of-another": (M, numbers, "out must be an array of numpy, got torch"),
        "gradient-of-M": (tensor.clone().requires_grad_(), numbers, "M requires gradients"),
        "gradient": (tensor, numbers.clone().requires_grad_(), r"out requires gradients.*out.detach\(\)"),
        "expanded": (tensor, numbers[:1].expand(5), "got a strided one"),
        "negated": (tensor, torch._neg_view(numbers), "out is a negated view"),
        "axes": (xarray.DataArray(M), xarray.DataArray(np.empty(5)), "None for arrays with named axes, got xarray"),
        "lazy": (dask.from_array(M), np.empty(5), "None for a Dask array, which is computed later, got ndarray"),
        "lazy-out": (M, dask.zeros(5), "out must be an array of numpy, got dask"),
    }
    for matrices, out, text in bad.values():
        with pytest.raises(TypeError, match=text):
            metrics.compute(matrices, "mcc", out=out)


def test_an_error_names_the_matrix_as_without_out():
    matrices = M.copy()
    matrices[2, 0, 0] = -1
    out = np.empty(5)
    with pytest.warns(cmfast.FailureWarning, match="1 of 5 matrices not evaluated"):
        metrics.compute(matrices, "mcc", out=out)
    assert np.isnan(out).tolist() == [False, False, True, False, False]
