"""The gradient of scaling beyond what the oracle can do in time: sizes, zeros, limits, digits."""

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast._core import dispatch
from cmfast.kernels.cpu.scaling import _gradient_large
from cmfast.kernels.cpu.scaling import gradient as kernel

SIZES = [(1, 4), (4, 1), (7, 7), (8, 9), (9, 8), (33, 20), (64, 64), (65, 65), (80, 66), (66, 80), (140, 133)]


def gradient(M, G, result, of_row=None, of_col=None):
    """Return the gradients in the cells and in both targets."""
    known = result.row_scale, result.col_scale, result.matrix, result.status, result.smoothing
    return dispatch.call("scaling_gradient", M, G, of_row, of_col, *known)


def scaled(M, *targets, **options):
    return cmfast.ipf(M, *targets, tol=1e-13, **options)


def implicit(result, G):
    """Return the gradient in the cells by a least-squares solve of the whole system."""
    x, y, P = result.row_scale, result.col_scale, result.matrix
    (R, _), of_cells = P.shape, P * G
    K = np.block([[np.diag(P.sum(1)), P], [P.T, np.diag(P.sum(0))]])
    a = np.linalg.lstsq(K, np.concatenate([of_cells.sum(1), of_cells.sum(0)]), rcond=1e-13)[0]
    return (G - a[:R, None] - a[R:]) * np.outer(x, y)


def problem(shape, seed=0):
    rng = np.random.default_rng(seed)
    M, P, G = rng.random(shape) + 0.05, rng.random(shape) + 0.05, rng.normal(size=shape)
    return M, G, P.sum(1), P.sum(0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_sizes(shape):
    M, G, u, v = problem(shape)
    result = scaled(M, u, v)
    cells, rows, cols = gradient(M, G, result)
    want = implicit(result, G)
    np.testing.assert_allclose(cells, want, rtol=0, atol=1e-12 * max(1.0, abs(want).max()))
    a = rows[:, None] + cols
    np.testing.assert_allclose((G - a) * np.outer(result.row_scale, result.col_scale), cells, rtol=0, atol=1e-11)
    assert abs(v @ cols) < 1e-10 * v.sum()


@pytest.mark.parametrize("shape", [(6, 6), (70, 66), (66, 70), (5, 9)], ids=str)
def test_directions_of_factors_and_targets(shape):
    """The slope along one direction through everything, against a difference of two results."""
    M, G, u, v = problem(shape, 1)
    rng = np.random.default_rng(2)
    of_row, of_col = rng.normal(size=shape[0]), rng.normal(size=shape[1])
    dM, du, dv = rng.normal(size=shape) * M, rng.normal(size=shape[0]) * u, rng.normal(size=shape[1]) * v

    def loss(h):
        columns = v + h * dv
        result = scaled(M + h * dM, u + h * du, columns * (u + h * du).sum() / columns.sum())
        return (G * result.matrix).sum() + of_row @ result.row_scale + of_col @ result.col_scale

    cells, rows, cols = gradient(M, G, scaled(M, u, v), of_row, of_col)
    slope = (cells * dM).sum() + rows @ du + cols @ dv
    assert slope == pytest.approx((loss(1e-5) - loss(-1e-5)) / 2e-5, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("C", [6, 70, 160])
def test_weakly_coupled_halves_keep_their_digits(C):
    """Sums that cancel would leave the slopes of the coupling an error of rounding over the coupling, 1e-7 here."""
    rng = np.random.default_rng(C)
    M = np.full((C, C), 1e-9 / C)
    half = C // 2
    M[:half, :half], M[half:, half:] = rng.random((half, half)) + 0.1, rng.random((C - half, C - half)) + 0.1
    # What is worth one more between the halves: only the coupling says what it does, so two numbers are the answer.
    G = np.zeros((C, C))
    G[:half, half:] = 1.0
    result = scaled(M)
    cells, _, _ = gradient(M, G, result)
    P = result.matrix
    there, back = P[:half, half:], P[half:, :half]
    # The mass there is half the harmonic mean of what is there and back, so its slope in log M is half of each cell;
    # what it takes from the halves is of second order.
    np.testing.assert_allclose(cells[:half, half:] * M[:half, half:], there / 2, rtol=1e-6)
    np.testing.assert_allclose(cells[half:, :half] * M[half:, :half], back / 2, rtol=1e-6)
    steps = cells * M
    assert max(abs(steps.sum(0)).max(), abs(steps.sum(1)).max()) < 1e-14


@pytest.mark.parametrize("sizes", [(2, 3), (40, 30)])
def test_blocks_that_touch_nowhere(sizes):
    rng = np.random.default_rng(3)
    first, second = (rng.random((n, n)) + 0.1 for n in sizes)
    second[0, 1] = 0.0
    C, k = sum(sizes), sizes[0]
    M, G = np.zeros((C, C)), rng.normal(size=(C, C))
    M[:k, :k], M[k:, k:] = first, second
    cells, _, _ = gradient(M, G, scaled(M))
    for part, block in ((slice(k), first), (slice(k, C), second)):
        want, _, _ = gradient(block, G[part, part], scaled(block))
        np.testing.assert_allclose(cells[part, part], want, rtol=1e-10, atol=1e-12)
    assert not cells[:k, k:].any()
    assert not cells[k:, :k].any()


@pytest.mark.parametrize("C", [5, 70])
def test_a_limit_is_differentiated_on_its_live_cells(C):
    rng = np.random.default_rng(4)
    k = C // 2
    M, G = rng.random((C, C)) + 0.1, rng.normal(size=(C, C))
    M[k:, :k] = 0.0  # so what is above dies
    M[k, k + 1] = 0.0
    with pytest.warns(cmfast.FailureWarning, match="LIMIT_ONLY"):
        result = scaled(M)
    cells, _, _ = gradient(M, G, result)
    live = M.copy()
    live[:k, k:] = 0.0
    want, _, _ = gradient(live, G, scaled(live))
    np.testing.assert_allclose(cells, want, rtol=1e-9, atol=1e-12)
    assert not cells[:k, k:].any()
    assert cells[k, k + 1] != 0.0
    assert np.isnan(gradient(M, None, result._replace(matrix=None), np.ones(C), np.ones(C))[0]).all()


def test_what_failed_is_nan_and_alone():
    M, G, _, _ = problem((11, 4, 4))
    good = M.copy()
    M[3, 0, 0], M[7, 1] = np.nan, 0.0
    cells, _, _ = gradient(M, G, scaled(M, on_failure="ignore"))
    want, _, _ = gradient(good, G, scaled(good))
    bad = [3, 7]
    assert np.isnan(cells[bad]).all()
    assert_same_bits(np.delete(cells, bad, 0), np.delete(want, bad, 0))
    stopped = cmfast.ipf(good, solver="sinkhorn", max_iter=1, on_failure="ignore")
    assert (stopped.status == cmfast.Status.MAX_ITER).all()
    assert np.isnan(gradient(good, G, stopped)[0]).all()


def test_a_bad_gradient_harms_one_matrix():
    M, G, _, _ = problem((9, 4, 4))
    result = scaled(M)
    want, _, _ = gradient(M, G, result)
    G[5, 1, 2] = np.inf
    cells, _, _ = gradient(M, G, result)
    assert_same_bits(np.delete(cells, 5, 0), np.delete(want, 5, 0))
    assert not np.isfinite(cells[5]).all()


def test_one_matrix_for_many_targets():
    M, G, u, v = problem((3, 4))
    many = scaled(M, np.stack([u, 2 * u]), np.stack([v, 2 * v]))
    G = np.stack([G, -G])
    cells, _, _ = gradient(M, G, many)
    for k in range(2):
        one, _, _ = gradient(M, G[k], scaled(M, (k + 1) * u, (k + 1) * v))
        np.testing.assert_allclose(cells[k], one, rtol=1e-12)


def halves(C, coupling):
    """Return a matrix of two halves that have little to do with one another."""
    rng = np.random.default_rng(C)
    M, k = np.full((C, C), coupling / C), C // 2
    M[:k, :k], M[k:, k:] = rng.random((k, k)) + 0.1, rng.random((C - k, C - k)) + 0.1
    return M


@pytest.mark.parametrize("tol", [0.0, 1e-9])
@pytest.mark.parametrize("M", [problem((150, 150))[0], *(halves(150, c) for c in (1e-2, 1e-6, 1e-9, 1e-12))])
def test_elimination_and_conjugate_gradients_agree(M, tol, monkeypatch):
    """The slow part of what two halves exchange is as small as their coupling where they begin."""
    G, result = problem((150, 150), 5)[1], scaled(M)
    known = result.row_scale, result.col_scale, result.matrix, result.status, result.smoothing
    cells, _, _ = dispatch.call("scaling_gradient", M, G, None, None, *known, tol=tol)
    monkeypatch.setattr(_gradient_large, "MOST_ELIMINATED_COLUMNS", 1000)
    factors = np.outer(result.row_scale, result.col_scale)
    np.testing.assert_allclose(cells / factors, gradient(M, G, result)[0] / factors, rtol=0, atol=max(tol, 1e-11))


@pytest.mark.parametrize("power", [2.0, 10.0, 100.0])
def test_rows_that_are_nearly_all_one_cell_keep_their_digits(power, monkeypatch):
    C = 150
    M, G, _, _ = problem((C, C), 6)
    M[np.random.default_rng(7).permutation(C), np.arange(C)] *= 10.0**power * np.arange(1.0, C + 1.0)
    result = scaled(M)
    cells, _, _ = gradient(M, G, result)
    monkeypatch.setattr(_gradient_large, "MOST_ELIMINATED_COLUMNS", 1000)
    want, _, _ = gradient(M, G, result)
    np.testing.assert_allclose(cells, want, rtol=1e-7)
    np.testing.assert_allclose(np.sort(abs(cells / want - 1.0).ravel())[-C], 0.0, atol=1e-12)


def make(kind):
    """Return a matrix of more columns than are eliminated, and its options."""
    M, _, _, _ = problem((150, 150), 8)
    if kind == "blocks":
        M[:70, 70:] = M[70:, :70] = 0.0
    elif kind == "limit":
        M[70:, :70] = 0.0
    elif kind == "wide":
        M = M[:140]
    return M, {"smoothing": 0.5} if kind == "smoothed" else {"on_failure": "ignore"}


@pytest.mark.parametrize("kind", ["plain", "blocks", "limit", "smoothed", "wide"])
def test_large_matrices_in_single_precision(kind):
    M, options = make(kind)
    M, G = M.astype(np.float32), problem(M.shape, 9)[1].astype(np.float32)
    targets = (np.full(140, 1.5), np.full(150, 1.4)) if kind == "wide" else ()
    wide = scaled(M.astype(np.float64), *targets, **options)
    lines = () if kind == "limit" else problem(M.shape, 10)[2:]  # a limit has no factors
    cells = gradient(M, G, wide, *lines)[0]
    want = gradient(M.astype(np.float64), G.astype(np.float64), wide, *lines)[0]
    assert cells.dtype == np.float32
    np.testing.assert_allclose(cells, want, rtol=1e-6, atol=1e-6 * abs(want).max())
    np.testing.assert_array_equal(cells == 0.0, want == 0.0)


def test_large_matrices_have_the_same_bits_for_any_number_of_threads():
    M, G, _, _ = problem((701, 701))
    result = scaled(M)
    known = result.row_scale, result.col_scale, result.matrix, result.status, result.smoothing
    one, two = (dispatch.call("scaling_gradient", M, G, None, None, *known, num_threads=n) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert_same_bits(a, b)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 3), (3, 0), (0, 3, 3), (1, 1), (2, 3), (9, 4, 7)], ids=str)
def test_nothing_is_written_past_the_lines_of_a_tile(shape, monkeypatch):
    made = []

    def guarded(n):
        lines = new_lines(n + 16)
        lines[n:] = 7.5
        made.append(lines[n:])
        return lines[:n]

    new_lines = kernel.new_lines
    monkeypatch.setattr(kernel, "new_lines", guarded)
    M = np.ones(shape)
    result = cmfast.ipf(M, np.full(shape[:-1], 1.0 * shape[-1]), np.full((*shape[:-2], shape[-1]), 1.0 * shape[-2]))
    of_row, of_col = np.ones(result.row_scale.shape), np.ones(result.col_scale.shape)
    for sent in ((None, None), (of_row, of_col)):
        found = gradient(M, M, result, *sent)
        assert [part.shape for part in found] == [M.shape, of_row.shape, of_col.shape]
        assert all(np.isfinite(part).all() for part in found)
    assert all((guard == 7.5).all() for guard in made)
    assert bool(made) == bool(M.size)
