"""Tables of widely spread cells and margins, their scaling in exact arithmetic, and what is wrong with a result.

Targets are exact as they are given; those of the columns are scaled to the total of the rows, as ``ipf`` promises, but
without rounding. The scaling of a large table is planted: its cells are integers times powers of two, float64 holds
all of its sums, and its lines are divided by powers of two. Nothing here asks cmfast for anything.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
from oracle.scaling import _limit

DIGITS = 70
CLOSE = Decimal(10) ** -55
MOST_ERROR = 1e-4  # of a cell of a table that is CONVERGED, relative: the bound that the documentation gives
RELATIVE = 1 + 1e-6  # what a line may miss the tolerance by: the margins are measured in float64


def planted(rng, M, sd=None):
    """Return tables and the margins that they have after their lines were scaled at random."""
    n, R, C = M.shape
    draw = (lambda *shape: 10.0 ** rng.uniform(-9, 9, shape)) if sd is None else (
        lambda *shape: np.exp(rng.normal(0, sd, shape))
    )  # fmt: skip
    Q = M * draw(n, R, 1) * draw(n, 1, C)
    return M, Q.sum(-1), Q.sum(-2)


def free(rng, M, decades=18):
    """Return tables and margins that have nothing to do with them."""
    n, R, C = M.shape
    u, v = 10.0 ** rng.uniform(-decades, 0, (n, R)), 10.0 ** rng.uniform(-decades, 0, (n, C))
    return M, u, v * (u.sum(-1) / v.sum(-1))[:, None]


def whole(rng, M, most=15):
    """Return tables and margins of integers, which add up exactly, of all sizes."""
    n, R, C = M.shape
    u = np.floor(10.0 ** rng.uniform(0, most, (n, R)))
    v = np.floor(10.0 ** rng.uniform(0, most - 1, (n, C)))
    gap = u.sum(-1) - v.sum(-1)
    v[:, 0] += np.where(gap > 0, gap, 0)
    u[:, 0] += np.where(gap < 0, -gap, 0)
    return M, u, v


def cells(rng, n, R, C, decades):
    """Return cells drawn log-uniformly from 10**-decades to 10**decades."""
    return 10.0 ** rng.uniform(-decades, decades, (n, R, C))


def dominant(rng, n, C):
    """Return cells with a heavy diagonal and couplings of all sizes."""
    M = 10.0 ** rng.uniform(-16, -2, (n, C, C))
    M[:, np.arange(C), np.arange(C)] = 10.0 ** rng.uniform(-1, 1, (n, C))
    return M


FAMILIES = {
    "2 x 2, cells over 24 decades, lines over 18": lambda rng, n: planted(rng, cells(rng, n, 2, 2, 12)),
    "2 x 5, cells of sd 15, lines of sd 5": lambda rng, n: planted(rng, np.exp(rng.normal(0, 15, (n, 2, 5))), 5),
    "5 x 2, cells of sd 15, lines of sd 5": lambda rng, n: planted(rng, np.exp(rng.normal(0, 15, (n, 5, 2))), 5),
    "2 x 2, free margins over 18 decades": lambda rng, n: free(rng, cells(rng, n, 2, 2, 6)),
    "2 x 3, free margins over 30 decades": lambda rng, n: free(rng, cells(rng, n, 2, 3, 6), 30),
    "2 x 2, cells over 200 decades": lambda rng, n: free(rng, cells(rng, n, 2, 2, 100), 9),
    "2 x 2, integer margins to 1e15": lambda rng, n: whole(rng, cells(rng, n, 2, 2, 9)),
    "2 x 2, couplings to 1e-16, integer margins": lambda rng, n: whole(rng, dominant(rng, n, 2), 6),
    "3 x 3, cells over 16 decades, lines over 18": lambda rng, n: planted(rng, cells(rng, n, 3, 3, 8)),
    "4 x 4, couplings to 1e-16, free margins": lambda rng, n: free(rng, dominant(rng, n, 4), 6),
    "5 x 3, free margins over 12 decades": lambda rng, n: free(rng, cells(rng, n, 5, 3, 6), 12),
}


def is_quick(family):
    """Whether exact arithmetic takes a moment: a table of two lines has one unknown."""
    return family.startswith(("2 x", "5 x 2"))


def exact(M, u, v):
    """Return the scaled table as Decimals, and the targets that it has."""
    with localcontext(prec=DIGITS):
        u, v = [Decimal(t) for t in u.tolist()], [Decimal(t) for t in v.tolist()]
        v = [t * sum(u) / sum(v) for t in v]
        A = [[Decimal(cell) for cell in line] for line in M.tolist()]
        if len(A) == 2:
            return _two_rows(A, u, v), u, v
        if len(v) == 2:
            turned = _two_rows([list(line) for line in zip(*A, strict=True)], v, u)
            return [list(line) for line in zip(*turned, strict=True)], u, v
    with localcontext(prec=400):  # the general solver works on differences of sums
        x, y = _limit(A, u, v)
        return [[f * a * g for a, g in zip(line, y, strict=True)] for f, line in zip(x, A, strict=True)], u, v


def _two_rows(A, u, v):
    """Solve for the ratio of the two row factors, by the row with the smaller target: only positive terms are added."""
    small = 0 if u[0] <= u[1] else 1
    pairs = [(a, b, t) for a, b, t in zip(A[small], A[1 - small], v, strict=True)]

    def row(r):
        return [t * a * r / (a * r + b) for a, b, t in pairs]

    low, high = -800, 800  # of its decimal logarithm
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sum(row(Decimal(1).scaleb(middle))) < u[small] else (low, middle)
    low, high = Decimal(1).scaleb(low), Decimal(1).scaleb(high)
    r = low
    for _ in range(400):
        found = row(r)
        gap = sum(found) - u[small]
        low, high = (r, high) if gap < 0 else (low, r)
        slope = sum(p * b / (a * r + b) for p, (a, b, _) in zip(found, pairs, strict=True))  # in the logarithm of r
        new = r - r * gap / slope
        new = new if low < new < high else (low + high) / 2
        if abs(new - r) <= CLOSE * r:
            break
        r = new
    else:
        raise AssertionError
    first = row(r)
    second = [t * b / (a * r + b) for a, b, t in pairs]
    return [first, second] if small == 0 else [second, first]


def errors(M, u, v, P):
    """Return the largest relative errors of a line and of a cell of the result `P`."""
    want, u, v = exact(M, u, v)
    rows = [math.fsum(line) for line in P.tolist()]
    cols = [math.fsum(line) for line in P.T.tolist()]
    with localcontext(prec=DIGITS):
        lines = [abs(Decimal(have) - t) / t for have, t in zip([*rows, *cols], [*u, *v], strict=True)]
        given = [cell for line in P.tolist() for cell in line]
        wanted = [cell for line in want for cell in line]
        off = [abs(Decimal(p) - w) / w for p, w in zip(given, wanted, strict=True) if w > Decimal("1e-290")]
        return float(max(lines)), float(max(off, default=0))


PLANTED_BITS = 52  # of a sum of cells, in units of the least
SIZES = ((30, 30), (64, 48), (65, 65), (66, 100), (200, 30), (150, 200))
KINDS = ("any", "blocks", "chain", "one strong cell in each line")


def plant(rng, kind, R, C):
    """Return a large table, its row and column sums, and its scaling, all exact; lines differ by up to 36 decades."""
    span = PLANTED_BITS - 4 - max(R, C).bit_length()  # of the powers of the cells
    i, j = np.arange(R)[:, None], np.arange(C)[None, :]
    apart = np.abs(i * C / R - j)  # from the diagonal
    if kind == "any":
        powers = rng.integers(0, span + 1, (R, C))
    elif kind == "blocks":
        powers = np.where(rng.integers(0, 3, R)[:, None] == rng.integers(0, 3, C), span // 2, 0)
    elif kind == "chain":
        powers = np.where(apart <= 1.5, span, np.where(apart <= 3, span // 2, 0))
    else:
        strong = i * C // R == rng.permutation(C) if R >= C else i == (j * R // C)[:, rng.permutation(C)]
        powers = np.where(strong, span, 3)
    P = np.ldexp(rng.integers(1, 9, (R, C)).astype(float), powers)
    M = np.ldexp(P, rng.integers(-60, 61, (R, 1)) + rng.integers(-60, 61, (1, C)))
    return M, P.sum(1), P.sum(0), P


def judge_planted(kind, size, n, seed, scale, tol=1e-9):
    """Scale `n` large tables of a kind; return what :func:`judge` returns."""
    rng = np.random.default_rng([seed, KINDS.index(kind), *size])
    M, u, v, want = map(np.stack, zip(*(plant(rng, kind, *size) for _ in range(n)), strict=True))
    P, status = scale(M, u, v)
    lines = cells = 0
    worst = [0.0, 0.0]
    for k in np.flatnonzero(status == 0):
        rows, cols = ([math.fsum(line) for line in Q.tolist()] for Q in (P[k], P[k].T))
        line = max(np.abs(rows / u[k] - 1).max(), np.abs(cols / v[k] - 1).max())
        cell = np.abs(P[k] / want[k] - 1).max()
        lines += not line <= tol * RELATIVE
        cells += not cell <= MOST_ERROR
        worst = [max(worst[0], line), max(worst[1], cell)]
    return status, lines, cells, worst


def judge(family, n, seed, scale, tol=1e-9):
    """Scale `n` tables of a family; return their statuses, and how many CONVERGED ones have a wrong line, a wrong cell.

    `scale(M, u, v)` returns the scaled tables and their statuses.
    """
    rng = np.random.default_rng([seed, list(FAMILIES).index(family)])
    M, u, v = FAMILIES[family](rng, n)
    P, status = scale(M, u, v)
    lines = cells = 0
    worst = [0.0, 0.0]
    for k in np.flatnonzero(status == 0):
        line, cell = errors(M[k], u[k], v[k], P[k])
        lines += not line <= tol * RELATIVE
        cells += not cell <= MOST_ERROR
        worst = [max(worst[0], line), max(worst[1], cell)]
    return status, lines, cells, worst
