"""Every public function that takes arrays: it is lazy with those of Dask, or is named here and says why it is not."""

import re
import sys
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
    "RakeResult.estimate": "all records at once",
    "balance": "all pixels at once",
    "width_curve": "grids that follow from each other",
    "Grid": TABLE,
    "Grid.freedman_diaconis": WHOLE,
    "Grid.occupancy": WHOLE,
    "CellAccumulator.update": "a stream; of Dask arrays there is cell_counts",
    "PcaAccumulator.update": 'a stream; of Dask arrays there is pca(..., precision="exact")',
    "uncertainty.compare_groups": "a small stack of matrices; labels and DataFrames of Dask are counted lazily",
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
# What merges samples; all others take a batch, block by block.
SAMPLES = {
    "Grid.regular", "Grid.scott", "Projection.transform", "cell_counts", "conformal.score_histogram",
    "conformal.scores", "confusion_matrix", "geometric_confusion_matrix", "metrics.from_labels",
    "metrics.label_margins", "metrics.multilabel_tables", "pca", "sparse_histogram", "uncertainty.paired_counts",
}  # fmt: skip
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


def repeat(x, n, name):
    """Return an array n times, each in its own chunk: as further samples, or as the elements of a batch."""
    x = np.asarray(x)
    if name in SAMPLES:
        return da.from_array(np.tile(x, (n, *(1,) * (x.ndim - 1))), chunks=x.shape)
    return da.from_array(np.broadcast_to(x, (n, *x.shape)), chunks=(1, *x.shape))


def count_operations(name, n):
    """Return the number of calls of functions while the graph for n chunks is built and optimised."""
    entry, found = ENTRIES[name], 0
    arrays = {key: x if key in STAY.get(name, ()) else repeat(x, n, name) for key, x in entry.arrays.items()}

    def note(frame, event, arg):
        nonlocal found
        found += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        dask.optimize(call(entry, **{**arrays, **NEEDED.get(name, {})}))
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.exhaustive
def test_graphs_are_built_by_linearly_many_operations():
    """Twice as many chunks take twice as many operations more: four times as many show a square."""
    wrong = {}
    for name in sorted(set(NAMES) - set(REFUSED)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            count_operations(name, 4)  # imports
            few, more, most = (count_operations(name, n) for n in (32, 64, 128))
        if most - more > 2.2 * (more - few) + 2000 or more <= few:
            wrong[name] = few, more, most
    assert not wrong
