"""The tests are tested: planted faults must fail, each for its own reason, and honest results must pass."""

import warnings

import numpy as np
import pytest
from backends import BACKENDS
from cases import CASES
from checks import assert_matches, assert_same_bits
from conformance import check, expected
from optional import torch

import cmfast

BACKEND = {backend.name: backend for backend in BACKENDS}
HONEST = {name: getattr(cmfast, name) for name in ("confusion_matrix", "overlap", "normalize", "ipf")}


def conforms(monkeypatch, op, case_id, function, backend="numpy"):
    """Put `function` in the place of `op`, and run its conformance test on one case."""
    monkeypatch.setattr(cmfast, op, function)
    case = next(case for case in CASES[op] if case.id == case_id)
    check(op, case, BACKEND[backend])


def after(op, change):
    """Return `op` with `change` applied to what it returns."""
    return lambda *args, **options: change(HONEST[op](*args, **options))


def before(op, change):
    """Return `op` with `change` applied to its first array, in place, when it has done its work."""

    def function(first, *args, **options):
        result = HONEST[op](first, *args, **options)
        change(first)
        return result

    return function


def warned(op, *how):
    """Return `op`, silent by itself, with a warning for each (category, stacklevel) of `how`."""

    def function(*args, **options):
        result = HONEST[op](*args, **{**options, "on_failure": "ignore"})
        for category, level in how:
            warnings.warn("planted", category, stacklevel=level)
        return result

    return function


def _write(array, value):
    array[0] = value


def _written(array, index, value):
    array = np.array(array)
    array[index] = value
    return array


@pytest.mark.parametrize("backend", ["numpy", "strided", "torch"])
@pytest.mark.parametrize(
    ("op", "case"),
    [("confusion_matrix", "int64"), ("overlap", "counts"), ("normalize", "row-counts"), ("ipf", "counts")],
)
def test_honest_results_pass(monkeypatch, op, case, backend):
    conforms(monkeypatch, op, case, HONEST[op], backend)


FAILURE, HERE = cmfast.FailureWarning, 2

FAULTS = {
    "dtype-float32": ("overlap", "counts", after("overlap", lambda out: out.astype(np.float32)), "dtype float32"),
    "dtype-int32": ("confusion_matrix", "rows", after("confusion_matrix", lambda M: M.astype("i4")), "dtype int32"),
    "dtype-float": ("confusion_matrix", "rows", after("confusion_matrix", lambda M: M.astype(float)), "dtype float64"),
    "shape-extra-axis": ("overlap", "counts", after("overlap", lambda out: out[..., None]), "shape"),
    "shape-missing-batch": ("confusion_matrix", "rows", after("confusion_matrix", lambda M: M[0]), "shape"),
    "shape-scalar-for-one": ("overlap", "broadcast-one", after("overlap", lambda out: out[0]), "shape"),
    "library-torch": ("overlap", "counts", after("overlap", torch.from_numpy), "library torch, wanted numpy"),
    "library-list": ("confusion_matrix", "rows", after("confusion_matrix", lambda M: M.tolist()), "library list"),
    "library-python-float": ("overlap", "single", after("overlap", float), "library float"),
    "one-too-many": ("confusion_matrix", "rows", after("confusion_matrix", lambda M: _written(M, (0, 0, 0), 99)), None),
    "beyond-tolerance": (
        "overlap",
        "counts",
        after("overlap", lambda out: out * (1 + 1e-12)),
        "Not equal to tolerance",
    ),
    "float32-inside": (
        "overlap",
        "counts",
        after("overlap", lambda out: out.astype(np.float32).astype(np.float64)),
        "Not equal to tolerance",
    ),
    "axes-swapped": ("confusion_matrix", "rows", after("confusion_matrix", lambda M: M.swapaxes(-1, -2)), "not equal"),
    "batch-reversed": ("overlap", "counts", after("overlap", lambda out: out[::-1]), "Not equal to tolerance"),
    "never-written": ("confusion_matrix", "rows", after("confusion_matrix", np.zeros_like), "not equal"),
    "never-written-float": ("overlap", "counts", after("overlap", np.zeros_like), "Not equal to tolerance"),
    "input-changed": ("overlap", "counts", before("overlap", lambda S: _write(S, 0)), None),
    "input-changed-negative-zero": ("overlap", "minus-zero", before("overlap", lambda S: _write(S, S[0] + 0.0)), None),
    "input-returned": ("normalize", "all-counts", lambda M, *_, **__: M.astype(float), "Not equal to tolerance"),
    "neighbour-spoiled": (
        "overlap",
        "bad-first-middle-last",
        lambda *args, **options: warned("overlap", (FAILURE, 3))(*args, **options) * np.nan,
        "Not equal to tolerance",
    ),
    "failure-hidden": (
        "overlap",
        "bad-first-middle-last",
        lambda *args, **options: np.nan_to_num(warned("overlap", (FAILURE, 3))(*args, **options)),
        "Not equal to tolerance",
    ),
    "warning-missing": ("overlap", "no-mass", warned("overlap"), "0 failure warnings, wanted 1"),
    "warning-extra": ("overlap", "counts", warned("overlap", (FAILURE, HERE)), "1 failure warnings, wanted 0"),
    "warning-twice": ("overlap", "no-mass", warned("overlap", *[(FAILURE, HERE)] * 2), "2 failure warnings, wanted 1"),
    "warning-elsewhere": ("overlap", "no-mass", warned("overlap", (FAILURE, 1)), "not at the caller"),
    "warning-of-numpy": ("overlap", "counts", warned("overlap", (RuntimeWarning, HERE)), "unexpected RuntimeWarning"),
    "part-missing": ("ipf", "counts", after("ipf", lambda result: tuple(result)[:-1]), None),
    "parts-swapped": ("ipf", "counts", after("ipf", lambda r: (r[0], r[2], r[1], *r[3:])), None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_caught(monkeypatch, name):
    op, case, function, reason = FAULTS[name]
    with pytest.raises(AssertionError, match=reason):
        conforms(monkeypatch, op, case, function)


def test_warning_that_is_as_it_should_be_passes(monkeypatch):
    """Or the faults above would be caught for a reason that has nothing to do with them."""
    conforms(monkeypatch, "overlap", "no-mass", warned("overlap", (FAILURE, HERE)))


def test_numpy_result_for_a_tensor_is_caught(monkeypatch):
    with pytest.raises(AssertionError, match="library numpy, wanted torch"):
        conforms(monkeypatch, "overlap", "counts", after("overlap", lambda out: out.numpy()), "torch")


@pytest.mark.parametrize("backend", ["numpy", "fortran", "strided", "reversed", "torch"])
def test_changed_input_is_caught_on_every_backend(monkeypatch, backend):
    with pytest.raises(AssertionError):
        conforms(monkeypatch, "overlap", "counts", before("overlap", lambda S: _write(S, 0)), backend)


def test_one_count_is_not_within_tolerance():
    want = np.array([10**15])
    assert_matches("confusion_matrix", want.copy(), want)
    with pytest.raises(AssertionError):
        assert_matches("confusion_matrix", want + 1, want)


@pytest.mark.parametrize(
    "other",
    [np.nextafter([1.0, 0.0], 2), np.array([1.0, -0.0]), np.float32([1, 0]), np.array([[1.0, 0.0]]), [1.0, 0.0]],
    ids=["one-ulp", "minus-zero", "dtype", "shape", "class"],
)
def test_same_bits_means_it(other):
    assert_same_bits(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    with pytest.raises(AssertionError):
        assert_same_bits(np.array([1.0, 0.0]), other)


def test_nan_is_not_a_number_within_tolerance():
    with pytest.raises(AssertionError):
        assert_matches("overlap", np.array([np.nan]), np.array([0.5]))
    with pytest.raises(AssertionError):
        assert_matches("overlap", np.array([0.5]), np.array([np.nan]))
    assert_matches("overlap", np.array([np.nan]), np.array([np.nan]))


def test_the_oracle_of_a_case_is_not_trivial():
    """A result of zeros, or the input itself, must not satisfy every case of an op."""
    for op, cases in CASES.items():
        parts = (np.asarray(getattr(part, "low", part)) for case in cases for part in expected(op, case))
        assert any(part.size > 1 and np.any(part != 0) for part in parts), op
