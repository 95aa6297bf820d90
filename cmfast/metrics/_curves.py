"""Result types of functions of scores: threshold matrices, ROC and precision-recall curves, least cost."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

from cmfast._core import dispatch, plot_style, plotting, result_frames, result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT
from cmfast.kernels.loading import load


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

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per threshold."""
        return result_frames.make_frame(
            {"threshold": self.thresholds, **result_frames.split_table(self.matrices)}, ("point",)
        )

    def plot(self, names: str | Sequence[str] = ("precision", "recall", "f1"), *, ax: Any = None) -> Any:
        """Draw metrics by the decision threshold, a line for each metric and element of a batch.

        Parameters
        ----------
        names : str or list of str
            Names of :func:`cmfast.metrics.compute`. Of a metric per class, the value of class 1 is taken.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Raises
        ------
        TypeError, ValueError
            An unknown metric.

        Examples
        --------
        >>> from cmfast import metrics
        >>> found = metrics.threshold_matrices([1, 0, 1], [0.9, 0.2, 0.6])
        >>> ax = found.plot("recall")
        >>> ax.lines[0].get_xdata().tolist(), ax.lines[0].get_ydata().tolist()
        ([0.9, 0.6, 0.2], [0.5, 1.0, 1.0])
        """
        given = [names] if isinstance(names, str) else names
        found = load("cmfast.metrics").compute(self.matrices, given, undefined="nan", on_failure="ignore")
        ax = plotting.get_axes(ax, (5.6, 3.6))
        colours = plot_style.list_line_colours(plotting.match_palette(ax).ground)
        thresholds = result_frames.copy_to_host(self.thresholds)
        for k, (name, values) in enumerate(found.items()):
            host = result_frames.copy_to_host(values)
            rows = (host if host.ndim == thresholds.ndim else host[..., 1]).reshape(-1, thresholds.shape[-1])
            for i, (at, row) in enumerate(zip(thresholds.reshape(rows.shape), rows, strict=True)):
                look = {"color": colours[k % len(colours)], "label": None if i else name}
                ax.plot(at[1:], row[1:], drawstyle="steps-post", **look)
        ax.set(xlabel="threshold", ylabel="metric")
        ax.legend(fontsize="small", frameon=False)
        return ax


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

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per threshold."""
        return result_frames.make_frame({"threshold": self.thresholds, "fpr": self.fpr, "tpr": self.tpr}, ("point",))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the curve, one line for each of a batch.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        fpr, tpr = map(result_frames.copy_to_host, (self.fpr, self.tpr))
        return plotting.draw_rates(ax, fpr, tpr, ("false positive rate", "true positive rate"))


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

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per threshold."""
        return result_frames.make_frame(
            {"threshold": self.thresholds, "precision": self.precision, "recall": self.recall}, ("point",)
        )

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the curve, one line for each of a batch.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        recall, precision = map(result_frames.copy_to_host, (self.recall, self.precision))
        return plotting.draw_rates(ax, recall, precision, ("recall", "precision"))


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

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with one row, or a row per element of a batch."""
        return result_frames.make_frame(
            {"threshold": self.threshold, "cost": self.cost, **result_frames.split_table(self.matrix)}
        )

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the confusion matrix at the threshold.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.ConfusionDisplay
            The display, drawn. The figure is not shown.
        """
        return load("cmfast.display").ConfusionDisplay.from_matrix(self.matrix).plot(ax=ax)
