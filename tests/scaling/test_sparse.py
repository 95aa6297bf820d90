"""Sparse matrices are scaled as the dense functions scale them, and stay sparse."""

import collections

import numpy as np
import pytest
import scipy.sparse
from checks import assert_same_bits

import cmfast
from cmfast import Status

KINDS = ["csr_array", "csc_array", "coo_array", "csr_matrix", "csc_matrix", "coo_matrix"]


def made(kind, M):
    return getattr(scipy.sparse, kind)(M)


def assert_as_dense(M, *targets, rtol=1e-6, **options):
    """Assert that a sparse matrix has the status and the cells that the dense one has; return the result."""
    sparse = cmfast.ipf(scipy.sparse.csr_array(M), *targets, on_failure="ignore", **options)
    dense = cmfast.ipf(M, *targets, on_failure="ignore", **options)
    assert sparse.status == dense.status, (Status(int(sparse.status)), Status(int(dense.status)))
    if Status(int(dense.status)).ok:
        np.testing.assert_allclose(sparse.matrix.toarray(), dense.matrix, rtol=rtol, atol=1e-12)
        assert sparse.residual <= options.get("tol", 1e-9)
    assert np.isnan(sparse.row_scale).all() == np.isnan(dense.row_scale).all()
    return sparse


def pattern(rng):
    """Return a matrix with zeros, and targets."""
    R, C = rng.integers(1, 8, 2)
    M = np.exp(rng.normal(0.0, rng.choice([0.3, 2.0]), (R, C))) * (rng.random((R, C)) < rng.uniform(0.3, 1.0))
    if rng.random() < 0.4:
        P = rng.integers(1, 5, (R, C)) * (M > 0)
        return M, P.sum(1).astype(float), P.sum(0).astype(float)
    if R == C and rng.random() < 0.6:
        return M, np.ones(R), np.ones(C)
    u = rng.integers(1, 5, R).astype(float)
    return M, u, np.full(C, u.sum() / C)


def assert_patterns(number, seed):
    """Assert that zeros are judged as the dense function judges them; return how many there are of each status."""
    rng, counts = np.random.default_rng(seed), collections.Counter()
    for _ in range(number):
        M, u, v = pattern(rng)
        result = assert_as_dense(M, u, v, tol=1e-11)
        counts[Status(int(result.status)).name] += 1
    return counts


def test_zeros_are_judged_as_in_dense_matrices():
    counts = assert_patterns(400, 1)
    assert min(counts[name] for name in ("CONVERGED", "LIMIT_ONLY", "INFEASIBLE", "ZERO_LINE")) >= 10


@pytest.mark.slow
def test_many_zeros_are_judged_as_in_dense_matrices():
    assert assert_patterns(20_000, 2).total() == 20_000


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_taken_and_csr_comes_back(kind):
    rng = np.random.default_rng(3)
    M = np.diag(rng.random(30) + 1) + rng.random((30, 30)) * (rng.random((30, 30)) < 0.2)
    A = made(kind, M)
    before = A.toarray().copy()
    result = cmfast.ipf(A)
    assert result.matrix.format == "csr"
    assert isinstance(result.matrix, scipy.sparse.sparray) == kind.endswith("array")
    assert result.matrix.nnz == A.nnz
    np.testing.assert_array_equal(A.toarray(), before)
    np.testing.assert_allclose(result.matrix.toarray(), cmfast.ipf(M).matrix, rtol=1e-6)
    np.testing.assert_allclose(result.row_scale, cmfast.ipf(M).row_scale, rtol=1e-6)
    assert_same_bits(cmfast.bi_normalize(A).data, result.matrix.data)
    factors = cmfast.ras(A)
    assert factors.matrix is None
    assert_same_bits(factors.row_scale, result.row_scale)


def test_cells_given_twice_are_added_up():
    A = scipy.sparse.coo_array(([1.0, 2.0, 1.0, 5.0], ([0, 0, 1, 1], [0, 0, 0, 1])), shape=(2, 2))
    assert cmfast.ipf(A, [1.0, 2.0], [2.0, 1.0]).matrix.nnz == 3


def test_a_large_table_stays_sparse():
    rng = np.random.default_rng(4)
    R, C, n = 10_000, 7_000, 70_000
    i, j = rng.integers(0, R, n), rng.integers(0, C, n)
    A = scipy.sparse.coo_array((np.exp(rng.normal(0.0, 1.0, n)), (i, j)), shape=(R, C)).tocsr()
    x, y = np.exp(rng.normal(0.0, 1.0, R)), np.exp(rng.normal(0.0, 1.0, C))
    wanted = scipy.sparse.diags_array(x) @ A @ scipy.sparse.diags_array(y)
    result = cmfast.ipf(A, wanted.sum(1), wanted.sum(0), tol=1e-11)
    assert result.status == Status.CONVERGED
    np.testing.assert_allclose(result.matrix.data, wanted.tocsr().data, rtol=1e-4)
    found = [cmfast.ipf(A, wanted.sum(1), wanted.sum(0), num_threads=threads).matrix.data for threads in (1, 2)]
    assert_same_bits(found[0], found[1])


def test_options():
    M = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    assert assert_as_dense(M).status == Status.ZERO_LINE
    assert assert_as_dense(M, empty="drop").status == Status.CONVERGED
    A = M[:2, :2]
    assert assert_as_dense(A, solver="sinkhorn", max_iter=3, tol=1e-15).status == Status.MAX_ITER
    swept = cmfast.ipf(scipy.sparse.csr_array(A), solver="sinkhorn", max_iter=3, tol=1e-15, on_failure="ignore")
    np.testing.assert_allclose(
        swept.matrix.toarray(), cmfast.ipf(A, solver="sinkhorn", max_iter=3, tol=1e-15, on_failure="ignore").matrix
    )
    again = cmfast.ipf(scipy.sparse.csr_array(A), start=cmfast.ipf(A))
    assert again.status == Status.CONVERGED
    assert cmfast.ipf(scipy.sparse.csr_array(A), start=(np.ones(2), np.ones(2))).status == Status.CONVERGED


@pytest.mark.parametrize(
    ("M", "targets", "said"),
    [
        ([[1, 1, 1], [0, 0, 1], [0, 0, 1]], (), "rows 1, 2 must sum to 2 but reach only column 2, which sum to 1"),
        ([[1, 0], [1, 0]], (), "a row or column is empty"),
        ([[1, 1], [1, np.nan]], (), "NaN value"),
        ([[1, 1], [1, 1]], ([1.0, 2.0], [1.0, 1.0]), "row targets add up to 3, column targets to 2"),
        ([[1, 1], [1, 1]], ([1.0, -2.0], [1.0, 1.0]), "negative value at row_sums"),
    ],
)
def test_messages(M, targets, said):
    with pytest.raises(cmfast.FailureError, match=said):
        cmfast.ipf(scipy.sparse.csr_array(np.array(M, float)), *targets, on_failure="raise")


def test_what_would_fill_it_is_refused():
    A = scipy.sparse.csr_array(np.eye(3))
    for options, said in (
        ({"smoothing": 1.0}, "smoothing must be None for a sparse M"),
        ({"logits": True}, "logits must be False for a sparse M"),
    ):
        with pytest.raises(ValueError, match=said):
            cmfast.ipf(A, **options)
    with pytest.raises(ValueError, match="must be of shape"):
        cmfast.ipf(A, np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="given both or neither"):
        cmfast.ipf(A, np.ones(3))
    with pytest.raises(ValueError, match="square"):
        cmfast.ipf(scipy.sparse.csr_array(np.ones((2, 3))))
    with pytest.raises(TypeError, match="real numbers"):
        cmfast.ipf(A.astype(complex))
