"""Tables scaled by the CUDA kernels: verdicts on zeros, planted answers, memory, batches in pieces."""

from unittest import mock

import device
import numpy as np
import pytest
from cases.margins import PAIRS, margins_of, table
from checks import assert_same_bits

import cmfast
from cmfast import Status
from cmfast.kernels.cuda.margins import launch

pytestmark = [pytest.mark.cuda_host, *device.marks]

ONE_WAY = ((0,), (1,), (2,))
TRIPLES = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))


def both(M, margins, **options):
    """Return what the CPU and what the CUDA kernels make of one call."""
    there = [(of, device.asarray(np.asarray(target))) for of, target in margins]
    options["on_failure"] = "ignore"
    return cmfast.ipf_nd(M, margins, **options), cmfast.ipf_nd(device.asarray(M), there, **options)


def flat(result):
    """Return all parts of a result, on the host."""
    parts = (result.table, *result.factors, *result.achieved, *result[3:])
    return [np.asarray(device.host(part)) for part in parts]


def assert_agree(on_cpu, on_cuda, rtol):
    """Assert that both have the same statuses, tables, factors and sums, and that these are as right as it is said."""
    *ours, residual, error, passes, status = flat(on_cuda)
    *its, _, its_error, its_passes, its_status = flat(on_cpu)
    np.testing.assert_array_equal(status, its_status)
    for one, other in zip(ours, its, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol)
    met = (status == Status.CONVERGED) | (status == Status.LIMIT_ONLY)
    assert (residual[met] <= 1e-9).all()
    assert (error[met] <= 1e-4).all()
    np.testing.assert_array_equal(np.isnan(error), np.isnan(its_error))
    solved = status == Status.CONVERGED
    assert (abs(passes - its_passes)[solved] <= 4 + 0.1 * its_passes[solved]).all()


def zeros(shape, n, seed=5):
    """Return tables with zeros, and margins: of the table, of a part of its cells, of anything."""
    rng = np.random.default_rng(seed)
    some = rng.random((n, *shape)) < rng.choice([0.45, 0.6, 0.75], (n, 1, 1, 1))
    other = np.stack([some, some & (rng.random(some.shape) < 0.7), rng.random(some.shape) < 0.6])
    T = other[np.arange(n) % 3, np.arange(n)] * rng.integers(1, 10, some.shape) * 1.0
    return some * np.exp(rng.normal(0, 1, some.shape)), list(zip(PAIRS, margins_of(T, PAIRS, 1), strict=True))


def test_tables_whose_cells_32_bits_cannot_list_are_refused(monkeypatch):
    launch._require_few_cells(715_827_882, 3)
    with pytest.raises(OverflowError, match=r"tables of 715827883 cells .* with 3 margins: at most 715827882 cells"):
        launch._require_few_cells(715_827_883, 3)
    M, margins = np.ones((3, 3, 4)), list(zip(PAIRS, margins_of(np.ones((3, 3, 4)), PAIRS, 0), strict=True))
    there = [(of, device.asarray(target)) for of, target in margins]
    cells = device.asarray(np.ones(36)), device.asarray(np.stack(np.unravel_index(np.arange(36), M.shape)))
    monkeypatch.setattr(launch, "MOST_INDICES", 107)
    with pytest.raises(OverflowError, match=r"^ipf_nd: tables of 36 cells"):
        cmfast.ipf_nd(device.asarray(M), there)
    with pytest.raises(OverflowError, match=r"^ipf_cells: tables of 36 cells"):
        cmfast.ipf_cells(*cells, there, shape=M.shape)
    monkeypatch.setattr(launch, "MOST_INDICES", 108)
    assert cmfast.ipf_nd(device.asarray(M), there).status == Status.CONVERGED


@pytest.mark.parametrize("shape", [(2, 2, 3), (3, 2, 2), (3, 3, 4)])
def test_zeros_decide_the_same(shape):
    on_cpu, on_cuda = both(*zeros(shape, 60))
    assert {0, 3, 6} <= {int(code) for code in on_cpu.status}
    assert_agree(on_cpu, on_cuda, 1e-6)


def planted(shape, axes, sd, filled=1.0):
    """Return a table and the margins of another with the same zeros."""
    M = table(shape, 1, 1.0 - filled)
    T = M * table(shape, 2, sd=sd)
    return M, list(zip(axes, margins_of(T, axes), strict=True))


@pytest.mark.parametrize(
    ("shape", "axes", "sd", "filled"),
    [((6, 5, 7), PAIRS, 3.0, 1.0), ((7,) * 3, PAIRS, 1.0, 0.5), ((3,) * 4, TRIPLES, 1.5, 0.8)],
    ids=["dense", "sparse", "triples"],
)
def test_hard_tables_are_solved_as_on_the_cpu(shape, axes, sd, filled):
    M, margins = planted(shape, axes, sd, filled)
    on_cpu, on_cuda = both(M, margins, tol=1e-12)
    assert on_cpu.status == Status.CONVERGED
    assert_agree(on_cpu, on_cuda, 1e-6)


@pytest.mark.parametrize("axes", [((0,), (1,)), ((0, 1), (1, 2)), ONE_WAY])
def test_where_sweeps_are_enough_is_found_as_on_the_cpu(axes):
    M, margins = planted((4, 5, 3)[: max(max(axes)) + 1], axes, 0.5)
    _, on_cuda = both(M, margins)
    coords = np.indices(M.shape).reshape(M.ndim, -1)
    on_cpu = cmfast.ipf_cells(M.ravel(), coords, margins, shape=M.shape)  # listed cells: one table at a time, as there
    np.testing.assert_allclose(device.host(on_cuda.table).ravel(), on_cpu.table, rtol=1e-12)
    assert 1e-10 < on_cpu.cell_error < 1e-8  # what the last sweep changed, and no step of Newton's
    np.testing.assert_allclose(device.host(on_cuda.cell_error), on_cpu.cell_error, rtol=1e-3)
    assert device.host(on_cuda.n_iter) == on_cpu.n_iter


@pytest.mark.parametrize("importance", [[2.0, np.inf, 0.5], [1.0, 3.0, 1.0], [np.inf, 5.0, 100.0]])
def test_margins_that_need_not_be_met_are_missed_as_on_the_cpu(importance):
    on_cpu, on_cuda = both(*zeros((3, 3, 4), 20), importance=importance)
    assert {int(code) for code in on_cpu.status} <= {0, 6}
    assert_agree(on_cpu, on_cuda, 1e-9)


def test_cells_that_are_listed_are_scaled_as_on_the_cpu():
    M, margins = planted((20, 9, 7), PAIRS, 1.0, 0.3)
    coords = np.stack(np.nonzero(M))
    there = [(of, device.asarray(target)) for of, target in margins]
    on_cpu = cmfast.ipf_cells(M[M > 0], coords, margins, tol=1e-12)
    on_cuda = cmfast.ipf_cells(device.asarray(M[M > 0]), device.asarray(coords), there, tol=1e-12)
    assert on_cpu.status == Status.CONVERGED
    assert_agree(on_cpu, on_cuda, 1e-6)


def test_what_targets_do_not_determine_is_told():
    rng = np.random.default_rng(0)
    shape = (8,) * 3
    M = np.exp(rng.normal(size=shape)) * (rng.random(shape) < 0.3)
    T = (M > 0) * np.exp(sum(rng.normal(0.0, 9.0, [8 if axis in of else 1 for axis in range(3)]) for of in PAIRS))
    on_cpu, on_cuda = both(M, list(zip(PAIRS, margins_of(T, PAIRS), strict=True)))
    assert on_cpu.status == device.host(on_cuda.status) == Status.UNDETERMINED


@pytest.mark.parametrize("way", ["pairs of cells", "pairs of lines"])
def test_both_ways_to_form_equations_agree(way):
    M, margins = planted((4, 4, 4), PAIRS, 2.0, 0.8)
    form = launch.make_pattern
    launch._cache_dense_layout.cache_clear()
    with mock.patch.object(
        launch, "make_pattern", lambda *given: form(*given)._replace(by_pairs=way == "pairs of cells")
    ):
        found = both(M, margins, tol=1e-13)
    launch._cache_dense_layout.cache_clear()
    assert_agree(*found, 1e-9)


def test_no_bit_depends_on_where_tables_lie_or_what_is_beside_them():
    M, margins = zeros((3, 3, 4), 9)
    M, there = device.asarray(M), [(of, device.asarray(target)) for of, target in margins]
    options = {"on_failure": "ignore"}
    with mock.patch.object(launch, "MOST_WARP_NUMBERS", 0):
        near = flat(cmfast.ipf_nd(M, there, **options))
        with mock.patch.object(launch, "most_shared", return_value=0), device.schedule(1):
            far = flat(cmfast.ipf_nd(M, there, **options))
    whole = flat(cmfast.ipf_nd(M, there, **options))
    alone = flat(cmfast.ipf_nd(M[4:5], [(of, target[4:5]) for of, target in there], **options))
    for one, other, part, single in zip(near, far, whole, alone, strict=True):
        assert_same_bits(one, other)
        assert_same_bits(part[4:5], single)


def test_progress_and_pieces(monkeypatch):
    M, margins = zeros((2, 2, 3), 7)
    M, there = device.asarray(M), [(of, device.asarray(target)) for of, target in margins]
    whole, seen = flat(cmfast.ipf_nd(M, there, on_failure="ignore")), []
    monkeypatch.setattr(launch, "PROGRESS_TABLES", 3)
    pieces = cmfast.ipf_nd(M, there, on_failure="ignore", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(3, 7), (6, 7), (7, 7)]
    for one, other in zip(whole, flat(pieces), strict=True):
        assert_same_bits(one, other)


def test_nothing_waits_but_the_first_call():
    M, margins = planted((3, 4, 2), ONE_WAY, 0.5)
    M, there = device.asarray(M), [(of, device.asarray(target)) for of, target in margins]
    first = cmfast.ipf_nd(M, there)
    with device.waits(0):
        found = cmfast.ipf_nd(M, there, on_failure="ignore")
    for one, other in zip(flat(first), flat(found), strict=True):
        assert_same_bits(one, other)


def test_a_failure_reads_as_on_the_cpu():
    M, margins = table((2, 2)), [(0, np.ones(2)), (1, np.array([1.0, 1.5]))]
    with pytest.warns(cmfast.FailureWarning, match="disagree on the total: 2 against 2.5"):
        cmfast.ipf_nd(device.asarray(M), [(of, device.asarray(target)) for of, target in margins])
