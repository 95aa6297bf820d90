"""Dividing batches of confusion matrices by their sums, and the same as weights."""

import numpy as np

import cmfast
from benchmarks import _data, _numba_loops, _rivals
from benchmarks._job import Job, Rival

AXES = {"all": (-2, -1), "row": -1, "col": -2}
LOOPS = {
    "all": _numba_loops.shares_of_all,
    "row": _numba_loops.shares_of_rows,
    "col": _numba_loops.shares_of_columns,
}


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    M = _data.confusion_matrices(100 if small else 100_000, 10, 0.9, 1e-3)
    made = [_job("normalize", cmfast.normalize, _rivals.numpy_shares, LOOPS[method], method, M) for method in AXES]
    weights = cmfast.importance_weights, _rivals.numpy_weights, _numba_loops.weights_of_rows
    return [*made, _job("weights", *weights, "row", M)]


def _job(name, function, in_numpy, in_numba, method, M) -> Job:
    B, C, _ = M.shape
    out = np.empty_like(M)
    want = in_numpy(M, AXES[method])

    def check(found):
        np.testing.assert_allclose(found, want, rtol=1e-13)
        return "same to rounding"

    rivals = [
        Rival("NumPy", lambda: in_numpy(M, AXES[method]), B, check),
        Rival("Numba loop", lambda: in_numba(M), B, check, lambda: in_numba(M[:1])),
    ]
    if (name, method) == ("normalize", "row"):
        rivals.append(Rival("scikit-learn", lambda: _rivals.sklearn_shares_of_rows(M), B, check))
    return Job(
        f"{name} {method}",
        f"{B:,} matrices {C}x{C}",
        B,
        "matrices",
        lambda threads: function(M, method, num_threads=threads),
        check,
        lambda: np.copyto(out, M),
        "copy",
        rivals,
    )
