"""Matrices of many classes, which are scaled one at a time: every family of difficulty, and what must not change it."""

import tracemalloc

import numpy as np
import pytest
from checks import assert_same_bits
from matrices import confusion, exact, hessenberg, near_permutation, superclasses, tridiagonal
from processes import python

import cmfast
from cmfast import Status
from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.scaling import _large, _large_batch, _large_passes, _large_row_blocks, _large_sinkhorn

pytestmark = pytest.mark.exhaustive

FAMILIES = {
    "confusion .6": lambda C: confusion(2, C, 0.6, 0.5),
    "confusion .99": lambda C: confusion(2, C, 0.99, 1e-3),
    "confusion .9999": lambda C: confusion(2, C, 0.9999, 1e-12),
    "uniform": lambda C: np.random.default_rng(1).uniform(size=(2, C, C)),
    "wide": lambda C: 10.0 ** np.random.default_rng(2).uniform(-12, 12, size=(2, C, C)),
    "near permutation": lambda C: near_permutation(2, C, 1e-9),
    "superclasses": lambda C: superclasses(2, C, 1e-12),
    "tridiagonal": lambda C: tridiagonal(C, 1e-12)[None],
    "Hessenberg": lambda C: hessenberg(C)[None],
}


def check(M, result, u, v, tol=1e-9):
    assert (result.status == Status.CONVERGED).all(), (result.status, result.residual)
    P = result.matrix
    again = (abs(P.sum(-1) - u).sum(-1) + abs(P.sum(-2) - v).sum(-1)) / np.sum(u, -1)
    assert (again <= 2 * tol).all()
    scaled = result.row_scale[..., :, None] * M * result.col_scale[..., None, :]
    np.testing.assert_allclose(P, scaled, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(np.log(result.row_scale).mean(-1), 0, atol=1e-10)


@pytest.mark.parametrize("C", [65, 100, 200, 300])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_converges(family, C):
    M = FAMILIES[family](C)
    ones = np.ones(C)
    check(M, cmfast.ipf(M), ones, ones)


@pytest.mark.parametrize("family", ["confusion .99", "superclasses", "near permutation"])
def test_a_thousand_classes_converge(family):
    M = FAMILIES[family](1000)[:1]
    ones = np.ones(1000)
    check(M, cmfast.ipf(M), ones, ones)


@pytest.mark.parametrize("shape", [(70, 200), (200, 70), (20_000, 3), (3, 20_000), (300, 400)])
def test_margins_of_any_shape(shape):
    rng = np.random.default_rng(4)
    M = rng.gamma(0.3, size=shape) + 1e-9
    u, v = 10.0 ** rng.uniform(-3, 3, shape[0]), 10.0 ** rng.uniform(-3, 3, shape[1])
    v *= u.sum() / v.sum()
    check(M, cmfast.ipf(M, u, v), u, v)


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", ["confusion .9999", "superclasses"])
def test_small_cells_are_right_where_the_residual_cannot_see_them(family):
    M = FAMILIES[family](66)[0]
    result = cmfast.ipf(M, tol=1e-13)
    want = exact(M, np.ones(66), np.ones(66), digits=50)
    np.testing.assert_allclose(result.matrix, want, rtol=1e-9)


@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
@pytest.mark.parametrize("C", [90, 600])
def test_threads_and_neighbours_change_no_bit(C, solver):
    M = confusion(3, C, 0.9, 1e-3)
    M[1, 0, 0] = np.nan
    options = {"solver": solver, "max_iter": 30, "on_failure": "ignore"}
    alone = cmfast.ipf(M[2], num_threads=1, **options)
    for threads in (1, 2, 5, 8):
        result = cmfast.ipf(M, num_threads=threads, **options)
        assert result.status[1] == Status.INVALID
        for a, b in zip(result, alone, strict=True):
            assert_same_bits(np.asarray(a[2]), np.asarray(b))


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.5}, {"return_matrix": False}, {"dtype": np.float32}])
def test_many_that_sweeps_solve_have_the_bits_of_each_alone(monkeypatch, options):
    M = confusion(9, 83, 0.6, 1e-3).astype(options.pop("dtype", float))
    M[3] = confusion(1, 83, 0.999, 1e-9)[0]  # for Newton's method
    M[5, 2] = 0.0  # an empty line, unless smoothed
    M[6, :, 4] *= 1e30  # cells that span too much
    M[8, 1, 1] = np.nan
    scale = cmfast.ras if options.pop("return_matrix", True) is False else cmfast.ipf
    options["on_failure"] = "ignore"
    alone = [scale(m, **options) for m in M]
    monkeypatch.setattr(_large_batch, "LEAST_BATCH_CELLS", 1)
    for threads in (1, 2, 3):
        many = scale(M, num_threads=threads, **options)
        for name in ("matrix", "row_scale", "col_scale", "residual", "n_iter", "status", "smoothing"):
            found = getattr(many, name)
            for b in range(len(M) if found is not None else 0):
                assert_same_bits(np.asarray(found[b]), np.asarray(getattr(alone[b], name)))
    hard, scale_one = [], _large._scale_one
    monkeypatch.setattr(_large, "_scale_one", lambda p, given, *rest: hard.append(given) or scale_one(p, given, *rest))
    monkeypatch.setattr(pool, "PIECE_SECONDS", 1.0)  # one piece
    scale(M[:6], **options)
    assert len(hard) == (2 if "smoothing" not in options else 0)  # after a hard one the compiled loop goes on
    monkeypatch.setattr(_large, "_scale_one", None)
    assert (scale(M[[0, 1, 2, 4, 7]], **options).status == Status.CONVERGED).all()


@pytest.mark.parametrize("accuracy", [0.6, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("C", [70, 100])
def test_residuals_that_grow_for_a_while_do_not_end_the_sweeps(monkeypatch, C, accuracy):
    P = np.eye(C) * accuracy + (1.0 - accuracy) / C
    M = np.random.default_rng(5).poisson(20 * P, size=(8, C, C)) + 1e-3  # few samples: some rows are nearly alone
    newton, run_newton = [], _large._run_newton
    monkeypatch.setattr(_large, "_run_newton", lambda *args: newton.append(1) or run_newton(*args))
    assert (cmfast.ipf(M).status == Status.CONVERGED).all()
    assert len(newton) <= 3


@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
@pytest.mark.parametrize("accuracy", [0.6, 0.99])
def test_threads_that_share_the_rows_change_no_bit(monkeypatch, accuracy, solver):
    M = confusion(1, 600, accuracy, 1e-3)[0]
    options = {"solver": solver, "max_iter": 50, "on_failure": "ignore"}
    alone = cmfast.ipf(M, num_threads=1, **options)
    monkeypatch.setattr(_large_row_blocks, "SECONDS_PER_PASS_CELL", 1e-7)
    monkeypatch.setattr(pool, "cpu_count", lambda: 3)
    for threads in (None, 2, 8):
        for a, b in zip(cmfast.ipf(M, num_threads=threads, **options), alone, strict=True):
            assert_same_bits(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("accuracy", [0.6, 0.9])
def test_momentum_saves_most_of_the_sweeps(accuracy):
    M = confusion(1, 150, accuracy, 1e-3)[0]
    plain = cmfast.ipf(M, solver="sinkhorn", tol=1e-12)
    quick = cmfast.ipf(M, tol=1e-12)
    assert quick.status == plain.status == Status.CONVERGED
    assert quick.n_iter < 0.7 * plain.n_iter
    np.testing.assert_allclose(quick.matrix, plain.matrix, rtol=1e-8)


@pytest.mark.parametrize("momentum", [0.999, 1.0 - 1e-9])
def test_momentum_that_is_far_too_much_ends_in_the_same_matrix(monkeypatch, momentum):
    M = confusion(1, 150, 0.6, 1e-3)[0]
    want = cmfast.ipf(M, tol=1e-12)
    monkeypatch.setattr(_large, "START", _large_sinkhorn.START._replace(momentum=momentum))
    found = cmfast.ipf(M, tol=1e-12)
    assert found.status == Status.CONVERGED
    np.testing.assert_allclose(found.matrix, want.matrix, rtol=1e-8)


def test_sweeps_that_leave_the_range_are_taken_back(monkeypatch):
    M = confusion(1, 150, 0.9, 1e-3)[0]
    want = cmfast.ipf(M, tol=1e-12)
    lost = _large_sinkhorn.START._replace(state=_large_sinkhorn.OUT_OF_RANGE, residual=np.nan)

    def sweeps(self, x, y, step, pace, goal):
        x[:], y[:] = np.nan, np.inf
        return lost

    monkeypatch.setattr(_large_row_blocks.MatrixRows, "run_momentum_sweeps", sweeps)
    for start in (None, want):
        found = cmfast.ipf(M, tol=1e-12, start=start)
        assert found.status == Status.CONVERGED
        np.testing.assert_allclose(found.matrix, want.matrix, rtol=1e-8)


@pytest.mark.exhaustive
@pytest.mark.parametrize("R", [1, 3, 4, 9, 33])
@pytest.mark.parametrize("C", [1, 7, 8, 19, 32])
def test_passes_over_any_number_of_rows_and_columns(R, C):
    rng = np.random.default_rng([R, C])
    M, u, v, x, y = rng.random((R, C)) + 0.1, rng.random(R), rng.random(C), rng.random(R), rng.random(C) + 0.1
    M[-1, -1] = 0.0 if min(R, C) > 1 else 1.0
    positive = M[M > 0]
    assert _large_passes.measure_cell_range(M) == (positive.min(), M.max(), positive.size < M.size, False)
    for bad in (np.nan, np.inf, -1.0):
        for place in ((0, 0), (-1, -1)):
            spoilt = M.copy()
            spoilt[place] = bad
            assert _large_passes.measure_cell_range(spoilt)[3]
    cells = x[:, None] * M * y
    paths = 1 if positive.size < M.size else max(1, min(R, C) - 1)
    np.testing.assert_allclose(
        _large_passes.bound_hidden_residual(_large_passes.find_smallest_cell(M, x, y), min(R, C), 0.5, 2.0),
        cells[M > 0].min() * paths / 4,
        rtol=1e-14,
    )
    matrix = _large_passes.ScaledMatrix(M, u, v)
    for rows in (4, 8):
        blocks = -(-R // rows)
        sums, out = (
            _large_passes.Sums(np.empty((blocks, C)), np.empty(blocks), rows, np.empty(blocks)),
            np.empty((R, C)),
        )
        _large_passes.measure_sums(matrix, x, y, sums, out, 0, blocks)
        np.testing.assert_allclose(out, cells, rtol=1e-14)
        np.testing.assert_allclose(sums.cols.sum(0), cells.sum(0), rtol=1e-13)
        np.testing.assert_allclose(sums.missed.sum(), abs(cells.sum(1) - u).sum(), rtol=1e-13)
        new_x = x.copy()
        _large_sinkhorn.sweep(matrix, new_x, y, sums, 0, blocks)
        np.testing.assert_allclose(sums.missed.sum(), abs(cells.sum(1) - u).sum(), rtol=1e-13)
        np.testing.assert_allclose(new_x, u / (M @ y), rtol=1e-13)
        np.testing.assert_allclose(sums.cols.sum(0), new_x @ M, rtol=1e-13)


@pytest.mark.parametrize("family", ["confusions", "cells of any size"])
def test_the_sweeps_are_those_of_the_paper(family):
    rng = np.random.default_rng(5)
    M = confusion(1, 80, 0.9, 1e-3)[0] if family == "confusions" else 10.0 ** rng.uniform(-140, 140, (80, 80))
    x, y = np.ones(80), np.ones(80)
    for k in range(1, 6):
        x = 1 / (M @ y)
        y = 1 / (x @ M)
        result = cmfast.ipf(M, solver="sinkhorn", max_iter=k, on_failure="ignore")
        assert result.n_iter == k
        np.testing.assert_allclose(result.matrix, x[:, None] * M * y, rtol=1e-12)


def test_sweeps_that_change_nothing_any_more_go_on():
    M = np.random.default_rng(0).random((70, 70))
    M[:40, :40] = 0.0  # 40 rows that want more than 30 columns give
    result = cmfast.ipf(M, solver="sinkhorn", max_iter=300, on_failure="ignore")
    assert (result.status, result.n_iter) == (Status.MAX_ITER, 300)
    np.testing.assert_allclose(result.residual, 20 / 70, rtol=1e-9)


def test_zeros_end_as_they_do_for_few_classes():
    C = 80
    M = confusion(1, C, 0.9, 1e-3)[0]
    M[:40, 40:] = 0.0  # one way only: these classes are taken for the others, never the reverse
    result = cmfast.ipf(M, on_failure="ignore")
    assert result.status == Status.LIMIT_ONLY
    assert (result.matrix[40:, :40] == 0).all()
    np.testing.assert_allclose(result.matrix.sum(0), 1, atol=1e-8)
    M[:41, 40:] = 0.0
    assert cmfast.ipf(M, on_failure="ignore").status == Status.INFEASIBLE
    M[3] = 0.0
    assert cmfast.ipf(M, on_failure="ignore").status == Status.ZERO_LINE
    M = confusion(1, C, 0.9, 1e-3)[0]
    M[7], M[:, 7] = 0.0, 0.0
    result = cmfast.ipf(M, empty="drop")
    assert result.status == Status.CONVERGED
    assert result.matrix[7].sum() == result.row_scale[7] == 0


@pytest.mark.parametrize("smoothing", [0.5, "pseudo-bayes"])
def test_smoothing_and_starts(smoothing):
    M = np.floor(confusion(1, 70, 0.9, 0.0)[0]) + np.eye(70)
    result = cmfast.ipf(M, smoothing=smoothing)
    assert result.status == Status.CONVERGED
    if smoothing == 0.5:
        check(M + 0.5, result, np.ones(70), np.ones(70))
    again = cmfast.ipf(M, smoothing=smoothing, start=result)
    np.testing.assert_allclose(again.matrix, result.matrix, rtol=1e-5)


def test_a_large_matrix_is_not_copied_more_than_once():
    M = np.random.default_rng(0).uniform(size=(2000, 2000))
    cmfast.ipf(M)  # compiles, which takes more memory
    tracemalloc.start()
    cmfast.ipf(M)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * M.nbytes  # the result, and a little


ROWS_ALONE = """
import hashlib
import cmfast, numpy as np
rng = np.random.default_rng(0)
M, x = rng.uniform(0.1, 1, (700, 700)) ** 5, rng.uniform(0.5, 2, 700)
print(hashlib.sha256(cmfast.ipf(M, start=(x, np.full(700, np.nan))).matrix).hexdigest())
"""


def test_a_start_of_rows_alone_does_not_depend_on_the_threads_of_the_blas(tmp_path):
    first, second = (python("-c", ROWS_ALONE, cwd=tmp_path, OPENBLAS_NUM_THREADS=n) for n in ("1", "2"))
    assert first == second
