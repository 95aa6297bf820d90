"""torchmetrics' accuracy, precision, recall, F1 score, specificity and stat scores."""

from typing import Any

import numpy as np
import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251
from torchmetrics import classification as theirs

from cmfast.compat.torchmetrics._counting import BinaryCounts, CountedMetric, Multiclass, Multilabel, skip_wrapper
from cmfast.compat.torchmetrics._sums import (
    FRACTIONS,
    OneVsRestSums,
    apply_once,
    compute_mean,
    convert_to_float32,
    divide,
    join_sums,
    split_sums,
    view_counts,
)

FOUR = ("tp", "fp", "tn", "fn")  # torchmetrics' state
# Macro averages over classes that are true somewhere with top_k above 1; the others are over those predicted, too.
AVERAGED_OVER_TRUE_CLASSES = ("precision", "recall")


class OneVsRestMetric(CountedMetric):
    """Mixin for metrics of one-vs-rest tables; precedes torchmetrics' class in the MRO."""

    METRIC = ""  # name of the metric in cmfast

    @property
    def _is_apart(self: Any) -> bool:
        """Whether the number of classes is unknown, so that torchmetrics counts correct and wrong samples."""
        return getattr(self, "num_classes", 2) is None

    def _create_state(self: Any, size: int, multidim_average: str = "global") -> None:
        """Create the state: a matrix of counts, or torchmetrics' lists for samplewise metrics."""
        self._size = size  # of torchmetrics' tp, fp, tn and fn
        if multidim_average == "samplewise" or self._is_apart:
            super()._create_state(size, multidim_average)  # type: ignore[misc]
        else:
            self.add_state("confmat", torch.zeros(self._shape(), dtype=torch.long), dist_reduce_fx="sum")

    @skip_wrapper
    def update(self: Any, preds: Tensor, target: Tensor) -> None:
        """Add predictions and targets, of any shapes that torchmetrics accepts."""
        target = self._merge_ignored(target)
        if "confmat" in self._defaults:
            self._add_counts(preds, target)
        elif self._is_apart:
            with self._lock:
                super().update(preds, target)  # type: ignore[misc]
        else:
            if self.validate_args:
                self._validate(preds, target)
            sums = self._sum(self._counts(preds, target, each=True))
            parts = split_sums(sums)
            with self._lock:  # the four lists must stay aligned
                for name, part in zip(FOUR, parts, strict=True):
                    getattr(self, name).append(part)

    def state_dict(self: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return the persistent state with torchmetrics' names: tp, fp, tn and fn instead of a matrix."""
        found = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)  # type: ignore[misc]
        counts = found.pop(prefix + "confmat", None)
        if counts is not None:
            found |= zip((prefix + name for name in FOUR), self._list_four(counts), strict=True)
        return found

    def _load_from_state_dict(self: Any, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Load tp, fp, tn and fn, which torchmetrics' own classes save as well, or a matrix of counts."""
        if "confmat" in self._defaults and any(prefix + name in state_dict for name in FOUR):
            state_dict[prefix + "confmat"] = self._build_counts([state_dict.pop(prefix + n, None) for n in FOUR])
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)  # type: ignore[misc]

    def _build_counts(self: Any, four: list[Any]) -> Tensor:
        """Return counts that have the tp, fp, tn and fn of a checkpoint; raise RuntimeError, as torch, if none have."""
        name = type(self).__name__
        for kind, part in zip(FOUR, four, strict=True):
            if not isinstance(part, Tensor) or part.numel() != self._size or part.ndim > 1:
                got = f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__
                msg = (
                    f"{name}: {kind} of the checkpoint must be a tensor of shape ({self._size},), got {got}. "
                    "Load it into a metric of the same task, average, multidim_average and number of classes"
                )
                raise RuntimeError(msg)
        four = [part.reshape(-1) for part in four]
        counts: Tensor = self._build(*four, self._shape())
        if not all(map(torch.equal, four, self._list_four(counts))):
            msg = f"{name}: tp, fp, tn and fn of the checkpoint must be counts of the same samples, got others"
            raise RuntimeError(msg)
        return counts

    def _list_four(self: Any, counts: Tensor) -> list[Tensor]:
        """Return tp, fp, tn and fn of counts as torchmetrics keeps them."""
        sums = self._sum_classes(counts) if self._size == 1 else self._sum(counts)
        return [part.reshape(-1).clone() for part in split_sums(sums)]  # not views of the counts

    def _final_state(self: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return tp, fp, tn and fn from the state."""
        if "confmat" in self._defaults:
            return split_sums(self._sum(self.confmat))
        found: tuple[Tensor, Tensor, Tensor, Tensor] = super()._final_state()  # type: ignore[misc]
        return found

    def _read_sums(self: Any, *, over_classes: bool = False) -> OneVsRestSums:
        """Return the sums of all added samples, of each class or over all classes."""
        if "confmat" in self._defaults:
            found: OneVsRestSums = apply_once(self._sum_classes if over_classes else self._sum, self.confmat)
            return found
        sums = join_sums(*self._final_state())
        return OneVsRestSums(*(part.sum(-1) for part in sums)) if over_classes and sums.hits.ndim else sums

    @skip_wrapper
    def compute(self: Any) -> Tensor:
        """Return the metric of all added samples."""
        average = getattr(self, "average", "binary")
        sums = self._read_sums(over_classes=average == "micro")
        values = divide(*FRACTIONS[self.METRIC](*sums), self._fill)
        if average in ("macro", "weighted"):
            values = compute_mean(values, self._weights(sums))
        return convert_to_float32(values)

    @property
    def _fill(self: Any) -> float:
        """The value of an undefined metric."""
        return float(self.zero_division)

    def _weights(self: Any, sums: OneVsRestSums) -> Any:
        """Return the weights of classes for averaging."""
        if self.average == "weighted":
            return sums.truths
        if isinstance(self, Multilabel):
            return sums.hits >= 0
        is_true = self.top_k > 1 and self.METRIC in AVERAGED_OVER_TRUE_CLASSES
        return (sums.truths if is_true else sums.truths + sums.guesses) > 0


class FourCounts(OneVsRestMetric):
    """Mixin for the stat scores; torchmetrics computes what is not computed with NumPy."""

    @skip_wrapper
    def compute(self: Any) -> Tensor:
        """Return true positives, false positives, true negatives, false negatives and true samples."""
        average = getattr(self, "average", "binary")
        if "confmat" not in self._defaults or isinstance(view_counts(self.confmat), Tensor):
            found: Tensor = super(OneVsRestMetric, self).compute()  # type: ignore[misc]
            return found
        sums = self._read_sums(over_classes=average in ("macro", "micro"))
        table = np.ascontiguousarray(np.array([*split_sums(sums), sums.truths]).T)
        if average == "macro":
            return convert_to_float32(table / len(self.confmat))
        if average == "weighted":
            samples = sums.truths.sum()
            return convert_to_float32(sums.truths @ table / samples if samples else np.full(5, np.nan))
        return torch.from_numpy(table)


class ZeroFilledMetric(OneVsRestMetric):
    """Mixin for metrics that torchmetrics sets to 0 if undefined, for any `zero_division`."""

    @property
    def _fill(self: Any) -> float:
        """The value of an undefined metric: 0."""
        return 0.0


class ClassAccuracy(ZeroFilledMetric):
    """Mixin for the accuracy per class, which is its recall."""

    METRIC = "recall"


class TableAccuracy(ZeroFilledMetric):
    """Mixin for the accuracy of 2x2 tables (binary, or per label)."""

    METRIC = "accuracy"


class BinaryAccuracy(BinaryCounts, TableAccuracy, theirs.BinaryAccuracy):
    """Drop-in replacement for `torchmetrics.classification.BinaryAccuracy`."""


class MulticlassAccuracy(Multiclass, ClassAccuracy, theirs.MulticlassAccuracy):
    """Drop-in replacement for `torchmetrics.classification.MulticlassAccuracy`."""


class MultilabelAccuracy(Multilabel, TableAccuracy, theirs.MultilabelAccuracy):
    """Drop-in replacement for `torchmetrics.classification.MultilabelAccuracy`."""


class BinaryStatScores(BinaryCounts, FourCounts, theirs.BinaryStatScores):
    """Drop-in replacement for `torchmetrics.classification.BinaryStatScores`."""


class MulticlassStatScores(Multiclass, FourCounts, theirs.MulticlassStatScores):
    """Drop-in replacement for `torchmetrics.classification.MulticlassStatScores`."""


class MultilabelStatScores(Multilabel, FourCounts, theirs.MultilabelStatScores):
    """Drop-in replacement for `torchmetrics.classification.MultilabelStatScores`."""


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
