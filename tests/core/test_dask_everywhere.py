"""Every public function that takes arrays: it is lazy with those of Dask, or is named here and says why it is not."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from callables import ENTRIES, call

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

# What a call with Dask arrays has to say that others need not.
NEEDED = {
    "confusion_matrix": {"n_classes": 3, "n_groups": 3},
    "cell_counts": {"n_classes": 3},
    "sparse_histogram": {"n_groups": 3},
    "geometric_confusion_matrix": {"n_classes": 3, "n_components": None},
    "pca": {"precision": "exact"},
    "conformal.threshold": {"n_classes": 3, "groups": None},
    "metrics.from_labels": {"n_classes": 3, "n_groups": 3, "sample_weight": None},
    "metrics.label_margins": {"n_classes": 3, "n_groups": 3, "sample_weight": None},
}
HOST, PICTURE, TABLE = "on the host", "a picture or page", "a small table, given as it is"
WHOLE = "needs the order of all points"
# Why the others refuse them.
REFUSED = {
    "ipf_nd": "tables and targets that belong together by their axes",
    "ipf_cells": "cells that belong together by where they stand",
    "support_nd": "tables and targets that belong together by their axes",
    "round_to_margins": "tables whose margins are rounded together",
    "rake": "all records at once",
    "balance": "all pixels at once",
    "width_curve": "grids that follow from each other",
    "Grid": TABLE,
    "Grid.freedman_diaconis": WHOLE,
    "Grid.occupancy": WHOLE,
    "CellAccumulator.update": "a stream; of Dask arrays there is cell_counts",
    "PcaAccumulator.update": 'a stream; of Dask arrays there is pca(..., precision="exact")',
    "contingency.convex_hull": HOST,
    "contingency.learning_path": HOST,
    "display.PathDisplay.from_matrices": PICTURE,
    "display.CcmDisplay.from_sets": PICTURE,
    "report": PICTURE,
    "metrics.classification_report": PICTURE,
    "display.ConfusionDisplay.from_matrix": PICTURE,
    "display.ConfusionDisplay.from_predictions": PICTURE,
    "display.ConfusionDisplay.compare": PICTURE,
    "display.StripDisplay.from_matrices": PICTURE,
    "display.CellsDisplay.from_matrices": PICTURE,
    "ConfusionCounts.from_labels": "labels as they come; of Dask arrays there is confusion_matrix",
    "ConfusionCounts.update": "labels as they come; of Dask arrays there is confusion_matrix",
    "metrics.multilabel": "averages over samples; of Dask arrays there is multilabel_tables",
}
# Arrays that stay NumPy's: tables beside the arrays.
STAY = {
    "metrics.tau_weighted": {"weights"},
    "metrics.kappa": {"weights"},
    "metrics.heidke": {"weights"},
    "metrics.hss": {"weights"},
}
OF_SETS = {  # arrays of another call are Dask's too; tests/core/test_dask_conformal.py has them
    "conformal.coverage_confusion",
    "PredictionSets.coverage",
    "PredictionSets.coverage_by_size",
}
NAMES = [name for name, entry in ENTRIES.items() if entry.arrays and name not in OF_SETS]


def never(x):
    """Return an array like `x` whose values nobody gets."""

    def fail(block):
        pytest.fail("a block was computed")
        return block

    x = np.asarray(x)
    return da.from_array(x, chunks=x.shape).map_blocks(fail, dtype=x.dtype, meta=np.empty((0,) * x.ndim, x.dtype))


def is_lazy(found):
    """Whether there is something in a result that has yet to be computed."""
    if dask.is_dask_collection(found):
        return True
    if is_dataclass(found):
        found = [getattr(found, each.name) for each in fields(found)]
    if isinstance(found, Mapping):
        found = list(found.values())
    return isinstance(found, tuple | list) and any(map(is_lazy, found))


def called(name):
    entry = ENTRIES[name]
    arrays = {key: x if key in STAY.get(name, ()) else never(x) for key, x in entry.arrays.items()}
    with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
        warnings.simplefilter("ignore")
        return call(entry, **{**arrays, **NEEDED.get(name, {})})


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(REFUSED)))
def test_it_is_lazy(name):
    assert is_lazy(called(name))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_it_refuses_them_by_name(name):
    assert name in NAMES
    with pytest.raises(TypeError, match=rf"^{re.escape(name)}: .*(is a lazy dask|from dask)"):
        called(name)
