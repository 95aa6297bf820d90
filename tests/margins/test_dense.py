"""Large dense tables, which sweeps alone scale where they are quick: the same answers as from a list of their cells."""

from unittest import mock

import numpy as np
import pytest
from cases.margins import PAIRS, margins_of, table
from oracle.margins import CONVERGED, scaled, spread

import cmfast
from cmfast import Status
from cmfast.kernels.cpu.margins import launch
from cmfast.kernels.cpu.margins.tables import dense_sweeps
from cmfast.kernels.shared import margins_layout

pytestmark = pytest.mark.exhaustive

SHAPES = {
    "pairs": ((17, 16, 18), PAIRS),
    "pairs-backwards": ((17, 16, 18), ((2, 1), (0, 2), (1, 0))),
    "two-way": ((70, 65), ((0,), (1,))),
    "one-way": ((6,) * 5, tuple((k,) for k in range(5))),
    "short-rows": ((40, 60, 3), ((0, 1), (2, 0), (1, 2))),
    "rows-of-three": ((8, 200, 3), ((0, 1), (2, 0), (1,))),
    "axes-that-belong-together": ((5, 6, 7, 4, 6), ((0, 1), (2, 4, 3), (4,))),
    "axis-without-margin": ((9, 20, 25), ((0,), (2,))),
    "contained": ((17, 16, 18), ((0,), (0, 1), (2, 1))),
    "total": ((17, 16, 18), ((0, 1), (), (2,))),
    "one-margin": ((17, 16, 18), ((2, 0),)),
    "axis-of-one": ((17, 1, 16, 18), ((1, 2), (3, 1), (0,))),
    "long-rows": ((3, 5000), ((0,), (1,))),
}


def problem(name, zeros=0.0, sd=0.5, seed=0):
    """Return a table and margins of another one with its interactions."""
    shape, axes = SHAPES[name]
    rng = np.random.default_rng(seed)
    M = rng.random(shape) * (rng.random(shape) >= zeros)
    T = M.copy()
    for of in axes:
        T *= spread(np.exp(rng.normal(0.0, sd, [shape[axis] for axis in of])), of, M.ndim)
    return M, T, list(zip(axes, margins_of(T, axes), strict=True))


def swept(M, margins, **options):
    """Return what sweeps alone make of a table: that its cells are listed is an error."""
    with mock.patch.object(margins_layout, "make_dense_layout", side_effect=AssertionError("sweeps did not suffice")):
        return cmfast.ipf_nd(M, margins, ndim=options.pop("ndim", M.ndim), **options)


def of_cells(M, margins, **options):
    """Return what a list of its cells gives."""
    some = np.nonzero(M)
    found = cmfast.ipf_cells(M[some], np.stack(some), margins, shape=M.shape, **options)
    full = np.zeros(M.shape)
    full[some] = found.table
    return found._replace(table=full)


def assert_factors_give(result, M, margins):
    product = M.astype(np.float64)
    for factor, (of, _) in zip(result.factors, margins, strict=True):
        product = product * spread(factor, of, M.ndim)
    np.testing.assert_allclose(product, result.table, rtol=1e-10)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_dense_tables_are_what_their_cells_give(name, zeros):
    M, T, margins = problem(name, zeros)
    result = swept(M, margins)
    assert result.status == Status.CONVERGED
    assert result.residual <= 1e-9
    assert result.cell_error <= 1e-8
    if len(margins) > 1:
        np.testing.assert_allclose(result.table, T, rtol=1e-7)
    cells = of_cells(M, margins)
    np.testing.assert_allclose(result.table, cells.table, rtol=1e-7)
    for ours, its in zip(result.factors, cells.factors, strict=True):
        np.testing.assert_allclose(ours, its, rtol=1e-5)
    assert_factors_give(result, M, margins)
    for (of, target), achieved in zip(margins, result.achieved, strict=True):
        np.testing.assert_allclose(achieved, margins_of(result.table, [of])[0], rtol=1e-12)
        assert np.abs(achieved - target).sum() <= 1e-9 * np.sum(target)


@pytest.mark.parametrize("name", ["pairs", "two-way", "short-rows"])
def test_dense_tables_are_those_of_the_oracle(name):
    M, _, margins = problem(name, 0.1)
    axes, targets = zip(*margins, strict=True)
    wanted, status = scaled(M, targets, axes, [np.inf] * len(axes))
    assert status == CONVERGED
    np.testing.assert_allclose(swept(M, margins, tol=1e-13).table, wanted, rtol=1e-10)


def test_order_of_margins_and_axes_changes_nothing():
    M, _, margins = problem("pairs", 0.1)
    wanted = swept(M, margins).table
    np.testing.assert_allclose(swept(M, margins[::-1]).table, wanted, rtol=1e-7)
    backwards = [(of[::-1], target.T) for of, target in margins]
    np.testing.assert_allclose(swept(M, backwards).table, wanted, rtol=1e-12)
    turned = [((2 - of[0], 2 - of[1]), target) for of, target in margins]
    np.testing.assert_allclose(swept(M.T, turned).table.T, wanted, rtol=1e-7)


@pytest.mark.parametrize("free", [range(0), range(8, 48)])
def test_lines_of_which_nothing_is_asked_and_zero_targets(free):
    M, T, _ = problem("two-way", 0.1)
    M, T = M.reshape(35, 2, 65), T.reshape(35, 2, 65)
    T[3, 1], T[:, :, 7] = 0.0, 0.0
    margins = list(zip(((1, 0), (2,)), margins_of(T, ((1, 0), (2,))), strict=True))
    margins[1][1][list(free)] = np.nan
    result, cells = swept(M, margins), of_cells(M, margins)
    assert result.status == Status.CONVERGED
    assert not result.table[3, 1].any()
    np.testing.assert_allclose(result.table, cells.table, rtol=1e-7)
    for ours, its, (_, target) in zip(result.factors, cells.factors, margins, strict=True):
        np.testing.assert_allclose(ours[np.isnan(target)], 1.0)
        assert not ours[target == 0].any()
        np.testing.assert_allclose(ours, its, rtol=1e-5)


def test_factors_of_blocks_that_no_cell_joins():
    """Each block leaves a factor free, where a table without zeros has one: still those of least squares are told."""
    M, T, _ = problem("two-way")
    M, T = M[:64, :64].copy(), T[:64, :64].copy()
    for one, other in ((slice(30), slice(30, 64)), (slice(30, 64), slice(30))):
        M[one, other], T[one, other] = 0.0, 0.0
    T[:30] *= 3.0
    margins = [(0, T.sum(1)), (1, T.sum(0))]
    result = swept(M, margins)
    np.testing.assert_allclose(result.table, T, rtol=1e-7)
    for ours, its in zip(result.factors, of_cells(M, margins).factors, strict=True):
        np.testing.assert_allclose(ours, its, rtol=1e-5)


def test_any_memory_and_type():
    M, _, margins = problem("pairs")
    wanted = swept(M, margins)
    for other in (np.asfortranarray(M), np.repeat(M, 2, 1)[:, ::2], M[::-1][::-1]):
        assert swept(other, margins).table.tobytes() == wanted.table.tobytes()
    small = M.astype(np.float32), [(margins[0][0], margins[0][1].astype(np.float32))]
    result = swept(*small)
    assert result.table.dtype == np.float32
    np.testing.assert_allclose(result.achieved[0], small[1][0][1], rtol=1e-12)
    smoothed = swept(M, margins, smoothing=0.25)
    np.testing.assert_allclose(smoothed.table, swept(M + 0.25, margins).table, rtol=1e-12)


def test_neighbours_and_threads_change_no_bit_of_dense_tables():
    M, _, margins = problem("pairs")
    hard = 10.0 ** ((np.arange(M.size) * 7 % 23) / 2).reshape(M.shape)
    T = hard * table(M.shape, 3, 1.5)
    batch = np.stack([M, np.full(M.shape, np.nan), hard])
    both = [(of, np.stack([one, one, other])) for (of, one), other in zip(margins, margins_of(T, PAIRS), strict=True)]
    alone = swept(M, margins)
    for num_threads in (1, 2):
        many = cmfast.ipf_nd(batch, both, on_failure="ignore", num_threads=num_threads)
        assert many.status.tolist() == [Status.CONVERGED, Status.INVALID, Status.CONVERGED]
        assert many.table[0].tobytes() == alone.table.tobytes()
        assert many.factors[1][0].tobytes() == alone.factors[1].tobytes()
        assert np.isnan(many.table[1]).all()
        np.testing.assert_allclose(many.achieved[0][2], both[0][1][2], rtol=1e-8)


@pytest.mark.parametrize("name", ["pairs", "two-way"])
def test_verdicts_on_dense_tables(name):
    M, _, margins = problem(name)
    (of, target), *rest = margins

    def status_of(M, first):
        with mock.patch.object(launch, "LEAST_SWEPT_CELLS", M.size + 1):
            wanted = cmfast.ipf_nd(M, [(of, first), *rest], on_failure="ignore").status
        assert cmfast.ipf_nd(M, [(of, first), *rest], on_failure="ignore").status == wanted
        return wanted

    assert status_of(M, target * 1.1) == Status.TOTALS
    assert status_of(M, -target) == Status.INVALID
    assert status_of(np.where(np.arange(M.size).reshape(M.shape) == 7, np.inf, M), target) == Status.INVALID
    empty = M.copy()
    empty[1] = 0.0
    assert status_of(empty, target) == Status.ZERO_LINE
    assert status_of(M * 1e-300, target * 1.0) == Status.CONVERGED


def test_dense_tables_without_an_answer_and_limits():
    same, other = np.eye(17) + 1e-3, np.eye(17)[::-1] + 1e-3
    result = cmfast.ipf_nd(
        np.ones((17, 17, 17)), [((0, 1), same), ((1, 2), same), ((0, 2), other)], on_failure="ignore"
    )
    assert result.status == Status.INFEASIBLE
    assert np.isnan(result.table).all()
    M = np.ones((70, 70))
    M[0, 1:] = 0.0  # all of its line must stand in one cell, whose column has no more
    result = cmfast.ipf_nd(M, [(0, np.ones(70)), (1, np.ones(70))], on_failure="ignore")
    assert result.status == Status.LIMIT_ONLY
    assert result.table[1, 0] == 0.0
    assert np.isnan(result.factors[0]).all()


def test_tables_that_sweeps_do_not_solve_are_solved_by_steps():
    M, T, margins = problem("pairs", sd=3.0)
    with mock.patch.object(launch, "LEAST_SWEPT_CELLS", M.size + 1):
        wanted = cmfast.ipf_nd(M, margins)
    result = cmfast.ipf_nd(M, margins)
    assert result.status == wanted.status == Status.CONVERGED
    assert result.table.tobytes() == wanted.table.tobytes()
    assert result.n_iter > wanted.n_iter
    np.testing.assert_allclose(result.table, T, rtol=1e-6)


def test_a_change_that_does_not_die_out_is_no_answer():
    """Two blocks that only tiny cells join: margins are met long before their shares are right."""
    M = np.full((80, 80), 1e-11)
    M[:40, :40], M[40:, 40:] = 1.0, 1.0
    x = np.repeat([1.0, 3.0], 40)
    T = M * x[:, None] * x[::-1]
    result = cmfast.ipf_nd(M, [(0, T.sum(1)), (1, T.sum(0))], on_failure="ignore")
    if result.status == Status.CONVERGED:
        np.testing.assert_allclose(result.table, T, rtol=1e-3)
    layout, axes = margins_layout.make_cellless_layout(M.shape, ((0,), (1,))), ((0,), (1,))
    sweeps = dense_sweeps.DenseSweeps(
        M.ravel(), np.concatenate([T.sum(1), T.sum(0)]), layout, launch.make_plan(M.shape, axes), 0.0
    )
    assert sweeps.sweep_to_convergence(1e-9, 1e-8)
    written = np.empty(M.size)
    achieved, is_whole = sweeps.write(written)
    assert is_whole
    assert sweeps.measure_residual(achieved) <= 1e-9
    assert sweeps.measure_amplification(written) == np.inf


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4, 5, 6), PAIRS),
        ((4, 5, 6), ((2, 0), (1,), ())),
        ((2, 3, 2, 3), ((3, 1), (0, 2), (2, 3))),
        ((3, 4), ((1, 0), (0,))),
        ((0, 3), ((0,), (1,))),
        ((), ((),)),
    ],
)
def test_the_layout_of_all_cells_is_that_of_their_coordinates(shape, axes):
    dense = margins_layout.make_dense_layout(shape, axes)
    coordinates = np.unravel_index(np.arange(np.prod(shape, dtype=int)), shape) if shape else ()
    for ours, its in zip(dense, margins_layout.make_sparse_layout(shape, axes, coordinates), strict=True):
        np.testing.assert_array_equal(ours, its)
        assert ours.dtype == its.dtype


def test_margins_of_the_same_lines_of_which_one_is_not_known():
    M, known = np.ones((20, 12, 1, 20)), np.full((20, 20), 12.0)
    partly = known.copy()
    partly[0, 0] = np.nan
    M[0, 0, 0, 0] = 3.0
    result = cmfast.ipf_nd(M, [((0, 3), known), ((3, 2, 0), partly[:, None].copy())])
    assert result.status == 0
    np.testing.assert_allclose(result.table.sum((1, 2)), known, rtol=1e-9)
