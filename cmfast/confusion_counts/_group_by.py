"""Count a confusion matrix per group of a data frame."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from cmfast._core import caller, frames, lazy, table_columns, validate
from cmfast._core.annotations import Array, Ignored
from cmfast._core.usual_options import explain_options
from cmfast.confusion_counts import _count_samples
from cmfast.confusion_counts._counts import ConfusionCounts

if TYPE_CHECKING:
    import dask.dataframe as dd  # noqa: TID251
    import pandas as pd
    import polars as pl
    import pyarrow as pa


@explain_options
def by(
    frame: "pd.DataFrame | pl.DataFrame | pa.Table | dd.DataFrame",
    /,
    groups: str | Sequence[str],
    *,
    y_true: str,
    y_pred: str,
    sample_weight: str | None = None,
    labels: Array | None = None,
    n_classes: int | None = None,
    other: bool = False,
    ignore_index: Ignored = None,
    whole_floats: bool = False,
) -> ConfusionCounts[NDArray[Any]]:
    """Count a confusion matrix for every group of a table.

    Parameters
    ----------
    frame : DataFrame of pandas, polars or Dask, Table of Arrow, or any object that exports an Arrow stream
        The samples, one per row, also wrapped by narwhals. A LazyFrame of polars is collected; a relation of DuckDB or
        another stream of Arrow is read by pyarrow once.
    groups : str or list of str
        Names of the columns that define the groups: labels of any kind.
    y_true, y_pred : str
        Names of the columns of the truth and the prediction.
    sample_weight : str, optional
        Name of the column of the weights.
    labels : array, shape (C,), optional
    n_classes : int, optional
    other : bool
        The classes, as for :class:`ConfusionCounts`.
    ignore_index, whole_floats
        As for :meth:`ConfusionCounts.update`.

    Returns
    -------
    ConfusionCounts
        ``matrix`` has a matrix per group that occurs; ``groups`` has their names, sorted or in the order of a
        categorical; ``table(names)`` returns metrics as a table of the library of `frame`.

    Raises
    ------
    TypeError, ValueError
        Not a table; an unknown column; missing values in a column; weights
        of a Dask DataFrame that are not integers.

    Notes
    -----
    Category codes are used as stored by the library of `frame`. Bad values: as :func:`confusion_matrix`. Does not
    synchronise a device: tables are on the host. Reproducible: same input, same bits. For a Dask DataFrame the result
    is a ``dask.delayed.Delayed`` of the merged counts of all partitions, the same for any partitioning;
    ``table(names)`` of it is a Delayed, too.

    Examples
    --------
    >>> import cmfast, pandas as pd
    >>> frame = pd.DataFrame(
    ...     {"site": ["b", "a", "b"], "label": [1, 0, 1], "guess": [1, 1, 0]}
    ... )
    >>> counts = cmfast.by(frame, "site", y_true="label", y_pred="guess")
    >>> counts.groups, counts.matrix.tolist()
    (('a', 'b'), [[[0, 1], [0, 0]], [[0, 0], [1, 1]]])
    >>> counts.table(["accuracy"])
      site  accuracy
    0    a       0.0
    1    b       0.5
    """
    frame = frames.unwrap_narwhals(frame)
    if lazy.is_dask_frame(frame):
        options = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight, "labels": labels}
        options |= {"n_classes": n_classes, "other": other, "ignore_index": ignore_index, "whole_floats": whole_floats}
        lazily: ConfusionCounts[NDArray[Any]] = _count_partitions(frame, groups, **options)
        return lazily
    frame = frames.read_table("frame", frame)
    named = [groups] if isinstance(groups, str) else groups
    if not isinstance(named, list | tuple) or len(named) == 0:
        validate.refuse("groups", "the name of a column, or a list of them", validate.format_value(groups), TypeError)
    if len(set(map(str, named))) < len(named):
        validate.refuse("groups", "different", validate.format_value(named))
    column = {key: frames.get_column(frame, "groups", key) for key in named}
    counts: ConfusionCounts[NDArray[Any]] = ConfusionCounts(labels=labels, n_classes=n_classes, other=other)
    counts._library = frames.library_name("frame", frame)
    sides = {"y_true": y_true, "y_pred": y_pred}
    sides |= {} if sample_weight is None else {"sample_weight": sample_weight}
    read = table_columns.read_columns(frame, sides)
    with table_columns.name_missing_columns(frame, sides | {"groups": named}):
        counts._update(
            read["y_true"], read["y_pred"], read.get("sample_weight"), column, ignore_index, whole_floats=whole_floats
        )
    counts._held = _count_samples.warn_of_disjoint_labels(counts._held)
    return counts


def _count_partitions(frame: Any, groups: Any, *, sample_weight: Any, **options: Any) -> Any:
    """Count every partition of a Dask DataFrame and merge the counts; return a Delayed."""
    options["sample_weight"] = sample_weight
    by(frame._meta, groups, **options)  # raises any error that every partition would raise
    table_columns.check_lazy_weight(frame, sample_weight)
    return lazy.dask().merge_partitions(_count_partition, ConfusionCounts.merge, frame, groups, options)


def _count_partition(part: Any, k: int, groups: Any, options: dict[str, Any]) -> ConfusionCounts[NDArray[Any]]:
    """Count partition `k` of a Dask DataFrame."""
    with caller.set_task("by", f", in partition {k}", is_part=True):
        return by(part, groups, **options)
