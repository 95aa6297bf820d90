"""Delta-method standard errors of metrics, from exact derivatives in every cell.

To first order the variance of a function of multinomial counts is the sum over cells of ``M (g - mean)**2``, with the
derivatives ``g`` (``kernels/cpu/metrics/_gradients.py``) and their mean over the samples; with fixed rows, each row has
its own mean.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, floor, fma, load, splat, sqrt, store, store_row, where
from cmfast.kernels.cpu.metrics import _gradients, _margins, _second_pass, values
from cmfast.kernels.cpu.metrics._margins import FIRST, MOST_TRANSPOSED, STATUS_LINE, SUMS, TOTAL_LINE, transpose_cells
from cmfast.kernels.shared.metrics import ORDERED, Over, Plan, Step, Total, Value, count_slope_lines, shape_results
from cmfast.kernels.status import INVALID, OK

OF_TRACE = (Total.ACCURACY, Total.ERROR, Total.JACCARD_MICRO, Total.SPECIFICITY_MICRO)
OF_ROWS = (Value.RECALL, Value.FALSE_NEGATIVE)
SECONDS_PER_SLOPE = 4e-10  # per register and cell
CELL_BYTES = 2**18  # cells of a tile transposed at a time: each scalar's derivatives are read once for all of them
SLOPE_BYTES = 2**19  # derivatives in memory at a time: half of a level-2 cache; their matrices need the rest


@jit()
def _round_huge(sums, C):
    """Convert int64 sums of HUGE matrices to the nearest float64, in place."""
    whole = sums.view(np.int64)
    for at in range(0, len(sums), FIRST + SUMS * C):
        for w in range(WIDTH):
            if sums[at + STATUS_LINE, w] == _margins.HUGE:
                sums[at + STATUS_LINE, w] = OK
                sums[at + TOTAL_LINE, w] = whole[at + TOTAL_LINE, w]
                for k in range(at + FIRST, at + FIRST + SUMS * C):
                    sums[k, w] = whole[k, w]


@jit(borrows=True)
def _differentiate(sums, C, size, plan, shaped, S, G, T):
    """Write the derivatives of every tile, `size` lines per register; centre those of the first ``len(shaped)``."""
    plan = Plan(*plan)
    registers, tables = plan.registers * size, plan.tables * C * 4
    for tile in range(len(sums) // (FIRST + SUMS * C)):
        at = tile * (FIRST + SUMS * C)
        G_of, T_of = G[tile * registers : (tile + 1) * registers], T[tile * tables : (tile + 1) * tables]
        _gradients.differentiate(plan, sums, at, C, size, S, G_of, T_of)
        for register in range(len(shaped)):
            _centre(G_of, register * size, size, sums, at, C, shaped[register])


@jit(inner=True, borrows=True)
def _centre(G, row, size, sums, at, C, ordered):
    """Subtract the mean over the samples from the derivatives in lines `row` on, against cancellation in the variance.

    `ordered` says whether the metric depends on class order. A second call changes nothing.
    """
    mean = splat(0.0)
    for k in range(C):  # separate products shorten the dependency chain
        d = load(G, row + k) * load(sums, at + FIRST + k)
        t = load(G, row + C + k) * load(sums, at + FIRST + C + k)
        p = load(G, row + 2 * C + k) * load(sums, at + FIRST + 2 * C + k)
        mean = mean + (d + (t + p))
    for line in range(3 * C, SUMS * C if ordered else 3 * C):
        mean = mean + load(G, row + line) * load(sums, at + FIRST + line)
    mean = mean / load(sums, at + TOTAL_LINE)
    end = row + size - 1
    store(G, end, load(G, end) * 0.0 - mean)  # minus the mean, or NaN if not differentiable


@jit(inner=True, inline=True, borrows=True)
def _add_squares(cells, line, G, slopes, bases, low, high, totals):
    """Add ``cells * (base + slope)**2`` over columns `low` to `high` to four totals, each with two accumulators.

    The slopes of the four are in lines of `G` from the four `slopes` on.
    """
    a, b, c, d = slopes
    of_a, of_b, of_c, of_d = bases
    even_a, even_b, even_c, even_d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    odd_a, odd_b, odd_c, odd_d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for j in range(low, high - 1, 2):
        x, y = load(cells, line + j), load(cells, line + j + 1)
        g, h = of_a + load(G, a + j), of_a + load(G, a + j + 1)
        even_a, odd_a = fma(x, g * g, even_a), fma(y, h * h, odd_a)
        g, h = of_b + load(G, b + j), of_b + load(G, b + j + 1)
        even_b, odd_b = fma(x, g * g, even_b), fma(y, h * h, odd_b)
        g, h = of_c + load(G, c + j), of_c + load(G, c + j + 1)
        even_c, odd_c = fma(x, g * g, even_c), fma(y, h * h, odd_c)
        g, h = of_d + load(G, d + j), of_d + load(G, d + j + 1)
        even_d, odd_d = fma(x, g * g, even_d), fma(y, h * h, odd_d)
    if (high - low) & 1:
        x = load(cells, line + high - 1)
        g, h = of_a + load(G, a + high - 1), of_b + load(G, b + high - 1)
        even_a, even_b = fma(x, g * g, even_a), fma(x, h * h, even_b)
        g, h = of_c + load(G, c + high - 1), of_d + load(G, d + high - 1)
        even_c, even_d = fma(x, g * g, even_c), fma(x, h * h, even_d)
    return (
        totals[0] + (even_a + odd_a),
        totals[1] + (even_b + odd_b),
        totals[2] + (even_c + odd_c),
        totals[3] + (even_d + odd_d),
    )


@jit(inner=True, inline=True, borrows=True)
def _prepare_row(cells, line, G, slopes, size, i, C):
    """Return what the derivatives in row `i` of a metric have in common, and the contribution of the diagonal."""
    base = load(G, slopes + C + i) + load(G, slopes + size - 1)
    right = base + load(G, slopes + 2 * C + i) + load(G, slopes + i)
    return base, load(cells, line + i) * (right * right)


@jit(inner=True, borrows=True)
def _add_nominal_rows(cells, first, last, G, four, size, C, found):
    """Add rows `first` to `last` of the cells to the variances of four metrics that ignore class order."""
    a, b, c, d = four[0] * size, four[1] * size, four[2] * size, four[3] * size
    slopes = a + 2 * C, b + 2 * C, c + 2 * C, d + 2 * C
    of_a, of_b, of_c, of_d = load(found, four[0]), load(found, four[1]), load(found, four[2]), load(found, four[3])
    for i in range(first, last):
        line = (i - first) * C
        base_a, right_a = _prepare_row(cells, line, G, a, size, i, C)
        base_b, right_b = _prepare_row(cells, line, G, b, size, i, C)
        base_c, right_c = _prepare_row(cells, line, G, c, size, i, C)
        base_d, right_d = _prepare_row(cells, line, G, d, size, i, C)
        bases, totals = (base_a, base_b, base_c, base_d), (right_a, right_b, right_c, right_d)
        totals = _add_squares(cells, line, G, slopes, bases, 0, i, totals)
        totals = _add_squares(cells, line, G, slopes, bases, i + 1, C, totals)
        of_a, of_b, of_c, of_d = of_a + totals[0], of_b + totals[1], of_c + totals[2], of_d + totals[3]
    store(found, four[0], of_a)
    store(found, four[1], of_b)
    store(found, four[2], of_c)
    store(found, four[3], of_d)


@jit(inner=True, borrows=True)
def _sum_beside_diagonal(cells, first, last, C, beside):
    """Write the sums of rows `first` to `last` of the cells without the diagonal to lines."""
    for i in range(first, last):
        line, total = (i - first) * C, splat(0.0)
        for j in range(i):
            total = total + load(cells, line + j)
        for j in range(i + 1, C):
            total = total + load(cells, line + j)
        store(beside, i, total)


@jit(inner=True, borrows=True)
def _add_rows_alike(cells, first, last, G, row, size, C, beside):
    """Return the contribution of rows to the variance of a metric whose derivatives in all columns are equal.

    So are those of all cells in a row but the diagonal; the sums of these cells are in the lines `beside`.
    """
    variance = splat(0.0)
    for i in range(first, last):
        base, right = _prepare_row(cells, (i - first) * C, G, row, size, i, C)
        g = base + load(G, row + 2 * C)
        variance = variance + (right + load(beside, i) * (g * g))
    return variance


@jit(inner=True, borrows=True)
def _add_ordinal_row(cells, line, slopes, i, C):
    """Return the contribution of row `i` to the variance of a metric that depends on class order."""
    base, variance = load(slopes, C + i) + load(slopes, len(slopes) - 1), splat(0.0)
    for j in range(C):
        g = base + load(slopes, 2 * C + j)
        if i == j:
            g = g + load(slopes, i)
        g = g + (load(slopes, 3 * C + abs(i - j)) + load(slopes, 4 * C + max(i, j)))
        variance = variance + load(cells, line + j) * (g * g)
    return variance


@jit(inner=True, borrows=True)
def _add_row_within(cells, line, kept, slopes, i, ordered, t):
    """Return the contribution of row `i`, whose samples are fixed, to the variance of a metric."""
    C = len(kept)
    base, mean, variance = load(slopes, C + i) + load(slopes, len(slopes) - 1), splat(0.0), splat(0.0)
    for j in range(C):
        store(kept, j, base + load(slopes, 2 * C + j))
    store(kept, i, load(kept, i) + load(slopes, i))
    for j in range(C if ordered else 0):
        more = load(slopes, 3 * C + abs(i - j)) + load(slopes, 4 * C + max(i, j))
        store(kept, j, load(kept, j) + more)
    for j in range(C):
        mean = mean + load(kept, j) * load(cells, line + j)
    mean = where(t > 0.0, mean / t, splat(0.0))
    for j in range(C):
        g = load(kept, j) - mean
        variance = variance + load(cells, line + j) * (g * g)
    return variance


@jit(borrows=True)
def _write_errors(M, sums, slopes, design, work, out, start, stop):
    """Write standard errors of scalars and per-class values from their derivatives, and the status of every matrix.

    `slopes` holds the lines of scalars, those of per-class values, the number of lines per scalar, which scalars depend
    on class order, those of `_find_scalars_alike`, and the others in rows of four, the last of which may repeat one. `design` holds whether rows are fixed, the number of samples to scale to (negative: cells
    must be counts and are kept), and whether cells are of an integer type. `work` holds lines for rows of cells, then
    lines for sums.
    """
    G, T, size, shaped, alike, nominal = slopes
    rows, n, whole = design
    cells, sums_of = work
    scalars, tables, status = out
    C = tables.shape[2]
    lines, together = FIRST + SUMS * C, max(1, len(cells) // max(C, 1))
    of_tile, values_of = len(G) * lines // max(len(sums), 1), len(T) * lines // max(len(sums), 1)
    kept, column, found = sums_of[:C], sums_of[C : 2 * C], sums_of[2 * C :]
    for first in range(start, stop, WIDTH):
        tile, count = (first - start) // WIDTH, min(WIDTH, stop - first)
        at, G_of, T_of = tile * lines, G[tile * of_tile : (tile + 1) * of_tile], T[tile * values_of :]
        total, good = load(sums, at + TOTAL_LINE), load(sums, at + STATUS_LINE) == float(OK)
        factor = total / n if n >= 0.0 else splat(1.0)
        for register in range(len(shaped)):
            store(found, register, splat(0.0))
        for k in range(C):
            store(column, k, splat(0.0))
        for begin in range(0, C, together):
            end = min(begin + together, C)
            transpose_cells(M, first, stop - 1, begin * C, (end - begin) * C, cells)
            for k in range((end - begin) * C if n < 0.0 and not whole else 0):
                x = load(cells, k)
                good = good & (x == floor(x))
            for register in range(len(shaped)):
                if not (rows or shaped[register]):
                    continue
                own, variance = G_of[register * size : (register + 1) * size], load(found, register)
                if begin == 0:
                    _centre(G_of, register * size, size, sums, at, C, shaped[register])
                for i in range(begin, end):
                    line, t = (i - begin) * C, load(sums, at + FIRST + C + i)
                    if rows:
                        variance = variance + _add_row_within(cells, line, kept, own, i, shaped[register], t)
                    else:
                        variance = variance + _add_ordinal_row(cells, line, own, i, C)
                store(found, register, variance)
            if len(alike) > 0 and not rows:
                _sum_beside_diagonal(cells, begin, end, C, kept)
            for place in range(0 if rows else len(alike)):
                register = alike[place]
                if begin == 0:
                    _centre(G_of, register * size, size, sums, at, C, False)
                more = _add_rows_alike(cells, begin, end, G_of, register * size, size, C, kept)
                store(found, register, load(found, register) + more)
            for group in range(0 if rows else len(nominal)):
                four = nominal[group, 0], nominal[group, 1], nominal[group, 2], nominal[group, 3]
                for k in range(4 if begin == 0 else 0):
                    _centre(G_of, nominal[group, k] * size, size, sums, at, C, False)
                _add_nominal_rows(cells, begin, end, G_of, four, size, C, found)
            for i in range(begin, end if rows else begin):
                line, t = (i - begin) * C, load(sums, at + FIRST + C + i)
                for j in range(C):  # binomial variances of the other rows in a column
                    if j != i:
                        x = load(cells, line + j)
                        store(column, j, load(column, j) + where(x > 0.0, x * ((t - x) / t), splat(0.0)))
        for register in range(len(shaped)):
            x = sqrt(load(found, register) * factor)
            store(found, register, where(good & (total > 0.0) & (x < np.inf), x, splat(np.nan)))
            if count == WIDTH:
                store_row(scalars, register, first, load(found, register))
            for w in range(count if count < WIDTH else 0):
                scalars[register, first + w] = found[register, w]
        for table in range(tables.shape[0]):
            for k in range(C):
                x = _class_variance(sums, at, C, k, T_of, (table * C + k) * 4, rows, load(column, k))
                x = sqrt(x * factor)
                store(kept, 0, where(good & (x < np.inf), x, splat(np.nan)))
                for w in range(count):
                    tables[table, first + w, k] = kept[0, w]
        store(found, len(shaped), where(good, float(OK), splat(float(INVALID))))
        for w in range(count):
            status[first + w] = np.int8(found[len(shaped), w])


@jit(inner=True, borrows=True)
def _class_variance(sums, at, C, k, T, line, rows, others):
    """Return the variance of a value of one class, from its derivatives in d, t, p and n."""
    d, t, p = load(sums, at + FIRST + k), load(sums, at + FIRST + C + k), load(sums, at + FIRST + 2 * C + k)
    n = load(sums, at + TOTAL_LINE)
    right = load(T, line) + load(T, line + 1) + load(T, line + 2) + load(T, line + 3)
    missed, false = load(T, line + 1) + load(T, line + 3), load(T, line + 2) + load(T, line + 3)
    rejected = load(T, line + 3)
    if rows:
        own = where(d > 0.0, d * ((t - d) / t), splat(0.0))
        return own * ((right - missed) * (right - missed)) + others * ((false - rejected) * (false - rejected))
    mean = (d * right + (t - d) * missed + (p - d) * false + (n - t - p + d) * rejected) / n
    right, missed, false, rejected = right - mean, missed - mean, false - mean, rejected - mean
    variance = d * (right * right) + (t - d) * (missed * missed)
    return variance + (p - d) * (false * false) + (n - t - p + d) * (rejected * rejected)


def prepare_sums(sums, C, plan, steps, unusual):
    """Prepare class sums for differentiation, in place: round HUGE ones, add ordinal scores and reductions."""
    if unusual:
        _round_huge(sums, C)
    if plan.ordered:
        _second_pass.score_ordinal(sums, C)
    if plan.again:
        _second_pass.reduce_recalls(sums, C, steps)


def _merge_scalars(plan):
    """Return `plan` without scalars whose errors follow from those of others, and what each scalar follows from.

    That is a scalar of the new plan and a factor, of which 0.5 changes no bit: the error of an equal step, of the
    accuracy for that of the error rate, of the original for what maps [-1, 1] to [0, 1].
    """
    steps, params, first, roots, value = [], [], {}, {}, -1
    for step, param in zip(plan.steps.tolist(), plan.params.tolist(), strict=True):
        kind, code, target, a, b = step
        if kind in (Step.VALUE, Step.EACH):
            value += kind == Step.VALUE
        elif kind == Step.RESCALE:
            root, factor = roots[a]
            roots[target] = root, 0.5 * factor
            continue
        else:
            if kind == Step.HARMONIC:
                a, b = roots[a][0], roots[b][0]
                step = [kind, code, target, a, b]
            of = value if kind == Step.REDUCE else Total.ACCURACY if (kind, code) == (Step.TOTAL, Total.ERROR) else code
            root = first.setdefault((kind, code if kind == Step.REDUCE else 0, of, a, b, *param), target)
            roots[target] = root, 1.0
            if root != target:
                continue
        steps.append(step)
        params.append(param)
    order = {root: None for root, _ in (roots[k] for k in range(plan.scalars))}
    places = {root: k for k, root in enumerate([*order, *(root for root in first.values() if root not in order)])}
    for step in steps:
        if step[0] not in (Step.VALUE, Step.EACH):
            step[2] = places[step[2]]
        if step[0] == Step.HARMONIC:
            step[3:] = places[step[3]], places[step[4]]
    merged = plan._replace(
        steps=np.array(steps, np.int64).reshape(-1, 5),
        params=np.array(params, np.float64).reshape(-1, 2),
        scalars=len(order),
        registers=len(places),
    )
    return merged, [(places[root], factor) for root, factor in (roots[k] for k in range(plan.scalars))]


def _expand_scalars(found, sources):
    """Return the errors of all scalars from those of the merged plan, each in memory of its own."""
    taken = set()
    for place, factor in sources:
        yield factor * found[place] if place in taken or factor != 1.0 else found[place]
        taken.add(place)


def standard_errors(M, *, plan, rows, n, num_threads=None):
    """Return standard errors of the scalars and per-class results of `plan` of every matrix; the status."""
    plan, sources = _merge_scalars(plan)
    C, batch = M.shape[-1], M.shape[:-2]
    size, kind, given = math.prod(batch), batches.result_dtype(M), values.flatten_matrices(M)
    scalars, tables = np.empty((plan.scalars, size), kind), np.empty((plan.tables, size, C), kind)
    status = np.empty(size, np.int8)
    out, steps, lines = (scalars, tables, status), tuple(plan), _margins.count_tile_lines(C)
    own, counts = count_slope_lines(C, ordered=plan.ordered), given.dtype.kind != "f"
    slopes, per_class = plan.registers * own, plan.tables * C * 4
    together = max(1, SLOPE_BYTES // (8 * WIDTH * max(1, slopes + per_class)))  # tiles
    alike = _find_scalars_alike(plan)
    nominal = np.setdiff1d(np.flatnonzero(~_find_ordinal_scalars(plan)), alike)
    nominal = np.append(nominal, nominal[-1:].repeat(-len(nominal) % 4)).reshape(-1, 4)
    shaped, design = _find_ordinal_scalars(plan), (rows, -1.0 if n is None else float(n), counts)
    cells = max(MOST_TRANSPOSED, C * min(C, CELL_BYTES // (8 * WIDTH * max(C, 1))), C)
    sizes = _gradients.count_working_lines(C, plan), cells, 2 * C + plan.scalars + 1
    ends = [sum(sizes[:k]) for k in range(1, 4)]

    def use(sums, S, start, stop, unusual):
        """Differentiate and write standard errors for a block, a few tiles at a time."""
        prepare_sums(sums, C, plan, steps, unusual)
        for first in range(start, stop, together * WIDTH):
            last, tile = min(first + together * WIDTH, stop), (first - start) // WIDTH
            part = sums[tile * lines : (tile + -(-(last - first) // WIDTH)) * lines]
            tiles = len(part) // lines
            G, T = S[ends[2] :][: tiles * slopes], S[ends[2] + together * slopes :][: tiles * per_class]
            _differentiate(part, C, own, steps, shaped[:0], S[: ends[0]], G, T)
            work = S[ends[0] : ends[1]], S[ends[1] : ends[2]]
            _write_errors(given, part, (G, T, own, shaped, alike, nominal), design, work, out, first, last)

    fill = values.make_summing_kernel(given, C, plan.ordered, values.EXACT_TOTALS)
    seconds = size * C * C * (1 + plan.registers + plan.tables) * SECONDS_PER_SLOPE
    tiles = min(together, -(-size // WIDTH))
    values.run_blocks(
        fill, use, C, size, seconds=seconds, num_threads=num_threads,
        lines=ends[2] + together * slopes + tiles * per_class,
    )  # fmt: skip
    return (*shape_results(_expand_scalars(scalars, sources), tables, batch), status.reshape(batch))


def _find_scalars_alike(plan):
    """Return the scalars whose derivatives in all columns are equal: of recalls, and of the total and trace alone."""
    alike, value = [], -1
    for kind, code, target, *_ in plan.steps.tolist():
        if kind == Step.VALUE:
            value = code
        elif target < plan.scalars and (
            (kind == Step.TOTAL and code in OF_TRACE)
            or (kind == Step.REDUCE and (value in OF_ROWS or (code == Over.MICRO and not len(plan.members))))
        ):
            alike.append(target)
    return np.array(sorted(alike), np.int64)


def _find_ordinal_scalars(plan):
    """Return which scalars depend on the order of the classes."""
    ordinal = np.zeros(plan.scalars, np.bool_)
    for step, code, target, *_ in plan.steps.tolist():
        if step == Step.TOTAL and code in ORDERED and target < plan.scalars:
            ordinal[target] = True
    return ordinal
