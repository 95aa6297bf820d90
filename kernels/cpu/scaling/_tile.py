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
from cmfast.kernels.cpu._core.vector import WIDTH, new_lines

LANES = WIDTH


def _sizes(R, C, newton):
    """Return how many lines each field takes, in their order; some are there only for Newton's method.

    R rows, C columns, as they are solved. Truth values are 1.0 and 0.0.
    """
    return {
        "M": R * C,  # matrices, after smoothing, dropping, powers of two and pairing
        "Q": R * C * newton,  # scaled cells over sqrt(u)
        "W": C * C * newton,  # weights of the graph on the columns, lower half
        "F": C * C * newton,  # flows between columns, antisymmetric, lower half
        "u": R,  # row targets
        "v": C,  # column targets
        "x": R,  # row factors
        "y": C,  # column factors
        "root": R,  # 1 / sqrt(u)
        "off": R,  # row sums of scaled cells, without the paired one
        "col": C,  # column sums, likewise
        "diag": C,  # the paired cells, scaled
        "q": C,  # sources
        "d": C,  # Newton step in log y
        "p": C,  # shares of a pivot in the elimination; scratch of whatever moves columns
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
        "mean": 1,  # product of the factors that the gauge is about, then their geometric mean
        "least": 1,  # smallest of the products on the way to it
        "count": 1,  # of these factors
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


@jit(inner=True)
def fill(S, k, n, w, value):
    """Write one number to a lane of `n` lines; a slice would take seconds to compile."""
    for i in range(k, k + n):
        S[i, w] = value
