"""Eight matrices side by side, one a lane: nothing is ever added across lanes.

So small matrices fill whole vectors, and each lane sees the same operations in the same order whatever stands beside
it: the bits of a result do not depend on its neighbours, nor on how many there are.

Everything a tile holds lies in one array of lines of eight numbers; the fields of a tile say where. That is one
pointer for the compiler instead of forty, and small matrices stay in the first-level cache.
"""

from collections import namedtuple
from functools import cache
from itertools import accumulate

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.unroll import Layout, unrolled
from cmfast.kernels.cpu._core.vector import WIDTH, load, new_lines, splat

LANES = WIDTH


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
        "inverse": R,  # 1 / u
        "off": R,  # row sums of scaled cells, without the paired one
        "col": C,  # column sums, likewise
        "gap": C,  # what columns lack
        "q": C,  # sources
        "d": C,  # Newton step in log y
        "step": 1,  # how much of it is taken
        "p": C,  # scratch of whatever moves columns
        "r": C,  # reciprocals of the pivots; likewise
        "row_power": R,  # M holds the input times 2 ** -(row_power + col_power)
        "col_power": C,
        "order": C,  # column of the input at each place
        "low": 1,  # smallest positive cell
        "high": 1,  # largest cell
        "total": 1,  # mass
        "amount": 1,  # smoothing
        "residual": 1,
        "rho": 1,  # width of the last step
        "rho_before": 1,
        "active": 1,  # whether the lane moves
        "paired": 1,  # whether row i and column i belong together
        "zeros": 1,  # whether a cell is zero
        "odd": 1,  # whether a target is zero or bad or the totals disagree
        "far": 1,  # whether M holds powers of two
        "rest": 1,  # power of two that the gauge still has to move from one side to the other
        "moved": 1,  # whether `order` is not the identity
        "chosen": 1,  # whether the pairing was found already
        "warm": 1,  # whether the caller gave the factors to start from
        "mean": 1,  # geometric mean of the factors that the gauge is about
        "simple": 1,  # whether it comes from their plain product
        "good": 1,  # whether all factors are positive and finite
        "n_iter": 1,
        "status": 1,
    }


# The lines, rows and columns, whether these are the columns and rows of the input, and where each field begins.
Tile = namedtuple("Tile", ["S", "R", "C", "flip", *_sizes(1, 1, newton=True)])  # type: ignore[misc]


@cache
def _places(R, C, newton):
    """Return where each field begins, and how many lines there are in all."""
    *places, count = accumulate(_sizes(R, C, newton).values(), initial=0)
    return places, count


def new_tile(R, C, *, flip, newton):
    """Return a tile for matrices of R rows and C columns, transposed if `flip`."""
    if flip:
        R, C = C, R
    places, count = _places(R, C, newton)
    return Tile._make((new_lines(count), R, C, flip, *places))


def _unit_tile(C):
    """Return what is known of a tile of matrices whose rows and columns are to sum to one, all paired, no lane warm."""
    places, _ = _places(C, C, newton=True)
    at = Tile._make((None, C, C, False, *places))
    known = {k + i: 1.0 for k in (at.u, at.v, at.inverse) for i in range(C)}
    known |= {at.paired: 1.0, at.warm: 0.0, at.far: 0.0, at.total: float(C)}
    return Layout(lambda lines: at._replace(S=lines), known)


def written_out(*fields, source=None):
    """Let a kernel be straight-line code where the size of such a tile is known; `fields` are what it leaves.

    `source` does the same in the order that suits registers, where that is another one.
    """

    def kept(t):
        for name in fields:
            start = getattr(t, name)
            yield from range(start, start + _sizes(t.R, t.C, newton=True)[name])

    return unrolled(_unit_tile, kept, source)


@jit(inner=True)
def fill(S, k, n, w, value):
    """Write one number to a lane of `n` lines; a slice would take seconds to compile."""
    for i in range(k, k + n):
        S[i, w] = value


@jit(inner=True, inline=True)
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
