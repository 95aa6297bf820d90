"""Newton's method on the dual of matrix scaling, for a tile of small matrices.

The unknowns are the logarithms of the column factors; the rows are exact after every row pass. The Hessian is the graph
Laplacian of the columns (a Schur complement). It is eliminated by the star-mesh transform (Grassmann, Taksar, Heyman),
which only adds nonnegative numbers. Where row i and column i are paired the diagonal never enters: small cells keep all
their digits.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import absolute, fma, load, minimum, some, splat, store, where
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.cpu.scaling._tile_workspace import LANES, sum_lines, unroll_unit_targets
from cmfast.kernels.cpu.solver.newton import damped_step, has_stalled
from cmfast.kernels.shared import scaling as rules
from cmfast.kernels.shared.scaling import FLAT_COLUMNS, NORMAL, SAFE_WIDTH, SWEEP_ROUNDING
from cmfast.kernels.status import MAX_ITER, RANGE

has_ended = jit(inner=True, inline=True)(rules.has_ended)


@jit(inner=True, inline=True, borrows=True)
def run_newton(t, size, limits, passes):
    """Run Newton iterations on all active lanes of square matrices, in place; return the number of passes.

    At most `passes`; lanes that are active after that can be continued.
    """
    for k in range(passes):
        scale_square_rows(t, size)
        if not _update_active_lanes(t, limits):
            return k
        solve_newton_system(t, size)
        _damp_step(t)
        take_step(t, size)
    return passes


@jit(inner=True, borrows=True)
def run_newton_rectangular(t, limits, passes):
    """Run Newton iterations on all active lanes of rectangular matrices, in place; return the number of passes."""
    for k in range(passes):
        _scale_rectangular_rows(t)
        if not _update_active_lanes(t, limits):
            return k
        solve_newton_system(t, None)
        _damp_step(t)
        take_step(t, None)
    return passes


@unroll_unit_targets("x", "P", line.RESIDUAL, line.LINE_ERROR)
@jit(inner=True, borrows=True)
def scale_square_rows(t):
    """Scale the rows of square matrices to their targets; store scaled cells, column gaps and residuals."""
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
        a = sum_lines(S, P, C)
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
def _scale_rectangular_rows(t):
    """Scale the rows of rectangular matrices to their targets; store scaled cells, column gaps and residuals."""
    S, R, C = t.S, t.R, t.C
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(R):
        P = t.P + i * C
        for j in range(C):
            store(S, P + j, load(S, t.M + i * C + j) * load(S, t.y + j))
        u = load(S, t.u + i)
        x = where(u > 0.0, u / sum_lines(S, P, C), 0.0)
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
def _update_active_lanes(t, limits):
    """Deactivate lanes that have converged, overflowed or used all passes; return whether any lane is still active."""
    S = t.S
    target, still, last_width, max_iter, share = limits
    active = load(S, line.ACTIVE) != 0.0
    residual, worst = load(S, line.RESIDUAL), load(S, line.LINE_ERROR)
    rho, n_iter = load(S, line.STEP_NORM), load(S, line.N_ITER)
    stalled = has_stalled(rho, load(S, line.PREVIOUS_STEP_NORM))
    if t.C >= FLAT_COLUMNS and some((rho == np.inf) & (residual <= target)):
        rho = where(rho == np.inf, _bound_step_norm(t), rho)
    ended = has_ended(residual, share * worst, rho, stalled, target, still, last_width)
    lost = active & ~(residual < np.inf)
    active = active & ~lost & ~ended
    late = active & (n_iter >= float(max_iter))
    active = active & ~late
    status = where(lost, float(RANGE), load(S, line.STATUS))
    store(S, line.STATUS, where(late, float(MAX_ITER), status))
    store(S, line.ACTIVE, where(active, 1.0, splat(0.0)))
    store(S, line.STEP_NORM, where(ended, rho, load(S, line.STEP_NORM)))
    store(S, line.N_ITER, n_iter + where(active, 1.0, splat(0.0)))
    return some(active)


@jit(inner=True, borrows=True)
def _bound_step_norm(t):
    """Return a bound of the next step's norm from the residuals, for lanes that were only swept.

    Every flow between two sets of rows and columns passes at least one positive cell, and without zeros one of nearly
    every row and column.
    """
    S, R, C = t.S, t.R, t.C
    zeros = load(S, line.ZEROS) != 0.0
    low = _find_smallest(S, t.P, R * C, zeros)
    residual = load(S, line.RESIDUAL)
    missed = where(residual > SWEEP_ROUNDING, residual, SWEEP_ROUNDING) * load(S, line.MASS)
    return missed / (low * where(zeros, 1.0, splat(float(min(R, C) - 1))))


@jit(inner=True, borrows=True)
def _find_smallest(S, k, n, zeros):
    """Return the smallest number of each lane in `n` SIMD lines from line `k` on, the smallest positive in `zeros`."""
    infinite = splat(np.inf)
    a, b, c, d = infinite, infinite, infinite, infinite
    whole = k + n - n % 4
    if some(zeros):
        for i in range(k, k + n):
            cell = load(S, i)
            a = minimum(where(zeros & (cell == 0.0), infinite, cell), a)
        return a
    for i in range(k, whole, 4):
        a, b = minimum(load(S, i), a), minimum(load(S, i + 1), b)
        c, d = minimum(load(S, i + 2), c), minimum(load(S, i + 3), d)
    for i in range(whole, k + n):
        a = minimum(load(S, i), a)
    return minimum(minimum(a, b), minimum(c, d))


@jit(inner=True, borrows=True)
def _solve_newton_system_by_rows(t):
    """Solve the Newton system by forming and eliminating one row at a time, which suits registers.

    The result is that of `solve_newton_system`, bit for bit.
    """
    S, C, D = t.S, t.C, t.pitch
    for k in range(C - 1, 0, -1):
        W, F = t.W + k * D, t.F + k * D
        _compute_weights(t, k)
        for j in range(k):
            w = load(S, W + j)
            for pivot in range(C - 1, k, -1):
                w = fma(load(S, W + pivot), load(S, t.W + pivot * D + j), w)
            store(S, W + j, w)
        _compute_shares(t, k)
        _compute_flows(t, k)
        q = load(S, t.q + k)
        for pivot in range(C - 1, k, -1):
            q = fma(load(S, W + pivot), load(S, t.q + pivot), q)
        store(S, t.q + k, q)
        for j in range(k):
            f = load(S, F + j)
            for pivot in range(C - 1, k, -1):
                f = fma(load(S, W + pivot), load(S, t.F + pivot * D + j), f)
                f = fma(-load(S, t.W + j * D + pivot), load(S, t.F + pivot * D + k), f)
            store(S, F + j, f)
        store(S, t.d + k, q + sum_lines(S, F, k))
    _back_substitute(t)


@unroll_unit_targets("d", line.STEP_NORM, line.PREVIOUS_STEP_NORM, source=_solve_newton_system_by_rows)
@jit(inner=True, borrows=True)
def solve_newton_system(t):
    """Solve the Newton system L d = gap by eliminating columns from the last to the first.

    Store the step and its norm.
    """
    C = t.C
    whole = C - C % 4
    for j in range(0, whole, 4):
        for k in range(0, j + 1, 4):
            _compute_weight_block(t, j, k)
    for j in range(whole, C):
        _compute_weights(t, j)
    for j in range(C):
        _compute_flows(t, j)
    k = C
    while k > 1:  # blocks of four pivots, whose updates of the rest are merged; all pivots together for few columns
        first = k - 4 if k > 8 else 0
        for pivot in range(k - 1, max(first, 1) - 1, -1):
            _eliminate_column(t, pivot, first)
        k = first
        for j in range(k):
            _update_flows(t, k, j)
        for j in range(k % 2, k, 2):  # the first column has no weights to update
            _update_weights(t, k, j)
    _back_substitute(t)


@jit(inner=True, borrows=True)
def _eliminate_column(t, k, first):
    """Eliminate column k from the graph (star-mesh transform), updating only the columns from `first` to before k."""
    S, C, D = t.S, t.C, t.pitch
    W, F = t.W + k * D, t.F + k * D
    square = t.R == C
    _compute_shares(t, k)
    q = load(S, t.q + k)
    for j in range(k - 1, first - 1, -1):  # the next pivot row first, since the next pivot waits for it
        share = load(S, t.W + j * D + k)
        store(S, t.q + j, fma(share, q, load(S, t.q + j)))
        row = t.W + j * D
        for i in range(j):
            store(S, row + i, fma(share, load(S, W + i), load(S, row + i)))
        if square:
            row = t.F + j * D
            f = load(S, F + j)
            for i in range(j):
                flow = fma(share, load(S, F + i), load(S, row + i))
                store(S, row + i, fma(-load(S, t.W + i * D + k), f, flow))
    store(S, t.d + k, q + sum_lines(S, F, k) if square else q)


@jit(inner=True, borrows=True)
def _update_weights(t, k, j):
    """Add the updates by four eliminated columns, from k on, to the weights of columns j and j + 1.

    The last column first.
    """
    S, D = t.S, t.pitch
    row, other, W = t.W + j * D, t.W + (j + 1) * D, t.W + k * D
    a, b, c, d = load(S, row + k + 3), load(S, row + k + 2), load(S, row + k + 1), load(S, row + k)
    e, f, g, h = load(S, other + k + 3), load(S, other + k + 2), load(S, other + k + 1), load(S, other + k)
    for i in range(j + 1):
        p, q, r, s = load(S, W + 3 * D + i), load(S, W + 2 * D + i), load(S, W + D + i), load(S, W + i)
        w = fma(f, q, fma(e, p, load(S, other + i)))
        store(S, other + i, fma(h, s, fma(g, r, w)))
        if i < j:
            w = fma(b, q, fma(a, p, load(S, row + i)))
            store(S, row + i, fma(d, s, fma(c, r, w)))


@jit(inner=True, borrows=True)
def _update_flows(t, k, j):
    """Add the updates by four eliminated columns, from k on, to the source and the flows of column j."""
    S, C, D = t.S, t.C, t.pitch
    row, F3, to = t.W + j * D + k, t.F + (k + 3) * D, t.F + j * D
    F2, F1, F = F3 - D, F3 - 2 * D, F3 - 3 * D
    a, b, c, d = load(S, row + 3), load(S, row + 2), load(S, row + 1), load(S, row)
    source = fma(b, load(S, t.q + k + 2), fma(a, load(S, t.q + k + 3), load(S, t.q + j)))
    store(S, t.q + j, fma(d, load(S, t.q + k), fma(c, load(S, t.q + k + 1), source)))
    if t.R != C:
        return
    m, n, o, p = -load(S, F3 + j), -load(S, F2 + j), -load(S, F1 + j), -load(S, F + j)
    for i in range(j):
        share = t.W + i * D + k
        flow = fma(load(S, share + 3), m, fma(a, load(S, F3 + i), load(S, to + i)))
        flow = fma(load(S, share + 2), n, fma(b, load(S, F2 + i), flow))
        flow = fma(load(S, share + 1), o, fma(c, load(S, F1 + i), flow))
        store(S, to + i, fma(load(S, share), p, fma(d, load(S, F + i), flow)))


@jit(inner=True, borrows=True)
def _compute_weight_block(t, j, k):
    """Compute the 4 x 4 block of graph weights of columns j to j + 3 and k to k + 3.

    Those with k > j are never read.
    """
    S, C, D = t.S, t.C, t.pitch
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
    W = t.W + j * D + k
    _store_four(S, W, a, b, c, d)
    _store_four(S, W + D, e, f, g, h)
    _store_four(S, W + 2 * D, m, n, o, p)
    _store_four(S, W + 3 * D, q, r, s, u)


@jit(inner=True, inline=True, borrows=True)
def _store_four(S, k, a, b, c, d):
    """Store four vectors in consecutive SIMD lines from line `k` on."""
    store(S, k, a)
    store(S, k + 1, b)
    store(S, k + 2, c)
    store(S, k + 3, d)


@jit(inner=True, inline=True, borrows=True)
def _compute_flows(t, j):
    """Split the gap of column j into a source and, in paired lanes, flows P_jk - P_kj to the columns k < j."""
    S, C, D = t.S, t.C, t.pitch
    q = load(S, t.gap + j)
    if t.R == C:
        together = load(S, line.PAIRED) != 0.0
        q = where(together, load(S, t.v + j) - load(S, t.u + j), q)
        for k in range(j):
            flow = load(S, t.P + j * C + k) - load(S, t.P + k * C + j)
            store(S, t.F + j * D + k, where(together, flow, 0.0))
    store(S, t.q + j, q)


@jit(inner=True, inline=True, borrows=True)
def _compute_weights(t, j):
    """Compute the graph weights W_jk = sum over i of p_ij p_ik / u_i for k < j, four columns at a time."""
    S, C, D = t.S, t.C, t.pitch
    W = t.W + j * D
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
def _compute_shares(t, k):
    """Compute the multipliers of pivot k: the weights to its neighbours over their sum."""
    S, D = t.S, t.pitch
    total = sum_lines(S, t.W + k * D, k)
    r = where(total >= NORMAL, 1.0 / total, 0.0)
    store(S, t.r + k, r)
    for j in range(k):
        store(S, t.W + j * D + k, load(S, t.W + k * D + j) * r)


@jit(inner=True, borrows=True)
def _back_substitute(t):
    """Compute the Newton step by back substitution, from the first column up; centre it and store its range."""
    S, C, D = t.S, t.C, t.pitch
    store(S, t.d, splat(0.0))
    low = splat(0.0)
    high = splat(0.0)
    for k in range(1, C):
        d = load(S, t.d + k) * load(S, t.r + k)
        for j in range(1, k):
            d = fma(load(S, t.W + j * D + k), load(S, t.d + j), d)
        store(S, t.d + k, d)
        low = where(d < low, d, low)
        high = where(d > high, d, high)
    store(S, line.PREVIOUS_STEP_NORM, load(S, line.STEP_NORM))
    store(S, line.STEP_NORM, high - low)
    middle = 0.5 * (low + high)  # keep the factors centred
    for k in range(C):
        store(S, t.d + k, load(S, t.d + k) - middle)


@jit(inner=True, borrows=True)
def _damp_step(t):
    """Set the step length of each lane: one, or damped for large steps, so that the dual decreases."""
    S = t.S
    rho = load(S, line.STEP_NORM)
    wide = ~(rho <= SAFE_WIDTH)
    store(S, line.STEP_LENGTH, splat(1.0))
    if some(wide):
        for w in range(LANES):
            if S[line.STEP_NORM, w] > SAFE_WIDTH:
                S[line.STEP_LENGTH, w] = damped_step(S[line.STEP_NORM, w])


@unroll_unit_targets("y")
@jit(inner=True, borrows=True)
def take_step(t):
    """Multiply the column factors of active lanes by exp(step length times Newton step), in place."""
    S, C = t.S, t.C
    step = load(S, line.STEP_LENGTH)
    active = load(S, line.ACTIVE) != 0.0
    for j in range(C):
        y = load(S, t.y + j)
        store(S, t.y + j, where(active, _multiply_by_exp(y, step * load(S, t.d + j)), y))


@jit(inner=True, borrows=True)
def _multiply_by_exp(y, z):
    """Return a positive approximation of y * e**z, exact to second order at z = 0; the step length need not be exact.

    For small z, e**z - 1 is added to y rather than multiplied, so that last steps below the rounding of one still
    count.
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
