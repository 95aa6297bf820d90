"""Bi-normalising batches of confusion matrices, from easy to nearly singular."""

import numpy as np

import cmfast
from benchmarks import data, rivals
from benchmarks._job import Job, Rival

TOL = 1e-9

# Accuracy -> matrices given to NumPy, POT and ipfn: their sweeps grow with the accuracy, the time of a run must not.
SHARES = {0.6: (4000, 200, 60), 0.9: (1000, 60, 20), 0.99: (50, 5, 2)}


def residual(P):
    """Return the L1 distance of both margins from one, over the total mass, per matrix."""
    C = P.shape[-1]
    return (np.abs(P.sum(-1) - 1).sum(-1) + np.abs(P.sum(-2) - 1).sum(-1)) / C


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    return [_job(10, accuracy, small=small) for accuracy in SHARES]


def _job(C: int, accuracy: float, *, small: bool) -> Job:
    B = 300 if small else 100_000
    M = data.confusion_matrices(B, C, accuracy, 1e-3)
    out = np.empty_like(M)
    n_numpy, n_pot, n_ipfn = (2, 1, 1) if small else SHARES[accuracy]

    def check_ours(result):
        assert not result.status.any(), "not all converged"
        worst = residual(result.matrix).max()
        assert worst <= TOL, worst
        return f"residual {worst:.0e}, {result.n_iter.mean():.1f} passes"

    def check_rival(P):
        # A rival that stops early is reported, not failed: that is what its users get.
        worst = residual(P).max()
        return f"residual {worst:.0e}" + ("" if worst <= 1.01 * TOL else ", stopped early")

    return Job(
        f"bi {accuracy}",
        f"{B:,} matrices {C}x{C} + 1e-3",
        B,
        "matrices",
        lambda threads: cmfast.ipf(M, tol=TOL, num_threads=threads),
        check_ours,
        lambda: np.copyto(out, M),
        "copy",
        [
            Rival("NumPy batched", lambda: rivals.numpy_sinkhorn(M[:n_numpy], TOL), n_numpy, check_rival),
            Rival("POT", lambda: rivals.pot_sinkhorn(M[:n_pot], TOL), n_pot, check_rival),
            Rival("ipfn", lambda: rivals.ipfn_ipf(M[:n_ipfn], TOL), n_ipfn, check_rival),
        ],
    )
