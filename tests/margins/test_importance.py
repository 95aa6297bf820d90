"""Margins that need not be met: one answer for any order, hard and soft ones together, the hard answer in the limit."""

from itertools import permutations

import numpy as np
import pytest
from cases.margins import PAIRS, margins_of, table

import cmfast
from cmfast import Status


def noisy(n=8, sd=0.05, seed=0):
    """Return a table, and margins that contradict each other: those of one table, each line off by itself."""
    M = table((n, n, n), seed)
    rng = np.random.default_rng(seed)
    of_one = margins_of(M * table(M.shape, seed + 1), PAIRS)
    return M, [(of, t * np.exp(rng.normal(0.0, sd, t.shape))) for of, t in zip(PAIRS, of_one, strict=True)]


def spent(x, q):
    """Return the divergence of x from q."""
    return np.sum(np.where(x > 0, x * np.log(np.where(x > 0, x, 1) / q), 0.0) - x + q)


def cost(T, M, margins, importance):
    """Return what a table costs: its divergence, and that of margins that are missed."""
    missed = [p * spent(margins_of(T, [of])[0], m) for (of, m), p in zip(margins, importance, strict=True)]
    return spent(T, M) + sum(missed)


@pytest.mark.parametrize("p", [0.1, 1.0, 1e3, 1e6])
def test_contradictions_have_one_answer(p):
    M, margins = noisy()
    assert cmfast.ipf_nd(M, margins, on_failure="ignore").status == Status.TOTALS
    found = [cmfast.ipf_nd(M, list(some), importance=p) for some in permutations(margins)]
    for result in found:
        assert result.status == Status.CONVERGED
        assert result.n_iter <= 16
        np.testing.assert_allclose(result.table, found[0].table, rtol=1e-7)


def test_no_other_table_costs_less():
    M, margins = noisy(4, 0.3)
    rng = np.random.default_rng(0)
    importance = [2.0, 0.3, 10.0]
    best = cmfast.ipf_nd(M, margins, importance=importance, tol=1e-13).table
    least = cost(best, M, margins, importance)
    for k in range(100):
        other = best * np.exp(10.0 ** -(k % 5) * rng.normal(size=M.shape))
        assert cost(other, M, margins, importance) >= least * (1 - 1e-14)


def test_what_must_be_met_is_met_and_bears_what_is_soft():
    M, margins = noisy(5)
    for hard in range(3):
        importance = [np.inf if k == hard else 3.0 for k in range(3)]
        result = cmfast.ipf_nd(M, margins, importance=importance, tol=1e-12)
        assert result.status == Status.CONVERGED
        np.testing.assert_allclose(result.achieved[hard], margins[hard][1], rtol=1e-10)
        for k in {0, 1, 2} - {hard}:
            softened = margins[k][1] * result.factors[k] ** (-1 / 3.0)
            np.testing.assert_allclose(result.achieved[k], softened, rtol=1e-10)
            assert (np.abs(result.achieved[k] / margins[k][1] - 1) > 1e-3).any()


def test_importance_goes_over_into_what_must_be_met():
    M = table((4, 5, 3), 2, 0.2)
    margins = list(zip(PAIRS, margins_of(M * table(M.shape, 3), PAIRS), strict=True))
    hard = cmfast.ipf_nd(M, margins, tol=1e-13)
    off = []
    for p in (1e3, 1e5, 1e7):
        soft = cmfast.ipf_nd(M, margins, importance=p, tol=1e-13)
        some = M > 0
        off.append(np.abs(soft.table[some] / hard.table[some] - 1).max())
    np.testing.assert_allclose([off[0] / off[1], off[1] / off[2]], 100.0, rtol=0.2)
    same = cmfast.ipf_nd(M, margins, importance=[np.inf] * 3, tol=1e-13)
    assert same.table.tobytes() == hard.table.tobytes()


def test_zeros_that_hard_margins_forbid_are_no_matter_to_soft_ones():
    M = np.ones((2, 2, 2))
    M[0, 0] = 0.0  # a line whose target is positive
    targets = [np.array(t) for t in ([[2.0, 3.0], [4.0, 5.0]], [[2.5, 2.5], [4.5, 4.5]], [[3.0, 3.0], [4.0, 4.0]])]
    margins = list(zip(PAIRS, targets, strict=True))
    assert cmfast.ipf_nd(M, margins, on_failure="ignore").status == Status.ZERO_LINE
    result = cmfast.ipf_nd(M, margins, importance=[5.0, np.inf, np.inf], tol=1e-12)
    assert result.status == Status.CONVERGED
    assert result.achieved[0][0, 0] == 0.0
    np.testing.assert_allclose(result.achieved[1], targets[1])


def test_hard_margins_beside_soft_ones_can_still_be_impossible():
    same, other = np.eye(2) + 1e-3, np.eye(2)[::-1] + 1e-3
    margins = [((0, 1), same), ((1, 2), same), ((0, 2), other), (0, [9.0, 1.0])]
    hard = [np.inf] * 3
    assert cmfast.ipf_nd(np.ones((2, 2, 2)), margins, importance=[*hard, 1.0], on_failure="ignore").status == 3
    for k in range(3):
        soft = [1.0 if j == k else np.inf for j in range(3)]
        assert cmfast.ipf_nd(np.ones((2, 2, 2)), margins, importance=[*soft, 1.0]).status == Status.CONVERGED


def test_zeros_forced_by_hard_margins_are_proved_beside_soft_ones():
    M = np.array([[1.0, 1.0], [0.0, 1.0]])
    with pytest.warns(cmfast.FailureWarning, match=r"LIMIT_ONLY.* sets the cell \[0, 1\] to zero"):
        result = cmfast.ipf_nd(M, [(0, [1.0, 1.0]), (1, [1.0, 1.0]), ((), 5.0)], importance=[np.inf, np.inf, 2.0])
    np.testing.assert_allclose(result.table, np.eye(2), atol=1e-15)


def test_neighbours_threads_and_lists_change_no_bit():
    for n in (4, 9):
        M, margins = noisy(n)
        both = np.stack([M, 3 * M])
        alone = cmfast.ipf_nd(M, margins, importance=[1.0, 2.0, np.inf])
        coords = np.indices(M.shape).reshape(3, -1)
        for num_threads in (1, 2):
            many = cmfast.ipf_nd(both, margins, importance=[1.0, 2.0, np.inf], num_threads=num_threads)
            assert many.table[0].tobytes() == alone.table.tobytes()
            listed = cmfast.ipf_cells(both.reshape(2, -1), coords, margins, importance=[1.0, 2.0, np.inf])
            assert listed.table.tobytes() == many.table.tobytes()
