"""Permutation null of the geometric confusion matrix: its expectation if labels carry no geometry, by simulation.

If the pairs (label, prediction) are permuted over the points, a cell of n points holds a random n-subset of the pairs.
The expectation therefore depends only on the number of cells of each size, and a few simulated cells per size suffice.
The simulated quantity is the excess of a cell over its own weighted counts, whose sum is invariant under permutation.
"""

from typing import NamedTuple

import numpy as np

from cmfast._core import dispatch
from cmfast.kernels.shared.geometry_keys import bits_of

EXACT_SIZES = 128  # larger cells are grouped by size, SIZE_GROUPS groups per doubling
SIZE_GROUPS = 8
LEAST_SIMULATED_CELLS, MOST_SIMULATED_POINTS = (
    4,
    2000,
)  # cells simulated per size: MOST_SIMULATED_POINTS / size, at least LEAST_SIMULATED_CELLS
MOST_SAMPLED = 10**9  # NumPy's hypergeometric generator accepts at most so many points


class Null(NamedTuple):
    """Expected excess (W, C, C) under permutation, expected overlap (W,) and its standard deviation (W,)."""

    excess: np.ndarray
    overlap: np.ndarray
    sd: np.ndarray


def make_nan_null(W: np.ndarray) -> Null:
    """Return a null of NaN, for weightings that all do not exist."""
    return Null(np.full(W.shape, np.nan), np.full(len(W), np.nan), np.full(len(W), np.nan))


def simulate_null(
    M: np.ndarray,
    W: np.ndarray,
    normalized: np.ndarray,
    sizes: np.ndarray,
    number: np.ndarray,
    rng: "np.random.Generator",
) -> Null:
    """Simulate cells of permuted labels and estimate the null for tables of weights `W`, shape (W, C, C)."""
    sizes, number = _group_sizes(sizes, number)
    repeats = np.maximum(LEAST_SIMULATED_CELLS, MOST_SIMULATED_POINTS // sizes)
    keys, counts = _draw_cells(M, np.repeat(sizes, repeats), rng)
    share = np.repeat(number / repeats, repeats)
    weights = np.where(M > 0, W, 0.0)

    def run(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Run the kernel on the drawn cells: excess, and scores for the linear functional `C`."""
        E, scores = dispatch.call("cell_excess", keys, counts, share, weights, C)
        return E, scores

    E, _ = run(np.zeros_like(weights))
    overlap = np.empty(len(W))
    slope = np.empty_like(weights)
    for w in range(len(W)):
        overlap[w], slope[w] = _differentiate_overlap(normalized[w], normalized[w] + E[w])
    _, scores = run(slope)
    return Null(E, overlap, _estimate_deviation(scores, repeats, number))


def _group_sizes(sizes: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return cell sizes of at least 2 and their numbers of cells; large sizes are grouped by their mean."""
    keep = sizes > 1
    sizes, number = sizes[keep], number[keep].astype(np.float64)
    group = np.where(
        sizes <= EXACT_SIZES,
        sizes,
        EXACT_SIZES + np.floor(SIZE_GROUPS * np.log2(sizes / EXACT_SIZES)).astype(np.int64) + 1,
    )
    _, inverse = np.unique(group, return_inverse=True)
    cells = np.bincount(inverse, number)
    points = np.bincount(inverse, number * sizes)
    mean = np.maximum(2, np.rint(points / np.maximum(cells, 1))).astype(np.int64)
    return mean, cells


def _draw_cells(M: np.ndarray, sizes: np.ndarray, rng: "np.random.Generator") -> tuple[np.ndarray, np.ndarray]:
    """Draw one cell of each size without replacement; return sorted keys ``cell << bits | pair`` and counts."""
    half = bits_of(len(M))
    y, p = np.nonzero(M)
    number = M[y, p]
    total = int(number.sum())
    pairs = (y << half) | p
    # A large cell is drawn as counts of its pairs (multivariate hypergeometric), a small one point by point.
    by_counts = (sizes > 4 * len(pairs)) | (sizes > total // 4)
    owner, chosen = _draw_points(total, np.where(by_counts, 0, sizes), rng)
    # Points are numbered in the order of their pairs, so that the keys are sorted.
    found = (owner << (2 * half)) | pairs[np.searchsorted(np.cumsum(number), chosen, side="right")]
    first = np.flatnonzero(np.diff(found, prepend=-1))
    keys, counts = found[first], np.diff(first, append=len(found))
    for cell in np.flatnonzero(by_counts):
        if total < MOST_SAMPLED:
            drawn = rng.multivariate_hypergeometric(number, int(sizes[cell]), method="marginals")
        else:
            drawn = rng.multinomial(int(sizes[cell]), number / total)
        some = np.flatnonzero(drawn)
        keys = np.concatenate([keys, (int(cell) << (2 * half)) | pairs[some]])
        counts = np.concatenate([counts, drawn[some]])
    order = np.argsort(keys)
    return keys[order], counts[order].astype(np.int64)


def _draw_points(total: int, sizes: np.ndarray, rng: "np.random.Generator") -> tuple[np.ndarray, np.ndarray]:
    """Draw `sizes` distinct points out of `total` for each cell; return cells and point numbers, sorted by both.

    Duplicates are drawn again, which leaves every subset equally likely.
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    start = owner * total
    found = np.sort(start + rng.integers(0, max(total, 1), len(owner)))
    while (again := np.flatnonzero(found[1:] == found[:-1])).size:
        found[again] = start[again] + rng.integers(0, total, len(again))
        found.sort()
    return owner, found - start


def _differentiate_overlap(S: np.ndarray, T: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the overlap of S and T, each divided by its total, and its gradient with respect to T."""
    if not (S.sum() > 0 and np.isfinite(T).all()):
        return np.nan, np.zeros_like(T)
    s, t = S / S.sum(), T / T.sum()
    below = t < s
    return float(np.minimum(s, t).sum()), (below - t[below].sum()) / T.sum()


def _estimate_deviation(scores: np.ndarray, repeats: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the overlap of one permutation plus that of the simulated mean."""
    variance = np.zeros(scores.shape[1])
    parts = np.split(scores, np.cumsum(repeats))[:-1]  # empty if every point is alone in its cell
    for part, k, n in zip(parts, repeats, number, strict=True):
        variance += part.var(axis=0, ddof=1) * (n + n * n / k)
    return np.sqrt(variance)
