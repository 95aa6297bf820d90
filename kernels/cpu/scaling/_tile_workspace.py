"""The workspace of a tile: eight matrices, one in each SIMD lane; no sum ever crosses lanes.

Each lane runs the same operations in the same order independently of the other lanes, so results do not depend on the
neighbours in a batch. A tile is one array of SIMD lines (eight float64): scalars at the offsets of `_tile_scalars`,
then the fields of `_list_field_sizes`. One array is one pointer for the compiler instead of forty.
"""

from collections import namedtuple
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.late import LateParts
from cmfast.kernels.cpu._core.unroll import TileLayout, unroll
from cmfast.kernels.cpu._core.vector import WIDTH, load, splat, store
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.shared.scaling import MANY_COLUMNS

LANES = WIDTH
MAX_CACHED_CELLS = 1296  # cells of a matrix whose tile is cached for the next call: 380 kB
MAX_CACHED_TILES = 4  # for each shape
MAX_CACHED_SHAPES = 16  # at most 25 MB in all

# Lazily compiled kernel parts that few tiles need: input checks, equilibration, pseudo-Bayes smoothing, given initial
# factors, a pairing other than the diagonal, a mean factor whose plain product leaves the float64 range.
CHECK_INPUT, EQUILIBRATE, PSEUDO_BAYES, INITIAL_FACTORS, PAIR, EXTREME_MEAN = range(1, 7)
PARTS = LateParts(6)
LOOPS = -1  # returned for a tile that the unrolled kernel cannot handle: the looped kernel takes it


def find_pitch(C):
    """Return the number of SIMD lines from one row of W or F to the next: odd where columns are many.

    Rows a power of two apart would share a few sets of the first-level cache.
    """
    return C if C < MANY_COLUMNS else C | 1


def _list_field_sizes(R, C, newton):
    """Return the number of SIMD lines of each field of a tile, in memory order; some exist only for Newton's method.

    R rows and C columns as solved, that is after a transposition. Truth values are 1.0 and 0.0.
    """
    return {
        "M": R * C,  # matrices, after smoothing, dropping, powers of two and pairing
        "P": R * C,  # scaled cells
        # Edge weights of the graph on the columns in the lower half, multipliers of its pivots in the upper half.
        "W": C * find_pitch(C) * newton,
        "F": C * find_pitch(C) * newton,  # flows between columns, antisymmetric, lower half
        "u": R,  # row targets
        "v": C,  # column targets
        "x": R,  # row factors
        "y": C,  # column factors
        "inverse": R,  # 1 / u, 0 for dropped rows
        "col_inverse": C,  # 1 / v, 0 for dropped columns
        "off": R,  # row sums of scaled cells without the paired cell
        "col": C,  # column sums, without the paired cell
        "gap": C,  # target minus sum of each column
        "q": C,  # right-hand side of the Newton system, without flows
        "d": C,  # Newton step in log y
        "p": C,  # scratch for permutations of columns
        "r": C,  # reciprocals of the pivots; scratch for permutations
        "row_power": R,  # M holds the input times 2 ** -(row_power + col_power)
        "col_power": C,
        "order": C,  # column of the input at each position
    }


# The array of SIMD lines, rows and columns, whether the input is transposed, the number of lines from one row of W or F
# to the next, and the first line of each field.
Tile = namedtuple("Tile", ["S", "R", "C", "flip", "pitch", *_list_field_sizes(1, 1, newton=True)])  # type: ignore[misc]


@cache
def _compute_offsets(R, C, newton):
    """Return the first SIMD line of each field of a tile, and the total number of lines."""
    *places, count = accumulate(_list_field_sizes(R, C, newton).values(), initial=line.COUNT)
    return places, count


_free: dict[tuple[int, int, bool, bool], list[tuple[Any, ...]]] = {}  # cached tiles that are not in use


def acquire_tile(R, C, *, flip, newton):
    """Return a cached or new tile for matrices of R rows and C columns, transposed if `flip`, as a plain tuple."""
    if flip:
        R, C = C, R
    try:
        return _free[R, C, flip, newton].pop()
    except (KeyError, IndexError):
        return _allocate_tile(R, C, flip, newton)


def release_tile(tile, *, newton):
    """Return a small tile to the cache: allocating one takes as long as scaling a matrix or two."""
    _, R, C, flip, *_ = tile
    if R * C <= MAX_CACHED_CELLS:
        if len(_free) > MAX_CACHED_SHAPES:
            _free.clear()
        free = _free.setdefault((R, C, flip, newton), [])
        if len(free) < MAX_CACHED_TILES:
            free.append(tile)


def _allocate_tile(R, C, flip, newton):
    """Allocate a tile whose SIMD lines are aligned to cache lines; return it as a plain tuple."""
    places, count = _compute_offsets(R, C, newton)
    count += 1  # a spare line, so that accesses to the first class are valid in matrices without classes
    numbers = np.empty((count + 1) * WIDTH)  # one more line than needed, to align to cache lines
    skip = -(numbers.ctypes.data // numbers.itemsize) % WIDTH
    lines = numbers[skip : skip + count * WIDTH].reshape(count, WIDTH)
    return (lines, R, C, flip, find_pitch(C), *places)


def make_example_tile():
    """Return a small tile, as an example argument from which lazily compiled parts take their types."""
    return Tile._make(_allocate_tile(1, 1, flip=False, newton=True))


def _describe_unit_tile(C):
    """Return the TileLayout for unrolling C x C: targets of one, rows paired with columns, no initial factors."""
    places, _ = _compute_offsets(C, C, newton=True)
    at: Any = Tile._make((None, C, C, False, find_pitch(C), *places))
    known = {k + i: 1.0 for k in (at.u, at.v, at.inverse, at.col_inverse) for i in range(C)}
    known |= {line.PAIRED: 1.0, line.WARM: 0.0, line.EQUILIBRATED: 0.0, line.MASS: float(C)}
    return TileLayout(lambda lines: at._replace(S=lines), known)


def unroll_unit_targets(*fields, source=None):
    """Return a decorator that unrolls a kernel for tiles of unit targets whose size is known at compile time.

    `fields` are the fields (by name) or SIMD lines that the kernel writes for later stages. `source` computes the same
    in an order that suits registers, if that differs.
    """

    def list_kept_lines(t):
        """Yield the SIMD lines that later stages read."""
        for field in fields:
            if isinstance(field, int):
                yield field
            else:
                start = getattr(t, field)
                yield from range(start, start + _list_field_sizes(t.R, t.C, newton=True)[field])

    return unroll(_describe_unit_tile, list_kept_lines, source)


@jit(inner=True, borrows=True)
def fill_lane(S, k, n, w, value):
    """Set lane `w` of `n` SIMD lines from line `k` on to `value`; a slice assignment would take seconds to compile."""
    for i in range(k, k + n):
        S[i, w] = value


@jit(inner=True, inline=True, borrows=True)
def sum_lines(S, k, n):
    """Return the lane-wise sum of `n` SIMD lines from line `k` on, in four independent chains to hide latency."""
    a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    whole = n - n % 4
    for i in range(k, k + whole, 4):
        a = a + load(S, i)
        b = b + load(S, i + 1)
        c = c + load(S, i + 2)
        d = d + load(S, i + 3)
    for i in range(k + whole, k + n):
        a = a + load(S, i)
    return (a + b) + (c + d)


@jit(inner=True, borrows=True)
def write_defaults(t, straight):
    """Write the fields that the common case leaves implicit, once for each tile.

    `straight` adds those of the unrolled kernel.
    """
    S = t.S
    if S[line.DEFAULTS_WRITTEN, 0] != 0.0:
        return
    store(S, line.DEFAULTS_WRITTEN, splat(1.0))
    for j in range(t.C):
        store(S, t.order + j, splat(float(j)))
        store(S, t.col_power + j, splat(0.0))
    for i in range(t.R):
        store(S, t.row_power + i, splat(0.0))
    for k in (line.MEAN_POWER, line.PAIRING_KNOWN):
        store(S, k, splat(0.0))
    if straight:
        store(S, line.MASS, splat(float(t.C)))
        for k in range(t.C):
            store(S, t.u + k, splat(1.0))
            store(S, t.v + k, splat(1.0))
            store(S, t.inverse + k, splat(1.0))
            store(S, t.col_inverse + k, splat(1.0))
