"""What callers rely on when they normalise: laws, shapes, types, bits, and which argument is at fault."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from optional import torch

import cmfast
from cmfast import FailureError, FailureWarning, Status

QUIET = {"on_failure": "ignore"}
CELLS = st.floats(1e-3, 1e3)
MATRICES = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=CELLS)
SQUARE = st.integers(1, 6).flatmap(lambda C: hnp.arrays(np.float64, (C, C), elements=CELLS))
both_functions = pytest.mark.parametrize("function", [cmfast.normalize, cmfast.importance_weights])
every_method = pytest.mark.parametrize("method", ["all", "row", "col", "bi"])


# Order of operations


def sum_in_order(M, method):
    """Return the sums of the rows, of the columns, or of the sums of the rows, each in the order of its cells."""
    lines = M.T if method == "col" else M
    sums = [0.0] * len(lines)
    for k, line in enumerate(lines.tolist()):
        for x in line:
            sums[k] += x
    whole = 0.0
    for x in sums:
        whole += x
    return np.array({"all": whole, "row": np.array(sums)[:, None], "col": np.array(sums)[None]}[method])


@pytest.mark.parametrize("shape", [(3, 3), (4, 11), (16, 5), (17, 5), (40, 3)])
@pytest.mark.parametrize("method", ["all", "row", "col"])
def test_sums_are_in_the_order_of_the_cells(method, shape, rng):
    M = rng.exponential(size=(12, *shape)) * 10.0 ** rng.integers(-8, 8, (12, *shape))
    M[3], M[4, 0], M[5, :, 1], M[6] = 0.0, 0.0, 0.0, -0.0
    want = np.array([m / np.where((total := sum_in_order(m, method)) > 0, total, 1.0) for m in M])
    M[7, -1, -1], M[8, 0, 1], M[9, 2, 0], M[10, 1, 1] = np.nan, -1.0, np.inf, -np.inf
    want[7:11] = np.nan
    assert_same_bits(cmfast.normalize(M, method, **QUIET), want)
    M[11] = 2.0**1023  # sums overflow
    expected = 1 / {"all": M[11].size, "row": shape[1], "col": shape[0]}[method]
    np.testing.assert_allclose(cmfast.normalize(M, method, **QUIET)[11], expected, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (2, 4), (3, 5), (17, 5)])
@pytest.mark.parametrize("method", ["all", "row", "col"])
def test_weights_are_reciprocals_of_sums_in_the_order_of_the_cells(method, shape, dtype, rng):
    M = rng.poisson(2.0, (9, *shape)).astype(dtype)
    M[2], M[3, 0], M[4, :, 0] = 0, 0, 0
    sums = [sum_in_order(m.astype(float), method) for m in M]
    want = np.array([np.broadcast_to(np.where(x > 0, 1 / np.where(x > 0, x, 1.0), 0.0), shape) for x in sums])
    if dtype != np.int64:
        M[5] *= -0.0  # a sign, which is no negative cell
        M[6, -1, -1], want[5], want[6] = np.nan, 0.0, np.nan
    M[7, -1, 0], want[7] = -1, np.nan
    assert_same_bits(
        cmfast.importance_weights(M, method, **QUIET), want.astype(M.dtype if dtype == np.float32 else float)
    )


@pytest.mark.parametrize("method", ["row", "col"])
def test_sums_and_weights_may_overflow_together(method):
    """Two sums of 1.5e308, and two weights of 1.5e308, exceed float64 together, but each is a number."""
    M = np.diag([1.5e308, 1.5e308, 0.0])
    assert_same_bits(cmfast.normalize(M, method), np.diag([1.0, 1.0, 0.0]))
    few = np.diag([1 / 1.5e308, 1 / 1.5e308, 1.0])
    found = cmfast.importance_weights(few, method)
    want = np.broadcast_to(1 / few.diagonal(), (3, 3))
    np.testing.assert_array_equal(found, want.T if method == "row" else want)


# Laws

COUNTS = hnp.arrays(
    np.int64, hnp.array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=6), elements=st.integers(0, 9)
)


@given(COUNTS, st.sampled_from(["all", "row", "col"]))
def test_weights_times_counts_are_the_normalised_counts(M, method):
    weights, P = cmfast.importance_weights(M, method), cmfast.normalize(M, method)
    np.testing.assert_allclose(weights * M, P, rtol=4e-16)
    axes = {"all": (-2, -1), "row": -1, "col": -2}[method]
    np.testing.assert_allclose(P.sum(axes), M.sum(axes) > 0, rtol=1e-14)
    np.testing.assert_allclose(cmfast.normalize(P, method), P, rtol=1e-14)


@given(SQUARE)
def test_weights_of_bi_give_bi(M):
    np.testing.assert_allclose(cmfast.importance_weights(M, "bi") * M, cmfast.normalize(M, "bi"), rtol=1e-14)


@pytest.mark.parametrize("method", ["all", "row", "col"])
@given(M=MATRICES, power=st.integers(-300, 300))
def test_powers_of_two_change_no_bit(M, power, method):
    assert cmfast.normalize(M, method).tobytes() == cmfast.normalize(np.ldexp(M, power), method).tobytes()


@given(MATRICES)
def test_rows_of_the_transpose_are_columns(M):
    np.testing.assert_allclose(cmfast.normalize(M.T, "row").T, cmfast.normalize(M, "col"), rtol=4e-16)


# Any target


def in_fractions(M, target):
    """Return the weights, in exact arithmetic; None where no weights lead there."""
    pairs = [(Fraction(float(m)), Fraction(float(t))) for m, t in zip(np.ravel(M), np.ravel(target), strict=True)]
    if any(m == 0 < t for m, t in pairs):
        return None
    return np.array([float(t / m) if m else 0.0 for m, t in pairs]).reshape(np.shape(M))


@given(COUNTS, st.integers(0, 2**32 - 1))
def test_weights_of_a_target_give_it(M, seed):
    target = np.random.default_rng(seed).random(M.shape) * (M > 0)
    weights = cmfast.importance_weights(M, target=target)
    np.testing.assert_array_equal(weights, in_fractions(M, target))
    np.testing.assert_allclose(weights * M, target, rtol=4e-16)


@pytest.mark.parametrize("method", ["all", "row", "col", "bi"])
def test_normalisations_are_targets(method, rng):
    M = rng.integers(1, 60, (5, 4, 4))
    weights = cmfast.importance_weights(M, target=cmfast.normalize(M, method))
    np.testing.assert_allclose(weights, cmfast.importance_weights(M, method), rtol=1e-9)


def test_targets_of_margins_are_those_of_ipf(rng):
    M, rows, cols = rng.random((3, 4)) + 0.1, [3.0, 1.0, 2.0], [1.0, 1.0, 2.0, 2.0]
    weighted = M * cmfast.importance_weights(M, target=cmfast.ipf(M, rows, cols).matrix)
    np.testing.assert_allclose(weighted.sum(1), rows, rtol=1e-8)
    np.testing.assert_allclose(weighted.sum(0), cols, rtol=1e-8)


def test_targets_broadcast_and_say_which_type_they_give(rng):
    M, target = rng.integers(1, 9, (5, 1, 2, 3)), rng.random((4, 2, 3))
    found = cmfast.importance_weights(M, target=target)
    assert found.shape == (5, 4, 2, 3)
    assert_same_bits(found[2, 3], cmfast.importance_weights(M[2, 0], target=target[3]))
    for one, other, kind in (("f4", "f4", "f4"), ("f4", "f8", "f8"), ("i8", "f4", "f8"), ("f2", "f2", "f8")):
        assert cmfast.importance_weights(M.astype(one), target=target.astype(other)).dtype == kind
    assert cmfast.importance_weights(np.ones((0, 3, 3)), target=np.ones((3, 3))).shape == (0, 3, 3)


@pytest.mark.parametrize(
    ("cell", "wanted", "status", "said"),
    [
        (0.0, 0.5, Status.INFEASIBLE, r"the target is positive where M has no samples, at M\[1, 0\]"),
        (np.nan, 0.5, Status.INVALID, r"NaN value at M\[1, 0\]"),
        (-1.0, 0.5, Status.INVALID, r"negative value at M\[1, 0\]"),
        (1.0, np.inf, Status.INVALID, r"infinite value at target\[1, 0\]"),
        (0.0, -0.5, Status.INVALID, r"negative value at target\[1, 0\]"),
        (1e-200, 1e200, Status.RANGE, "a weight leaves the range of the result"),
    ],
)
def test_a_target_out_of_reach_is_said_and_spoils_no_other(cell, wanted, status, said):
    M, target = np.ones((3, 2, 2)), np.full((3, 2, 2), 0.25)
    M[1, 1, 0], target[1, 1, 0] = cell, wanted
    with pytest.warns(FailureWarning, match=rf"^importance_weights: {status.name} \(element 1 of 3\): {said}$"):
        found = cmfast.importance_weights(M, target=target)
    assert np.isnan(found[1]).all()
    assert (found[[0, 2]] == 0.25).all()
    with pytest.raises(FailureError) as caught:
        cmfast.importance_weights(M, target=target, on_failure="raise")
    assert caught.value.status.tolist() == [0, status, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = cmfast.importance_weights(M[1], target=target[1], **QUIET)
    assert np.isnan(alone).all()


def test_what_does_not_go_with_a_target():
    M, ticks = np.ones((2, 2)), []
    with pytest.raises(TypeError, match=r"^importance_weights: pass method or target, not both, got method 'row'"):
        cmfast.importance_weights(M, "row", target=M)
    with pytest.raises(TypeError, match=r"^importance_weights: target has no option 'tol'"):
        cmfast.importance_weights(M, target=M, tol=1e-3)
    with pytest.raises(TypeError, match=r"^importance_weights: method or target must be given"):
        cmfast.importance_weights(M)
    with pytest.raises(ValueError, match=r"^importance_weights: target must be matrices of shape \(2, 2\) as M"):
        cmfast.importance_weights(M, target=np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"^importance_weights: batch shapes do not broadcast"):
        cmfast.importance_weights(np.ones((2, 2, 2)), target=np.ones((3, 2, 2)))
    with pytest.raises(TypeError, match=r"^importance_weights: arrays must come from one library"):
        cmfast.importance_weights(M, target=torch.ones(2, 2))
    cmfast.importance_weights(np.ones((3, 2, 2)), target=M, progress=lambda done, total: ticks.append((done, total)))
    assert ticks == [(3, 3)]


# Shapes, types, bits


@pytest.mark.exhaustive
@both_functions
@every_method
@pytest.mark.parametrize(("dtype", "found"), [("f4", "f4"), ("f2", "f8"), ("f8", "f8"), ("i8", "f8"), ("?", "f8")])
def test_the_shape_stays_and_only_float32_gives_float32(function, method, dtype, found):
    M = np.ones((2, 3, 4, 4), dtype)
    got = function(M, method)
    assert (got.shape, got.dtype) == (M.shape, np.dtype(found))
    assert (M == 1).all()


@both_functions
@every_method
def test_no_matrices_no_results(function, method):
    assert_same_bits(function(np.empty((0, 3, 3)), method), np.empty((0, 3, 3)))


@pytest.mark.parametrize(("name", "same"), [("true", "row"), ("pred", "col")])
@both_functions
def test_a_method_may_go_by_two_names(function, name, same):
    M = [[8, 2], [1, 3]]
    assert_same_bits(function(M, name), function(M, same))


def test_bi_normalize_is_a_method_of_normalize(rng):
    M = rng.random((3, 4, 4)) + 0.1
    assert_same_bits(cmfast.bi_normalize(M, tol=1e-12), cmfast.normalize(M, "bi", tol=1e-12))


@pytest.mark.parametrize("method", ["all", "row", "col"])
@both_functions
def test_what_is_empty_stays_zero_and_is_no_failure(function, method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = function([[0, 0], [0, 0]], method)
    assert_same_bits(got, np.zeros((2, 2)))


@both_functions
@pytest.mark.parametrize("method", ["all", "row", "col", "bi"])
def test_normalising_gives_the_same_bits_for_any_threads_and_any_order(function, method):
    rng = np.random.default_rng(10)
    M = rng.random((20_000, 4, 4)) + 1e-3
    M[3, 1, 1] = np.nan
    first = function(M, method, num_threads=1, **QUIET)
    for n in (2, 5, 8):
        assert first.tobytes() == function(M, method, num_threads=n, **QUIET).tobytes()
    order = rng.permutation(len(M))
    assert first[order].tobytes() == function(M[order], method, **QUIET).tobytes()
    assert first[2].tobytes() == function(M[2], method).tobytes()


# What is no matrix, or no option


@both_functions
@every_method
@pytest.mark.parametrize(
    ("M", "error", "said"),
    [
        (None, TypeError, "M must"),
        ([[1j]], TypeError, "M must"),
        ([["a"]], TypeError, "M must be real numbers"),
        ([1, 2], ValueError, "M must be of shape"),
    ],
)
def test_the_argument_at_fault_is_named(function, method, M, error, said):
    with pytest.raises(error, match=f"^{function.__name__}: .*{said}"):
        function(M, method)


@both_functions
def test_wrong_options_of_a_method(function):
    name = function.__name__
    with pytest.raises(ValueError, match=f"{name}: method must be one of 'all', 'row', 'true'.*got 'rows'"):
        _ = function(np.ones((2, 2)), "rows")
    with pytest.raises(TypeError, match=f"{name}: method 'row' has no option 'tol'"):
        _ = function(np.ones((2, 2)), "row", tol=1e-3)
    with pytest.raises(TypeError, match=f"{name}: method 'bi' has no option 'tool'"):
        _ = function(np.ones((2, 2)), "bi", tool=1e-3)
    with pytest.raises(ValueError, match=f"{name}: M must be square"):
        _ = function(np.ones((2, 3)), "bi")


@both_functions
@every_method
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1])
def test_a_bad_matrix_spoils_no_other(function, method, bad):
    M = np.ones((3, 2, 2)) + np.eye(2)
    good = function(M, method)
    M[1, 0, 1] = bad
    with pytest.warns(FailureWarning, match=rf"^{function.__name__}: INVALID \(element 1 of 3\): .* M\[0, 1\]$"):
        got = function(M, method)
    assert np.isnan(got[1]).all()
    assert_same_bits(got[[0, 2]], good[[0, 2]])
    with pytest.raises(FailureError) as caught:
        function(M, method, on_failure="raise")
    assert caught.value.status.tolist() == [Status.CONVERGED, Status.INVALID, Status.CONVERGED]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same_bits(function(M, method, **QUIET), got)
