"""Grids chosen from points in Dask arrays: extremes and integer sums of chunks give the same bits for any chunking."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cmfast._core import dispatch, lazy, validate
from cmfast._core.annotations import Array, OnFailure
from cmfast.geometry._width_rules import Columns, Spread, measure_columns, sum_moments


def choose_grid(kind: type, rule: str, X: Any, *given: Any, on_failure: OnFailure, num_threads: int | None) -> Any:
    """Return a Delayed grid chosen by `rule` ("scott" or "regular", with options `given`) for a Dask array."""
    on_failure = validate.on_failure(on_failure)
    validate.points(X=X)
    num_threads = validate.num_threads(num_threads)
    if rule == "scott":
        found, sums = sum_parts(X, _sum_moments, _add_moments, num_threads=num_threads)
    else:
        found, sums = (
            lazy.dask().merge_parts(_measure_chunk, _merge_spreads, {"X": X}, {"X": 1}, num_threads=num_threads),
            None,
        )
    return lazy.dask().call_delayed(_make_grid, kind, rule, given, found, sums, on_failure)


def sum_parts(X: Any, function: Callable[..., Any], merge: Any, *, num_threads: int | None = None) -> tuple[Any, Any]:
    """Return the Delayed spread of a Dask array of points, and a Delayed merge of `function` applied to its parts.

    The second pass needs the spread of the first. Chunks are read twice, so that none stays in memory between the
    passes.
    """
    found = lazy.dask().merge_parts(_measure_chunk, _merge_spreads, {"X": X}, {"X": 1}, num_threads=num_threads)
    none = np.zeros(X.shape[1])
    known = {"found": (found, Spread(none, none, 0, 0))}
    again = lazy.dask().recompute_after({"X": X}, found)
    return found, lazy.dask().merge_parts(function, merge, again, {"X": 1}, known=known, num_threads=num_threads)


def _measure_chunk(X: Array, *, num_threads: int | None) -> Spread:
    """Return the spread of one chunk of points."""
    return measure_columns(dispatch.adopt_one("X", X), num_threads)


def _merge_spreads(parts: list[Spread]) -> Spread:
    """Merge the spreads of chunks."""
    low, high, n, n_rows = zip(*parts, strict=True)
    return Spread(np.minimum.reduce(low), np.maximum.reduce(high), sum(n), sum(n_rows))


def _sum_moments(X: Array, found: Spread, *, num_threads: int | None) -> list[list[int]]:
    """Return the integer moments of one chunk of points, given the spread of all."""
    X = dispatch.adopt_one("X", X)
    with np.errstate(over="ignore", invalid="ignore"):
        none = not np.isfinite(found.high - found.low).all()
    return (
        [[0] * len(found.low)] * 3 if none else sum_moments(X, found, num_threads)
    )  # without finite points every rule raises


def _add_moments(parts: list[list[list[int]]]) -> list[list[int]]:
    """Add the integer moments of chunks."""
    return [[sum(column) for column in zip(*rows, strict=True)] for rows in zip(*parts, strict=True)]


def _make_grid(kind: Any, rule: str, given: Any, found: Spread, sums: Any, on_failure: OnFailure) -> Any:
    """Make the grid by `rule` from the merged spread and moments."""
    columns = Columns(None, on_failure, None, found=found, sums=sums)
    return kind(columns.low, getattr(columns, rule)(*given))
