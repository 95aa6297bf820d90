"""Tables scaled to margins over any of their axes."""

import numpy as np

import cmfast
from benchmarks._job import Job, Rival

PAIRS = ((0, 1), (0, 2), (1, 2))
SWEEPS = 100


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    return [_job(4, 20 if small else 20_000), _job(6 if small else 20, 1)]


def _swept(M: np.ndarray, targets: list[np.ndarray]) -> np.ndarray:
    """Return what a capable user writes: all tables at once, as many sweeps as seem enough."""
    T = M.copy()
    for _ in range(SWEEPS):
        for axis, target in zip((3, 2, 1), targets, strict=True):
            T *= np.expand_dims(target / T.sum(axis), axis)
    return T


def _job(n: int, B: int) -> Job:
    rng = np.random.default_rng(n)
    M = np.exp(rng.normal(size=(B, n, n, n)))
    lines = np.exp(rng.normal(0.0, 0.5, (3, B, n, n)))
    answer = M * lines[0][..., None] * lines[1][:, :, None] * lines[2][:, None]
    targets = [answer.sum(axis) for axis in (3, 2, 1)]
    margins = list(zip(PAIRS, targets, strict=True))

    def check_ours(found):
        np.testing.assert_allclose(found.table, answer, rtol=1e-6)
        return f"cells to 1e-6, {found.n_iter.mean():.0f} passes"

    def check_rival(found):
        return f"cells to {np.abs(found / answer - 1).max():.0e}"

    return Job(
        f"ipf_nd {n}",
        f"{B:,} tables {n}x{n}x{n}, all two-way margins",
        B,
        "tables",
        lambda threads: cmfast.ipf_nd(M, margins, num_threads=threads),
        check_ours,
        M.sum,
        "read",
        [Rival(f"{SWEEPS} sweeps in NumPy", lambda: _swept(M, targets), B, check_rival)],
    )
