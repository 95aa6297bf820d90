"""Geometric confusion matrices of a partition of cell counts that exceeds one machine's memory.

For weights fixed by the confusion matrix of all points, the sum over cells is a sum of integers. Two passes over the
parts, for that matrix and for the sums, therefore give the same bits as one pass over all cells.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, lazy, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import OnFailure
from cmfast.geometry._cell_partition import assign_parts
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._diagnostics import GcmDiagnostics, Shapes, compute_shapes, make_diagnostics, warn_if_uninformative
from cmfast.geometry._grid import Grid
from cmfast.geometry._limits import check_total
from cmfast.geometry._prepare_points import finish_gcm
from cmfast.geometry._weights import Weighting, is_list, make_weightings
from cmfast.kernels.shared.geometry_keys import KeyLayout, bits_of, fits, merge_ranges

PROBED_TRIPLES = 64  # sampled triples of a part that are checked for its part number


class _Whole(NamedTuple):
    """Common metadata of all parts, and the confusion matrix of all their points."""

    matrix: Any
    grid: Grid
    n_classes: int
    n_points: int


def gcm(parts: list[Any], weights: Any, bi: dict[str, Any], on_failure: OnFailure, num_threads: int | None) -> Any:
    """Return the geometric confusion matrices of a partition of counts; its parts may be Delayed."""
    once, _, whole, sums, fixed = _sum_all_parts(parts, weights, bi, num_threads)
    return once(_make_matrices, whole, sums, fixed, weights, bi, on_failure)


def diagnose(
    parts: list[Any], weights: Any, bi: dict[str, Any], rng: Any, on_failure: OnFailure, num_threads: int | None
) -> Any:
    """Return the diagnostics of a partition of counts; its parts may be Delayed."""
    once, tree, whole, sums, fixed = _sum_all_parts(parts, weights, bi, num_threads)
    shapes = tree(_merge_shapes, [once(_get_shapes, part) for part in parts])
    return once(_make_part_diagnostics, whole, sums, fixed, shapes, weights, bi, rng, on_failure)


def _sum_all_parts(parts: list[Any], weights: Any, bi: dict[str, Any], num_threads: int | None) -> tuple[Any, ...]:
    """Run both passes over the parts; return how to call (now or Delayed), merged metadata, sums and weight tables."""
    n = len(parts)
    if not n:
        validate.refuse("cells", "at least one part", "none")
    once, tree = (
        (lazy.dask().call_delayed, lazy.dask().merge_tree)
        if any(map(lazy.is_delayed, parts))
        else (_call_now, _call_now)
    )
    whole = tree(_merge_wholes, [once(_check_part, part, k, n) for k, part in enumerate(parts)])
    fixed = once(_make_tables, whole, weights, bi)
    sums = tree(_add_sums, [once(_sum_part, part, whole, fixed, num_threads=num_threads) for part in parts])
    return once, tree, whole, sums, fixed


def _call_now(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call the function immediately."""
    return function(*args, **options)


def _check_part(part: Any, k: int, n: int) -> _Whole:
    """Return matrix, grid and sizes of a part; raise unless it is CellCounts with sampled cells of part `k` of `n`."""
    name = f"cells[{k}]"
    if not isinstance(part, CellCounts):
        validate.refuse(name, "CellCounts", type(part).__name__, TypeError)
    some = slice(None, None, max(1, -(-len(part) // PROBED_TRIPLES)))
    table = None if part._table is None else adapter(part._table).to_host(part._table)
    if (assign_parts(adapter(part._keys).entry(part._keys, some), table, part, n) != k).any():
        validate.refuse(name, f"part {k} of {n}, as CellCounts.deal({n}) gives it", "cells of other parts")
    return _Whole(part._matrix(), part.grid, part.n_classes, part.n_points)


def _merge_wholes(parts: list[_Whole]) -> _Whole:
    """Merge the metadata of parts and add their confusion matrices; raise if grids or class numbers differ."""
    first = parts[0]
    for part in parts[1:]:
        if part.grid != first.grid:
            validate.refuse("grid", f"the same in all parts, {first.grid}", part.grid)
        if part.n_classes != first.n_classes:
            validate.refuse("n_classes", f"the same in all parts, {first.n_classes}", part.n_classes)
    n_points = sum(part.n_points for part in parts)
    check_total(n_points, 0)
    return first._replace(matrix=_add_arrays([part.matrix for part in parts]), n_points=n_points)


def _make_tables(whole: _Whole, weights: Any, bi: dict[str, Any]) -> list[Any]:
    """Return the weight tables, computed once, because another machine might round them differently."""
    return [w.table for w in make_weightings(whole.matrix, weights, bi)]


def _sum_part(part: CellCounts, whole: _Whole, fixed: list[Any], *, num_threads: int | None) -> tuple[Any, ...]:
    """Return the integer sums over the cells of a part, for every weight table."""
    found: tuple[Any, ...] = dispatch.call(
        "gcm", part._keys, part.counts, whole.matrix, *fixed, step="add", num_threads=num_threads
    )
    return found


def _add_sums(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Add the integer sums of parts."""
    return tuple(_add_arrays(list(each)) for each in zip(*parts, strict=True))


def _add_arrays(arrays: list[Any]) -> Any:
    """Add arrays of one library."""
    return adapter(arrays[0]).evaluate(lambda *arrays: sum(arrays[1:], arrays[0]), *arrays)


def _round_sums(
    whole: _Whole,
    sums: tuple[Any, ...],
    fixed: list[Any],
    weights: Any,
    bi: dict[str, Any],
    on_failure: OnFailure,
    *,
    bounded: bool,
) -> tuple[tuple[Any, ...], list[Weighting]]:
    """Round the integer sums to the kernel's output; return it and the weightings."""
    M = whole.matrix
    nothing = adapter(M).flatten(M, 0)[:0]
    out = dispatch.call("gcm", nothing, nothing, M, *fixed, *sums, step="round", bounded=bounded)
    found = make_weightings(M, weights, bi)
    return finish_gcm(out, found, on_failure), found


def _make_matrices(
    whole: _Whole, sums: tuple[Any, ...], fixed: list[Any], weights: Any, bi: dict[str, Any], on_failure: OnFailure
) -> Any:
    """Return the GCM: one matrix, or a stack for a list of weightings."""
    out, _ = _round_sums(whole, sums, fixed, weights, bi, on_failure, bounded=False)
    return out[0] if is_list(weights) else out[0][0, ...]


def _get_shapes(part: CellCounts) -> tuple[Shapes, Any]:
    """Return the cell statistics and key ranges of a part."""
    return compute_shapes(part), part._ranges


def _merge_shapes(parts: list[tuple[Shapes, Any]]) -> tuple[Shapes, Any]:
    """Merge the cell statistics of parts, which have no cells in common."""
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


def _make_part_diagnostics(
    whole: _Whole,
    sums: tuple[Any, ...],
    fixed: list[Any],
    shapes: tuple[Shapes, Any],
    weights: Any,
    bi: dict[str, Any],
    rng: Any,
    on_failure: OnFailure,
) -> GcmDiagnostics:
    """Return the diagnostics from the summed parts and their merged cell statistics."""
    out, found = _round_sums(whole, sums, fixed, weights, bi, on_failure, bounded=True)
    return warn_if_uninformative(
        make_diagnostics(shapes[0], found, out, validate.generator(rng), single=not is_list(weights))
    )
