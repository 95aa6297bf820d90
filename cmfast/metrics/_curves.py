"""What is known along the thresholds of a score: matrices, curves, and the threshold of least cost."""

from typing import Generic, NamedTuple

from cmfast._core import dispatch, result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT


@result_repr.add_repr
class ThresholdMatrices(NamedTuple, Generic[ArrayT]):
    """Every confusion matrix that a threshold on a score can give.

    Attributes
    ----------
    thresholds : array, shape (..., n + 1)
        Descending, the first infinite: a sample is called positive if its score is at least the threshold.
    matrices : array, shape (..., n + 1, 2, 2)
        The confusion matrix at each; the positive class is 1. int64, float64 with weights that are no integers.
    """

    thresholds: ArrayT
    matrices: ArrayT

    def _parts(self) -> dict[str, str]:
        return {"thresholds": result_repr.format_shape(self.thresholds, 1)}

    def explain(self) -> str:
        """Say in words what it holds."""
        return f"a matrix for each of {dispatch.shape_of(self.thresholds)[-1]:,} thresholds, from all negative on"


@result_repr.add_repr
class Roc(NamedTuple, Generic[ArrayT]):
    """Rates along the thresholds of a score.

    Attributes
    ----------
    thresholds : array, shape (..., t)
        As in :class:`ThresholdMatrices`.
    fpr, tpr : array of float64, shape (..., t)
        Shares of the negative and of the positive samples that are called positive; NaN where there are none.
    """

    thresholds: ArrayT
    fpr: ArrayT
    tpr: ArrayT

    def _parts(self) -> dict[str, str]:
        return {"thresholds": result_repr.format_shape(self.thresholds, 1)}

    def explain(self) -> str:
        """Say in words what it holds."""
        return f"both rates at each of {dispatch.shape_of(self.thresholds)[-1]:,} thresholds, from all negative on"


@result_repr.add_repr
class PrecisionRecall(NamedTuple, Generic[ArrayT]):
    """Precision and recall along the thresholds of a score.

    Attributes
    ----------
    thresholds : array, shape (..., t)
        As in :class:`ThresholdMatrices`.
    precision, recall : array of float64, shape (..., t)
        1 where nothing is called positive, and where nothing is positive.
    """

    thresholds: ArrayT
    precision: ArrayT
    recall: ArrayT

    def _parts(self) -> dict[str, str]:
        return {"thresholds": result_repr.format_shape(self.thresholds, 1)}

    def explain(self) -> str:
        """Say in words what it holds."""
        n = dispatch.shape_of(self.thresholds)[-1]
        return f"precision and recall at each of {n:,} thresholds, from all negative on"


@result_repr.add_repr
class LeastCost(NamedTuple, Generic[ArrayT]):
    """The threshold of least cost.

    Attributes
    ----------
    threshold : array, shape (...)
        The highest, if several cost the same; infinite where it is best to call nothing positive.
    cost : array of float64, shape (...)
        What all samples cost there.
    matrix : array, shape (..., 2, 2)
        The confusion matrix there.
    """

    threshold: ArrayT
    cost: ArrayT
    matrix: ArrayT

    def _parts(self) -> dict[str, str]:
        return {"threshold": result_repr.format_values(self.threshold), "cost": result_repr.format_values(self.cost)}

    def explain(self) -> str:
        """Say in words what to do."""
        if not adapter(self.matrix).any(self.matrix):
            return "no samples, so no threshold costs anything"
        return f"call positive what scores at least {result_repr.format_values(self.threshold)}; that costs least"
