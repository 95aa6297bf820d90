"""Newton's method on the dual of matrix scaling, for a tile of small matrices.

The unknowns are the logarithms of the column factors; the rows are exact after every row pass. The Hessian is the
Laplacian of a graph on the columns, solved by star-mesh elimination (Grassmann, Taksar and Heyman), which only adds
nonnegative numbers. Where row i and column i are paired the diagonal never enters: small cells keep all their digits.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import absolute, fma, load, some, splat, sqrt, store, where
from cmfast.kernels.cpu.scaling._tile import LANES, fill
from cmfast.kernels.cpu.scaling._tile_range import dominates, permute
from cmfast.kernels.shared.scaling import NORMAL, PAIRED_SWEEPS, PLAIN_SWEEPS, SAFE_WIDTH
from cmfast.kernels.status import MAX_ITER, RANGE


@jit(inner=True)
def newton(t, target, still, last_width, max_iter, passes):
    """Scale every active lane of the tile; leaves factors, counts and statuses.

    Return how many passes it was, at most `passes`; lanes that are active after that can go on.
    """
    for k in range(passes):
        _row_pass(t)
        if not _still_moving(t, target, still, last_width, max_iter):
            return k
        _weights(t)
        _eliminate(t)
        _advance(t)
    return passes


@jit(inner=True)
def start(t):
    """Find the pairing and the first factors."""
    store(t.S, t.rho, splat(np.inf))
    store(t.S, t.rho_before, splat(np.inf))
    S, R, C = t.S, t.R, t.C
    active = load(S, t.active)
    paired = splat(0.0)
    if R == C:
        _pair_by_diagonal(t)
        paired = load(S, t.paired)
    store(S, t.paired, paired)
    if some((paired == 0.0) & (active != 0.0)):
        for _ in range(PLAIN_SWEEPS):
            _plain_sweep(t)
        store(S, t.n_iter, load(S, t.n_iter) + where(paired == 0.0, active * PLAIN_SWEEPS, 0.0))
        if R == C:
            for w in range(LANES):
                if S[t.paired, w] == 0.0 and S[t.active, w] != 0.0:
                    _pair_by_search(t, w)
    if R == C:
        _paired_start(t)
        for _ in range(PAIRED_SWEEPS):
            _paired_sweep(t)
        store(S, t.n_iter, fma(active * load(S, t.paired), float(PAIRED_SWEEPS), load(S, t.n_iter)))


@jit(inner=True)
def _pair_by_diagonal(t):
    """Pair the lanes whose diagonal dominates: m_ii m_jj > m_ij m_ji for every i and j."""
    S, C = t.S, t.C
    good = splat(0.0) == 0.0
    for i in range(C):
        m = load(S, t.M + i * C + i)
        good = good & (m > 0.0)
        for j in range(i):
            across = load(S, t.M + i * C + j) * load(S, t.M + j * C + i)
            good = good & (m * load(S, t.M + j * C + j) > across)
    good = good | (load(S, t.chosen) != 0.0)
    store(S, t.paired, where(good, 1.0, splat(0.0)))
    if some(~good):
        for w in range(LANES):
            if S[t.paired, w] == 0.0 and dominates(t, w):
                S[t.paired, w] = 1.0


@jit(inner=True)
def _pair_by_search(t, w):
    """Pair each row with its largest scaled cell if these lie in different columns, else by a positive diagonal."""
    S, C = t.S, t.C
    fill(S, t.p, C, w, -1.0)
    distinct = True
    for i in range(C):
        if S[t.u + i, w] == 0.0:
            continue
        row = t.M + i * C
        best = 0
        for j in range(C):
            if S[row + j, w] * S[t.y + j, w] > S[row + best, w] * S[t.y + best, w]:
                best = j
        distinct = distinct and S[t.p + best, w] < 0.0
        S[t.p + best, w] = i
    if distinct:
        i = 0
        for j in range(C):  # what is left over is dropped on both sides, if their numbers agree
            if S[t.p + j, w] < 0.0:
                while i < C and S[t.u + i, w] > 0.0:
                    i += 1
                distinct = distinct and S[t.v + j, w] == 0.0
                S[t.p + j, w] = i
                i += 1
    if distinct:
        S[t.paired, w] = 1.0
        S[t.moved, w] = 1.0
        for j in range(C):
            S[t.order + np.int64(S[t.p + j, w]), w] = j
        permute(t, w)
        return
    for i in range(C):
        zero = S[t.u + i, w] == 0.0
        if zero != (S[t.v + i, w] == 0.0) or (not zero and S[t.M + i * C + i, w] == 0.0):
            return
    S[t.paired, w] = 1.0


@jit(inner=True)
def _plain_sweep(t):
    """One sweep of Sinkhorn and Knopp on the lanes without a pairing."""
    S, R, C = t.S, t.R, t.C
    single = load(S, t.paired) == 0.0
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(R):
        row = t.M + i * C
        total = splat(0.0)
        for j in range(C):
            total = fma(load(S, row + j), load(S, t.y + j), total)
        u = load(S, t.u + i)
        x = where(u > 0.0, u / total, 0.0)
        store(S, t.x + i, x)
        for j in range(C):
            store(S, t.col + j, fma(load(S, row + j), x, load(S, t.col + j)))
    for j in range(C):
        v = load(S, t.v + j)
        y = where(v > 0.0, v / load(S, t.col + j), 0.0)
        store(S, t.y + j, where(single, y, load(S, t.y + j)))


@jit(inner=True)
def _paired_start(t):
    S, C = t.S, t.C
    paired = load(S, t.paired) != 0.0
    cold = load(S, t.warm) == 0.0
    for i in range(C):
        u = load(S, t.u + i)
        m = load(S, t.M + i * C + i)
        positive = (u > 0.0) & (m > 0.0) & paired
        store(S, t.x + i, where(positive, sqrt(u / m), 0.0))
        store(S, t.y + i, where(positive & cold, sqrt(load(S, t.v + i) / m), load(S, t.y + i)))
    warm = paired & ~cold
    if some(warm):
        for i in range(C):
            total = splat(0.0)
            for j in range(C):
                total = fma(load(S, t.M + i * C + j), load(S, t.y + j), total)
            u = load(S, t.u + i)
            store(S, t.x + i, where(warm, where(u > 0.0, u / total, 0.0), load(S, t.x + i)))


@jit(inner=True)
def _paired_sweep(t):
    """Solve row i and column i together, exactly, for every i: balances the flows that single rows cannot see.

    That is x (m y + a) = u and y (m x + b) = v, with the paired cell m and the sums a of the row and b of the column.
    """
    S, C = t.S, t.C
    paired = load(S, t.paired) != 0.0
    for i in range(C):
        row = t.M + i * C
        a = splat(0.0)
        b = splat(0.0)
        for j in range(i):
            a = fma(load(S, row + j), load(S, t.y + j), a)
            b = fma(load(S, t.M + j * C + i), load(S, t.x + j), b)
        for j in range(i + 1, C):
            a = fma(load(S, row + j), load(S, t.y + j), a)
            b = fma(load(S, t.M + j * C + i), load(S, t.x + j), b)
        m, u, v = load(S, row + i), load(S, t.u + i), load(S, t.v + i)
        A = m * a
        B = a * b + m * (v - u)
        G = u * b
        D = sqrt(B * B + 4.0 * A * G)
        # One quotient, chosen by its operands, instead of two divisions.
        x = where(B >= 0.0, 2.0 * G, D - B) / where(B >= 0.0, B + D, 2.0 * A)
        y = v / fma(m, x, b)
        # A lane without pairing, a dropped class, an underflow: the pair stays as it is.
        good = (x > 0.0) & (x < np.inf) & (y > 0.0) & (y < np.inf) & paired
        store(S, t.x + i, where(good, x, load(S, t.x + i)))
        store(S, t.y + i, where(good, y, load(S, t.y + i)))


@jit(inner=True)
def _row_pass(t):
    """Make the rows exact; leave cells, flows, sources and the residual."""
    if t.R == t.C:
        _square_rows(t)
    else:
        _plain_rows(t)


@jit(inner=True)
def _square_rows(t):
    S, C = t.S, t.C
    paired = load(S, t.paired)
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(C):
        row = t.M + i * C
        scaled = t.Q + i * C
        a = splat(0.0)
        for j in range(i):
            a = fma(load(S, row + j), load(S, t.y + j), a)
        for j in range(i + 1, C):
            a = fma(load(S, row + j), load(S, t.y + j), a)
        b = load(S, row + i) * load(S, t.y + i)
        u = load(S, t.u + i)
        x = where(u > 0.0, u / (a + b), 0.0)
        root = load(S, t.root + i)
        store(S, t.x + i, x)
        store(S, t.off + i, x * a)
        store(S, t.diag + i, x * b)
        store(S, scaled + i, x * b * root)
        # Of the flows between two columns the later row completes what the earlier one began.
        for j in range(i):
            cell = x * load(S, row + j) * load(S, t.y + j)
            store(S, scaled + j, cell * root)
            store(S, t.col + j, load(S, t.col + j) + cell)
            store(S, t.F + i * C + j, fma(cell, paired, load(S, t.F + i * C + j)))
        for j in range(i + 1, C):
            cell = x * load(S, row + j) * load(S, t.y + j)
            store(S, scaled + j, cell * root)
            store(S, t.col + j, load(S, t.col + j) + cell)
            store(S, t.F + j * C + i, -cell * paired)
    together = paired != 0.0
    residual = splat(0.0)
    for j in range(C):
        v = load(S, t.v + j)
        balance = v - load(S, t.u + j)
        col = load(S, t.col + j)
        plain = v - (col + load(S, t.diag + j))
        store(S, t.q + j, where(together, balance, plain))
        residual = residual + absolute(where(together, balance + (load(S, t.off + j) - col), plain))
    store(S, t.residual, residual / load(S, t.total))


@jit(inner=True)
def _plain_rows(t):
    S, R, C = t.S, t.R, t.C
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(R):
        row = t.M + i * C
        total = splat(0.0)
        for j in range(C):
            total = fma(load(S, row + j), load(S, t.y + j), total)
        u = load(S, t.u + i)
        x = where(u > 0.0, u / total, 0.0)
        root = load(S, t.root + i)
        store(S, t.x + i, x)
        for j in range(C):
            cell = x * load(S, row + j) * load(S, t.y + j)
            store(S, t.Q + i * C + j, cell * root)
            store(S, t.col + j, load(S, t.col + j) + cell)
    residual = splat(0.0)
    for j in range(C):
        gap = load(S, t.v + j) - load(S, t.col + j)
        store(S, t.q + j, gap)
        residual = residual + absolute(gap)
    store(S, t.residual, residual / load(S, t.total))


@jit(inner=True)
def _still_moving(t, target, still, last_width, max_iter):
    """Stop the lanes that are done or lost; return whether any goes on."""
    S = t.S
    active = load(S, t.active) != 0.0
    residual, rho, n_iter = load(S, t.residual), load(S, t.rho), load(S, t.n_iter)
    # The residual alone would let cells smaller than the tolerance be wrong: the last step must be small too,
    # or have stopped shrinking at the level of rounding.
    stalled = (rho < 0.1) & (rho >= 0.5 * load(S, t.rho_before))
    ended = ((residual <= target) & ((rho <= last_width) | stalled)) | ((residual <= still) & stalled)
    lost = active & ~(residual < np.inf)
    active = active & ~lost & ~ended
    late = active & (n_iter >= float(max_iter))
    active = active & ~late
    status = where(lost, float(RANGE), load(S, t.status))
    store(S, t.status, where(late, float(MAX_ITER), status))
    store(S, t.active, where(active, 1.0, splat(0.0)))
    store(S, t.n_iter, n_iter + where(active, 1.0, splat(0.0)))
    return some(active)


@jit(inner=True)
def _weights(t):
    """W_jk = sum over i of q_ij q_ik for k < j, four columns at a time: fewer loads for each product."""
    S, R, C = t.S, t.R, t.C
    for j in range(1, C):
        W = t.W + j * C
        whole = j - j % 4
        for k in range(0, whole, 4):
            a = splat(0.0)
            b = splat(0.0)
            c = splat(0.0)
            d = splat(0.0)
            for row in range(t.Q, t.Q + R * C, C):
                q = load(S, row + j)
                a = fma(q, load(S, row + k), a)
                b = fma(q, load(S, row + k + 1), b)
                c = fma(q, load(S, row + k + 2), c)
                d = fma(q, load(S, row + k + 3), d)
            store(S, W + k, a)
            store(S, W + k + 1, b)
            store(S, W + k + 2, c)
            store(S, W + k + 3, d)
        for k in range(whole, j):
            a = splat(0.0)
            for row in range(t.Q, t.Q + R * C, C):
                a = fma(load(S, row + j), load(S, row + k), a)
            store(S, W + k, a)


@jit(inner=True)
def _eliminate(t):
    """Solve L d = q + flows by star-mesh elimination, from the last column down, and substitute back."""
    S, C = t.S, t.C
    square = t.R == C
    for k in range(C - 1, 0, -1):
        W = t.W + k * C
        F = t.F + k * C
        total = splat(0.0)
        for j in range(k):
            total = total + load(S, W + j)
        r = where(total >= NORMAL, 1.0 / total, 0.0)
        store(S, t.r + k, r)
        q = load(S, t.q + k)
        d = q
        for j in range(k):
            p = load(S, W + j) * r
            store(S, t.p + j, p)
            store(S, t.q + j, fma(p, q, load(S, t.q + j)))
        if square:
            for j in range(k):
                d = d + load(S, F + j)
        store(S, t.d + k, d)
        for j in range(k - 1, 0, -1):  # the next pivot row first: what needs it need not wait for the others
            p = load(S, t.p + j)
            row = t.W + j * C
            for i in range(j):
                store(S, row + i, fma(p, load(S, W + i), load(S, row + i)))
            if square:
                f = load(S, F + j)
                row = t.F + j * C
                for i in range(j):
                    flow = fma(p, load(S, F + i), load(S, row + i))
                    store(S, row + i, flow - load(S, t.p + i) * f)
    store(S, t.d, splat(0.0))
    for k in range(1, C):
        d = load(S, t.d + k)
        for j in range(k):
            d = fma(load(S, t.W + k * C + j), load(S, t.d + j), d)
        store(S, t.d + k, d * load(S, t.r + k))


@jit(inner=True)
def _advance(t):
    """Choose the length of the step without a line search, and take it."""
    S, C = t.S, t.C
    low = splat(0.0)
    high = splat(0.0)
    for j in range(C):
        d = load(S, t.d + j)
        low = where(d < low, d, low)
        high = where(d > high, d, high)
    rho = high - low
    store(S, t.rho_before, load(S, t.rho))
    store(S, t.rho, rho)
    wide = ~(rho <= SAFE_WIDTH)
    step = splat(1.0)
    if some(wide):
        store(S, t.p, where(wide, rho, 1.0))
        for w in range(LANES):
            if S[t.p, w] > SAFE_WIDTH:
                S[t.p, w] = max(SAFE_WIDTH, np.log1p(S[t.p, w])) / S[t.p, w]
        step = load(S, t.p)
    active = load(S, t.active) != 0.0
    middle = 0.5 * (low + high)  # keep the factors centred
    for j in range(C):
        y = load(S, t.y + j)
        store(S, t.y + j, where(active, _times_exp(y, step * (load(S, t.d + j) - middle)), y))


@jit(inner=True)
def _times_exp(y, z):
    """Positive and close to y * e**z, exact to second order at 0; the size of a step need not be exact, speed counts.

    One plus a last step would be one: the factor comes as what it adds to one, too.
    """
    h = z * 0.03125
    q = fma(h, 1 / 720, splat(1 / 120))
    q = fma(h, q, 1 / 24)
    q = fma(h, q, 1 / 6)
    q = fma(h, q, 1 / 2)
    q = h * fma(h, q, 1.0)
    p = q + 1.0
    for _ in range(5):
        q = fma(q, q, q + q)
        p = p * p
    return where(q > -0.5, fma(y, q, y), y * p)
