"""How alike pairs of confusion matrices are."""

import numpy as np

import cmfast
from benchmarks import _data, _numba_loops, _rivals
from benchmarks._job import Job, Rival

FUNCTIONS = {
    "overlap": {"NumPy": _rivals.numpy_overlap, "Numba loop": _numba_loops.overlap},
    "l1_distance": {"NumPy": _rivals.numpy_l1_distance, "Numba loop": _numba_loops.l1_distance},
    "kl_divergence": {
        "NumPy": _rivals.numpy_kl_divergence,
        "SciPy": _rivals.scipy_kl_divergence,
        "Numba loop": _numba_loops.kl_divergence,
    },
}


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    B = 100 if small else 100_000
    S, T = (_data.confusion_matrices(B, 10, accuracy, 1e-3, seed) for seed, accuracy in enumerate((0.9, 0.8)))
    return [_job(name, rivals, S, T) for name, rivals in FUNCTIONS.items()]


def _job(name, rivals, S, T) -> Job:
    B, C, _ = S.shape
    want = rivals["NumPy"](S, T)

    def check(found):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-13)
        return "same to rounding"

    return Job(
        name,
        f"{B:,} pairs of matrices {C}x{C}",
        B,
        "pairs",
        lambda threads: getattr(cmfast, name)(S, T, num_threads=threads),
        check,
        lambda: (S.sum(), T.sum()),
        "read",
        [
            Rival(rival, lambda call=call: call(S, T), B, check, lambda call=call: call(S[:1], T[:1]))
            for rival, call in rivals.items()
        ],
    )
