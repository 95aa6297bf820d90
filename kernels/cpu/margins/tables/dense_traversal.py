"""Traversal plan of a dense table: the memory order of its cells, and the marginal index of each."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cmfast.kernels.shared.margins_layout import Axes, lines_of

LEAST_ROW_CELLS = 16  # cells of a row below which it takes in the axis before
MAX_MERGED_ROW_CELLS = 512  # cells that such a row may have


class TraversalPlan(NamedTuple):
    """A table as rows of cells that lie side by side, on a grid of all axes but those within a row.

    A margin that has an axis within the row is kept with a number for each cell of it, so that loops over a row need
    not know which; all others have one number for a row. Margins stand in the order of their layout.
    """

    length: int  # of a row
    rows: int  # on the last axis of the grid
    grid: np.ndarray  # sizes of the axes before that
    steps: np.ndarray  # (margins, axes of the grid) numbers from one place on an axis to the next
    starts: np.ndarray  # (margins + 1,) first number of each margin
    along: np.ndarray  # (margins,) whether it differs along a row
    lines: np.ndarray  # int32: the line that each number is of, through all margins
    offsets: np.ndarray  # (margins + 1,) first line of each


@lru_cache(64)
def make_plan(shape: tuple[int, ...], axes: Axes) -> TraversalPlan:
    """Return how tables of a shape are read, of which no axis is empty."""
    layout = lines_of(shape, axes)
    ordered = [axes[b] for b in layout.order]
    groups = _merge_axes(shape, ordered)
    sizes = [math.prod(shape[axis] for axis in group) for group in groups]
    cut = len(groups) - 1
    while cut > 0 and math.prod(sizes[cut:]) < LEAST_ROW_CELLS and math.prod(sizes[cut - 1 :]) <= MAX_MERGED_ROW_CELLS:
        cut -= 1
    within = [axis for group in groups[cut:] for axis in group]
    length = math.prod(sizes[cut:])
    along = np.array([any(axis in of for axis in within) for of in ordered], np.bool_)
    steps = np.zeros((len(axes), max(1, cut)), np.int64)
    starts, lines = [0], []
    for b, of in enumerate(ordered):
        number = length if along[b] else 1
        for k in range(cut - 1, -1, -1):
            if groups[k][0] in of:
                steps[b, k] = number
                number *= sizes[k]
        starts.append(starts[-1] + number)
        kept = [axis for group in groups[:cut] for axis in group if axis in of] + (within if along[b] else [])
        lines.append(_index_marginals(shape, of, kept) + layout.offsets[b])
    return TraversalPlan(
        length,
        sizes[cut - 1] if cut else 1,
        np.array(sizes[: max(0, cut - 1)], np.int64),
        steps,
        np.array(starts, np.int64),
        along,
        np.concatenate(lines).astype(np.int32),
        layout.offsets,
    )


def _merge_axes(shape: tuple[int, ...], margins: list[tuple[int, ...]]) -> list[list[int]]:
    """Return the axes in groups of neighbours that the same margins have."""
    groups: list[list[int]] = []
    before = None
    for axis in range(len(shape)):
        having = [axis in of for of in margins]
        if having == before:
            groups[-1].append(axis)
        else:
            groups.append([axis])
        before = having
    return groups


def _index_marginals(shape: tuple[int, ...], of: tuple[int, ...], kept: list[int]) -> np.ndarray:
    """Return the line of a margin at every place on the axes that are kept, others of which it does not have."""
    found = np.zeros(1, np.int64)
    for axis in kept:
        step = math.prod(shape[other] for other in of[of.index(axis) + 1 :]) if axis in of else 0
        found = (found[:, None] + step * np.arange(shape[axis])).ravel()
    return found
