"""Eight matrices side by side, one a lane: nothing is ever added across lanes.

So small matrices fill whole vectors, and each lane sees the same operations in the same order whatever stands beside
it: the bits of a result do not depend on its neighbours, nor on how many there are.

Everything a tile holds lies in one array of lines of eight numbers: what is one number a matrix at the lines that
``_line`` names, the rest where the fields of a tile say. That is one pointer for the compiler instead of forty, and
small matrices stay in the first-level cache.
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
from cmfast.kernels.cpu.scaling import _line as line

LANES = WIDTH
MOST_KEPT_CELLS = 256  # cells of a matrix whose tile is kept for the next call: some 70 kB
MOST_FREE_TILES = 4  # of these for a shape
MOST_SHAPES = 32  # for which there are any: some 10 MB

# What only some tiles need: to decide what has no answer, to bring cells near one another, pseudo-Bayes, given factors,
# a pairing that is not the diagonal, a gauge that a plain product does not tell.
ADMIT, NEAR, BAYES, BEGIN, PAIR, GAUGE = range(1, 7)
PARTS = LateParts(6)
LOOPS = -1  # a tile that straight-line code cannot do


def _sizes(R, C, newton):
    """Return how many lines each field takes, in their order; some are there only for Newton's method.

    R rows, C columns, as they are solved. Truth values are 1.0 and 0.0.
    """
    return {
        "M": R * C,  # matrices, after smoothing, dropping, powers of two and pairing
        "P": R * C,  # scaled cells
        "W": C * C * newton,  # lower half: weights of the graph on the columns; upper half: shares of its pivots
        "F": C * C * newton,  # flows between columns, antisymmetric, lower half
        "u": R,  # row targets
        "v": C,  # column targets
        "x": R,  # row factors
        "y": C,  # column factors
        "inverse": R,  # 1 / u, 0 of lines that are dropped
        "col_inverse": C,  # 1 / v, likewise
        "off": R,  # row sums of scaled cells, without the paired one
        "col": C,  # column sums, likewise
        "gap": C,  # what columns lack
        "q": C,  # sources
        "d": C,  # Newton step in log y
        "p": C,  # scratch of whatever moves columns
        "r": C,  # reciprocals of the pivots; likewise
        "row_power": R,  # M holds the input times 2 ** -(row_power + col_power)
        "col_power": C,
        "order": C,  # column of the input at each place
    }


# The lines, rows and columns, whether these are the columns and rows of the input, and where each field begins.
Tile = namedtuple("Tile", ["S", "R", "C", "flip", *_sizes(1, 1, newton=True)])  # type: ignore[misc]


@cache
def _places(R, C, newton):
    """Return where each field begins, and how many lines there are in all."""
    *places, count = accumulate(_sizes(R, C, newton).values(), initial=line.COUNT)
    return places, count


_free: dict[tuple[int, int, bool, bool], list[tuple[Any, ...]]] = {}  # tiles of small matrices that nobody uses now


def take_tile(R, C, *, flip, newton):
    """Return a tile for matrices of R rows and C columns, transposed if `flip`, as a plain tuple."""
    if flip:
        R, C = C, R
    try:
        return _free[R, C, flip, newton].pop()
    except (KeyError, IndexError):
        return _new_tile(R, C, flip, newton)


def give_tile(tile, *, newton):
    """Let the next call have a tile that is small: making one takes as long as scaling a matrix or two."""
    _, R, C, flip, *_ = tile
    if R * C <= MOST_KEPT_CELLS:
        if len(_free) > MOST_SHAPES:
            _free.clear()
        free = _free.setdefault((R, C, flip, newton), [])
        if len(free) < MOST_FREE_TILES:
            free.append(tile)


def _new_tile(R, C, flip, newton):
    places, count = _places(R, C, newton)
    count += 1  # to spare, for what is done to the first class where there is none
    numbers = np.empty((count + 1) * WIDTH)  # no line lies across two cache lines; compiling that would take a moment
    skip = -(numbers.ctypes.data // numbers.itemsize) % WIDTH
    lines = numbers[skip : skip + count * WIDTH].reshape(count, WIDTH)
    return (lines, R, C, flip, *places)


def example():
    """Return some tile, as kernels see it."""
    return Tile._make(_new_tile(1, 1, flip=False, newton=True))


def _unit_tile(C):
    """Return what is known of a tile of matrices whose rows and columns are to sum to one, all paired, no lane warm."""
    places, _ = _places(C, C, newton=True)
    at: Any = Tile._make((None, C, C, False, *places))
    known = {k + i: 1.0 for k in (at.u, at.v, at.inverse, at.col_inverse) for i in range(C)}
    known |= {line.PAIRED: 1.0, line.WARM: 0.0, line.FAR: 0.0, line.MASS: float(C)}
    return TileLayout(lambda lines: at._replace(S=lines), known)


def written_out(*fields, source=None):
    """Let a kernel be straight-line code where the size of such a tile is known.

    `fields` are what it leaves, by name, or lines.
    `source` does the same in the order that suits registers, where that is another one.
    """

    def kept(t):
        for field in fields:
            if isinstance(field, int):
                yield field
            else:
                start = getattr(t, field)
                yield from range(start, start + _sizes(t.R, t.C, newton=True)[field])

    return unroll(_unit_tile, kept, source)


@jit(inner=True, borrows=True)
def fill(S, k, n, w, value):
    """Write one number to a lane of `n` lines; a slice would take seconds to compile."""
    for i in range(k, k + n):
        S[i, w] = value


@jit(inner=True, inline=True, borrows=True)
def add_up(S, k, n):
    """Return the sum of `n` lines from line `k` on: four at a time, as each waits for the one before."""
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
def spell_out(t, straight):
    """Write what is known of a tile without saying, as long as that is not done: `straight` of straight-line code."""
    S = t.S
    if S[line.SPELT, 0] != 0.0:
        return
    store(S, line.SPELT, splat(1.0))
    for j in range(t.C):
        store(S, t.order + j, splat(float(j)))
        store(S, t.col_power + j, splat(0.0))
    for i in range(t.R):
        store(S, t.row_power + i, splat(0.0))
    for k in (line.REST, line.CHOSEN):
        store(S, k, splat(0.0))
    if straight:
        store(S, line.MASS, splat(float(t.C)))
        for k in range(t.C):
            store(S, t.u + k, splat(1.0))
            store(S, t.v + k, splat(1.0))
            store(S, t.inverse + k, splat(1.0))
            store(S, t.col_inverse + k, splat(1.0))
