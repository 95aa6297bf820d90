"""Geometric confusion matrices, and the excess of cells over their own weighted counts."""

from typing import Any

import numpy as np

from cmfast.kernels.cuda import counting
from cmfast.kernels.cuda._core.module import library
from cmfast.kernels.cuda.geometry import _entries, _run_length, _weights
from cmfast.kernels.cuda.geometry._entries import CommonEntries, Entries, list_pairs, make_sides
from cmfast.kernels.shared.geometry_keys import bits_of
from cmfast.kernels.status import INVALID, OK


def gcm(
    keys: Any,
    counts: Any,
    M: Any,
    *tables: Any,
    bounded: bool = True,
    step: str | None = None,
    num_threads: int | None = None,
) -> tuple[Any, ...]:
    """Return the geometric confusion matrices for W tables of weights (C, C), with bounds; synchronises.

    Bounds are returned for any `bounded`. Multi-limb sums are (K, C, C). The status, which the host knows, is there.
    """
    del bounded, num_threads
    xp = library(keys)
    number = len(tables) // 2 if step == "round" else len(tables)
    fixed = _weights.quantise(list(tables[:number]), M)
    G = tables[number:] or _compute_sums(keys, counts, fixed, M.shape)
    if step == "add":
        return tuple(G)
    sums = xp.zeros((3, number, M.size), np.int64)
    for w, (q, form, _) in enumerate(fixed):
        if form is not None and not form.width:
            exact = q[0] * M
            rows, columns = exact.sum(axis=1)[:, None], exact.sum(axis=0)[None, :]
            for k, total in enumerate((G[w], exact, xp.where(rows < columns, rows, columns))):
                sums[k, w] = total.ravel()
    forms = [table.form for table in fixed]
    out = _weights.convert_sums(sums, forms).reshape(3, number, *M.shape)
    for w, (q, form, _) in enumerate(fixed):
        if form is not None and form.width:
            exact = q * M
            rows, columns = (_weights.propagate_carries(exact.sum(axis=axis), form.width) for axis in (2, 1))
            for k, total in enumerate((G[w], exact, _weights.find_minima(rows, columns))):
                out[k, w] = _weights.convert_limb_sums(_weights.propagate_carries(total, form.width), form)
    status = np.array([INVALID if form is None else OK for form in forms], np.int8)
    error = xp.asarray(np.array([np.nan if form is None else form.error for form in forms], np.float64))
    return out[0], out[1], out[2], error, status


def _compute_sums(keys: Any, counts: Any, fixed: list[_weights.WeightTable], shape: tuple[int, int]) -> list[Any]:
    """Return the integer geometric matrix of each table: (C, C), or limbs (K, C, C); zeros for an invalid table."""
    xp, half, sides, out = library(keys), bits_of(shape[0]), None, []
    for q, form, words in fixed:
        if form is None:
            out.append(xp.zeros(shape, np.int64))
        elif words is not None:
            sums = _entries.sum_cell_minima(keys, counts, words, half)
            out.append(_weights.split_words(sums, form) if form.width else sums)
        else:
            labels, predictions = sides = sides or make_sides(keys, half)
            masses = _weights.weigh_runs(keys, counts, half, q)
            L, P = (_weights.sum_heights(side, masses, form.width) for side in sides)
            out.append(_entries.sum_wide_minima(labels, L, predictions, P, shape[0]))
    return out


def cell_excess(
    keys: Any, counts: Any, share: Any, W: Any, C: Any, *, num_threads: int | None = None
) -> tuple[Any, Any]:
    """Sum the excess of cells over their own weighted counts, ``min(L_i, P_j) - w_ij n_ij``; synchronises."""
    del num_threads
    xp, (n_weights, n_classes, _) = library(keys), W.shape
    half, mask = bits_of(n_classes), (1 << bits_of(n_classes)) - 1
    both = make_sides(keys, half)
    every = xp.arange(len(both[0].cells))
    own = (keys >> half & mask) * n_classes + (keys & mask)
    E, scores = xp.empty((n_weights, n_classes**2), np.float64), xp.empty((len(share), n_weights), np.float64)
    for w in range(n_weights):
        mass = W[w].astype(np.float64).ravel()[own] * counts
        heights = [_sum_heights(side, mass) for side in both]
        pair, height, cell = list_pairs(
            both[0], heights[0], both[1], heights[1], CommonEntries(every, every), n_classes
        )
        value, place = xp.concatenate([height, -mass]), xp.concatenate([pair, own])
        cell = xp.concatenate([both[0].cells[cell], keys >> (2 * half)])
        E[w] = counting.sum_groups(share[cell] * value, place, n_classes**2)[0]
        scores[:, w] = counting.sum_groups(C[w].astype(np.float64).ravel()[place] * value, cell, len(share))[0]
    return E.reshape(W.shape), scores


def _sum_heights(side: Entries, values: Any) -> Any:
    """Return exact sums of floats over the runs of each entry, rounded once."""
    entry = _run_length.number_runs(side.runs, len(values))
    return counting.sum_groups(values if side.order is None else values[side.order], entry, len(side.tags))[0]
