"""torchmetrics' accuracy, precision, recall, F1 score, specificity and stat scores."""

from typing import Any

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251
from torchmetrics import classification as theirs

from cmfast import metrics
from cmfast.compat.torchmetrics._counting import BinaryCounts, LockedMetric, Multiclass, Multilabel


class OneVsRestMetric(LockedMetric):
    """Mixin for metrics of one-vs-rest tables; precedes torchmetrics' class in the MRO."""

    METRIC = ""  # name of the metric in cmfast

    @property
    def _is_apart(self: Any) -> bool:
        """Whether the number of classes is unknown, so that only correct and wrong samples can be counted."""
        return getattr(self, "num_classes", 2) is None

    def _create_state(self: Any, size: int, multidim_average: str = "global") -> None:
        """Create the state: a matrix of counts, or torchmetrics' lists for samplewise metrics."""
        if multidim_average == "samplewise" or self._is_apart:
            super()._create_state(size, multidim_average)  # type: ignore[misc]
        else:
            self.add_state("confmat", torch.zeros(self._shape(), dtype=torch.long), dist_reduce_fx="sum")

    def update(self: Any, preds: Tensor, target: Tensor) -> None:
        """Add predictions and targets, of any shapes that torchmetrics accepts."""
        if self._is_apart:
            with self._lock:
                super().update(preds, target)  # type: ignore[misc]
            return
        if self.validate_args:
            self._validate(preds, target)
        if self.multidim_average == "samplewise":
            tables = self._tables(self._counts(preds, target, each=True))
            with self._lock:  # the four lists must stay aligned
                for (i, j), name in (((1, 1), "tp"), ((0, 1), "fp"), ((0, 0), "tn"), ((1, 0), "fn")):
                    getattr(self, name).append(tables[..., i, j])
        else:
            counts = self._counts(preds, target, each=False)
            with self._lock:
                self.confmat = self.confmat + counts

    def _final_state(self: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return tp, fp, tn and fn from the state."""
        if not hasattr(self, "confmat"):
            found: tuple[Tensor, Tensor, Tensor, Tensor] = super()._final_state()  # type: ignore[misc]
            return found
        tables = self._tables(self.confmat)
        return tables[..., 1, 1], tables[..., 0, 1], tables[..., 0, 0], tables[..., 1, 0]

    def compute(self: Any) -> Tensor:
        """Return the metric of all added samples."""
        tp, fp, tn, fn = self._final_state()
        average = getattr(self, "average", "binary")
        axis = 1 if self.multidim_average == "samplewise" else 0
        if average == "micro":
            tp, fp, tn, fn = (part.sum(axis) if part.ndim > axis else part for part in (tp, fp, tn, fn))
        table = torch.stack([tn, fp, fn, tp], -1).reshape(*tp.shape, 2, 2)
        values = self._values(table)
        values = torch.where(values.isnan(), self._fill, values)
        if average in ("macro", "weighted"):
            values = compute_mean(values, self._weights(tp, fp, fn))
        return values.float()

    def _values(self: Any, table: Tensor) -> Tensor:
        """Return the metric of one-vs-rest tables; NaN if undefined."""
        found: Tensor = metrics.compute(table, self.METRIC, undefined="strict")[..., 1]
        return found

    @property
    def _fill(self: Any) -> float:
        """The value of an undefined metric."""
        return float(self.zero_division)

    def _weights(self: Any, tp: Tensor, fp: Tensor, fn: Tensor) -> Tensor:
        """Return the weights of classes for averaging."""
        if self.average == "weighted":
            return tp + fn
        if isinstance(self, Multilabel):
            return torch.ones_like(tp)
        return (tp + fn + (fp if self.top_k == 1 else 0)) > 0


class ZeroFilledMetric(OneVsRestMetric):
    """Mixin for metrics that torchmetrics sets to 0 if undefined, for any `zero_division`."""

    @property
    def _fill(self: Any) -> float:
        """The value of an undefined metric: 0."""
        return 0.0


class ClassAccuracy(ZeroFilledMetric):
    """Mixin for the accuracy per class, which is its recall."""

    METRIC = "recall"


class TableAccuracy(ClassAccuracy):
    """Mixin for the accuracy of 2x2 tables (binary, or per label)."""

    def _values(self: Any, table: Tensor) -> Tensor:
        """Return the accuracy of 2x2 tables; NaN if undefined."""
        found: Tensor = metrics.compute(table, "accuracy", undefined="strict")
        return found


def compute_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean over the last axis; 0 if all weights are 0."""
    weights = weights.to(values.dtype)
    total = weights.sum(-1)
    return (values * weights).sum(-1) / torch.where(total == 0, 1.0, total)


class BinaryAccuracy(BinaryCounts, TableAccuracy, theirs.BinaryAccuracy):
    """Drop-in replacement for `torchmetrics.classification.BinaryAccuracy`."""


class MulticlassAccuracy(Multiclass, ClassAccuracy, theirs.MulticlassAccuracy):
    """Drop-in replacement for `torchmetrics.classification.MulticlassAccuracy`."""


class MultilabelAccuracy(Multilabel, TableAccuracy, theirs.MultilabelAccuracy):
    """Drop-in replacement for `torchmetrics.classification.MultilabelAccuracy`."""


class BinaryStatScores(BinaryCounts, OneVsRestMetric, theirs.BinaryStatScores):
    """Drop-in replacement for `torchmetrics.classification.BinaryStatScores`."""

    compute = theirs.BinaryStatScores.compute


class MulticlassStatScores(Multiclass, OneVsRestMetric, theirs.MulticlassStatScores):
    """Drop-in replacement for `torchmetrics.classification.MulticlassStatScores`."""

    compute = theirs.MulticlassStatScores.compute


class MultilabelStatScores(Multilabel, OneVsRestMetric, theirs.MultilabelStatScores):
    """Drop-in replacement for `torchmetrics.classification.MultilabelStatScores`."""

    compute = theirs.MultilabelStatScores.compute


class BinaryPrecision(BinaryCounts, OneVsRestMetric, theirs.BinaryPrecision):
    """Drop-in replacement for `torchmetrics.classification.BinaryPrecision`."""

    METRIC = "precision"


class MulticlassPrecision(Multiclass, OneVsRestMetric, theirs.MulticlassPrecision):
    """Drop-in replacement for `torchmetrics.classification.MulticlassPrecision`."""

    METRIC = "precision"


class MultilabelPrecision(Multilabel, OneVsRestMetric, theirs.MultilabelPrecision):
    """Drop-in replacement for `torchmetrics.classification.MultilabelPrecision`."""

    METRIC = "precision"


class BinaryRecall(BinaryCounts, OneVsRestMetric, theirs.BinaryRecall):
    """Drop-in replacement for `torchmetrics.classification.BinaryRecall`."""

    METRIC = "recall"


class MulticlassRecall(Multiclass, OneVsRestMetric, theirs.MulticlassRecall):
    """Drop-in replacement for `torchmetrics.classification.MulticlassRecall`."""

    METRIC = "recall"


class MultilabelRecall(Multilabel, OneVsRestMetric, theirs.MultilabelRecall):
    """Drop-in replacement for `torchmetrics.classification.MultilabelRecall`."""

    METRIC = "recall"


class BinaryF1Score(BinaryCounts, OneVsRestMetric, theirs.BinaryF1Score):
    """Drop-in replacement for `torchmetrics.classification.BinaryF1Score`."""

    METRIC = "f1"


class MulticlassF1Score(Multiclass, OneVsRestMetric, theirs.MulticlassF1Score):
    """Drop-in replacement for `torchmetrics.classification.MulticlassF1Score`."""

    METRIC = "f1"


class MultilabelF1Score(Multilabel, OneVsRestMetric, theirs.MultilabelF1Score):
    """Drop-in replacement for `torchmetrics.classification.MultilabelF1Score`."""

    METRIC = "f1"


class BinarySpecificity(BinaryCounts, ZeroFilledMetric, theirs.BinarySpecificity):
    """Drop-in replacement for `torchmetrics.classification.BinarySpecificity`."""

    METRIC = "specificity"


class MulticlassSpecificity(Multiclass, ZeroFilledMetric, theirs.MulticlassSpecificity):
    """Drop-in replacement for `torchmetrics.classification.MulticlassSpecificity`."""

    METRIC = "specificity"


class MultilabelSpecificity(Multilabel, ZeroFilledMetric, theirs.MultilabelSpecificity):
    """Drop-in replacement for `torchmetrics.classification.MultilabelSpecificity`."""

    METRIC = "specificity"
