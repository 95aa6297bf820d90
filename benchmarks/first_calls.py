"""``python -m benchmarks.first_calls [NAME ...]``: how long first calls take, each in a process with an empty cache.

In seconds of one processor, without the import: what else the machine does counts little. The second column is the
number of functions that were compiled: none where the wheel's machine code serves. With ``--compile-nothing`` any such
function is an error.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

CALLS = {
    "bi_normalize 3x3": "cmfast.bi_normalize(M)",
    "bi_normalize 14x14": "cmfast.bi_normalize(np.eye(14) * 20 + rng.random((14, 14)))",
    "bi_normalize 3x3, rows in another order": "cmfast.bi_normalize(M[[1, 2, 0]])",
    "bi_normalize 3x3, zeros": "cmfast.bi_normalize(M * [[1, 0, 1], [1, 1, 0], [1, 1, 1]])",
    "bi_normalize 3x3, pseudo-bayes": 'cmfast.bi_normalize(M, smoothing="pseudo-bayes")',
    "bi_normalize 3x3, a class dropped": 'cmfast.bi_normalize(np.pad(M, (0, 1)), empty="drop")',
    "ipf 20x20, rows in another order": "cmfast.ipf((rng.random((20, 20)) + 0.01)[::-1].copy())",
    "ipf 40x40": "cmfast.ipf(np.eye(40) * 20 + rng.random((40, 40)))",
    "ipf 3x4, given margins": "cmfast.ipf(rng.random((3, 4)), [3, 2, 3], [1, 2, 2, 3])",
    "ipf 3x4, given margins and zeros": "cmfast.ipf(np.triu(np.ones((3, 4))), [3, 2, 3], [1, 2, 2, 3])",
    "normalize": 'cmfast.normalize(M, "row")',
    "metrics.compute": "cmfast.metrics.compute(M)",
    "metrics.margins": "cmfast.metrics.margins(M)",
    "metrics.kappa, weights": 'cmfast.metrics.kappa(M, weights="linear")',
    "cell_counts and gcm": (
        "cmfast.gcm(cmfast.cell_counts(X[:, :2], y, p, grid=cmfast.Grid.scott(X[:, :2]), n_classes=3), 'row')"
    ),
    "geometric_confusion_matrix, 2 axes": "cmfast.geometric_confusion_matrix(X[:, :2], y, p)",
    "geometric_confusion_matrix, 30 axes": "cmfast.geometric_confusion_matrix(X, y, p)",
    "sparse_histogram, 200,000 points": (
        "cmfast.sparse_histogram(np.tile(X[:, :10], (400, 1)), grid=cmfast.Grid(np.zeros(10), np.ones(10)))"
    ),
    "confusion_matrix, many labels": "cmfast.confusion_matrix(*rng.integers(0, 5000, (2, 20_000)))",
    "support": "cmfast.support(np.triu(M))",
    "uncertainty.resample": "cmfast.uncertainty.resample(M, n_resamples=10, rng=0)",
    "overlap": "cmfast.overlap(M, M.T)",
    "ipf_nd 4x4x4": "cmfast.ipf_nd(rng.random((4, 4, 4)), [((0, 1), np.ones((4, 4))), ((1, 2), np.ones((4, 4)))])",
    "ipf_nd 4x4x4, a zero": (
        "cmfast.ipf_nd(np.arange(64.0).reshape(4, 4, 4), [((0, 1), np.ones((4, 4))), ((1, 2), np.ones((4, 4)))])"
    ),
    "rake, two attributes": "cmfast.rake(rng.integers(0, 3, (2, 500)), [(0, np.full(3, 9.0)), (1, np.full(3, 9.0))])",
    "balance": "cmfast.balance((*np.triu_indices(30), np.ones(465), 30), symmetric='upper')",
}
NOTHING = "--compile-nothing"
PROGRAM = """
import time, warnings
import numpy as np
import cmfast
warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
rng = np.random.default_rng(0)
M = np.array([[8, 1, 1], [1, 8, 1], [1, 1, 8]])
X, y = rng.normal(size=(500, 30)), rng.integers(0, 3, 500)
p = np.where(rng.random(500) < 0.8, y, rng.integers(0, 3, 500))
begun = time.process_time()
{call}
print(time.process_time() - begun)
"""


def measure(name: str) -> tuple[float, int]:
    """Return the CPU seconds of a first call and the number of functions compiled meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        # Linear algebra in threads would burn seconds that nobody waits for.
        settings = {"NUMBA_CACHE_DIR": folder, "CMFAST_QUIET": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", PROGRAM.format(call=CALLS[name])]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True)
        return float(done.stdout), sum(1 for _ in Path(folder).rglob("*.nbc"))


def main(args: list[str]) -> None:
    """Print a line for each call, or for those that are named."""
    names = [arg for arg in args if arg != NOTHING] or list(CALLS)
    if unknown := set(names) - set(CALLS):
        sys.exit(f"no call named {min(unknown)!r}; there are: {', '.join(CALLS)}")
    width = max(map(len, CALLS))
    compiled = 0
    for name in names:
        seconds, functions = measure(name)
        print(f"{name:<{width}}{seconds:>8.2f} s {functions:>5}", flush=True)
        compiled += functions
    if compiled and NOTHING in args:
        sys.exit(f"{compiled} functions were compiled")


if __name__ == "__main__":
    main(sys.argv[1:])
