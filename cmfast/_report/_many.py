"""What a report says of one model of thousands of classes: from the cells that hold samples, without a dense matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast import metrics
from cmfast._report import _classes, _confusions
from cmfast._report._asked import Asked, Scaled
from cmfast._report._balance_cells import balance_cells
from cmfast._report._cells import Cells
from cmfast._report._facts import WHOLE, Model, Notes
from cmfast.kernels.status import Status
from cmfast.scaling import ras
from cmfast.uncertainty import Interval, _doubts

Facts = dict[str, Any]
SHOWN = 500  # classes of the picture


def choose_classes(cells: Cells) -> np.ndarray:
    """Return the classes that the picture shows, in order: those of which most samples are confused."""
    off = cells.rows != cells.cols
    confused = np.zeros(cells.n_classes, np.int64)
    for line in (cells.rows, cells.cols):
        np.add.at(confused, line[off], cells.counts[off])
    return np.sort(np.argsort(-confused, kind="stable")[:SHOWN])


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
    from scipy.special import ndtri

    M = cells.to_scipy()
    wanted: Any = list(WHOLE)
    values = metrics.compute(M, wanted, num_threads=asked.num_threads)
    reach = float(ndtri((1.0 + asked.level) / 2.0))
    slopes = _slopes(cells)
    found = {}
    for name in WHOLE:
        estimate = float(values[name])
        error = _standard_error(cells, *slopes[name])
        least = -1.0 if name in ("mcc", "kappa") else 0.0
        low, high = max(estimate - reach * error, least), min(estimate + reach * error, 1.0)
        found[name] = Interval(np.float64(estimate), np.float64(low), np.float64(high), np.float64(error), np.int64(0))
    number = _doubts.number_of_doubts(M, found, "normal", 0, n=None, positive=1, num_threads=asked.num_threads)
    _doubts.tell_doubts(number, "normal", None)
    return {name: {"estimate": one.estimate, "low": one.low, "high": one.high} for name, one in found.items()}


def _standard_error(cells: Cells, d: np.ndarray, t: np.ndarray, p: np.ndarray) -> float:
    """Return the standard error of a metric of slopes by diagonal, row sums and column sums (delta method)."""
    g = t[cells.rows] + p[cells.cols] + np.where(cells.rows == cells.cols, d[cells.rows], 0.0)
    mean = (cells.counts * g).sum() / cells.counts.sum()
    return float(np.sqrt((cells.counts * (g - mean) ** 2).sum()))


def _slopes(cells: Cells) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the derivatives of the metrics by the diagonal, by row sums and by column sums."""
    d, t, p = (line.astype(np.float64) for line in cells.sums())
    n, right, chance = t.sum(), d.sum(), (t * p).sum()
    zero, one = np.zeros_like(d), np.ones_like(d)
    present = t + p > 0  # a class that never occurs is in no average

    def mean_of(top: np.ndarray, below: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        safe = np.where(below > 0, below, 1.0)
        return np.where(below > 0, 1.0 / safe, 0.0) / known.sum(), np.where(
            below > 0, -top / safe**2, 0.0
        ) / known.sum()

    of_recall, of_precision = mean_of(d, t, t > 0), mean_of(d, p, present)
    of_f1 = mean_of(2 * d, t + p, present)
    x, y, top = n * n - (p * p).sum(), n * n - (t * t).sum(), right * n - chance
    root = np.sqrt(x * y) or 1.0
    # Of the logarithm of the root below MCC.
    by_t = ((2 * n) / x + (2 * n - 2 * t) / y) / 2 if x * y > 0 else zero
    by_p = -p / x if x * y > 0 else zero
    even = chance / n**2
    weight = (right / n - 1.0) / (1.0 - even) ** 2 if even < 1 else 0.0
    share = 1.0 / (1.0 - even) if even < 1 else 0.0
    return {
        "accuracy": (one / n, -one * right / n**2, zero),
        "balanced_accuracy": (*of_recall, zero),
        "precision_macro": (of_precision[0], zero, of_precision[1]),
        "f1_macro": (2 * of_f1[0], of_f1[1], of_f1[1]),
        "mcc": (one * n / root, (right - p) / root - top / root * by_t, -t / root - top / root * by_p),
        "kappa": (
            one * share / n,
            -one * right / n**2 * share + weight * (p / n**2 - 2.0 * even / n),
            weight * t / n**2,
        ),
    }  # fmt: skip
