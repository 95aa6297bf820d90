"""Result types of functions of scores: threshold matrices, ROC and precision-recall curves, least cost."""

from typing import Generic, NamedTuple

from cmfast._core import dispatch, result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT


@result_repr.add_repr
class ThresholdMatrices(NamedTuple, Generic[ArrayT]):
    """Confusion matrices at every distinct decision threshold of a score.

    Attributes
    ----------
    thresholds : array, shape (..., n + 1)
        Descending, the first infinite: a sample is called positive if its score is at least the threshold.
    matrices : array, shape (..., n + 1, 2, 2)
        The confusion matrix at each threshold; the positive class is 1. int64, or float64 for non-integer weights.
    """

    thresholds: ArrayT
    matrices: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"thresholds": result_repr.format_shape(self.thresholds, 1)}

    def explain(self) -> str:
        """Return a text with the number of thresholds."""
        return f"a matrix for each of {dispatch.shape_of(self.thresholds)[-1]:,} thresholds, from all negative on"


@result_repr.add_repr
class Roc(NamedTuple, Generic[ArrayT]):
    """ROC curve: false and true positive rates at the thresholds of a score.

    Attributes
    ----------
    thresholds : array, shape (..., t)
        As in :class:`ThresholdMatrices`.
    fpr, tpr : array of float64, shape (..., t)
        Shares of the negative and of the positive samples that are called positive; NaN without such samples.
    """

    thresholds: ArrayT
    fpr: ArrayT
    tpr: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"thresholds": result_repr.format_shape(self.thresholds, 1)}

    def explain(self) -> str:
        """Return a text with the number of thresholds."""
        return f"both rates at each of {dispatch.shape_of(self.thresholds)[-1]:,} thresholds, from all negative on"


@result_repr.add_repr
class PrecisionRecall(NamedTuple, Generic[ArrayT]):
    """Precision-recall curve: precision and recall at the thresholds of a score.

    Attributes
    ----------
    thresholds : array, shape (..., t)
        As in :class:`ThresholdMatrices`.
    precision, recall : array of float64, shape (..., t)
        Precision is 1 where no sample is called positive; recall is 1 if no sample is positive.
    """

    thresholds: ArrayT
    precision: ArrayT
    recall: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"thresholds": result_repr.format_shape(self.thresholds, 1)}

    def explain(self) -> str:
        """Return a text with the number of thresholds."""
        n = dispatch.shape_of(self.thresholds)[-1]
        return f"precision and recall at each of {n:,} thresholds, from all negative on"


@result_repr.add_repr
class LeastCost(NamedTuple, Generic[ArrayT]):
    """The decision threshold of least total cost, with its cost and confusion matrix.

    Attributes
    ----------
    threshold : array, shape (...)
        The highest of equally cheap thresholds; infinite if calling no sample positive costs least.
    cost : array of float64, shape (...)
        Total cost of all samples at the threshold.
    matrix : array, shape (..., 2, 2)
        The confusion matrix at the threshold.
    """

    threshold: ArrayT
    cost: ArrayT
    matrix: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"threshold": result_repr.format_values(self.threshold), "cost": result_repr.format_values(self.cost)}

    def explain(self) -> str:
        """Return a text that states the threshold of least cost."""
        if not adapter(self.matrix).any(self.matrix):
            return "no samples, so every threshold costs 0"
        return f"cost is least if scores of at least {result_repr.format_values(self.threshold)} are called positive"
