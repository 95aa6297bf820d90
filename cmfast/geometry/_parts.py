"""Geometric matrices of counts in parts of different cells, for those that no machine holds: matrices are added.

The sum over the cells is a sum of integers for weights that are fixed by the confusion matrix of all points. So two
passes over the parts, for that matrix and for the sums, give the bits of one pass over all cells.
"""

from typing import Any, NamedTuple

from cmfast._core import dispatch, lazy, validate
from cmfast._core.annotations import OnFailure
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._dealing import numbers
from cmfast.geometry._embedding import reported
from cmfast.geometry._grid import Grid
from cmfast.geometry._limits import check_total
from cmfast.geometry._weights import is_list, tables

LOOKED_AT = 64  # triples of a part that show whether its cells were dealt


class _Whole(NamedTuple):
    """What all parts have in common, and the confusion matrix of their points."""

    matrix: Any
    grid: Grid
    n_classes: int
    n_points: int


def gcm(parts: list[Any], weights: Any, bi: dict[str, Any], on_failure: OnFailure, num_threads: int | None) -> Any:
    """Return the geometric confusion matrices of counts in parts of different cells, which may be Delayed."""
    n, asked = len(parts), {"num_threads": num_threads}
    if not n:
        validate.refuse("cells", "at least one part", "none")
    if not any(map(lazy.is_awaited, parts)):
        whole = _together([_part(part, k, n) for k, part in enumerate(parts)])
        fixed = _tables(whole, weights, bi)
        sums = _added([_sums(part, whole, fixed, **asked) for part in parts])
        return _rounded(whole, sums, fixed, weights, bi, on_failure)
    whole = lazy.tree(_together, [lazy.awaited(_part, part, k, n) for k, part in enumerate(parts)])
    fixed = lazy.awaited(_tables, whole, weights, bi)
    sums = lazy.tree(_added, [lazy.awaited(_sums, part, whole, fixed, **asked) for part in parts])
    return lazy.awaited(_rounded, whole, sums, fixed, weights, bi, on_failure)


def _part(part: Any, k: int, n: int) -> _Whole:
    """Return what a part tells of all, checked to be number `k` of `n` as far as some cells show."""
    name = f"cells[{k}]"
    if not isinstance(part, CellCounts):
        validate.refuse(name, "CellCounts", type(part).__name__, TypeError)
    some = slice(None, None, max(1, -(-len(part) // LOOKED_AT)))
    table = None if part._table is None else dispatch.to_host(part._table)
    if (numbers(dispatch.to_host(part._keys[some]), table, part, n) != k).any():
        validate.refuse(name, f"part {k} of {n}, as CellCounts.deal({n}) gives it", "cells of other parts")
    return _Whole(part._matrix(), part.grid, part.n_classes, part.n_points)


def _together(parts: list[_Whole]) -> _Whole:
    first = parts[0]
    for part in parts[1:]:
        if part.grid != first.grid:
            validate.refuse("grid", f"the same in all parts, {first.grid}", part.grid)
        if part.n_classes != first.n_classes:
            validate.refuse("n_classes", f"the same in all parts, {first.n_classes}", part.n_classes)
    n_points = sum(part.n_points for part in parts)
    check_total(n_points, 0)
    return first._replace(matrix=_sum([part.matrix for part in parts]), n_points=n_points)


def _tables(whole: _Whole, weights: Any, bi: dict[str, Any]) -> list[Any]:
    """Return the weights, which are made once: another machine might round them otherwise."""
    return [w.table for w in tables(whole.matrix, weights, bi)]


def _sums(part: CellCounts, whole: _Whole, fixed: list[Any], *, num_threads: int | None) -> tuple[Any, ...]:
    """Return the integer sums over the cells of a part, for every table."""
    found: tuple[Any, ...] = dispatch.call(
        "gcm", part._keys, part.counts, whole.matrix, *fixed, step="add", num_threads=num_threads
    )
    return found


def _added(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(_sum(list(each)) for each in zip(*parts, strict=True))


def _sum(arrays: list[Any]) -> Any:
    with dispatch.chosen(arrays[0]):
        return sum(arrays[1:], arrays[0])


def _rounded(
    whole: _Whole, sums: tuple[Any, ...], fixed: list[Any], weights: Any, bi: dict[str, Any], on_failure: OnFailure
) -> Any:
    M = whole.matrix
    nothing = M.reshape(-1)[:0]
    out = dispatch.call("gcm", nothing, nothing, M, *fixed, *sums, step="round", bounded=False)
    out = reported(out, tables(M, weights, bi), on_failure)
    return out[0] if is_list(weights) else out[0][0]
