"""Newton's method on the dual of matrix scaling, for a tile of small matrices.

The unknowns are the logarithms of the column factors; the rows are exact after every row pass. The Hessian is the
Laplacian of a graph on the columns, solved by star-mesh elimination (Grassmann, Taksar and Heyman), which only adds
nonnegative numbers. Where row i and column i are paired the diagonal never enters: small cells keep all their digits.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import absolute, fma, load, some, splat, store, where
from cmfast.kernels.cpu.scaling import _line as line
from cmfast.kernels.cpu.scaling._tile import LANES, add_up, written_out
from cmfast.kernels.cpu.solver.newton import damped_step, has_stalled
from cmfast.kernels.shared import scaling as rules
from cmfast.kernels.shared.scaling import NORMAL, SAFE_WIDTH
from cmfast.kernels.status import MAX_ITER, RANGE

has_ended = jit(inner=True, inline=True)(rules.has_ended)


@jit(inner=True, inline=True, borrows=True)
def newton(t, size, limits, passes):
    """Scale every active lane of a tile of square matrices; leaves scaled cells, factors, counts and statuses.

    Return how many passes it was, at most `passes`; lanes that are active after that can go on.
    """
    for k in range(passes):
        square_rows(t, size)
        if not _still_moving(t, limits):
            return k
        solve(t, size)
        _choose_step(t)
        advance(t, size)
    return passes


@jit(inner=True, borrows=True)
def newton_by_rows(t, limits, passes):
    """Do the same for matrices that are not square."""
    for k in range(passes):
        _plain_rows(t)
        if not _still_moving(t, limits):
            return k
        solve(t, None)
        _choose_step(t)
        advance(t, None)
    return passes


@written_out("x", "P", line.RESIDUAL, line.LINE_ERROR)
@jit(inner=True, borrows=True)
def square_rows(t):
    """Make the rows exact; leave cells, what columns lack, the residual and the largest relative error of a column."""
    S, C = t.S, t.C
    together = load(S, line.PAIRED) != 0.0
    for j in range(C):
        store(S, t.gap + j, splat(0.0))
    for i in range(C):
        P = t.P + i * C
        for j in range(C):
            store(S, P + j, load(S, t.M + i * C + j) * load(S, t.y + j))
        b = load(S, P + i)
        store(S, P + i, splat(0.0))
        a = add_up(S, P, C)
        u = load(S, t.u + i)
        x = where(u > 0.0, u / (a + b), 0.0)
        store(S, t.x + i, x)
        store(S, t.off + i, x * a)
        for j in range(C):
            cell = x * load(S, P + j)
            store(S, P + j, cell)
            store(S, t.gap + j, load(S, t.gap + j) + cell)
        store(S, P + i, x * b)
    residual, worst = splat(0.0), splat(0.0)
    for j in range(C):
        v = load(S, t.v + j)
        col = load(S, t.gap + j)
        balance = (v - load(S, t.u + j)) + (load(S, t.off + j) - col)
        gap = where(together, balance, v - (col + load(S, t.P + j * C + j)))
        store(S, t.gap + j, gap)
        missed = absolute(gap)
        residual = residual + missed
        missed = missed * load(S, t.col_inverse + j)
        worst = where(missed > worst, missed, worst)
    store(S, line.RESIDUAL, residual / load(S, line.MASS))
    store(S, line.LINE_ERROR, worst)


@jit(inner=True, borrows=True)
def _plain_rows(t):
    """Make the rows of matrices that are not square exact."""
    S, R, C = t.S, t.R, t.C
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(R):
        P = t.P + i * C
        for j in range(C):
            store(S, P + j, load(S, t.M + i * C + j) * load(S, t.y + j))
        u = load(S, t.u + i)
        x = where(u > 0.0, u / add_up(S, P, C), 0.0)
        store(S, t.x + i, x)
        for j in range(C):
            cell = x * load(S, P + j)
            store(S, P + j, cell)
            store(S, t.col + j, load(S, t.col + j) + cell)
    residual, worst = splat(0.0), splat(0.0)
    for j in range(C):
        gap = load(S, t.v + j) - load(S, t.col + j)
        store(S, t.gap + j, gap)
        missed = absolute(gap)
        residual = residual + missed
        missed = missed * load(S, t.col_inverse + j)
        worst = where(missed > worst, missed, worst)
    store(S, line.RESIDUAL, residual / load(S, line.MASS))
    store(S, line.LINE_ERROR, worst)


@jit(inner=True, borrows=True)
def _still_moving(t, limits):
    """Stop the lanes that are done or lost; return whether any goes on."""
    S = t.S
    target, still, last_width, max_iter, share = limits
    active = load(S, line.ACTIVE) != 0.0
    residual, worst = load(S, line.RESIDUAL), load(S, line.LINE_ERROR)
    rho, n_iter = load(S, line.RHO), load(S, line.N_ITER)
    stalled = has_stalled(rho, load(S, line.RHO_BEFORE))
    ended = has_ended(residual, share * worst, rho, stalled, target, still, last_width)
    lost = active & ~(residual < np.inf)
    active = active & ~lost & ~ended
    late = active & (n_iter >= float(max_iter))
    active = active & ~late
    status = where(lost, float(RANGE), load(S, line.STATUS))
    store(S, line.STATUS, where(late, float(MAX_ITER), status))
    store(S, line.ACTIVE, where(active, 1.0, splat(0.0)))
    store(S, line.N_ITER, n_iter + where(active, 1.0, splat(0.0)))
    return some(active)


@jit(inner=True, borrows=True)
def _solve_by_rows(t):
    """Do what ``solve`` does with one row at a time, formed and completed when its turn comes, in registers."""
    S, C = t.S, t.C
    for k in range(C - 1, 0, -1):
        W, F = t.W + k * C, t.F + k * C
        _weigh(t, k)
        for j in range(k):
            w = load(S, W + j)
            for pivot in range(C - 1, k, -1):
                w = fma(load(S, W + pivot), load(S, t.W + pivot * C + j), w)
            store(S, W + j, w)
        _take_shares(t, k)
        _find_flows(t, k)
        q = load(S, t.q + k)
        for pivot in range(C - 1, k, -1):
            q = fma(load(S, W + pivot), load(S, t.q + pivot), q)
        store(S, t.q + k, q)
        for j in range(k):
            f = load(S, F + j)
            for pivot in range(C - 1, k, -1):
                f = fma(load(S, W + pivot), load(S, t.F + pivot * C + j), f)
                f = fma(-load(S, t.W + j * C + pivot), load(S, t.F + pivot * C + k), f)
            store(S, F + j, f)
        store(S, t.d + k, q + add_up(S, F, k))
    _substitute(t)


@written_out("d", line.RHO, line.RHO_BEFORE, source=_solve_by_rows)
@jit(inner=True, borrows=True)
def solve(t):
    """Solve L d = gaps of the columns by elimination from the last column down; note how wide the step is."""
    C = t.C
    whole = C - C % 4
    for j in range(0, whole, 4):
        for k in range(0, j + 1, 4):
            _weigh_block(t, j, k)
    for j in range(whole, C):
        _weigh(t, j)
    for j in range(C):
        _find_flows(t, j)
    k = C
    while k > 1:  # four pivots together, which then send the rest what they have for it; few columns at once
        first = k - 4 if k > 8 else 0
        for pivot in range(k - 1, max(first, 1) - 1, -1):
            _take_out(t, pivot, first)
        k = first
        for j in range(k):
            _send_flows(t, k, j)
        for j in range(k % 2, k, 2):  # the first column has none before it
            _send_weights(t, k, j)
    _substitute(t)


@jit(inner=True, borrows=True)
def _take_out(t, k, first):
    """Take column k out of the graph, as far as that concerns the columns from `first` on."""
    S, C = t.S, t.C
    W, F = t.W + k * C, t.F + k * C
    square = t.R == C
    _take_shares(t, k)
    q = load(S, t.q + k)
    for j in range(k - 1, first - 1, -1):  # the next pivot row first: what needs it need not wait for the others
        share = load(S, t.W + j * C + k)
        store(S, t.q + j, fma(share, q, load(S, t.q + j)))
        row = t.W + j * C
        for i in range(j):
            store(S, row + i, fma(share, load(S, W + i), load(S, row + i)))
        if square:
            row = t.F + j * C
            f = load(S, F + j)
            for i in range(j):
                flow = fma(share, load(S, F + i), load(S, row + i))
                store(S, row + i, fma(-load(S, t.W + i * C + k), f, flow))
    store(S, t.d + k, q + add_up(S, F, k) if square else q)


@jit(inner=True, borrows=True)
def _send_weights(t, k, j):
    """Add what the four columns from k on send to the weights of the columns j and j + 1, the last of them first."""
    S, C = t.S, t.C
    row, other, W = t.W + j * C, t.W + (j + 1) * C, t.W + k * C
    a, b, c, d = load(S, row + k + 3), load(S, row + k + 2), load(S, row + k + 1), load(S, row + k)
    e, f, g, h = load(S, other + k + 3), load(S, other + k + 2), load(S, other + k + 1), load(S, other + k)
    for i in range(j + 1):
        p, q, r, s = load(S, W + 3 * C + i), load(S, W + 2 * C + i), load(S, W + C + i), load(S, W + i)
        w = fma(f, q, fma(e, p, load(S, other + i)))
        store(S, other + i, fma(h, s, fma(g, r, w)))
        if i < j:
            w = fma(b, q, fma(a, p, load(S, row + i)))
            store(S, row + i, fma(d, s, fma(c, r, w)))


@jit(inner=True, borrows=True)
def _send_flows(t, k, j):
    """Do so with the source of column j and its flows: each sends what it has, and takes what the column sends on."""
    S, C = t.S, t.C
    row, F3, to = t.W + j * C + k, t.F + (k + 3) * C, t.F + j * C
    F2, F1, F = F3 - C, F3 - 2 * C, F3 - 3 * C
    a, b, c, d = load(S, row + 3), load(S, row + 2), load(S, row + 1), load(S, row)
    source = fma(b, load(S, t.q + k + 2), fma(a, load(S, t.q + k + 3), load(S, t.q + j)))
    store(S, t.q + j, fma(d, load(S, t.q + k), fma(c, load(S, t.q + k + 1), source)))
    if t.R != C:
        return
    m, n, o, p = -load(S, F3 + j), -load(S, F2 + j), -load(S, F1 + j), -load(S, F + j)
    for i in range(j):
        share = t.W + i * C + k
        flow = fma(load(S, share + 3), m, fma(a, load(S, F3 + i), load(S, to + i)))
        flow = fma(load(S, share + 2), n, fma(b, load(S, F2 + i), flow))
        flow = fma(load(S, share + 1), o, fma(c, load(S, F1 + i), flow))
        store(S, to + i, fma(load(S, share), p, fma(d, load(S, F + i), flow)))


@jit(inner=True, borrows=True)
def _weigh_block(t, j, k):
    """Do what ``_weigh`` does for the columns from j to j + 3 and from k to k + 3; what k > j gets is never read."""
    S, C = t.S, t.C
    zero = splat(0.0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    m, n, o, p, q, r, s, u = zero, zero, zero, zero, zero, zero, zero, zero
    for i in range(t.R):
        row, inverse = t.P + i * C, load(S, t.inverse + i)
        one, two, three, four = load(S, row + k), load(S, row + k + 1), load(S, row + k + 2), load(S, row + k + 3)
        x = load(S, row + j) * inverse
        a, b, c, d = fma(x, one, a), fma(x, two, b), fma(x, three, c), fma(x, four, d)
        x = load(S, row + j + 1) * inverse
        e, f, g, h = fma(x, one, e), fma(x, two, f), fma(x, three, g), fma(x, four, h)
        x = load(S, row + j + 2) * inverse
        m, n, o, p = fma(x, one, m), fma(x, two, n), fma(x, three, o), fma(x, four, p)
        x = load(S, row + j + 3) * inverse
        q, r, s, u = fma(x, one, q), fma(x, two, r), fma(x, three, s), fma(x, four, u)
    W = t.W + j * C + k
    _store_four(S, W, a, b, c, d)
    _store_four(S, W + C, e, f, g, h)
    _store_four(S, W + 2 * C, m, n, o, p)
    _store_four(S, W + 3 * C, q, r, s, u)


@jit(inner=True, inline=True, borrows=True)
def _store_four(S, k, a, b, c, d):
    store(S, k, a)
    store(S, k + 1, b)
    store(S, k + 2, c)
    store(S, k + 3, d)


@jit(inner=True, inline=True, borrows=True)
def _find_flows(t, j):
    """Split what a column lacks into a source and, where it is paired with a row, flows to the columns before it."""
    S, C = t.S, t.C
    q = load(S, t.gap + j)
    if t.R == C:
        together = load(S, line.PAIRED) != 0.0
        q = where(together, load(S, t.v + j) - load(S, t.u + j), q)
        for k in range(j):
            flow = load(S, t.P + j * C + k) - load(S, t.P + k * C + j)
            store(S, t.F + j * C + k, where(together, flow, 0.0))
    store(S, t.q + j, q)


@jit(inner=True, inline=True, borrows=True)
def _weigh(t, j):
    """W_jk = sum over i of p_ij p_ik / u_i for k < j, four columns at a time: fewer loads for each product."""
    S, C = t.S, t.C
    W = t.W + j * C
    whole = j - j % 4
    for k in range(0, whole, 4):
        a = splat(0.0)
        b = splat(0.0)
        c = splat(0.0)
        d = splat(0.0)
        for i in range(t.R):
            row = t.P + i * C
            p = load(S, row + j) * load(S, t.inverse + i)
            a = fma(p, load(S, row + k), a)
            b = fma(p, load(S, row + k + 1), b)
            c = fma(p, load(S, row + k + 2), c)
            d = fma(p, load(S, row + k + 3), d)
        store(S, W + k, a)
        store(S, W + k + 1, b)
        store(S, W + k + 2, c)
        store(S, W + k + 3, d)
    for k in range(whole, j):
        a = splat(0.0)
        for i in range(t.R):
            row = t.P + i * C
            a = fma(load(S, row + j) * load(S, t.inverse + i), load(S, row + k), a)
        store(S, W + k, a)


@jit(inner=True, inline=True, borrows=True)
def _take_shares(t, k):
    """Note which share of what column k has its neighbours get when it is taken out of the graph."""
    S, C = t.S, t.C
    total = add_up(S, t.W + k * C, k)
    r = where(total >= NORMAL, 1.0 / total, 0.0)
    store(S, t.r + k, r)
    for j in range(k):
        store(S, t.W + j * C + k, load(S, t.W + k * C + j) * r)


@jit(inner=True, borrows=True)
def _substitute(t):
    """Find the step from the first column up, and centre it."""
    S, C = t.S, t.C
    store(S, t.d, splat(0.0))
    low = splat(0.0)
    high = splat(0.0)
    for k in range(1, C):
        d = load(S, t.d + k) * load(S, t.r + k)
        for j in range(1, k):
            d = fma(load(S, t.W + j * C + k), load(S, t.d + j), d)
        store(S, t.d + k, d)
        low = where(d < low, d, low)
        high = where(d > high, d, high)
    store(S, line.RHO_BEFORE, load(S, line.RHO))
    store(S, line.RHO, high - low)
    middle = 0.5 * (low + high)  # keep the factors centred
    for k in range(C):
        store(S, t.d + k, load(S, t.d + k) - middle)


@jit(inner=True, borrows=True)
def _choose_step(t):
    """Choose how much of the step is taken, without a line search."""
    S = t.S
    rho = load(S, line.RHO)
    wide = ~(rho <= SAFE_WIDTH)
    store(S, line.STEP, splat(1.0))
    if some(wide):
        for w in range(LANES):
            if S[line.RHO, w] > SAFE_WIDTH:
                S[line.STEP, w] = damped_step(S[line.RHO, w])


@written_out("y")
@jit(inner=True, borrows=True)
def advance(t):
    """Take the step."""
    S, C = t.S, t.C
    step = load(S, line.STEP)
    active = load(S, line.ACTIVE) != 0.0
    for j in range(C):
        y = load(S, t.y + j)
        store(S, t.y + j, where(active, _times_exp(y, step * load(S, t.d + j)), y))


@jit(inner=True, borrows=True)
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
