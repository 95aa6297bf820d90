"""Zero patterns: against an enumeration of all sets of rows, against SciPy at size, published cases, and in words."""

import json
from pathlib import Path

import numpy as np
import pytest
from cases.zeros import random_patterns

import cmfast
from cmfast import Status

PUBLISHED = json.loads((Path(__file__).parents[1] / "data" / "scaling.json").read_text())["cases"]


def by_enumeration(positive, u, v):
    """Classify by Hall's condition on every set I of rows: u(I) <= v(N(I)); no flow, no search.

    A cell (i, j) is dead if and only if a set I with u(I) = v(N(I)) uses up column j without row i.
    """
    R, C = positive.shape
    positive = positive & (u > 0)[:, None] & (v > 0)
    sets = (np.arange(2**R)[:, None] >> np.arange(R)) & 1 == 1
    reached = (sets[:, :, None] & positive).any(1)
    room = reached @ v - sets @ u
    if room.min() < 0:
        worst = sets[room == room.min()]
        rows = worst.all(0)  # these sets are closed under intersection
        return Status.INFEASIBLE, np.zeros((R, C), bool), rows, (rows[:, None] & positive).any(0)
    tight = room == 0
    dead = (tight[:, None, None] & ~sets[:, :, None] & reached[:, None, :]).any(0) & positive
    none = np.zeros(R, bool), np.zeros(C, bool)
    return (Status.LIMIT_ONLY if dead.any() else Status.CONVERGED), dead, *none


def assert_blocks(found, positive, u, v):
    """Assert that the blocks are the connected components of the cells that live, numbered by their first row."""
    alive = positive & ~found.dead_cells & (u > 0)[:, None] & (v > 0)
    np.testing.assert_array_equal(found.row_block >= 0, u > 0)
    np.testing.assert_array_equal(found.col_block >= 0, v > 0)
    assert (found.row_block[:, None] == found.col_block)[alive].all()
    first = [int(b) for b in dict.fromkeys(found.row_block.tolist()) if b >= 0]
    assert first == list(range(len(first)))
    for b in first:
        rows, cols = found.row_block == b, found.col_block == b
        part = alive[np.ix_(rows, cols)]
        joined = np.zeros(part.shape[0], bool)
        joined[0] = True
        for _ in range(part.shape[0]):
            joined |= (part & part[joined].any(0)).any(1)
        assert joined.all()
        assert part.any(0).all()


def one(found, k):
    return cmfast.results.Support(
        *(a[k] for a in found[:-1]), cmfast.results.Certificate(*(a[k] for a in found.certificate))
    )


@pytest.mark.parametrize("targets", ["ones", "permuted", "free"])
def test_agrees_with_an_enumeration_of_all_sets_of_rows(targets):
    rng = np.random.default_rng(["ones", "permuted", "free"].index(targets))
    shares = np.zeros(8, int)
    for size in range(1, 9):
        R, C, n = size, (size if targets != "free" else int(rng.integers(1, 9))), 100
        M = random_patterns(size, n, R, C, min(1.0, 2.2 / max(R, C) + 0.1))
        if targets == "ones":
            found, u, v = cmfast.support(M), np.ones((n, R), int), np.ones((n, C), int)
        else:
            u = rng.integers(0, 6, (n, R)) if targets == "permuted" else rng.multinomial(12, np.ones(R) / R, n)
            v = rng.permuted(u, axis=1) if targets == "permuted" else rng.multinomial(12, np.ones(C) / C, n)
            found = cmfast.support(M, u, v)
        for k in range(n):
            this = one(found, k)
            positive = (M[k] > 0) & (u[k] > 0)[:, None] & (v[k] > 0)
            empty = (~positive.any(1) & (u[k] > 0)).any() or (~positive.any(0) & (v[k] > 0)).any()
            status, dead, rows, cols = by_enumeration(M[k] > 0, u[k], v[k])
            shares[this.status] += 1
            if empty:
                assert this.status == Status.ZERO_LINE
                assert status == Status.INFEASIBLE
                continue
            assert this.status == status
            np.testing.assert_array_equal(this.dead_cells, dead)
            if status == Status.INFEASIBLE:
                np.testing.assert_array_equal(this.certificate.rows, rows)
                np.testing.assert_array_equal(this.certificate.cols, cols)
                assert this.certificate.wanted == u[k][rows].sum() > this.certificate.available == v[k][cols].sum()
            else:
                assert_blocks(this, M[k] > 0, u[k], v[k])
    kinds = [Status.CONVERGED, Status.LIMIT_ONLY, Status.INFEASIBLE]
    assert (shares[kinds] > 20).all(), shares


@pytest.mark.parametrize("unit", [0.1, 1 / 3, 1e-300, 1e300, np.pi])
def test_targets_in_another_unit_change_nothing(unit):
    rng = np.random.default_rng(1)
    M = random_patterns(5, 400, 6, 6, 0.4)
    u = rng.integers(1, 6, (400, 6))
    v = rng.permuted(u, axis=1)
    exact, scaled = cmfast.support(M, u, v), cmfast.support(M, u * unit, v * unit)
    for a, b in zip(exact[:-1], scaled[:-1], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(exact.certificate.rows, scaled.certificate.rows)
    np.testing.assert_array_equal(exact.certificate.cols, scaled.certificate.cols)
    np.testing.assert_allclose(exact.certificate.wanted * unit, scaled.certificate.wanted, rtol=1e-14)


def test_a_target_far_below_the_slack_is_still_met_or_refused():
    triangle = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    fine = cmfast.support(triangle, [1.0, 1e-14, 0.5], [0.5, 0.5, 0.5 + 1e-14])
    assert fine.status == Status.LIMIT_ONLY
    assert np.argwhere(fine.dead_cells).tolist() == [[1, 1]]
    assert fine.row_block.tolist() == [0, 1, 1]
    starved = cmfast.support([[1, 0, 1], [1, 0, 0], [0, 1, 0]], [0.25, 1e-14, 0.75], [1e-30, 0.75, 0.25 + 1e-14])
    assert starved.status == Status.INFEASIBLE
    assert starved.certificate.rows.tolist() == [False, True, False]


@pytest.mark.parametrize("C", [100, 700])
@pytest.mark.parametrize("density", [1.0, 2.5, 12.0])
def test_agrees_with_scipy_at_size(C, density):
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

    M = random_patterns(C, 1, C, C, density / C)[0] + np.diag(np.arange(C) % 3 > 0)
    found = cmfast.support(M)
    mate = maximum_bipartite_matching(csr_matrix(M), perm_type="column")
    full = bool((mate >= 0).all())
    assert full == Status(found.status).ok
    if not full:
        rows, cols = found.certificate[:2]
        if found.status == Status.INFEASIBLE:
            assert found.certificate.wanted - found.certificate.available == (mate < 0).sum()
        assert not M[np.ix_(rows, ~cols)].any()
    else:
        count, block = connected_components(csr_matrix(M[:, mate]), connection="strong")
        assert count == found.row_block.max() + 1
        same = block[:, None] == block[None, np.argsort(mate)]
        np.testing.assert_array_equal(found.dead_cells, (M > 0) & ~same)


@pytest.mark.parametrize("C", [5, 40, 200])
def test_general_targets_at_size_have_the_support_they_were_made_of(C):
    rng = np.random.default_rng(C)
    flow = rng.integers(1, 1000, (C, C)) * (rng.random((C, C)) < 3 / C)
    flow[np.arange(C), rng.permutation(C)] += 1
    found = cmfast.support(flow, flow.sum(1), flow.sum(0))
    assert found.status == Status.CONVERGED
    more = flow.copy()
    more[rng.permutation(C), np.arange(C)] += 1  # another pattern; the flow above still fits into it
    found = cmfast.support(more, flow.sum(1), flow.sum(0))
    assert Status(found.status).ok
    assert not found.dead_cells[flow > 0].any()
    assert_blocks(found, more > 0, flow.sum(1), flow.sum(0))


@pytest.mark.parametrize("case", [c for c in PUBLISHED if c["smoothing"] is None], ids=lambda c: c["id"])
def test_published(case):
    found = cmfast.support(case["input"], case["row_sums"], case["col_sums"])
    assert Status(found.status).name == case["status"]
    assert np.argwhere(found.dead_cells).tolist() == case.get("dead_cells", [])
    if case["status"] == "LIMIT_ONLY":
        assert found.row_block.tolist() == case["row_block"]
        assert found.col_block.tolist() == case["col_block"]
    if case["status"] == "INFEASIBLE":
        certificate = case["certificate"]
        assert np.flatnonzero(found.certificate.rows).tolist() == certificate["rows"]
        assert np.flatnonzero(found.certificate.cols).tolist() == certificate["cols"]
        assert found.certificate.wanted - found.certificate.available == certificate["deficit"]


def test_in_words():
    batch = np.array(
        [
            [[2, 1, 0], [1, 3, 0], [0, 0, 4]],
            [[2, 1, 1], [0, 3, 1], [0, 0, 4]],
            [[1, 1, 1], [1, 0, 0], [1, 0, 0]],
            [[1, 1, 1], [0, 0, 0], [1, 1, 1]],
            [[1, 0, 0], [1, 0, 0], [1, 0, 0]],
            [[1, -1, 0], [1, 0, 0], [1, 0, 0]],
        ]
    )
    found = cmfast.support(batch)
    assert [found.explain(k) for k in range(6)] == [
        "a scaling exists: every positive cell stays positive, in 2 blocks",
        "no scaling exists, only a limit: 3 positive cells go to zero (first: [0, 1]), 3 blocks are left",
        "rows [1, 2] must together sum to 2 but reach only column 0, which sums to 1",
        "row 1 is empty but must sum to 1",
        "columns [1, 2] are empty but must sum to 2",
        "a cell or target is NaN, infinite or negative",
    ]
    assert found.explain((4,)) == found.explain(4)
    without = cmfast.support(
        [[[1, 1, 0], [0, 1, 0], [1, 1, 0]], [[1, 1, 0], [1, 1, 0], [0, 0, 1]]], [1, 1, 0], [1, 0, 1]
    )
    assert without.certificate.cols.tolist() == [[False, True, False], [True, True, False]]
    assert [without.explain(k) for k in range(2)] == [
        "row 1 is zero in every column with a target but must sum to 1",
        "column 2 is zero in every row with a target but must sum to 1",
    ]
    assert cmfast.support(np.ones((2, 2)), [1, 1], [1, 2]).explain() == "row targets add up to 2, column targets to 3"
    assert cmfast.support(np.ones((1, 1)), [1e308], [1e308]).explain().startswith("a scaling exists")
    two = cmfast.support(np.ones((2, 2)), [1e308, 1e308], [1e308, 1e308])
    assert two.explain() == "the targets add up to more than float64 holds"
    wide = np.zeros((30, 30), int)
    wide[:20, :5] = 1
    wide[20:] = 1
    assert cmfast.support(wide).explain() == (
        "rows [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... (20 of 30)] must together sum to 20 "
        "but reach only columns [0, 1, 2, 3, 4], which together sum to 5"
    )
    with pytest.raises(IndexError):
        found.explain(6)
    for wrong in ((), (1, 2), slice(2)):
        with pytest.raises(
            TypeError, match=r"Support.explain: index must be the index of one element of a batch of shape \(6,\)"
        ):
            found.explain(wrong)


def test_refuses_what_is_no_problem():
    with pytest.raises(ValueError, match="square"):
        cmfast.support(np.ones((2, 3)))
    with pytest.raises(ValueError, match="given both or neither, got only one"):
        cmfast.support(np.ones((2, 2)), [1, 1])
    with pytest.raises(ValueError, match=r"col_sums must be of shape \(\.\.\., 3\)"):
        cmfast.support(np.ones((2, 3)), [1, 2], [1, 2])
    with pytest.raises(ValueError, match="do not broadcast"):
        cmfast.support(np.ones((4, 2, 2)), np.ones((3, 2)), [1, 1])
    with pytest.raises(TypeError, match="complex128"):
        cmfast.support(np.ones((2, 2), complex))


def test_same_bits_for_any_number_of_threads_and_any_neighbours():
    M = random_patterns(3, 3000, 7, 7, 0.35)
    first, second = cmfast.support(M, num_threads=1), cmfast.support(M[::-1], num_threads=5)
    for a, b in zip((*first[:-1], *first.certificate), (*second[:-1], *second.certificate), strict=True):
        np.testing.assert_array_equal(a, b[::-1])


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda c: c["id"])
def test_ipf_returns_the_exact_limit_or_the_certificate(case):
    result = cmfast.ipf(
        case["input"], case["row_sums"], case["col_sums"], smoothing=case["smoothing"], tol=1e-13, on_failure="ignore"
    )
    assert Status(result.status).name == case["status"]
    if case["status"] == "INFEASIBLE":
        assert np.isnan(result.matrix).all()
        with pytest.warns(cmfast.FailureWarning, match=r"rows \[1, 2\] must together sum to 2 but reach only column 0"):
            cmfast.ipf(case["input"])
        return
    np.testing.assert_allclose(result.matrix, case["expected"], rtol=1e-11, atol=1e-15)
    assert np.isnan(result.row_scale).all() == (case["status"] == "LIMIT_ONLY")


@pytest.mark.parametrize("C", [2, 5, 9])
def test_ipf_agrees_with_support_on_every_pattern(C):
    M = random_patterns(C, 600, C, C, min(1.0, 2.2 / C + 0.1)) + 0.0
    rng = np.random.default_rng(C)
    M[::5] = rng.random(M[::5].shape) + 0.1
    found = cmfast.support(M)
    result = cmfast.ipf(M, on_failure="ignore")
    np.testing.assert_array_equal(result.status, found.status)
    good = found.status <= Status.LIMIT_ONLY
    P = result.matrix[good]
    np.testing.assert_allclose(P.sum(1), 1, atol=1e-8)
    np.testing.assert_allclose(P.sum(2), 1, atol=1e-8)
    np.testing.assert_array_equal(P > 0, (M > 0)[good] & ~found.dead_cells[good])
    alone = cmfast.ipf(M[7], on_failure="ignore")
    np.testing.assert_array_equal(alone.matrix, result.matrix[7])
