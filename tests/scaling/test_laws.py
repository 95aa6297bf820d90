"""Laws, on inputs that Hypothesis makes up: no values, only what must hold between results."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cmfast
from cmfast import Status

CELLS = st.floats(1e-3, 1e3)
TIGHT = {"tol": 1e-13}


@st.composite
def matrices(draw, *, square=True, least=1, most=6):
    R = draw(st.integers(least, most))
    C = R if square else draw(st.integers(least, most))
    return draw(hnp.arrays(np.float64, (R, C), elements=CELLS))


def factors(rng, n):
    return 10.0 ** rng.uniform(-3, 3, n)


seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@given(matrices(square=False), seeds)
def test_margins_are_met(M, rng):
    u, v = factors(rng, M.shape[0]), factors(rng, M.shape[1])
    v *= u.sum() / v.sum()
    result = cmfast.ipf(M, u, v, tol=1e-12)
    assert result.status == Status.CONVERGED
    gap = np.abs(result.matrix.sum(1) - u).sum() + np.abs(result.matrix.sum(0) - v).sum()
    assert gap <= 1.1e-12 * u.sum()
    np.testing.assert_allclose(np.log(result.row_scale).mean(), 0, atol=1e-12)


@given(matrices())
def test_bi_normalising_twice_is_once(M):
    once = cmfast.bi_normalize(M, **TIGHT)
    np.testing.assert_allclose(cmfast.bi_normalize(once, **TIGHT), once, rtol=1e-10)


@given(matrices(), seeds)
def test_class_frequencies_do_not_matter(M, rng):
    scaled = factors(rng, len(M))[:, None] * M * factors(rng, len(M))
    np.testing.assert_allclose(cmfast.bi_normalize(scaled, **TIGHT), cmfast.bi_normalize(M, **TIGHT), rtol=1e-10)


@given(matrices(), seeds)
def test_the_order_of_rows_and_columns_does_not_matter(M, rng):
    rows, cols = rng.permutation(len(M)), rng.permutation(len(M))
    moved = cmfast.bi_normalize(M[rows][:, cols], **TIGHT)
    np.testing.assert_allclose(moved, cmfast.bi_normalize(M, **TIGHT)[rows][:, cols], rtol=1e-10)


@given(matrices())
def test_truth_and_prediction_are_alike(M):
    np.testing.assert_allclose(cmfast.bi_normalize(M.T, **TIGHT).T, cmfast.bi_normalize(M, **TIGHT), rtol=1e-10)


@given(matrices(least=2), seeds)
def test_no_matrix_with_these_margins_is_closer(M, rng):
    """The gradient of the divergence vanishes along every direction that keeps the margins, and others are farther."""
    P = cmfast.bi_normalize(M, **TIGHT)
    Z = rng.normal(size=M.shape)
    Z = Z - Z.mean(0) - Z.mean(1)[:, None] + Z.mean()
    slope = (np.log(P / M) * Z).sum()
    assert abs(slope) <= 1e-9 * np.abs(np.log(P / M) * Z).sum() + 1e-12
    Q = P + 0.5 * Z / np.abs(Z / P).max()
    assert (P * np.log(P / M)).sum() <= (Q * np.log(Q / M)).sum() + 1e-12


@given(matrices(), st.integers(-200, 200))
def test_powers_of_two_move_into_the_column_factors(M, power):
    near, far = cmfast.ipf(M, **TIGHT), cmfast.ipf(np.ldexp(M, power), **TIGHT)
    np.testing.assert_allclose(far.matrix, near.matrix, rtol=1e-12)
    np.testing.assert_allclose(far.row_scale, near.row_scale, rtol=1e-10)
    np.testing.assert_allclose(np.ldexp(far.col_scale, power), near.col_scale, rtol=1e-10)


@settings(max_examples=30)
@given(matrices(least=2), st.sampled_from(["auto", "newton", "sinkhorn"]), st.floats(1e-12, 1e-3))
def test_what_is_called_converged_is_within_tol(M, solver, tol):
    result = cmfast.ipf(M, solver=solver, tol=tol, max_iter=50, on_failure="ignore")
    assert result.status in (Status.CONVERGED, Status.MAX_ITER)
    gap = (np.abs(result.matrix.sum(1) - 1).sum() + np.abs(result.matrix.sum(0) - 1).sum()) / len(M)
    np.testing.assert_allclose(result.residual, gap, rtol=1e-6, atol=2e-15)
    assert result.n_iter >= 1
    if result.status == Status.CONVERGED:
        assert gap <= tol + 2e-15
