"""Contact maps balanced on a device: passes of all types of pixels, verdicts on zeros, schedules, blocks."""

import device
import numpy as np
import pytest
from cases.balancing import contacts
from checks import assert_same_bits

import cmfast
from cmfast import Status
from cmfast.kernels.cpu.solver import symmetric_packing as packing
from cmfast.kernels.cpu.solver import symmetric_passes
from cmfast.kernels.cuda.balancing import launch
from cmfast.kernels.shared import symmetric_packing
from cmfast.kernels.shared.symmetric_newton import compute_newton_step

pytestmark = [pytest.mark.cuda_host, *device.marks]


def parts(result):
    """Return all parts of a result, on the host."""
    return tuple(np.asarray(device.host(part)) for part in result)


def there(i, j, a, n, **options):
    """Return what the device makes of pixels, on the host."""
    options = {"symmetric": "upper", "on_failure": "ignore", **options}
    return parts(cmfast.balance((*map(device.asarray, (i, j, a)), n), **options))


def both(*pixels):
    """Return the passes of both targets."""
    return symmetric_passes.SymmetricProducts(packing.pack(*pixels, 0), 1), launch.SymmetricProducts(device.xp, *pixels)


def positive(n, seed, scale):
    """Return pixels that are positive, sorted and of all distances, a few of them of large counts."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n)
    keep = (rng.random(len(i)) < 0.5) | (i == j)
    i, j = i[keep], j[keep]
    return i, j, rng.integers(1, 8, len(i)) * scale * np.where(rng.random(len(i)) < 0.03, 1e5, 1.0), n


@pytest.mark.parametrize("scale", [1.0, 0.37])
@pytest.mark.parametrize("narrow", [8, symmetric_packing.LEAST_WIDE_VALUE])
def test_passes_are_those_of_the_cpu(monkeypatch, narrow, scale):
    monkeypatch.setattr(symmetric_packing, "LEAST_WIDE_VALUE", narrow)
    on_cpu, on_cuda = both(*positive(70, 1, scale))
    assert on_cuda._instance == (
        "int" if narrow == 8 else "unsigned short",
        "double" if scale < 1 else "unsigned short",
    )
    assert (len(on_cuda._pixels["rest_gap"]) > 0) == (scale == 1.0)
    x = np.exp(np.random.default_rng(2).normal(0.0, 1.0, 70))
    r = on_cpu.sums(x)
    np.testing.assert_allclose(on_cuda.sums(x), r, rtol=1e-13)
    assert on_cuda.least(x) == on_cpu.least(x)
    assert_same_bits(on_cuda.triangles(x), on_cpu.triangles(x))
    g = np.random.default_rng(3).normal(size=70)
    for one, other in zip(
        compute_newton_step(on_cuda, x, r, g, 1e-9), compute_newton_step(on_cpu, x, r, g, 1e-9), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_components_and_colours_are_those_of_the_cpu():
    rng, signs = np.random.default_rng(4), set()
    for _ in range(60):
        n = int(rng.integers(1, 12))
        i, j = np.triu_indices(n, int(rng.integers(0, 2)))
        keep = rng.random(len(i)) < 1.3 / n
        pixels = i[keep], j[keep], np.where(rng.random(keep.sum()) < 0.1, 1e5, 1.0), n
        (component, sign), (its, of_its) = (passes.find_components() for passes in both(*pixels))
        same = component[:, None] == component
        np.testing.assert_array_equal(its[:, None] == its, same)
        np.testing.assert_array_equal((of_its[:, None] * of_its)[same], (sign[:, None] * sign)[same])
        signs |= set(np.unique(of_its).tolist())
    assert signs == {-1.0, 0.0, 1.0}


def test_verdicts_and_proofs_are_those_of_the_cpu():
    rng, seen = np.random.default_rng(5), set()
    for _ in range(60):
        n = int(rng.integers(2, 9))
        i, j = np.triu_indices(n)
        keep = rng.random(len(i)) < rng.uniform(0.15, 0.8)
        i, j = i[keep], j[keep]
        a = np.exp(rng.normal(size=len(i)))
        on_cpu = cmfast.balance((i, j, a, n), symmetric="upper", on_failure="ignore")
        _, reason, proof, _, _, _, status = there(i, j, a, n)
        assert status == on_cpu.status
        np.testing.assert_array_equal(reason, on_cpu.reason)
        np.testing.assert_array_equal(proof, on_cpu.proof)
        seen.add(int(status))
    assert {Status.CONVERGED, Status.LIMIT_ONLY, Status.INFEASIBLE} <= seen


def test_schedules_and_neighbours_change_no_bit():
    i, j, a = contacts(40, 6, 0.7)
    alone = there(i, j, a, 40)
    for seed in (0, 1, 2):
        with device.schedule(seed):
            assert_same_bits(there(i, j, a, 40), alone)
    two = there(np.append(i, i + 40), np.append(j, j + 40), np.append(a, a[::-1]), 80, blocks=[0, 40, 80])
    assert_same_bits(two[0][:40], alone[0])
    assert_same_bits(tuple(part[:1] for part in two[3:]), tuple(part.reshape(1) for part in alone[3:]))


def step(n, d, energy):
    """Return what a step along `d` finds, and the iterate after it, of a diagonal matrix of ones."""
    bins, ones = np.arange(n), np.ones(n)
    passes = launch.SymmetricProducts(device.xp, bins, bins, ones, n)
    iterate = passes.iterate(ones, ones, d, d)
    return iterate.step(energy), iterate


def test_chunks_are_added_up():
    """The Hessian of such a matrix doubles, so that half a step leads to the minimum, and energies vanish."""
    n = 2 * launch.BINS_PER_BLOCK + 300
    d = np.random.default_rng(7).random(n)
    energy = float(d @ d)
    found = [step(n, d, energy)[0] for _ in range(2)]
    assert found[0] == found[1]
    assert found[0][0] == pytest.approx(2.0 * energy, rel=1e-14)
    assert abs(found[0][1]) <= 1e-28 * energy
    (_, left), iterate = step(n, d, 0.5 * energy)  # as if the last energy had been less: half as far
    assert left == pytest.approx(energy / 4.0, rel=1e-14)
    np.testing.assert_allclose(iterate.solution, d / 4.0, rtol=1e-14)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_nothing_moves_along_a_bad_direction(bad):
    d = np.full(50, bad)
    (curvature, _), iterate = step(50, d, 1.0)
    assert not 0.0 < curvature < np.inf
    assert (iterate.solution == 0.0).all()


def test_a_failure_is_told():
    pixels = (*(device.asarray(np.array(part)) for part in ([0, 0], [1, 2], [1.0, 1.0])), 3)
    with pytest.warns(cmfast.FailureWarning, match="must sum to 2 but have pixels only with bin 0"):
        cmfast.balance(pixels, symmetric="upper")
