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


def is_plain(counts: Tensor) -> bool:
    """Return whether counts are int64 on the CPU, which NumPy reads in place."""
    return counts.is_cpu and counts.dtype is torch.int64


def view_counts(counts: Tensor) -> Any:
    """Return an array that shares the memory of int64 counts on the CPU; other tensors are returned unchanged."""
    return counts.numpy() if is_plain(counts) else counts


def sum_table(counts: Any) -> OneVsRestSums:
    """Return the sums of one 2x2 table, as ints on the CPU."""
    if isinstance(counts, Tensor):
        return sum_tables(counts)
    true_negatives, false_positives, false_negatives, hits = counts.ravel().tolist()
    truths = hits + false_negatives
    return OneVsRestSums(hits, truths, hits + false_positives, truths + true_negatives + false_positives)


def sum_tables(counts: Any) -> OneVsRestSums:
    """Return the sums of 2x2 tables ``(..., 2, 2)``."""
    hits, false_positives = counts[..., 1, 1], counts[..., 0, 1]
    truths = hits + counts[..., 1, 0]
    return OneVsRestSums(hits, truths, hits + false_positives, truths + false_positives + counts[..., 0, 0])


def sum_matrices(counts: Any) -> OneVsRestSums:
    """Return the sums of each class of matrices ``(..., C, C)``; the total of tensors has an axis of length 1."""
    if isinstance(counts, Tensor):
        truths = counts.sum(-1)
        return OneVsRestSums(counts.diagonal(0, -2, -1), truths, counts.sum(-2), truths.sum(-1, keepdim=True))
    truths = np.add.reduce(counts, 1)
    return OneVsRestSums(counts.diagonal(), truths, np.add.reduce(counts, 0), int(np.add.reduce(truths)))


def sum_all_classes(counts: Any) -> OneVsRestSums:
    """Return the sums over all classes of one matrix, for averages over samples ("micro")."""
    hits, total = counts.trace(), counts.sum()
    hits, total = (hits, total) if isinstance(counts, Tensor) else (int(hits), int(total))
    return OneVsRestSums(hits, total, total, len(counts) * total)


def sum_all_tables(counts: Any) -> OneVsRestSums:
    """Return the sums over all labels of 2x2 tables ``(labels, 2, 2)``."""
    return sum_table(counts.sum(0))


def add_classes(sums: OneVsRestSums) -> OneVsRestSums:
    """Return the sums over all classes of tensors, for averages over samples ("micro")."""
    classes = sums.hits.shape[-1] if sums.total.shape[-1] == 1 else 1
    return OneVsRestSums(*(part.sum(-1) for part in (sums.hits, sums.truths, sums.guesses, classes * sums.total)))


def divide(numerator: Any, denominator: Any, undefined: float) -> Any:
    """Return the float64 quotients of counts; `undefined` where the denominator is 0."""
    if isinstance(denominator, Tensor):
        return torch.where(denominator == 0, undefined, numerator.double() / denominator)
    if isinstance(denominator, int):
        return numerator / denominator if denominator else undefined
    if np.logical_and.reduce(denominator):
        return numerator / denominator
    return np.divide(numerator, denominator, out=np.full(numerator.shape, undefined), where=denominator != 0)


def compute_mean(values: Any, weights: Any) -> Any:
    """Return the mean over the last axis, weighted by counts or flags; 0 if all weights are 0."""
    if isinstance(weights, Tensor):
        return (values * weights).sum(-1) / weights.sum(-1).clamp(min=1)
    if weights.dtype == np.bool_ and np.logical_and.reduce(weights):
        return np.add.reduce(values) / len(values)
    return np.add.reduce(values * weights) / (np.add.reduce(weights) or 1)


def convert_to_float32(values: Any) -> Tensor:
    """Return values as a float32 tensor."""
    return values.float() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, np.float32))
