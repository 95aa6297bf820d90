"""What a report says of one model of thousands of classes: from the cells that hold samples, without a dense matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast import metrics
from cmfast._core import dispatch
from cmfast._report import _classes, _confusions
from cmfast._report._asked import Asked, Scaled
from cmfast._report._balance_cells import balance_cells
from cmfast._report._cells import Cells
from cmfast._report._facts import WHOLE, Model, Notes
from cmfast.kernels.status import Status
from cmfast.metrics import _plan
from cmfast.scaling import ras
from cmfast.uncertainty import Interval, _caveats

Facts = dict[str, Any]
MOST_DRAWN_CLASSES = 500  # classes of the picture


def choose_classes(cells: Cells) -> np.ndarray:
    """Return the classes that the picture shows, in order: those of which most samples are confused."""
    off = cells.rows != cells.cols
    confused = np.zeros(cells.n_classes, np.int64)
    for line in (cells.rows, cells.cols):
        np.add.at(confused, line[off], cells.counts[off])
    return np.sort(np.argsort(-confused, kind="stable")[:MOST_DRAWN_CLASSES])


def model(name: str, cells: Cells, labels: Sequence[str], shown: np.ndarray, asked: Asked) -> Model:
    """Return everything that is said of the cells of one model."""
    scaled, notes = scale(cells, asked), Notes()
    with notes.taken():
        whole = of_whole(cells, asked)
    classes = _classes.describe_classes(cells.to_scipy(), cells, scaled, asked)
    found: Facts = {"name": name, "right": int(cells.sums()[0].sum()), "metrics": whole, "classes": classes}
    found |= {"smoothing": scaled.smoothing, "asked": asked.smoothing is not None, "status": scaled.why}
    found["settled"] = scaled.settled
    found |= _confusions.of_cells(cells, scaled, labels, asked)
    found["notes"] = notes.found
    return Model(name, cells.among(shown), scaled, found)


def scale(cells: Cells, asked: Asked) -> Scaled:
    """Return the factors of bi-normalisation; where zeros allow none, one sample per class is spread over its row."""
    smoothing, why = asked.smoothing or 0.0, "CONVERGED"
    if not smoothing:
        found = ras(cells.to_scipy(), on_failure="ignore", num_threads=asked.num_threads)
        why = Status(int(found.status)).name
        factors = np.concatenate([found.row_scale, found.col_scale])
        if found.status == Status.CONVERGED and np.isfinite(factors).all():
            return Scaled(found.row_scale, found.col_scale, 0.0, why)
        smoothing = 1.0 / cells.n_classes
    balanced = balance_cells(cells, smoothing)
    return Scaled(balanced.rows, balanced.cols, smoothing, why, settled=balanced.settled)


def of_whole(cells: Cells, asked: Asked) -> dict[str, Facts]:
    """Return metrics with their intervals by the delta method."""
    M = cells.to_scipy()
    wanted: Any = list(WHOLE)
    values = metrics.compute(M, wanted, num_threads=asked.num_threads)
    errors = _standard_errors(cells, asked)
    found = {}
    for name in WHOLE:
        estimate = float(values[name])
        error = errors[name]
        least = -1.0 if name in ("mcc", "kappa") else 0.0
        low, high = max(estimate - asked.z * error, least), min(estimate + asked.z * error, 1.0)
        found[name] = Interval(np.float64(estimate), np.float64(low), np.float64(high), np.float64(error), np.int64(0))
    number = _caveats.count_caveats(M, found, "normal", 0, n=None, positive=1, num_threads=asked.num_threads)
    _caveats.warn_of_counted_caveats(number, "normal", None)
    return {name: {"estimate": one.estimate, "low": one.low, "high": one.high} for name, one in found.items()}


def _standard_errors(cells: Cells, asked: Asked) -> dict[str, float]:
    """Return standard errors of the metrics by the delta method: of their differences to a model that is always right.

    Of such a model every metric is 1, and no sample moves it.
    """
    layout = _plan.make_plan(WHOLE, cells.n_classes, "present", 1, argument="y_true")
    n = len(cells.counts)
    arrays = (cells.counts, np.array([0, n]), np.arange(n + 1), np.stack([cells.rows, cells.cols, cells.rows]))
    options: dict[str, Any] = {"n_classes": cells.n_classes, "clustered": False, "num_threads": asked.num_threads}
    found = dispatch.call("paired_errors", *arrays, np.ones(n, np.int64), plan=layout.plan, **options)
    return {name: float(found[place][0]) for name, place in zip(WHOLE, layout.positions, strict=True)}
