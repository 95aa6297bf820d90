"""The confusion matrix, and the metrics that torchmetrics makes of it."""

from typing import Any

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251
from torchmetrics import classification as theirs

from cmfast import metrics, normalizing
from cmfast.compat.torchmetrics._counting import BinaryMatrix, Guarded, MulticlassMatrix, MultilabelMatrix
from cmfast.compat.torchmetrics._scores import mean


class MatrixMetric(Guarded):
    """A metric of a whole matrix; stands in front of torchmetrics' class."""

    def update(self: Any, preds: Tensor, target: Tensor) -> None:
        """Add predictions and targets, of the shapes that torchmetrics takes."""
        if self.validate_args:
            self._checked(preds, target)
        counts = self._counts(preds, target, each=False)
        with self._lock:
            self.confmat = self.confmat + counts


class Confusion(MatrixMetric):
    """The matrix, or what `normalize` makes of it; a line without counts is left to torchmetrics, which warns of it."""

    def compute(self: Any) -> Tensor:
        """Return the matrix of all that was added."""
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
    """Cohen's kappa; NaN where it is undefined."""

    def compute(self: Any) -> Tensor:
        """Return kappa of all that was added."""
        weights = None if self.weights == "none" else self.weights
        value: Tensor = metrics.kappa(self.confmat, weights=weights, undefined="strict")
        return value.float()


class Correlation(MatrixMetric):
    """Matthews' correlation; what is degenerate is left to torchmetrics, which has values of its own for it."""

    def compute(self: Any) -> Tensor:
        """Return the correlation of all that was added."""
        table = self.confmat.sum(0) if self.confmat.ndim == 3 else self.confmat
        if min(int((table.sum(axis) > 0).sum()) for axis in (0, 1)) < 2 or int(table.diagonal().sum()) == 0:
            left: Tensor = super().compute()  # type: ignore[misc]
            return left
        value: Tensor = metrics.mcc(table)
        return value.float()


class Jaccard(MatrixMetric):
    """Intersection over union."""

    def compute(self: Any) -> Tensor:
        """Return the metric of all that was added."""
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
            values = torch.where(weights.any(-1), mean(values, weights), torch.nan)  # of no class, in torchmetrics
        return values.float()

    def _weights(self: Any, tables: Tensor, kept: Tensor) -> Tensor:
        if self.average == "weighted":
            return tables[..., 1, :].sum(-1)
        return kept if self.confmat.ndim == 3 else kept & (tables[..., 1, :].sum(-1) + tables[..., 0, 1] > 0)


class BinaryConfusionMatrix(BinaryMatrix, Confusion, theirs.BinaryConfusionMatrix):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class MulticlassConfusionMatrix(MulticlassMatrix, Confusion, theirs.MulticlassConfusionMatrix):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class MultilabelConfusionMatrix(MultilabelMatrix, Confusion, theirs.MultilabelConfusionMatrix):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class BinaryCohenKappa(BinaryMatrix, Kappa, theirs.BinaryCohenKappa):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class MulticlassCohenKappa(MulticlassMatrix, Kappa, theirs.MulticlassCohenKappa):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class BinaryMatthewsCorrCoef(BinaryMatrix, Correlation, theirs.BinaryMatthewsCorrCoef):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class MulticlassMatthewsCorrCoef(MulticlassMatrix, Correlation, theirs.MulticlassMatthewsCorrCoef):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class MultilabelMatthewsCorrCoef(MultilabelMatrix, Correlation, theirs.MultilabelMatthewsCorrCoef):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class BinaryJaccardIndex(BinaryMatrix, Jaccard, theirs.BinaryJaccardIndex):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class MulticlassJaccardIndex(MulticlassMatrix, Jaccard, theirs.MulticlassJaccardIndex):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class MultilabelJaccardIndex(MultilabelMatrix, Jaccard, theirs.MultilabelJaccardIndex):
    """torchmetrics' class of this name, counted and computed by cmfast."""
