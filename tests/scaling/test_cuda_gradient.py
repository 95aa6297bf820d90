"""The gradient of scaling by the CUDA kernels, of every size and kind of matrix, against that of the CPU."""

import device
import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast._core import dispatch
from cmfast.kernels.cuda.scaling import team

pytestmark = [pytest.mark.cuda_host, *device.marks]

SHAPES = [
    (1, 1),
    (2, 2),
    (3, 2),
    (2, 3),
    (1, 4),
    (4, 1),
    (3, 4),
    (4, 4),
    (5, 5),
    (9, 4),
    (4, 9),
    (20, 33),
    (66, 40),
    (140, 133),
]


def gradient(M, G, targets=(), of_row=None, of_col=None, *, with_matrix=True, **options):
    """Return the gradients in the cells and in the targets."""
    result = cmfast.ipf(M, *targets, **{"tol": 1e-13, "on_failure": "ignore", **options})
    given = dispatch.adopt(optional=("G", "of_row", "of_col"), M=M, G=G, of_row=of_row, of_col=of_col)
    known = result.row_scale, result.col_scale, result.matrix if with_matrix else None, result.status, result.smoothing
    return dispatch.call("scaling_gradient", *given, *known)


def assert_agree(M, G, targets=(), of_row=None, of_col=None, *, rtol=1e-9, parts=3, **options):
    """Assert that both have the same gradients, the first so many of them; return those of the device."""
    want = gradient(M, G, targets, of_row, of_col, **options)
    there = [None if a is None else device.asarray(a) for a in (M, G, of_row, of_col)]
    found = gradient(there[0], there[1], tuple(map(device.asarray, targets)), *there[2:], **options)
    found = [device.host(part) for part in found]
    for one, other in zip(found[:parts], want[:parts], strict=True):
        assert one.dtype == other.dtype
        largest = max(abs(np.nan_to_num(other)).max(), 1.0)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-13 * largest)
    return found


def problem(shape, n=3, dtype=np.float64):
    rng = np.random.default_rng(shape)
    M, P, G = rng.random((n, *shape)) + 0.05, rng.random(shape) + 0.05, rng.normal(size=(n, *shape))
    return M.astype(dtype), G.astype(dtype), P.sum(1).astype(dtype), P.sum(0).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sizes(shape):
    M, G, u, v = problem(shape)
    rng = np.random.default_rng(1)
    of_row, of_col = rng.normal(size=(3, shape[0])), rng.normal(size=(3, shape[1]))
    assert_agree(M, G, (u, v), of_row, of_col)
    assert_agree(M, None, (u, v), of_row)
    assert_agree(M, None, (u, v), None, of_col)
    found = assert_agree(M, G, (u, v))
    assert all(np.isfinite(part).all() for part in found)


@pytest.mark.parametrize("C", [3, 4, 9, 40])
def test_single_precision(C):
    M, G, _, _ = problem((C, C), 5, np.float32)
    assert assert_agree(M, G, rtol=1e-5)[0].dtype == np.float32
    assert assert_agree(M, G.astype(np.float64), rtol=1e-5)[0].dtype == np.float64
    assert assert_agree((100 * M).astype(np.int64) + 1, G)[0].dtype == np.float64


@pytest.mark.parametrize("C", [4, 8, 20, 40, 150])
def test_weakly_coupled_halves_keep_their_digits(C):
    """Sums that cancel would leave the slopes of the coupling an error of rounding over the coupling, 1e-7 here."""
    M, G, _, _ = problem((C, C))
    half = C // 2
    M[:, :half, half:] = M[:, half:, :half] = 1e-9 / C
    G[:] = 0.0
    G[:, :half, half:] = 1.0
    cells = assert_agree(M, G)[0]
    # The mass there is half the harmonic mean of what is there and back, so its slope in log M is half of each cell.
    P = cmfast.ipf(M, tol=1e-13).matrix
    np.testing.assert_allclose((cells * M)[:, :half, half:], P[:, :half, half:] / 2, rtol=1e-6)


@pytest.mark.parametrize("shape", [(2, 2), (4, 4), (4, 3), (3, 4), (9, 9), (7, 10), (40, 40)], ids=str)
def test_zeros_limits_and_what_failed(shape):
    """Zeros anywhere: full matrices, blocks, limits, none at all, side by side."""
    rng = np.random.default_rng(shape)
    n = 60 if max(shape) < 5 else 24 if max(shape) < 33 else 5
    T = rng.integers(1, 20, (n, *shape)) * (rng.random((n, *shape)) < rng.uniform(0.3, 0.95, (n, 1, 1)))
    T[: n // 2, 0] += T[: n // 2].sum(1) == 0
    extra = rng.random(T.shape) < 0.15
    M = T * rng.random(T.shape) + extra * (rng.random(T.shape) + 0.1)
    G, targets = rng.normal(size=M.shape), (T.sum(2) * 1.0, T.sum(1) * 1.0)
    M[1, 0, 0] = np.nan
    statuses = cmfast.ipf(M, *targets, on_failure="ignore").status
    assert {0, 2, 5} <= {int(code) for code in statuses} or max(shape) > 4
    cells = assert_agree(M, G, targets)[0]
    assert (np.isnan(cells).all((1, 2)) == ~np.isin(statuses, (0, 2))).all()
    # Of factors that a limit does not have nothing is known; nor is the limit, where it is not given.
    for given in ((G, targets, np.ones(targets[0].shape), np.ones(targets[1].shape)), (G, targets)):
        cells, rows, cols = assert_agree(M, *given, parts=1, with_matrix=len(given) > 2)
        for part in (cells, rows[:, None], cols[:, None]):
            assert (np.isnan(part).all((1, 2)) == (statuses != 0)).all()


@pytest.mark.parametrize("C", [4, 7, 40])
def test_blocks_and_limits_of_whole_matrices(C):
    M, G, _, _ = problem((C, C), 4)
    k = C // 2
    M[0, k:, :k] = M[1, k:, :k] = M[1, :k, k:] = 0.0  # a limit with two blocks; blocks
    M[2, 0, 1:] = M[2, 1:, 0] = 0.0
    if C > 4:
        M[0, k, k + 1] = M[1, 0, 1] = 0.0  # a zero within a block has a gradient of its own
    cells = assert_agree(M, G)[0]
    assert not cells[:2, :k, k:].any()
    assert not cells[:2, k:, :k].any()
    assert not cells[2, 0].any()
    assert C == 4 or (cells[0, k, k + 1] != 0.0 and cells[1, 0, 1] != 0.0)


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (9, 5), (5, 9), (40, 34)], ids=str)
def test_targets_of_zero(shape):
    M, G, u, v = problem(shape)
    u[[0, -1]], v[1] = 0.0, 0.0
    v *= u.sum() / v.sum()
    rows, cols = assert_agree(M, G, (u, v))[1:]
    assert rows[:, 0].all()
    assert cols[:, 1].all()


@pytest.mark.parametrize("C", [3, 9])
def test_smoothing_and_a_matrix_for_many(C):
    M, G, u, v = problem((C, C))
    assert_agree(np.round(M), G, smoothing=0.5)
    assert_agree(M[0], G, (np.stack([u, 2 * u, 3 * u]), np.stack([v, 2 * v, 3 * v])))


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 9, 9)], ids=str)
def test_nothing_to_do(shape):
    found = gradient(*map(device.asarray, (np.ones(shape), np.ones(shape))))
    assert [part.shape for part in found] == [shape, shape[:-1], shape[:-1]]


@pytest.mark.parametrize("C", [4, 9, 40])
def test_neighbours_pieces_and_schedules_change_no_bit(C, monkeypatch):
    M, G, _, _ = problem((C, C), 70 if C < 33 else 3)
    M[1, 0, 0], M[2, 1:, 0] = np.nan, 0.0
    there = tuple(map(device.asarray, (M, G)))
    want = tuple(device.host(part) for part in gradient(*there))
    monkeypatch.setattr(team, "TEAMS", 2)
    for seed in (1, 2):
        with device.schedule(seed):
            assert_same_bits(tuple(device.host(part) for part in gradient(*there)), want)
    for k in (0, 2, len(M) - 1):
        alone = gradient(*(a[k : k + 1] for a in there))
        assert_same_bits(tuple(device.host(part)[0] for part in alone), tuple(part[k] for part in want))


@pytest.mark.parametrize("shape", [(135, 135), (131, 140)], ids=str)
def test_a_crew_of_any_size_gives_the_same_bits(shape, monkeypatch):
    M, G, u, v = problem(shape, 2)
    there = tuple(map(device.asarray, (M, G)))
    targets = tuple(map(device.asarray, (u, v)))
    want = tuple(device.host(part) for part in gradient(*there, targets))
    monkeypatch.setattr(team, "SHARED_MATRIX_CELLS", 1 << 14)
    for most in (2, 5):
        monkeypatch.setattr(team, "processors", lambda on, most=most: 2 * most)
        assert_same_bits(tuple(device.host(part) for part in gradient(*there, targets)), want)


def test_conjugate_gradients_that_would_cost_digits_give_way():
    """Chains, matrices with targets of zero and such as are nearly permutations go by elimination."""
    M, G, u, v = problem((140, 133), 1)
    u[3] = 0.0
    v *= u.sum() / v.sum()
    assert_agree(M, G, (u, v))
    C = 132
    chain = np.eye(C) + 0.3 * np.eye(C, k=1) + 0.2 * np.eye(C, k=-1)
    near = 1e-6 * M[:, :C, :C] + np.eye(C)[::-1]
    assert_agree(np.concatenate([chain[None], near]), np.repeat(G[:, :C, :C], 2, 0), rtol=1e-8)


def test_cells_alone_are_wanted():
    M, G, _, _ = problem((4, 4))
    there = tuple(map(device.asarray, (M, G)))
    result = cmfast.ipf(there[0])
    known = result.row_scale, result.col_scale, result.matrix, result.status, result.smoothing
    (cells,) = dispatch.call("scaling_gradient", *there, None, None, *known, targets=False)
    every = dispatch.call("scaling_gradient", *there, None, None, *known)
    assert_same_bits(device.host(cells), device.host(every[0]))
