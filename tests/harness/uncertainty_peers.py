"""Write what other libraries say of fixed samples to ``tests/data/uncertainty_peers.json``.

``python tests/harness/uncertainty_peers.py``, with prob_conf_mat, confidenceinterval and statsmodels installed; tests
do without.
"""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[1] / "data" / "uncertainty_peers.json"
M = [[42, 5, 3], [2, 26, 2], [3, 1, 16]]
N_DRAWS = 200_000


def posterior_moments() -> dict[str, Any]:
    """Return mean and standard deviation of metrics over the posterior of prob_conf_mat, with half a sample a cell.

    It draws prevalence and rows apart; that is one Dirichlet where the prior of a class is that of its cells together.
    """
    from prob_conf_mat.stats import dirichlet_sample

    rng, found = np.random.default_rng(17), np.asarray(M, float)
    prevalence = dirichlet_sample(rng, found.sum(1) + 1.5, N_DRAWS)
    cells = dirichlet_sample(rng, found + 0.5, N_DRAWS) * prevalence[:, :, np.newaxis]
    d, t, p = np.diagonal(cells, axis1=1, axis2=2), cells.sum(2), cells.sum(1)
    a, e = d.sum(1), (t * p).sum(1)
    values = {
        "accuracy": a,
        "balanced_accuracy": (d / t).mean(1),
        "f1_macro": (2 * d / (t + p)).mean(1),
        "mcc": (a - e) / np.sqrt((1 - (t * t).sum(1)) * (1 - (p * p).sum(1))),
    }
    return {name: [float(x.mean()), float(x.std())] for name, x in values.items()}


def samples() -> tuple[np.ndarray, np.ndarray]:
    """Return truth and prediction of every sample."""
    i, j = np.indices((3, 3)).reshape(2, 9)
    counts = np.ravel(M)
    return np.repeat(i, counts), np.repeat(j, counts)


def analytic() -> dict[str, Any]:
    """Return value and standard error, by its ends, of confidenceinterval."""
    import confidenceinterval as ci

    found = {}
    for name, function in (("precision_macro", ci.precision_score), ("recall_macro", ci.recall_score)):
        value, (low, high) = function(*map(list, samples()), average="macro")
        found[name] = [float(value), float(high - low) / (2 * 1.959963984540054)]
    return found


def clustered() -> list[float]:
    """Return accuracy and cluster-robust standard error of statsmodels, of twenty patients."""
    import statsmodels.api as sm

    y, said = samples()
    patient = np.arange(len(y)) % 20
    fit = sm.OLS((y == said).astype(float), np.ones(len(y))).fit(cov_type="cluster", cov_kwds={"groups": patient})
    return [float(fit.params[0]), float(fit.bse[0])]


def main() -> int:
    """Write the file."""
    names = ("prob_conf_mat", "confidenceinterval", "statsmodels")
    versions = {name: importlib.metadata.version(name) for name in names}
    found = {"versions": versions, "posterior": posterior_moments(), "analytic": analytic(), "clustered": clustered()}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
