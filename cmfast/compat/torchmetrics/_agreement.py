"""torchmetrics' confusion matrix, Cohen's kappa, Matthews correlation and Jaccard index."""

import math
from typing import Any

from torch import Tensor  # noqa: TID251
from torchmetrics import classification as theirs

from cmfast import metrics, normalizing
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
    if len(counts) == 2:
        (a, b), (c, d) = counts.tolist()
        return not (a + d and a + b and c + d and a + c and b + d)
    return not int(counts.trace()) or min(int((counts.sum(axis) > 0).sum()) for axis in (0, 1)) < 2


def compute_agreement(counts: Any) -> dict[str, Any]:
    """Return the Matthews correlation and Cohen's kappa of a matrix; 0 if undefined."""
    found: dict[str, Any] = metrics.compute(counts, ("mcc", "kappa"), undefined=0.0)
    return found


class Confusion(MatrixMetric):
    """Mixin for the confusion matrix; with `normalize`, empty rows are delegated to torchmetrics, which warns."""

    @skip_wrapper
    def compute(self: Any) -> Tensor:
        """Return the matrix of all added samples."""
        if self.normalize in (None, "none"):
            counts: Tensor = self.confmat.clone()  # the state must not change with the value
            return counts
        axes = {"true": (-1,), "pred": (-2,), "all": (-2, -1)}[self.normalize]
        host = view_counts(self.confmat)
        if isinstance(host, Tensor):
            if (host.sum(axes) == 0).any():
                return self._normalize_empty()
            shares: Tensor = normalizing.normalize(host, self.normalize)
            return shares.float()
        sums = host.sum(axes, keepdims=True)
        return convert_to_float32(host / sums) if sums.all() else self._normalize_empty()

    def _normalize_empty(self: Any) -> Tensor:
        """Return the matrix of all added samples by torchmetrics, which warns of empty rows or columns."""
        left: Tensor = super().compute()  # type: ignore[misc]
        return left


class Kappa(MatrixMetric):
    """Mixin for Cohen's kappa; NaN if undefined."""

    @skip_wrapper
    def compute(self: Any) -> Tensor:
        """Return kappa of all added samples."""
        if self.weights in (None, "none") and (value := apply_once(compute_agreement, self.confmat)["kappa"]) != 0:
            return convert_to_float32(value)
        weights = None if self.weights == "none" else self.weights
        return convert_to_float32(metrics.kappa(view_counts(self.confmat), weights=weights, undefined="strict"))


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
        average, ignored = getattr(self, "average", "binary"), self.ignore_index
        kept = None
        if average != "binary" and self.confmat.ndim == 2 and ignored is not None and 0 <= ignored < len(self.confmat):
            kept = self.confmat.diagonal() >= 0
            kept[ignored] = False
        if average == "micro" and kept is None:
            sums: OneVsRestSums = apply_once(self._sum_classes, self.confmat)
        else:
            sums = apply_once(self._sum, self.confmat)
            kept = kept.numpy() if kept is not None and not isinstance(sums.hits, Tensor) else kept
            if average == "micro":
                hits, truths, guesses = (part[kept].sum() for part in sums[:3])
                sums = OneVsRestSums(hits, truths, guesses, None)
        values = divide(*FRACTIONS["jaccard"](*sums), float(self.zero_division))
        if average in ("macro", "weighted"):
            weights = self._weights(sums, kept)
            values = compute_mean(values, weights) if weights.any() else values.sum() * math.nan  # as torchmetrics
        return convert_to_float32(values)

    def _weights(self: Any, sums: OneVsRestSums, kept: Any) -> Any:
        """Return the weights of classes for averaging."""
        if self.average == "weighted":
            return sums.truths
        weights = sums.truths + sums.guesses > 0 if self.confmat.ndim == 2 else sums.hits >= 0
        return weights if kept is None else kept & weights


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
