"""One-vs-rest metrics as fractions of four sums per class: of NumPy arrays or ints on the CPU, else of tensors.

Metrics of a compute group keep the same counts. Within :func:`share_results` the sums of a tensor of counts are
computed once for all of them.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251


class OneVsRestSums(NamedTuple):
    """Correct samples, true samples and predicted samples of each class, and the number of all samples."""

    hits: Any
    truths: Any
    guesses: Any
    total: Any


# Numerator and denominator of each metric, by cmfast's name.
FRACTIONS: dict[str, Callable[[Any, Any, Any, Any], tuple[Any, Any]]] = {
    "precision": lambda hits, truths, guesses, total: (hits, guesses),
    "recall": lambda hits, truths, guesses, total: (hits, truths),
    "f1": lambda hits, truths, guesses, total: (2 * hits, truths + guesses),
    "specificity": lambda hits, truths, guesses, total: (total - truths - guesses + hits, total - truths),
    "accuracy": lambda hits, truths, guesses, total: (total - truths - guesses + 2 * hits, total),
    "jaccard": lambda hits, truths, guesses, total: (hits, truths + guesses - hits),
}


class _Shared(threading.local):
    """Results by function and tensor of counts while a collection computes; None otherwise."""

    results: dict[tuple[Callable[..., Any], int], tuple[Tensor, Any]] | None = None


_shared = _Shared()


@contextmanager
def share_results() -> Iterator[None]:
    """Let :func:`apply_once` keep its results in this thread until the context ends."""
    before, _shared.results = _shared.results, {}
    try:
        yield
    finally:
        _shared.results = before


def apply_once(function: Callable[[Any], Any], counts: Tensor) -> Any:
    """Apply `function` to the counts, or return its earlier result for this tensor within :func:`share_results`."""
    known = _shared.results
    if known is None:
        return function(view_counts(counts))
    key = function, id(counts)
    entry = known.get(key)
    if entry is None:
        entry = known[key] = counts, function(view_counts(counts))  # with the tensor, so that its id is not reused
    return entry[1]


def view_counts(counts: Tensor) -> Any:
    """Return an array that shares the memory of int64 counts on the CPU; other tensors are returned unchanged."""
    return counts.numpy() if counts.is_cpu and counts.dtype is torch.int64 else counts


def join_sums(tp: Any, fp: Any, tn: Any, fn: Any) -> OneVsRestSums:
    """Return the sums of true positives, false positives, true negatives and false negatives."""
    truths = tp + fn
    return OneVsRestSums(tp, truths, tp + fp, truths + fp + tn)


def split_sums(sums: OneVsRestSums) -> tuple[Any, Any, Any, Any]:
    """Return true positives, false positives, true negatives and false negatives."""
    hits, truths, guesses, total = sums
    return hits, guesses - hits, total - truths - guesses + hits, truths - hits


def sum_tables(counts: Any) -> OneVsRestSums:
    """Return the sums of 2x2 tables ``(..., 2, 2)``; of one table on the CPU, as ints."""
    if isinstance(counts, np.ndarray) and counts.ndim == 2:
        tn, fp, fn, tp = counts.ravel().tolist()
    else:
        tn, fp, fn, tp = (counts[..., i, j] for i in (0, 1) for j in (0, 1))
    return join_sums(tp, fp, tn, fn)


def sum_all_tables(counts: Any) -> OneVsRestSums:
    """Return the sums over all labels of 2x2 tables ``(labels, 2, 2)``, for averages over samples ("micro")."""
    return sum_tables(counts.sum(0))


def sum_matrices(counts: Any) -> OneVsRestSums:
    """Return the sums of each class of matrices ``(..., C, C)``; the total has an axis of length 1."""
    truths = counts.sum(-1)
    return OneVsRestSums(counts.diagonal(0, -2, -1), truths, counts.sum(-2), truths.sum(-1, keepdims=True))


def sum_all_classes(counts: Any) -> OneVsRestSums:
    """Return the sums over all classes of one matrix, for averages over samples ("micro")."""
    hits, total = counts.trace(), counts.sum()
    if isinstance(counts, np.ndarray):
        hits, total = int(hits), int(total)  # NumPy's own scalars are slower
    return OneVsRestSums(hits, total, total, len(counts) * total)


def build_tables(tp: Tensor, fp: Tensor, tn: Tensor, fn: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the 2x2 tables of given counts; the inverse of :func:`sum_tables`."""
    return torch.stack([tn, fp, fn, tp], -1).reshape(shape)


def build_matrix(tp: Tensor, fp: Tensor, tn: Tensor, fn: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a matrix whose classes have the given counts; whose sums over all classes, if there is one of each count.

    Many matrices have the same counts, and so the same one-vs-rest metrics. In this one, samples in the wrong class are
    in the first row and the first column, and one more entry balances them, so that an entry may be negative.
    """
    del tn  # the rest
    if len(tp) == 1:
        counts = tp.new_zeros(shape)
        counts[0, :2] = torch.cat([tp, fp])
        return counts
    counts = tp.diag()
    counts[0, 1:] = fp[1:]
    counts[1:, 0] = fn[1:]
    if len(counts) > 2:
        excess = fp[0] + fn[0] - fn.sum()
        counts[0, 1] += excess
        counts[2, 0] += excess
        counts[2, 1] -= excess
    return counts


def divide(numerator: Any, denominator: Any, undefined: float) -> Any:
    """Return the float64 quotients of counts; `undefined` where the denominator is 0."""
    if isinstance(denominator, Tensor):
        return torch.where(denominator == 0, undefined, numerator.double() / denominator)
    if isinstance(denominator, int):
        return numerator / denominator if denominator else undefined
    if denominator.all():
        return numerator / denominator
    return np.divide(numerator, denominator, out=np.full(numerator.shape, undefined), where=denominator != 0)


def compute_mean(values: Any, weights: Any) -> Any:
    """Return the mean over the last axis, weighted by counts or flags; 0 if all weights are 0."""
    total = weights.sum(-1)
    return (values * weights).sum(-1) / (total + (total == 0))


def convert_to_float32(values: Any) -> Tensor:
    """Return values as a float32 tensor."""
    return values.float() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, np.float32))
