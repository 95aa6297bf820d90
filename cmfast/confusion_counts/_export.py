"""Export counts and their metrics to pandas, polars, Arrow, xarray and HTML."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from cmfast._core import confused_pairs, result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast._core.libraries import load_library, load_pandas
from cmfast._core.markup import escape_name, escape_prose, isolate
from cmfast.confusion_counts._label_axis import get_kind
from cmfast.confusion_counts._state import CountsState

LIBRARIES = ("pandas", "polars", "pyarrow")


def to_pandas(held: CountsState) -> Any:
    """Return a DataFrame with a row per true label, or per group and true label."""
    pd = load_pandas()
    labels = list(held.axis.labels)
    columns = pd.Index(labels, name="predicted")
    M = held.whole()
    M = adapter(M).to_host(M)
    if held.keys is None:
        return pd.DataFrame(M, pd.Index(labels, name="true"), columns)
    groups = zip(*([key] if len(held.keys.names) == 1 else key for key in held.keys.labels), strict=True)
    levels = [np.repeat(np.array(level, object), len(labels)) for level in groups]
    levels = levels or [np.empty(0, object)] * len(held.keys.names)
    index = pd.MultiIndex.from_arrays([*levels, labels * len(held.keys.rows)], names=[*held.keys.names, "true"])
    return pd.DataFrame(M.reshape(-1, len(labels)), index, columns)


def to_html(held: CountsState, said: str) -> str:
    """Return the counts as HTML: caption `said`, the matrix if it is small and without groups, and an explanation."""
    labels = [escape_name(label) for label in held.axis.labels]
    head = f"<table><caption>{escape_prose(said)}</caption>"
    foot = f"</table><p>{escape_prose(explain_counts(held, isolate))}</p>"
    if held.keys is not None or not 0 < len(labels) <= result_repr.MOST_SHOWN_CLASSES:
        return f"{head}{foot}"
    names = "".join(f"<th>{label}</th>" for label in labels)
    M = held.whole()
    rows = "".join(
        f"<tr><th>{label}</th>{''.join(f'<td>{x:,}</td>' for x in row)}</tr>"
        for label, row in zip(labels, adapter(M).to_host(M).tolist(), strict=True)
    )
    return f"{head}<thead><tr><th>true \\ predicted</th>{names}</tr></thead><tbody>{rows}</tbody>{foot}"


def explain_counts(held: CountsState, name: Callable[[object], str] = str) -> str:
    """Return a sentence on the accuracy and the confusions that stand out; with groups, on the worst and best group.

    Labels and groups are formatted by `name`.
    """
    M = held.whole()
    M = np.asarray(adapter(M).to_host(M), np.float64)
    if not (np.isfinite(M) & (M >= 0)).all():
        return "some counts are negative or not finite, because of their weights"
    total = M.sum()
    if not total:
        return "nothing was counted"
    right = M.trace(axis1=-2, axis2=-1)
    said = f"{right.sum() / total:.1%} of {total:,.10g} samples are right"
    if held.keys is None:
        return f"{said}; {_describe_worst(M, [name(label) for label in held.axis.labels])}"
    of_groups = M.sum(axis=(-2, -1))
    known = np.flatnonzero(of_groups)
    shares, names = right[known] / of_groups[known], held.keys.labels
    ends = [f"{shares[k]:.1%} of {name(names[known[k]])}" for k in (shares.argmin(), shares.argmax())]
    return f"{said}, in {len(of_groups):,} groups: {ends[0]} to {ends[1]}"


def _describe_worst(M: np.ndarray, labels: Sequence[str]) -> str:
    """Return a sentence on the class of lowest recall and on confusions that stand out, if significant."""
    found, true, right = confused_pairs.describe_confusions(M, labels), M.sum(axis=1), M.diagonal()
    whole = bool((np.floor(M) == M).all())
    k = confused_pairs.find_least_recall(right, true) if whole else None
    return found if k is None else f"least found is {labels[k]}, {right[k] / true[k]:.1%} of which is; {found}"


def to_xarray(held: CountsState) -> Any:
    """Return a DataArray with the labels and groups as coordinates."""
    xr = load_library("xarray")
    labels = _make_coordinate(held.axis.labels)
    dims: tuple[str, ...] = ("true", "predicted")
    coords: dict[str, Any] = {"true": labels, "predicted": labels}
    if held.keys is not None:
        names = held.keys.names
        dims = ("group", *dims)
        columns = [[key] if len(names) == 1 else key for key in held.keys.labels]
        for c, name in enumerate(names):
            while name in coords:  # names of the class coordinates are reserved
                name = f"'{name}'"  # noqa: PLW2901
            coords[name] = ("group", _make_coordinate([key[c] for key in columns]))
    M = held.whole()
    found = xr.DataArray(adapter(M).to_host(M), coords, dims, name="counts")
    if held.keys is None or "group" in coords:  # a column called "group" is the index already
        return found
    called = [name for name in coords if name not in ("true", "predicted")]
    return found.set_index(group=called) if len(called) > 1 else found.assign_coords(group=found[called[0]].values)


def _make_coordinate(labels: Any) -> np.ndarray:
    """Return labels as a coordinate array."""
    if not len(labels):
        return np.empty(0, np.int64)
    return np.array(list(labels), object if _are_mixed(labels) else None)


def _are_mixed(labels: Iterable[Any]) -> bool:
    """Whether the labels are of several kinds, as integers and the name of the rest."""
    return len({get_kind(label) for label in labels} - {"booleans"}) > 1


def make_metric_table(held: CountsState, metrics: dict[str, Array], library: str, labels: Iterable[Any]) -> Any:
    """Return metrics as table columns, after columns for the groups and, for metrics per class, the class."""
    labels = list(labels)
    if library != "pandas" and _are_mixed(labels):
        labels = list(map(str, labels))
    G, C = (1 if held.keys is None else len(held.keys.rows)), len(labels)
    host = {name: adapter(value).to_host(value) for name, value in metrics.items()}
    ndim = 0 if held.keys is None else 1
    per_class = any(value.ndim > ndim for value in host.values())
    times = C if per_class else 1
    columns: dict[str, Any] = {}
    if held.keys is not None:
        rows = [(key,) if len(held.keys.names) == 1 else key for key in held.keys.labels]
        taken = {"class", *host} if per_class else {*host}
        for c, name in enumerate(held.keys.names):
            while name in taken or name in columns:  # column names must be unique
                name = f"'{name}'"  # noqa: PLW2901
            columns[name] = [row[c] for row in rows for _ in range(times)]
    if per_class:
        columns["class"] = labels * G
    for name, value in host.items():
        columns[name] = value.reshape(-1) if value.ndim > ndim else np.repeat(value.reshape(-1), times)
    module = load_library(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
