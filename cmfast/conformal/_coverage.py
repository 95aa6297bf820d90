"""Coverage confusion: how many prediction sets of each true class contain each class."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cmfast._core import lazy, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure
from cmfast._core.usual_options import explain_options
from cmfast._files.archive import Parts, demand
from cmfast._files.states import TEXT
from cmfast.conformal import _options
from cmfast.conformal._batched_counts import BatchedCounts
from cmfast.conformal._prediction_sets import EmptySets, PredictionSets, count_with_labels, read_empty_rule
from cmfast.kernels.loading import load


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class CoverageCounts(BatchedCounts):
    """Counts of the prediction sets of each true class that contain each class. Returned by :func:`coverage_confusion`.

    ``a + b`` merges two parts of the samples exactly, and ``sum(axis)`` an axis of the batch. Negative counts are
    refused, and 2**61 samples or more raise OverflowError, so counts never overflow.

    Attributes
    ----------
    V : array of int64, shape (..., C, C)
        Number of sets of a true class (rows) that contain a class (columns).
    n : array of int64, shape (..., C)
        Number of sets of every true class.
    empty : {"allow", "top1"}
        Rule for empty sets. Only counts with the same rule can be added.
    """

    V: Array
    n: Array
    empty: EmptySets = "allow"

    _CORES: ClassVar[dict[str, int]] = {"V": 2, "n": 1}
    _SAME: ClassVar[tuple[str, ...]] = ("empty",)
    _TOTALS: ClassVar[tuple[str, ...]] = ("n",)
    _STORED: ClassVar[Parts] = {"batch": (("<i8",), 1), "V": (("<i8",), 3), "n": (("<i8",), 2), "empty": TEXT}
    _OPTIONAL: ClassVar[tuple[str, ...]] = ("empty",)

    def rates(self) -> Array:
        """Return the share of the sets of each true class that contain each class; the diagonal is class coverage.

        Returns
        -------
        array of float64, shape (..., C, C)
            ``V / n``; NaN for a class without samples.
        """
        V, n = adapter(self.V).unwrap(self.V), adapter(self.n).unwrap(self.n)
        with np.errstate(invalid="ignore"):
            return adapter(V).evaluate(lambda V, n: adapter(V).cast(V, np.float64) / n[..., None], V, n)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per true class and class: sets with the class, all sets, their share."""
        n = result_frames.copy_to_host(self.n)[..., None]
        return result_frames.make_frame({"V": self.V, "n": n, "rate": self.rates()}, ("true", "class"))

    def plot(self, *, index: int | tuple[int, ...] | None = None, ax: Any = None) -> Any:
        """Draw the rates of one element of the batch: coverage on the diagonal, wrong classes in sets off it.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index in the batch; default: the only matrix.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.ConfusionDisplay
            The display, drawn. The figure is not shown.

        Raises
        ------
        TypeError, ValueError, IndexError
            `index` does not select one matrix of the batch.

        Examples
        --------
        >>> import numpy as np
        >>> from cmfast import conformal
        >>> counts = conformal.CoverageCounts(
        ...     np.array([[9, 3], [0, 8]]), np.array([10, 8])
        ... )
        >>> counts.plot().counts.tolist()
        [[0.9, 0.3], [0.0, 1.0]]
        """
        place = validate.single_index(index, self._batch(), "matrix")
        rates = result_frames.copy_to_host(self.rates())[place]
        shown = load("cmfast.display").ConfusionDisplay.from_matrix(rates)
        shown._unit = "share of sets"
        shown.plot(ax=ax).ax_.set_xlabel("in the set")
        return shown

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"counts": result_repr.format_shape(self.V), "empty": self.empty}

    def explain(self) -> str:
        """Return a text with the number of sets that contain their true class."""
        V, n = (adapter(x).to_host(x) for x in (self.V, self.n))
        held, total = int(np.diagonal(V, axis1=-2, axis2=-1).sum()), int(n.sum())
        return f"{held:,} of {total:,} sets contain the true class" if total else "no sets"

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Rebuild the counts from the parts of a saved state; refuse inconsistent parts."""
        found = cls._unpack_arrays(parts)
        V, n = found["V"], found["n"]
        demand(V.shape[-1] == V.shape[-2] == n.shape[-1], "its V and n differ in classes")
        demand(bool((n[..., None] >= V).all()), "its V has more than n")
        return cls(V, n, read_empty_rule(parts))


@explain_options
def coverage_confusion(
    sets: PredictionSets,
    /,
    y: Array,
    *,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> CoverageCounts:
    """Count how many prediction sets of each true class contain each class.

    Parameters
    ----------
    sets : PredictionSets
        Prediction sets, from :func:`prediction_sets`.
    y : array of int, shape (..., n)
        The true class of every row.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about labels that are not classes; their rows are left out.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    CoverageCounts
        With the batch of the sets and an axis of alphas. Library and device of the sets.

    Raises
    ------
    TypeError, ValueError
        `sets` is not a PredictionSets; labels of another library, device or shape, or that are not integers.

    See Also
    --------
    ccm : Which classes share sets, without labels.

    Notes
    -----
    Bad values: a label that is not a class (INVALID) is left out and reported as `on_failure` says. Synchronises the
    device unless `on_failure` is "ignore". Reproducible: integers, the same for any split of the samples. Sets of
    Dask arrays give a ``dask.delayed.Delayed``.

    Examples
    --------
    >>> from cmfast import conformal
    >>> P = [[0.5, 0.375, 0.125], [0.25, 0.625, 0.125], [0.125, 0.25, 0.625]]
    >>> sets = conformal.prediction_sets(P, [0.9], randomised=False)
    >>> conformal.coverage_confusion(sets, [0, 0, 2]).rates()[0]
    array([[ 1.,  1.,  0.],
           [nan, nan, nan],
           [ 0.,  1.,  1.]])
    """
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    if not isinstance(sets, PredictionSets):
        validate.refuse("sets", _options.WANTED_SETS, type(sets).__name__, TypeError)
    V, n = count_with_labels("coverage_confusion", sets, y, on_failure, num_threads=num_threads)
    if lazy.are_lazy(V):
        lazily: CoverageCounts = lazy.dask().call_delayed(CoverageCounts, V, n, sets.empty)
        return lazily
    return CoverageCounts._wrap_arrays(V, n, sets.empty)
