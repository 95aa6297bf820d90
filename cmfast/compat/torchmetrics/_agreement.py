"""torchmetrics' confusion matrix, Cohen's kappa, Matthews correlation and Jaccard index."""

import math
from typing import Any

from torch import Tensor  # noqa: TID251
from torchmetrics import classification as theirs

from cmfast import metrics
from cmfast.compat.torchmetrics._counting import (
    BinaryMatrix,
    CountedMetric,
    MulticlassMatrix,
    MultilabelMatrix,
    skip_wrapper,
)
from cmfast.compat.torchmetrics._sums import (
    FRACTIONS,
    OneVsRestSums,
    apply_once,
    compute_mean,
    convert_to_float32,
    divide,
    sum_matrices,
    view_counts,
)


class MatrixMetric(CountedMetric):
    """Mixin for metrics of a whole matrix; precedes torchmetrics' class in the MRO."""

    @skip_wrapper
    def update(self: Any, preds: Tensor, target: Tensor) -> None:
        """Add predictions and targets, of any shapes that torchmetrics accepts."""
        self._add_counts(preds, target)


def is_degenerate(counts: Any) -> bool:
    """Return whether a matrix has no correct sample, or fewer than two true or two predicted classes."""
    sums = sum_matrices(counts)
    return not sums.hits.any() or min(int((part > 0).sum()) for part in (sums.truths, sums.guesses)) < 2


def compute_agreement(counts: Any) -> dict[str, Any]:
    """Return the Matthews correlation and Cohen's kappa of a matrix; NaN if undefined."""
    found: dict[str, Any] = metrics.compute(counts, ("mcc", "kappa"), undefined="strict")
    return found


class Confusion(MatrixMetric):
    """Mixin for the confusion matrix; with `normalize`, empty rows are delegated to torchmetrics, which warns."""

    @skip_wrapper
    def compute(self: Any) -> Tensor:
        """Return the matrix of all added samples."""
        if self.normalize in (None, "none"):
            copy: Tensor = self.confmat.clone()  # the state must not change with the value
            return copy
        axes = {"true": (-1,), "pred": (-2,), "all": (-2, -1)}[self.normalize]
        counts = view_counts(self.confmat)
        sums = counts.sum(axes, keepdims=True)
        if not sums.all():
            left: Tensor = super().compute()  # type: ignore[misc]  # which warns
            return left
        return convert_to_float32(divide(counts, sums, math.nan))


class Kappa(MatrixMetric):
    """Mixin for Cohen's kappa; NaN if undefined."""

    @skip_wrapper
    def compute(self: Any) -> Tensor:
        """Return kappa of all added samples."""
        if self.weights in (None, "none"):
            return convert_to_float32(apply_once(compute_agreement, self.confmat)["kappa"])
        return convert_to_float32(metrics.kappa(view_counts(self.confmat), weights=self.weights, undefined="strict"))


class Correlation(MatrixMetric):
    """Mixin for the Matthews correlation; degenerate matrices are delegated to torchmetrics."""

    @skip_wrapper
    def compute(self: Any) -> Tensor:
        """Return the correlation of all added samples."""
        table = self.confmat.sum(0) if self.confmat.ndim == 3 else self.confmat
        if is_degenerate(view_counts(table)):
            left: Tensor = super().compute()  # type: ignore[misc]
            return left
        return convert_to_float32(apply_once(compute_agreement, table)["mcc"])


class Jaccard(MatrixMetric):
    """Mixin for the Jaccard index (intersection over union)."""

    @skip_wrapper
    def compute(self: Any) -> Tensor:
        """Return the Jaccard index of all added samples."""
        average = getattr(self, "average", "binary")
        sums: OneVsRestSums = apply_once(self._sum, self.confmat)
        kept = sums.hits >= 0
        is_matrix = average != "binary" and self.confmat.ndim == 2
        for ignored in (self.ignore_index, *self.__dict__.get("also_ignored", ())):
            if is_matrix and ignored is not None and 0 <= ignored < len(self.confmat):
                kept[ignored] = False
        if average == "micro":
            hits, truths, guesses = (part[kept].sum() for part in sums[:3])
            sums = OneVsRestSums(hits, truths, guesses, None)
        values = divide(*FRACTIONS["jaccard"](*sums), float(self.zero_division))
        if average in ("macro", "weighted"):
            if is_matrix:
                kept = kept & (sums.truths + sums.guesses > 0)
            weights = sums.truths if average == "weighted" else kept
            values = compute_mean(values, weights) if weights.any() else values.sum() * math.nan  # as torchmetrics
        return convert_to_float32(values)


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
