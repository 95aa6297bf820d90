"""How steps of large tables are solved for: their order, roots by panels, and how many steps hard tables need."""

import collections

import numpy as np
import pytest
from cases.margins import PAIRS, margins_of
from oracle.margins import verdict

import cmfast
from cmfast import Status
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.launch import iterate, make_large_workspace
from cmfast.kernels.cpu.margins.tables import conjugate_gradients
from cmfast.kernels.cpu.margins.tables.newton import SOLVE
from cmfast.kernels.cpu.margins.tables.newton_system import (
    factorize_hessian,
    factorize_symbolically,
    scale_system,
    solve_system,
)
from cmfast.kernels.cpu.margins.tables.separate_steps import start_table
from cmfast.kernels.cpu.margins.tables.workspace import CELLS, LEVENBERG, SLACK, STEPS, UNKNOWNS
from cmfast.kernels.cpu.solver.panel_cholesky import COLUMNS, allocate_panels, factorize_panels, substitute_panels
from cmfast.kernels.shared import margins_layout

pytestmark = pytest.mark.exhaustive

CHAIN = ((0, 1), (1, 2), (2, 3), (0, 3))
LONG = ((0,), (1,), (2,))  # of which lines have many cells
SHARED = ((0, 1), (0, 2), (0, 3))


@jit()
def root(S, n):
    """Call what kernels call."""
    return factorize_panels(S, n)


@jit()
def solve(S, n, b):
    """Call what kernels call."""
    substitute_panels(S, n, b)


def panels_of(A):
    n = len(A)
    S = allocate_panels(n)
    S[:] = A.reshape(n, n // COLUMNS, COLUMNS).swapaxes(0, 1).reshape(S.shape)
    return S


@pytest.mark.exhaustive  # of parts by themselves, compiled for this
@pytest.mark.parametrize("n", [16, 32, 48, 256, 272, 544])
def test_roots_by_panels_solve(n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, n + 10))
    A = X @ X.T / n + np.diag(rng.uniform(0.1, 1.0, n))
    b = rng.normal(size=n)
    S, x = panels_of(A), b.reshape(-1, 8).copy()
    assert root(S, n)
    solve(S, n, x)
    np.testing.assert_allclose(A @ x.ravel(), b, atol=1e-10)
    A[n - 3, n - 3] = -1.0
    assert not root(panels_of(A), n)
    A[n - 3, n - 3] = np.nan
    assert not root(panels_of(A), n)


def first_of(shape, axes, fill, seed, importance=None, unasked=0.0):
    """Return a random table as it is when the first step is to be solved for."""
    rng = np.random.default_rng(seed)
    M = (rng.random(shape) < fill) * np.exp(rng.normal(size=shape))
    targets = [np.where(rng.random(m.shape) < unasked, np.nan, m) for m in margins_of(M * rng.random(shape), axes)]
    coords = np.stack(np.nonzero(M))
    layout, slack = margins_layout.soften_layout(
        margins_layout.make_sparse_layout(shape, axes, list(coords)), importance
    )
    rules = margins_layout.TableRules(0.0, slack, 1e-9, 1e-3, 1000, 0)
    t = make_large_workspace(layout)
    wanted = margins_layout.concatenate_margins(shape, axes, layout.order, targets)
    assert start_table(t, M[tuple(coords)], layout, wanted, rules) == SOLVE
    return t


def second_derivatives(t):
    """Return those by the unknowns, the closed lines eliminated, and the gradient, both scaled: what a step solves."""
    n, number = t.counts[UNKNOWNS], t.counts[CELLS]
    codes, x = t.codes[:number], t.x[:number]
    A = np.zeros((number, n + 1))
    for b in range(1, codes.shape[1]):
        A[np.arange(number), codes[:, b]] += 1.0
    A = A[:, :n]
    B = np.zeros((number, len(t.closed)))
    B[np.arange(number), codes[:, 0]] = 1.0
    asked = t.closed > 0
    across = (B.T * x) @ A
    H = (A.T * x) @ A + np.diag(t.slack[:n] * t.goal[:n])
    H -= across[asked].T @ (across[asked] / (t.closed_goal[asked] * (1.0 + t.state[SLACK]))[:, None])
    scale = 1.0 / np.sqrt(x @ A + t.slack[:n] * t.goal[:n])
    return H * scale[:, None] * scale + t.state[LEVENBERG] * np.eye(n), (t.goal[:n] - x @ A) * scale


@pytest.mark.exhaustive  # of parts by themselves, compiled for this
@pytest.mark.parametrize(
    ("shape", "axes", "fill", "options"),
    [
        ((12, 12, 12), PAIRS, 0.15, {}),
        ((12, 12, 12), PAIRS, 0.5, {}),
        ((9, 8, 7), PAIRS, 0.3, {"unasked": 0.2}),
        ((9, 8, 7), PAIRS, 0.3, {"importance": [np.inf, 2.0, 30.0]}),
        ((9, 8, 7), PAIRS, 0.3, {"importance": [5.0, 2.0, 30.0]}),
        ((5, 6, 5, 4), CHAIN, 0.2, {}),
        ((7, 6, 5, 6), SHARED, 0.1, {}),
        ((60, 50, 40), LONG, 0.002, {}),
        ((30, 4, 30), ((0, 1), (2,)), 0.1, {}),
        ((100, 70), ((0,), (1,)), 0.05, {"importance": [np.inf, 10.0]}),
    ],
)
def test_steps_solve_the_equations(shape, axes, fill, options):
    for seed in range(3):
        t = first_of(shape, axes, fill, seed, **options)
        equations, n = factorize_symbolically(t), t.counts[UNKNOWNS]
        for _ in range(2):
            assert factorize_hessian(t, equations)
            S, right = second_derivatives(t)
            np.testing.assert_allclose(t.step[:n], right, atol=1e-12)
            solve_system(t, equations)
            size = np.abs(S) @ np.abs(t.step[:n])
            np.testing.assert_allclose((S @ t.step[:n] - right) / (size + np.abs(right)).max(), 0.0, atol=1e-13)
            t.x[:] *= np.random.default_rng(seed).uniform(0.5, 1.0)  # the same places, other numbers
            t.closed_goal[:] *= 1.5
            codes, x = t.codes[: t.counts[CELLS], 1:], t.x[: t.counts[CELLS]]
            t.sums[:n] = np.bincount(codes.ravel(), np.repeat(x, len(axes) - 1), n + 1)[:n]


def test_the_order_leaves_few_links():
    t = first_of((20, 20, 20), PAIRS, 0.15, 0)
    equations = factorize_symbolically(t)
    order, n = equations.order, t.counts[UNKNOWNS]
    assert sorted(order.order[order.order < n]) == list(range(n))
    assert (order.order[order.rank[:n]] == np.arange(n)).all()
    assert len(equations.pivots) > 0.4 * n
    ascending = [order.partners[start:stop] for start, stop in zip(order.begins[:-1], order.begins[1:], strict=True)]
    assert all((np.diff(own) > 0).all() and (own > i).all() for i, own in enumerate(ascending))


@pytest.mark.parametrize("seed", range(5))
def test_hard_sparse_tables_need_few_steps(seed):
    rng = np.random.default_rng(seed)
    M = (rng.random((20, 20, 20)) < 0.15).astype(float)
    coords, targets = np.stack(np.nonzero(M)), margins_of(M * np.exp(3.0 * rng.normal(size=M.shape)), PAIRS)
    layout = margins_layout.make_sparse_layout(M.shape, PAIRS, list(coords))
    rules = margins_layout.TableRules(0.0, np.zeros(3), 1e-9, 1e-3, 1000, 0)
    t, wanted = make_large_workspace(layout), margins_layout.concatenate_margins(M.shape, PAIRS, layout.order, targets)
    status, _ = iterate(t, start_table(t, M[tuple(coords)], layout, wanted, rules), rules)
    assert status == Status.CONVERGED
    assert t.counts[STEPS] <= 25


def test_verdicts_on_tables_of_many_unknowns_are_those_of_a_linear_program():
    rng = np.random.default_rng(11)
    counted = collections.Counter()
    for k in range(60):
        shape = tuple(rng.integers(6, 8, 3))
        M = (rng.random(shape) < rng.choice([0.3, 0.4, 0.6])) * np.exp(rng.normal(size=shape))
        some = [M > 0, (M > 0) & (rng.random(shape) < 0.8), rng.random(shape) < 0.5][k % 3]
        T = (some * rng.integers(1, 10, shape)).astype(float)
        targets = margins_of(T, PAIRS)
        found = cmfast.ipf_nd(M, list(zip(PAIRS, targets, strict=True)), on_failure="ignore")
        wanted, dead = verdict(M, targets, PAIRS)
        assert found.status == wanted
        if wanted == Status.LIMIT_ONLY:
            np.testing.assert_array_equal(found.table[dead], 0.0)
        counted[Status(wanted).name] += 1
    assert min(counted[name] for name in ("CONVERGED", "LIMIT_ONLY")) >= 5
    assert counted["INFEASIBLE"] + counted["ZERO_LINE"] >= 5


@pytest.mark.parametrize(
    ("side", "fill", "sd"), [pytest.param(20, 0.15, 3.0, marks=pytest.mark.exhaustive), (12, 0.5, 4.0)]
)
def test_factors_are_the_shortest_that_scale_the_cells(side, fill, sd):
    rng = np.random.default_rng(2)
    M = (rng.random((side,) * 3) < fill).astype(float)
    targets = margins_of(M * np.exp(sd * rng.normal(size=M.shape)), PAIRS)
    found = cmfast.ipf_nd(M, list(zip(PAIRS, targets, strict=True)))
    coords = np.nonzero(M)
    lines = [
        np.ravel_multi_index([coords[axis] for axis in of], (side, side)) + b * side**2 for b, of in enumerate(PAIRS)
    ]
    A = np.zeros((len(coords[0]), 3 * side**2))
    for line in lines:
        A[np.arange(len(line)), line] = 1.0
    factors = np.concatenate([part.ravel() for part in found.factors])
    given = np.log(factors, where=factors > 0, out=np.zeros_like(factors))
    np.testing.assert_allclose(A @ given, np.log(found.table[coords]), atol=1e-9)
    wanted = np.linalg.lstsq(A, A @ given, rcond=1e-10)[0].reshape(3, -1)
    alive = (factors > 0).reshape(3, -1)
    for b in (1, 2):  # then the factors of all but the first have a geometric mean of one
        mean = wanted[b][alive[b]].mean()
        wanted[b] -= mean
        wanted[0] += mean
    np.testing.assert_allclose(given[alive.ravel()], wanted[alive], atol=1e-8)


@pytest.mark.parametrize(
    ("shape", "axes", "fill", "options"),
    [
        ((9, 8, 7), PAIRS, 0.3, {}),
        ((9, 8, 7), PAIRS, 0.3, {"unasked": 0.2}),
        ((9, 8, 7), PAIRS, 0.3, {"importance": [5.0, 2.0, 30.0]}),
        ((5, 6, 5, 4), CHAIN, 0.2, {}),
        ((30, 4, 30), ((0, 1), (2,)), 0.1, {}),
    ],
)
def test_products_solve_the_equations_and_show_the_least_eigenvalue(shape, axes, fill, options):
    for seed in range(3):
        t = first_of(shape, axes, fill, seed, **options)
        room, n = conjugate_gradients.allocate_workspace(t), t.counts[UNKNOWNS]
        scale_system(t)
        S, right = second_derivatives(t)
        np.testing.assert_allclose(t.step[:n], right, atol=1e-12)
        values, vectors = np.linalg.eigh(S)
        inside = values > 1e-9
        t.step[:n] = vectors[:, inside] @ (vectors[:, inside].T @ np.random.default_rng(seed).normal(size=n))
        right = t.step[:n].copy()
        met, _ = conjugate_gradients.run_conjugate_gradients(t, room, 1e-10, 5000, 0.0)
        assert met
        np.testing.assert_allclose(S @ room.solution[:n], right, atol=1e-8)
        least = conjugate_gradients.estimate_least_eigenvalue(t, room)
        np.testing.assert_allclose(least, values[inside][0], rtol=0.01)
