"""Geometric matrices of counts in parts of different cells, for those that no machine holds: matrices are added.

The sum over the cells is a sum of integers for weights that are fixed by the confusion matrix of all points. So two
passes over the parts, for that matrix and for the sums, give the bits of one pass over all cells.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, lazy, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import OnFailure
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._dealing import numbers
from cmfast.geometry._diagnostics import GcmDiagnostics, Shapes, describe, shapes_of, warned
from cmfast.geometry._embedding import reported
from cmfast.geometry._grid import Grid
from cmfast.geometry._limits import check_total
from cmfast.geometry._weights import Weighting, is_list, tables
from cmfast.kernels.shared.geometry_keys import KeyLayout, bits_of, fits, merge_ranges

PROBED_TRIPLES = 64  # triples of a part that show whether its cells were dealt


class _Whole(NamedTuple):
    """What all parts have in common, and the confusion matrix of their points."""

    matrix: Any
    grid: Grid
    n_classes: int
    n_points: int


def gcm(parts: list[Any], weights: Any, bi: dict[str, Any], on_failure: OnFailure, num_threads: int | None) -> Any:
    """Return the geometric confusion matrices of counts in parts of different cells, which may be Delayed."""
    once, _, whole, sums, fixed = _summed(parts, weights, bi, num_threads)
    return once(_matrices, whole, sums, fixed, weights, bi, on_failure)


def diagnose(
    parts: list[Any], weights: Any, bi: dict[str, Any], rng: Any, on_failure: OnFailure, num_threads: int | None
) -> Any:
    """Return the diagnostics of these."""
    once, tree, whole, sums, fixed = _summed(parts, weights, bi, num_threads)
    shapes = tree(_as_one, [once(_shapes, part) for part in parts])
    return once(_diagnosed, whole, sums, fixed, shapes, weights, bi, rng, on_failure)


def _summed(parts: list[Any], weights: Any, bi: dict[str, Any], num_threads: int | None) -> tuple[Any, ...]:
    """Return how to go on, now or when Delayed are there: what parts have in common, their sums, and the weights."""
    n = len(parts)
    if not n:
        validate.refuse("cells", "at least one part", "none")
    once, tree = (
        (lazy.dask().call_delayed, lazy.dask().merge_tree) if any(map(lazy.is_delayed, parts)) else (_now, _now)
    )
    whole = tree(_together, [once(_part, part, k, n) for k, part in enumerate(parts)])
    fixed = once(_tables, whole, weights, bi)
    sums = tree(_added, [once(_sums, part, whole, fixed, num_threads=num_threads) for part in parts])
    return once, tree, whole, sums, fixed


def _now(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return function(*args, **options)


def _part(part: Any, k: int, n: int) -> _Whole:
    """Return what a part tells of all, checked to be number `k` of `n` as far as some cells show."""
    name = f"cells[{k}]"
    if not isinstance(part, CellCounts):
        validate.refuse(name, "CellCounts", type(part).__name__, TypeError)
    some = slice(None, None, max(1, -(-len(part) // PROBED_TRIPLES)))
    table = None if part._table is None else adapter(part._table).to_host(part._table)
    if (numbers(adapter(part._keys).entry(part._keys, some), table, part, n) != k).any():
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
    return adapter(arrays[0]).evaluate(lambda *arrays: sum(arrays[1:], arrays[0]), *arrays)


def _rounded(
    whole: _Whole,
    sums: tuple[Any, ...],
    fixed: list[Any],
    weights: Any,
    bi: dict[str, Any],
    on_failure: OnFailure,
    *,
    bounded: bool,
) -> tuple[tuple[Any, ...], list[Weighting]]:
    M = whole.matrix
    nothing = adapter(M).flatten(M, 0)[:0]
    out = dispatch.call("gcm", nothing, nothing, M, *fixed, *sums, step="round", bounded=bounded)
    found = tables(M, weights, bi)
    return reported(out, found, on_failure), found


def _matrices(
    whole: _Whole, sums: tuple[Any, ...], fixed: list[Any], weights: Any, bi: dict[str, Any], on_failure: OnFailure
) -> Any:
    out, _ = _rounded(whole, sums, fixed, weights, bi, on_failure, bounded=False)
    return out[0] if is_list(weights) else out[0][0, ...]


def _shapes(part: CellCounts) -> tuple[Shapes, Any]:
    return shapes_of(part), part._ranges


def _as_one(parts: list[tuple[Shapes, Any]]) -> tuple[Shapes, Any]:
    """Return the shapes of the cells of all parts, of which no two have one in common."""
    shapes, ranges = zip(*parts, strict=True)
    first = shapes[0]
    sizes, place = np.unique(np.concatenate([each.sizes for each in shapes]), return_inverse=True)
    number = np.zeros(len(sizes), first.number.dtype)
    np.add.at(number, place, np.concatenate([each.number for each in shapes]))
    both, totals = reduce(merge_ranges, ranges), np.add.reduce([each.totals for each in shapes])
    bits = 2 * bits_of(len(first.matrix))
    table = None if fits(both[1], bits) else np.empty((int(totals[0]), 0))
    one = Shapes(
        matrix=np.add.reduce([each.matrix for each in shapes]),
        n_points=sum(each.n_points for each in shapes),
        n_dropped=sum(each.n_dropped for each in shapes),
        n_triples=sum(each.n_triples for each in shapes),
        bins=both[1],
        key_bits=KeyLayout.create(both, table).key_bits(bits),
        sizes=sizes,
        number=number,
        totals=totals,
    )
    return one, both


def _diagnosed(
    whole: _Whole,
    sums: tuple[Any, ...],
    fixed: list[Any],
    shapes: tuple[Shapes, Any],
    weights: Any,
    bi: dict[str, Any],
    rng: Any,
    on_failure: OnFailure,
) -> GcmDiagnostics:
    out, found = _rounded(whole, sums, fixed, weights, bi, on_failure, bounded=True)
    return warned(describe(shapes[0], found, out, validate.generator(rng), single=not is_list(weights)))
