"""Controlled rounding: sums, means of draws, tables of more axes, what is missed."""

import numpy as np
import pytest
from cases.margins import PAIRS, margins_of

import cmfast
from cmfast import Status


def assert_next_to(found, wanted):
    """Integers that differ from numbers by less than one; what is an integer, but for rounding, is itself."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found == np.rint(found)).all()
    assert (np.abs(found - wanted) < 1.0 + 1e-6).all()
    whole = np.abs(wanted - np.rint(wanted)) < 1e-7
    np.testing.assert_array_equal(found[whole], np.rint(wanted)[whole])


def assert_rounded(found, T, axes):
    assert_next_to(found, T)
    for one, other in zip(margins_of(found, axes), margins_of(T, axes), strict=True):
        assert_next_to(one, other)


@pytest.mark.parametrize("rng", [None, 3])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 3), (40, 60)])
def test_every_sum_of_a_matrix_is_rounded(shape, rng):
    T = 5.0 * np.random.default_rng(1).random(shape)
    result = cmfast.round_to_margins(T, rng=rng)
    assert (result.status, result.miss) == (Status.CONVERGED, 0.0)
    assert_rounded(result.table, T, [(0,), (1,), ()])


@pytest.mark.parametrize("rng", [None, 3])
def test_sums_that_were_scaled_to_are_kept(rng):
    generator = np.random.default_rng(2)
    rows, cols = np.full(30, 20.0), np.full(20, 30.0)
    T = cmfast.ipf(generator.random((30, 20)), rows, cols).matrix
    found = cmfast.round_to_margins(T, rng=rng).table
    np.testing.assert_array_equal(found.sum(1), rows)
    np.testing.assert_array_equal(found.sum(0), cols)
    assert_next_to(found, T)


@pytest.mark.exhaustive
def test_the_mean_of_draws_is_the_matrix():
    T = np.random.default_rng(4).random((3, 4)) * 2.0
    T[1, 2] = 1.0
    drawn = cmfast.round_to_margins(np.broadcast_to(T, (20_000, 3, 4)), rng=5).table
    assert np.abs(drawn.mean(0) - T).max() < 5 * np.sqrt(0.25 / 20_000)
    np.testing.assert_array_equal(drawn[:, 1, 2], 1.0)


def test_draws_are_those_of_the_seed_and_not_of_threads():
    T = np.random.default_rng(6).random((50, 6, 6))
    found = cmfast.round_to_margins(T, rng=7, num_threads=1).table
    for again in (cmfast.round_to_margins(T, rng=7), cmfast.round_to_margins(T, rng=np.random.default_rng(7))):
        np.testing.assert_array_equal(again.table, found)
    assert (cmfast.round_to_margins(T, rng=8).table != found).any()
    np.testing.assert_array_equal(cmfast.round_to_margins(T[:9], rng=7).table, found[:9])


@pytest.mark.parametrize("rng", [None, 0])
@pytest.mark.parametrize("axes", [((0,), (1,), (2,)), PAIRS, ((0, 1), (2,))])
def test_tables_of_three_axes(axes, rng):
    generator = np.random.default_rng(9)
    for n in (2, 4, 6):
        T = 4.0 * generator.random((n, n, n))
        result = cmfast.round_to_margins(T, axes=list(axes), rng=rng)
        assert result.miss == 0.0
        assert_rounded(result.table, T, axes)


def test_what_is_missed_is_reported():
    """Of pairs that only one table has: a half in every cell, each line of two asks for one of them."""
    generator = np.random.default_rng(10)
    cells = generator.random((5, 5, 5))
    T = cells / cells.sum(2, keepdims=True)
    T = cmfast.ipf_nd(T, [((0, 1), np.ones((5, 5))), ((0, 2), np.ones((5, 5))), ((1, 2), np.ones((5, 5)))]).table
    found = [cmfast.round_to_margins(T, axes=list(PAIRS), rng=seed, on_failure="ignore") for seed in range(8)]
    for result in found:
        sums = margins_of(result.table, PAIRS)
        miss = max(np.abs(line - 1.0).max() for line in sums)
        assert result.miss == miss
        assert result.status == (Status.MAX_ITER if miss else Status.CONVERGED)
        assert_next_to(result.table, T)
    some = next(seed for seed, result in enumerate(found) if result.miss > 0)
    with pytest.warns(cmfast.FailureWarning, match=r"round_to_margins: MAX_ITER: some sums are up to 1 away"):
        cmfast.round_to_margins(T, axes=list(PAIRS), rng=some)


def test_bad_values_are_named_and_touch_no_other():
    T = np.full((3, 2, 2), 0.5)
    T[1, 0, 1] = np.nan
    with pytest.warns(cmfast.FailureWarning, match=r"INVALID \(element 1 of 3\): NaN value at M\[0, 1\]"):
        result = cmfast.round_to_margins(T)
    assert result.status.tolist() == [0, Status.INVALID, 0]
    assert np.isnan(result.table[1]).all()
    assert np.isnan(result.miss[1])
    with pytest.warns(cmfast.FailureWarning, match=r"INVALID: NaN value at M\[0, 1\]"):
        cmfast.round_to_margins(T[1])
    with pytest.raises(ValueError, match="of shape"):
        cmfast.round_to_margins(np.ones(3))


def test_a_result_with_a_table_is_taken_as_the_table():
    M = np.arange(1.0, 7.0).reshape(2, 3)
    for result in (cmfast.ipf(M, [3.0, 4.0], [2.0, 2.0, 3.0]), cmfast.ipf_nd(M, [(1, [2, 2, 3])])):
        found = cmfast.round_to_margins(result)
        assert found.status == cmfast.Status.CONVERGED
        np.testing.assert_array_equal(found.table, cmfast.round_to_margins(result[0]).table)
    with pytest.raises(TypeError, match=r"M must be an array, got a Support of several: "):
        cmfast.round_to_margins(cmfast.support([[1, 1], [0, 1]]))
