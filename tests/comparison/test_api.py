"""What callers rely on when they compare matrices: laws, shapes, types, and which argument is at fault."""

import warnings

import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cmfast
from cmfast import FailureError, FailureWarning, Status

FUNCTIONS = [cmfast.overlap, cmfast.l1_distance, cmfast.kl_divergence]
SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=5)
every_function = pytest.mark.parametrize("function", FUNCTIONS)


def several(n):
    """Return a strategy of `n` matrices of one shape, each with some mass."""
    cells = st.floats(1e-3, 1e3)
    return SHAPES.flatmap(lambda shape: st.tuples(*[hnp.arrays(np.float64, shape, elements=cells)] * n))


# Order of operations


def in_order(M):
    """Return the cells as shares of their sum, which is added up in the order of memory; None of an invalid matrix."""
    cells, total = [float(x) for x in M.ravel()], 0.0
    for x in cells:
        total += x
    return [x / total for x in cells] if min(cells) >= 0 and 0 < total < np.inf else None


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 19])
def test_sums_are_in_the_order_of_the_cells_for_any_number_of_pairs(n, rng):
    S, T = rng.exponential(size=(2, n, 3, 4)) * 10.0 ** rng.integers(-8, 8, (2, n, 3, 4))
    for k, bad in enumerate((np.nan, -1.0, np.inf, 0.0, 1e308)):
        S[3 * k + 1 :: 15, 1 : 1 + 2 * (bad != 0), 2] = bad
        T[3 * k + 2 :: 15] = bad
    for other in (T, T[:1]):
        overlaps, distances = [], []
        for s, t in zip(S, np.broadcast_to(other, S.shape), strict=True):
            p, q = in_order(s), in_order(t)
            pairs = None if p is None or q is None else list(zip(p, q, strict=True))
            overlap, distance = (0.0, 0.0) if pairs else (np.nan, np.nan)
            for x, y in pairs or ():
                overlap += min(x, y)
                distance += abs(x - y)
            overlaps.append(min(overlap, 1.0) if pairs else np.nan)
            distances.append(distance)
        assert_same_bits(cmfast.overlap(S, other, on_failure="ignore"), np.array(overlaps))
        assert_same_bits(cmfast.l1_distance(S, other, on_failure="ignore"), np.array(distances))


@pytest.mark.parametrize("shape", [(1, 1), (5, 6), (4, 8), (3, 11), (7, 10)])
def test_terms_of_divergences_are_in_the_order_of_the_cells(shape, rng):
    """Pairs in lanes have the bits of a pair alone, also with cells that are nearly equal, or 0 in the first matrix."""
    S = rng.exponential(size=(19, *shape))
    T = S * rng.choice([1.0, 1.0 + 1e-9, 1.009, 1.02, 3.0], S.shape)
    S[rng.random(S.shape) < 0.2] = 0.0
    S[:, 0, 0], T[4, -1, -1], T[5], S[6, 0, 0] = 1.0, 0.0, 0.0, np.nan
    for n in (2, 3, 8, 9, 19):
        alone = [cmfast.kl_divergence(s, t, on_failure="ignore") for s, t in zip(S[:n], T[:n], strict=True)]
        assert_same_bits(cmfast.kl_divergence(S[:n], T[:n], on_failure="ignore"), np.array(alone))


# Laws


@given(several(2))
def test_what_two_matrices_share_and_how_far_they_are_apart_are_one_number(pair):
    S, T = pair
    shared, distance = cmfast.overlap(S, T), cmfast.l1_distance(S, T)
    assert 0 <= shared <= 1 + 1e-15
    assert 0 <= distance <= 2
    np.testing.assert_allclose(shared, 1 - distance / 2, rtol=0, atol=1e-14)
    assert_same_bits(shared, cmfast.overlap(T, S))
    assert_same_bits(distance, cmfast.l1_distance(T, S))


@given(several(3))
def test_a_detour_is_no_shorter(three):
    S, T, U = three
    assert cmfast.l1_distance(S, U) <= cmfast.l1_distance(S, T) + cmfast.l1_distance(T, U) + 1e-14


@given(several(2))
def test_divergence_is_at_least_what_pinsker_says(pair):
    assert cmfast.kl_divergence(*pair) >= cmfast.l1_distance(*pair) ** 2 / 2 - 1e-14


@every_function
@given(pair=several(2), powers=st.tuples(st.integers(-200, 200), st.integers(-200, 200)))
def test_totals_do_not_matter(function, pair, powers):
    moved = (np.ldexp(matrix, power) for matrix, power in zip(pair, powers, strict=True))
    assert_same_bits(function(*moved), function(*pair))


@every_function
@given(pair=several(2))
def test_names_of_classes_do_not_matter(function, pair):
    S, T = pair
    np.testing.assert_allclose(function(S[::-1, ::-1], T[::-1, ::-1]), function(S, T), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(function(S.T, T.T), function(S, T), rtol=1e-12, atol=1e-14)


@given(several(1))
def test_a_matrix_is_like_itself(one):
    (S,) = one
    np.testing.assert_allclose(cmfast.overlap(S, S), 1, rtol=1e-14)
    assert cmfast.l1_distance(S, S) == 0
    assert cmfast.kl_divergence(S, S) == 0


def test_a_cell_that_the_other_never_has():
    """Nothing in common is an answer; surprise without bound is one too, and no failure."""
    S, T = np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (cmfast.overlap(S, T), cmfast.l1_distance(S, T), cmfast.kl_divergence(S, T)) == (0, 2, np.inf)
        assert cmfast.kl_divergence(S, np.eye(2)) == np.log(2)


# Shapes and types


@every_function
def test_batches_broadcast_and_each_pair_is_as_if_alone(rng, function):
    S, T = rng.random((5, 1, 3, 4)), rng.random((2, 3, 4))
    got = function(S, T)
    assert got.shape == (5, 2)
    for index in np.ndindex(5, 2):
        assert_same_bits(got[index], function(S[index[0], 0], T[index[1]]))
    assert_same_bits(got, function(S, T, num_threads=1))


@every_function
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3, 3)])
def test_no_pairs_no_results(function, shape):
    assert_same_bits(function(np.ones(shape), np.ones(shape)), np.empty(shape[:-2]))


@pytest.mark.exhaustive
@every_function
@pytest.mark.parametrize(
    ("first", "second", "found"),
    [("f4", "f4", "f4"), ("f4", "f8", "f8"), ("f4", "i4", "f8"), ("i8", "u1", "f8"), ("?", "?", "f8")],
)
def test_only_float32_gives_float32(function, first, second, found):
    M = np.array([[1, 1], [0, 1]])
    assert function(M.astype(first), M.astype(second)).dtype == found


@every_function
def test_lists_are_arrays(function):
    assert_same_bits(function([[1, 2]], [[2, 1]]), function(np.array([[1, 2]]), np.array([[2, 1]])))


# What is no pair of matrices


@every_function
@pytest.mark.parametrize(
    ("first", "second", "error", "said"),
    [
        (None, [[1]], TypeError, "{0} must"),
        ([[1]], None, TypeError, "{1} must"),
        ([[1j]], [[1]], TypeError, "{0} must"),
        ([[1]], [["a"]], TypeError, "{1} must"),
        ([1, 2], [[1, 2]], ValueError, "{0} must be of shape"),
        ([[1, 2]], [[1], [2]], ValueError, "{1}"),
        (np.ones((2, 3, 3)), np.ones((4, 3, 3)), ValueError, "batch shapes do not broadcast"),
    ],
)
def test_the_argument_at_fault_is_named(function, first, second, error, said):
    names = ("A", "B")
    with pytest.raises(error, match=f"^{function.__name__}: .*{said.format(*names)}"):
        function(first, second)


@every_function
@pytest.mark.parametrize(
    ("bad", "status"),
    [(np.nan, Status.INVALID), (np.inf, Status.INVALID), (-1, Status.INVALID), (0, Status.ZERO_LINE)],
)
def test_a_bad_pair_spoils_no_other(function, bad, status):
    S, T = np.ones((3, 2, 2)), np.ones((3, 2, 2)) + np.eye(2)
    good = function(S, T)
    S[1] = bad
    said = rf"^{function.__name__}: 1 of 3 pairs of matrices not compared \(first: 1\): 1 {status.name}$"
    with pytest.warns(FailureWarning, match=said):
        got = function(S, T)
    assert np.isnan(got[1])
    assert_same_bits(got[[0, 2]], good[[0, 2]])
    with pytest.raises(FailureError) as caught:
        function(S, T, on_failure="raise")
    assert caught.value.status.tolist() == [Status.CONVERGED, status, Status.CONVERGED]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same_bits(function(S, T, on_failure="ignore"), got)
