"""Zeros and tiny cells among many classes: errors of cells that sums do not show, and sweeps that prove them small.

The oracles are slow: widest paths by Floyd and Warshall's scheme, resistances by a pseudo-inverse, and the support of
cells by strongly connected components.
"""

import numpy as np
import pytest
from checks import assert_same_bits
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

import cmfast
from cmfast import Status
from cmfast.kernels.cpu.scaling import _large, _large_passes, _large_row_blocks, launch

pytestmark = pytest.mark.exhaustive

ALL_FIELDS = "matrix", "row_scale", "col_scale", "residual", "n_iter", "status", "smoothing", "line_error"


def counts(rng, C, accuracy, samples):
    """Return counts of a classifier, a sample of them for every class, most of them zero; no class is empty."""
    shares = rng.gamma(0.5, size=(C, C))
    np.fill_diagonal(shares, 0.0)
    shares *= (1 - accuracy) / shares.sum(1, keepdims=True)
    return rng.poisson(samples * (shares + np.eye(C) * accuracy)) + np.eye(C)


def in_halves(rng, C, low, high):
    """Return two halves of which one flows into the other by `low`, and back by `high`."""
    M = rng.random((C, C)) + 0.1
    half = C // 2
    M[:half, half:] *= low * (rng.random((half, C - half)) < 0.5)
    M[half:, :half] *= high * (rng.random((C - half, half)) < 0.5)
    return M


FAMILIES = {
    "counts": lambda rng, C: counts(rng, C, 0.6, 300),
    "few samples": lambda rng, C: counts(rng, C, 0.5, 12),
    "few errors": lambda rng, C: counts(rng, C, 0.95, 100),
    "counts + 1e-9": lambda rng, C: counts(rng, C, 0.6, 300) + 1e-9,
    "few samples + 1e-12": lambda rng, C: counts(rng, C, 0.5, 12) + 1e-12,
    "any size": lambda rng, C: 10.0 ** rng.uniform(-12, 0, (C, C)),
    "any size and zeros": lambda rng, C: 10.0 ** rng.uniform(-12, 0, (C, C)) * (rng.random((C, C)) < 0.3) + np.eye(C),
    "halves, 1e-3": lambda rng, C: in_halves(rng, C, 1e-3, 1e-3),
    "halves, 1e-7": lambda rng, C: in_halves(rng, C, 1e-7, 1e-7),
    "halves, 1e-4 and 1e-9": lambda rng, C: in_halves(rng, C, 1e-4, 1e-9),
    "halves, 1e-10 and 1e-12": lambda rng, C: in_halves(rng, C, 1e-10, 1e-12),
    "halves, 1e-11 and 0": lambda rng, C: in_halves(rng, C, 1e-11, 0.0),
    "halves, 1 and 0": lambda rng, C: in_halves(rng, C, 1.0, 0.0),
    "halves, 0 and 0": lambda rng, C: in_halves(rng, C, 0.0, 0.0),
    "one chain": lambda rng, C: np.eye(C) + np.roll(np.eye(C), 1, 0) * 10.0 ** rng.uniform(-5, 0, (C, C)),
}


def has_total_support(M):
    """Test whether every positive cell of a matrix with a perfect matching is in one."""
    pairs = maximum_bipartite_matching(csr_matrix(M > 0), perm_type="column")
    assert (pairs >= 0).all()
    _, part = connected_components(csr_matrix(M[:, pairs] > 0), directed=True, connection="strong")
    return (part[:, None] == part)[M[:, pairs] > 0].all()


@pytest.mark.parametrize("C", [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 62, 63, 64, 65])
def test_zeros_decide_the_status(C):
    rng = np.random.default_rng(C)
    M, wanted = [], []
    for k in range(60):
        m = rng.random((C, C)) * (rng.random((C, C)) < rng.choice([0.5, 1.0, 2.0, 6.0]) / C)
        if k % 3:
            m += np.eye(C)[rng.permutation(C) if k % 2 else slice(None)]
        m[m.sum(1) == 0, 0] = 1.0
        m[0, m.sum(0) == 0] = 1.0
        whole = (maximum_bipartite_matching(csr_matrix(m > 0)) >= 0).all()
        M.append(m)
        wanted.append(
            Status.INFEASIBLE if not whole else Status.CONVERGED if has_total_support(m) else Status.LIMIT_ONLY
        )
        if k % 7 == 0:  # next to invalid cells, of which none may be taken for a positive one
            M.append(m.copy())
            M[-1][rng.integers(C), rng.integers(C)] = rng.choice([np.nan, np.inf, -1.0])
            wanted.append(Status.INVALID)
    found = cmfast.ipf(np.array(M), on_failure="ignore")
    np.testing.assert_array_equal(found.status, wanted)
    assert C < 3 or len(set(wanted)) == 4
    good = found.status == Status.CONVERGED
    np.testing.assert_allclose(found.matrix[good].sum(-1), 1.0, atol=1e-8)
    assert ((found.matrix[good] > 0) == (np.array(M)[good] > 0)).all()


@pytest.mark.parametrize("C", [22, 28, 32, 41, 64, 66, 90])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_cell_is_right(family, C):
    M = np.array([FAMILIES[family](np.random.default_rng([C, k]), C) for k in range(4)])
    found = cmfast.ipf(M, on_failure="ignore")
    closer = cmfast.ipf(M, tol=1e-14, on_failure="ignore")
    supported = np.array([has_total_support(m) for m in M])
    np.testing.assert_array_equal(found.status, np.where(supported, Status.CONVERGED, Status.LIMIT_ONLY))
    np.testing.assert_allclose(found.matrix, closer.matrix, rtol=2e-3, atol=0)
    P = found.matrix
    assert ((abs(P.sum(-1) - 1).sum(-1) + abs(P.sum(-2) - 1).sum(-1)) / C <= 1e-9 + 1e-14).all()


@pytest.mark.parametrize("C", [22, 28, 32, 39, 64, 65, 100])
def test_a_batch_has_the_bits_of_its_matrices(C):
    rng = np.random.default_rng(C)
    M = np.array([make(rng, C) for make in FAMILIES.values() for _ in range(2)])
    alone = [cmfast.ipf(m, on_failure="ignore") for m in M]
    for number, order in enumerate((np.arange(len(M)), rng.permutation(len(M)))):
        whole = cmfast.ipf(M[order], on_failure="ignore", num_threads=1 + number)
        for place, b in enumerate(order):
            for name in ALL_FIELDS:
                assert_same_bits(np.asarray(getattr(whole, name)[place]), np.asarray(getattr(alone[b], name)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("C", [2, 3, 5, 9, 16, 17, 30, 50, 64, 65, 100, 181, 182])
@pytest.mark.parametrize("options", [{}, {"empty": "drop"}, {"smoothing": 0.5}, {"max_iter": 3}], ids=str)
def test_one_matrix_has_the_bits_of_a_batch_whatever_its_type(C, dtype, options):
    rng = np.random.default_rng(C)
    M = [np.minimum(counts(rng, C, accuracy, size), 255) for accuracy in (0.3, 0.8, 0.98) for size in (5, 100, 10_000)]
    M += [
        np.triu(M[0]),
        np.eye(C),
        np.zeros((C, C)),
        M[5] + 1.0,
        M[4] * (np.arange(C) != 0) * (np.arange(C) != 0)[:, None],
        np.minimum(M[5] + 1.0, 255) * (np.arange(C * C).reshape(C, C) != 0),  # a class that is never right
        1.0 - np.eye(C),
    ]
    M = np.array(M).astype(dtype)
    if dtype != np.uint8:
        M[6, -1, 0] = -1
    whole = cmfast.ipf(M, **options, on_failure="ignore")
    for b, one in enumerate(M):
        alone = cmfast.ipf(one, **options, on_failure="ignore")
        for name in ALL_FIELDS:
            got, want = np.asarray(getattr(alone, name)), np.asarray(getattr(whole, name)[b])
            assert got.dtype == want.dtype
            assert_same_bits(got, want)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("C", [30, 50, 70])
def test_counts_of_other_types_are_those_of_float64(C, dtype):
    rng = np.random.default_rng(1)
    M = np.array([counts(rng, C, accuracy, 200) for accuracy in (0.4, 0.98, 0.7, 0.995)]).astype(dtype)
    given, wanted = cmfast.ipf(M, on_failure="ignore"), cmfast.ipf(M.astype(float), on_failure="ignore")
    assert_same_bits((given.row_scale, given.n_iter, given.status), (wanted.row_scale, wanted.n_iter, wanted.status))
    np.testing.assert_array_equal(given.matrix, wanted.matrix.astype(given.matrix.dtype))


@pytest.mark.parametrize("C", [36, 48, 64, 100])
@pytest.mark.parametrize("eps", [0.0, 1e-9])
def test_sweeps_scale_counts_with_many_zeros(monkeypatch, C, eps):
    rng = np.random.default_rng(2)
    M = np.array([counts(rng, C, 0.3, 300) + eps for _ in range(20)])
    assert (M < 1e-8).mean() > 0.2
    monkeypatch.setattr(launch, "scale_square", None)
    monkeypatch.setattr(_large, "_scale_one", None)
    assert (cmfast.ipf(M).status == Status.CONVERGED).all()


@pytest.mark.parametrize("C", [65, 90, 300])
def test_one_large_matrix_has_its_bits_with_and_without_classifying_its_zeros(monkeypatch, C):
    rng = np.random.default_rng(C)
    families = {**FAMILIES, "many errors": lambda rng, C: counts(rng, C, 0.4, 300)}
    matrices = {name: make(rng, C) for name, make in families.items()}
    prune, classified = launch.prune_unsupported, []

    def noted(part, *known):
        classified.append(part)
        return prune(part, *known)

    monkeypatch.setattr(launch, "prune_unsupported", noted)
    found, left_out = {}, set()
    for name, M in matrices.items():
        classified.clear()
        found[name] = cmfast.ipf(M, on_failure="ignore")
        if (M == 0).any() and not classified:
            left_out.add(name)
            assert has_total_support(M)
    assert left_out >= {"many errors", "counts"}
    monkeypatch.setattr(_large, "scale_unclassified", lambda *_: False)
    for name, M in matrices.items():
        wanted = cmfast.ipf(M, on_failure="ignore")
        for field in ALL_FIELDS:
            assert_same_bits(np.asarray(getattr(found[name], field)), np.asarray(getattr(wanted, field)))


@pytest.mark.parametrize("C", [65, 100, 200])
def test_lines_with_one_cell_show_that_a_cell_has_no_support(C):
    rng = np.random.default_rng(C)
    for k in range(50):
        M = (rng.random((C, C)) < rng.choice([1.0, 3.0, 8.0]) / C) * rng.random((C, C)) + np.eye(C)[rng.permutation(C)]
        there = M > 0
        rows, cols = there.sum(1), there.sum(0)
        wanted = (there & ((rows[:, None] == 1) != (cols == 1))).any()
        assert _large_passes.lacks_support(M) == wanted
        assert not wanted or not has_total_support(M)
        M[:, rng.integers(C)] = 0.0
        assert _large_passes.lacks_support(M if k % 2 else np.ascontiguousarray(M.T))


def draw_cells(rng, R, C):
    """Return cells of any size of which half are zero, connected by the first row and column."""
    cells = 10.0 ** rng.uniform(-6, 0, (R, C)) * (rng.random((R, C)) < 0.5)
    cells[0], cells[:, 0] = cells[0] + 1e-7, cells[:, 0] + 1e-7
    return cells


def make_sums(R, C, rows):
    blocks = -(-R // rows)
    return _large_passes.Sums(np.empty((blocks, C)), np.empty(blocks), rows, np.empty(blocks))


@pytest.mark.parametrize("R", [1, 3, 9, 20])
@pytest.mark.parametrize("C", [1, 7, 8, 19])
@pytest.mark.parametrize("rows", [4, 8, 32])
def test_paths_are_the_widest(R, C, rows):
    rng = np.random.default_rng([R, C])
    for _ in range(5):
        cells, x, y = draw_cells(rng, R, C), rng.random(R) + 0.1, rng.random(C) + 0.1
        M = cells / x[:, None] / y
        widest = np.zeros((R + C, R + C))
        widest[:R, R:] = x[:, None] * M * y
        widest = np.maximum(widest, widest.T)
        np.fill_diagonal(widest, np.inf)
        for k in range(R + C):
            widest = np.maximum(widest, np.minimum(widest[:, k, None], widest[k]))
        matrix, sums = _large_passes.ScaledMatrix(M, np.ones(R), np.ones(C)), make_sums(R, C, rows)
        widths, before = _large_passes.start_paths(R, C), -1.0
        for _ in range(R + C):
            _large_passes.extend_paths(matrix, x, y, widths, sums, 0, len(sums.missed))
            narrowest = _large_passes.join_paths(widths, sums)
            assert narrowest >= before
            before = narrowest
        np.testing.assert_array_equal(np.concatenate(widths), widest[R])
        assert narrowest == widest[R].min()


@pytest.mark.parametrize("seed", range(40))
def test_no_potential_exceeds_the_bound(seed):
    rng = np.random.default_rng(seed)
    R, C = rng.integers(2, 15, 2)
    cells = draw_cells(rng, R, C)
    laplacian = np.zeros((R + C, R + C))
    laplacian[:R, R:] = -cells
    laplacian += laplacian.T
    np.fill_diagonal(laplacian, -laplacian.sum(0))
    inverse = np.linalg.pinv(laplacian, rcond=1e-13, hermitian=True)
    resistance = (np.diag(inverse)[:, None] + np.diag(inverse) - 2 * inverse).max()
    matrix, sums = _large_passes.ScaledMatrix(cells, np.ones(R), np.ones(C)), make_sums(R, C, 4)
    widths = _large_passes.start_paths(R, C)
    for k in range(1, 6):
        _large_passes.extend_paths(matrix, np.ones(R), np.ones(C), widths, sums, 0, len(sums.missed))
        narrowest = _large_passes.join_paths(widths, sums)
        residual = _large_passes.bound_by_paths(narrowest, k, 0.01, 3.0)
        # Errors of sums of 3 `residual`, half of them too much and half too little, raise potentials at most so far.
        assert 3.0 * residual / 2 * resistance <= 0.01 * (1 + 1e-6)


def test_rows_shared_by_threads_have_the_same_bound(monkeypatch):
    rng = np.random.default_rng(3)
    M = counts(rng, 120, 0.6, 50)
    u = np.ones(120)
    found = []
    for cells in (1 << 17, 1 << 11, 1 << 9):
        monkeypatch.setattr(_large_row_blocks, "BLOCK_CELLS", cells)
        problem = _large_row_blocks.MatrixRows(M, u, u, 2)
        found.append(problem.bound_hidden_residual(1 / M.sum(1), u, 1e-3, 1.0))
    assert found[0] == found[1] == found[2] > 1e-9
    assert problem.blocks > 5
