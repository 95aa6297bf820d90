"""torchmetrics' confusion matrix, Cohen's kappa, Matthews correlation and Jaccard index."""

from typing import Any

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251
from torchmetrics import classification as theirs

from cmfast import metrics, normalizing
from cmfast.compat.torchmetrics._counting import BinaryMatrix, LockedMetric, MulticlassMatrix, MultilabelMatrix
from cmfast.compat.torchmetrics._scores import compute_mean


class MatrixMetric(LockedMetric):
    """Mixin for metrics of a whole matrix; precedes torchmetrics' class in the MRO."""

    def update(self: Any, preds: Tensor, target: Tensor) -> None:
        """Add predictions and targets, of any shapes that torchmetrics accepts."""
        if self.validate_args:
            self._validate(preds, target)
        counts = self._counts(preds, target, each=False)
        with self._lock:
            self.confmat = self.confmat + counts


class Confusion(MatrixMetric):
    """Mixin for the confusion matrix; with `normalize`, empty rows are delegated to torchmetrics, which warns."""

    def compute(self: Any) -> Tensor:
        """Return the matrix of all added samples."""
        if self.normalize in (None, "none"):
            counts: Tensor = self.confmat
            return counts
        axes = {"true": (-1,), "pred": (-2,), "all": (-2, -1)}[self.normalize]
        if (self.confmat.sum(axes) == 0).any():
            left: Tensor = super().compute()  # type: ignore[misc]
            return left
        shares: Tensor = normalizing.normalize(self.confmat, self.normalize)
        return shares.float()


class Kappa(MatrixMetric):
    """Mixin for Cohen's kappa; NaN if undefined."""

    def compute(self: Any) -> Tensor:
        """Return kappa of all added samples."""
        weights = None if self.weights == "none" else self.weights
        value: Tensor = metrics.kappa(self.confmat, weights=weights, undefined="strict")
        return value.float()


class Correlation(MatrixMetric):
    """Mixin for the Matthews correlation; degenerate matrices are delegated to torchmetrics."""

    def compute(self: Any) -> Tensor:
        """Return the correlation of all added samples."""
        table = self.confmat.sum(0) if self.confmat.ndim == 3 else self.confmat
        if min(int((table.sum(axis) > 0).sum()) for axis in (0, 1)) < 2 or int(table.diagonal().sum()) == 0:
            left: Tensor = super().compute()  # type: ignore[misc]
            return left
        value: Tensor = metrics.mcc(table)
        return value.float()


class Jaccard(MatrixMetric):
    """Mixin for the Jaccard index (intersection over union)."""

    def compute(self: Any) -> Tensor:
        """Return the Jaccard index of all added samples."""
        average = getattr(self, "average", "binary")
        tables = self._tables(self.confmat)
        ignored = self.ignore_index
        kept = torch.ones(tables.shape[:-2], dtype=torch.bool, device=tables.device)
        if average != "binary" and self.confmat.ndim == 2 and ignored is not None and 0 <= ignored < len(kept):
            kept[ignored] = False
        if average == "micro":
            tables = tables[kept].sum(0)
        values: Tensor = metrics.compute(tables, "jaccard", undefined="strict")[..., 1]
        values = torch.where(values.isnan(), float(self.zero_division), values)
        if average in ("macro", "weighted"):
            weights = self._weights(tables, kept)
            values = torch.where(
                weights.any(-1), compute_mean(values, weights), torch.nan
            )  # NaN if no class counts, as in torchmetrics
        return values.float()

    def _weights(self: Any, tables: Tensor, kept: Tensor) -> Tensor:
        """Return the weights of classes for averaging."""
        if self.average == "weighted":
            return tables[..., 1, :].sum(-1)
        return kept if self.confmat.ndim == 3 else kept & (tables[..., 1, :].sum(-1) + tables[..., 0, 1] > 0)


class BinaryConfusionMatrix(BinaryMatrix, Confusion, theirs.BinaryConfusionMatrix):
    """Drop-in replacement for `torchmetrics.classification.BinaryConfusionMatrix`."""


class MulticlassConfusionMatrix(MulticlassMatrix, Confusion, theirs.MulticlassConfusionMatrix):
    """Drop-in replacement for `torchmetrics.classification.MulticlassConfusionMatrix`."""


class MultilabelConfusionMatrix(MultilabelMatrix, Confusion, theirs.MultilabelConfusionMatrix):
    """Drop-in replacement for `torchmetrics.classification.MultilabelConfusionMatrix`."""


class BinaryCohenKappa(BinaryMatrix, Kappa, theirs.BinaryCohenKappa):
    """Drop-in replacement for `torchmetrics.classification.BinaryCohenKappa`."""


class MulticlassCohenKappa(MulticlassMatrix, Kappa, theirs.MulticlassCohenKappa):
    """Drop-in replacement for `torchmetrics.classification.MulticlassCohenKappa`."""


class BinaryMatthewsCorrCoef(BinaryMatrix, Correlation, theirs.BinaryMatthewsCorrCoef):
    """Drop-in replacement for `torchmetrics.classification.BinaryMatthewsCorrCoef`."""


class MulticlassMatthewsCorrCoef(MulticlassMatrix, Correlation, theirs.MulticlassMatthewsCorrCoef):
    """Drop-in replacement for `torchmetrics.classification.MulticlassMatthewsCorrCoef`."""


class MultilabelMatthewsCorrCoef(MultilabelMatrix, Correlation, theirs.MultilabelMatthewsCorrCoef):
    """Drop-in replacement for `torchmetrics.classification.MultilabelMatthewsCorrCoef`."""


class BinaryJaccardIndex(BinaryMatrix, Jaccard, theirs.BinaryJaccardIndex):
    """Drop-in replacement for `torchmetrics.classification.BinaryJaccardIndex`."""


class MulticlassJaccardIndex(MulticlassMatrix, Jaccard, theirs.MulticlassJaccardIndex):
    """Drop-in replacement for `torchmetrics.classification.MulticlassJaccardIndex`."""


class MultilabelJaccardIndex(MultilabelMatrix, Jaccard, theirs.MultilabelJaccardIndex):
    """Drop-in replacement for `torchmetrics.classification.MultilabelJaccardIndex`."""
