"""Derivatives of whole-matrix metrics (accuracy, MCC, kappa, Gerrity) in the class sums; lines as in ``_gradients``."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import divide_by_reciprocal, load, splat, sqrt, store, where
from cmfast.kernels.cpu.metrics._margins import FIRST, ORDERED_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.shared.metrics import Total

ACCURACY, JACCARD_MICRO = int(Total.ACCURACY), int(Total.JACCARD_MICRO)
SPECIFICITY_MICRO, MCC, KAPPA = int(Total.SPECIFICITY_MICRO), int(Total.MCC), int(Total.KAPPA)
PEIRCE, LINEAR, QUADRATIC = int(Total.PEIRCE), int(Total.KAPPA_LINEAR), int(Total.KAPPA_QUADRATIC)
GERRITY, ERROR = int(Total.GERRITY), int(Total.ERROR)
LINES_OF_PRODUCTS = 5  # lines of sums that several metrics share
SCOTT_PI, GWET_AC1 = int(Total.SCOTT_PI), int(Total.GWET_AC1)


@jit(inner=True, borrows=True)
def sum_margin_products(sums, at, C, S, line):
    """Write to five lines of `S`: trace, summed covariance, and the three sums of products of margins."""
    n = load(sums, at + TOTAL_LINE)
    hits, both, truth, prediction, chance = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(C):
        cell = at + FIRST + k
        d, t, p = load(sums, cell), load(sums, cell + C), load(sums, cell + 2 * C)
        hits = hits + d
        both = both + (d * (n - t - p + d) - (t - d) * (p - d))
        truth = truth + t * (n - t)
        prediction = prediction + p * (n - p)
        chance = chance + t * (n - p)
    store(S, line, hits)
    store(S, line + 1, both)
    store(S, line + 2, truth)
    store(S, line + 3, prediction)
    store(S, line + 4, chance)


@jit(inner=True, borrows=True)
def differentiate_total(code, sums, at, C, S, line, slopes):
    """Write the derivatives of a function of the total and of the sums of margin products in `S`."""
    n, hits, both = load(sums, at + TOTAL_LINE), load(S, line), load(S, line + 1)
    truth, prediction, chance = load(S, line + 2), load(S, line + 3), load(S, line + 4)
    wrong, others = n - hits, float(C - 1)
    # Derivatives in the trace, in n a - e, in the three sums of products, and in the total.
    of_hits, of_both, of_truth, of_prediction, of_chance = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    of_total = splat(0.0)
    if code == ACCURACY:
        of_hits, of_total = 1.0 / n, -(hits / n) / n
    elif code == ERROR:
        of_hits, of_total = -1.0 / n, (hits / n) / n
    elif code == JACCARD_MICRO:
        below = n + wrong
        x = hits / below
        of_hits, of_total = (1.0 + x) / below, -2.0 * x / below
    elif code == SPECIFICITY_MICRO:
        of_hits = 1.0 / (others * n) if C > 1 else splat(np.nan)
        of_total = -(hits / n) * of_hits
    elif code == MCC:
        of_both = 1.0 / sqrt(truth * prediction)
        x = both * of_both
        of_truth, of_prediction = -0.5 * x / truth, -0.5 * x / prediction
    elif code == KAPPA:
        of_both = 1.0 / chance
        of_chance = -(both / chance) / chance
    elif code == PEIRCE:
        of_both = 1.0 / truth
        of_truth = -(both / truth) / truth
    else:  # pi, alpha, AC1: one minus 4 n (n - a) over a combination of the products
        size = 2.0 * load(sums, at + TOTAL_LINE)
        mixed, factor, more = truth + prediction + 2.0 * chance, splat(1.0), splat(0.0)
        below, sign = mixed, 1.0
        if code == GWET_AC1:
            below, sign = 4.0 * others * (n * n) - mixed, -1.0
            factor = splat(others) if C > 1 else splat(np.nan)
        elif code != SCOTT_PI:  # Krippendorff's correction for small samples
            factor, more = where(size > 1.0, (size - 1.0) / size, splat(np.nan)), 2.0 / (size * size)
        y = 4.0 * (n * wrong) * factor / below
        of_hits = 4.0 * n * factor / below
        of_truth = sign * y / below
        of_prediction, of_chance = of_truth, 2.0 * of_truth
        of_total = -(4.0 * (n + wrong) * factor + 4.0 * (n * wrong) * more) / below
        if code == GWET_AC1:
            of_total = of_total + 8.0 * others * n * y / below
    for k in range(C):
        cell = at + FIRST + k
        t, p = load(sums, cell + C), load(sums, cell + 2 * C)
        store(slopes, k, of_hits + of_both * n)
        store(slopes, C + k, of_truth * (n - 2.0 * t) + of_chance * (n - p) - of_both * p)
        store(slopes, 2 * C + k, of_prediction * (n - 2.0 * p) - of_chance * t - of_both * t)
    of_total = of_total + of_both * hits + (of_truth + of_prediction + of_chance) * n
    store(slopes, len(slopes) - 1, of_total)


@jit(inner=True, borrows=True)
def differentiate_weighted_kappa(code, sums, at, C, slopes):
    """Write the derivatives of the linearly or quadratically weighted kappa."""
    n = load(sums, at + TOTAL_LINE)
    apart, chance, of_total, below_t, below_p = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    first_t, first_p, squares = splat(0.0), splat(0.0), splat(0.0)
    middle = (C - 1) // 2
    for k in range(C):
        cell, i = at + FIRST + k, float(k - middle)
        t, p, away = load(sums, cell + C), load(sums, cell + 2 * C), float(k if code == LINEAR else k * k)
        apart = apart + away * load(sums, cell + 3 * C)
        first_t, first_p, squares = first_t + i * t, first_p + i * p, squares + i * i * (t + p)
        if k < C - 1:
            below_t, below_p = below_t + t, below_p + p
            chance = chance + (below_t * (n - below_p) + below_p * (n - below_t))
            of_total = of_total + (below_t + below_p)
    if code == QUADRATIC:
        chance = where(chance > 0.0, n * squares - 2.0 * first_t * first_p, splat(0.0))
        of_total = squares
    y = n * apart / chance  # the kappa is one minus this
    store(slopes, SUMS * C, (y * of_total - apart) / chance)
    of_t, of_p, of_chance = splat(0.0), splat(0.0), 1.0 / chance
    below_t, below_p = n, n
    for k in range(C - 1, -1, -1):
        cell, i = at + FIRST + k, float(k - middle)
        if k < C - 1:
            below_t, below_p = below_t - load(sums, cell + 1 + C), below_p - load(sums, cell + 1 + 2 * C)
            of_t, of_p = of_t + (n - 2.0 * below_p), of_p + (n - 2.0 * below_t)
        away = float(k if code == LINEAR else k * k)
        if code == QUADRATIC:
            of_t, of_p = n * (i * i) - 2.0 * i * first_p, n * (i * i) - 2.0 * i * first_t
        store(slopes, C + k, divide_by_reciprocal(of_t * y, chance, of_chance))
        store(slopes, 2 * C + k, divide_by_reciprocal(of_p * y, chance, of_chance))
        store(slopes, 3 * C + k, divide_by_reciprocal(-away * n, chance, of_chance))


@jit(inner=True, borrows=True)
def differentiate_gerrity(sums, at, C, slopes):
    """Write the derivatives of Gerrity's score (1992); its formula is `_score_gerrity` in ``_second_pass``."""
    n, x = load(sums, at + TOTAL_LINE), load(sums, at + ORDERED_LINE + GERRITY - LINEAR)
    below, low, high = splat(0.0), splat(0.0), splat(0.0)
    scale = 1.0 / (float(C - 1) * n) if C > 1 else splat(np.nan)
    of_total = splat(0.0)
    for k in range(C):  # forward: odds of the cuts below a class
        top = load(sums, at + FIRST + 4 * C + k)
        store(slopes, C + k, low * scale)
        store(slopes, 2 * C + k, low * scale)
        store(slopes, 3 * C + k, -float(k) * scale)
        store(slopes, 4 * C + k, -low * scale)
        high = high + top
        if k < C - 1:
            below = below + load(sums, at + FIRST + C + k)
            above = n - below
            low = low + below / above
            of_total = of_total + high / below
    after, odds, cuts = splat(0.0), splat(0.0), splat(0.0)
    for k in range(C - 1, -1, -1):  # backward: odds of the cuts from a class on
        top = load(sums, at + FIRST + 4 * C + k)
        if k < C - 1:
            above = n - below
            odds = odds + above / below
            square = above * above
            of_square = 1.0 / square
            cuts = cuts + (divide_by_reciprocal(after * n, square, of_square) - high * n / (below * below))
            of_total = of_total - divide_by_reciprocal(after * below, square, of_square)
            below = below - load(sums, at + FIRST + C + k)
        store(slopes, C + k, load(slopes, C + k) + cuts * scale)
        store(slopes, 4 * C + k, load(slopes, 4 * C + k) + odds * scale)
        after = after + (load(sums, at + FIRST + C + k) + load(sums, at + FIRST + 2 * C + k) - top)
        high = high - top
    store(slopes, SUMS * C, of_total * scale - x / n)
