"""Groups by name: text, categories, dates or several columns instead of indices, and a dict of thresholds by group."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, frames, lazy, validate
from cmfast._core.adapters import adapter
from cmfast.confusion_counts import _groups, _label_codes

KINDS = "iuM"  # of NumPy, besides text
WANTED = "integers, text, categories or dates"


class NamedGroups(NamedTuple):
    """The names of groups, the index of the name of each row, and the columns whose combinations they are, or None."""

    names: tuple[Any, ...]
    codes: np.ndarray
    columns: tuple[str, ...] | None = None


class Thresholds(dict[Any, Any]):
    """Thresholds by group, which know the names of the columns whose combinations the groups are."""

    columns: tuple[str, ...] | None = None

    def copy(self) -> "Thresholds":
        """Return a copy that knows the names, too."""
        return keep_columns(self, self.columns)


def keep_columns(thresholds: Mapping[Any, Any], columns: tuple[str, ...] | None) -> Thresholds:
    """Return thresholds by group that know the names of `columns`."""
    found = Thresholds(thresholds)
    found.columns = columns
    return found


def encode_groups(groups: Any) -> NamedGroups | None:
    """Return the names of groups, sorted or in the order of their categories; None for integers, or without groups.

    Several columns, in a table or a dict, name their groups by tuples.
    """
    if groups is None or lazy.are_lazy(groups) or (isinstance(groups, np.ndarray) and groups.dtype.kind in "biuf"):
        return None
    if holds_columns(groups):
        return _encode_columns(groups)
    plain = dispatch.adopt_one("groups", validate.type_empty_labels(groups))
    if adapter(plain).dtype(plain).kind not in "USOM":
        return None
    found = _label_codes.encode_column("groups", groups, _label_codes.OWN_CODE_SPAN, KINDS, WANTED).compact()
    order = range(len(found.values)) if found.declared else np.argsort(np.array(found.values)).tolist()
    places = np.empty(len(found.values), np.int64)
    places[list(order)] = np.arange(len(found.values))
    return NamedGroups(tuple(found.values[k] for k in order), places[np.asarray(found.codes)])


def holds_columns(groups: Any) -> bool:
    """Whether groups are columns of a table or of a dict."""
    return isinstance(groups, Mapping) or frames.is_table(groups)


def _encode_columns(groups: Any, wanted_columns: tuple[str, ...] | None = None) -> NamedGroups:
    """Return the sorted names of the groups that occur in a table or a dict of columns, and the index of each row.

    The columns are taken in the order of `wanted_columns`, if given; other names are refused.
    """
    table = frames.collect_table(groups)
    if isinstance(table, Mapping):
        columns = {str(name): column for name, column in table.items()}
    else:
        columns = {str(name): frames.get_column(table, "groups", name) for name in frames.column_names(table)}
    if not columns:
        validate.refuse("groups", "an array, or columns", f"a {type(groups).__name__} without columns", TypeError)
    if lazy.are_lazy(*columns.values()):
        validate.refuse("groups", "columns in memory", "columns of Dask", TypeError)
    if wanted_columns is not None:
        if columns.keys() != set(wanted_columns):
            wanted = validate.format_value(list(wanted_columns))
            given = validate.format_value(list(columns))
            validate.refuse(
                "groups", f"the columns {wanted} that threshold was given, in any order", f"columns {given}"
            )
        columns = {name: columns[name] for name in wanted_columns}
    sizes = {name: len(column) for name, column in columns.items()}
    first, *others = sizes
    for name in others:
        if sizes[name] != sizes[first]:
            wanted = f"of shape ({sizes[first]},), as groups[{first!r}]"
            validate.refuse(f"groups[{name!r}]", wanted, f"shape ({sizes[name]},)")
    keys, number, order = _groups.number_groups(columns, np.zeros(sizes[first]), (sizes[first],))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return NamedGroups(keys.labels, places[np.asarray(number)], tuple(columns))


def refuse_names_of_columns(groups: Any, like: Any, axis: int) -> None:
    """Refuse a list of texts that are names of columns, not the groups of the rows along `axis` of `like`."""
    given = [groups] if isinstance(groups, str) else groups
    if not isinstance(given, list | tuple) or not given or not all(isinstance(name, str) for name in given):
        return
    shape = tuple(like.shape) if hasattr(like, "shape") else np.shape(like)
    if isinstance(groups, str) or (len(shape) == -axis and shape[axis] != len(given)):
        columns = repr(groups) if isinstance(groups, str) else str(list(given))
        cure = f"give the columns themselves, as in groups=table[{columns}]"
        validate.refuse("groups", "the group of each row", f"{columns}; {cure}", TypeError)


def stack_thresholds(q: Mapping[Any, Any], rows: tuple[int, ...], like: Any) -> Any:
    """Return thresholds by group as one array, shape (..., A, G) or (..., A, G, C), in the library of `like`."""
    if not q:
        validate.refuse("q", "an array", "dict without groups", TypeError)
    given = [dispatch.adopt_one(f"q[{validate.format_value(name)}]", one) for name, one in q.items()]
    host = [np.asarray(adapter(one).to_host(one)) for one in given]
    host = [one.reshape(1) if one.ndim == 0 else one for one in host]
    for name, one in zip(q, host, strict=True):
        if one.shape != host[0].shape:
            first = f"of shape {host[0].shape}, as q[{validate.format_value(next(iter(q)))}]"
            validate.refuse(f"q[{validate.format_value(name)}]", first, f"shape {one.shape}")
    if host[0].ndim < len(rows):
        validate.refuse("q", f"with the batch axes {rows[:-1]} of P", f"thresholds of shape {host[0].shape}")
    return adapter(like).send(np.stack(host, axis=len(rows)), like)


def find_groups(groups: Any, q: Mapping[Any, Any]) -> NamedGroups:
    """Return the groups of the thresholds `q`, and the position of the group of each row among them.

    Groups without thresholds have the positions -1, -2 and so on, and their names stand at the end, backwards.
    """
    if groups is None:
        wanted = "the group of each row, as q has thresholds by group"
        validate.refuse("groups", wanted, "None", TypeError)
    if holds_columns(groups):
        values, codes, _ = _encode_columns(groups, q.columns if isinstance(q, Thresholds) else None)
    else:
        found = _label_codes.encode_column("groups", groups, _label_codes.OWN_CODE_SPAN, KINDS, WANTED).compact()
        values, codes = tuple(found.values), np.asarray(adapter(found.codes).to_host(found.codes))
    places = {name: k for k, name in enumerate(q)}
    others = [value for value in values if value not in places]
    places |= {value: -1 - k for k, value in enumerate(others)}
    table = np.array([places[value] for value in values], np.int64)
    return NamedGroups((*q, *reversed(others)), table[codes])


def refuse_unnamed_thresholds(groups: Any) -> None:
    """Refuse groups of text where thresholds are an array, which does not say whose they are."""
    if encode_groups(groups) is not None:
        wanted = "integers, as q is an array of thresholds"
        cure = (
            "with the same groups threshold(s, alpha, groups=...) returns a dict of thresholds by group, to pass as q"
        )
        is_table = holds_columns(groups)
        kind = "columns" if is_table else validate.describe_dtype(dispatch.adopt_one("groups", groups))
        validate.refuse("groups", wanted, f"{kind}; {cure}", TypeError)
