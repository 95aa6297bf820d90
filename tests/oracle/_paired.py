"""Two classifiers on the same samples: a full table, counted one sample at a time, and tests in exact arithmetic."""

from fractions import Fraction
from math import comb


def table(y, a, b, n):
    """Return T[truth][first][second]."""
    T = [[[0] * n for _ in range(n)] for _ in range(n)]
    for truth, first, second in zip(y, a, b, strict=True):
        T[truth][first][second] += 1
    return T


def discordant(T):
    """Return how often only the first, and only the second is right."""
    n = len(T)
    only_first = sum(T[y][y][b] for y in range(n) for b in range(n) if b != y)
    return only_first, sum(T[y][a][y] for y in range(n) for a in range(n) if a != y)


def mcnemar(b, c, kind):
    """Return the exact p-value of the test on b and c, as a fraction; of the corrected one the chi-square."""
    n, k = b + c, min(b, c)
    if kind == "corrected":
        return Fraction(max(abs(b - c) - 1, 0) ** 2, n) if n else Fraction(0)
    both, own = 2 * sum(Fraction(comb(n, i), 2**n) for i in range(k + 1)), Fraction(comb(n, k), 2**n)
    if kind == "mid_p" and b == c and n:
        return 1 - own / 2  # Fagerland, Lydersen and Laake 2013: both tails have the same outcome
    return min(Fraction(1), both - (own if kind == "mid_p" else 0))


def bowker(S):
    """Return chi-square and degrees."""
    pairs = [(S[i][j], S[j][i]) for i in range(len(S)) for j in range(i) if S[i][j] + S[j][i]]
    return sum(Fraction((a - b) ** 2, a + b) for a, b in pairs), len(pairs)


def stuart_maxwell(S):
    """Return chi-square and degrees: the system is solved by elimination, whose pivots are the rank."""
    n = len(S)
    V = [[Fraction(-(S[i][j] + S[j][i])) for j in range(n)] for i in range(n)]
    for i in range(n):
        V[i][i] = Fraction(sum(S[i]) + sum(row[i] for row in S) - 2 * S[i][i])
    d = [Fraction(sum(S[i]) - sum(row[i] for row in S)) for i in range(n)]
    rows, rank, x = [[*V[i], d[i]] for i in range(n)], 0, [Fraction(0)] * n
    pivots = []
    for column in range(n):
        at = next((k for k in range(rank, n) if rows[k][column]), None)
        if at is None:
            continue
        rows[rank], rows[at] = rows[at], rows[rank]
        rows[rank] = [value / rows[rank][column] for value in rows[rank]]
        for k in range(n):
            if k != rank:
                rows[k] = [a - rows[k][column] * b for a, b in zip(rows[k], rows[rank], strict=True)]
        pivots.append(column)
        rank += 1
    for k, column in enumerate(pivots):
        x[column] = rows[k][n]
    return sum(a * b for a, b in zip(d, x, strict=True)), rank
