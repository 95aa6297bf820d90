"""torchmetrics' accuracy, precision, recall, F1 score, specificity and stat scores."""

import math
from typing import Any

import numpy as np
import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251
from torchmetrics import classification as theirs

from cmfast.compat.torchmetrics._counting import BinaryCounts, CountedMetric, Multiclass, Multilabel, skip_wrapper
from cmfast.compat.torchmetrics._sums import (
    FRACTIONS,
    OneVsRestSums,
    add_classes,
    apply_once,
    compute_mean,
    convert_to_float32,
    divide,
    is_plain,
)

FOUR = ("tp", "fp", "tn", "fn")  # torchmetrics' state


class OneVsRestMetric(CountedMetric):
    """Mixin for metrics of one-vs-rest tables; precedes torchmetrics' class in the MRO."""

    METRIC = ""  # name of the metric in cmfast

    _from_checkpoint = False  # whether the state is torchmetrics' own, loaded from its checkpoint

    @property
    def _is_apart(self: Any) -> bool:
        """Whether torchmetrics counts: the matrix is unknown, or the number of classes."""
        return self._from_checkpoint or getattr(self, "num_classes", 2) is None

    def _create_state(self: Any, size: int, multidim_average: str = "global") -> None:
        """Create the state: a matrix of counts, or torchmetrics' lists for samplewise metrics."""
        if multidim_average == "samplewise" or self._is_apart:
            super()._create_state(size, multidim_average)  # type: ignore[misc]
        else:
            self.add_state("confmat", torch.zeros(self._shape(), dtype=torch.long), dist_reduce_fx="sum")

    @skip_wrapper
    def update(self: Any, preds: Tensor, target: Tensor) -> None:
        """Add predictions and targets, of any shapes that torchmetrics accepts."""
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

    def _load_from_state_dict(
        self: Any,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:
        """Load a matrix of counts, or the tp, fp, tn and fn that torchmetrics' own class has saved.

        These are the 2x2 tables of a binary metric and of labels. They do not determine the matrix of several classes,
        so such a metric keeps all four as its state from then on, and torchmetrics adds to them.
        """
        if self.multidim_average == "global" and getattr(self, "num_classes", 2) is not None:
            found = {name: state_dict[prefix + name] for name in FOUR if prefix + name in state_dict}
            if found and prefix + "confmat" not in state_dict:
                problem = self._find_problem(found)
                if problem:
                    error_msgs.append(f"{type(self).__name__}: {problem}")
                    for name in found:
                        del state_dict[prefix + name]
                    return
                self._adopt_four(state_dict, prefix)
            elif self._from_checkpoint and prefix + "confmat" in state_dict:
                self._replace_state(from_checkpoint=False)
        rest = (local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[misc]

    def _find_problem(self: Any, found: dict[str, Any]) -> str:
        """Return why torchmetrics' counts cannot be loaded; an empty text if they can."""
        if len(found) < len(FOUR):
            return f"a checkpoint of torchmetrics must have {', '.join(FOUR)}, got {', '.join(found)} only"
        lists = [name for name, counts in found.items() if not isinstance(counts, Tensor)]
        if lists:
            return (
                f"{lists[0]} of the checkpoint must be a tensor, got a list. "
                "Pass multidim_average='samplewise' for a checkpoint of such a metric"
            )
        shapes = {name: tuple(counts.shape) for name, counts in found.items()}
        size = self._size_of_four()
        for name, shape in shapes.items():
            if math.prod(shape) != size or len(shape) > 1:
                return (
                    f"{name} of the checkpoint must have shape ({size},), got {shape}. "
                    "Load it into a metric of the same task, average and number of classes"
                )
        return ""

    def _size_of_four(self: Any) -> int:
        """Return the number of classes or labels for which torchmetrics' own state has counts."""
        if hasattr(self, "num_classes"):
            return 1 if self.average == "micro" and self.top_k == 1 else int(self.num_classes)
        return int(getattr(self, "num_labels", 1))

    def _adopt_four(self: Any, state_dict: dict[str, Any], prefix: str) -> None:
        """Replace torchmetrics' counts in the checkpoint by tables, or make them this metric's state, in place."""
        if hasattr(self, "num_classes"):
            self._replace_state(from_checkpoint=True)
            for name in FOUR:
                state_dict[prefix + name] = state_dict[prefix + name].reshape(-1)
            return
        tp, fp, tn, fn = (state_dict.pop(prefix + name) for name in FOUR)
        state_dict[prefix + "confmat"] = torch.stack([tn, fp, fn, tp], -1).reshape(self._shape())

    def _replace_state(self: Any, *, from_checkpoint: bool) -> None:
        """Replace the state by torchmetrics' four counts, or by a matrix of counts; both of no samples."""
        persistent = any(self._persistent.values())
        for name in list(self._defaults):
            delattr(self, name)
            for known in (self._defaults, self._persistent, self._reductions):
                del known[name]
        self._from_checkpoint = from_checkpoint
        self._create_state(self._size_of_four())
        self.persistent(persistent)
        for name, default in self._defaults.items():
            self._defaults[name] = default.to(self.device)
            setattr(self, name, self._defaults[name].clone())

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
        tp, fp, tn, fn = self._final_state()
        sums = OneVsRestSums(tp, tp + fn, tp + fp, tp + fp + tn + fn)
        return add_classes(sums) if over_classes and tp.ndim else sums

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
        return (sums.truths + sums.guesses if self.top_k == 1 else sums.truths) > 0


def split_sums(sums: OneVsRestSums) -> tuple[Any, Any, Any, Any]:
    """Return true positives, false positives, true negatives and false negatives."""
    hits, truths, guesses, total = sums
    return hits, guesses - hits, total - truths - guesses + hits, truths - hits


class FourCounts(OneVsRestMetric):
    """Mixin for the stat scores; `THEIRS` computes what is not computed with NumPy."""

    THEIRS: Any = None

    @skip_wrapper
    def compute(self: Any) -> Tensor:
        """Return true positives, false positives, true negatives, false negatives and true samples."""
        average = getattr(self, "average", "binary")
        counts = self.confmat if "confmat" in self._defaults else None
        if counts is None or not is_plain(counts):
            found: Tensor = self.THEIRS.compute(self)
            return found
        sums = self._read_sums(over_classes=average in ("macro", "micro"))
        scores = (*split_sums(sums), sums.truths)
        if average == "macro":
            return convert_to_float32([score / len(counts) for score in scores])
        if isinstance(sums.hits, int):
            return torch.from_numpy(np.array(scores, np.int64))
        table = np.empty((len(counts), 5), np.int64)
        for k, score in enumerate(scores):
            table[:, k] = score
        if average == "weighted":
            samples = np.add.reduce(sums.truths)
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

    THEIRS = theirs.BinaryStatScores


class MulticlassStatScores(Multiclass, FourCounts, theirs.MulticlassStatScores):
    """Drop-in replacement for `torchmetrics.classification.MulticlassStatScores`."""

    THEIRS = theirs.MulticlassStatScores


class MultilabelStatScores(Multilabel, FourCounts, theirs.MultilabelStatScores):
    """Drop-in replacement for `torchmetrics.classification.MultilabelStatScores`."""

    THEIRS = theirs.MultilabelStatScores


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
