"""Paired bootstrap: resampling units of paired counts, and the metrics of both classifiers in every replicate."""

from typing import NamedTuple

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.kernels.shared.metrics import Plan
from cmfast.uncertainty._paired_cells import PairedCells


class DrawnUnits(NamedTuple):
    """Resampling units by group: samples, with those of a cell as one kind, or clusters.

    Attributes
    ----------
    weights, group : array of int64, shape (u,)
        Number of units of each kind, and its group.
    starts, totals : array of int64, shape (G + 1,) and (G,)
        First kind of every group, and its number of units.
    bounds : array of int64, shape (u + 1,)
        First cell of every kind.
    cells : array of int64, shape (3, k)
        Truth and both predictions.
    counts : array of int64, shape (k,)
        Samples of the cell in one unit.
    """

    weights: np.ndarray
    group: np.ndarray
    starts: np.ndarray
    totals: np.ndarray
    bounds: np.ndarray
    cells: np.ndarray
    counts: np.ndarray


def list_units(held: PairedCells) -> DrawnUnits:
    """Return the resampling units of paired counts; refuse totals beyond exact float64."""
    groups, of_unit = held.groups()
    n_groups = 1 if groups is None else len(groups.rows)
    unit, *cells = held.decode()
    if held.clustered:
        weights, group = np.ones(held.n_units, np.int64), of_unit
        bounds, counts = np.searchsorted(unit, np.arange(held.n_units + 1)), held.counts
    else:
        weights, group = held.counts, unit
        bounds, counts = np.arange(len(weights) + 1), np.ones_like(weights)
    starts = np.searchsorted(group, np.arange(n_groups + 1))
    before = np.concatenate([[0], np.cumsum(weights)])
    totals = before[starts[1:]] - before[starts[:-1]]
    most = np.add.reduceat(counts, bounds[:-1]).max() if len(weights) else 0  # every unit has cells, as reduceat needs
    if int(most) * int(totals.max(initial=0)) >= validate.EXACT_FLOAT64:
        validate.fail("T has more samples than float64 counts exactly", OverflowError)
    return DrawnUnits(weights, group, starts, totals, bounds, np.stack(cells), counts)


def send_units(units: DrawnUnits, home: Array) -> list[Array]:
    """Return the array arguments of the op ``paired_replicates``, on the device of `home`."""
    ends = units.starts[1:][units.group]
    after = np.concatenate([[0], np.cumsum(units.weights)])
    shares = units.weights / (
        after[ends] - after[:-1]
    )  # conditional binomial probability: share among this kind and those after it
    cells = {"bounds": units.bounds, "cells": units.cells, "counts": units.counts}
    strata = {"groups": np.arange(len(units.totals) + 1), "starts": units.starts, "totals": units.totals}
    return _send_arrays(home, shares=shares, **strata, **cells)


def _send_arrays(home: Array, **arrays: np.ndarray) -> list[Array]:
    """Return the arrays in the library and on the device of `home`."""
    return dispatch.adopt(**{name: adapter(home).send(array, home) for name, array in arrays.items()})


def draw_replicates(
    arrays: list[Array],
    groups: slice,
    plan: Plan,
    n_classes: int,
    n_resamples: int,
    seed: int,
    num_threads: int | None,
    *,
    before: int | None = None,
) -> tuple[Array, ...]:
    """Return the metrics of `plan` of both matrices of every bootstrap replicate of some groups.

    Scalars of shape (G, B, 2), then per-class values (G, B, 2, C). `before` groups precede these in the random stream;
    default: the position of the first one in `arrays`.
    """
    shares, bounds, *units = arrays
    some = (shares, bounds[groups.start : groups.stop + 1], *units)
    before = groups.start if before is None else before
    options = {"n_classes": n_classes, "n_resamples": n_resamples, "seed": seed, "before": before}
    found = dispatch.call("paired_replicates", *some, plan=plan, **options, num_threads=num_threads)
    return tuple(found[:-1])


def compute_delta_errors(
    units: DrawnUnits, home: Array, plan: Plan, n_classes: int, num_threads: int | None, *, clustered: bool
) -> tuple[np.ndarray, ...]:
    """Return standard errors of all differences by the delta method: scalars of shape (G,), then (G, C).

    Computed on the device of `home`.
    """
    cells = {"bounds": units.bounds, "cells": units.cells, "counts": units.counts}
    arrays = _send_arrays(home, weights=units.weights, starts=units.starts, **cells)
    options = {"n_classes": n_classes, "clustered": clustered, "num_threads": num_threads}
    found = dispatch.call("paired_errors", *arrays, plan=plan, **options)
    return tuple(adapter(array).to_host(array) for array in found)
