"""Result of matching true and predicted boxes: the partner of every box, and the IoU of the pairs."""

from typing import Any, Generic, NamedTuple

import numpy as np

from cmfast._core import plotting, result_frames, result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT
from cmfast.kernels.shared.detection import UNMATCHED

IOU_BINS = 20


@result_repr.add_repr
class Matches(NamedTuple, Generic[ArrayT]):
    """Partners of true and predicted boxes.

    Attributes
    ----------
    true_index : array of int64, shape (..., m)
        For each prediction the index of its truth; -1 without one, -2 if ignored: below the score threshold, or in a
        crowd region.
    pred_index : array of int64, shape (..., n)
        For each truth the index of its prediction; -1 if missed, -2 for a crowd region.
    iou : array of float64, shape (..., m)
        IoU of each prediction with its truth, 0 without one. In a crowd region: the share of the prediction inside it.
    """

    true_index: ArrayT
    pred_index: ArrayT
    iou: ArrayT

    def _count(self) -> tuple[int, int, int, int]:
        """Return the number of pairs, of missed truths, of predictions without a truth and of ignored ones."""
        truth_of, prediction_of = (adapter(x).to_host(x) for x in self[:2])
        which = truth_of >= 0, prediction_of == UNMATCHED, truth_of == UNMATCHED, truth_of < UNMATCHED
        pairs, missed, false, ignored = (int(np.count_nonzero(mask)) for mask in which)
        return pairs, missed, false, ignored

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        pairs, missed, false, ignored = self._count()
        parts = {"pairs": f"{pairs:,}", "missed": f"{missed:,}", "false": f"{false:,}"}
        return parts | ({"ignored": f"{ignored:,}"} if ignored else {})

    def explain(self) -> str:
        """Return a text with the numbers of pairs, of missed truths and of false predictions."""
        pairs, missed, false, ignored = self._count()
        text = f"{pairs:,} of {pairs + missed:,} true boxes are found; {false:,} predictions are of none"
        return text + (f", {ignored:,} are ignored" if ignored else "")

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per prediction: the index of its truth, and the IoU."""
        return result_frames.make_frame({"true_index": self.true_index, "iou": self.iou}, axes=("prediction",))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a histogram of the IoU of all pairs, with the numbers of missed truths and false predictions.

        Many pairs just above the IoU threshold show that a higher one would lose them.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Examples
        --------
        >>> from cmfast import detection
        >>> found = detection.match(
        ...     [[0, 0, 10, 10]], [[0, 0, 10, 9], [20, 20, 30, 30]]
        ... )
        >>> found.plot().get_title()
        '1 pair, 0 missed, 1 false'
        """
        truth_of, iou = map(result_frames.copy_to_host, (self.true_index, self.iou))
        edges = np.linspace(0.0, 1.0, IOU_BINS + 1)
        heights, _ = np.histogram(iou[truth_of >= 0], edges)
        ax = plotting.draw_steps(ax, [(edges, heights)], [""], ("IoU", "pairs"))
        plotting.set_integer_ticks(ax.yaxis)
        pairs, missed, false, _ = self._count()
        ax.set_xlim(0, 1)
        ax.set_title(f"{pairs:,} pair{'s' * (pairs != 1)}, {missed:,} missed, {false:,} false", fontsize="medium")
        return ax
