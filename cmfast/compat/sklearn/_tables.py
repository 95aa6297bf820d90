"""Count one 2x2 table ``[[tn, fp], [fn, tp]]`` per label, or per sample, from which averages are computed."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from cmfast import counting, metrics
from cmfast.compat.sklearn._targets import MATRIX, Targets, convert_weights


def make_tables(found: Targets, labels: Any = None, *, samplewise: bool = False) -> Any:
    """Return the tables of `labels` in order, or of all labels that occur; None for labels that cannot occur."""
    if found.is_multilabel:
        return _count_multilabel(found, labels, samplewise=samplewise)
    every = _count_one_vs_rest(found)
    if labels is None:
        return every
    position = {label: k for k, label in enumerate(found.labels.tolist())}
    places = [position.get(label, -1) for label in np.asarray(labels).tolist()]
    nowhere = np.array([[[found.total, 0], [0, 0]]], every.dtype)  # the table of absent labels, at position -1
    return np.concatenate([every, nowhere])[places]


def _count_one_vs_rest(found: Targets) -> Any:
    """Return the one-vs-rest tables of the labels that occur."""
    if found.weight is None:
        d, t, p = (sums[found.occurring] for sums in found.sums[:3])
        return _stack_table(d, t - d, p - d, found.n)
    if len(found.classes) <= MATRIX:
        return np.maximum(metrics.one_vs_rest(found.matrix()), 0.0)  # rounding may make differences of sums negative
    right, weight = (found.y_true == found.y_pred).view(np.int8), convert_weights(found.weight)
    ones = np.ones_like(right)
    of_true, of_pred = (
        counting.confusion_matrix(
            ones, right, n_classes=2, groups=groups, n_groups=len(found.classes), sample_weight=weight
        )[found.occurring, 1]
        for groups in (found.y_true, found.y_pred)
    )
    return _stack_table(of_true[:, 1], of_true[:, 0], of_pred[:, 0], found.total)


def _stack_table(tp: np.ndarray, fn: np.ndarray, fp: np.ndarray, total: Any) -> np.ndarray:
    """Stack tp, fn, fp and the rest of `total` into tables ``[[tn, fp], [fn, tp]]``."""
    tn = np.maximum(total - tp - fn - fp, 0)
    return np.stack([tn, fp, fn, tp], -1).reshape(-1, 2, 2)


def _count_multilabel(found: Targets, labels: Any, *, samplewise: bool) -> np.ndarray | None:
    """Return the tables of indicators, per label or per sample; None for invalid labels."""
    y_true, y_pred = found.y_true, found.y_pred
    if labels is not None:
        labels = np.asarray(labels)
        if labels.dtype.kind not in "iu" or not labels.size or labels.min() < 0 or labels.max() >= y_true.shape[1]:
            return None
        y_true, y_pred = y_true[:, labels], y_pred[:, labels]
    count = _count_sparse if issparse(y_true) else _count_dense
    (_, fp), (fn, tp) = np.moveaxis(count(y_true, y_pred, found.weight, samplewise=samplewise), 0, -1)
    if not samplewise:
        return _stack_table(tp, fn, fp, found.total)
    table = _stack_table(tp, fn, fp, y_true.shape[1])
    return table if found.weight is None else table * found.weight[:, None, None]


def _count_dense(y_true: np.ndarray, y_pred: np.ndarray, weight: np.ndarray | None, *, samplewise: bool) -> Any:
    """Return the tables of dense indicators, per label or (without weights) per sample."""
    if samplewise:
        return counting.confusion_matrix(y_true[None], y_pred[None], n_classes=2)[
            0
        ]  # as a batch, because there may be a single column
    return counting.confusion_matrix(
        y_true.T[None], y_pred.T[None], n_classes=2, sample_weight=convert_weights(weight)
    )[0]


def _count_sparse(y_true: Any, y_pred: Any, weight: np.ndarray | None, *, samplewise: bool) -> Any:
    """Return the tables of sparse indicators, per label or per sample, without true negatives."""
    either = (2 * (y_true != 0).astype(np.int8) + (y_pred != 0).astype(np.int8)).tocsr()
    samples = np.repeat(np.arange(either.shape[0]), np.diff(either.indptr))
    return counting.confusion_matrix(
        either.data >> 1,
        either.data & 1,
        n_classes=2,
        groups=samples if samplewise else either.indices,
        n_groups=either.shape[not samplewise],
        sample_weight=None if samplewise or weight is None else weight[samples].astype(np.float64, copy=False),
    )
