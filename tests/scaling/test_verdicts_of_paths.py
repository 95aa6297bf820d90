"""CONVERGED by every path is said of each line, and by all but plain sweeps of each cell; see ``spread_tables.py``."""

import collections

import numpy as np
import pytest
import scipy.sparse
import spread_tables
from scaling_paths import AUTO, PATHS, SWEEPS

import cmfast
from cmfast import Status

pytestmark = pytest.mark.exhaustive

TRUE = {Status.CONVERGED, Status.UNDETERMINED, Status.MAX_ITER}
SHORT = {family: 60 if spread_tables.is_quick(family) else 3 for family in spread_tables.FAMILIES}


def assert_right(path, family, number, seed):
    status, lines, cells, worst = spread_tables.judge(family, number, seed, PATHS[path])
    assert (lines, cells) == (0, 0), worst
    assert (status == Status.CONVERGED).mean() >= 0.9
    assert set(status.tolist()) <= TRUE


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("family", spread_tables.FAMILIES)
def test_no_line_and_no_cell_is_wrong(family, path):
    assert_right(path, family, SHORT[family], 11)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("family", spread_tables.FAMILIES)
def test_no_line_and_no_cell_of_many_is_wrong(family, path):
    assert_right(path, family, 3_000 if spread_tables.is_quick(family) else 100, 12)


def assert_large_are_right(kind, path, number, seed):
    """Assert it of tables of 30 to 200 lines, of which Newton's method and plain sweeps take other paths than small."""
    found, scale = set(), ({"auto": AUTO} | PATHS | SWEEPS)[path]
    for size in spread_tables.SIZES:
        status, lines, cells, worst = spread_tables.judge_planted(kind, size, number, seed, scale)
        assert (lines, cells) == (0, 0) or (path in SWEEPS and not lines), (size, worst)
        found |= set(status.tolist())
    assert found <= (TRUE if path in SWEEPS else {Status.CONVERGED, Status.UNDETERMINED})
    assert Status.CONVERGED in found or path in SWEEPS


@pytest.mark.parametrize("path", ["auto", *PATHS, *SWEEPS])
@pytest.mark.parametrize("kind", spread_tables.KINDS)
def test_no_line_and_no_cell_of_a_large_table_is_wrong(kind, path):
    assert_large_are_right(kind, path, 1, 14)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["auto", *PATHS, *SWEEPS])
@pytest.mark.parametrize("kind", spread_tables.KINDS)
def test_no_line_and_no_cell_of_many_large_tables_is_wrong(kind, path):
    assert_large_are_right(kind, path, 20, 15)


def test_the_check_of_large_tables_sees_a_wrong_line_and_a_wrong_cell():
    def scaled(change):
        def scale(M, u, v):
            P, status = AUTO(M, u, v)
            change(P[1])
            return P, status

        return scale

    def raise_largest(P):
        P.flat[P.argmax()] *= 1 + 1e-3

    def swap(P):  # the same sums
        P[:2, :2] += np.array([[1, -1], [-1, 1]]) * 0.1 * P[:2, :2].min()

    size = spread_tables.SIZES[0]
    assert spread_tables.judge_planted("any", size, 3, 0, AUTO)[1:3] == (0, 0)
    assert spread_tables.judge_planted("any", size, 3, 0, scaled(raise_largest))[1:3] == (1, 1)
    assert spread_tables.judge_planted("any", size, 3, 0, scaled(swap))[1:3] == (0, 1)


@pytest.mark.parametrize("path", SWEEPS)
@pytest.mark.parametrize("family", spread_tables.FAMILIES)
def test_sweeps_say_converged_of_lines_alone(family, path):
    status, lines, _, worst = spread_tables.judge(family, SHORT[family] // 3 + 1, 13, SWEEPS[path])
    assert lines == 0, worst
    assert set(status.tolist()) <= {Status.CONVERGED, Status.MAX_ITER}


def blocks(rng, n):
    """Return a table whose blocks are small tables of some kind, these, and their margins."""
    kinds = [
        lambda: spread_tables.planted(rng, spread_tables.cells(rng, n, 2, 2, 12)),
        lambda: spread_tables.whole(rng, spread_tables.dominant(rng, n, 2), 6),
        lambda: spread_tables.free(rng, spread_tables.dominant(rng, n, 2), 3),
        lambda: spread_tables.planted(rng, np.exp(rng.normal(0, 6, (n, 2, 5))), 2),
    ]
    M, u, v = kinds[rng.integers(4)]()
    v *= (u.sum(-1) / v.sum(-1))[:, None]
    return scipy.sparse.block_diag(list(M), format="csr"), M, u, v


def assert_blocks_are_right(number, seed, n):
    """Assert it of tables of many blocks, whose total hides small ones; return the number of each status."""
    rng, counts = np.random.default_rng(seed), collections.Counter()
    for _ in range(number):
        A, M, u, v = blocks(rng, n)
        result = cmfast.ipf(A, u.ravel(), v.ravel(), on_failure="ignore")
        counts[Status(int(result.status))] += 1
        if result.status != Status.CONVERGED:
            continue
        R, C = M.shape[1:]
        P = result.matrix.toarray()
        for k in range(n):
            line, cell = spread_tables.errors(M[k], u[k], v[k], P[k * R : k * R + R, k * C : k * C + C])
            assert line <= 1e-9 * spread_tables.RELATIVE
            assert cell <= spread_tables.MOST_ERROR
    return counts


def test_blocks_of_a_large_table_are_right():
    counts = assert_blocks_are_right(8, 0, 70)  # with more than 16,384 cells and zeros in all
    assert counts[Status.CONVERGED] >= 4
    assert set(counts) <= {Status.CONVERGED, Status.UNDETERMINED}


@pytest.mark.slow
def test_blocks_of_many_large_tables_are_right():
    counts = assert_blocks_are_right(300, 1, 70)
    assert counts[Status.CONVERGED] >= 150
    assert set(counts) <= {Status.CONVERGED, Status.UNDETERMINED}


def test_a_cell_of_a_sparse_table_between_weakly_coupled_lines():
    """Cells like these were 175 % off, and the table CONVERGED."""
    rng = np.random.default_rng(5)
    family = "2 x 2, couplings to 1e-16, integer margins"
    M, u, v = spread_tables.FAMILIES[family](rng, 40)
    P, status = PATHS["sparse"](M, u, v)
    assert (status == Status.CONVERGED).all()
    assert max(spread_tables.errors(*each)[1] for each in zip(M, u, v, P, strict=True)) <= 1e-4


def test_small_targets_beside_zeros_are_judged_for_themselves():
    """Flows of less than 1e-12 of the total were taken for none, and cells for dead."""
    M = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    T = M * [[1.0, 1e-15, 0.0], [0.0, 2e-15, 1e-14], [1e-14, 0.0, 3.0]]
    result = cmfast.ipf(scipy.sparse.csr_array(M), T.sum(1), T.sum(0), on_failure="ignore")
    assert result.status in (Status.CONVERGED, Status.UNDETERMINED)
    assert result.line_error <= 1e-9
    assert (result.matrix.data > 0.0).all()


@pytest.mark.parametrize("turned", [False, True])
def test_a_small_block_that_asks_for_too_much_is_named(turned):
    A = scipy.sparse.block_diag([np.ones((2, 2)), np.ones((2, 2))], format="csr")
    u, v = [1.0, 1.0, 2e-13, 2e-13], [1.0, 1.0, 1e-13, 1e-13]
    if turned:
        u, v = v, u
    with pytest.warns(cmfast.FailureWarning, match="INFEASIBLE: .*rows? .* must sum to"):
        result = cmfast.ipf(A, u, v)
    assert result.status == Status.INFEASIBLE
    M = np.array([[1.0, 0.0], [1.0, 1.0]])
    A = scipy.sparse.block_diag([np.ones((2, 2)), M], format="csr")
    few = [1.0, 1.0, 2e-8, 1e-8]
    assert cmfast.ipf(A, few, [1.0, 1.0, 1e-8, 2e-8], on_failure="ignore").status == Status.INFEASIBLE
    limit = cmfast.ipf(A, few, [1.0, 1.0, 2e-8, 1e-8], on_failure="ignore")
    assert limit.status == Status.LIMIT_ONLY
    np.testing.assert_allclose(limit.matrix.toarray()[2:, 2:], [[2e-8, 0.0], [0.0, 1e-8]], rtol=1e-9)
