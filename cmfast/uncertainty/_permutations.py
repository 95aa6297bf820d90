"""Paired permutation test: p-values of differences between two classifiers, by swapping both predictions of a unit.

If neither classifier is better, both predictions of a sample (or all of a cluster) are exchangeable. The p-value is the
share of all swaps whose metrics differ by at least the observed difference (Fisher 1935; Edgington 1969; one swap per
cluster). Only units in which the two differ matter. Of N units that change the same counts, the number that is not
swapped is binomial, with N and one half.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.kernels.shared.metrics import Plan
from cmfast.kernels.shared.uncertainty import add_cells
from cmfast.uncertainty import _paired_replicates
from cmfast.uncertainty._paired_cells import PairedCells, decode_keys, sort_cells

MOST_STATES = 2**14  # most tables to enumerate: all swaps of 14 samples, or of 16,383 samples of one kind
MOST_ENUMERATED_BYTES = 2**26  # of sums of enumerated tables held at a time
MONTE_CARLO_ERRORS = 3.0  # safety margin of the least p-value, in Monte Carlo standard errors
METRIC_ROUNDING = 1e-12  # relative rounding below which two metric values count as equal


class Swaps(NamedTuple):
    """Units in which two classifiers differ, ordered by group; units that change the same counts form one kind.

    Attributes
    ----------
    sizes, group : array of int64, shape (k,)
        Number of units of each kind, and their group.
    bounds : array of int64, shape (k + 1,)
        First cell of every kind.
    cells : array of int64, shape (3, n)
        Truth and both predictions, unswapped.
    counts : array of int64, shape (n,)
        Samples of the cell in one unit.
    fixed_group, fixed_cells, fixed_counts : array of int64, shape (f,), (3, f) and (f,)
        Group, cell and samples of all cells that no swap changes.
    """

    sizes: np.ndarray
    group: np.ndarray
    bounds: np.ndarray
    cells: np.ndarray
    counts: np.ndarray
    fixed_group: np.ndarray
    fixed_cells: np.ndarray
    fixed_counts: np.ndarray

    def select_group(self, group: int) -> "Swaps":
        """Return the units of one group."""
        first, last = np.searchsorted(self.group, [group, group + 1])
        at = slice(self.bounds[first], self.bounds[last])
        fixed = slice(*np.searchsorted(self.fixed_group, [group, group + 1]))
        return Swaps(
            self.sizes[first:last], self.group[first:last], self.bounds[first : last + 1] - self.bounds[first],
            self.cells[:, at], self.counts[at], self.fixed_group[fixed], self.fixed_cells[:, fixed],
            self.fixed_counts[fixed],
        )  # fmt: skip

    @property
    def n_states(self) -> float:
        """Number of tables that swaps can lead to; infinite above the enumeration limit."""
        n = 1
        for size in self.sizes.tolist():
            n *= size + 1
            if n > MOST_STATES:
                return math.inf
        return n


class PermutationResult(NamedTuple):
    """Results of the permutation test, each of shape (G,) or (G, C).

    Attributes
    ----------
    p_value : array of float64
        Share of the swaps in which the difference is at least as large as the observed one.
    p_error : array of float64
        Standard error of the p-value by Monte Carlo; 0 where all swaps were enumerated.
    least : array of float64
        Smallest p-value that any outcome of these units can have, or a lower bound from random swaps. 0 if all
        outcomes are equal.
    """

    p_value: np.ndarray
    p_error: np.ndarray
    least: np.ndarray


def find_swaps(held: PairedCells) -> Swaps:
    """Return the units of paired counts in which the two classifiers differ: samples, or clusters."""
    _, of_unit = held.groups()
    C = max(len(held.axis.labels), 1)
    unit, y, a, b = held.decode()
    differ = a != b
    low, high = np.minimum(a, b)[differ], np.maximum(a, b)[differ]
    pairs, which = np.unique(((unit[differ] * C + y[differ]) * C + low) * C + high, return_inverse=True)
    whole, net = np.zeros((2, len(pairs)), np.int64)
    np.add.at(whole, which.reshape(-1), held.counts[differ])
    np.add.at(net, which.reshape(-1), np.where(a < b, held.counts, -held.counts)[differ])
    rest, high = np.divmod(pairs, C)
    rest, low = np.divmod(rest, C)
    of_pair, truth = np.divmod(rest, C)
    fixed = [of_unit[unit[~differ]], y[~differ], a[~differ], b[~differ], held.counts[~differ]]
    if not held.clustered:
        cells, ones = np.stack([truth, low, high]), np.ones(len(pairs), np.int64)
        bounds = np.arange(len(pairs) + 1)
        return Swaps(whole, of_unit[of_pair], bounds, cells, ones, *_sum_equal_cells(fixed, C))
    # Swapping a cluster exchanges (t, a, b) and (t, b, a): only the excess of one over the other changes the counts.
    even, odd = (whole - np.abs(net)) // 2, net != 0
    for one, other in ((low, high), (high, low)):
        more = (of_unit[of_pair], truth, one, other, even)
        fixed = [np.concatenate([old, new[even > 0]]) for old, new in zip(fixed, more, strict=True)]
    swapped = net < 0
    cells = np.stack([truth, np.where(swapped, high, low), np.where(swapped, low, high)])[:, odd]
    sizes, group, bounds, cells, counts = _merge_equal_clusters(of_pair[odd], of_unit, cells, np.abs(net[odd]))
    return Swaps(sizes, group, bounds, cells, counts, *_sum_equal_cells(fixed, C))


def count_discordant(held: PairedCells, swaps: Swaps | None) -> np.ndarray:
    """Return per group the number of samples, or of clusters, in which the two differ; `swaps` if known."""
    groups, of_unit = held.groups()
    if swaps is None and not held.clustered:
        unit, _, a, b = held.decode()
        differ = a != b
        group, sizes = of_unit[unit[differ]], held.counts[differ]
    else:
        swaps = find_swaps(held) if swaps is None else swaps
        group, sizes = swaps.group, swaps.sizes
    found = np.zeros(1 if groups is None else len(groups.rows), np.int64)
    np.add.at(found, group, sizes)
    return found


def _sum_equal_cells(fixed: list[np.ndarray], C: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge duplicate cells: return group, cell and samples of each, ordered by group."""
    group, y, a, b, counts = fixed
    keys, total = sort_cells(((group * C + y) * C + a) * C + b, counts)
    group, *cells = decode_keys(keys, C)
    return group, np.stack(cells), total


def _merge_equal_clusters(
    cluster: np.ndarray, of_unit: np.ndarray, cells: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Merge clusters that differ in one equal cell into kinds; return sizes, groups, bounds, cells, counts."""
    names, first, n_cells = np.unique(cluster, return_index=True, return_counts=True)
    alone = n_cells == 1
    at = first[alone]
    y, a, b = cells[:, at]
    key = np.stack([of_unit[names[alone]], y, np.minimum(a, b), np.maximum(a, b), counts[at]])
    alike, sizes = np.unique(key, axis=1, return_counts=True)
    many = np.repeat(~alone, n_cells)
    sizes = np.concatenate([sizes, np.ones(np.count_nonzero(~alone), np.int64)]).astype(np.int64)
    group = np.concatenate([alike[0], of_unit[names[~alone]]])
    lengths = np.concatenate([np.ones(alike.shape[1], np.int64), n_cells[~alone]])
    cells = np.concatenate([alike[1:4], cells[:, many]], axis=1)
    counts = np.concatenate([alike[4], counts[many]])
    order = np.argsort(group, kind="stable")
    starts = np.concatenate([[0], np.cumsum(lengths)])
    place = _concatenate_ranges(starts[:-1][order], lengths[order])
    bounds = np.concatenate([[0], np.cumsum(lengths[order])])
    return sizes[order], group[order], bounds, cells[:, place], counts[place]


def _concatenate_ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the concatenated integer ranges with these starts and lengths."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def test_differences(
    swaps: Swaps, both: list[np.ndarray], home: Array, plan: Plan, n_classes: int, n_resamples: int, seed: int,
    num_threads: int | None,
) -> list[PermutationResult]:  # fmt: skip
    """Test every difference of `plan` by swaps, given `both` observed values, shape (2, G) or (2, G, C)."""
    n_groups = both[0].shape[1] if both else 0
    options: dict[str, Any] = {"plan": plan, "num_threads": num_threads}
    parts: list[list[PermutationResult]] = [[] for _ in both]
    for group in range(n_groups):
        own = swaps.select_group(group)
        observed = [values[:, group] for values in both]
        if own.n_states <= MOST_STATES:
            weights = weigh_states(own.sizes)
            found = _enumerate_swaps(own, len(weights), home, n_classes, options)
        else:
            weights = None
            found = _draw_swaps(own, group, home, n_classes, n_resamples, seed, options)
        for part, apart, values in zip(parts, found, observed, strict=True):
            part.append(count_extremes(apart, values, weights))
    if not n_groups:
        return [PermutationResult(*(values[0],) * 3) for values in both]
    return [PermutationResult(*(np.stack(field) for field in zip(*part, strict=True))) for part in parts]


def weigh_states(sizes: np.ndarray) -> np.ndarray:
    """Return the probability of every table that swaps lead to, in the order of :func:`_enumerate_swaps`."""
    weights = np.ones(1)
    for n in sizes.tolist():
        chances, ways, all_ways = [], 1, 2**n  # integers, so that quotients are rounded only once
        for k in range(n + 1):
            chances.append(ways / all_ways)
            ways = ways * (n - k) // (k + 1)
        weights = (np.array(chances)[:, np.newaxis] * weights).reshape(-1)
    return weights


def _enumerate_swaps(swaps: Swaps, n_states: int, home: Array, C: int, options: dict[str, Any]) -> list[np.ndarray]:
    """Return the differences in every table that swaps lead to, shape (S,) or (S, C) each."""
    n_sums = 5 if options["plan"].ordered else 3
    kinds = len(swaps.sizes)
    kept, swapped = np.zeros((2, n_sums, kinds, 2, C), np.int64)
    kind = np.repeat(np.arange(kinds), np.diff(swaps.bounds))
    y, a, b = swaps.cells
    add_cells(kept, (y, a, b), kind, swaps.counts)
    add_cells(swapped, (y, b, a), kind, swaps.counts)
    start = np.zeros((n_sums, 1, 2, C), np.int64)
    add_cells(start, tuple(swaps.fixed_cells), np.zeros(len(swaps.fixed_counts), np.int64), swaps.fixed_counts)
    start += (swaps.sizes[:, np.newaxis, np.newaxis] * swapped).sum(1, keepdims=True)
    change = (kept - swapped).reshape(n_sums, kinds, 2 * C).astype(np.float64)  # exact: all sums are below 2**53
    step = max(1, MOST_ENUMERATED_BYTES // (16 * n_sums * max(C, 1)))
    found: list[list[np.ndarray]] = []
    for first in range(0, n_states, step):
        rest = np.arange(first, min(first + step, n_states))
        n_kept = np.empty((len(rest), kinds))
        for k, size in enumerate(swaps.sizes.tolist()):
            rest, n_kept[:, k] = np.divmod(rest, size + 1)
        sums = start + np.rint(n_kept @ change).astype(np.int64).reshape(n_sums, len(rest), 2, C)
        found.append([subtract_second(value) for value in evaluate_sums(sums, home, **options)])
    return [np.concatenate(part) for part in zip(*found, strict=True)]


def _draw_swaps(
    swaps: Swaps, group: int, home: Array, C: int, n_resamples: int, seed: int, options: dict[str, Any]
) -> list[np.ndarray]:
    """Return the differences after random swaps, shape (B,) or (B, C) each; one stratum per kind of units."""
    kinds, lengths = len(swaps.sizes), np.diff(swaps.bounds)
    # Each kind unswapped, then swapped; finally the cells that no swap changes, as one unit in its own stratum.
    twice = np.repeat(np.arange(kinds), 2)
    place = _concatenate_ranges(swaps.bounds[twice], lengths[twice])
    cells, is_swapped = swaps.cells[:, place], np.repeat(np.arange(2 * kinds) % 2 == 1, lengths[twice])
    cells[1:, is_swapped] = cells[2:0:-1, is_swapped]
    fixed = len(swaps.fixed_counts) > 0
    n_cells = np.concatenate([lengths[twice], [len(swaps.fixed_counts)] * fixed])
    arrays = dispatch.adopt(
        **{
            name: adapter(home).send(np.ascontiguousarray(array), home)
            for name, array in {
                "shares": np.concatenate([np.tile([0.5, 1.0], kinds), [1.0] * fixed]),
                "groups": np.array([0, kinds + fixed]),
                "starts": np.concatenate([2 * np.arange(kinds + 1), [2 * kinds + 1] * fixed]),
                "totals": np.concatenate([swaps.sizes, [1] * fixed]).astype(np.int64),
                "bounds": np.concatenate([[0], np.cumsum(n_cells)]).astype(np.int64),
                "cells": np.concatenate([cells, swaps.fixed_cells], axis=1),
                "counts": np.concatenate([swaps.counts[place], swaps.fixed_counts]),
            }.items()
        }
    )
    values = _paired_replicates.draw_replicates(
        arrays, slice(0, 1), options["plan"], C, n_resamples, seed, options["num_threads"], before=group
    )
    host = [adapter(array).to_host(array)[0] for array in values]
    with np.errstate(invalid="ignore"):
        return [array[:, 0] - array[:, 1] for array in host]


def count_extremes(apart: np.ndarray, both: np.ndarray, weights: np.ndarray | None) -> PermutationResult:
    """Return the p-values of swapped differences `apart`, shape (S, ...), against observed values, shape (2, ...).

    `weights` are the probabilities of enumerated tables; None for random ones, which the observed table joins.
    Undefined differences are left out: the test is conditional on the defined ones.
    """
    with np.errstate(invalid="ignore"):
        observed = np.abs(both[0] - both[1])
        largest = np.abs(both).max(0)
        slack = METRIC_ROUNDING * np.where(np.isfinite(largest), np.maximum(1.0, largest), 1.0)
        apart = np.abs(apart)
        known = ~np.isnan(apart)
        extreme, top = apart >= observed - slack, np.where(known, apart, -1.0).max(0)
        highest = known & (apart >= top - slack)
    if weights is None:
        n = known.sum(0)
        p = (extreme.sum(0) + 1.0) / (n + 1.0)
        error = np.sqrt(p * (1.0 - p) / (n + 1.0))
        share = np.where(n > 0, highest.sum(0) / np.maximum(n, 1), 1.0)
        least = np.maximum(share - MONTE_CARLO_ERRORS * np.sqrt(share * (1.0 - share) / np.maximum(n, 1)), 0.0)
    else:
        column = weights.reshape(-1, *[1] * (apart.ndim - 1))
        n = (column * known).sum(0)
        share = np.where(n > 0, n, 1.0)
        p = np.clip((column * extreme).sum(0) / share, np.finfo(np.float64).tiny, 1.0)
        error = np.zeros(np.shape(p))
        least = np.where(n > 0, (column * highest).sum(0) / share, 1.0)
    least = np.where(top > slack, least, 0.0)  # all swaps give the same difference
    undefined = np.isnan(observed)
    return PermutationResult(*(np.where(undefined, np.nan, field) for field in (p, error, least)))


def evaluate_sums(sums: np.ndarray, home: Array, *, plan: Plan, num_threads: int | None) -> list[np.ndarray]:
    """Evaluate `plan` on the sums of two matrices, shape (n_sums, n, 2, C); return arrays (n, 2) or (n, 2, C)."""
    arrays = dispatch.adopt(**{f"sums{k}": adapter(home).send(a, home) for k, a in enumerate(sums)})
    given = [*arrays, *[None] * (5 - len(sums))]
    *values, _ = dispatch.call("metrics_of_sums", *given, plan=plan, num_threads=num_threads)
    return [adapter(value).to_host(value) for value in values]


def subtract_second(values: np.ndarray) -> np.ndarray:
    """Return first minus second along the second axis; NaN for equal infinities."""
    with np.errstate(invalid="ignore"):
        found: np.ndarray = values[:, 0] - values[:, 1]
    return found
