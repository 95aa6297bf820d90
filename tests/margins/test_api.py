"""Tables scaled to margins: planted answers, verdicts on zeros against a linear program, laws, peers' complaints."""

import collections

import numpy as np
import pytest
from cases.margins import PAIRS, margins_of, table
from oracle.margins import spread, verdict

import cmfast
from cmfast import Status

CHAIN = ((0, 1), (1, 2), (2, 3), (0, 3))
TRIPLES = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))


def planted(shape, axes, filled, sd, seed):
    """Return weights, the table that they are scaled to, and its margins: effects of `sd` on the lines of each."""
    rng = np.random.default_rng(seed)
    weights, effects = rng.normal(size=shape), [rng.normal(0.0, sd, [shape[axis] for axis in of]) for of in axes]
    answer = weights + sum(spread(effect, of, len(shape)) for effect, of in zip(effects, axes, strict=True))
    open_cells = rng.random(shape) < filled
    answer = np.where(open_cells, np.exp(answer - answer[open_cells].max()), 0.0)
    answer /= answer.sum()
    targets = [m.astype(np.float64) for m in margins_of(answer.astype(np.longdouble), axes)]
    return np.where(open_cells, np.exp(weights - weights.max()), 0.0), answer, list(zip(axes, targets, strict=True))


def furthest(found, answer):
    """Return how far the worst cell is off, in logarithms."""
    some = answer > 0
    with np.errstate(divide="ignore"):
        return np.abs(np.log(found[some] / answer[some])).max()


# Shape, margins, share of cells that are open, spread of effects, most passes (a third above those of the prototype).
FAMILIES = {
    "sparse": ((12,) * 3, PAIRS, 0.15, 1, 30),
    "spread": ((12,) * 3, PAIRS, 0.25, 3, 60),
    "tiny-cells": ((12,) * 3, PAIRS, 0.5, 6, 150),
    "dense": ((8,) * 3, PAIRS, 1.0, 4, 60),
    "chain": ((6,) * 4, CHAIN, 1.0, 3, 60),
    "triples": ((5,) * 4, TRIPLES, 0.6, 2, 65),
    "one-way": ((4,) * 5, tuple((k,) for k in range(5)), 1.0, 2, 150),  # five to a sweep
}
# What float64 targets do not determine.
BEYOND = {
    "sparse": ((12,) * 3, PAIRS, 0.2, 6),
    "dense": ((12,) * 3, PAIRS, 0.3, 9),
    "chain": ((6,) * 4, CHAIN, 0.5, 12),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_planted_answers_are_found(family):
    *problem, most = FAMILIES[family]
    for seed in range(3):
        M, answer, margins = planted(*problem, seed)
        result = cmfast.ipf_nd(M, margins)
        assert result.status == Status.CONVERGED
        assert result.n_iter <= most
        assert furthest(result.table, answer) <= max(1e-6, result.cell_error) <= 1e-4


@pytest.mark.parametrize("family", BEYOND)
def test_nothing_wrong_is_called_converged(family):
    for seed in range(5):
        M, answer, margins = planted(*BEYOND[family], seed)
        result = cmfast.ipf_nd(M, margins, on_failure="ignore")
        assert result.residual <= 1e-9
        if furthest(result.table, answer) > 1e-4:
            assert result.status == Status.UNDETERMINED
        else:
            assert result.status in (Status.CONVERGED, Status.UNDETERMINED)


def test_a_table_that_sweeps_do_not_solve():
    M, answer, margins = planted((20,) * 3, PAIRS, 0.15, 3, 1)
    result = cmfast.ipf_nd(M, margins)
    assert result.status == Status.CONVERGED
    assert result.n_iter <= 9 + 2 * 31  # a step is made longer by a pass or two
    assert furthest(result.table, answer) <= 1e-6


def patterns(number, seed=5):
    """Yield small tables with zeros, and margins: of the table, of a part of its cells, of anything."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        shape = tuple(rng.integers(2, 5, 3))
        some = rng.random(shape) < rng.choice([0.45, 0.6, 0.75])
        kind = rng.integers(3)
        base = [some, some & (rng.random(shape) < 0.7), rng.random(shape) < 0.6][kind]
        T = (base * rng.integers(1, 10, shape)).astype(float)
        if T.any():
            yield some * np.exp(rng.normal(0, 1, shape)), list(zip(PAIRS, margins_of(T, PAIRS), strict=True))


def assert_verdicts_agree(number):
    """Assert that verdicts and dead cells are those of the program; return how many there are of each."""
    counted = collections.Counter()
    for M, margins in patterns(number):
        result = cmfast.ipf_nd(M, margins, on_failure="ignore")
        wanted, dead = verdict(M, [m for _, m in margins], [of for of, _ in margins])
        assert result.status == wanted
        if wanted in (Status.CONVERGED, Status.LIMIT_ONLY):
            asked = M > 0
            for of, target in margins:
                asked &= spread(target, of, 3) > 0
            np.testing.assert_array_equal((result.table == 0)[asked], dead[asked])
        counted[Status(wanted).name] += 1
    return counted


def test_verdicts_on_zeros_are_those_of_a_linear_program():
    assert min(assert_verdicts_agree(250).values()) >= 5


@pytest.mark.slow
def test_verdicts_on_many_zeros_are_those_of_a_linear_program():
    assert assert_verdicts_agree(6000).total() > 5900


def test_a_dense_table_can_be_infeasible():
    # Every two of the margins agree; together they ask of cells that a is b, b is c, and c is not a.
    same, other = np.eye(2), np.eye(2)[::-1]
    with pytest.warns(cmfast.FailureWarning, match="INFEASIBLE: no nonnegative table"):
        result = cmfast.ipf_nd(
            np.ones((2, 2, 2)), [((0, 1), same + 1e-3), ((1, 2), same + 1e-3), ((0, 2), other + 1e-3)]
        )
    assert np.isnan(result.table).all()


def test_two_margins_are_what_ipf_does():
    M = table((7, 5), 3)
    u, v = table((7,), 4), table((5,), 5)
    v *= u.sum() / v.sum()
    ours, its = cmfast.ipf_nd(M, [(0, u), (1, v)], tol=1e-13), cmfast.ipf(M, u, v, tol=1e-13)
    np.testing.assert_allclose(ours.table, its.matrix, rtol=1e-12)
    for one, other in zip(ours.factors, (its.row_scale, its.col_scale), strict=True):
        np.testing.assert_allclose(one / one[0], other / other[0], rtol=1e-12)
    assert its.residual / 2 <= ours.residual + 1e-15


def test_factors_give_the_table_in_their_gauge():
    for name in ("sparse", "dense", "chain", "triples", "one-way"):
        shape, axes, *rest, _ = FAMILIES[name]
        M, _, margins = planted(shape, axes, *rest, 7)
        result = cmfast.ipf_nd(M, margins)
        product = M
        for factor, of in zip(result.factors, axes, strict=True):
            product = product * spread(factor, of, M.ndim)
        np.testing.assert_allclose(product, result.table, rtol=1e-10)
        for factor in result.factors[1:]:
            assert abs(np.log(factor[factor > 0]).mean()) < 1e-10
        if name not in ("dense", "chain"):
            continue  # with zeros, those that it stops at
        again = cmfast.ipf_nd(M * 1e30, margins[:1] + margins[:0:-1])
        for one, other in zip(result.factors[1:], again.factors[:0:-1], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4)


def test_order_scale_and_redundant_margins_change_nothing():
    M, answer, margins = planted((5, 4, 6), PAIRS, 0.7, 1.5, 3)
    wanted = cmfast.ipf_nd(M, margins, tol=1e-13).table
    total, rows = answer.sum(), answer.sum((1, 2))
    for other, same in (
        (M, margins[::-1]),
        (M, [*margins, ((), total), (0, rows)]),
        (M, [(0, rows), *margins]),
        (M * np.exp(np.arange(20.0).reshape(5, 4, 1)), margins),
        (M * 1e-200, margins),
    ):
        np.testing.assert_allclose(cmfast.ipf_nd(other, same, tol=1e-13).table, wanted, rtol=1e-9)
    turned = [((2 - of[0], 2 - of[1]), target) for of, target in margins]
    np.testing.assert_allclose(cmfast.ipf_nd(M.T, turned, tol=1e-13).table.T, wanted, rtol=1e-9)


def test_neighbours_and_threads_change_no_bit():
    for n in (3, 9):
        M = table((4, n, n, n), 1, 0.2)
        targets = margins_of(M * table((4, n, n, n), 2), PAIRS, 1)
        alone = cmfast.ipf_nd(M[1], [(of, t[1]) for of, t in zip(PAIRS, targets, strict=True)])
        M[0], M[2] = np.nan, 0.0
        for num_threads in (1, 2):
            margins = list(zip(PAIRS, targets, strict=True))
            many = cmfast.ipf_nd(M, margins, on_failure="ignore", num_threads=num_threads)
            assert many.status.tolist() == [Status.INVALID, 0, Status.ZERO_LINE, 0]
            assert many.table[1].tobytes() == alone.table.tobytes()
            assert many.factors[2][1].tobytes() == alone.factors[2].tobytes()


def test_margins_that_agree_nearly_are_made_to():
    M, _, margins = planted((4, 4, 4), PAIRS, 1.0, 1.0, 2)
    (of, target), *rest = margins
    result = cmfast.ipf_nd(M, [(of, target * (1 + 5e-10)), *rest], tol=1e-12)
    assert result.status == Status.CONVERGED
    np.testing.assert_allclose(result.achieved[1], rest[0][1], rtol=6e-10)


def test_the_exact_answer_is_left_as_it_is():
    # Three margins that share an axis: ipfn's issue 22.
    T = table((3, 4, 5), 8)
    result = cmfast.ipf_nd(T, [((0, 1), T.sum(2)), ((0, 2), T.sum(1)), (0, T.sum((1, 2)))])
    np.testing.assert_allclose(result.table, T, rtol=1e-13)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "margins[0] and margins[1] disagree on the axes (0,) that they share, at [1]: 2 against 3"),
        ({"rows": [[1.0, 2.0], [2.0, np.inf]]}, "INVALID: infinite value at target of margins[1][1, 1]"),
        ({"cell": np.nan, "rows": [[1.0, 1.0], [1.0, 1.0]]}, "INVALID: NaN value at M[0, 0, 0]"),
        ({"cell": 0.0, "rows": [[2.0, 0.0], [1.0, 1.0]]}, "line [0, 0] of margins[0] has no positive cell but"),
    ],
)
def test_says_what_is_wrong(changes, said):
    M = np.ones((2, 2, 2))
    M[0, 0, 0] = changes.get("cell", 1.0)
    rows = changes.get("rows", [[1.0, 1.0], [2.0, 1.0]])
    with pytest.raises(cmfast.FailureError) as caught:
        cmfast.ipf_nd(M, [((0, 1), np.ones((2, 2))), ((0, 2), rows)], on_failure="raise")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("axes", "target", "said"),
    [
        ((), 42.0, "ndim must be the number of axes of a table, as no part of margins keeps any, got None"),
        (0, [1.0, 2.0], r"got shape \(2,\); tables are the last 1 of the axes of M, unless ndim= says more"),
    ],
)
def test_what_may_be_a_batch_or_a_table_is_asked(axes, target, said):
    M = np.ones((2, 3))
    for function in (cmfast.ipf_nd, cmfast.support_nd):
        with pytest.raises(ValueError, match=said):
            function(M, [(axes, target)])
    assert cmfast.ipf_nd(M, [(axes, target)], ndim=2).table.sum() == pytest.approx(np.sum(target))
    with pytest.raises(ValueError, match="ndim must be at least 1, got 0"):
        cmfast.ipf_nd(M, [((), 42.0)], ndim=0)
    with pytest.raises(ValueError, match="ndim must be the number of axes of a table, as no part of axes keeps any"):
        cmfast.round_to_margins(M, axes=[()])
    assert cmfast.round_to_margins(M / 3, axes=[()], ndim=2).table.sum() == 2.0


def test_says_what_limits_and_iterates_are():
    limit = np.array([[1.0, 1.0], [0.0, 1.0]])
    with pytest.warns(cmfast.FailureWarning, match=r"LIMIT_ONLY.* the limit sets the cell \[0, 1\] to zero"):
        result = cmfast.ipf_nd(limit, [(0, np.ones(2)), (1, np.ones(2))])
    np.testing.assert_allclose(result.table, np.eye(2), atol=1e-15)
    assert np.isnan(result.factors[0]).all()
    M, _, margins = planted(*FAMILIES["spread"][:-1], 0)
    with pytest.warns(cmfast.FailureWarning, match=r"MAX_ITER: not converged after 22 passes: residual"):
        cmfast.ipf_nd(M, margins, max_iter=1)
    M, _, margins = planted(*BEYOND["sparse"], 0)
    with pytest.warns(cmfast.FailureWarning, match=r"UNDETERMINED: margins met to .* leave cells undetermined"):
        result = cmfast.ipf_nd(M, margins)
    assert result.explain().startswith("UNDETERMINED: the margins are met")
    assert "12 x 12 x 12, margins 3, status UNDETERMINED" in repr(result)


def test_a_margin_that_another_one_contains_is_met_where_it_asks_for_some_lines_only():
    M = np.ones((2, 2, 4))
    first = [[815.0, 1086.0, 1010.0, 1370.0], [np.nan, np.nan, np.nan, 879.0]]
    second = [[1121.0, 450.0, 1531.0, 1373.0], [1212.0, 1154.0, 933.0, 876.0]]
    margins = [((0, 2), first), (2, [2333.0, 1604.0, 2464.0, 2249.0]), ((1, 2), second), (0, [4281.0, 4369.0])]
    result = cmfast.ipf_nd(M, [*margins, (1, [np.nan, 4175.0])])
    assert result.status == Status.CONVERGED
    assert abs(result.table[:, 1].sum() / 4175.0 - 1.0) <= 1e-9


def test_rounding_of_large_targets_refutes_no_small_ones():
    """Planted tables of cells twenty digits apart, some lines of which ask nothing."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = np.exp(rng.normal(size=(3, 3)) * 8) * (rng.random((3, 3)) < 0.7)
        cells = np.where(rng.random((3, 3)) < 0.4, np.nan, X)
        rows, columns = (np.where(rng.random(3) < 0.3, np.nan, X.sum(axis)) for axis in (1, 0))
        margins = [(0, rows), ((0, 1), cells), (1, columns), ((), X.sum())]
        result = cmfast.ipf_nd((X > 0) * 1.0, margins, on_failure="ignore")
        assert result.status != Status.INFEASIBLE, seed
