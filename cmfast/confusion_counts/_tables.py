"""Counts and their metrics as tables of other libraries."""

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from cmfast._core import dispatch, reading, validate
from cmfast._core.annotations import Array
from cmfast.confusion_counts._held import Held

LIBRARIES = ("pandas", "polars", "pyarrow")


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        validate.fail(f"{name} is not installed", ImportError)


def to_pandas(held: Held) -> Any:
    """Return a frame with a row per group and true label."""
    pd = _library("pandas")
    labels = list(held.axis.labels)
    columns = pd.Index(labels, name="predicted")
    M = dispatch.to_host(held.whole())
    if held.keys is None:
        return pd.DataFrame(M, pd.Index(labels, name="true"), columns)
    groups = zip(*([key] if len(held.keys.names) == 1 else key for key in held.keys.labels), strict=True)
    levels = [np.repeat(np.array(level, object), len(labels)) for level in groups]
    levels = levels or [np.empty(0, object)] * len(held.keys.names)
    index = pd.MultiIndex.from_arrays([*levels, labels * len(held.keys.rows)], names=[*held.keys.names, "true"])
    return pd.DataFrame(M.reshape(-1, len(labels)), index, columns)


def to_html(held: Held, said: str) -> str:
    """Return the counts as an HTML table where they are one matrix that can be read, below what is `said` of them."""
    head = f"<p>{escape(said)}</p>"
    labels = [escape(str(label)) for label in held.axis.labels]
    if held.keys is not None or not 0 < len(labels) <= reading.WIDEST:
        return head
    names = "".join(f"<th>{label}</th>" for label in labels)
    rows = "".join(
        f"<tr><th>{label}</th>{''.join(f'<td>{x:,}</td>' for x in row)}</tr>"
        for label, row in zip(labels, dispatch.to_host(held.whole()).tolist(), strict=True)
    )
    return f"{head}<table><thead><tr><th>true \\ predicted</th>{names}</tr></thead><tbody>{rows}</tbody></table>"


def to_xarray(held: Held) -> Any:
    """Return an array with the labels and groups as coordinates."""
    xr = _library("xarray")
    labels = _coordinate(held.axis.labels)
    dims: tuple[str, ...] = ("true", "predicted")
    coords: dict[str, Any] = {"true": labels, "predicted": labels}
    if held.keys is not None:
        names = held.keys.names
        dims = ("group", *dims)
        columns = [[key] if len(names) == 1 else key for key in held.keys.labels]
        coords |= {name: ("group", _coordinate([key[c] for key in columns])) for c, name in enumerate(names)}
    return xr.DataArray(dispatch.to_host(held.whole()), coords, dims, name="counts")


def _coordinate(labels: Any) -> np.ndarray:
    return np.array(list(labels)) if len(labels) else np.empty(0, np.int64)


def tidy(held: Held, metrics: dict[str, Array], library: str, labels: Iterable[Any]) -> Any:
    """Return metrics in columns beside those of the groups, and of the class where a metric has one per class."""
    labels = list(labels)
    G, C = (1 if held.keys is None else len(held.keys.rows)), len(labels)
    host = {name: np.asarray(dispatch.to_host(value)) for name, value in metrics.items()}
    ndim = 0 if held.keys is None else 1
    per_class = any(value.ndim > ndim for value in host.values())
    times = C if per_class else 1
    columns: dict[str, Any] = {}
    if held.keys is not None:
        rows = [(key,) if len(held.keys.names) == 1 else key for key in held.keys.labels]
        taken = {"class", *host} if per_class else {*host}
        for c, name in enumerate(held.keys.names):
            while name in taken or name in columns:  # no column may replace another
                name = f"'{name}'"  # noqa: PLW2901
            columns[name] = [row[c] for row in rows for _ in range(times)]
    if per_class:
        columns["class"] = labels * G
    for name, value in host.items():
        columns[name] = value.reshape(-1) if value.ndim > ndim else np.repeat(value.reshape(-1), times)
    module = _library(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
