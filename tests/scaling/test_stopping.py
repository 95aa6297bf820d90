"""When scaling stops: a status that what is returned bears out, and never for want of passes that are left."""

import cuda_host
import numpy as np
import on_cuda_host  # noqa: F401  # lets cmfast take the arrays of cuda_host
import pytest
import torture

import cmfast
from cmfast.kernels.shared import scaling
from cmfast.kernels.shared.scaling import LEAST_RESIDUAL, NEWTON_STEPS, compute_rounding, goals

on_cuda = pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))
TOLERANCES = [1e-12, 1e-13, 1e-14, 1e-15, 1e-16]
SWEEPS = 100
CONVERGED, MAX_ITER, LIMIT_ONLY = 0, 1, 2


def problems(C, number):
    """Yield a few of each hard family: matrices, and targets where it has some."""
    for k, family in enumerate([*torture.POSITIVE, *torture.ZEROS, *torture.MARGINS]):
        rng = np.random.default_rng([C, k])
        if family in torture.MARGINS:
            R = C if family == torture.MARGINS[0] else int(rng.integers(1, 2 * C + 1))
            M = rng.gamma(0.5, size=(number, R, C)) + 1e-6
            u, v = 10 ** rng.uniform(-3, 3, (number, R)), 10 ** rng.uniform(-3, 3, (number, C))
            yield family, (M, u, v * (u.sum(-1) / v.sum(-1))[:, None])
        else:
            yield family, ((torture.POSITIVE | torture.ZEROS)[family](rng, number, C),)


def missed(result, M, *targets):
    """Return by how much the margins of the result miss their targets, over the total, in extended precision."""
    u, v = targets or (np.ones(M.shape[:2]), np.ones(M.shape[::2]))
    v = v * (u.sum(-1) / v.sum(-1))[:, None]
    P = result[0].astype(np.longdouble)
    return (abs(P.sum(2) - u).sum(1) + abs(P.sum(1) - v).sum(1)) / u.sum(1)


def assert_borne_out(family, result, tol, solver, most, *problem):
    status, n_iter, residual = result[5], result[4], result[3]
    R, C = problem[0].shape[1:]
    stopped, ended = status == MAX_ITER, (status == CONVERGED) | (status == LIMIT_ONLY)
    assert (n_iter[stopped] >= most).all(), family
    if solver != "sinkhorn":
        assert not stopped.any(), family  # there is no matrix here that Newton's method needs all its steps for
    bound = max(tol, compute_rounding(R, C))
    assert (residual[ended] <= bound).all(), family
    assert (missed(result, *problem)[ended] <= bound + compute_rounding(R, C)).all(), family


@pytest.mark.parametrize("C", [2, 3, 5, 10, 33, 64])
@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_no_matrix_is_given_up_while_passes_are_left(C, solver):
    most = SWEEPS if solver == "sinkhorn" else NEWTON_STEPS
    for family, problem in problems(C, max(4, 1200 // C**2)):
        for tol in TOLERANCES:
            options = {"tol": tol, "solver": solver, "max_iter": most, "on_failure": "ignore"}
            assert_borne_out(family, cmfast.ipf(*problem, **options), tol, solver, most, *problem)


@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_nor_one_that_is_solved_alone(monkeypatch, solver):
    monkeypatch.setattr(scaling, "SHORT", 0)
    for family, problem in problems(7, 6):
        for tol in TOLERANCES:
            options = {"tol": tol, "solver": solver, "max_iter": 10 * SWEEPS, "on_failure": "ignore"}
            result = cmfast.ipf(*problem, **options)
            assert_borne_out(family, result, tol, solver, 10 * SWEEPS, *problem)


@pytest.mark.cuda_host
@on_cuda
@pytest.mark.parametrize("C", [2, 3, 7, 33])
@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_both_targets_say_the_same(C, solver):
    most = SWEEPS if solver == "sinkhorn" else NEWTON_STEPS
    for family, problem in problems(C, max(1, 60 // C)):
        for tol in (1e-13, 1e-15):
            options = {"tol": tol, "solver": solver, "max_iter": most, "on_failure": "ignore"}
            on_cpu = cmfast.ipf(*problem, **options)
            result = [part.get() for part in cmfast.ipf(*map(cuda_host.asarray, problem), **options)]
            assert_borne_out(family, result, tol, solver, most, *problem)
            # Where sweeps come to their end just at the tolerance rounding decides.
            close = abs(on_cpu.residual - max(tol, LEAST_RESIDUAL)) <= compute_rounding(*problem[0].shape[1:])
            clear = ~(close & (on_cpu.n_iter == SWEEPS)) if solver == "sinkhorn" else slice(None)
            np.testing.assert_array_equal(result[5][clear], on_cpu.status[clear], family)


def test_a_residual_that_rounding_lifts_over_the_tolerance():
    M, u, v = np.array([[4.0, 4], [4, 6], [0, 7]]), np.array([2.0, 2, 2]), np.array([3.0, 3])
    result = cmfast.ipf(M, u, v, tol=1e-13)
    assert result.status == CONVERGED
    assert result.residual <= 1e-13


def test_the_last_step_is_not_lost():
    """A factor is no longer 1 + step where the step is small: two classes are as exact as ten."""
    M = np.random.default_rng(0).uniform(1e-3, 1, (2000, 2, 2))
    result = cmfast.ipf(M, tol=1e-15)
    assert (result.status == CONVERGED).all()
    assert result.n_iter.max() < 20


def test_sweeps_that_no_longer_move_end_within_rounding():
    """Near the floor the residual neither falls nor stays: that is an end, not a want of sweeps."""
    M = np.random.default_rng(0).uniform(0.5, 1, (40, 200, 60))
    u, v = np.full(200, 0.3), np.ones(60)
    for some in (M, M[:, :, :1] * np.ones(3)):  # eight at a time
        targets = (u, v) if some is M else (np.full(200, 3.0), np.full(3, 200.0))
        result = cmfast.ipf(some, *targets, solver="sinkhorn", tol=1e-15, max_iter=3000)
        assert (result.n_iter < 3000).all()
        assert (result.residual <= compute_rounding(200, 60)).all()
    one = np.ones((300, 300))
    result = cmfast.ipf(one, solver="sinkhorn", tol=1e-15)
    assert result.status == CONVERGED
    assert result.residual <= compute_rounding(300, 300)


@pytest.mark.parametrize("tol", [1e-3, 1e-9, 1e-13, 4e-15, LEAST_RESIDUAL])
@pytest.mark.parametrize("C", [1, 2, 32, 33, 64, 1000, 10_000])
def test_goals_leave_room_for_rounding(tol, C):
    target, still, bound = goals(tol, C, 3)
    assert 0 < target < tol
    assert max(target, still) + 0.5 * compute_rounding(C, 3) <= bound * (1 + 1e-12)
    assert bound == max(tol, compute_rounding(C, 3))
