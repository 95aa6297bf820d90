"""Metrics of a tile of matrices, from their sums: see ``kernels/formulas.py`` for the codes.

A 0/0 is NaN here until the step that writes or reduces it puts the fill of the plan. For integers every difference of
products is exact and rounded once; sums beyond what int64 can multiply go through two words.
"""

import math

import numpy as np

from cmfast.kernels.cpu import _wide
from cmfast.kernels.cpu._jit import jit
from cmfast.kernels.formulas import Mode, Over, Step, Sums, Total, Value

DIAGONAL, ROW, COL, BAND, TOP = (int(code) for code in Sums)
VALUE, EACH, REDUCE, TOTAL, HARMONIC, RESCALE = (int(code) for code in Step)
RECALL, PRECISION, FBETA, JACCARD, SPECIFICITY, NPV = (int(code) for code in list(Value)[:6])
OVR_ACCURACY, OVR_BALANCED, OVR_GEOMETRIC, OVR_TAU, TSS, HEIDKE, GILBERT, DOOLITTLE = (int(c) for c in list(Value)[6:])
MEAN, WEIGHTED, MIN, GEOMETRIC, TAU, TAU_WEIGHTED, ADJUSTED, PICK = (int(code) for code in Over)
ACCURACY, JACCARD_MICRO, SPECIFICITY_MICRO, MCC, KAPPA, PEIRCE, LINEAR, QUADRATIC, GERRITY = (int(c) for c in Total)
PRESENT, DEFINED = int(Mode.PRESENT), int(Mode.DEFINED)

# Rows of the products of a tile: what the chance-corrected scores are ratios of.
COVARIANCE = 0  # n a - e, the sum over classes of tp tn - fn fp
TRUTH = 1  # sum of t (n - t)
PREDICTION = 2  # sum of p (n - p)
CHANCE = 3  # sum of t (n - p)
LINEAR_GAIN, LINEAR_CHANCE, QUADRATIC_GAIN, QUADRATIC_CHANCE = 4, 5, 6, 7  # E - n S and E
PRODUCTS = 8


def largest_total(C, ordered):
    """Return the total up to which every sum of products of the margins of C classes fits int64."""
    return math.isqrt((2**63 - 1) // (2 * max(1, C - 1) ** 2)) if ordered else math.isqrt(2**63 - 1)


@jit()
def rescale_tile(tile, total, count):
    """Divide fractional sums far from one by a power of two, which changes no metric: their products stay in range."""
    for w in range(count):
        if total[w] > 1e70 or 0.0 < total[w] < 1e-70:
            _, exponent = math.frexp(total[w])
            for part in range(tile.shape[0]):
                for k in range(tile.shape[1]):
                    tile[part, k, w] = math.ldexp(tile[part, k, w], -exponent)
            total[w] = math.ldexp(total[w], -exponent)


@jit()
def make_products(tile, total, count, limit, ordered, cov, products, scratch):
    """Fill `cov` (tp tn - fn fp of every class) and `products`."""
    C = tile.shape[1]
    small = True
    for w in range(count):
        small = small and total[w] <= limit
    if small:
        _margin_products(tile, total, count, cov, products, scratch)
        if ordered:
            _ordered_products(tile, total, count, products, scratch)
        return
    for w in range(count):
        _wide_margin_products(tile, total, w, C, cov, products)
        if ordered:
            _wide_ordered_products(tile, total, w, C, products)


@jit()
def _margin_products(tile, total, count, cov, products, scratch):
    d, t, p = tile[DIAGONAL], tile[ROW], tile[COL]
    both, truth, prediction, chance = scratch[0], scratch[1], scratch[2], scratch[3]
    for w in range(count):
        both[w] = truth[w] = prediction[w] = chance[w] = tile.dtype.type(0)
    for k in range(tile.shape[1]):
        for w in range(count):
            n, dk, tk, pk = total[w], d[k, w], t[k, w], p[k, w]
            c = dk * ((n - tk) - (pk - dk)) - (tk - dk) * (pk - dk)
            cov[k, w] = c
            both[w] += c
            truth[w] += tk * (n - tk)
            prediction[w] += pk * (n - pk)
            chance[w] += tk * (n - pk)
    for w in range(count):
        products[COVARIANCE, w] = both[w]
        products[TRUTH, w] = truth[w]
        products[PREDICTION, w] = prediction[w]
        products[CHANCE, w] = chance[w]


@jit()
def _ordered_products(tile, total, count, products, scratch):
    t, p, band = tile[ROW], tile[COL], tile[BAND]
    C = tile.shape[1]
    zero = tile.dtype.type(0)
    below_t, below_p, chance, apart = scratch[0], scratch[1], scratch[2], scratch[3]
    for part in range(8):
        for w in range(count):
            scratch[part, w] = zero
    for k in range(C - 1):
        for w in range(count):
            below_t[w] += t[k, w]
            below_p[w] += p[k, w]
            chance[w] += below_t[w] * (total[w] - below_p[w]) + below_p[w] * (total[w] - below_t[w])
    for k in range(C):
        for w in range(count):
            apart[w] += k * band[k, w]
    for w in range(count):
        products[LINEAR_CHANCE, w] = chance[w]
        products[LINEAR_GAIN, w] = chance[w] - total[w] * apart[w]
    # Moments about the middle, not about class 0: exact either way, and fractions lose less.
    middle = (C - 1) // 2
    squares, first_t, first_p, apart = scratch[4], scratch[5], scratch[6], scratch[7]
    for k in range(C):
        i = k - middle
        for w in range(count):
            squares[w] += i * i * (t[k, w] + p[k, w])
            first_t[w] += i * t[k, w]
            first_p[w] += i * p[k, w]
            apart[w] += k * k * band[k, w]
    for w in range(count):
        expected = total[w] * squares[w] - 2 * first_t[w] * first_p[w]
        # All mass in one cell of the diagonal: exactly 0 for integers, rounding for fractions.
        expected = expected if chance[w] > zero else zero
        products[QUADRATIC_CHANCE, w] = expected
        products[QUADRATIC_GAIN, w] = expected - total[w] * apart[w]


@jit()
def _wide_margin_products(tile, total, w, C, cov, products):
    zero = np.uint64(0)
    n = total[w]
    bh, bl, th, tl, ph, pl, ch, cl = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(C):
        d, t, p = tile[DIAGONAL, k, w], tile[ROW, k, w], tile[COL, k, w]
        h, l = _wide.multiply(d, (n - t) - (p - d))  # noqa: E741
        h, l = _wide.subtract_product(h, l, t - d, p - d)  # noqa: E741
        cov[k, w] = _wide.to_float(h, l)
        bh, bl = _wide.add(bh, bl, h, l)
        th, tl = _wide.add_product(th, tl, t, n - t)
        ph, pl = _wide.add_product(ph, pl, p, n - p)
        ch, cl = _wide.add_product(ch, cl, t, n - p)
    products[COVARIANCE, w] = _wide.to_float(bh, bl)
    products[TRUTH, w] = _wide.to_float(th, tl)
    products[PREDICTION, w] = _wide.to_float(ph, pl)
    products[CHANCE, w] = _wide.to_float(ch, cl)


@jit()
def _wide_ordered_products(tile, total, w, C, products):
    zero = np.uint64(0)
    n = total[w]
    if np.float64(n) * n * C * C * 2.0 >= 2.0**126:
        _rounded_ordered_products(tile, total, w, C, products)
        return
    below_t, below_p = 0 * n, 0 * n
    eh, el, ah, al = zero, zero, zero, zero
    for k in range(C - 1):
        below_t += tile[ROW, k, w]
        below_p += tile[COL, k, w]
        eh, el = _wide.add_product(eh, el, below_t, n - below_p)
        eh, el = _wide.add_product(eh, el, below_p, n - below_t)
    for k in range(C):
        h, l = _wide.multiply(n, tile[BAND, k, w])  # noqa: E741
        h, l = _wide.scale(h, l, k)  # noqa: E741
        ah, al = _wide.add(ah, al, h, l)
    products[LINEAR_CHANCE, w] = _wide.to_float(eh, el)
    eh, el = _wide.subtract(eh, el, ah, al)
    products[LINEAR_GAIN, w] = _wide.to_float(eh, el)
    eh, el, ah, al = zero, zero, zero, zero
    first_t, first_p = 0 * n, 0 * n  # they fit one word, by the test above
    for k in range(C):
        t, p = tile[ROW, k, w], tile[COL, k, w]
        h, l = _wide.multiply(n, t)  # noqa: E741
        h, l = _wide.add_product(h, l, n, p)  # noqa: E741
        h, l = _wide.scale(h, l, k * k)  # noqa: E741
        eh, el = _wide.add(eh, el, h, l)
        first_t += k * t
        first_p += k * p
        h, l = _wide.multiply(n, tile[BAND, k, w])  # noqa: E741
        h, l = _wide.scale(h, l, k * k)  # noqa: E741
        ah, al = _wide.add(ah, al, h, l)
    sh, sl = _wide.multiply(first_t, first_p)
    sh, sl = _wide.scale(sh, sl, 2)
    eh, el = _wide.subtract(eh, el, sh, sl)
    products[QUADRATIC_CHANCE, w] = _wide.to_float(eh, el)
    eh, el = _wide.subtract(eh, el, ah, al)
    products[QUADRATIC_GAIN, w] = _wide.to_float(eh, el)


@jit()
def _rounded_ordered_products(tile, total, w, C, products):
    """Products beyond two words, in float64 (totals near 2**63 with many classes)."""
    n = np.float64(total[w])
    below_t, below_p, chance, apart = 0.0, 0.0, 0.0, 0.0
    for k in range(C - 1):
        below_t += tile[ROW, k, w] / n
        below_p += tile[COL, k, w] / n
        chance += below_t * (1.0 - below_p) + below_p * (1.0 - below_t)
    squares, first_t, first_p, far = 0.0, 0.0, 0.0, 0.0
    for k in range(C):
        i = k - (C - 1) // 2
        t, p, band = tile[ROW, k, w] / n, tile[COL, k, w] / n, tile[BAND, k, w] / n
        apart += k * band
        far += k * k * band
        squares += i * i * (t + p)
        first_t += i * t
        first_p += i * p
    expected = squares - 2.0 * first_t * first_p
    products[LINEAR_CHANCE, w] = chance
    products[LINEAR_GAIN, w] = chance - apart
    products[QUADRATIC_CHANCE, w] = expected
    products[QUADRATIC_GAIN, w] = expected - far


@jit()
def class_values(code, beta, tile, total, count, cov, values):
    """Fill `values` with one metric of every class, NaN where it is 0/0."""
    d, t, p = tile[DIAGONAL], tile[ROW], tile[COL]
    C = tile.shape[1]
    if code == RECALL:
        for k in range(C):
            for w in range(count):
                values[k, w] = np.float64(d[k, w]) / np.float64(t[k, w])
    elif code == PRECISION:
        for k in range(C):
            for w in range(count):
                values[k, w] = np.float64(d[k, w]) / np.float64(p[k, w])
    elif code == FBETA:
        square = beta * beta
        for k in range(C):
            for w in range(count):
                both = square * np.float64(t[k, w]) + np.float64(p[k, w])
                values[k, w] = (1.0 + square) * np.float64(d[k, w]) / both
    elif code == JACCARD:
        for k in range(C):
            for w in range(count):
                values[k, w] = np.float64(d[k, w]) / np.float64(t[k, w] + (p[k, w] - d[k, w]))
    elif code == SPECIFICITY:
        for k in range(C):
            for w in range(count):
                values[k, w] = _rejected(total[w], d[k, w], t[k, w], p[k, w]) / np.float64(total[w] - t[k, w])
    elif code == NPV:
        for k in range(C):
            for w in range(count):
                values[k, w] = _rejected(total[w], d[k, w], t[k, w], p[k, w]) / np.float64(total[w] - p[k, w])
    elif code == OVR_ACCURACY:
        for k in range(C):
            for w in range(count):
                wrong = (t[k, w] - d[k, w]) + (p[k, w] - d[k, w])
                values[k, w] = np.float64(total[w] - wrong) / np.float64(total[w])
    elif code == OVR_BALANCED:
        for k in range(C):
            for w in range(count):
                hit, reject = _rates(total[w], d[k, w], t[k, w], p[k, w])
                values[k, w] = (hit + reject) * 0.5
    elif code == OVR_GEOMETRIC:
        for k in range(C):
            for w in range(count):
                hit, reject = _rates(total[w], d[k, w], t[k, w], p[k, w])
                values[k, w] = np.sqrt(hit * reject)
    elif code == OVR_TAU:
        for k in range(C):
            for w in range(count):
                hit, reject = _rates(total[w], d[k, w], t[k, w], p[k, w])
                values[k, w] = 1.0 - np.sqrt(((1.0 - hit) * (1.0 - hit) + (1.0 - reject) * (1.0 - reject)) * 0.5)
    elif code == TSS:
        for k in range(C):
            for w in range(count):
                values[k, w] = _at_most_one(cov[k, w] / (np.float64(t[k, w]) * np.float64(total[w] - t[k, w])))
    elif code == HEIDKE:
        for k in range(C):
            for w in range(count):
                tk, pk = np.float64(t[k, w]), np.float64(p[k, w])
                by_chance = tk * np.float64(total[w] - p[k, w]) + pk * np.float64(total[w] - t[k, w])
                values[k, w] = _at_most_one(2.0 * cov[k, w] / by_chance)
    elif code == GILBERT:
        for k in range(C):
            for w in range(count):
                missed, false = t[k, w] - d[k, w], p[k, w] - d[k, w]
                rejected = _rejected(total[w], d[k, w], t[k, w], p[k, w])
                beyond = np.float64(d[k, w]) * rejected + np.float64(false) * np.float64(total[w] - missed)
                beyond += np.float64(total[w]) * np.float64(missed)
                values[k, w] = _at_most_one(cov[k, w] / beyond)
    elif code == DOOLITTLE:
        for k in range(C):
            for w in range(count):
                truth = np.float64(t[k, w]) * np.float64(total[w] - t[k, w])
                prediction = np.float64(p[k, w]) * np.float64(total[w] - p[k, w])
                value = _at_most_one(cov[k, w] * cov[k, w] / (truth * prediction))
                # One degenerate margin: the limit is 0 from every direction. Two: there is none.
                value = 0.0 if truth == 0.0 or prediction == 0.0 else value
                values[k, w] = np.nan if truth == 0.0 and prediction == 0.0 else value


@jit(inline=True)
def _rejected(n, d, t, p):
    return np.float64(max((n - t) - (p - d), 0 * n))  # rounding of fractions can go below 0


@jit(inline=True)
def _rates(n, d, t, p):
    return np.float64(d) / np.float64(t), _rejected(n, d, t, p) / np.float64(n - t)


@jit(inline=True)
def _at_most_one(x):
    return 1.0 if x > 1.0 else x  # rounding alone can exceed one; NaN stays


@jit()
def enter(values, tile, count, mode, fill, filled, entering, members):
    """Fill in what is undefined, and mark the classes that enter an average."""
    t, p = tile[ROW], tile[COL]
    C = tile.shape[1]
    for w in range(count):
        members[w] = 0.0
    if mode == PRESENT:
        for k in range(C):
            for w in range(count):
                entering[k, w] = 1.0 if t[k, w] > 0 or p[k, w] > 0 else 0.0
    elif mode == DEFINED:
        for k in range(C):
            for w in range(count):
                entering[k, w] = 0.0 if np.isnan(values[k, w]) else 1.0
    else:
        for k in range(C):
            for w in range(count):
                entering[k, w] = 1.0
    for k in range(C):
        for w in range(count):
            inside, value = entering[k, w], values[k, w]
            value = fill if np.isnan(value) else value
            filled[k, w] = value if inside > 0.0 else 0.0
            members[w] += inside


@jit()
def reduce(how, pick, fill, parameter, weights, tile, count, values, filled, entering, members, spare, out):
    """Reduce the values of a tile over the classes; what has no answer becomes `fill`."""
    C = tile.shape[1]
    if how == PICK:
        for w in range(count):
            out[w] = values[pick, w]
    elif how == MIN:
        for w in range(count):
            out[w] = np.inf
        for k in range(C):
            for w in range(count):
                value = filled[k, w]
                takes = entering[k, w] > 0.0 and not (value >= out[w] or np.isnan(out[w]))
                out[w] = value if takes else out[w]
        for w in range(count):
            out[w] = out[w] if members[w] > 0.0 else np.nan
    elif how == GEOMETRIC:
        _geometric_mean(filled, entering, members, count, spare, out)
    elif how == WEIGHTED:
        t = tile[ROW]
        for w in range(count):
            out[w] = 0.0
            spare[w] = 0.0
        for k in range(C):
            for w in range(count):
                weight = np.float64(t[k, w]) if entering[k, w] > 0.0 else 0.0
                out[w] += weight * filled[k, w] if weight > 0.0 else 0.0
                spare[w] += weight
        for w in range(count):
            out[w] /= spare[w]
    elif how == TAU_WEIGHTED:
        normalized = pick == 1
        for w in range(count):
            out[w] = _tau_weighted(weights, parameter, normalized, filled[:, w], entering[:, w], members[w])
    else:
        for w in range(count):
            out[w] = 0.0
        if how == TAU:
            for k in range(C):
                for w in range(count):
                    away = 1.0 - filled[k, w]
                    out[w] += entering[k, w] * (away * away)
            for w in range(count):
                out[w] = 1.0 - np.sqrt(out[w] / members[w])
        else:
            for k in range(C):
                for w in range(count):
                    out[w] += filled[k, w]
            for w in range(count):
                out[w] /= members[w]
            if how == ADJUSTED:
                for w in range(count):
                    chance = 1.0 / members[w]
                    out[w] = (out[w] - chance) / (1.0 - chance) if members[w] >= 2.0 else np.nan
    for w in range(count):
        out[w] = fill if np.isnan(out[w]) else out[w]


@jit()
def _geometric_mean(filled, entering, members, count, exponent, out):
    """Mantissas are multiplied, exponents counted: the product of hundreds of recalls would underflow."""
    huge, tiny = 2.0**512, 2.0**-256
    for w in range(count):
        out[w] = 1.0
        exponent[w] = 0.0
    for k in range(filled.shape[0]):
        for w in range(count):
            value = filled[k, w] if entering[k, w] > 0.0 else 1.0
            for _ in range(2):  # the least float64 takes two steps
                small = 0.0 < value < tiny
                value = value * huge if small else value
                exponent[w] += 512.0 if small else 0.0
            value *= out[w]
            small = 0.0 < value < tiny
            out[w] = value * huge if small else value
            exponent[w] += 512.0 if small else 0.0
    for w in range(count):
        root = out[w] ** (1.0 / members[w]) if members[w] > 0.0 else np.nan
        out[w] = root if exponent[w] == 0.0 else root * 2.0 ** (-exponent[w] / members[w])


@jit()
def _tau_weighted(weights, v, normalized, filled, entering, members):
    square, weight = 0.0, 0.0
    for k in range(filled.shape[0]):
        if entering[k] > 0.0:
            away = 1.0 - filled[k]
            square += weights[k] * away * away
            weight += weights[k]
    if members == 0.0:
        return np.nan
    if normalized:
        return max(0.0, 1.0 - np.sqrt(square / weight)) ** v
    return v - v * np.sqrt(square / members)


@jit()
def whole(code, fill, tile, total, count, products, out):
    """Make a number of the whole matrix; what has no answer becomes `fill`."""
    C = tile.shape[1]
    if code in (ACCURACY, JACCARD_MICRO, SPECIFICITY_MICRO):
        for w in range(count):
            out[w] = 0.0
        for k in range(C):
            for w in range(count):
                out[w] += tile[DIAGONAL, k, w]
        for w in range(count):
            n, right = np.float64(total[w]), out[w]
            if code == ACCURACY:
                out[w] = right / n
            elif code == JACCARD_MICRO:
                out[w] = right / (n + (n - right))
            else:
                out[w] = ((C - 2) * n + right) / ((C - 1) * n) if C > 1 else np.nan
    elif code == MCC:
        for w in range(count):
            truth, prediction = products[TRUTH, w], products[PREDICTION, w]
            value = products[COVARIANCE, w] / np.sqrt(truth * prediction)
            # One degenerate margin: the limit is 0 from every direction. Two: there is none.
            value = 0.0 if truth == 0.0 or prediction == 0.0 else min(1.0, max(-1.0, value))
            out[w] = np.nan if truth == 0.0 and prediction == 0.0 else value
    elif code == KAPPA:
        for w in range(count):
            out[w] = products[COVARIANCE, w] / products[CHANCE, w]
    elif code == PEIRCE:
        for w in range(count):
            out[w] = products[COVARIANCE, w] / products[TRUTH, w]
    elif code == LINEAR:
        for w in range(count):
            out[w] = products[LINEAR_GAIN, w] / products[LINEAR_CHANCE, w]
    elif code == QUADRATIC:
        for w in range(count):
            out[w] = products[QUADRATIC_GAIN, w] / products[QUADRATIC_CHANCE, w]
    elif code == GERRITY:
        for w in range(count):
            out[w] = _gerrity(tile, total[w], w)
    for w in range(count):
        out[w] = fill if np.isnan(out[w]) else out[w]


@jit()
def _gerrity(tile, n, w):
    """Gerrity 1992 from sums: the reward of cell (i, j) depends on min(i, j), on max(i, j) and on abs(i - j) alone."""
    C = tile.shape[1]
    if C < 2 or n == 0:
        return np.nan
    score, low, high = 0.0, 0.0, 0.0
    below = 0 * n
    # below / above and above / below are the odds of the cut after each class; `low` sums them from the left.
    for k in range(C):
        top, bottom = tile[TOP, k, w], (tile[ROW, k, w] - tile[TOP, k, w]) + tile[COL, k, w]
        score += low * np.float64(bottom) - np.float64(k) * np.float64(tile[BAND, k, w])
        high += np.float64(top)
        if k < C - 1:
            below += tile[ROW, k, w]
            above = n - below
            if not (below > 0 and above > 0):
                return np.nan
            low += np.float64(below) / np.float64(above)
            # Every cell whose larger class is at most k earns this cut's odds of the other side.
            score += high * (np.float64(above) / np.float64(below))
    return score / (np.float64(C - 1) * np.float64(n))


@jit()
def run(steps, params, weights, mode, tile, total, count, cov, products, values, filled, entering, members, spare,
        registers, tables, first):  # fmt: skip
    """Run a plan on a tile; per-class results go to ``tables[table, first : first + count]``."""
    for s in range(steps.shape[0]):
        step, code, target, a, b = steps[s, 0], steps[s, 1], steps[s, 2], steps[s, 3], steps[s, 4]
        fill, parameter = params[s, 0], params[s, 1]
        if step == VALUE:
            class_values(code, parameter, tile, total, count, cov, values)
            enter(values, tile, count, mode, fill, filled, entering, members)
        elif step == EACH:
            for w in range(count):
                for k in range(values.shape[0]):
                    value = values[k, w]
                    tables[target, first + w, k] = fill if np.isnan(value) else value
        elif step == REDUCE:
            out = registers[target]
            reduce(code, a, fill, parameter, weights, tile, count, values, filled, entering, members, spare, out)
        elif step == TOTAL:
            whole(code, fill, tile, total, count, products, registers[target])
        elif step == HARMONIC:
            for w in range(count):
                x, y = registers[a, w], registers[b, w]
                value = 0.0 if x == 0.0 and y == 0.0 else 2.0 * x * y / (x + y)
                registers[target, w] = fill if np.isnan(value) else value
        else:
            for w in range(count):
                registers[target, w] = (registers[a, w] + 1.0) * 0.5
