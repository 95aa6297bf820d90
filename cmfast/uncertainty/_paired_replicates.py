"""Paired counts drawn again: what is drawn, samples or clusters, and the metrics of both classifiers every time."""

from typing import NamedTuple

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.kernels.shared.metrics import Plan
from cmfast.uncertainty._paired_held import HeldCells


class DrawnUnits(NamedTuple):
    """What is drawn, group by group: samples, of which those of a cell are alike; or clusters.

    Attributes
    ----------
    weights, group : array of int64, shape (u,)
        How many units of a kind there are, and of which group.
    starts, totals : array of int64, shape (G + 1,) and (G,)
        Where the kinds of every group begin, and how many units it has.
    bounds : array of int64, shape (u + 1,)
        Where the cells of every kind begin.
    cells : array of int64, shape (3, k)
        Truth and both predictions.
    counts : array of int64, shape (k,)
        Samples that one unit brings to the cell.
    """

    weights: np.ndarray
    group: np.ndarray
    starts: np.ndarray
    totals: np.ndarray
    bounds: np.ndarray
    cells: np.ndarray
    counts: np.ndarray


def units_of(held: HeldCells) -> DrawnUnits:
    """Return what is drawn."""
    groups, of_unit = held.groups()
    n_groups = 1 if groups is None else len(groups.rows)
    unit, *cells = held.decoded()
    if held.clustered:
        weights, group = np.ones(held.n_units, np.int64), of_unit
        bounds, counts = np.searchsorted(unit, np.arange(held.n_units + 1)), held.counts
    else:
        weights, group = held.counts, unit
        bounds, counts = np.arange(len(weights) + 1), np.ones_like(weights)
    starts = np.searchsorted(group, np.arange(n_groups + 1))
    before = np.concatenate([[0], np.cumsum(weights)])
    totals = before[starts[1:]] - before[starts[:-1]]
    most = np.add.reduceat(counts, bounds[:-1]).max() if len(weights) else 0  # no unit is without cells
    if int(most) * int(totals.max(initial=0)) >= validate.EXACT_FLOAT64:
        validate.fail("T has more samples than float64 counts exactly", OverflowError)
    return DrawnUnits(weights, group, starts, totals, bounds, np.stack(cells), counts)


def sent(units: DrawnUnits, home: Array) -> list[Array]:
    """Return the arrays that the op ``paired_replicates`` takes, where `home` is."""
    ends = units.starts[1:][units.group]
    after = np.concatenate([[0], np.cumsum(units.weights)])
    shares = units.weights / (after[ends] - after[:-1])  # of itself and those after it in its group
    cells = {"bounds": units.bounds, "cells": units.cells, "counts": units.counts}
    strata = {"groups": np.arange(len(units.totals) + 1), "starts": units.starts, "totals": units.totals}
    return _at(home, shares=shares, **strata, **cells)


def _at(home: Array, **arrays: np.ndarray) -> list[Array]:
    """Return arrays where `home` is."""
    return dispatch.adopt(**{name: adapter(home).send(array, home) for name, array in arrays.items()})


def drawn(
    arrays: list[Array],
    groups: slice,
    plan: Plan,
    n_classes: int,
    n_replicates: int,
    seed: int,
    num_threads: int | None,
    *,
    before: int | None = None,
) -> tuple[Array, ...]:
    """Return what `plan` makes of both matrices of every replicate of some groups.

    Scalars of shape (G, B, 2), then numbers of a class (G, B, 2, C). There are `before` other groups before these;
    default: as many as there are in `arrays`.
    """
    shares, bounds, *units = arrays
    some = (shares, bounds[groups.start : groups.stop + 1], *units)
    before = groups.start if before is None else before
    options = {"n_classes": n_classes, "n_replicates": n_replicates, "seed": seed, "before": before}
    found = dispatch.call("paired_replicates", *some, plan=plan, **options, num_threads=num_threads)
    return tuple(found[:-1])


def errors(
    units: DrawnUnits, home: Array, plan: Plan, n_classes: int, num_threads: int | None, *, clustered: bool
) -> tuple[np.ndarray, ...]:
    """Return standard errors of all differences by the delta method: scalars of shape (G,), then (G, C).

    They are made where `home` is.
    """
    cells = {"bounds": units.bounds, "cells": units.cells, "counts": units.counts}
    arrays = _at(home, weights=units.weights, starts=units.starts, **cells)
    options = {"n_classes": n_classes, "clustered": clustered, "num_threads": num_threads}
    found = dispatch.call("paired_errors", *arrays, plan=plan, **options)
    return tuple(adapter(array).to_host(array) for array in found)
