"""What the zeros of confusion matrices allow."""

import numpy as np

import cmfast
from benchmarks import _data, _rivals
from benchmarks._job import Job, Rival

# Accuracy -> matrices given to SciPy.
SHARES = {0.9: 2000, 0.99: 2000}


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    B = 200 if small else 100_000
    return [_job(B, 10, accuracy, min(B, share)) for accuracy, share in SHARES.items()]


def _job(B: int, C: int, accuracy: float, share: int) -> Job:
    M = _data.confusion_matrices(B, C, accuracy, 0.0)
    ours = cmfast.support(M[:share])

    def check_ours(found):
        has, dead = _rivals.scipy_support(M[:50])
        np.testing.assert_array_equal(found.status[:50] <= cmfast.Status.LIMIT_ONLY, has)
        np.testing.assert_array_equal(found.dead_cells[:50], dead)
        shares = [(found.status == status).mean() for status in (cmfast.Status.CONVERGED, cmfast.Status.LIMIT_ONLY)]
        return "{:.0%} have factors, {:.0%} a limit alone".format(*shares)

    def check_rival(found):
        np.testing.assert_array_equal(ours.status <= cmfast.Status.LIMIT_ONLY, found[0])
        np.testing.assert_array_equal(ours.dead_cells, found[1])
        return "the cells that die, no certificate"

    return Job(
        f"support {accuracy}",
        f"{B:,} matrices {C}x{C} of counts",
        B,
        "matrices",
        lambda threads: cmfast.support(M, num_threads=threads),
        check_ours,
        M.sum,
        "read",
        [Rival("scipy.sparse.csgraph", lambda: _rivals.scipy_support(M[:share]), share, check_rival)],
    )
