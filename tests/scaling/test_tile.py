"""The kernels of matrix scaling against the paper's algorithm, high precision, and their own promises."""

import numpy as np
import pytest
from matrices import confusion, exact, hessenberg, near_permutation, superclasses, tridiagonal

from cmfast.kernels.cpu.scaling import _tile_workspace, launch
from cmfast.kernels.shared import scaling
from cmfast.kernels.status import Status

pytestmark = pytest.mark.exhaustive


@pytest.fixture(autouse=True, params=["eight at a time", "one at a time"])
def _path(request, monkeypatch):
    launch._cache_workspaces.cache_clear()  # which are for the path that was taken before
    if request.param == "one at a time":
        monkeypatch.setattr(scaling, "SHORT", 0)
    yield
    launch._cache_workspaces.cache_clear()


def ipf(M, row_sums=None, col_sums=None, start_row=None, start_col=None, **options):
    return launch.ipf(np.asarray(M), row_sums, col_sums, start_row, start_col, **options)


POSITIVE = {
    "confusion .6": confusion(20, 10, 0.6, 1e-3),
    "confusion .99": confusion(20, 10, 0.99, 1e-6),
    "confusion .9999": confusion(20, 10, 0.9999, 1e-12),
    "confusion of 3": confusion(20, 3, 0.9, 1e-9),
    "confusion of 24": confusion(3, 24, 0.95, 1e-3),
    "confusion of 48": confusion(11, 48, 0.6, 1e-3),
    "confusion of 64": np.concatenate([confusion(5, 64, 0.9, 1e-6), confusion(4, 64, 0.99, 1e-12)]),
    "uniform": np.random.default_rng(1).uniform(size=(20, 10, 10)),
    "wide": 10.0 ** np.random.default_rng(2).uniform(-12, 12, size=(20, 5, 5)),
    "near permutation": near_permutation(20, 10, 1e-9),
    "superclasses": superclasses(20, 8, 1e-12),
    "tridiagonal": tridiagonal(16, 1e-12)[None],
    "two": np.array([[[1.0, 1e-9], [1.0, 1.0]], [[1e-12, 1.0], [1.0, 1e-12]], [[1.0, 1.0], [1.0, 1.0]]]),
    "one": np.array([[[3.0]], [[1e-200]]]),
}


@pytest.mark.parametrize("span", [12, 40, 140])
def test_far_cells_around_lines_without_target(span):
    """They are scaled as if these lines, with whatever cells, were not there."""
    rng = np.random.default_rng(span)
    M = 10.0 ** rng.uniform(-span, span, (20, 7, 7))
    M[:, 2], M[:, :, 5] = 1e-200, 1e200
    u, v = np.ones(7), np.ones(7)
    u[2] = v[5] = 0.0
    rows, cols = np.delete(np.arange(7), 2), np.delete(np.arange(7), 5)
    within = np.ascontiguousarray(M[:, rows[:, None], cols])
    got, want = ipf(M, u[None], v[None], tol=1e-13), ipf(within, tol=1e-13)
    assert (want[5] == Status.CONVERGED).all()
    np.testing.assert_array_equal(got[5], want[5])
    np.testing.assert_allclose(got[0][:, rows[:, None], cols], want[0], rtol=1e-9)


def assert_scaled(M, result, u, v, tol):
    P, x, y, residual, _, status, *_ = result
    assert (status == Status.CONVERGED).all(), np.bincount(status)
    total = u.sum(-1)
    again = (abs(P.sum(-1) - u).sum(-1) + abs(P.sum(-2) - v).sum(-1)) / total
    assert (residual <= tol).all()
    np.testing.assert_allclose(again, residual, rtol=1e-6, atol=1e-14)
    np.testing.assert_allclose(P, x[..., :, None] * M * y[..., None, :], rtol=1e-13)
    np.testing.assert_allclose(np.log(x).mean(-1), 0, atol=1e-12)


@pytest.mark.parametrize("solver", ["auto", "newton"])
@pytest.mark.parametrize("name", POSITIVE)
@pytest.mark.parametrize("tol", [1e-9, 1e-12])
def test_positive_matrices_converge(name, solver, tol):
    M = POSITIVE[name]
    ones = np.ones(M.shape[-1])
    assert_scaled(M, ipf(M, solver=solver, tol=tol), ones, ones, tol)


@pytest.mark.parametrize("name", [name for name, Ms in POSITIVE.items() if Ms.shape[-1] <= 10])
def test_every_cell_is_right(name):
    for M in POSITIVE[name][:4]:
        ones = np.ones(len(M))
        want = exact(M, ones, ones)
        np.testing.assert_allclose(ipf(M, tol=1e-12)[0], want, rtol=1e-10)
        np.testing.assert_allclose(ipf(M, tol=1e-9)[0], want, rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (5, 5), (1, 4), (4, 1), (30, 8), (8, 30)])
def test_margins_of_any_shape(shape):
    rng = np.random.default_rng(3)
    R, C = shape
    M = 10.0 ** rng.uniform(-3, 3, size=(70, R, C))
    u, v = 10.0 ** rng.uniform(-3, 3, size=(70, R)), 10.0 ** rng.uniform(-3, 3, size=(70, C))
    v *= u.sum(-1, keepdims=True) / v.sum(-1, keepdims=True)
    result = ipf(M, u, v, tol=1e-12)
    assert_scaled(M, result, u, v, 1e-12)
    np.testing.assert_allclose(ipf(M[0], u[0], v[0], tol=1e-14)[0], exact(M[0], u[0], v[0]), rtol=1e-8)


def algorithm_1(M, u, v, sweeps):
    Q = M.copy()
    for _ in range(sweeps):
        Q = Q * (u / Q.sum(1))[:, None]
        Q = Q * (v / Q.sum(0))
    return Q


@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3)])
def test_sinkhorn_is_the_algorithm_of_the_paper(shape):
    rng = np.random.default_rng(4)
    M, u, v = rng.uniform(size=shape) ** 4, rng.uniform(1, 2, shape[0]), rng.uniform(1, 2, shape[1])
    v *= u.sum() / v.sum()
    for k in range(1, 21):
        P, _, _, residual, n_iter, status, *_ = ipf(M, u, v, solver="sinkhorn", max_iter=k, tol=1e-14)
        want = algorithm_1(M, u, v, k)
        np.testing.assert_allclose(P, want, rtol=1e-12)
        assert (status, n_iter) == (Status.MAX_ITER, k)
        gap = (abs(want.sum(1) - u).sum() + abs(want.sum(0) - v).sum()) / u.sum()
        np.testing.assert_allclose(residual, gap, rtol=1e-9, atol=1e-15)


def test_sinkhorn_stops_after_the_first_sweep_that_is_good_enough():
    M = confusion(40, 6, 0.6, 0.5)
    P, _, _, residual, n_iter, status, *_ = ipf(M, solver="sinkhorn", tol=1e-7)
    assert (status == Status.CONVERGED).all()
    for m, p, r, k in zip(M, P, residual, n_iter, strict=True):
        np.testing.assert_allclose(p, algorithm_1(m, np.ones(6), np.ones(6), k), rtol=1e-12)
        before = algorithm_1(m, np.ones(6), np.ones(6), k - 1)
        assert r <= 1e-7 < abs(before.sum(1) - 1).max()


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
@pytest.mark.parametrize("C", [2, 3, 10, 24, 30, 48])
def test_neighbours_threads_and_order_change_no_bit(solver, C):
    M = np.concatenate([confusion(60, C, 0.8, 0.5), confusion(40, C, 0.99, 1e-3), near_permutation(30, C, 1e-3)])
    M[7, 0, 0] = np.nan
    M[40, 1] = 0
    M[41] = np.triu(np.ones((C, C)))
    M[99] *= 1e200
    options = {"solver": solver, "max_iter": 60}
    together = ipf(M, **options)
    order = np.random.default_rng(5).permutation(len(M))
    shuffled = ipf(M[order], num_threads=2, **options)
    for a, b in zip(together, shuffled, strict=True):
        np.testing.assert_array_equal(a[order], b)
    for k in (0, 6, 8, 39, 41, 42, 64, 99, 129):
        for a, b in zip(together, ipf(M[k], **options), strict=True):
            np.testing.assert_array_equal(a[k], b)


@pytest.mark.parametrize("C", [scaling.MANY_COLUMNS, scaling.FAST_COLUMNS, scaling.SHORT])
def test_further_sweeps_are_taken_only_where_iterations_are_many(C):
    """A limit that holds the few iterations of fewer sweeps is not spent on sweeps."""
    M = confusion(16, C, 0.8, 0.5)
    few, many = ipf(M, max_iter=scaling.ENOUGH_ITERATIONS - 1), ipf(M)
    assert (few[5] == Status.CONVERGED).all()
    assert (many[5] == Status.CONVERGED).all()
    assert (few[4] < many[4]).all() or scaling.SHORT == 0
    np.testing.assert_allclose(few[0], many[0], rtol=1e-7)


def test_ras_is_ipf_without_the_matrix():
    M = confusion(70, 5, 0.9, 1e-3)
    for a, b in zip(ipf(M)[1:], launch.ras(M, None, None, None, None), strict=True):
        np.testing.assert_array_equal(a, b)


BAD = {
    "nan": (np.nan, Status.INVALID),
    "infinity": (np.inf, Status.INVALID),
    "negative": (-1.0, Status.INVALID),
    "negative zero": (-0.0, Status.CONVERGED),
}


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
@pytest.mark.parametrize("name", BAD)
def test_bad_cells(name, solver):
    value, status = BAD[name]
    M = np.full((3, 3, 3), 2.0)
    M[1, 2, 0] = value
    M[1, 0, 1] = 0.0
    result = ipf(M, solver=solver)
    assert result[5].tolist() == [Status.CONVERGED, status, Status.CONVERGED]
    if status == Status.INVALID:
        assert all(np.isnan(part[1]).all() for part in result[:4])
        assert np.isfinite(result[0][[0, 2]]).all()


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
def test_statuses(solver):
    ones = np.ones(2)
    M = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert ipf(M, ones, ones * 1.001, solver=solver)[5] == Status.TOTALS
    assert ipf(M, ones, ones * (1 + 1e-12), solver=solver)[5] == Status.CONVERGED
    assert ipf(M, ones, np.array([2.0, np.nan]), solver=solver)[5] == Status.INVALID
    assert ipf(M, ones, np.array([3.0, -1.0]), solver=solver)[5] == Status.INVALID
    assert ipf(np.array([[1.0, 2.0], [0.0, 0.0]]), solver=solver)[5] == Status.ZERO_LINE
    assert ipf(np.array([[1.0, 0.0], [1.0, 0.0]]), solver=solver)[5] == Status.ZERO_LINE


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
def test_dropped_classes(solver):
    M = confusion(1, 5, 0.7, 0.5)[0]
    hole = M.copy()
    hole[2] = hole[:, 2] = 0
    keep = np.array([0, 1, 3, 4])
    assert ipf(hole, solver=solver)[5] == Status.ZERO_LINE
    P, x, y, _, _, status, *_ = ipf(hole, solver=solver, empty="drop")
    want = ipf(M[np.ix_(keep, keep)], solver=solver)
    assert status == Status.CONVERGED
    np.testing.assert_allclose(P[np.ix_(keep, keep)], want[0], rtol=1e-7)
    np.testing.assert_allclose(x[keep], want[1], rtol=1e-7)
    assert (P[2] == 0).all()
    assert (P[:, 2] == 0).all()
    assert x[2] == y[2] == 0
    hole[2, 1] = 1
    assert ipf(hole, solver=solver, empty="drop")[5] == Status.ZERO_LINE


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
def test_a_target_of_zero_drops_its_line(solver):
    M = confusion(1, 4, 0.7, 0.5)[0]
    u, v = np.array([1.0, 0.0, 2.0, 3.0]), np.array([2.0, 2.5, 1.5, 0.0])
    P, x, y, residual, _, status, *_ = ipf(M, u, v, solver=solver)
    assert status == Status.CONVERGED
    assert residual <= 1e-9
    assert (P[1] == 0).all()
    assert (P[:, 3] == 0).all()
    assert x[1] == y[3] == 0
    np.testing.assert_allclose(P.sum(1), u, atol=1e-8)


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
def test_powers_of_two_change_nothing_but_the_factors(solver):
    M = confusion(4, 6, 0.7, 0.5)
    rows, cols = np.exp2(np.arange(6) * 90 - 500), np.exp2(400 - np.arange(6) * 50)
    far = ipf(M * rows[:, None] * cols, solver=solver, tol=1e-13)
    near = ipf(M, solver=solver, tol=1e-13)
    assert (far[5] == Status.CONVERGED).all()
    np.testing.assert_allclose(far[0], near[0], rtol=1e-9)


def test_extreme_entries():
    M = np.array([[1e300, 1e-300], [1.0, 1e-10]])
    P, x, y, residual, _, status, *_ = ipf(M)
    assert status == Status.CONVERGED
    assert residual <= 1e-9
    np.testing.assert_allclose(P, [[1, 1e-295], [1e-295, 1]], rtol=1e-6)
    np.testing.assert_allclose(x * y, [1e-300, 1e10], rtol=1e-6)


def imbalance(P):
    """Worst relative difference of what two sets of lines exchange, over all sets: small cells count as large ones."""
    n, worst = len(P), 0.0
    sets = [np.array(k, bool) for k in np.ndindex(*[2] * n) if 0 < sum(k) < n]
    for rows in sets:
        for cols in sets:
            if rows.sum() == cols.sum():
                a, b = P[np.ix_(rows, ~cols)].sum(), P[np.ix_(~rows, cols)].sum()
                if max(a, b) > 1e-280:
                    worst = max(worst, abs(a - b) / max(a, b))
    return worst


@pytest.mark.parametrize("span", [20, 50, 150])
@pytest.mark.parametrize("C", [2, 3, 4, 10])
def test_any_range_of_entries_converges_down_to_the_smallest_cell(span, C):
    rng = np.random.default_rng(span + C)
    M = 10.0 ** rng.uniform(-span, span, (60, C, C))
    P, _, _, _, _, status, *_ = ipf(M)
    assert (status == Status.CONVERGED).all()
    np.testing.assert_allclose(P.sum(-1), 1, atol=1e-9)
    np.testing.assert_allclose(P.sum(-2), 1, atol=1e-9)
    if C < 5:
        assert max(imbalance(p) for p in P) < 2e-6


def test_cells_beyond_the_range_of_the_factors_end_as_range():
    rng = np.random.default_rng(0)
    P, _, _, residual, _, status, *_ = ipf(10.0 ** rng.uniform(-300, 300, (300, 3, 3)))
    good = status == Status.CONVERGED
    assert 200 < good.sum() < 300
    assert (status[~good] == Status.RANGE).all()
    assert np.isnan(P[~good]).all()
    assert (residual[good] <= 1e-9).all()
    assert max(imbalance(p) for p in P[good]) < 2e-6


def test_a_start_for_entries_of_any_range_belongs_to_the_columns_as_they_came():
    M = 10.0 ** np.random.default_rng(3).uniform(-40, 40, (50, 6, 6))
    first = ipf(M, tol=1e-13)
    again = ipf(M, start_row=first[1], start_col=first[2])
    np.testing.assert_allclose(again[0], first[0], rtol=1e-6)
    assert again[4].mean() <= 6 < first[4].max()  # a few sweeps, and one step to see that nothing moves


def test_zero_patterns_without_scaling_are_never_called_converged():
    support_only = np.array([[1.0, 1.0], [0.0, 1.0]])
    infeasible = np.array([[1.0, 1, 1], [1, 0, 0], [1, 0, 0]])
    for M in (support_only, infeasible):
        for solver in ("auto", "newton", "sinkhorn"):
            P, _, _, residual, _, status, *_ = ipf(M, solver=solver, max_iter=100)
            assert status != Status.CONVERGED
            if status == Status.MAX_ITER:
                assert np.isfinite(P).all()
                assert residual > 0


def test_total_support_with_zeros_converges():
    blocks = np.kron(np.eye(3), np.ones((2, 2))) * np.arange(1, 37).reshape(6, 6)
    chain = hessenberg(12)
    for M in (blocks, chain, tridiagonal(9, 0.0)):
        P, _, _, residual, _, status, *_ = ipf(M, tol=1e-12)
        assert status == Status.CONVERGED
        assert residual <= 1e-12
        assert ((P == 0) == (M == 0)).all()


def test_a_hidden_pairing_is_found_whatever_the_order():
    M = confusion(1, 8, 0.999, 1e-6)[0]
    rng = np.random.default_rng(6)
    rows, cols = rng.permutation(8), rng.permutation(8)
    direct, hidden = ipf(M, tol=1e-13)[0], ipf(M[rows][:, cols], tol=1e-13)[0]
    np.testing.assert_allclose(hidden, direct[rows][:, cols], rtol=1e-11)


def test_smoothing():
    M = np.array([[712.0, 0, 12], [0, 584, 2], [18, 0, 434]])
    P, x, _, _, _, status, k, _ = ipf(M, smoothing="pseudo-bayes", tol=1e-13)
    assert status == Status.CONVERGED
    np.testing.assert_allclose(k, 3.2191208712347272, rtol=1e-12)
    np.testing.assert_allclose(P[1], [0.0002931914826176357, 0.9974168024199533, 0.0022900060974289918], rtol=1e-9)
    np.testing.assert_allclose(x, [1.242982147082245, 0.6018267817820425, 1.3367912640707689], rtol=1e-9)
    smoothed = ipf(M, smoothing=0.5, tol=1e-13)
    added = ipf(M + 0.5, tol=1e-13)
    np.testing.assert_array_equal(smoothed[0], added[0])
    assert (smoothed[6], added[6]) == (0.5, 0.0)


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
def test_warm_start(solver):
    M = confusion(3, 6, 0.6, 0.5)
    cold = ipf(M, solver=solver, tol=1e-12)
    for start in ((cold[1], None), (None, cold[2]), (cold[1], cold[2])):
        warm = ipf(M, None, None, *start, solver=solver, tol=1e-12)
        assert (warm[5] == Status.CONVERGED).all()
        assert (warm[4] <= cold[4]).all()
        np.testing.assert_allclose(warm[0], cold[0], rtol=1e-9)
    useless = np.full((3, 6), np.nan)
    for a, b in zip(cold, ipf(M, None, None, useless, useless, solver=solver, tol=1e-12), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_types(dtype):
    M = np.array([[5, 1], [2, 7]]).astype(dtype)
    P, x, y, residual, *_ = ipf(M)
    want = ipf(M.astype(float))
    assert P.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert x.dtype == y.dtype == residual.dtype == np.float64
    np.testing.assert_array_equal(P, want[0].astype(P.dtype))
    np.testing.assert_array_equal(x, want[1])


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 4, 4), (0, 0), (3, 0, 0)])
def test_nothing_at_all(shape):
    P, x, _, residual, _, status, *_ = ipf(np.zeros(shape))
    assert P.shape == shape
    assert x.shape == shape[:-1]
    assert status.shape == residual.shape == shape[:-2]
    assert (status == Status.CONVERGED).all()


def test_targets_broadcast_over_the_batch():
    M = confusion(6, 3, 0.7, 0.5).reshape(2, 3, 3, 3)
    u = np.array([[[1.0, 2, 3]], [[3.0, 2, 1]]])
    P, _, _, _, _, status, *_ = ipf(M, u, np.full(3, 2.0))
    assert (status == Status.CONVERGED).all()
    np.testing.assert_allclose(P.sum(-1), np.broadcast_to(u, (2, 3, 3)), rtol=1e-8)
    one = ipf(M[0, 0], u, np.full(3, 2.0))[0]
    assert one.shape == (2, 1, 3, 3)
    np.testing.assert_allclose(one.sum(-1), u, rtol=1e-8)


def test_a_problem_is_filled_in_the_order_of_its_fields():
    """The launcher of small calls fills it by place."""
    fields = scaling.ScalingProblem._fields
    first, last = fields.index("amount"), fields.index("out")
    assert tuple(scaling.rules(3, 3, bi=True)) == fields[first:last]
    assert fields[last:] == scaling.RESULTS_OF_PROBLEM
    assert fields[5:first] == scaling.LINES_OF_PROBLEM


def test_tiles_that_nobody_uses_are_few():
    for R in range(1, 12):
        for C in range(1, 12):
            _tile_workspace.release_tile(_tile_workspace.acquire_tile(R, C, flip=False, newton=True), newton=True)
    assert len(_tile_workspace._free) <= _tile_workspace.MAX_CACHED_SHAPES + 1
    assert all(len(free) <= _tile_workspace.MAX_CACHED_TILES for free in _tile_workspace._free.values())
