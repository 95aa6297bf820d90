"""Small tables side by side: what they give is what tables give one at a time, whatever stands beside them."""

from itertools import combinations

import numpy as np
import pytest
from cases.margins import PAIRS, margins_of, table
from oracle import margins as oracle
from oracle.margins import columns_of, verdict

import cmfast
from cmfast import Status
from cmfast.kernels.cpu.margins import launch
from cmfast.kernels.cpu.margins.tables import lanes_plan
from cmfast.kernels.shared import margins_layout

pytestmark = pytest.mark.exhaustive

CHAIN = ((0, 1), (1, 2), (2, 3), (0, 3))
SHAPES = {
    "pairs": ((4, 4, 4), PAIRS),
    "oblong": ((2, 3, 4), PAIRS),
    "backwards": ((3, 2, 5), ((2, 1), (1, 0), (2, 0))),
    "chain": ((3, 2, 3, 2), CHAIN),
    "pairs of four": ((2, 3, 2, 2), tuple(combinations(range(4), 2))),
    "triples": ((2, 2, 3, 2), tuple(combinations(range(4), 3))),
    "one-way": ((3, 4, 2), ((0,), (1,), (2,))),
    "contained": ((3, 4, 2), ((0,), (0, 1), (1, 2), ())),
    "first is contained": ((4, 3), ((), (0,), (1,))),
    "axis of one": ((3, 1, 4), PAIRS),
    "axis without margin": ((3, 2, 2), ((0,), (1,))),
    "one margin": ((2, 3), ((0, 1),)),
    "many unknowns": ((6, 6, 6), PAIRS),
}
PARTS = ("table", "residual", "cell_error", "n_iter", "status")


def planted(shape, axes, n, seed=1, sd=0.5):
    """Return tables and margins that they can be scaled to."""
    M = table((n, *shape), seed)
    T = M.copy()
    for k, of in enumerate(axes):
        effect = table((n, *(shape[axis] for axis in of)), seed + 1 + k, sd=sd)
        order = np.argsort(of)
        T *= np.transpose(effect, (0, *(1 + order))).reshape(
            n, *(shape[a] if a in of else 1 for a in range(len(shape)))
        )
    return M, T, list(zip(axes, margins_of(T, axes, 1), strict=True))


def one_at_a_time(M, margins, **options):
    """Return what the same cells give where they are listed, which no lanes take."""
    shape = M.shape[1:]
    coords = np.indices(shape).reshape(len(shape), -1)
    return cmfast.ipf_cells(M.reshape(len(M), -1), coords, margins, shape=shape, on_failure="ignore", **options)


def at(margins, k):
    """Return the margins of one table, or of some."""
    return [(of, target[k]) for of, target in margins]


def assert_same_bits(some, other):
    """Assert that results are the same in everything."""
    for name in PARTS:
        assert np.asarray(getattr(some, name)).tobytes() == np.asarray(getattr(other, name)).tobytes(), name
    for one, its in zip((*some.factors, *some.achieved), (*other.factors, *other.achieved), strict=True):
        assert one.tobytes() == its.tobytes()


@pytest.fixture
def left(monkeypatch):
    """Return a list of the numbers of tables that lanes do not scale, call after call."""
    found, scaled = [], launch._scale_small

    def scale(*args):
        found.append(args[-1].tolist())
        scaled(*args)

    monkeypatch.setattr(launch, "_scale_small", scale)
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_they_give_what_tables_give_one_at_a_time(name, left):
    M, T, margins = planted(*SHAPES[name], 5)
    ours = cmfast.ipf_nd(M, margins, ndim=M.ndim - 1, tol=1e-13)
    assert left == []
    assert (ours.status == Status.CONVERGED).all()
    assert (ours.cell_error < 1e-9).all()
    np.testing.assert_allclose(ours.table, T, rtol=1e-10)
    others = one_at_a_time(M, margins, tol=1e-13)
    np.testing.assert_allclose(ours.table.reshape(others.table.shape), others.table, rtol=1e-9)
    for one, its in zip((*ours.factors, *ours.achieved), (*others.factors, *others.achieved), strict=True):
        np.testing.assert_allclose(one, its, rtol=1e-8)
    for (_, target), sums in zip(margins, ours.achieved, strict=True):
        np.testing.assert_allclose(sums, target, rtol=1e-12)


@pytest.mark.parametrize("name", ["pairs", "chain", "contained"])
def test_they_give_what_the_oracle_gives(name):
    shape, axes = SHAPES[name]
    M, _, margins = planted(shape, axes, 3, seed=20)
    wanted, *_ = oracle.ipf_nd(M, *(target for _, target in margins), axes=axes)
    np.testing.assert_allclose(cmfast.ipf_nd(M, margins).table, wanted, rtol=1e-9)


@pytest.mark.parametrize("name", SHAPES)
def test_the_gauge_is_that_of_the_shortest_logarithms_and_no_line_is_kept_for_nothing(name):
    shape, axes = SHAPES[name]
    plan, layout = lanes_plan.make_lanes_plan(shape, axes), margins_layout.make_dense_layout(shape, axes)
    offsets, order = layout.offsets, [axes[b] for b in layout.order]
    A = np.zeros((plan.n_cells, plan.n_lines))
    cells = np.indices(shape).reshape(len(shape), -1)
    some = [b for b in range(len(axes)) if layout.within[b] < 0]
    for b in some:
        A[:, offsets[b] : offsets[b + 1]] = columns_of(cells, dict(enumerate(shape)), [order[b]])
    kept = [*range(plan.n_closed), *plan.kept]
    assert np.linalg.matrix_rank(A) == len(kept) == np.linalg.matrix_rank(A[:, kept])
    y = np.random.default_rng(0).normal(size=plan.n_lines) * A.any(0)
    wanted = np.linalg.pinv(A) @ (A @ y)
    first = int(np.flatnonzero(layout.order == 0)[0])
    for b in set(range(len(axes))) - {first}:
        mean = wanted[offsets[b] : offsets[b + 1]].mean()
        wanted[offsets[b] : offsets[b + 1]] -= mean
        wanted[offsets[first] : offsets[first + 1]] += mean
    np.testing.assert_allclose(plan.gauge @ y, wanted, atol=1e-13)


@pytest.mark.parametrize("name", ["pairs", "one-way", "one margin", "many unknowns"])
def test_no_bit_depends_on_neighbours_or_place(name):
    shape, axes = SHAPES[name]
    M, _, margins = planted(shape, axes, 17)
    whole = cmfast.ipf_nd(M, margins)
    for n in range(1, 17):
        assert_same_bits(cmfast.ipf_nd(M[:n], at(margins, slice(n))), whole_part(whole, slice(n)))
    for k in range(17):
        assert_same_bits(cmfast.ipf_nd(M[k], at(margins, k)), whole_part(whole, k))
    back = slice(None, None, -1)
    assert_same_bits(cmfast.ipf_nd(M[back], at(margins, back)), whole_part(whole, back))


def whole_part(result, k):
    """Return what is said of some tables of a batch."""
    parts = {name: np.ascontiguousarray(np.asarray(getattr(result, name))[k]) for name in PARTS}
    factors, achieved = ([np.ascontiguousarray(a[k]) for a in lines] for lines in (result.factors, result.achieved))
    return result._replace(**parts, factors=factors, achieved=achieved)


def test_no_bit_depends_on_threads():
    M, _, margins = planted((3, 3, 3), PAIRS, 3000)
    one, two = (cmfast.ipf_nd(M, margins, num_threads=threads) for threads in (1, 3))
    assert_same_bits(one, two)


def test_what_is_not_usual_is_scaled_alone_and_harms_nobody(left):
    M, _, margins = planted((3, 3, 3), PAIRS, 13)
    clean = cmfast.ipf_nd(M, margins)
    assert left == []
    targets = [t.copy() for _, t in margins]
    M[0, 0, 0, 0], M[2, 1, 1, 1], M[3, 2, 2, 2], M[4, 0, 1, 2] = np.nan, np.inf, -1.0, 0.0
    targets[0][5, 0, 0], targets[1][6, 1, 1], targets[2][7, 0, 0] = np.nan, np.inf, 1e3
    targets[0][8, 1, 1] = 0.0
    targets[0][9, 0, 0], targets[0][9, 0, 1] = targets[0][9, 0].sum() - 1e-300, 1e-300
    M[10], M[12] = M[10] * 1e-290, M[12] * 1e250
    margins = [(of, target) for of, target in zip(PAIRS, targets, strict=True)]
    found = cmfast.ipf_nd(M, margins, on_failure="ignore")
    bad = {0, 2, 3, 4, 5, 6, 7, 8, 9}
    assert bad <= set(left[0])
    codes = {0: Status.INVALID, 2: Status.INVALID, 3: Status.INVALID, 6: Status.INVALID, 7: Status.TOTALS}
    assert {k: found.status[k] for k in codes} == codes
    for k in range(13):
        assert_same_bits(cmfast.ipf_nd(M[k], at(margins, k), on_failure="ignore"), whole_part(found, k))
        if k in (1, 11):
            assert_same_bits(whole_part(clean, k), whole_part(found, k))
    for k in (10, 12):
        assert found.status[k] == Status.CONVERGED
        np.testing.assert_allclose(found.table[k], clean.table[k], rtol=1e-9)


def test_hard_tables_leave_and_are_what_they_are_alone(left):
    rng = np.random.default_rng(6)
    M = np.exp(rng.normal(0.0, 6.0, (60, 4, 4, 4)))
    T = M.copy()
    for axis in (1, 2, 3):
        T *= np.exp(rng.normal(0.0, 3.0, np.delete((60, 4, 4, 4), axis))).reshape(
            60, *(4 ** (k != axis) for k in (1, 2, 3))
        )
    margins = list(zip(PAIRS, margins_of(T, PAIRS, 1), strict=True))
    found = cmfast.ipf_nd(M, margins, on_failure="ignore")
    gone = sorted(k for part in left for k in part)
    assert 5 <= len(gone) <= 55
    alone = one_at_a_time(M, margins)
    np.testing.assert_array_equal(found.status[gone], alone.status[gone])
    assert found.table[gone].tobytes() == alone.table[gone].tobytes()
    stayed = sorted({*range(60)} - {*gone})
    assert (found.status[stayed] == Status.CONVERGED).all()
    off = np.abs(np.log(found.table[stayed] / T[stayed])).max((1, 2, 3))
    assert (off <= 30 * found.cell_error[stayed]).all()
    assert (found.cell_error[stayed] <= 1e-8).all()


def test_small_lines_that_others_imply_keep_their_digits(left):
    """What the largest lines leave for the smallest is where a table that looks solved can be wrong."""
    rng = np.random.default_rng(3)
    T = M = np.exp(rng.normal(0.0, 1.0, (4000, 4, 4, 4)))
    for axis in (1, 2, 3):
        of = np.delete((4000, 4, 4, 4), axis)
        T = T * np.expand_dims(np.exp(rng.normal(0.0, 6.0, of)), axis)
    found = cmfast.ipf_nd(M, list(zip(PAIRS, margins_of(T, PAIRS, 1), strict=True)), on_failure="ignore")
    gone = sum(len(part) for part in left)
    assert 1000 < gone < 3500
    off, ok = np.abs(np.log(found.table / T)).max((1, 2, 3)), found.status == Status.CONVERGED
    assert ok.mean() > 0.99
    assert (off[ok] <= 1e-5).all()
    assert (off[ok] <= 100 * found.cell_error[ok] + 1e-13).all()


def test_positive_tables_whose_cells_must_vanish_are_not_called_solved():
    """Targets of tables with zeros, none of whose lines is empty: some have only a limit, some no table at all."""
    rng = np.random.default_rng(7)
    counted = dict.fromkeys((Status.CONVERGED, Status.LIMIT_ONLY, Status.INFEASIBLE), 0)
    while min(counted.values()) < 8:
        some = rng.random((2, 3, 2)) < 0.75
        targets = margins_of(some * rng.integers(1, 9, some.shape).astype(float), PAIRS)
        if min(t.min() for t in targets) == 0.0:
            continue
        if rng.random() < 0.5:  # move what two margins share, so that the third one may not fit
            move = rng.integers(0, 3) * np.array([[1.0, -1.0], [-1.0, 1.0]])
            targets[1] = targets[1] + move
            if targets[1].min() <= 0.0:
                continue
        wanted, dead = verdict(np.ones(some.shape), targets, PAIRS)
        M = table(some.shape, int(rng.integers(1 << 30)))
        found = cmfast.ipf_nd(M, list(zip(PAIRS, targets, strict=True)), on_failure="ignore")
        assert found.status == wanted
        if wanted != Status.INFEASIBLE:
            np.testing.assert_array_equal(found.table == 0, dead)
        counted[Status(wanted)] += 1


def test_what_passes_allow_ends_where_it_ends_one_at_a_time(left):
    M, _, margins = planted((4, 4, 4), PAIRS, 3)
    assert (cmfast.ipf_nd(M, margins, max_iter=100).status == Status.CONVERGED).all()
    assert left == []
    few, alone = cmfast.ipf_nd(M, margins, max_iter=11, on_failure="ignore"), one_at_a_time(M, margins, max_iter=11)
    assert left[0] == [0, 1, 2]
    assert few.table.tobytes() == alone.table.tobytes()


def test_one_table_for_many_targets_and_one_target_for_many_tables():
    M, _, margins = planted((3, 2, 3), PAIRS, 9)
    found = cmfast.ipf_nd(M[0], margins)
    for k in range(9):
        assert_same_bits(cmfast.ipf_nd(M[0], at(margins, k)), whole_part(found, k))
    found = cmfast.ipf_nd(M, at(margins, 0))
    for k in range(9):
        assert_same_bits(cmfast.ipf_nd(M[k], at(margins, 0)), whole_part(found, k))


def test_float32_and_smoothing():
    rng = np.random.default_rng(8)
    M = table((9, 3, 3, 3), 8).astype(np.float32)
    margins = list(zip(PAIRS, margins_of(rng.integers(1, 9, M.shape) * 1.0, PAIRS, 1), strict=True))
    single = [(of, target.astype(np.float32)) for of, target in margins]
    some, other = (cmfast.ipf_nd(M, single, tol=1e-6, smoothing=s) for s in (0.5, None))
    assert some.table.dtype == np.float32
    exact = cmfast.ipf_nd(M.astype(float) + 0.5, margins, tol=1e-6)
    np.testing.assert_array_equal(some.table, exact.table.astype(np.float32))
    assert np.abs(some.table - other.table).max() > 1e-3


def off(result, T):
    """Return how far the worst cell of each table is off, as a logarithm."""
    found = np.abs(np.log(result.table.reshape(len(T), -1) / T.reshape(len(T), -1)))
    return found.max(1)


def test_no_table_of_widely_spread_cells_converges_to_another_one():
    g = np.random.default_rng(5)
    M = np.exp(15 * g.standard_normal((2000, 2, 5)))
    T = M * np.exp(0.5 * g.standard_normal((2000, 2, 1)) + 0.5 * g.standard_normal((2000, 1, 5)))
    T /= T.sum((1, 2), keepdims=True)
    margins = [(0, T.sum(2)), (1, T.sum(1))]
    for result in (cmfast.ipf_nd(M, margins, on_failure="ignore"), one_at_a_time(M, margins)):
        converged = result.status == Status.CONVERGED
        assert converged.mean() > 0.95
        assert set(result.status.tolist()) == {Status.CONVERGED, Status.UNDETERMINED}
        assert off(result, T)[converged].max() < 2e-4


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("shape", [(5, 6, 7), (20, 20, 20)])
def test_what_is_asked_for_few_digits_only_is_determined(shape, tol):
    _, T, margins = planted(shape, ((0, 1), (1, 2), (0,)), 1)
    M = table((1, *shape), 1)
    for result in (cmfast.ipf_nd(M, margins, tol=tol), one_at_a_time(M, margins, tol=tol)):
        assert (result.status == Status.CONVERGED).all()
        assert (off(result, T) <= np.maximum(result.cell_error, 1e-9)).all()


def test_no_digit_is_lost_in_units_that_are_far_from_those_of_targets():
    axes, g = ((2,), (0,), (1, 0), (0, 2)), np.random.default_rng(2)
    M = table((300, 7, 3, 5), 1)
    T = M.copy()
    for of in axes:
        T *= np.exp(8.0 * g.standard_normal((300, *(n if k in of else 1 for k, n in enumerate((7, 3, 5))))))
    T /= T.sum((1, 2, 3), keepdims=True)
    margins = list(zip(axes, margins_of(T, axes, 1), strict=True))
    M *= 1e290
    for result in (cmfast.ipf_nd(M, margins, on_failure="ignore"), one_at_a_time(M, margins)):
        converged = result.status == Status.CONVERGED
        assert converged.mean() > 0.8
        assert off(result, T)[converged].max() < 1e-4
