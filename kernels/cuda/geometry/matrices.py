"""Geometric confusion matrices, and what cells have above their own weighted counts."""

from typing import Any

import numpy as np

from cmfast.kernels.cuda import counting
from cmfast.kernels.cuda._core.module import library
from cmfast.kernels.cuda.geometry import _entries, _runs, _weights
from cmfast.kernels.cuda.geometry._entries import CommonEntries, Entries, by_work, pairs, sides
from cmfast.kernels.cuda.geometry.counts import pair_counts
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
    """Geometric confusion matrices for W tables of weights (C, C), and bounds of them; see the CPU's. Synchronises.

    The bounds are returned whether `bounded` asks for them or not. Sums in limbs are (K, C, C).
    """
    del bounded, num_threads
    xp = library(keys)
    number = len(tables) // 2 if step == "round" else len(tables)
    fixed = _weights.quantise(list(tables[:number]), M)
    G = tables[number:] or _sums(keys, counts, fixed, M.shape)
    if step == "add":
        return tuple(G)
    sums = xp.zeros((3, number, M.size), np.int64)
    for w, (q, form) in enumerate(fixed):
        if form is not None and not form.width:
            exact = q[0] * M
            rows, columns = exact.sum(axis=1)[:, None], exact.sum(axis=0)[None, :]
            for k, total in enumerate((G[w], exact, xp.where(rows < columns, rows, columns))):
                sums[k, w] = total.ravel()
    forms = [table.form for table in fixed]
    out = _weights.rounded(sums, forms).reshape(3, number, *M.shape)
    for w, (q, form) in enumerate(fixed):
        if form is not None and form.width:
            exact = q * M
            rows, columns = (_weights.carried(exact.sum(axis=axis), form.width) for axis in (2, 1))
            for k, total in enumerate((G[w], exact, _weights.smaller(rows, columns))):
                out[k, w] = _weights.rounded_limbs(_weights.carried(total, form.width), form)
    status = xp.asarray(np.array([INVALID if form is None else OK for form in forms], np.int8))
    error = xp.asarray(np.array([np.nan if form is None else form.error for form in forms], np.float64))
    return out[0], out[1], out[2], error, status


def _sums(keys: Any, counts: Any, fixed: list[_weights.WeightTable], shape: tuple[int, int]) -> list[Any]:
    """Return the integer sums of cells, for each table: (C, C), or in limbs (K, C, C); zeros without a form."""
    xp, half = library(keys), bits_of(shape[0])
    labels, predictions, _, cell = found = sides(keys, half)
    mixed = found.mixed
    cells = xp.flatnonzero(mixed)
    split = by_work(labels, predictions, CommonEntries(cells, cells))
    # What lies in cells of one label or one prediction counts as it is.
    S = pair_counts(keys, xp.where(mixed[cell], 0, counts), n_classes=shape[0])
    out = []
    for q, form in fixed:
        if form is None:
            out.append(xp.zeros(shape, np.int64))
        elif form.width:
            masses = _weights.masses(keys, counts, half, q)
            L, P = (_weights.heights(side, masses, form.width) for side in (labels, predictions))
            out.append(_entries.wide_overlaps(labels, L, predictions, P, shape[0]))
        else:
            (mass,) = _weights.masses(keys, counts, half, q)
            G = _entries.overlaps(labels, labels.heights(mass), predictions, predictions.heights(mass), split, shape)
            out.append(G + q[0] * S)
    return out


def cell_excess(
    keys: Any, counts: Any, share: Any, W: Any, C: Any, *, num_threads: int | None = None
) -> tuple[Any, Any]:
    """Sum what cells have above their own weighted counts; see the CPU's. Synchronises."""
    del num_threads
    xp, (n_weights, n_classes, _) = library(keys), W.shape
    half, mask = bits_of(n_classes), (1 << bits_of(n_classes)) - 1
    both = sides(keys, half)[:2]
    every = xp.arange(len(both[0].cells))
    own = (keys >> half & mask) * n_classes + (keys & mask)
    E, scores = xp.empty((n_weights, n_classes**2), np.float64), xp.empty((len(share), n_weights), np.float64)
    for w in range(n_weights):
        mass = W[w].astype(np.float64).ravel()[own] * counts
        heights = [_exact_heights(side, mass) for side in both]
        pair, height, cell = pairs(both[0], heights[0], both[1], heights[1], CommonEntries(every, every), n_classes)
        value, place = xp.concatenate([height, -mass]), xp.concatenate([pair, own])
        cell = xp.concatenate([both[0].cells[cell], keys >> (2 * half)])
        E[w] = counting.sums_of_groups(share[cell] * value, place, n_classes**2)[0]
        scores[:, w] = counting.sums_of_groups(C[w].astype(np.float64).ravel()[place] * value, cell, len(share))[0]
    return E.reshape(W.shape), scores


def _exact_heights(side: Entries, values: Any) -> Any:
    """Return the sums of floats, one per run, exact and rounded once."""
    entry = _runs.numbers(side.runs, len(values))
    return counting.sums_of_groups(values if side.order is None else values[side.order], entry, len(side.tags))[0]
