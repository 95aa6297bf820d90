"""Counting mixins for torchmetrics' metrics: a matrix of counts, or a table per label."""

from typing import Any

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251
from torchmetrics.__about__ import __version__
from torchmetrics.functional.classification.confusion_matrix import (
    _binary_confusion_matrix_format,
    _binary_confusion_matrix_tensor_validation,
    _multiclass_confusion_matrix_format,
    _multiclass_confusion_matrix_tensor_validation,
    _multilabel_confusion_matrix_tensor_validation,
)
from torchmetrics.functional.classification.stat_scores import (
    _binary_stat_scores_format,
    _binary_stat_scores_tensor_validation,
    _multiclass_stat_scores_format,
    _multiclass_stat_scores_tensor_validation,
    _multilabel_stat_scores_format,
    _multilabel_stat_scores_tensor_validation,
)

from cmfast import counting, metrics
from cmfast._core.locking import ObjectLock

if tuple(int(part) for part in __version__.split(".")[:3] if part.isdecimal()) < (1, 7, 3):
    msg = f"cmfast.compat.torchmetrics needs torchmetrics 1.7.3 or later, got {__version__}"
    raise ImportError(msg)


def count(target: Tensor, preds: Tensor, n_classes: int, keep: Tensor | None, groups: Tensor | None = None) -> Tensor:
    """Return the confusion matrix of two tensors of classes, of the samples in `keep`; with groups, one per group."""
    n_groups = None if groups is None else int(groups.max()) + 1 if groups.numel() else 0
    arrays = [target, preds] if groups is None else [target, preds, groups.expand(target.shape)]
    arrays = [array.reshape(-1) if keep is None else array[keep] for array in arrays]
    labels = [array.to(torch.int64) for array in arrays]
    found: Tensor = counting.confusion_matrix(
        labels[0], labels[1], n_classes=n_classes, groups=None if groups is None else labels[2], n_groups=n_groups
    )
    return found


def number_samples(target: Tensor) -> Tensor:
    """Return the sample number of every element, shaped to broadcast."""
    return torch.arange(len(target), device=target.device).reshape(-1, *[1] * (target.ndim - 1))


class LockedMetric:
    """Mixin that locks updates, so that none is lost when several threads make them.

    torchmetrics' own ``forward`` swaps the state, so all of it runs under the lock.
    """

    @property
    def _lock(self: Any) -> Any:
        """The lock of the metric, made on first use."""
        return self.__dict__.setdefault("_guard", ObjectLock()).lock

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Add predictions and targets, and return the metric of these alone."""
        with self._lock:
            return super().forward(*args, **kwargs)  # type: ignore[misc]

    def reset(self: Any) -> None:
        """Reset the counts."""
        with self._lock:
            super().reset()  # type: ignore[misc]


class BinaryCounts:
    """Mixin that counts two classes."""

    def _shape(self: Any) -> tuple[int, ...]:
        """Return the shape of the counts."""
        return (2, 2)

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for scores."""
        _binary_stat_scores_tensor_validation(preds, target, self.multidim_average, self.ignore_index)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the matrix of all samples, or of each sample."""
        ignored = self.ignore_index
        preds, target = _binary_stat_scores_format(preds, target, self.threshold, ignored)
        return count(
            target, preds, 2, None if ignored is None else target >= 0, number_samples(target) if each else None
        )

    def _tables(self: Any, counts: Tensor) -> Tensor:
        """Return the counts as 2x2 tables."""
        return counts


class Multiclass:
    """Mixin that counts several classes."""

    def _shape(self: Any) -> tuple[int, ...]:
        """Return the shape of the counts."""
        return (self.num_classes, self.num_classes)

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for scores."""
        options = (self.num_classes, self.multidim_average, self.ignore_index)
        _multiclass_stat_scores_tensor_validation(preds, target, *options)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the matrix of all samples, or of each sample."""
        ignored = self.ignore_index
        preds, target = _multiclass_stat_scores_format(preds, target, self.top_k)
        if self.top_k != 1:  # top-k: the truth if it is among the k best, else the best
            first = preds.topk(self.top_k, dim=1).indices
            preds = torch.where((first == target.unsqueeze(1)).any(1), target, first[:, 0])
        keep = None if ignored is None else target != ignored
        return count(target, preds, self.num_classes, keep, number_samples(target) if each else None)

    def _tables(self: Any, counts: Tensor) -> Tensor:
        """Return the one-vs-rest 2x2 tables of the counts."""
        found: Tensor = metrics.one_vs_rest(counts)
        return found


class Multilabel:
    """Mixin that counts a table per label."""

    def _shape(self: Any) -> tuple[int, ...]:
        """Return the shape of the counts."""
        return (self.num_labels, 2, 2)

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for scores."""
        options = (self.num_labels, self.multidim_average, self.ignore_index)
        _multilabel_stat_scores_tensor_validation(preds, target, *options)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the tables of all samples, or of each sample."""
        ignored, labels = self.ignore_index, self.num_labels
        preds, target = _multilabel_stat_scores_format(preds, target, labels, self.threshold, ignored)
        groups = torch.arange(labels, device=target.device).reshape(1, -1, 1)
        if each:
            groups = groups + labels * number_samples(target)
        found = count(target, preds, 2, None if ignored is None else target >= 0, groups)
        return found.reshape(-1, labels, 2, 2) if each else found

    def _tables(self: Any, counts: Tensor) -> Tensor:
        """Return the counts as 2x2 tables, one per label."""
        return counts


class BinaryMatrix(BinaryCounts):
    """Mixin that counts two classes, validated as for a confusion matrix."""

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for matrices."""
        _binary_confusion_matrix_tensor_validation(preds, target, self.ignore_index)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the matrix of all samples."""
        preds, target = _binary_confusion_matrix_format(preds, target, self.threshold, self.ignore_index)
        return count(target, preds, 2, None)


class MulticlassMatrix(Multiclass):
    """Mixin that counts several classes, validated as for a confusion matrix."""

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for matrices."""
        _multiclass_confusion_matrix_tensor_validation(preds, target, self.num_classes, self.ignore_index)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the matrix of all samples."""
        preds, target = _multiclass_confusion_matrix_format(preds, target, self.ignore_index)
        return count(target, preds, self.num_classes, None)


class MultilabelMatrix(Multilabel):
    """Mixin that counts a table per label, validated as for a confusion matrix."""

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for matrices."""
        _multilabel_confusion_matrix_tensor_validation(preds, target, self.num_labels, self.ignore_index)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the tables of all samples; zeros without samples."""
        if not target.numel():  # torchmetrics' format for scores raises without samples, its matrices do not
            return torch.zeros(self._shape(), dtype=torch.long, device=target.device)
        return super()._counts(preds, target, each=each)
