"""Contact maps balanced: passes over the pixels, and all of it."""

import numpy as np
import scipy.sparse

import cmfast
from benchmarks._job import Job, Rival
from cmfast.kernels.cpu.solver.symmetric_packing import pack
from cmfast.kernels.cpu.solver.symmetric_passes import SymmetricProducts

TOL = 1e-10
MOST_SWEEPS = 400


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    i, j, a, n = contacts(300, 10) if small else contacts(60_000, 80)
    return [_pass(i, j, a, n), balanced(i, j, a, n)]


def contacts(n: int, per_bin: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return pixels that get fewer with the distance, with counts that do so too."""
    rng = np.random.default_rng(n)
    far = np.exp(rng.uniform(np.log(2), np.log(n / 2), (n, per_bin))).astype(np.int64)
    i, gap = np.divmod(np.unique(far + n * np.arange(n)[:, None]), n)
    near = i + gap < n
    i, gap = i[near], gap[near]
    bias = np.exp(rng.normal(0.0, 0.3, n))
    return i, i + gap, 1 + rng.poisson(3000 * bias[i] * bias[i + gap] / gap), n


def _csr(i: np.ndarray, j: np.ndarray, a: np.ndarray, n: int) -> scipy.sparse.csr_array:
    both = np.concatenate([i, j]), np.concatenate([j, i])
    return scipy.sparse.csr_array((np.concatenate([a, a]).astype(float), both), shape=(n, n))


def _pass(i: np.ndarray, j: np.ndarray, a: np.ndarray, n: int) -> Job:
    packed, A, x = pack(i, j, a, n, 0), _csr(i, j, a, n), np.random.default_rng(0).random(n)
    wanted = x * (A @ x)

    def check(found):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        held = packed.first.nbytes + packed.gap.nbytes + packed.value.nbytes
        return f"{held / len(i):.2f} bytes a pixel"

    return Job(
        "pass over a map",
        f"{len(i):,} pixels, {n:,} bins",
        len(i),
        "pixels",
        lambda threads: SymmetricProducts(packed, threads).sums(x),
        check,
        lambda: (packed.gap.sum(), packed.value.sum()),
        "read",
        [Rival("SciPy CSR", lambda: x * (A @ x), len(i), lambda found: check(found) and "full CSR")],
    )


def _balance_by_ice(A: scipy.sparse.csr_array) -> tuple[np.ndarray, int]:
    """Return the weights of ICE and its number of sweeps, as a capable user would write it with SciPy."""
    x = np.ones(A.shape[0])
    k = 0
    while k < MOST_SWEEPS:
        k += 1
        sums = x * (A @ x)
        sums /= sums.mean()
        if np.abs(sums - 1).max() <= TOL:
            break
        x /= sums
    return x / np.sqrt((x * (A @ x)).mean()), k


def off(x: np.ndarray, i: np.ndarray, j: np.ndarray, a: np.ndarray) -> float:
    """Return by how much the worst sum of a map with these weights differs from one."""
    pixels = a * x[i] * x[j]
    return float(np.abs(np.bincount(i, pixels, len(x)) + np.bincount(j, pixels, len(x)) - 1).max())


def balanced(i: np.ndarray, j: np.ndarray, a: np.ndarray, n: int) -> Job:
    A = _csr(i, j, a, n)

    def describe(x, passes):
        return f"sums to {off(x, i, j, a):.0e}, {passes} passes"

    def check_ours(found):
        assert off(found.weights, i, j, a) <= TOL
        return describe(found.weights, found.n_iter)

    return Job(
        "balance",
        f"{len(i):,} pixels, {n:,} bins, sums to {TOL:g}",
        len(i),
        "pixels",
        lambda threads: cmfast.balance((i, j, a, n), symmetric="upper", tol=TOL, num_threads=threads),
        check_ours,
        lambda: (i.sum(), j.sum(), a.sum()),
        "read",
        [Rival("ICE, SciPy CSR", lambda: _balance_by_ice(A), len(i), lambda found: describe(*found))],
    )
