"""Read tables of records of several groups, and the totals of each group, by the names of columns and categories.

GroupCategories are numbered within each group, from those that its records or totals have, in one order for all groups.
"""

import math
from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, frames, validate
from cmfast._core.usual_options import describe_value
from cmfast._files.survey_totals import describe_key
from cmfast.confusion_counts import _label_codes
from cmfast.confusion_counts._groups import GROUP_CODE_SPAN, KINDS
from cmfast.margins import _long_tables
from cmfast.margins._labels import AxisLabels
from cmfast.margins._long_tables import Arguments

Known = dict[str, dict[Any, int]]


class GroupedMargin(NamedTuple):
    """Totals of one combination of columns in all groups; the dense targets of the groups follow each other.

    Attributes
    ----------
    label : str
        Name in messages.
    of : tuple of int
        Columns of categories.
    row_groups, rows : array of int64, shape (rows,)
        Group of each row that was given, and its index in `targets`.
    targets : array, shape (size,)
        Targets of all combinations of the categories of each group; 0 where no row was given.
    first : array of int64, shape (groups + 1,)
        Where the targets of each group begin.
    is_given : array of bool, shape (groups,)
        Groups that have this margin.
    """

    label: str
    of: tuple[int, ...]
    row_groups: np.ndarray
    rows: np.ndarray
    targets: np.ndarray
    first: np.ndarray
    is_given: np.ndarray


class GroupCategories(NamedTuple):
    """The categories of one column in each group.

    Attributes
    ----------
    labels : list
        Labels of all groups.
    keys : array of int64
        Sorted: group times the number of labels, plus label, of each category that occurs in the group.
    numbers : array of int64
        Number of the category of each key within its group.
    first : array of int64, shape (groups + 1,)
        Where the keys of each group begin.
    """

    labels: list[Any]
    keys: np.ndarray
    numbers: np.ndarray
    first: np.ndarray

    def find_numbers(self, groups: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the number within its group of each label."""
        found: np.ndarray = self.numbers[np.searchsorted(self.keys, groups * len(self.labels) + codes)]
        return found

    def list_labels(self, group: int) -> list[Any]:
        """Return the labels of a group in the order of their numbers."""
        here = slice(int(self.first[group]), int(self.first[group + 1]))
        codes = self.keys[here] - group * len(self.labels)
        return [self.labels[k] for k in codes[np.argsort(self.numbers[here])].tolist()]


class GroupedTable(NamedTuple):
    """A table of records as arrays, sorted by group, and the margins of all groups.

    Attributes
    ----------
    weights : array, str's column, or None
        Design weights in the order of the table.
    by : tuple of str
        Columns that define the groups.
    groups : tuple
        Labels of the groups, or tuples of labels.
    order : array of int64, shape (n,)
        Records sorted by group; those of a group keep their order.
    first : array of int64, shape (groups + 1,)
        Where the sorted records of each group begin.
    columns : tuple of str
        Columns of categories.
    categories : list of GroupCategories
        GroupCategories of each column.
    codes : array of int64, shape (columns, n)
        Category of each sorted record, numbered within its group.
    margins : list of GroupedMargin
    """

    weights: Any
    by: tuple[str, ...]
    groups: tuple[Any, ...]
    order: np.ndarray
    first: np.ndarray
    columns: tuple[str, ...]
    categories: list[GroupCategories]
    codes: np.ndarray
    margins: list[GroupedMargin]

    def find_margins(self, group: int) -> list[int]:
        """Return the indices of the margins that a group has."""
        return [k for k, margin in enumerate(self.margins) if margin.is_given[group]]

    def get_target(self, margin: int, group: int) -> np.ndarray:
        """Return the dense target of a margin in a group."""
        one = self.margins[margin]
        shape = [int(np.diff(self.categories[c].first[group : group + 2])[0]) for c in one.of]
        return one.targets[one.first[group] : one.first[group + 1]].reshape(shape)

    def name_group(self, group: int) -> str:
        """Return the name of a group for messages."""
        return _name_group(self.by, self.groups[group])

    def name_categories(self, group: int) -> AxisLabels:
        """Return the names of columns, categories and margins of a group for messages."""
        labels = tuple(each.list_labels(group) for each in self.categories)
        return AxisLabels(self.columns, labels, tuple(self.margins[k].label for k in self.find_margins(group)))


class _Part(NamedTuple):
    """Rows of a margin that were given together: all, or those of one group."""

    columns: dict[str, Any]
    number: str
    numbers: Any


class _MarginRows(NamedTuple):
    """Rows of one margin of all groups, before categories are numbered."""

    label: str
    names: tuple[str, ...]
    keys: np.ndarray  # (rows, columns of groups) codes of labels
    codes: list[np.ndarray]  # of each column
    numbers: np.ndarray
    named: set[Any] | None  # groups that have this margin if totals were given by group


def read_grouped_table(
    weights: Any, frame: Any, targets: Any, names: tuple[str, ...], called: Arguments
) -> GroupedTable:
    """Read a table of records, its groups by the columns `names`, and the totals of each group."""
    frames.library_name(called.frame, frame)
    own, others = weights, frames.column_names(frame)
    dispatch.check_row_order(**{called.frame: frame, called.values: weights})
    by_columns = [frames.get_column(frame, "groups", name) for name in names]
    if isinstance(weights, str):
        own = frames.get_column(frame, called.values, weights)
        if weights in names:
            validate.refuse("groups", f"other columns than {called.values}", validate.format_value(weights))
        others.remove(weights)
    known: Known = {}
    declared, keys = [], np.zeros((len(frame), len(names)), np.int64)
    for c, (name, column) in enumerate(zip(names, by_columns, strict=True)):
        found = _label_codes.encode_column(name, column, GROUP_CODE_SPAN, KINDS, "labels").compact()
        known[name] = {value: k for k, value in enumerate(found.values)}
        keys[:, c] = np.asarray(found.codes)
        declared.append(found.declared is not None)
    given = _read_margins_by_group(targets, names, others, called)
    columns = tuple(dict.fromkeys(name for margin in given for name in margin.names))
    codes, is_sorted = [], []
    for name in columns:
        found = _long_tables.find_categories(name, frames.get_column(frame, called.frame, name))
        known.setdefault(name, {value: k for k, value in enumerate(found.values)})
        codes.append(np.asarray(found.codes))
        is_sorted.append(found.declared is not None or not any(isinstance(x, str | bytes) for x in found.values))
    rows = [_encode_rows(margin, names, known) for margin in given]
    groups, numbers = _number_groups(names, declared, known, [keys, *(one.keys for one in rows)])
    of_record, of_rows = numbers[0], numbers[1:]
    order = np.argsort(of_record, kind="stable")
    first = _find_first(of_record, len(groups))
    _check_groups(groups, names, np.diff(first) > 0, rows, called)
    categories = [
        _find_categories(
            list(known[name]),
            len(groups),
            [(of_record, codes[c]), *_select_rows(name, rows, of_rows)],
            is_sorted=is_sorted[c],
        )
        for c, name in enumerate(columns)
    ]
    local = np.zeros((len(columns), len(frame)), np.int64)
    for c, each in enumerate(categories):
        local[c] = each.find_numbers(of_record, codes[c])
    table = GroupedTable(own, names, groups, order, first, columns, categories, local, [])
    margins = [_fill_margin(one, number, table, of_record, called) for one, number in zip(rows, of_rows, strict=True)]
    return table._replace(codes=np.ascontiguousarray(local[:, order]), margins=margins)


def validate_groups(groups: Any) -> tuple[str, ...]:
    """Return the option `groups` as names of columns."""
    names = [groups] if isinstance(groups, str) else groups
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        own = getattr(groups, "name", None)
        cure = f"; groups={own!r} names that column" if isinstance(own, str) else ""
        given = f"{describe_value(groups)}{cure}"
        validate.refuse("groups", "the name of a column, or a list of them", given, TypeError)
    if len(set(names)) < len(names):
        validate.refuse("groups", "different columns", validate.format_value(groups))
    return tuple(names)


def _name_group(by: tuple[str, ...], group: Any) -> str:
    """Return the name of a group for messages."""
    return describe_key(by, tuple(map(str, group if len(by) > 1 else (group,))))


class _Given(NamedTuple):
    """A margin as it was given, in one part or one for each group."""

    label: str
    names: tuple[str, ...]  # columns of categories
    parts: list[_Part]
    named: list[Any] | None  # group of each part


def _read_margins_by_group(targets: Any, by: tuple[str, ...], others: list[Any], called: Arguments) -> list[_Given]:
    """Return all margins, from tables with the columns of `by`, or from a dict with the targets of each group."""
    name = called.margins
    if isinstance(targets, Mapping) and targets and not all(_are_columns(key, others) for key in targets):
        return _read_groups(targets, by, others, called)
    if _long_tables.are_named_pairs(targets):
        targets = dict(_long_tables.check_distinct(name, targets))
    found = []
    if isinstance(targets, Mapping) and targets:
        for key, totals in targets.items():
            columns = key if isinstance(key, tuple) else (key,)
            whole = (*(column for column in by if column not in columns), *columns)
            option = f"{name}[{validate.format_value(key)}]"
            found.append(_long_tables.read_totals(whole, totals, others, called, option))
    elif _is_margin_table(targets):
        found.append(_long_tables.read_margin_table(name, targets, others, called))
    elif isinstance(targets, list | tuple) and targets and all(map(_is_margin_table, targets)):
        found += [_long_tables.read_margin_table(f"{name}[{k}]", x, others, called) for k, x in enumerate(targets)]
    else:
        wanted = "a dict {group: targets}, a table with the columns of groups, or a list of such tables"
        validate.refuse(name, wanted, validate.format_value(targets), TypeError)
    margins = []
    for margin in found:
        lacking = next((column for column in by if column not in margin.columns), None)
        if lacking is not None:
            given = validate.format_value(", ".join(margin.columns), str)
            validate.fail(f"{margin.label} must have the columns of groups, got columns {given} without {lacking!r}")
        names = tuple(column for column in margin.columns if column not in by)
        margins.append(_Given(margin.label, names, [_Part(margin.columns, margin.number, margin.numbers)], None))
    return margins


def _is_margin_table(x: Any) -> bool:
    """Return whether `x` is a table, or a Series of pandas."""
    return frames.is_table(x) or frames.list_index_names(x) is not None


def _are_columns(key: Any, others: list[Any]) -> bool:
    """Return whether a key names columns: one, or a tuple of them."""
    return all(name in others for name in key) if isinstance(key, tuple) else key in others


def _read_groups(targets: Mapping[Any, Any], by: tuple[str, ...], others: list[Any], called: Arguments) -> list[_Given]:
    """Return the margins of a dict with the targets of each group."""
    rest = [name for name in others if name not in by]
    found: dict[tuple[str, ...], _Given] = {}
    for group, given in targets.items():
        key = group if len(by) > 1 else (group,)
        if not isinstance(key, tuple) or len(key) != len(by):
            wanted = f"labels of {', '.join(by)}" if len(by) == 1 else f"tuples of labels of {', '.join(by)}"
            validate.refuse(f"the keys of {called.margins}", wanted, validate.format_value(group))
        option = f"{called.margins}[{validate.format_value(group)}]"
        own = frames.collect_tables(given)
        if not (isinstance(own, Mapping | list | tuple) or _is_margin_table(own)):
            wanted = "a dict {column: totals} or a table, the targets of a group"
            validate.refuse(option, wanted, validate.format_value(own), TypeError)
        for margin in _long_tables.read_margins(own, rest, called._replace(margins=option)):
            names = tuple(margin.columns)
            one = found.setdefault(names, _Given(called.margins, names, [], []))
            labels = dict(zip(by, key, strict=True))
            one.parts.append(_Part(margin.columns | labels, margin.number, margin.numbers))
            one.named.append(group)  # type: ignore[union-attr]
            if len(one.named) > 1 and one.named[-2] == group:  # type: ignore[arg-type, index]
                validate.fail(f"{option} has totals of {', '.join(names) or 'all'} twice")
    return list(found.values())


def _encode_rows(margin: _Given, by: tuple[str, ...], known: Known) -> _MarginRows:
    """Return the rows of a margin with codes instead of labels, adding new labels to `known`."""
    numbers = [_read_numbers(part) for part in margin.parts]
    sizes = [len(x) for x in numbers]
    codes = []
    for name in margin.names:
        columns = [part.columns[name] for part in margin.parts]
        if len(columns) > 1 and all(isinstance(column, list) for column in columns):
            columns = [list(chain.from_iterable(columns))]
        encoded = [_long_tables.encode_categories(name, column, known) for column in columns if len(column)]
        codes.append(np.concatenate([np.zeros(0, np.int64), *encoded]))
    keys = np.zeros((sum(sizes), len(by)), np.int64)
    for c, name in enumerate(by):
        if margin.named is None:
            keys[:, c] = _long_tables.encode_categories(name, margin.parts[0].columns[name], known)
        else:
            labels = known[name]
            each = [labels.setdefault(part.columns[name], len(labels)) for part in margin.parts]
            keys[:, c] = np.repeat(np.array(each, np.int64), sizes)
    same = np.float32 if all(x.dtype == np.float32 for x in numbers) else np.float64
    named = None if margin.named is None else set(margin.named)
    return _MarginRows(margin.label, margin.names, keys, codes, np.concatenate(numbers).astype(same), named)


def _read_numbers(part: _Part) -> np.ndarray:
    """Return the targets of a part of a margin."""
    numbers = dispatch.adopt_one(part.number, part.numbers)
    validate.real(**{part.number: numbers})
    if len(dispatch.shape_of(numbers)) != 1:
        validate.refuse(part.number, "one number for each category", f"shape {dispatch.shape_of(numbers)}")
    return np.asarray(numbers)


def _number_groups(
    by: tuple[str, ...], declared: list[bool], known: Known, keys: list[np.ndarray]
) -> tuple[tuple[Any, ...], list[np.ndarray]]:
    """Return the labels of all groups, sorted or in the order of a categorical, and the groups of each set of keys."""
    labels = [list(known[name]) for name in by]
    if math.prod(max(len(each), 1) for each in labels) >= 2**62:
        validate.fail("groups has more combinations of labels than int64 holds", OverflowError)
    orders = []
    for each, is_declared in zip(labels, declared, strict=True):
        order = list(range(len(each)))
        orders.append(order if is_declared else sorted(order, key=lambda k: (type(each[k]).__name__, each[k])))
    number = np.zeros(sum(map(len, keys)), np.int64)
    for codes, order in zip(np.concatenate(keys).T, orders, strict=True):
        places = np.zeros(len(order), np.int64)
        places[order] = np.arange(len(order))
        number = number * max(len(order), 1) + places[codes]
    found, of = np.unique(number, return_inverse=True)
    at = np.unravel_index(found, [max(len(order), 1) for order in orders])
    columns = [[each[order[k]] for k in x.tolist()] for each, order, x in zip(labels, orders, at, strict=True)]
    groups = tuple(columns[0]) if len(by) == 1 else tuple(zip(*columns, strict=True))
    return groups, np.split(of.reshape(-1), np.cumsum([len(x) for x in keys])[:-1])


def _find_first(sorted_or_not: np.ndarray, n_groups: int) -> np.ndarray:
    """Return where each group begins among group numbers once these are sorted."""
    return np.concatenate([[0], np.cumsum(np.bincount(sorted_or_not, minlength=n_groups))]).astype(np.int64)


def _check_groups(
    groups: tuple[Any, ...], by: tuple[str, ...], has_records: np.ndarray, rows: list[_MarginRows], called: Arguments
) -> None:
    """Raise ValueError if a group of the records is not in a dict with the targets of each group."""
    if not rows or rows[0].named is None:
        return
    named = set().union(*(one.named for one in rows if one.named is not None))
    for k in np.flatnonzero(has_records):
        if groups[k] not in named:
            validate.fail(
                f"{called.margins} have no group {_name_group(by, groups[k])}, which occurs in {called.frame}"
            )


def _select_rows(name: str, rows: list[_MarginRows], of_rows: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the groups and codes of the rows of all margins that have the column `name`."""
    pairs = zip(rows, of_rows, strict=True)
    return [(number, one.codes[one.names.index(name)]) for one, number in pairs if name in one.names]


def _find_categories(
    labels: list[Any], n_groups: int, pairs: list[tuple[np.ndarray, np.ndarray]], *, is_sorted: bool
) -> GroupCategories:
    """Return the categories that occur in each group, from pairs of groups and codes, those of the records first.

    They are numbered as those of a table with the records of one group alone: in the order of the codes if these are
    sorted, else as they occur, those without records last. The same order of additions gives the same bits.
    """
    size = len(labels)
    every = np.concatenate([groups * size + codes for groups, codes in pairs])
    keys, occurs = np.unique(every, return_index=True)
    first = np.searchsorted(keys, np.arange(n_groups + 1) * size)
    is_extra = occurs >= len(pairs[0][0])
    order = np.lexsort((keys, np.where(is_extra | (not is_sorted), occurs, 0), is_extra, keys // max(size, 1)))
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.arange(len(keys)) - np.repeat(first[:-1], np.diff(first))
    return GroupCategories(labels, keys, numbers, first)


def _fill_margin(
    rows: _MarginRows, groups: np.ndarray, table: GroupedTable, of_record: np.ndarray, called: Arguments
) -> GroupedMargin:
    """Return the dense targets of a margin; refuse duplicate rows, and records without a row.

    The codes of `table` are in the order of the records here.
    """
    n_groups = len(table.groups)
    of = tuple(table.columns.index(name) for name in rows.names)
    is_given = np.bincount(groups, minlength=n_groups) > 0
    if rows.named is None:
        is_given |= np.diff(table.first) > 0
    sizes = [np.diff(table.categories[c].first) for c in of]
    whole = np.where(is_given, np.prod(sizes, axis=0, dtype=np.int64) if of else 1, 0)
    first = np.concatenate([[0], np.cumsum(whole)])
    at, of_records = first[groups], first[of_record]
    flat, flat_of_records = np.zeros(len(groups), np.int64), np.zeros(len(of_record), np.int64)
    for c, size, codes in zip(of, sizes, rows.codes, strict=True):
        flat = flat * size[groups] + table.categories[c].find_numbers(groups, codes)
        flat_of_records = flat_of_records * size[of_record] + table.codes[c]
    at = at + flat
    times = np.bincount(at, minlength=first[-1])
    twice = np.flatnonzero(times[at] > 1)
    if len(twice):
        k = int(twice[0])
        labels = [table.categories[c].labels[int(codes[k])] for c, codes in zip(of, rows.codes, strict=True)]
        validate.fail(f"{rows.label}: {_name_row(table, rows, int(groups[k]), labels)} occurs twice")
    asked = np.flatnonzero(is_given[of_record])
    silent = asked[times[(of_records + flat_of_records)[asked]] == 0]
    if len(silent):
        k, group = int(silent[0]), int(of_record[silent[0]])
        where = _name_row(table, rows, group, [table.categories[c].list_labels(group)[table.codes[c, k]] for c in of])
        validate.fail(
            f"{rows.label} has no row for {where}, which occurs in {called.frame}; pass NaN to leave it unconstrained"
        )
    targets = np.zeros(int(first[-1]), rows.numbers.dtype)
    targets[at] = rows.numbers
    return GroupedMargin(rows.label, of, groups, at, targets, first, is_given)


def _name_row(table: GroupedTable, rows: _MarginRows, group: int, labels: list[Any]) -> str:
    """Return the name of a group and of some of its categories for messages."""
    key = table.groups[group] if len(table.by) > 1 else (table.groups[group],)
    return describe_key((*table.by, *rows.names), tuple(map(str, (*key, *labels))))
