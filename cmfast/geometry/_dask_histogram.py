"""Weighted histograms of points in Dask arrays: exact integer sums even for float weights, equal for any chunking."""

from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, labels, lazy, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure
from cmfast.geometry import _binning
from cmfast.geometry._cells import KeyedSums, SparseHistogram, merge_keyed_sums
from cmfast.geometry._grid import Grid, validate_grid
from cmfast.geometry._points import adopt_weighted_points
from cmfast.geometry._prepare_points import MOST_PART_COORDINATES
from cmfast.kernels.shared import halves
from cmfast.kernels.shared.geometry_keys import MOST_INDEX, bits_of
from cmfast.kernels.status import Status

# Digits of a float weight, from the power of two above the largest weight down to 2**-124 of it, as in the kernels. The
# sum of a digit overflows int64 after 2**39 points.
HEIGHT_DIGITS, HEIGHT_DIGIT_BITS = 5, 25


class _PartSums(NamedTuple):
    """Integer sums of some points per cell and group, in columns that are joined into values at the end."""

    runs: KeyedSums
    n_groups: int
    n_dropped: int


def histogram(X: Any, weights: Any, groups: Any, *, grid: Any, n_groups: Any, **options: Any) -> Any:
    """Return the Delayed histogram of Dask arrays, summed over the chunks."""
    labels.check_known(n_classes=0, groups=groups, n_groups=n_groups)
    options["on_failure"] = validate.on_failure(options["on_failure"])
    arrays = {"X": X, "weights": weights, "groups": groups}
    cores = {"X": 1, "weights": 0, "groups": 0}
    known: dict[str, Any] = {}
    given = {"grid": grid}
    if lazy.is_delayed(grid):
        m = validate.points(X=X)[1]
        known["grid"], given = (grid, Grid(np.zeros(m), np.ones(m))), {}
        arrays = lazy.dask().recompute_after(arrays, grid)
    kind = adapter(weights).dtype(weights) if lazy.are_lazy(weights) else None
    top: Any = None
    if kind is not None and kind.kind == "f":
        some = {name: arrays[name] for name in ("X", "weights")}
        top = lazy.dask().merge_parts(
            _find_largest_weight, max, some, cores, known=known, **given, num_threads=options["num_threads"]
        )
        arrays = lazy.dask().recompute_after(arrays, top)
        known["top"] = (top, 0.0)
    found = lazy.dask().merge_parts(
        _sum_part, _merge_all, arrays, cores, known=known, **given, n_groups=n_groups, **options
    )
    return lazy.dask().call_delayed(_make_histogram, found, grid, kind, top, options["on_failure"])


def _find_largest_weight(X: Array, weights: Array, *, grid: Grid, num_threads: int | None) -> float:
    """Return the largest finite magnitude of the weights of points that have a cell."""
    del num_threads
    X, weights = dispatch.adopt(X=X, weights=weights)
    n, m = validate.points(X=X)
    validate.real(weights=weights)
    validate.point_arrays(n, weights=weights)
    validate_grid(grid, m)
    top, step = 0.0, max(1, MOST_PART_COORDINATES // m)
    origin, inverse = (adapter(X).send(x, X) for x in (grid.origin, grid.inverse))

    def largest(X: Any, weights: Any) -> float:
        """Return the largest finite weight magnitude of points inside the grid's range."""
        inside = (abs((X.astype(np.float64) - origin) * inverse) < MOST_INDEX).all(axis=1)
        return float((abs(halves.replace_nonfinite(weights.astype(np.float64))) * inside).max())  # synchronises

    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, n, step):
            some = slice(start, start + step)
            top = max(top, adapter(X).evaluate(largest, X[some], weights[some]))
    return top


def _sum_part(
    X: Array, weights: Array | None = None, groups: Array | None = None, *, top: float | None = None, **options: Any
) -> _PartSums:
    """Sum the weights of one chunk per cell and group, as integers."""
    points = adopt_weighted_points(X, weights, groups)
    if weights is not None:
        points = points._replace(weights=adapter(points.X).evaluate(partial(_split_weights, top=top), points.weights))
    found = _binning.sum_heights(points, **options)
    values = found.values
    columns = (values,) if values.ndim == 1 else tuple(values[:, k] for k in range(values.shape[1]))
    if weights is not None and top is None:
        columns = adapter(values).evaluate(halves.carry_halves, *columns)
    return _PartSums(KeyedSums(found.keys, columns, found.table, found.ranges), found.n_groups, found.n_dropped)


def _split_weights(weights: Any, top: float | None) -> Any:
    """Split weights into integer columns: 32-bit halves of integers, or digits of floats plus a not-finite flag."""
    if top is None:
        return np.stack(halves.split_halves(weights), axis=1)
    bad = (~np.isfinite(weights)).astype(np.int64)
    known = np.where(abs(weights) <= top, weights, 0)  # larger weights belong to points without a cell
    return np.stack(
        [*halves.extract_digits(known, int(np.frexp(top)[1]) + 1, HEIGHT_DIGITS, HEIGHT_DIGIT_BITS), bad], axis=1
    )


def _merge_all(parts: list[_PartSums]) -> _PartSums:
    """Merge the sums of chunks."""
    return reduce(_merge_two, parts)


def _merge_two(a: _PartSums, b: _PartSums) -> _PartSums:
    """Merge the sums of two chunks, carrying between the halves of integers."""
    runs = merge_keyed_sums(a.runs, b.runs, bits_of(a.n_groups))
    if len(runs.columns) == 2:
        runs = runs._replace(columns=adapter(runs.keys).evaluate(halves.carry_halves, *runs.columns))
    return _PartSums(runs, a.n_groups, a.n_dropped + b.n_dropped)


def _make_histogram(
    found: _PartSums, grid: Grid, kind: Any, top: float | None, on_failure: OnFailure
) -> SparseHistogram:
    """Join the merged integer sums into values, report failures and return the histogram."""
    keys, columns, table, ranges = found.runs
    if kind is None:
        (values,) = columns
    elif top is None:
        values = _join_halves(*columns)
    else:
        host = [adapter(column).to_host(column) for column in columns]
        heights = halves.round_digit_sums(
            host[:-1], HEIGHT_DIGIT_BITS, int(np.frexp(top)[1]) + 1 - HEIGHT_DIGITS * HEIGHT_DIGIT_BITS
        )
        with np.errstate(over="ignore"):
            heights = heights.astype(np.float32 if kind == np.float32 else np.float64)
        heights[host[-1] > 0] = np.nan
        status = np.where(np.isnan(heights), Status.INVALID, np.where(np.isinf(heights), Status.RANGE, 0))
        heights[np.isinf(heights)] = np.nan
        failures.report(status.astype(np.int8), on_failure, failed="values not computed")
        values = adapter(keys).send(heights, keys)
    return SparseHistogram(grid, found.n_groups, values, found.n_dropped, keys, table, ranges)


def _join_halves(low: Any, high: Any) -> Any:
    """Join the sums of 32-bit halves; raise OverflowError if int64 cannot hold a sum."""
    values, good = adapter(low).evaluate(halves.join_halves, low, high)
    if not adapter(good).evaluate(lambda good: bool(good.all()), good):  # synchronises
        pairs = zip(adapter(low).to_host(low).tolist(), adapter(high).to_host(high).tolist(), strict=True)
        worst = max(((b << halves.BITS) + a for a, b in pairs), key=abs)
        validate.fail(f"a sum of weights is {worst}, which int64 cannot hold", OverflowError)
    return values
