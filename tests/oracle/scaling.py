"""IPF and RAS, one matrix at a time, in 80 digits: the exact limit, or with ``solver="sinkhorn"`` the very iterate.

The limit comes from a damped Newton method on the dual. It proves itself: a matrix with the wanted sums that is
diag(x) M diag(y) is the answer, whoever found it; the sums are checked to 60 digits before it is believed.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from oracle._bounds import Within

DIGITS = 80
CLOSE = Decimal(10) ** -60

CONVERGED, MAX_ITER, TOTALS, INVALID, ZERO_LINE, RANGE = 0, 1, 4, 5, 6, 7  # what an oracle says of cmfast.Status


def scale(M, row_sums=None, col_sums=None, *, smoothing=None, empty="nan", tol=1e-9, max_iter=None, solver="auto", **_):
    """Return what ``ipf`` promises: matrix, factors, residual, n_iter, status, smoothing and line_error."""
    M = np.asarray(M)
    given = [np.asarray(a) for a in (row_sums, col_sums) if a is not None]
    R, C = M.shape[-2:]
    u = np.ones(R) if row_sums is None else given[0]
    v = np.ones(C) if col_sums is None else given[1]
    batch = np.broadcast_shapes(M.shape[:-2], u.shape[:-1], v.shape[:-1])
    M, u, v = (np.broadcast_to(a, batch + a.shape[a.ndim - n :]) for a, n in ((M, 2), (u, 1), (v, 1)))
    f32 = all(a.dtype == np.float32 for a in (M, *given))
    matrix = np.full((*batch, R, C), np.nan)
    row, col = np.full((*batch, R), np.nan), np.full((*batch, C), np.nan)
    residual, n_iter = (np.full((2, *batch), np.nan), np.zeros((2, *batch), np.int64))
    worst = np.full((2, *batch), np.nan)
    status, smooth = np.zeros(batch, np.int8), np.zeros(batch)
    limit = max_iter or (10_000 if solver == "sinkhorn" else 200)
    for index in np.ndindex(batch):
        with localcontext(prec=DIGITS):
            one = _one(M[index].tolist(), u[index].tolist(), v[index].tolist(), smoothing, empty, not given)
            status[index], smooth[index] = one[0], one[1]
            if one[0] != CONVERGED:
                continue
            A, r, c = one[2:]
            if solver == "sinkhorn":
                x, y, k, gap, line = _algorithm_1(A, r, c, tol, limit)
                status[index] = CONVERGED if max(gap, line) <= tol else MAX_ITER
                residual[:, *index] = max(0.0, gap - 2e-15), gap + 2e-15
                worst[:, *index] = max(0.0, line - 2e-15), line + 2e-15
                n_iter[:, *index] = k, k
            else:
                x, y = _limit(A, r, c)
                residual[:, *index] = worst[:, *index] = 0.0, max(tol, 2e-15)
                n_iter[:, *index] = 1 if A and A[0] else 0, limit
            row[index], col[index] = _gauge(x, y)
            if np.isinf(row[index]).any() or np.isinf(col[index]).any():
                status[index] = RANGE
                row[index] = col[index] = residual[:, *index] = worst[:, *index] = np.nan
                continue
            matrix[index] = [[float(x[i] * A[i][j] * y[j]) for j in range(C)] for i in range(R)]
    matrix = matrix.astype(np.float32 if f32 else np.float64)
    return matrix, row, col, Within(*residual), Within(*n_iter), status, smooth, Within(*worst)


def _one(M, u, v, smoothing, empty, ones):
    """Return status, smoothing and, where it may converge, the matrix and its targets as Decimals."""
    values = [*(x for line in M for x in line), *u, *v]
    if any(not (math.isfinite(x) and x >= 0) for x in values):
        return INVALID, 0.0 if isinstance(smoothing, str) or smoothing is None else smoothing
    A = [[Fraction(x) for x in line] for line in M]
    u, v = [Fraction(x) for x in u], [Fraction(x) for x in v]
    A, added = _smooth(A, smoothing)
    if abs(sum(u) - sum(v)) > Fraction(1, 10**9) * max(sum(u), sum(v)):
        return TOTALS, added
    columns = list(zip(*A, strict=True)) if A else []
    if empty == "drop" and ones:
        for k in range(len(A)):
            if not any(A[k]) and not any(columns[k]):
                u[k] = v[k] = Fraction(0)
    if sum(v):
        v = [t * sum(u) / sum(v) for t in v]
    A = [[a if u[i] and v[j] else Fraction(0) for j, a in enumerate(line)] for i, line in enumerate(A)]
    columns = list(zip(*A, strict=True)) if A else []
    if any(t and not any(line) for t, line in (*zip(u, A, strict=True), *zip(v, columns, strict=True))):
        return ZERO_LINE, added
    return CONVERGED, added, [[_decimal(a) for a in line] for line in A], [*map(_decimal, u)], [*map(_decimal, v)]


def _smooth(A, smoothing):
    if smoothing is None:
        return A, 0.0
    if smoothing != "pseudo-bayes":
        return [[a + Fraction(smoothing) for a in line] for line in A], smoothing
    rows, cols = [sum(line) for line in A], [sum(line) for line in zip(*A, strict=True)]
    N = sum(rows)
    if N == 0:
        return A, 0.0
    E = [[r * c / N for c in cols] for r in rows]
    gap = sum((e - a) ** 2 for es, line in zip(E, A, strict=True) for e, a in zip(es, line, strict=True))
    if gap == 0:
        return E, math.inf
    k = (N * N - sum(a * a for line in A for a in line)) / gap
    mixed = [[N / (N + k) * (a + k * e / N) for e, a in zip(*pair, strict=True)] for pair in zip(E, A, strict=True)]
    return mixed, float(k)


def _algorithm_1(A, u, v, tol, most):
    """Erbani et al., appendix B, to the letter; return factors, number of sweeps, residual and worst line.

    It stops where every line fits, which the paper's criterion, relative to the total, does not see of small ones.
    """
    R, C = len(u), len(v)
    Q = [line[:] for line in A]
    total = sum(u) or Decimal(1)
    x, y = [Decimal(int(t > 0)) for t in u], [Decimal(int(t > 0)) for t in v]
    for sweep in range(1, most + 1):
        for i in range(R):
            factor = u[i] / sum(Q[i]) if u[i] else Decimal(0)
            Q[i] = [q * factor for q in Q[i]]
            x[i] *= factor
        for j in range(C):
            factor = v[j] / sum(line[j] for line in Q) if v[j] else Decimal(0)
            for line in Q:
                line[j] *= factor
            y[j] *= factor
        gap, worst = _gap(Q, u, v) / total, _worst(Q, u, v)
        if max(gap, worst) <= tol or sweep == most:
            return x, y, sweep, float(gap), float(worst)
    raise AssertionError  # most is at least one


def _gap(P, u, v):
    rows = sum(abs(sum(line) - t) for line, t in zip(P, u, strict=True))
    return rows + sum(abs(sum(line) - t) for line, t in zip(zip(*P, strict=True), v, strict=True))


def _worst(P, u, v):
    sums = [sum(line) for line in P] + [sum(line) for line in zip(*P, strict=True)]
    return max((abs(s - t) / t for s, t in zip(sums, [*u, *v], strict=True) if t), default=Decimal(0))


def _limit(A, u, v, close=CLOSE):
    """Return the factors of the limit; lines with target zero get zero."""
    x, y = [Decimal(0)] * len(u), [Decimal(0)] * len(v)
    rows, cols = [i for i, t in enumerate(u) if t], [j for j, t in enumerate(v) if t]
    if rows:
        B, r, c = [[A[i][j] for j in cols] for i in rows], [u[i] for i in rows], [v[j] for j in cols]
        for lines, part, out in zip((rows, cols), _newton(B, r, c, close), (x, y), strict=True):
            for k, factor in zip(lines, part, strict=True):
                out[k] = factor
    return x, y


def _newton(A, u, v, close):
    n, total = len(v), sum(u)
    y = [Decimal(1)] * n
    for _ in range(1000):
        x = [t / sum(a * b for a, b in zip(line, y, strict=True)) for t, line in zip(u, A, strict=True)]
        P = [[f * a * b for a, b in zip(line, y, strict=True)] for f, line in zip(x, A, strict=True)]
        if _gap(P, u, v) <= close * total:
            return x, y
        sums = [sum(line) for line in zip(*P, strict=True)]
        # The dual is flat along a common factor of y, so the first column stays where it is.
        L = [[-sum(p[j] * p[k] / t for p, t in zip(P, u, strict=True)) for k in range(1, n)] for j in range(1, n)]
        for j in range(1, n):
            L[j - 1][j - 1] += sums[j]
        d = [Decimal(0), *_solve(L, [v[j] - sums[j] for j in range(1, n)])]
        width = max(d) - min(d)
        # Along a Newton step the third derivative of the dual is at most width times the second: this step goes down.
        step = Decimal(1) if width < 1 else max(Decimal(1), (1 + width).ln()) / width
        y = [b * (step * e).exp() for b, e in zip(y, d, strict=True)]
    msg = "no convergence: does the matrix have total support, and is its graph connected?"
    raise AssertionError(msg)


def _solve(L, b):
    """Gaussian elimination; L is symmetric and positive definite."""
    n = len(b)
    L, b = [line[:] for line in L], b[:]
    for k in range(n):
        for i in range(k + 1, n):
            f = L[i][k] / L[k][k]
            for j in range(k, n):
                L[i][j] -= f * L[k][j]
            b[i] -= f * b[k]
    for k in reversed(range(n)):
        b[k] = (b[k] - sum(L[k][j] * b[j] for j in range(k + 1, n))) / L[k][k]
    return b


def _gauge(x, y):
    """Divide by the geometric mean of the row factors."""
    logs = [t.ln() for t in x if t]
    g = (sum(logs) / len(logs)).exp() if logs else Decimal(1)
    return [float(t / g) for t in x], [float(t * g) for t in y]


def _decimal(x):
    return Decimal(x.numerator) / Decimal(x.denominator)


NUDGE = Fraction(1, 10**25)  # relative, for central differences: 50 digits of the derivative


def gradient(M, G, of_row, of_col, row_sums=None, col_sums=None, *, smoothing=None, empty="nan", **_):
    """Return the gradients of ``sum(G P) + of_row x + of_col y`` in the cells and in both targets.

    By central differences in 80 digits; one-sided where a cell or a target is zero. NaN where there is no answer.
    """
    M = np.asarray(M)
    R, C = M.shape[-2:]
    f32 = all(a is None or np.asarray(a).dtype == np.float32 for a in (M, row_sums, col_sums, G))
    u = np.ones(R) if row_sums is None else np.asarray(row_sums)
    v = np.ones(C) if col_sums is None else np.asarray(col_sums)
    batch = np.broadcast_shapes(M.shape[:-2], u.shape[:-1], v.shape[:-1])
    M, u, v = (np.broadcast_to(a, batch + a.shape[a.ndim - n :]) for a, n in ((M, 2), (u, 1), (v, 1)))
    out = [np.full((*batch, *shape), np.nan) for shape in ((R, C), (R,), (C,))]
    ones = row_sums is None and col_sums is None
    for index in np.ndindex(batch):
        weights = [None if a is None else np.asarray(a)[index] for a in (G, of_row, of_col)]
        given = [[Fraction(float(x)) if math.isfinite(x) else x for x in a[index].ravel().tolist()] for a in (M, u, v)]
        with localcontext(prec=DIGITS):
            if _loss(given, weights, smoothing, empty, ones) is None:
                continue
            for part, found in zip(given, out, strict=True):
                flat = found[index].reshape(-1)
                for k, x in enumerate(part):
                    losses = []
                    for step in (1, -1) if x else (1, 0):
                        part[k] = x + step * NUDGE * (x or 1)
                        losses.append(_loss(given, weights, smoothing, empty, ones))
                    part[k] = x
                    flat[k] = float((losses[0] - losses[1]) / _decimal((2 * x or 1) * NUDGE))
    return out[0].astype(np.float32 if f32 else np.float64), out[1], out[2]


def _loss(given, weights, smoothing, empty, ones):
    """Return the weighted sum of the scaled matrix and its factors, None where there is none."""
    cells, u, v = given
    C = len(v)
    M = [cells[i * C : (i + 1) * C] for i in range(len(u))]
    found = _one(M, u, v, smoothing, empty, ones)
    if found[0] != CONVERGED:
        return None
    A, r, c = found[2:]
    x, y = _limit(A, r, c)
    total = Decimal(0)
    G, of_row, of_col = weights
    if G is not None:
        rows = range(len(r))
        total += sum(Decimal(float(G[i, j])) * x[i] * A[i][j] * y[j] for i in rows for j in range(C))
    if of_row is not None or of_col is not None:
        logs = [t.ln() for t in x if t]
        g = (sum(logs) / len(logs)).exp()
        for weight, lines in ((of_row, [t / g for t in x]), (of_col, [t * g for t in y])):
            if weight is not None:
                total += sum(Decimal(float(w)) * t for w, t in zip(weight, lines, strict=True))
    return total


def slope(M, G, change, row_sums=None, col_sums=None):
    """Return the slope of ``sum(G P)`` where the logarithms of the cells change by `change`.

    By central differences in 80 digits, as :func:`gradient`, of one matrix of any size: float64 finds the direction of
    every step, whose length what the sums miss in 80 digits tells.
    """
    M, G, change = (np.asarray(a, np.float64) for a in (M, G, change))
    u, v = (
        np.ones(n) if a is None else np.asarray(a, np.float64)
        for a, n in zip((row_sums, col_sums), M.shape, strict=True)
    )
    if M.shape[0] < M.shape[1]:
        M, G, change, u, v = M.T, G.T, change.T, v, u
    y, inverse = _nearly(M, u, v)
    losses = []
    with localcontext(prec=DIGITS):
        nudge = _decimal(NUDGE)
        u, v, cols = ([Decimal(t) for t in a.tolist()] for a in (u, v, y))
        v = [t * sum(u) / sum(v) for t in v]
        G, given = ([[Decimal(t) for t in line] for line in a.tolist()] for a in (G, M))
        steps = [[nudge * Decimal(t) for t in line] for line in change.tolist()]
        for sign in (1, -1):
            A = [[m * (1 + sign * t) for m, t in zip(*pair, strict=True)] for pair in zip(given, steps, strict=True)]
            rows, cols = _refined(A, u, v, cols, inverse)
            loss = Decimal(0)
            for x, line, weights in zip(rows, A, G, strict=True):
                loss += x * sum(g * a * y for g, a, y in zip(weights, line, cols, strict=True))
            losses.append(loss)
        return float((losses[0] - losses[1]) / (2 * nudge))


def _nearly(M, u, v):
    """Return column factors to some digits, and the inverse of the graph on the columns but the first, in float64."""
    y = np.ones(len(v))
    for _ in range(200):
        x = u / (M @ y)
        P = x[:, None] * M * y
        sums = P.sum(0)
        inverse = np.linalg.inv((np.diag(sums) - P.T @ (P / u[:, None]))[1:, 1:])
        d = np.append(0.0, inverse @ (v - sums)[1:])
        width = np.ptp(d)
        y = y * np.exp(d if width < 1.0 else max(1.0, np.log1p(width)) / width * d)
        if width < 1e-3:
            break
    return y, inverse


def _refined(A, u, v, y, inverse):
    """Return the factors of the limit, from column factors near it."""
    for _ in range(200):
        x = [t / sum(a * b for a, b in zip(line, y, strict=True)) for t, line in zip(u, A, strict=True)]
        sums = [
            b * sum(f * a for f, a in zip(x, line, strict=True))
            for b, line in zip(y, zip(*A, strict=True), strict=True)
        ]
        gap = [t - s for t, s in zip(v, sums, strict=True)]
        if sum(map(abs, gap)) <= CLOSE * sum(u):
            return x, y
        d = inverse @ np.array([float(t) for t in gap[1:]])
        y = [y[0], *(b * Decimal(e).exp() for b, e in zip(y[1:], d.tolist(), strict=True))]
    msg = "no convergence: is the matrix nearly decomposable beyond float64?"
    raise AssertionError(msg)


MANY_DIGITS = 500  # for cells of e**-900


def scale_logits(L, row_sums=None, col_sums=None, **options):
    """Return what ``ipf`` promises of exponentials of L, whose factors come as logarithms, however large L is."""
    L = np.asarray(L)
    given = [np.asarray(a) for a in (row_sums, col_sums) if a is not None]
    cells = np.where(np.isneginf(L), 0.0, np.where(np.isfinite(L), 1.0, np.nan))  # their zeros, and what is bad
    matrix, row, col, residual, n_iter, status, smoothing, _ = scale(cells, row_sums, col_sums, **options)
    R, C = L.shape[-2:]
    u, v = given if given else (np.ones(R), np.ones(C))
    L, u, v = (np.broadcast_to(a, status.shape + a.shape[a.ndim - n :]) for a, n in ((L, 2), (u, 1), (v, 1)))
    for index in np.argwhere(status == CONVERGED):
        at = tuple(index)
        with localcontext(prec=MANY_DIGITS):
            matrix[at], row[at], col[at] = _limit_of_logits(*(a[at].tolist() for a in (L, u, v)))
    at_most = np.where(status == CONVERGED, max(options.get("tol", 1e-9), 2e-15), np.nan)
    residual, n_iter = Within(np.where(status == CONVERGED, 0.0, np.nan), at_most), Within(n_iter.low, 50 * n_iter.high)
    f32 = all(a.dtype == np.float32 for a in (L, *given))
    return matrix.astype(np.float32 if f32 else np.float64), row, col, residual, n_iter, status, smoothing, residual


def _limit_of_logits(L, u, v):
    """Return the limit and the logarithms of its factors, by cells of which none is larger than one."""
    u, v = [Decimal(t) for t in u], [Decimal(t) for t in v]
    v = [t * sum(u) / sum(v) for t in v]
    L = [[Decimal(x) for x in line] for line in L]
    tops = [max(line) for line in L]
    L = [[x - top for x in line] for line, top in zip(L, tops, strict=True)]
    sides = [max(line) for line in zip(*L, strict=True)]
    A = [[(x - side).exp() for x, side in zip(line, sides, strict=True)] for line in L]
    kept = [[a if s and t else Decimal(0) for a, t in zip(line, v, strict=True)] for line, s in zip(A, u, strict=True)]
    x, y = _limit(kept, u, v, Decimal(10) ** -(MANY_DIGITS * 3 // 4))
    P = [[float(f * a * g) for a, g in zip(line, y, strict=True)] for f, line in zip(x, A, strict=True)]
    row = [t.ln() - top if t else None for t, top in zip(x, tops, strict=True)]
    col = [t.ln() - side if t else None for t, side in zip(y, sides, strict=True)]
    there = [t for t in row if t is not None]
    mean = sum(there) / len(there)
    rows = [-math.inf if t is None else float(t - mean) for t in row]
    return P, rows, [-math.inf if t is None else float(t + mean) for t in col]


def scale_sparse(first, column, values, row_sums=None, col_sums=None, *, C, **options):
    """Return cells and status of the same matrix with its zeros."""
    M = np.zeros((len(first) - 1, C), values.dtype)
    at = np.repeat(np.arange(len(M)), np.diff(first)), column
    M[at] = values
    matrix, *_, status, _, _ = scale(M, row_sums, col_sums, **options)
    return matrix[at], status


ORACLES = {
    "ipf_sparse": scale_sparse,
    "scaling_gradient": gradient,
    "ipf": scale,
    "ras": lambda *args, **options: scale(*args, **options)[1:],
    "ipf_of_logits": scale_logits,
}
