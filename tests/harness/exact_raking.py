"""Verdicts on raking in rational arithmetic: a simplex method on fractions says what weights have the totals."""

from fractions import Fraction


def verdict(A, q, m, method, bounds):
    """Return the name of the status that weights `q` of records `A` with totals `m` have.

    LIMIT_ONLY where weights exist but some are at a limit in all of them that the method does not reach: zero, unless
    a total of zero leaves nothing else, and the bounds of "logit".
    """
    A = [[Fraction(float(value)) for value in row] for row, weight in zip(A, q, strict=True) if weight > 0]
    q, m = [Fraction(float(weight)) for weight in q if weight > 0], [Fraction(float(total)) for total in m]
    if method == "linear":
        columns = [[weight * row[k] for weight, row in zip(q, A, strict=True)] + [total] for k, total in enumerate(m)]
        return "CONVERGED" if _is_consistent(columns) else "INFEASIBLE"
    low, high = (Fraction(0), None) if bounds is None else (Fraction(bounds[0]), Fraction(bounds[1]))
    if method != "logit" and low == 0:
        A, q = _without_zeros(A, q, m)
    n = len(q)
    rows = [[q[i] * A[i][k] for i in range(n)] + [Fraction(0)] * (n if high else 0) for k in range(len(m))]
    right = [total - low * sum(q[i] * A[i][k] for i in range(n)) for k, total in enumerate(m)]
    if high:  # what is above the low bound and what is below the high one
        rows += [[Fraction(i == j) for j in range(n)] * 2 for i in range(n)]
        right += [high - low] * n
    if greatest(rows, right, []) is None:
        return "INFEASIBLE"
    limits = list(range(n)) if method in ("raking", "logit") or low == 0 else []
    limits += list(range(n, 2 * n)) if method == "logit" else []
    return "LIMIT_ONLY" if any(greatest(rows, right, [j]) == 0 for j in limits) else "CONVERGED"


def _is_consistent(rows):
    """Return whether linear equations have a solution."""
    rows, used = [list(row) for row in rows], 0
    for j in range(len(rows[0]) - 1):
        pivot = next((i for i in range(used, len(rows)) if rows[i][j]), None)
        if pivot is None:
            continue
        rows[used], rows[pivot] = rows[pivot], rows[used]
        _eliminate(rows, used, j)
        used += 1
    return not any(row[-1] for row in rows[used:])


def _eliminate(rows, i, j):
    """Make column j a unit vector with its one in row i."""
    rows[i] = [value / rows[i][j] for value in rows[i]]
    for k, row in enumerate(rows):
        if k != i and row[j]:
            rows[k] = [a - row[j] * b for a, b in zip(row, rows[i], strict=True)]


def _without_zeros(A, q, m):
    """Leave out records that totals of zero, of columns of one sign, leave nothing."""
    while True:
        columns = [
            k
            for k, total in enumerate(m)
            if total == 0 and (all(row[k] >= 0 for row in A) or all(row[k] <= 0 for row in A))
        ]
        kept = [i for i, row in enumerate(A) if not any(row[k] for k in columns)]
        if len(kept) == len(A):
            return A, q
        A, q = [A[i] for i in kept], [q[i] for i in kept]


def greatest(A, b, of):
    """Return the most that the sum of some x can be where A x = b and x >= 0: None without any x, infinite: -1.

    The simplex method in two phases, by Bland's rule.
    """
    count, n = len(A), len(A[0]) if A else 0
    rows = []
    for i, (row, right) in enumerate(zip(A, b, strict=True)):
        sign = -1 if right < 0 else 1
        rows.append([sign * value for value in row] + [Fraction(i == j) for j in range(count)] + [sign * right])
    basis = [n + i for i in range(count)]
    _climb(rows, basis, [0] * n + [-1] * count, n + count)
    if any(rows[i][-1] for i in range(count) if basis[i] >= n):
        return None
    for i in range(count):
        if basis[i] >= n:
            j = next((j for j in range(n) if rows[i][j]), None)
            if j is not None:
                _eliminate(rows, i, j)
                basis[i] = j
    kept = [i for i in range(count) if basis[i] < n]
    rows, basis = [rows[i] for i in kept], [basis[i] for i in kept]
    if not _climb(rows, basis, [int(j in of) for j in range(n)], n):
        return -1
    return sum((rows[i][-1] for i, j in enumerate(basis) if j in of), Fraction(0))


def _climb(rows, basis, gain, n):
    """Exchange columns of the basis while that gains; return whether that ends."""
    while True:
        enters = next((j for j in range(n) if j not in basis and gain[j] > _cost(rows, basis, gain, j)), None)
        if enters is None:
            return True
        ratios = [(row[-1] / row[enters], basis[i], i) for i, row in enumerate(rows) if row[enters] > 0]
        if not ratios:
            return False
        leaves = min(ratios)[2]
        _eliminate(rows, leaves, enters)
        basis[leaves] = enters


def _cost(rows, basis, gain, j):
    """Return what the basis loses for each unit of column j."""
    return sum(gain[k] * row[j] for k, row in zip(basis, rows, strict=True))
