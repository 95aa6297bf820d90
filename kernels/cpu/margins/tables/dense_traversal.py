"""Traversal plan of a dense table: the memory order of its cells, and the marginal index of each."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cmfast.kernels.shared.margins_layout import Axes, make_cellless_layout

LEAST_ROW_CELLS = 16  # rows with fewer cells are merged with the axis before
MAX_MERGED_ROW_CELLS = 512  # cells of a merged row, at most


class TraversalPlan(NamedTuple):
    """A table as contiguous rows of cells, on a grid of all other axes.

    A margin that varies along a row stores a value for each of its cells, so that loops over a row need no index; all
    others store one value for a row. Margins are in the order of their layout.
    """

    length: int  # cells of a row
    rows: int  # rows along the last axis of the grid
    grid: np.ndarray  # sizes of the axes before that
    steps: np.ndarray  # (margins, axes of the grid) stride of each axis in the values of a margin
    starts: np.ndarray  # (margins + 1,) first value of each margin
    along: np.ndarray  # (margins,) whether it varies along a row
    lines: np.ndarray  # int32: the marginal of each value, numbered through all margins
    offsets: np.ndarray  # (margins + 1,) first marginal of each margin


@lru_cache(64)
def make_plan(shape: tuple[int, ...], axes: Axes) -> TraversalPlan:
    """Return the traversal plan of tables of a shape without empty axes (cached)."""
    layout = make_cellless_layout(shape, axes)
    ordered = [axes[b] for b in layout.order]
    groups = _group_axes(shape, ordered)
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


def _group_axes(shape: tuple[int, ...], margins: list[tuple[int, ...]]) -> list[list[int]]:
    """Group neighbouring axes that belong to the same margins."""
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
    """Return the marginal of a margin at every position on the axes `kept`, including axes that it lacks."""
    found = np.zeros(1, np.int64)
    for axis in kept:
        step = math.prod(shape[other] for other in of[of.index(axis) + 1 :]) if axis in of else 0
        found = (found[:, None] + step * np.arange(shape[axis])).ravel()
    return found
