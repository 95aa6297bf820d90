"""Rake the records of several groups, each to its own totals."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import bad_values, dispatch, failures
from cmfast._core.annotations import OnFailure
from cmfast.kernels.status import Status
from cmfast.margins import _explain_rake_failure
from cmfast.margins._estimates import GroupedRecords, RakedRecords, keep_records
from cmfast.margins._grouped_tables import GroupedTable
from cmfast.margins._rake_result import RakeResult, attach_records

DIAGNOSTICS = {"residual": np.float64, "weight_error": np.float64, "n_iter": np.int64, "status": np.int8}


class GroupOptions(NamedTuple):
    """Validated options of raking by group.

    Attributes
    ----------
    kernel : dict
        Options of the op that do not depend on the group.
    low, high : array of float64, shape (n,) or (1,), or None
        Bounds in the order of the table.
    importance : list of float, or None
        Penalty weight of each margin.
    on_failure : str
    report : callable, or None
        Reports progress in groups.
    """

    kernel: dict[str, Any]
    low: np.ndarray | None
    high: np.ndarray | None
    importance: list[float] | None
    on_failure: OnFailure
    report: Any


class _Group(NamedTuple):
    """One group: its records and margins, and the arrays that the op returned."""

    design: np.ndarray
    weights: np.ndarray | None
    targets: list[np.ndarray]
    axes: tuple[tuple[int, ...], ...]
    margins: list[int]
    importance: list[float] | None
    out: tuple[Any, ...]


def rake_groups(table: GroupedTable, frame: Any, weights: Any, options: GroupOptions) -> RakeResult[Any]:
    """Rake each group of a table to its totals; return weights in the order of the table."""
    batch = () if weights is None else dispatch.shape_of(weights)[:-1]
    n, n_groups = len(table.order), len(table.groups)
    in_order = None if weights is None else weights[..., table.order]
    low, high = (x if x is None or x.ndim == 0 or len(x) == 1 else x[table.order] for x in (options.low, options.high))
    groups: list[_Group] = []
    for g in range(n_groups):
        here = slice(int(table.first[g]), int(table.first[g + 1]))
        groups.append(_rake_one(table, g, here, in_order, (low, high), options))
        if options.report is not None:
            options.report(g + 1, n_groups)
    result = _merge(table, groups, batch, n)
    _report_failures(table, groups, weights, result, options.on_failure)
    return attach_records(result, _keep_records(table, groups, batch, frame))


def _rake_one(
    table: GroupedTable,
    g: int,
    here: slice,
    weights: np.ndarray | None,
    bounds: tuple[np.ndarray | None, np.ndarray | None],
    options: GroupOptions,
) -> _Group:
    """Rake group `g`, whose sorted records are `here`."""
    margins = table.find_margins(g)
    axes = tuple(table.margins[k].of for k in margins)
    targets = [table.get_target(k, g) for k in margins]
    importance = options.importance
    if importance is not None:
        importance = [importance[k] for k in margins]
        importance = importance if np.isfinite(importance).any() else None
    low, high = (x if x is None or x.ndim == 0 or len(x) == 1 else x[here] for x in bounds)
    design = table.codes[:, here]
    own = None if weights is None else weights[..., here]
    chosen = options.kernel | {"axes": axes, "low": low, "high": high, "importance": importance}
    out = dispatch.call("rake", design, own, *targets, **chosen)
    return _Group(design, own, targets, axes, margins, importance, out)


def _merge(table: GroupedTable, groups: list[_Group], batch: tuple[int, ...], n: int) -> RakeResult[Any]:
    """Return the results of all groups in the order of the table, of its margins' rows and of the groups."""
    kinds = [group.out[0].dtype for group in groups]
    weights = np.full((*batch, n), np.nan, np.result_type(*kinds) if kinds else np.float64)
    parts = [[np.full((*batch, len(one.targets)), np.nan) for one in table.margins] for _ in range(3)]
    numbers = [np.zeros((*batch, len(groups)), kind) for kind in DIAGNOSTICS.values()]
    for g, group in enumerate(groups):
        weights[..., table.order[table.first[g] : table.first[g + 1]]] = group.out[0]
        size = len(group.targets)
        for p, whole in enumerate(parts):
            for k, part in zip(group.margins, group.out[1 + p * size : 1 + (p + 1) * size], strict=True):
                first = table.margins[k].first
                whole[k][..., first[g] : first[g + 1]] = part.reshape(*batch, -1)
        for number, x in zip(numbers, group.out[-4:], strict=True):
            number[..., g] = x
    given = [[x[..., one.rows] for x, one in zip(whole, table.margins, strict=True)] for whole in parts]
    return RakeResult(weights, *given, *numbers)


def _report_failures(
    table: GroupedTable,
    groups: list[_Group],
    weights: np.ndarray | None,
    result: RakeResult[Any],
    on_failure: OnFailure,
) -> None:
    """Warn or raise about groups without weights; the message names the first of them."""

    def describe_weight(index: tuple[int, ...]) -> str:
        """Return a text that names the first bad weight of a group by its position in the table; empty for none."""
        if weights is None or result.status[index] != Status.INVALID:
            return ""
        row, g = weights[index[:-1]], index[-1]
        here = np.zeros(len(row), np.bool_)
        here[table.order[table.first[g] : table.first[g + 1]]] = True
        return bad_values.describe_first("weights", row, here & ~(np.isfinite(row) & (row >= 0.0)))

    def describe(index: tuple[int, ...]) -> str:
        """Return the reason why the group at `index` has no weights."""
        group, words = groups[index[-1]], table.name_categories(index[-1])
        size = len(group.targets)
        parts = [list(group.out[k : k + size]) for k in range(1, 3 * size + 1, size)]
        one: RakeResult[Any] = RakeResult(group.out[0], *parts, *group.out[-4:])
        problem = _explain_rake_failure.RakeProblem(
            result.status.shape[:-1], group.design, group.weights, group.targets, group.axes, None, words
        )
        reason = describe_weight(index) or _explain_rake_failure.explain_rake_failure(index[:-1], problem, one)
        return f"{table.name_group(index[-1])}: {reason}"

    several = int(np.count_nonzero(result.status)) > 1
    failures.report(
        result.status,
        on_failure,
        failed="sets of weights not found",
        describe=describe,
        why=describe if several else None,
        limit_is_answer=True,
    )


def _keep_records(table: GroupedTable, groups: list[_Group], batch: tuple[int, ...], frame: Any) -> GroupedRecords:
    """Return what estimates need."""
    parts = []
    for group in groups:
        size = len(group.targets)
        achieved = list(group.out[1 + size : 1 + 2 * size])
        given = (group.design, group.weights, group.targets, achieved, group.axes, group.importance, batch)
        own = keep_records(RakedRecords(*given, None, None, ()))
        assert own is not None  # tables hold values
        parts.append(own)
    kept = frame.copy(deep=False) if hasattr(frame, "iloc") else frame
    columns = (*table.by, *table.columns)
    return GroupedRecords(table.groups, table.order, table.first, parts, kept, frame, columns)
