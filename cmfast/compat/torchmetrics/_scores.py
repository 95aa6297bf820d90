"""Accuracy, precision, recall, F1, specificity and the counts themselves."""

from typing import Any

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251
from torchmetrics import classification as theirs

from cmfast import metrics
from cmfast.compat.torchmetrics._counting import BinaryCounts, Guarded, Multiclass, Multilabel


class OneVsRestMetric(Guarded):
    """A metric of the counts of one class against the rest; stands in front of torchmetrics' class."""

    METRIC = ""  # its name in cmfast

    @property
    def _is_apart(self: Any) -> bool:
        """Whether nothing but right and wrong can be counted: the number of classes was not given."""
        return getattr(self, "num_classes", 2) is None

    def _create_state(self: Any, size: int, multidim_average: str = "global") -> None:
        if multidim_average == "samplewise" or self._is_apart:
            super()._create_state(size, multidim_average)  # type: ignore[misc]
        else:
            self.add_state("confmat", torch.zeros(self._shape(), dtype=torch.long), dist_reduce_fx="sum")

    def update(self: Any, preds: Tensor, target: Tensor) -> None:
        """Add predictions and targets, of the shapes that torchmetrics takes."""
        if self._is_apart:
            with self._lock:
                super().update(preds, target)  # type: ignore[misc]
            return
        if self.validate_args:
            self._checked(preds, target)
        if self.multidim_average == "samplewise":
            tables = self._tables(self._counts(preds, target, each=True))
            with self._lock:  # the four lists have one order
                for (i, j), name in (((1, 1), "tp"), ((0, 1), "fp"), ((0, 0), "tn"), ((1, 0), "fn")):
                    getattr(self, name).append(tables[..., i, j])
        else:
            counts = self._counts(preds, target, each=False)
            with self._lock:
                self.confmat = self.confmat + counts

    def _final_state(self: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if not hasattr(self, "confmat"):
            found: tuple[Tensor, Tensor, Tensor, Tensor] = super()._final_state()  # type: ignore[misc]
            return found
        tables = self._tables(self.confmat)
        return tables[..., 1, 1], tables[..., 0, 1], tables[..., 0, 0], tables[..., 1, 0]

    def compute(self: Any) -> Tensor:
        """Return the metric of all that was added."""
        tp, fp, tn, fn = self._final_state()
        average = getattr(self, "average", "binary")
        axis = 1 if self.multidim_average == "samplewise" else 0
        if average == "micro":
            tp, fp, tn, fn = (part.sum(axis) if part.ndim > axis else part for part in (tp, fp, tn, fn))
        table = torch.stack([tn, fp, fn, tp], -1).reshape(*tp.shape, 2, 2)
        values = self._values(table)
        values = torch.where(values.isnan(), self._fill, values)
        if average in ("macro", "weighted"):
            values = mean(values, self._weights(tp, fp, fn))
        return values.float()

    def _values(self: Any, table: Tensor) -> Tensor:
        """Return the metric of tables of a class against the rest; NaN where it is undefined."""
        found: Tensor = metrics.compute(table, self.METRIC, undefined="strict")[..., 1]
        return found

    @property
    def _fill(self: Any) -> float:
        """What is undefined becomes."""
        return float(self.zero_division)

    def _weights(self: Any, tp: Tensor, fp: Tensor, fn: Tensor) -> Tensor:
        if self.average == "weighted":
            return tp + fn
        if isinstance(self, Multilabel):
            return torch.ones_like(tp)
        return (tp + fn + (fp if self.top_k == 1 else 0)) > 0


class FilledWithZero(OneVsRestMetric):
    """A metric that torchmetrics fills with 0 where it is undefined, for any `zero_division`."""

    @property
    def _fill(self: Any) -> float:
        return 0.0


class Right(FilledWithZero):
    """The share that is right: of a class of several its recall, of two classes and of a label that of its table."""

    METRIC = "recall"


class RightOfTables(Right):
    """The share of a table of two classes."""

    def _values(self: Any, table: Tensor) -> Tensor:
        found: Tensor = metrics.compute(table, "accuracy", undefined="strict")
        return found


def mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the mean over the last axis; 0 without any weight."""
    weights = weights.to(values.dtype)
    total = weights.sum(-1)
    return (values * weights).sum(-1) / torch.where(total == 0, 1.0, total)


class BinaryAccuracy(BinaryCounts, RightOfTables, theirs.BinaryAccuracy):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class MulticlassAccuracy(Multiclass, Right, theirs.MulticlassAccuracy):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class MultilabelAccuracy(Multilabel, RightOfTables, theirs.MultilabelAccuracy):
    """torchmetrics' class of this name, counted and computed by cmfast."""


class BinaryStatScores(BinaryCounts, OneVsRestMetric, theirs.BinaryStatScores):
    """torchmetrics' class of this name, counted by cmfast."""

    compute = theirs.BinaryStatScores.compute


class MulticlassStatScores(Multiclass, OneVsRestMetric, theirs.MulticlassStatScores):
    """torchmetrics' class of this name, counted by cmfast."""

    compute = theirs.MulticlassStatScores.compute


class MultilabelStatScores(Multilabel, OneVsRestMetric, theirs.MultilabelStatScores):
    """torchmetrics' class of this name, counted by cmfast."""

    compute = theirs.MultilabelStatScores.compute


class BinaryPrecision(BinaryCounts, OneVsRestMetric, theirs.BinaryPrecision):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "precision"


class MulticlassPrecision(Multiclass, OneVsRestMetric, theirs.MulticlassPrecision):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "precision"


class MultilabelPrecision(Multilabel, OneVsRestMetric, theirs.MultilabelPrecision):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "precision"


class BinaryRecall(BinaryCounts, OneVsRestMetric, theirs.BinaryRecall):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "recall"


class MulticlassRecall(Multiclass, OneVsRestMetric, theirs.MulticlassRecall):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "recall"


class MultilabelRecall(Multilabel, OneVsRestMetric, theirs.MultilabelRecall):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "recall"


class BinaryF1Score(BinaryCounts, OneVsRestMetric, theirs.BinaryF1Score):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "f1"


class MulticlassF1Score(Multiclass, OneVsRestMetric, theirs.MulticlassF1Score):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "f1"


class MultilabelF1Score(Multilabel, OneVsRestMetric, theirs.MultilabelF1Score):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "f1"


class BinarySpecificity(BinaryCounts, FilledWithZero, theirs.BinarySpecificity):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "specificity"


class MulticlassSpecificity(Multiclass, FilledWithZero, theirs.MulticlassSpecificity):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "specificity"


class MultilabelSpecificity(Multilabel, FilledWithZero, theirs.MultilabelSpecificity):
    """torchmetrics' class of this name, counted and computed by cmfast."""

    METRIC = "specificity"
