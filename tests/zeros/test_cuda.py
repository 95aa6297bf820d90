"""Zero patterns by the CUDA kernel: every answer has the bits of the CPU's."""

import device
import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import Status
from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda.zeros import support

pytestmark = [pytest.mark.cuda_host, *device.marks]

SHAPES = [(1, 1), (2, 2), (3, 7), (7, 3), (9, 9), (31, 33), (32, 32), (33, 32), (40, 64), (64, 64), (65, 20), (70, 70)]
TARGETS = ["whole", "fractional", "dropped", "tight"]


def parts(found):
    return (*found[:-1], *found.certificate)


def assert_both_agree(M, *targets):
    """Assert that CPU and CUDA answer with the same bits; return the statuses."""
    on_cpu = cmfast.support(M, *targets)
    on_cuda = cmfast.support(*(device.asarray(a) for a in (M, *targets)))
    assert_same_bits(tuple(part.get() for part in parts(on_cuda)), tuple(map(np.asarray, parts(on_cpu))))
    return on_cpu.status


def patterns(rng, n, R, C):
    """Return matrices from nearly empty to nearly full, most with a positive diagonal or a hidden one."""
    M = rng.random((n, R, C)) < rng.uniform(0.5, 9, (n, 1, 1)) / min(R, C)
    k = np.arange(min(R, C))
    M[: n // 3, k, k] = True
    M[n // 3 : 2 * n // 3, k, rng.permutation(C)[: len(k)]] = True
    return M * rng.random((n, R, C))


def targets_of(rng, M, kind):
    """Return targets: of whole numbers or not, some lines dropped, or such that they just can or just cannot be met."""
    n, R, C = M.shape
    if kind == "tight":
        T = (M > 0) * (rng.random(M.shape) < 0.6) * rng.random(M.shape)
        T[:, 0, 0] += T.sum((1, 2)) == 0
        return T.sum(2), T.sum(1)
    shares = [np.where(rng.random(k) < (0.3 if kind == "dropped" else 0.0), 0.0, rng.random(k) + 0.1) for k in (R, C)]
    for share in shares:
        share[0] += 1.0
    u, v = (rng.multinomial(6 * max(R, C), share / share.sum(), n) for share in shares)
    return (u / 7, v / 7) if kind == "fractional" else (u, v)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[0] == shape[1]], ids=str)
def test_equal_targets(shape):
    rng = np.random.default_rng(shape)
    status = assert_both_agree(patterns(rng, 36, *shape))
    assert shape == (1, 1) or {Status.CONVERGED, Status.LIMIT_ONLY} <= set(status.tolist())


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_targets_of_every_kind(shape, kind):
    rng = np.random.default_rng([*shape, TARGETS.index(kind)])
    M = patterns(rng, 24, *shape)
    assert_both_agree(M, *targets_of(rng, M, kind))


@pytest.mark.parametrize("shape", [(130, 130), (150, 40), (40, 150), (300, 290)], ids=str)
def test_a_block_per_matrix(shape):
    rng = np.random.default_rng(shape)
    M = patterns(rng, 6, *shape)
    found = set(assert_both_agree(M, *targets_of(rng, M, "tight")).tolist())
    if shape[0] == shape[1]:
        found |= set(assert_both_agree(M).tolist())
    flow = M.copy()
    flow[:, np.arange(shape[0]), rng.integers(0, shape[1], shape[0])] += 1.0
    flow[:, rng.integers(0, shape[0], shape[1]), np.arange(shape[1])] += 1.0
    more = flow + (rng.random(M.shape) < 0.01)
    found |= set(assert_both_agree(more, flow.sum(2), flow.sum(1)).tolist())
    assert Status.LIMIT_ONLY in found


@pytest.mark.parametrize("shape", [(6, 6), (40, 40), (70, 66)], ids=str)
def test_schedules_neighbours_and_the_place_of_the_scratch_change_no_bit(monkeypatch, shape):
    rng = np.random.default_rng(shape)
    M = patterns(rng, 24, *shape)
    M[7, 0, 0] = np.nan
    given = [device.asarray(a) for a in (M, *targets_of(rng, M, "tight"))]
    want = parts(cmfast.support(*given))
    for seed in (1, 2):
        with device.schedule(seed):
            assert_same_bits(parts(cmfast.support(*given)), want)
    alone = parts(cmfast.support(*(a[5:6] for a in given)))
    assert_same_bits(tuple(part.get()[0] for part in alone), tuple(part.get()[5] for part in want))
    monkeypatch.setattr(support, "SHARED", 0)
    monkeypatch.setattr(batches, "MOST_SCRATCH_BYTES", 1)
    assert_same_bits(parts(cmfast.support(*given)), want)


def test_targets_of_one_matrix_serve_all():
    M = patterns(np.random.default_rng(1), 12, 4, 5)
    assert_both_agree(M, np.full(4, 5), np.full(5, 4))
    assert_both_agree(M[0], np.full((3, 1, 4), 5.0), np.array([[4, 4, 4, 4, 4], [4, 4, 4, 0, 8]]))


def test_nothing_waits():
    there = device.asarray(patterns(np.random.default_rng(2), 5, 3, 3))
    with device.waits(0):
        cmfast.support(there)
