"""CONVERGED is said of every row, column and cell, judged by exact arithmetic; see ``spread_tables.py``."""

import inspect
import warnings

import device
import numpy as np
import pytest
import scipy.sparse
import spread_tables

import cmfast
from cmfast import Status

pytestmark = pytest.mark.exhaustive

TOL = 1e-9
QUICK = {family: 300 if spread_tables.is_quick(family) else 8 for family in spread_tables.FAMILIES}
TRUE = {Status.CONVERGED, Status.UNDETERMINED, Status.MAX_ITER}


def on_cpu(M, u, v):
    result = cmfast.ipf(M, u, v, on_failure="ignore")
    return result.matrix, result.status


@pytest.mark.parametrize("family", spread_tables.FAMILIES)
def test_no_line_and_no_cell_of_a_spread_table_is_wrong(family):
    status, lines, cells, worst = spread_tables.judge(family, QUICK[family], 1, on_cpu)
    assert (lines, cells) == (0, 0), worst
    assert (status == Status.CONVERGED).mean() >= 0.95
    assert set(status.tolist()) <= TRUE


@pytest.mark.slow
@pytest.mark.parametrize("family", spread_tables.FAMILIES)
def test_no_line_and_no_cell_of_a_hundred_thousand_is_wrong(family):
    quick = spread_tables.is_quick(family)
    for seed in range(10 if quick else 1):
        status, lines, cells, worst = spread_tables.judge(family, 1_200 if quick else 200, 100 + seed, on_cpu)
        assert (lines, cells) == (0, 0), worst
        assert (status == Status.CONVERGED).mean() >= 0.95
        assert set(status.tolist()) <= TRUE


def test_the_check_sees_a_wrong_line_and_a_wrong_cell():
    M = np.array([[1e-8, 1e-7], [1e8, 1e-8]])
    u, v = np.array([1.1e-8, 1e8]), np.array([1e8, 1.1e-9])
    good = cmfast.ipf(M, u, v).matrix
    assert max(spread_tables.errors(M, u, v, good)) < 1e-9
    assert spread_tables.errors(M, u, v, good * [[1, 1.6], [1, 1]])[0] > 1e-2
    swapped = good + np.array([[1, -1], [-1, 1]]) * 0.1 * good[1, 1]  # the same sums
    line, cell = spread_tables.errors(M, u, v, swapped)
    assert line < 1e-9
    assert cell > 1e-2


def test_small_lines_have_their_targets():
    """The second column of this was 66 % off, and called CONVERGED."""
    result = cmfast.ipf([[1e-8, 1e-7], [1e8, 1e-8]], [1.1e-8, 1e8], [1e8, 1.1e-9])
    assert result.status == Status.CONVERGED
    assert result.line_error <= TOL
    np.testing.assert_allclose(result.matrix.sum(0), [1e8, 1.1e-9], rtol=TOL)
    np.testing.assert_allclose(result.matrix.sum(1), [1.1e-8, 1e8], rtol=TOL)


def lines_off(P, u, v):
    """Return the largest relative error of a row or column."""
    P = np.asarray(P, np.longdouble)
    v = v * (u.sum(-1) / v.sum(-1))[..., None]
    return np.maximum(abs(P.sum(-1) / u - 1).max(-1), abs(P.sum(-2) / v - 1).max(-1)).astype(float)


@pytest.mark.parametrize("shape", [(10, 10), (20, 7), (70, 66), (90, 150)])
@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
def test_the_worst_line_is_measured_and_small(solver, shape):
    rng = np.random.default_rng(shape)
    n = 40 if shape[0] < 60 else 3
    M = rng.gamma(1.0, size=(n, *shape)) + 0.01
    u, v = 10.0 ** rng.uniform(-4, 4, (n, shape[0])), 10.0 ** rng.uniform(-4, 4, (n, shape[1]))
    v *= (u.sum(-1) / v.sum(-1))[:, None]
    result = cmfast.ipf(M, u, v, solver=solver)
    assert (result.status == Status.CONVERGED).all()
    off = lines_off(result.matrix, u, v)
    assert (off <= TOL * (1 + 1e-6)).all()
    np.testing.assert_allclose(result.line_error, off, rtol=1e-3, atol=2e-14)
    assert (result.residual <= result.line_error * 2).all()


@pytest.mark.parametrize("C", [2, 3, 10, 16, 24, 80])
@pytest.mark.parametrize("tol", [1e-6, 1e-9, 1e-12, 1e-14])
def test_each_class_of_a_bi_normalised_matrix_is_there(C, tol):
    rng = np.random.default_rng(C)
    M = rng.poisson(300 * (0.8 * np.eye(C) + 0.2 * rng.dirichlet(np.ones(C), (max(2, 600 // C), C)))) + 1e-3
    result = cmfast.ipf(M, tol=tol)
    assert (result.status == Status.CONVERGED).all()
    assert (lines_off(result.matrix, np.ones(C), np.ones(C)) <= tol * (1 + 1e-6) + 2e-15 * max(1, C / 32)).all()


def test_one_matrix_alone_is_one_of_a_batch():
    family = "2 x 5, cells of sd 15, lines of sd 5"
    M, u, v = spread_tables.FAMILIES[family](np.random.default_rng(3), 200)
    many = cmfast.ipf(M, u, v, on_failure="ignore")
    for k in range(0, 200, 7):
        one = cmfast.ipf(M[k], u[k], v[k], on_failure="ignore")
        for part, whole in zip(one, many, strict=True):
            np.testing.assert_array_equal(part, whole[k])


def test_transposed_tables_have_the_same_verdicts():
    M, u, v = spread_tables.FAMILIES["2 x 5, cells of sd 15, lines of sd 5"](np.random.default_rng(4), 400)
    one = cmfast.ipf(M, u, v, on_failure="ignore")
    other = cmfast.ipf(M.transpose(0, 2, 1), v, u, on_failure="ignore")
    assert (one.status == other.status).mean() > 0.99
    good = (one.status == 0) & (other.status == 0)
    np.testing.assert_allclose(other.matrix[good].transpose(0, 2, 1), one.matrix[good], rtol=2e-4)


def test_integer_targets_determine_weak_couplings():
    """Nothing is rounded there, so cells of 1e-16 of the total are right."""
    M = np.array([[1.0, 1e-17, 0.3], [1e-16, 1.0, 1e-17], [0.2, 1e-16, 2.0]])
    u = np.array([5.0, 7.0, 3.0])
    result = cmfast.ipf(M, u, u)
    assert result.status == Status.CONVERGED
    assert spread_tables.errors(M, u, u, result.matrix)[1] < 1e-6


def test_what_rounding_decides_is_undetermined():
    with pytest.warns(cmfast.FailureWarning, match="UNDETERMINED: rows and columns have the wanted sums"):
        result = cmfast.ipf([[1.0, 1e-14], [1e-14, 1.0]], [1.1, 2.3], [1.1 + 1e-15, 2.3])
    assert result.status == Status.UNDETERMINED
    assert result.line_error <= TOL
    assert np.isfinite(result.row_scale).all()


@pytest.mark.parametrize("tol", [1, 1.0, 2, 1e300])
def test_a_tolerance_of_one_is_refused(tol):
    M, ones = np.ones((2, 2)), np.ones(2)
    margins = [((0,), ones), ((1,), ones)]
    cells = np.ones(4), [[0, 0, 1, 1], [0, 1, 0, 1]]
    calls = [
        lambda: cmfast.ipf(M, tol=tol),
        lambda: cmfast.ras(M, tol=tol),
        lambda: cmfast.bi_normalize(M, tol=tol),
        lambda: cmfast.normalize(M, "bi", tol=tol),
        lambda: cmfast.importance_weights(M, "bi", tol=tol),
        lambda: cmfast.ipf(M, logits=True, tol=tol),
        lambda: cmfast.ipf(scipy.sparse.csr_array(M), tol=tol),
        lambda: cmfast.ipf_nd(M, margins, tol=tol),
        lambda: cmfast.ipf_cells(*cells, margins, tol=tol),
        lambda: cmfast.rake(M, ones, tol=tol),
        lambda: cmfast.balance(M, tol=tol),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="tol must be below 1, got"):
            call()


def test_every_function_with_a_tolerance_is_tried():
    tried = {"ipf", "ras", "bi_normalize", "ipf_nd", "ipf_cells", "rake", "balance"}
    public = {name: getattr(cmfast, name) for name in cmfast.__all__}
    has = {name for name, f in public.items() if inspect.isfunction(f) and "tol" in inspect.signature(f).parameters}
    assert has == tried


# Logarithms.


def gaussians(n=100):
    x = np.arange(n)
    a, b = np.exp(-((x - 20) ** 2) / 50), np.exp(-((x - 60) ** 2) / 200)
    return -((x[:, None] - x[None, :]) ** 2.0), a / a.sum(), b / b.sum()


@pytest.mark.parametrize("reg", [0.5, 1.0, 2.0, 20.0])
def test_factors_beyond_float64_are_logarithms_throughout(reg):
    """RANGE was said of these, whose factors span e**1860 and more."""
    L, a, b = gaussians()
    result = cmfast.ipf(L / reg, a, b, logits=True)
    assert result.status == Status.CONVERGED
    assert lines_off(result.matrix, a, b) <= TOL * (1 + 1e-6)
    again = np.exp(result.row_scale[:, None] + L / reg + result.col_scale)
    np.testing.assert_allclose(again, result.matrix, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("reg", [1e-5, 1e-3, 0.1])
def test_a_plan_of_little_regularisation_costs_what_the_best_does(reg):
    """Lines whose cells were all out of range had no sum, and were called CONVERGED.

    Other programs end with a plan that costs 0 at 1e-5, as they stop before the columns have their sums.
    """
    L, _, _ = gaussians()
    x = np.arange(100)
    a, b = (np.exp(-((x - m) ** 2) / 200) for m in (30, 40))
    a, b = a / a.sum(), b / b.sum()
    result = cmfast.ipf(L / reg, a, b, logits=True)
    assert result.status == Status.CONVERGED
    assert lines_off(result.matrix, a, b) <= TOL * (1 + 1e-6)
    ends = np.unique(np.r_[0, a.cumsum(), b.cumsum()])  # on a line the best plan goes by ranks
    middle = (ends[1:] + ends[:-1]) / 2
    i, j = (np.minimum(t.cumsum().searchsorted(middle), 99) for t in (a, b))
    best = (np.diff(ends) * (i - j) ** 2).sum()
    assert best == pytest.approx(99.3153, abs=1e-3)
    assert -(result.matrix * L).sum() == pytest.approx(best, abs=reg * np.log(10_000))


def test_logarithms_with_dead_cells_and_empty_lines():
    L, a, b = gaussians(40)
    L[0, :], a[0] = -np.inf, 0.0
    L[:, 3], b[3] = -np.inf, 0.0
    a, b = a / a.sum(), b / b.sum()
    result = cmfast.ipf(L, a, b, logits=True)
    assert result.status == Status.CONVERGED
    assert lines_off(result.matrix[1:][:, np.arange(40) != 3], a[1:], np.delete(b, 3)) <= 1e-9 * (1 + 1e-6)
    assert (result.matrix[0] == 0).all()
    assert (result.matrix[:, 3] == 0).all()


def test_plain_sweeps_of_logarithms_are_those_of_the_paper():
    L, a, b = gaussians(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = cmfast.ipf(L * 9, a, b, logits=True, solver="sinkhorn", max_iter=3000, tol=1e-6)
    assert result.status == Status.CONVERGED
    assert lines_off(result.matrix, a, b) <= 1e-6 * (1 + 1e-6)


# The same rule on CUDA.


def there(M, u, v):
    result = cmfast.ipf(*map(device.asarray, (M, u, v)), on_failure="ignore")
    return result.matrix.get(), result.status.get()


@pytest.mark.cuda_host
@pytest.mark.parametrize("kind", spread_tables.KINDS)
@device.marks[0]
def test_no_line_and_no_cell_of_a_large_table_is_wrong_on_cuda(kind):
    for size in spread_tables.SIZES[:4] if device.IS_GPU else spread_tables.SIZES[:3]:
        status, lines, cells, worst = spread_tables.judge_planted(kind, size, 1, 6, there)
        assert (lines, cells) == (0, 0), worst
        assert set(status.tolist()) <= {Status.CONVERGED, Status.UNDETERMINED}


@pytest.mark.parametrize("family", spread_tables.FAMILIES)
@device.marks[0]
def test_no_line_and_no_cell_is_wrong_on_cuda(family):
    status, lines, cells, worst = spread_tables.judge(family, QUICK[family] // 2, 5, there)
    assert (lines, cells) == (0, 0), worst
    assert (status == Status.CONVERGED).mean() >= 0.9
    assert set(status.tolist()) <= TRUE
