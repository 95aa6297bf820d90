"""Data frames and pictures of tables of any number of axes, by which results of margins show themselves."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cmfast._core import axis_names, dispatch, plotting, result_frames, validate
from cmfast._core.libraries import load_pandas
from cmfast.kernels.loading import find_loaded_module, load

R = TypeVar("R", bound=tuple[Any, ...])
MOST_TICKS = 40  # categories up to which each has a tick
MOST_CELLS = 25_000_000  # of two axes of listed cells that are drawn as a heat map


class TableNames(NamedTuple):
    """Names of the axes of a table, and of the entries along each; coordinates of its cells if these are listed.

    Attributes
    ----------
    axes : tuple of str
        Name of each axis.
    labels : tuple of sequence, or None
        Categories of each axis; None for an axis of indices.
    margins : tuple of tuple of int
        Axes that each margin keeps.
    coords : array of int64, shape (axes, n), or None
        Category of each listed cell on each axis; None for a table with all of its cells.
    """

    axes: tuple[str, ...]
    labels: tuple[Sequence[Any] | None, ...]
    margins: tuple[tuple[int, ...], ...]
    coords: np.ndarray | None = None

    def describe_margins(self) -> str:
        """Return the names of the axes that each margin keeps, as one short text."""
        each = [" x ".join(self.axes[axis] for axis in of) or "total" for of in self.margins]
        return validate.format_value(", ".join(each), str)


class AxisIndexes(NamedTuple):
    """Indexes of pandas that name axes of a table, by axis, and the axes that each margin keeps."""

    indexes: dict[int, Any]
    margins: tuple[tuple[int, ...], ...]

    def name_axes(self, sizes: Sequence[int | None], coords: np.ndarray | None = None) -> TableNames:
        """Return the names of all axes; an axis without an index has its indices as labels, if it has a size."""
        names = [f"axis_{axis}" for axis in range(len(sizes))]
        for axis, index in self.indexes.items():
            if index.name is not None and str(index.name) not in names:
                names[axis] = str(index.name)
        labels = [self.indexes.get(axis, None if n is None else range(n)) for axis, n in enumerate(sizes)]
        return TableNames(tuple(names), tuple(labels), self.margins, coords)


def read_names(M: Any, axes: tuple[tuple[int, ...], ...], targets: list[Any], ndim: int = 2) -> AxisIndexes | None:
    """Return the indexes that a DataFrame `M`, and Series of targets of one axis, give a table; None without any.

    The table has the last `ndim` axes of `M`; if this is one, rows of a DataFrame are a batch. Raises ValueError if
    two of them have other labels, or other orders of labels, on one axis.
    """
    pd = find_loaded_module("pandas")
    if pd is None:
        return None
    of_table = (M.index, M.columns)[-ndim:] if isinstance(M, pd.DataFrame) else ()
    indexes: dict[int, Any] = dict(enumerate(of_table))
    _check_labels(indexes, axes, targets)
    for of, target in zip(axes, targets, strict=True):
        if len(of) == 1 and isinstance(target, pd.Series) and not _has_names(indexes.get(of[0])):
            indexes[of[0]] = target.index
    indexes = {axis: index for axis, index in indexes.items() if _has_names(index)}
    return AxisIndexes(indexes, axes) if indexes else None


def _check_labels(indexes: Mapping[int, Any], axes: tuple[tuple[int, ...], ...], targets: list[Any]) -> None:
    """Raise ValueError if Series and DataFrames of targets have other labels than a table, or than one another.

    `indexes` are those of the table by axis. The default index 0..n-1 has no labels; other lengths raise elsewhere.
    """
    pd: Any = find_loaded_module("pandas")
    known = {axis: ("M", index) for axis, index in indexes.items()}
    for k, (of, target) in enumerate(zip(axes, targets, strict=True)):
        if not isinstance(target, pd.Series | pd.DataFrame) or target.ndim < len(of):
            continue
        for axis, index in zip(of, target.axes[target.ndim - len(of) :], strict=True):
            name = f"target of margins[{k}]"
            first, labels = known.setdefault(axis, (name, index))
            if not _has_labels(labels):
                known[axis] = (name, index)
            elif _has_labels(index) and len(index) == len(labels) and list(index) != list(labels):
                shown = " and ".join(validate.format_value(list(each)) for each in (labels, index))
                validate.fail(
                    f"{first} and {name} must have the same labels in one order on axis {axis}, as they are matched by "
                    f"position, got {shown}; give arrays, by .to_numpy(), if their order is meant"
                )


def _has_labels(index: Any) -> bool:
    """Whether an index has entries other than 0, 1, ..."""
    return list(index) != list(range(len(index)))


def name_table(result: R, names: TableNames) -> R:
    """Return the result with the names of axes and categories."""
    return axis_names.name_axes(result, {}, "", {"names": names})


def name_dense_table(result: R, named: AxisIndexes | None, ndim: int) -> R:
    """Return the result of tables with all of their cells with the names of axes, if there are any."""
    return result if named is None else name_table(result, named.name_axes([None] * ndim))


def name_cells(result: R, named: AxisIndexes | None, coords: Any, sizes: tuple[int, ...]) -> R:
    """Return the result of listed cells with the names of axes, if there are any."""
    if named is None:
        return result
    return name_table(result, named.name_axes(sizes, result_frames.copy_to_host(coords).astype(np.int64)))


def _has_names(index: Any) -> bool:
    """Whether an index has a name, or entries other than 0, 1, ..."""
    return index is not None and (index.name is not None or _has_labels(index))


def make_table_frame(table: Any, batch: tuple[int, ...], names: TableNames | None = None) -> Any:
    """Return a DataFrame with a row per cell of tables: its index or category on each axis, and its value."""
    n_axes = len(dispatch.shape_of(table)) - len(batch)
    if names is None:
        return result_frames.make_frame({"value": table}, tuple(f"axis_{k}" for k in range(n_axes)))
    pd = load_pandas()
    frame = result_frames.make_frame({"value": table}, tuple(f"axis_{k}" for k in range(n_axes)))
    codes = [frame.pop(f"axis_{k}").to_numpy() for k in range(n_axes)]
    if names.coords is not None:
        codes = [line[codes[0]] for line in names.coords]
    value = frame.pop("value")
    columns = {name: frame[name] for name in frame.columns}  # of the batch
    for name, labels, at in zip(names.axes, names.labels, codes, strict=True):
        columns[name] = at if labels is None else pd.Index(labels, tupleize_cols=False).take(at)
    return pd.DataFrame({**columns, "value" if "value" not in columns else "scaled value": value})


def draw_margin(
    table: Any, batch: tuple[int, ...], index: Any, axes: Any, ax: Any, names: TableNames | None = None
) -> Any:
    """Draw the sums of one table of a batch over all but one or two `axes`; return the axes of the plot.

    Two axes are drawn as a heat map, one as steps.
    """
    host = result_frames.copy_to_host(table)[validate.single_index(index, batch, "table")]
    is_listed = names is not None and names.coords is not None
    kept = _validate_axes(axes, host.ndim if names is None else len(names.axes), names)
    if is_listed:
        sums = _add_listed_cells(host, names, kept)  # type: ignore[arg-type]
    else:
        with np.errstate(over="ignore"):
            sums = np.asarray(host, np.float64).sum(axis=tuple(k for k in range(host.ndim) if k not in kept))
            sums = sums.T if len(kept) == 2 and kept[0] > kept[1] else sums
    titles = tuple(f"axis {axis}" if names is None or names.labels[axis] is None else names.axes[axis] for axis in kept)
    if len(kept) == 1:
        edges = np.arange(len(sums) + 1) - 0.5
        ax = plotting.draw_steps(ax, [(edges, sums)], [""], (titles[0], "value"))
        plotting.set_integer_ticks(ax.xaxis)
        _name_ticks(ax.xaxis, names, kept[0])
        return ax
    ax = load("cmfast.display._tables").draw_table(ax, sums, titles, "value")
    _name_ticks(ax.yaxis, names, kept[0])
    _name_ticks(ax.xaxis, names, kept[1])
    return ax


def _add_listed_cells(cells: np.ndarray, names: TableNames, kept: tuple[int, ...]) -> np.ndarray:
    """Return the sums of listed cells over all axes but those `kept`."""
    coords: Any = names.coords
    shape = tuple(len(names.labels[axis]) for axis in kept)  # type: ignore[arg-type]  # all are known
    if np.prod(shape, dtype=np.float64) > MOST_CELLS:
        sizes = " x ".join(f"{size:,}" for size in shape)
        validate.refuse("axes", f"one or two axes with at most {MOST_CELLS:,} combinations", sizes)
    sums = np.zeros(shape)
    with np.errstate(over="ignore"):
        np.add.at(sums, tuple(coords[axis] for axis in kept), np.asarray(cells, np.float64))
    return sums


def _name_ticks(axis: Any, names: TableNames | None, of: int) -> None:
    """Label the ticks of a plot's axis by the categories of an axis of the table, if there are not too many."""
    labels = None if names is None else names.labels[of]
    if labels is None or len(labels) > MOST_TICKS:
        return
    texts = load("cmfast.display._painting").shorten_names([str(label) for label in labels])
    is_long = axis.axis_name == "x" and sum(map(len, texts)) > MOST_TICKS
    axis.set_ticks(range(len(labels)), texts, rotation=90 if is_long else 0)


def _validate_axes(axes: Any, n_axes: int, names: TableNames | None) -> tuple[int, ...]:
    """Validate one or two different axes of a table, indices or names; None selects the first two."""
    if axes is None:
        return tuple(range(min(n_axes, 2)))
    given = axes if isinstance(axes, tuple | list) else (axes,)
    known = () if names is None else names.axes
    found = []
    for axis in given:
        if isinstance(axis, str) and known:
            if axis not in known:
                wanted = f"axes of the table: {validate.format_value(', '.join(known), str)}"
                validate.refuse("axes", wanted, f"{axis!r}{validate.suggest_name(axis, known)}")
            found.append(known.index(axis))
        else:
            found.append(validate.count("axes", axis, most=n_axes - 1))
    if not 1 <= len(found) <= 2 or len(set(found)) < len(found):
        validate.refuse("axes", "one axis of the table, or two different ones", axes)
    return tuple(found)
