"""Tables derived from a confusion matrix: one-vs-rest tables, row shares, most confused class pairs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import axis_names, bad_values, dispatch, failures, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, DeviceT, Floats, OnFailure, Undefined
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.usual_options import explain_options
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import FORMS

MOST_LABEL_CHARACTERS = 24  # of a label in a repr of one line
By: TypeAlias = Literal["count", "rate", "symmetric", "symmetric_rate"]


@accept_dask_arrays(M="CC")
def _run_op(
    op: str,
    M: Array,
    on_failure: OnFailure,
    num_threads: int | None,
    classes: Sequence[int] | None = None,
    **options: Any,
) -> list[Any]:
    """Run the op `op` on matrices, report failures, and return its results for `classes` (None for all)."""
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    (M,) = dispatch.adopt(M=M)
    C, _ = validate.matrices(square=True, M=M)
    chosen = _plan.validate_class_ids(classes, C, "classes")
    found: list[Any]
    *found, status = dispatch.call(op, M, num_threads=num_threads, **options)
    failures.report(status, on_failure, failed="matrices left out", why=partial(bad_values.explain_sum, M))
    if chosen is None:
        return found
    some = list(chosen)
    return [adapter(part).evaluate(lambda part: part[..., some, :, :], part) for part in found]


@overload
def one_vs_rest(
    M: DeviceT,
    /,
    *,
    classes: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def one_vs_rest(
    M: ArrayLike,
    /,
    *,
    classes: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> NDArray[Any]: ...
@explain_options
def one_vs_rest(
    M: Array,
    /,
    *,
    classes: Sequence[int] | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Split a confusion matrix into one 2x2 table per class: ``[[tn, fp], [fn, tp]]``.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Counts or any normalisation of them.
    classes : sequence of int, optional
        Classes to return tables of, in this order; all others remain negatives. Default: all.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values; their tables are 0, or NaN for fractions.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (..., C, 2, 2)
        int64 for integers, float32 if `M` is, else float64.

    Examples
    --------
    >>> from cmfast import metrics
    >>> found = metrics.one_vs_rest(
    ...     [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
    ... )
    >>> found[0].tolist()
    [[510, 40], [30, 420]]
    """
    return _run_op("one_vs_rest", M, on_failure, num_threads, classes)[0]


@overload
def confusion_fractions(
    M: DeviceT,
    /,
    *,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def confusion_fractions(
    M: ArrayLike,
    /,
    *,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@explain_options
def confusion_fractions(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Divide each row by its sum: the share of each true class predicted as each class, ``M[i, j] / t[i]``.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Counts or any normalisation of them.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of the cells of a row that sums to 0: 0, NaN, NaN, 0, 1 or the given number.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values, which give NaN.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (..., C, C), float32 if `M` is, else float64
        Rows sum to one.

    Examples
    --------
    >>> from cmfast import metrics
    >>> found = metrics.confusion_fractions([[3, 1], [0, 0]], undefined="nan")
    >>> found.tolist()
    [[0.75, 0.25], [nan, nan]]
    """
    _plan.check_undefined(undefined)
    fill = _plan.get_undefined_value(FORMS["recall"].metric, undefined)
    return _run_op("confusion_fractions", M, on_failure, num_threads, fill=fill)[0]


@result_repr.add_repr
class Confusions(NamedTuple, Generic[ArrayT]):
    """The largest confusions of a batch of matrices, largest first.

    Attributes
    ----------
    value : array of float64, shape (..., k)
        Size of the confusion, as `by` of :func:`most_confused` defines it.
    row, col : array of int64, shape (..., k)
        True class and predicted class; for the symmetric kinds the smaller and the larger class.
    """

    value: ArrayT
    row: ArrayT
    col: ArrayT

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """Labels of the "group" of each matrix and of the "class" indices; {} if a matrix without names was given."""
        return axis_names.get_axes(self)

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return self._named_parts(str)

    def _named_parts(self, name: Callable[[object], str]) -> dict[str, str]:
        """Return the parts, with the labels of the first pair, if known, rendered by `name`."""
        parts = {
            "pairs": result_repr.format_shape(self.value, 1),
            "value": result_repr.format_largest(self.value, ".4g"),
        }
        row, col = (adapter(x).to_host(x) for x in (self.row, self.col))
        if not self.axes or row.ndim != 1 or not row.size or row[0] < 0:
            return parts
        first, second = (name(_shorten(self.axes["class"][side[0]])) for side in (row, col))
        return parts | {"first": f"{first} and {second}"}

    def explain(self, display_labels: Sequence[object] | NDArray[Any] | None = None) -> str:
        """Return a text that lists the confused pairs of classes; for a batch, only the number of matrices.

        Parameters
        ----------
        display_labels : sequence, optional
            Class names in order; default: those of the counts, else the class indices.
        """
        return self._explain(str, display_labels)

    def _explain(self, name: Callable[[object], str], labels: Sequence[object] | NDArray[Any] | None = None) -> str:
        """Return the text of `explain`, with labels rendered by `name`."""
        labels = self.axes.get("class") if labels is None else labels
        value, row, col = (adapter(x).to_host(x) for x in self)
        if value.ndim > 1:
            return f"the largest confusions of {value[..., 0].size:,} matrices, one row per matrix"
        n_classes = int(max(row.max(initial=-1), col.max(initial=-1))) + 1
        names = np.asarray(range(n_classes) if labels is None else labels, object)
        if names.ndim != 1 or len(names) < n_classes:
            validate.refuse(
                "display_labels", f"names of all classes, at least {n_classes}", validate.format_value(labels)
            )
        what = "class " if labels is None else ""
        triples = zip(value, row, col, strict=True)
        found = [f"{what}{name(names[i])} and {name(names[j])}: {x:.6g}" for x, i, j in triples if i >= 0]
        return "\n".join(found) or "no confusions"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per pair of classes, the largest confusion first.

        `row` and `col` are labels if counts with labels were given, else class indices.
        """
        frame = result_frames.make_frame(self._asdict(), ("rank",))
        if self.axes:
            *batch, labels = self.axes.values()
            for column in ("row", "col"):
                frame[column] = [None if k < 0 else labels[k] for k in frame[column]]
            if batch:
                frame["batch"] = [batch[0][k] for k in frame["batch"]]
                frame = frame.rename(columns={"batch": "group"})
        return frame

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a bar for each pair of classes, the largest confusion first; it must be those of one matrix.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        value, row, col = (result_frames.copy_to_host(x) for x in self)
        if value.ndim != 1:
            validate.fail(f"plot draws the confusions of one matrix, got a batch of {value.shape[:-1]}")
        labels, found = self.axes.get("class"), row >= 0
        names = [str(k) if labels is None else _shorten(labels[k]) for k in (*row[found], *col[found])]
        pairs = [" and ".join(pair) for pair in zip(names[: len(names) // 2], names[len(names) // 2 :], strict=True)]
        texts = [f"{x:.4g}" for x in value[found]]
        return plotting.draw_bars(ax, pairs, value[found].tolist(), texts, "confusion")


def _shorten(label: object) -> str:
    """Return a label as text of at most 24 characters."""
    text = str(label)
    return text if len(text) <= MOST_LABEL_CHARACTERS else f"{text[: MOST_LABEL_CHARACTERS - 3]}..."


@overload
def most_confused(
    M: DeviceT,
    /,
    k: int = ...,
    *,
    by: By = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Confusions[DeviceT]: ...
@overload
def most_confused(
    M: ArrayLike,
    /,
    k: int = ...,
    *,
    by: By = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Confusions[NDArray[Any]]: ...
@explain_options
def most_confused(
    M: Array,
    /,
    k: int = 5,
    *,
    by: By = "count",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Confusions[Any]:
    """Find the pairs of classes that are confused most.

    Parameters
    ----------
    M : array, shape (..., C, C), or ConfusionCounts
        Counts or any normalisation of them. The result of ConfusionCounts knows their labels.
    k : int
        Number of pairs to return; fewer if the matrix has fewer pairs.
    by : {"count", "rate", "symmetric", "symmetric_rate"}
        ``M[i, j]``; ``M[i, j] / t[i]``; the sum of either over both directions. A class that is never true has rate 0.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values, which give NaN and the classes -1.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Confusions
        Ties are ordered by row, then column.

    Examples
    --------
    >>> from cmfast import metrics
    >>> value, row, col = metrics.most_confused(
    ...     [[420, 15, 15], [10, 280, 10], [30, 20, 200]], 2
    ... )
    >>> value.tolist(), row.tolist(), col.tolist()
    ([30.0, 20.0], [2, 2], [0, 1])
    """
    validate.choice("by", by, get_args(By))
    k = validate.count("k", k, least=1)
    found = Confusions(*_run_op("most_confused", M, on_failure, num_threads, k=k, by=by))
    return axis_names.name_axes(found, axis_names.get_axes_of_counts(M))
