"""Grids of points in Dask arrays: extremes and integer sums of chunks, so the same bits come of any chunks."""

from typing import Any

import numpy as np

from cmfast._core import dispatch, lazy, validate
from cmfast._core.annotations import Array, OnFailure
from cmfast.geometry._rules import Columns, Spread, moments, spread


def grid(kind: type, rule: str, X: Any, *given: Any, on_failure: OnFailure, num_threads: int | None) -> Any:
    """Return the grid that a rule chooses for a Dask array of points, a Delayed; `given` are the rule's options."""
    validate.on_failure(on_failure)
    m = validate.points(X=X)[1]
    options: dict[str, Any] = {"num_threads": validate.num_threads(num_threads)}
    found, sums = lazy.merged(_spread, _joined, {"X": X}, {"X": 1}, **options), None
    if rule == "scott":
        none = np.zeros(m)
        known = {"found": (found, Spread(none, none, 0, 0))}
        again = lazy.read_again({"X": X}, found)
        sums = lazy.merged(_moments, _added, again, {"X": 1}, known=known, **options)
    return lazy.awaited(_grid, kind, rule, given, found, sums, on_failure)


def _spread(X: Array, *, num_threads: int | None) -> Spread:
    (X,) = dispatch.adopt(X=X)
    return spread(X, num_threads)


def _joined(parts: list[Spread]) -> Spread:
    low, high, n, n_rows = zip(*parts, strict=True)
    return Spread(np.minimum.reduce(low), np.maximum.reduce(high), sum(n), sum(n_rows))


def _moments(X: Array, found: Spread, *, num_threads: int | None) -> list[list[int]]:
    (X,) = dispatch.adopt(X=X)
    with np.errstate(over="ignore", invalid="ignore"):
        none = not np.isfinite(found.high - found.low).all()
    return [[0] * len(found.low)] * 3 if none else moments(X, found, num_threads)  # of none no rule makes a grid


def _added(parts: list[list[list[int]]]) -> list[list[int]]:
    return [[sum(column) for column in zip(*rows, strict=True)] for rows in zip(*parts, strict=True)]


def _grid(kind: Any, rule: str, given: Any, found: Spread, sums: Any, on_failure: OnFailure) -> Any:
    columns = Columns(None, on_failure, None, found=found, sums=sums)
    return kind(columns.low, getattr(columns, rule)(*given))
