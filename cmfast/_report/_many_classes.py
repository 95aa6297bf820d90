"""Facts about one model with thousands of classes, from sparse counts without a dense matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast import metrics
from cmfast._core import dispatch
from cmfast._report import _class_facts, _confusions
from cmfast._report._balance_cells import balance_cells
from cmfast._report._model_facts import WHOLE, Model, Notes
from cmfast._report._options import ReportOptions, ScalingFactors
from cmfast._report._sparse_counts import SparseCounts
from cmfast.kernels.status import Status
from cmfast.metrics import _plan
from cmfast.results import Interval
from cmfast.scaling import ras
from cmfast.uncertainty import _caveats

Facts = dict[str, Any]
MOST_DRAWN_CLASSES = 500  # most classes of the matrix on the page


def choose_classes(cells: SparseCounts) -> np.ndarray:
    """Return the classes that the matrix on the page shows, in order: those with most confused samples."""
    off = cells.rows != cells.cols
    confused = np.zeros(cells.n_classes, np.int64)
    for line in (cells.rows, cells.cols):
        np.add.at(confused, line[off], cells.counts[off])
    return np.sort(np.argsort(-confused, kind="stable")[:MOST_DRAWN_CLASSES])


def describe_sparse_model(
    name: str, cells: SparseCounts, labels: Sequence[str], shown: np.ndarray, request: ReportOptions
) -> Model:
    """Return all facts of the sparse counts of one model."""
    scaled, notes = scale_cells(cells, request), Notes()
    with notes.collect():
        whole = compute_sparse_metrics(cells, request)
    classes = _class_facts.describe_classes(cells.make_csr(), cells, scaled, request)
    found: Facts = {"name": name, "right": int(cells.sums()[0].sum()), "metrics": whole, "classes": classes}
    found |= {"smoothing": scaled.smoothing, "asked": request.smoothing is not None, "status": scaled.why}
    found["settled"] = scaled.settled
    found |= _confusions.describe_sparse_confusions(cells, scaled, labels, request)
    found["notes"] = notes.found
    return Model(name, cells.select_dense(shown), scaled, found)


def scale_cells(cells: SparseCounts, request: ReportOptions) -> ScalingFactors:
    """Return bi-normalisation factors; if zeros allow none, 1 / C is added to every cell."""
    smoothing, why = request.smoothing or 0.0, "CONVERGED"
    if not smoothing:
        found = ras(cells.make_csr(), on_failure="ignore", num_threads=request.num_threads)
        why = Status(int(found.status)).name
        factors = np.concatenate([found.row_scale, found.col_scale])
        if found.status == Status.CONVERGED and np.isfinite(factors).all():
            return ScalingFactors(found.row_scale, found.col_scale, 0.0, why)
        smoothing = 1.0 / cells.n_classes
    balanced = balance_cells(cells, smoothing)
    return ScalingFactors(balanced.rows, balanced.cols, smoothing, why, settled=balanced.settled)


def compute_sparse_metrics(cells: SparseCounts, request: ReportOptions) -> dict[str, Facts]:
    """Return metrics with intervals by the delta method."""
    M = cells.make_csr()
    wanted: Any = list(WHOLE)
    values = metrics.compute(M, wanted, num_threads=request.num_threads)
    errors = _compute_standard_errors(cells, request)
    found = {}
    for name in WHOLE:
        estimate = float(values[name])
        error = errors[name]
        least = -1.0 if name in ("mcc", "kappa") else 0.0
        low, high = max(estimate - request.z * error, least), min(estimate + request.z * error, 1.0)
        found[name] = Interval(np.float64(estimate), np.float64(low), np.float64(high), np.float64(error), np.int64(0))
    number = _caveats.count_caveats(M, found, "normal", 0, n=None, positive=1, num_threads=request.num_threads)
    _caveats.warn_of_counted_caveats(number, "normal", None)
    return {name: {"estimate": one.estimate, "low": one.low, "high": one.high} for name, one in found.items()}


def _compute_standard_errors(cells: SparseCounts, request: ReportOptions) -> dict[str, float]:
    """Return standard errors of the metrics by the delta method, as those of differences to a perfect model.

    Every metric of a perfect model is 1, with derivative 0.
    """
    layout = _plan.make_plan(WHOLE, cells.n_classes, "present", 1, argument="y_true")
    n = len(cells.counts)
    arrays = (cells.counts, np.array([0, n]), np.arange(n + 1), np.stack([cells.rows, cells.cols, cells.rows]))
    options: dict[str, Any] = {"n_classes": cells.n_classes, "clustered": False, "num_threads": request.num_threads}
    found = dispatch.call("paired_errors", *arrays, np.ones(n, np.int64), plan=layout.plan, **options)
    return {name: float(found[place][0]) for name, place in zip(WHOLE, layout.positions, strict=True)}
