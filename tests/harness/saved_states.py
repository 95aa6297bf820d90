"""Saved states of every kind: ``python tests/harness/saved_states.py NAME`` writes one more file of them.

The files of earlier versions stay in ``tests/data/saved`` for good: what somebody saved has to load. They were written
by this program, run with the package of that time; a kind that a version did not have yet is named and left out.
"""

import base64
import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cmfast

FOLDER = Path(__file__).parents[1] / "data" / "saved"
POINTS = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
TRUTH, FIRST, SECOND = [0, 1, 2, 2], [0, 2, 2, 1], [1, 1, 2, 0]
TEXT = ["ant", "bee", "ant"], ["bee", "bee", "ant"]
DATES = [np.datetime64("2025-03-01"), np.datetime64("2024-12-31")]
SHARES = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])


def _sets() -> Any:
    return cmfast.conformal.prediction_sets(SHARES, np.array([0.75, 0.9]), randomised=False)


def _far_cells() -> Any:
    """Cells so far apart along so many axes that their keys are numbers of a table."""
    X = np.arange(1.0, 5.0)[:, None] * 2.0 ** np.arange(24)
    return cmfast.cell_counts(X, TRUTH, FIRST, grid=cmfast.Grid(np.zeros(24), np.ones(24)))


MAKERS: dict[str, Callable[[], Any]] = {
    "CellCounts": lambda: cmfast.cell_counts(POINTS, TRUTH, FIRST, grid=cmfast.Grid([0.0, 0.0], [1.0, 0.5])),
    "CellCounts, far apart": _far_cells,
    "ConfusionCounts": lambda: cmfast.ConfusionCounts.from_labels(TRUTH, FIRST),
    "ConfusionCounts, empty": lambda: cmfast.ConfusionCounts(n_classes=3),
    "ConfusionCounts, of dates": lambda: cmfast.ConfusionCounts.from_labels(DATES, DATES[::-1]),
    "ConfusionCounts, of text in groups": lambda: cmfast.ConfusionCounts.from_labels(
        *TEXT, groups={"site": ["x", "y", "x"], "year": [1, 1, 2]}
    ),
    "ConfusionCounts, weighted": lambda: cmfast.ConfusionCounts.from_labels(
        *TEXT, labels=["cat", "bee", "ant"], sample_weight=[0.5, 0.25, 2.0]
    ),
    "Grid": lambda: cmfast.Grid([0.0, -1.5], [1.0, 0.25]),
    "Projection": lambda: cmfast.pca(POINTS, 2),
    "conformal.CcmCounts": lambda: cmfast.conformal.ccm(_sets()),
    "conformal.CoverageCounts": lambda: cmfast.conformal.coverage_confusion(_sets(), TRUTH),
    "conformal.ScoreHistogram": lambda: cmfast.conformal.score_histogram([0.1, 0.5, 0.9, 0.95], bins=4),
    "uncertainty.PairedCounts": lambda: cmfast.uncertainty.paired_counts(TRUTH, FIRST, SECOND),
    "uncertainty.PairedCounts, of text in groups and clusters": lambda: cmfast.uncertainty.paired_counts(
        *TEXT, TEXT[0], groups=["x", "y", "x"], clusters=[7, 7, 8]
    ),
}


def main(argv: list[str] | None = None) -> int:
    """Write a file."""
    (name,) = sys.argv[1:] if argv is None else argv
    found = {}
    for kind, make in MAKERS.items():
        try:
            state = make()
        except (AttributeError, TypeError, ValueError) as error:  # of a version before there was one
            sys.stderr.write(f"{kind}: {error}\n")
            continue
        npz = base64.b64encode(zlib.compress(state.to_bytes(), 9)).decode()
        found[kind] = {"npz": npz, "json": json.loads(state.to_json())}
    (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
