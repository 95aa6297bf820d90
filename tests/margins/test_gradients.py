"""Tables whose steps conjugate gradients take: what is called right is right, and no pair of lines has a number."""

import collections

import numpy as np
import pytest
from cases.margins import PAIRS, margins_of
from oracle.margins import verdict

import cmfast
from cmfast import Status
from cmfast.kernels.cpu.margins import launch
from cmfast.kernels.cpu.margins.tables import conjugate_gradients

pytestmark = pytest.mark.exhaustive

CHAIN = ((0, 1), (1, 2), (2, 3), (0, 3))
TRIPLES = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))
FAMILIES = [  # the last four have cells too small for products to bound
    ((12, 12, 12), PAIRS, 0.15, 1.0),
    ((12, 12, 12), PAIRS, 0.25, 3.0),
    ((8, 8, 8), PAIRS, 1.0, 4.0),
    ((6, 6, 6, 6), CHAIN, 1.0, 3.0),
    ((5, 5, 5, 5), TRIPLES, 0.6, 2.0),
    ((12, 12, 12), PAIRS, 0.5, 6.0),
    ((12, 12, 12), PAIRS, 0.2, 6.0),
    ((12, 12, 12), PAIRS, 0.3, 9.0),
    ((6, 6, 6, 6), CHAIN, 0.5, 12.0),
]


def planted(shape, axes, fill, sd, seed):
    """Return a table and the one that has its zeros and the margins asked for: scaled by factors of lines."""
    rng = np.random.default_rng(seed)
    M = (rng.random(shape) < fill) * np.exp(rng.normal(size=shape))
    T = M.copy()
    for of in axes:
        logs = rng.normal(size=[shape[axis] for axis in of]) * sd / np.sqrt(len(axes))
        T *= np.exp(np.expand_dims(logs, [axis for axis in range(len(shape)) if axis not in of]))
    return M, T


def scaled(M, T, axes=PAIRS, **options):
    return cmfast.ipf_nd(M, list(zip(axes, margins_of(T, axes), strict=True)), on_failure="ignore", **options)


def off(found, T):
    """Return how far off the worst cell is, as a logarithm."""
    return np.abs(np.log(found.table[T > 0] / T[T > 0])).max()


def no_equations(*args):
    msg = "numbers for pairs of lines"
    raise AssertionError(msg)


@pytest.fixture
def few(monkeypatch):
    """Let products be taken of tables of a few dozen lines; return a way to say up to where equations may be formed."""
    monkeypatch.setattr(conjugate_gradients, "MOST_FORMED_UNKNOWNS", 20)

    def formed(most):
        monkeypatch.setattr(conjugate_gradients, "MOST_FACTORIZED_UNKNOWNS", most)
        if not most:
            monkeypatch.setattr(launch, "factorize_symbolically", no_equations)

    return formed


@pytest.mark.parametrize(("shape", "axes", "fill", "sd"), FAMILIES)
def test_what_products_call_right_is_right(few, shape, axes, fill, sd):
    few(0)
    counted = collections.Counter()
    for seed in range(6):
        M, T = planted(shape, axes, fill, sd, seed)
        found = scaled(M, T, axes)
        counted[int(found.status)] += 1
        assert found.status in (Status.CONVERGED, Status.MAX_ITER, Status.UNDETERMINED)
        if found.status == Status.CONVERGED:
            assert off(found, T) <= found.cell_error <= 1e-4
    easy = (shape, axes, fill, sd) in FAMILIES[:5]
    assert counted[Status.CONVERGED] == 6 or not easy


@pytest.mark.parametrize(("shape", "axes", "fill", "sd"), FAMILIES)
def test_equations_are_formed_where_products_do_not_do(monkeypatch, shape, axes, fill, sd):
    for seed in range(2):
        M, T = planted(shape, axes, fill, sd, seed)
        whole = scaled(M, T, axes)
        with monkeypatch.context() as patch:
            patch.setattr(conjugate_gradients, "MOST_FORMED_UNKNOWNS", 20)
            found = scaled(M, T, axes)
        assert found.status == whole.status
        if found.status == Status.CONVERGED:
            np.testing.assert_allclose(found.table, whole.table, rtol=1e-5)
            np.testing.assert_allclose(found.residual, 0.0, atol=1e-9)


@pytest.mark.parametrize("name", ["MOST_PRODUCTS", "MAX_PROBE_PRODUCTS", "MOST_GRADIENT_STEPS"])
def test_equations_are_formed_where_products_are_too_many(monkeypatch, few, name):
    few(20_000)
    monkeypatch.setattr(conjugate_gradients, name, 1)
    formed, honest = [], launch.factorize_symbolically
    monkeypatch.setattr(launch, "factorize_symbolically", lambda t: formed.append(t) or honest(t))
    M, T = planted(*FAMILIES[1], 0)
    found = scaled(M, T)
    assert found.status == Status.CONVERGED
    assert formed
    assert off(found, T) < 1e-5


@pytest.mark.parametrize("most", [0, 20_000])
def test_verdicts_are_those_of_a_linear_program_or_none(few, most):
    few(most)
    rng = np.random.default_rng(13)
    counted = collections.Counter()
    for k in range(60):
        shape = tuple(rng.integers(5, 8, 3))
        M = (rng.random(shape) < rng.choice([0.2, 0.3, 0.4, 0.6])) * np.exp(rng.normal(size=shape))
        some = [M > 0, (M > 0) & (rng.random(shape) < 0.8), rng.random(shape) < 0.5][k % 3]
        T = (some * rng.integers(1, 10, shape)).astype(float)
        found = scaled(M, T)
        wanted, dead = verdict(M, margins_of(T, PAIRS), PAIRS)
        assert found.status in (wanted, Status.MAX_ITER, Status.UNDETERMINED)
        assert found.status == wanted or not most
        counted[int(found.status)] += 1
        if found.status == Status.LIMIT_ONLY:
            np.testing.assert_array_equal(found.table[dead], 0.0)
    assert min(counted[code] for code in (Status.CONVERGED, Status.LIMIT_ONLY, Status.INFEASIBLE)) >= 2


@pytest.mark.parametrize("faint", 10.0 ** -np.arange(2, 18, 2))
def test_blocks_that_a_faint_cell_joins_are_never_wrong_unsaid(few, faint):
    few(0)
    rng = np.random.default_rng(3)
    M = np.exp(rng.normal(size=(8, 8, 8)))
    side = np.arange(8) < 4
    M[side[:, None, None] != side[None, :, None] + 0 * side] = 0.0
    M[0, 7, 2:4] = M[1, 7, 2:4] = M[0, 6, 2:4] = M[1, 6, 2:4] = faint
    T = M * np.exp(sum(np.expand_dims(rng.normal(size=(8, 8)), axis) for axis in range(3)))
    found = scaled(M, T)
    assert found.status in (Status.CONVERGED, Status.UNDETERMINED)
    assert found.status == Status.CONVERGED or faint < 1e-6
    if found.status == Status.CONVERGED:
        assert off(found, T) <= found.cell_error <= 1e-4


def test_soft_margins_have_the_answer_of_equations(monkeypatch, few):
    M, T = planted(*FAMILIES[0], 0)
    targets = [
        m * np.exp(0.1 * np.random.default_rng(b).normal(size=m.shape)) for b, m in enumerate(margins_of(T, PAIRS))
    ]
    margins = list(zip(PAIRS, targets, strict=True))
    few(0)
    found = cmfast.ipf_nd(M, margins, importance=[1.0, 10.0, 100.0])
    monkeypatch.undo()
    wanted = cmfast.ipf_nd(M, margins, importance=[1.0, 10.0, 100.0])
    assert found.status == wanted.status == Status.CONVERGED
    assert found.n_iter > wanted.n_iter
    np.testing.assert_allclose(found.table, wanted.table, rtol=1e-6)


def test_no_more_passes_than_asked_for(monkeypatch, few):
    few(20_000)
    M, T = planted(*FAMILIES[1], 0)
    monkeypatch.setattr(launch, "factorize_symbolically", no_equations)
    found = scaled(M, T, max_iter=60)
    assert found.status == Status.MAX_ITER
    assert found.n_iter <= 60 + 2
    assert np.isinf(found.cell_error)


def test_supports_of_many_lines_are_proved_or_left_open(few):
    few(0)
    rng = np.random.default_rng(4)
    for _ in range(12):
        M = (rng.random((5, 5, 5)) < 0.5).astype(float)
        T = M * (rng.random(M.shape) < 0.8) * rng.integers(1, 9, M.shape)
        targets = margins_of(T, PAIRS)
        found = cmfast.support_nd(M, list(zip(PAIRS, targets, strict=True)))
        assert found.status == verdict(M, targets, PAIRS)[0]


@pytest.mark.parametrize(("side", "fill", "sd"), [(60, 1.0, 3.0), (60, 0.05, 1.0), (110, 0.02, 1.0)])
def test_large_tables_take_no_numbers_for_pairs_of_lines(monkeypatch, side, fill, sd):
    monkeypatch.setattr(launch, "factorize_symbolically", no_equations)
    M, T = planted((side,) * 3, PAIRS, fill, sd, 1)
    coords = np.stack(np.nonzero(M))
    margins = list(zip(PAIRS, margins_of(T, PAIRS), strict=True))
    found = cmfast.ipf_cells(M[tuple(coords)], coords, margins, shape=M.shape)
    again = cmfast.ipf_cells(M[tuple(coords)], coords, margins, shape=M.shape, num_threads=1)
    assert found.status == Status.CONVERGED
    np.testing.assert_array_equal(found.table, again.table)
    wanted = T[tuple(coords)]
    error = np.abs(np.log(found.table / wanted)).max()
    assert error <= found.cell_error <= 1e-4
    assert error < 1e-6
