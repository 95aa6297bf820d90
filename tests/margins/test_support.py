"""What zeros allow, for any margins: verdicts against a linear program, every proof checked again in integers."""

import collections

import numpy as np
import pytest
from cases.margins import PAIRS, margins_of
from oracle.margins import spread, verdict

import cmfast
from cmfast import Status

pytestmark = pytest.mark.exhaustive

CHAIN = ((0, 1), (1, 2), (0, 2))
MARGINS = {2: (((0,), (1,)),), 3: (PAIRS, ((0, 1), (2,)), ((0, 1), (1, 2)), ((0,), (1,), (2,)), ((0, 1), (0, 2), (1,)))}
MARGINS |= {4: (((0, 1), (1, 2), (2, 3), (0, 3)), ((0, 1, 2), (1, 2, 3)), ((0, 1), (2, 3), (0, 2), (1, 3)))}


def problems(number, seed):
    """Yield small tables of zeros and ones, and margins that are integers: of it, of a part, of others."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        ndim = int(rng.choice([2, 3, 3, 3, 4]))
        shape = tuple(rng.integers(2, 5 if ndim < 4 else 4, ndim))
        axes = PAIRS if ndim == 3 and rng.random() < 0.5 else MARGINS[ndim][rng.integers(len(MARGINS[ndim]))]
        M = (rng.random(shape) < rng.choice([0.4, 0.6, 0.8, 1.0])).astype(float)
        kind = rng.integers(4)
        some = [M, M * (rng.random(shape) < 0.7), rng.random(shape) < 0.6, M][kind]
        T = some * rng.integers(1, 10, shape)
        if kind == 3 and ndim > 2:  # two cells of one line of every margin but some are given to others
            T = np.maximum(T - 1, 0) + (rng.random(shape) < 0.1)
        yield M, axes, [m.astype(float) for m in margins_of(T, axes)]


def lines_of(proof, axes, shape):
    """Return what cells add up to by the numbers of their lines, as integers of any length."""
    whole = [np.vectorize(int, otypes=[object])(part) for part in proof]
    assert all((one == part).all() for one, part in zip(whole, proof, strict=True))
    z = np.zeros(shape, object)
    for part, of in zip(whole, axes, strict=True):
        z = z + spread(part, of, len(shape))
    return whole, z


def assert_proved(found, M, axes, targets):
    """Assert in integers that a proof is one."""
    whole, z = lines_of(found.proof, axes, M.shape)
    alive = M > 0
    for target, of in zip(targets, axes, strict=True):
        alive &= spread(target, of, M.ndim) != 0
    asked = sum(
        (np.nan_to_num(target).astype(int).astype(object) * part).sum()
        for target, part in zip(targets, whole, strict=True)
    )
    assert (z[alive] <= 0).all()
    if found.status == Status.LIMIT_ONLY:
        assert asked == 0
        assert (z[found.dead_cells] < 0).all()
        assert found.asked == found.carried
    else:
        assert asked > 0
        assert found.asked - found.carried == asked


def assert_right(number, seed=1):
    """Assert that verdicts and dead cells are those of the program, and proofs right; return how many there are."""
    counted = collections.Counter()
    for M, axes, targets in problems(number, seed):
        found = cmfast.support_nd(M, list(zip(axes, targets, strict=True)), ndim=M.ndim)
        wanted, dead = verdict(M, targets, axes)
        assert found.status == wanted
        np.testing.assert_array_equal(found.dead_cells, dead)
        if wanted != Status.CONVERGED:
            assert_proved(found, M, axes, targets)
        else:
            assert np.isnan(found.asked)
        assert found.explain()
        counted[Status(wanted).name] += 1
    return counted


def test_verdicts_are_those_of_a_linear_program_and_proofs_are_right():
    counted = assert_right(400)
    assert set(counted) == {"CONVERGED", "LIMIT_ONLY", "INFEASIBLE", "ZERO_LINE"}
    assert min(counted.values()) >= 10


@pytest.mark.slow
def test_many_verdicts_are_those_of_a_linear_program_and_proofs_are_right():
    assert assert_right(8000, 2).total() == 8000


def assert_right_with_lines_that_ask_nothing(number, seed):
    """Assert that verdicts and dead cells are those of the program where some targets are NaN; return their counts."""
    rng = np.random.default_rng(seed)
    counted = collections.Counter()
    for M, axes, targets in problems(number, seed):
        free = [np.where(rng.random(m.shape) < 0.3, np.nan, m) for m in targets]
        margins = list(zip(axes, free, strict=True))
        found = cmfast.support_nd(M, margins, ndim=M.ndim)
        wanted, dead = verdict(M, free, axes)
        assert found.status == wanted
        np.testing.assert_array_equal(found.dead_cells, dead)
        if wanted != Status.CONVERGED:
            assert_proved(found, M, axes, free)
        fitted = cmfast.ipf_nd(M, margins, ndim=M.ndim, on_failure="ignore")
        assert fitted.status == wanted
        if wanted == Status.LIMIT_ONLY:
            np.testing.assert_array_equal(fitted.table[dead], 0.0)
        counted[Status(wanted).name] += 1
    return counted


def test_lines_that_ask_nothing_hide_no_cell_that_must_vanish():
    counted = assert_right_with_lines_that_ask_nothing(300, seed=3)
    assert counted["LIMIT_ONLY"] >= 15
    M = [[0, 0, 1], [1, 1, 1], [1, 0, 1]]
    rows, columns = [2.0, np.nan, 3.0], [3.0, np.nan, 2.0]
    found = cmfast.support_nd(M, [(0, rows), (1, columns)])
    assert found.status == Status.LIMIT_ONLY
    assert np.argwhere(found.dead_cells).tolist() == [[1, 0], [1, 2], [2, 2]]
    fitted = cmfast.ipf_nd(M, [(0, rows), (1, columns)], on_failure="ignore")
    assert fitted.status == Status.LIMIT_ONLY
    np.testing.assert_array_equal(fitted.table, [[0, 0, 2], [0, 1, 0], [3, 0, 0]])


def test_says_what_is_proved():
    same, other = [[3, 1], [1, 3]], [[1, 3], [3, 1]]
    M = np.ones((2, 2, 2))
    found = cmfast.support_nd(M, [((0, 1), same), ((1, 2), same), ((0, 2), other)])
    assert found.status == Status.INFEASIBLE
    assert "asks 3, but all of its cells lie in margins[" in found.explain()
    assert found.explain().endswith(" as well, which together carry 2")
    assert found.asked > found.carried
    limit = cmfast.support_nd([[1, 1], [0, 1]], [(0, [1, 1]), (1, [1, 1])])
    assert limit.dead_cells.tolist() == [[False, True], [False, False]]
    assert repr(limit) == "<MarginsSupport: of 2 x 2, margins 2, status LIMIT_ONLY, dead cells 1>"
    empty = cmfast.support_nd([[0, 0], [1, 1]], [(0, [2, 1]), (1, [1, 2])])
    assert empty.explain() == "margins[0][0] asks 2 but has no positive cell"
    fine = cmfast.support_nd(M, [((0, 1), same)], ndim=3)
    assert fine.explain() == "a table with these margins exists that is positive wherever this one is"
    off = cmfast.support_nd(M, [(0, [1, 1]), (1, [1, 2])], ndim=3)
    assert off.explain() == "two margins disagree on the axes that they share, or on the total"


def test_only_zeros_matter_and_neighbours_do_not():
    rng = np.random.default_rng(0)
    M = np.array([[[1.0, 1.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, np.nan]]])
    margins = [(0, np.ones(2)), (1, np.ones(2))]
    for num_threads in (1, 2):
        found = cmfast.support_nd(M * 10.0 ** rng.integers(-200, 200, M.shape), margins, num_threads=num_threads)
        assert found.status.tolist() == [Status.LIMIT_ONLY, Status.CONVERGED, Status.INVALID]
        alone = cmfast.support_nd(M[0], margins)
        assert found.proof[0][0].tobytes() == alone.proof[0].tobytes()
        assert found.explain() == "1 CONVERGED, 1 LIMIT_ONLY, 1 INVALID"


def test_agrees_with_flows_on_two_margins():
    rng = np.random.default_rng(4)
    for _ in range(60):
        M = (rng.random((5, 6)) < 0.45).astype(float)
        T = (rng.random((5, 6)) < 0.5) * rng.integers(1, 9, (5, 6)) * (M if rng.random() < 0.6 else 1)
        u, v = T.sum(1).astype(float), T.sum(0).astype(float)
        one, other = cmfast.support_nd(M, [(0, u), (1, v)]), cmfast.support(M, u, v)
        assert one.status == other.status
        np.testing.assert_array_equal(one.dead_cells, other.dead_cells)


def test_larger_tables():
    rng = np.random.default_rng(7)
    M = (rng.random((12, 12, 12)) < 0.25).astype(float)
    part = M * (rng.random(M.shape) < 0.9) * rng.integers(1, 20, M.shape)
    targets = [m.astype(float) for m in margins_of(part, PAIRS)]
    found = cmfast.support_nd(M, list(zip(PAIRS, targets, strict=True)))
    wanted, dead = verdict(M, targets, PAIRS)
    assert found.status == wanted
    np.testing.assert_array_equal(found.dead_cells, dead)
    if wanted != Status.CONVERGED:
        assert_proved(found, M, PAIRS, targets)
