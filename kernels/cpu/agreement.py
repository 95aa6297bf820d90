"""Coefficients of agreement of several raters, with variances over items by linearisation (Gwet 2014, chapters 5-6).

A coefficient is ``1 - o / e``: the observed disagreement of two ratings of an item over that expected by chance. Its
variance is that of the mean of one term per item, the derivative of the coefficient in the weight of the item.

Items are stored as their distinct categories with counts; an item takes time in the square of its distinct categories.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import distinct, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.agreement import (
    ALPHA,
    CONGER,
    FLEISS,
    LIGHT,
    MISSING,
    NO_CATEGORY,
    RANKED,
    SQUARED,
    TABULATED,
    UNEQUAL,
)
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_RATING = 1e-8
MOST_TABULATED = 1 << 13  # categories up to which a table of disagreements is made
# Of a coefficient: estimate, standard error, observed and expected agreement, number of items, effective number.
MEASURED = 6


@jit(inner=True, inline=True, borrows=True)
def _disagree(kind, table, values, k, other):
    """Return the disagreement of two categories."""
    if kind == TABULATED:
        return table[k, other]
    if kind == UNEQUAL:
        return 0.0 if k == other else 1.0
    return (values[k] - values[other]) ** 2


@jit(inner=True, borrows=True)
def _average_disagreement(kind, table, values, shares, out):
    """Write, for every category, its disagreement summed over the categories with `shares`; return that of `shares`."""
    q, total = len(shares), 0.0
    for k in range(q):
        total += shares[k]
    if kind == TABULATED:
        for k in range(q):
            out[k] = 0.0
            for other in range(q):
                out[k] += table[k, other] * shares[other]
    elif kind == UNEQUAL:
        for k in range(q):
            out[k] = total - shares[k]
    else:  # from the mean: a sum of nonnegative terms
        mean, spread = 0.0, 0.0
        for k in range(q):
            mean += shares[k] * values[k]
        mean = mean / total if total > 0.0 else 0.0
        for k in range(q):
            spread += shares[k] * (values[k] - mean) ** 2
        for k in range(q):
            out[k] = total * (values[k] - mean) ** 2 + spread
    whole = 0.0
    for k in range(q):
        whole += shares[k] * out[k]
    return whole


@jit(inner=True, borrows=True)
def _gather_items(row, by_rater, seen, items):
    """Write the distinct categories of each item, their counts, how many there are, and the ratings of the item.

    Return whether all are valid. `seen` holds -1 for every category, before and after.
    """
    categories, numbers, held, sizes = items
    for i in range(len(row)):
        n, size = 0, 0.0
        for column in range(row.shape[1]):
            value = row[i, column]
            if not by_rater:
                if value < 0:
                    return False
                if value > 0:
                    categories[i, n], numbers[i, n] = column, value
                    n, size = n + 1, size + value
            elif value >= 0:
                if seen[value] < 0:
                    seen[value], categories[i, n], numbers[i, n] = n, value, 0.0
                    n += 1
                numbers[i, seen[value]] += 1.0
                size += 1.0
            elif value == NO_CATEGORY:
                return False
        held[i], sizes[i] = n, size
        if by_rater:
            for a in range(n):
                seen[categories[i, a]] = -1
    return True


@jit(inner=True, borrows=True)
def _measure_items(kind, table, values, items, observed):
    """Write the disagreement of two ratings of each item; return its mean, and the items with a rating and with two."""
    categories, numbers, held, sizes = items
    total, rated, paired = 0.0, 0, 0
    for i in range(len(sizes)):
        observed[i] = 0.0
        rated += sizes[i] > 0.0
        if sizes[i] < 2.0:
            continue
        apart = 0.0
        for a in range(held[i]):
            for b in range(a):
                between = _disagree(kind, table, values, categories[i, a], categories[i, b])
                apart += numbers[i, a] * numbers[i, b] * between
        observed[i] = 2.0 * apart / (sizes[i] * (sizes[i] - 1.0))
        total += observed[i]
        paired += 1
    return total / paired if paired > 0 else np.nan, rated, paired


@jit(inner=True, inline=True, borrows=True)
def _project(items, i, vector):
    """Return the mean of `vector` over the categories of the ratings of item `i`."""
    categories, numbers, held, sizes = items
    found = 0.0
    for a in range(held[i]):
        found += numbers[i, a] * vector[categories[i, a]]
    return found / sizes[i]


@jit(inner=True, inline=True, borrows=True)
def _write(out, estimate, powers, n, observed, expected, filling):
    """Write the results from sums of powers of the terms of `n` items, and two disagreements; `filling` for 0/0.

    The effective number of items that carry the variance is Kish's, with squared terms as weights.
    """
    squares, fourths = powers
    known = not math.isnan(observed) and not math.isnan(expected)
    defined = known and expected > 0.0
    out[0] = estimate if defined else filling
    out[1] = math.sqrt(squares / (n * (n - 1.0))) if defined and n > 1 else np.nan
    out[2], out[3], out[4] = (1.0 - observed, 1.0 - expected, n) if known else (np.nan, np.nan, n)
    out[5] = squares * squares / fourths if defined and fourths > 0.0 else np.nan


@jit(inner=True)
def _measure_pooled(code, scale, items, work, filling, out):
    """Write Fleiss' kappa or Gwet's coefficient, whose chance agreement follows from the pooled shares of categories.

    An item with one rating counts for these shares alone.
    """
    kind, table, values = scale
    observed, shares, slopes, _ = work
    categories, numbers, held, sizes = items
    mean, rated, paired = _measure_items(kind, table, values, items, observed)
    q = len(shares)
    shares[:] = 0.0
    for i in range(len(sizes)):
        for a in range(held[i]):
            shares[categories[i, a]] += numbers[i, a] / sizes[i]
    for k in range(q):
        shares[k] /= max(rated, 1)
    if code == FLEISS:
        expected = _average_disagreement(kind, table, values, shares, slopes)
        offset = expected
    else:
        slopes[:] = 1.0
        ones = slopes.copy()
        apart = _average_disagreement(kind, table, values, ones, slopes)
        factor = (q * q - apart) / (q * (q - 1.0)) if q > 1 else np.nan
        expected, offset = 1.0, 0.0
        for k in range(q):
            expected -= factor * shares[k] * (1.0 - shares[k])
            slopes[k] = -factor * (1.0 - shares[k])
            offset += slopes[k] * shares[k]
    estimate = 1.0 - mean / expected if expected > 0.0 else np.nan
    squares, fourths = 0.0, 0.0
    for i in range(len(sizes)):
        if sizes[i] > 0.0:
            term = 2.0 * (1.0 - estimate) * (_project(items, i, slopes) - offset)
            if sizes[i] >= 2.0:
                term -= rated / paired * (observed[i] - mean)
            squares += (term / expected) ** 2
            fourths += (term / expected) ** 4
    _write(out, estimate, (squares, fourths), rated, mean, expected, filling)


@jit(inner=True)
def _measure_alpha(scale, items, work, filling, out):
    """Write Krippendorff's alpha (Krippendorff 2011), of the items with at least two ratings.

    The variance is that of alpha without its correction for small samples, as Gwet's. RANKED: values are mid-ranks of
    the pooled ratings, so that the variance includes how these depend on the items.
    """
    given, table, values = scale
    observed, shares, slopes, ranks = work
    categories, numbers, held, sizes = items
    q, ranked, total = len(shares), given == RANKED, 0.0
    kind = SQUARED if ranked else given
    shares[:] = 0.0
    for i in range(len(sizes)):
        if sizes[i] >= 2.0:
            total += sizes[i]
            for a in range(held[i]):
                shares[categories[i, a]] += numbers[i, a]
    below = 0.0
    for k in range(q):
        shares[k] /= max(total, 1.0)
        ranks[k] = below + 0.5 * shares[k] if ranked else values[k]
        below += shares[k]
    _, _, paired = _measure_items(kind, table, ranks, items, observed)
    expected = _average_disagreement(kind, table, ranks, shares, slopes)
    mean = 0.0 if paired > 0 else np.nan
    for i in range(len(sizes)):
        if sizes[i] >= 2.0:
            mean += sizes[i] / total * observed[i]
    estimate = 1.0 - mean / expected if expected > 0.0 else np.nan
    pulls = np.zeros(q if ranked else 0)  # derivatives in the mid-ranks, then in the shares through these
    if ranked and expected > 0.0:
        middle = 0.5
        for i in range(len(sizes)):
            if sizes[i] < 2.0:
                continue
            own = _project(items, i, ranks)
            for a in range(held[i]):
                k = categories[i, a]
                pulls[k] += 4.0 * numbers[i, a] * sizes[i] * (ranks[k] - own) / ((sizes[i] - 1.0) * total)
        after = 0.0
        for k in range(q - 1, -1, -1):
            pull = pulls[k] - 4.0 * (1.0 - estimate) * shares[k] * (ranks[k] - middle)
            pulls[k] = after + 0.5 * pull
            after += pull
    offset = 0.0
    for k in range(len(pulls)):
        offset += pulls[k] * shares[k]
    squares, fourths = 0.0, 0.0
    for i in range(len(sizes)):
        if sizes[i] >= 2.0:
            term = 2.0 * (1.0 - estimate) * (_project(items, i, slopes) - expected) - (observed[i] - mean)
            if ranked:
                term -= _project(items, i, pulls) - offset
            term *= sizes[i] * paired / (total * expected)
            squares += term**2
            fourths += term**4
    correction = (total - 1.0) / total if total > 0.0 else np.nan
    estimate = 1.0 - correction * (1.0 - estimate)
    _write(out, estimate, (squares, fourths), paired, correction * mean, expected, filling)


@jit(inner=True)
def _measure_conger(row, scale, items, work, filling, out):
    """Write Conger's kappa: chance agreement is that of two different raters with the shares of each (Conger 1980)."""
    kind, table, values = scale
    observed, pooled, sums, _ = work
    sizes, q, raters = items[3], len(pooled), row.shape[1]
    mean, rated, paired = _measure_items(kind, table, values, items, observed)
    shares, slopes, seen, offsets = np.zeros((raters, q)), np.empty((raters, q)), np.zeros(raters), np.zeros(raters)
    for i in range(len(row)):
        for g in range(raters):
            if row[i, g] >= 0:
                shares[g, row[i, g]] += 1.0
                seen[g] += 1.0
    active, expected = 0, 0.0
    pooled[:] = 0.0
    for g in range(raters):
        if seen[g] > 0.0:
            active += 1
            for k in range(q):
                shares[g, k] /= seen[g]
                pooled[k] += shares[g, k]
    pairs = active * (active - 1.0)
    _average_disagreement(kind, table, values, pooled, sums)
    for g in range(raters):
        if seen[g] > 0.0:
            _average_disagreement(kind, table, values, shares[g], slopes[g])
            for k in range(q):
                slopes[g, k] = sums[k] - slopes[g, k]
                offsets[g] += shares[g, k] * slopes[g, k]
            expected += offsets[g] / pairs if pairs > 0.0 else np.nan
    estimate = 1.0 - mean / expected if expected > 0.0 else np.nan
    squares, fourths = 0.0, 0.0
    for i in range(len(row)):
        if sizes[i] > 0.0:
            change = 0.0
            for g in range(raters):
                if row[i, g] >= 0:
                    change += rated / seen[g] * (slopes[g, row[i, g]] - offsets[g])
            term = (1.0 - estimate) * 2.0 * change / pairs
            if sizes[i] >= 2.0:
                term -= rated / paired * (observed[i] - mean)
            squares += (term / expected) ** 2
            fourths += (term / expected) ** 4
    _write(out, estimate, (squares, fourths), rated, mean, expected, filling)


@jit(inner=True)
def _measure_light(row, scale, items, work, filling, out):
    """Write Light's kappa: the mean of Cohen's kappas of all pairs of raters that share an item (Light 1971)."""
    kind, table, values = scale
    terms, first, second, products = work
    sizes, q, raters, n = items[3], len(first), row.shape[1], len(row)
    paired = 0
    for i in range(n):
        paired += sizes[i] >= 2.0
    terms[:] = 0.0
    pairs, sum_estimates, sum_observed, sum_expected, certain = 0, 0.0, 0.0, 0.0, True
    more = np.empty(q)
    for g in range(raters):
        for h in range(g):
            first[:] = 0.0
            second[:] = 0.0
            both, observed = 0, 0.0
            for i in range(n):
                if row[i, g] >= 0 and row[i, h] >= 0:
                    both += 1
                    first[row[i, g]] += 1.0
                    second[row[i, h]] += 1.0
                    observed += _disagree(kind, table, values, row[i, g], row[i, h])
            if both == 0:
                continue
            for k in range(q):
                first[k] /= both
                second[k] /= both
            observed /= both
            _average_disagreement(kind, table, values, first, products)
            _average_disagreement(kind, table, values, second, more)
            expected = 0.0
            for k in range(q):
                expected += first[k] * more[k]
            pairs += 1
            sum_observed += observed
            sum_expected += expected
            certain &= expected > 0.0
            sum_estimates += 1.0 - observed / expected if expected > 0.0 else filling
            if expected > 0.0:
                for i in range(n):
                    if row[i, g] >= 0 and row[i, h] >= 0:
                        change = more[row[i, g]] + products[row[i, h]] - 2.0 * expected
                        term = _disagree(kind, table, values, row[i, g], row[i, h]) - observed
                        terms[i] += paired / both * (observed / expected * change - term) / expected
    squares, fourths = 0.0, 0.0
    for i in range(n):
        squares += (terms[i] / max(pairs, 1)) ** 2
        fourths += (terms[i] / max(pairs, 1)) ** 4
    if pairs == 0:
        _write(out, np.nan, (np.nan, np.nan), paired, np.nan, np.nan, filling)
        return
    _write(out, sum_estimates / pairs, (squares, fourths), paired, sum_observed / pairs, 1.0, filling)
    out[3] = 1.0 - sum_expected / pairs
    if not certain:
        out[1], out[5] = np.nan, np.nan


@jit()
def _write_coefficients(data, by_rater, wanted, scale, filling, results, start, stop):
    """Write the coefficients of some elements, and their status.

    `data` are codes of ratings (E, n, raters), or counts (E, n, categories). `wanted` has a row for each coefficient:
    its code and the kind of disagreement; `scale` is the table of disagreements and the values of the categories.
    """
    table, values = scale
    out, status = results
    n, q, own = data.shape[1], len(values), values.copy()
    width = min(data.shape[2], q)
    categories, numbers = np.empty((n, width), np.int64), np.empty((n, width))
    items = categories, numbers, np.empty(n, np.int64), np.empty(n)
    work = np.empty(n), np.empty(q), np.empty(q), np.empty(q)
    for b in range(start, stop):
        row, seen = data[b], np.full(q, -1, np.int64)
        status[b] = OK if _gather_items(row, by_rater, seen, items) else INVALID
        if status[b] != OK:
            out[b] = np.nan
            continue
        for j in range(len(wanted)):
            code, measure = wanted[j, 0], (wanted[j, 1], table, own)
            if code == ALPHA:
                _measure_alpha(measure, items, work, filling, out[b, j])
            elif code == CONGER:
                _measure_conger(row, measure, items, work, filling, out[b, j])
            elif code == LIGHT:
                _measure_light(row, measure, items, work, filling, out[b, j])
            else:
                _measure_pooled(code, measure, items, work, filling, out[b, j])


def _find_categories(ratings, missing, num_threads):
    """Return the sorted distinct finite ratings that are not missing."""
    if ratings.dtype.kind != "f":
        found = distinct.find_distinct(ratings, num_threads=num_threads)
    else:
        found = np.unique(ratings[np.isfinite(ratings)])
    return found if missing is None else found[found != missing]


@jit()
def _search_categories(ratings, keys, places, missing, out, start, stop):
    """Write the index of each float rating among sorted keys; MISSING for NaN and `missing`, else NO_CATEGORY."""
    for i in range(start, stop):
        value = np.float64(ratings[i])
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < value:
                low = middle + 1
            else:
                high = middle
        out[i] = places[low] if low < len(keys) and keys[low] == value else NO_CATEGORY
        if np.isnan(value) or value == missing:
            out[i] = MISSING


def _encode(ratings, categories, missing, num_threads):
    """Return the position of each rating in the categories as int64, MISSING, or NO_CATEGORY."""
    categories = np.asarray(categories)
    if ratings.dtype.kind == "f":
        ratings = ratings if ratings.dtype == np.float32 else ratings.astype(np.float64, copy=False)
        order, out = np.argsort(categories, kind="stable"), np.empty(ratings.size, np.int64)
        keys = _freeze(categories[order].astype(np.float64))
        given = (_freeze(ratings.reshape(-1)), keys, _freeze(order), np.nan if missing is None else float(missing))
        seconds = SECONDS_PER_RATING * out.size
        pool.run(_search_categories, (*given, out), out.size, seconds=seconds, num_threads=num_threads)
        return out.reshape(ratings.shape)
    places = np.flatnonzero(categories == np.floor(categories))
    keys = categories[places]
    found = distinct.find_positions(ratings, keys.astype(np.int64) if keys.dtype.kind == "f" else keys)
    codes = np.where(found < 0, NO_CATEGORY, np.append(places, NO_CATEGORY)[found])
    if missing is not None:
        codes[ratings == missing] = MISSING
    return codes.astype(np.int64, copy=False)


def _tabulate(weights, values):
    """Return the kind of disagreement, its table and the values of categories, both scaled to at most 1.

    "ordinal" is Gwet's (2014, table 3.3): categories disagree by the pairs of categories between them, both included.
    """
    q = len(values)
    none, zeros = np.empty((0, 0)), np.zeros(q)
    if not isinstance(weights, str):
        table = np.asarray(weights, np.float64)
        return TABULATED, table / (table.max(initial=0.0) or 1.0), zeros
    if weights == "nominal":
        return UNEQUAL, none, zeros
    values = np.asarray(values, np.float64)
    span = float(np.ptp(values)) if q else 0.0
    if weights == "interval":
        return SQUARED, none, (values - values.min(initial=np.inf)) / (span or 1.0) if q else zeros
    if q > MOST_TABULATED:
        msg = f"ratings has {q:,} categories, and weights={weights!r} takes at most {MOST_TABULATED:,}"
        raise OverflowError(msg)
    if weights == "ordinal":
        steps = np.abs(np.subtract.outer(np.arange(q), np.arange(q)))
        table = steps * (steps + 1.0) / max(q * (q - 1.0), 1.0)
    elif weights == "linear":
        table = np.abs(np.subtract.outer(values, values)) / (span or 1.0)
    else:
        total = np.add.outer(values, values)
        table = (np.subtract.outer(values, values) / np.where(total > 0.0, total, 1.0)) ** 2
        table /= table.max(initial=0.0) or 1.0
    return TABULATED, table, zeros


def agreement_coefficients(
    data, *, codes, weights, level, log, categories=None, missing=None, by_rater=True, filling=np.nan, num_threads=None
):
    """Return the results of every coefficient, one after another, and the status.

    The results are estimate, both ends of the interval, standard error, observed and expected agreement, number of
    items, and the effective number that carries the variance. `data` are ratings (..., n, raters) or counts (..., n,
    q); `codes` are those of the coefficients, complemented for those that ignore `weights`. `level` is that of the
    intervals, which `log` makes symmetric on the scale of ``log(1 - estimate)``.
    """
    *batch, n, columns = data.shape
    E, wrong = math.prod(batch), None
    if by_rater:
        data = data.view(np.uint8) if data.dtype == np.bool_ else data
        if categories is None:
            categories = _find_categories(data, missing, num_threads)
        given, values = data, categories
        data = _encode(data, categories, missing, num_threads)
        if isinstance(weights, str) and weights == "ratio":
            with np.errstate(invalid="ignore"):
                wrong = (given < 0) & (data != MISSING)
            values = np.maximum(np.asarray(values, np.float64), 0.0)
    else:
        values = np.arange(columns) if categories is None else categories
        if data.dtype.kind == "f":
            data = data.astype(np.float64, copy=False)
            with np.errstate(invalid="ignore"):
                wrong = ~((data >= 0) & (data < 2.0**53) & (data == np.floor(data)))
            data = np.where(wrong, -1.0, data)
        elif data.dtype.kind == "u":
            wrong = data > np.uint64(2**53)
    kind, table, values = _tabulate(weights, values)
    wanted = np.array([(code, kind) if code >= 0 else (~code, UNEQUAL) for code in codes], np.int64).reshape(-1, 2)
    if isinstance(weights, str) and weights == "ordinal":
        wanted[wanted[:, 0] == ALPHA, 1] = RANKED
    out, status = np.empty((E, len(codes), MEASURED)), np.empty(E, np.int8)
    cells = _freeze(data.astype(np.int64, copy=False).reshape(E, n, columns))
    given = (cells, by_rater, _freeze(wanted), (_freeze(table), _freeze(values)), float(filling))
    pairs = columns * sum(CONGER <= code <= LIGHT for code in codes)
    seconds = SECONDS_PER_RATING * (cells.size + E * len(values)) * (len(codes) + pairs)
    pool.run(_write_coefficients, (*given, (out, status)), E, seconds=seconds, num_threads=num_threads)
    if wrong is not None:
        bad = wrong.reshape(E, n * columns).any(1)
        out[bad], status[bad] = np.nan, INVALID
    parts = []
    for estimate, error, observed, expected, n_items, carrying in np.moveaxis(out, 0, 2):
        low, high = _find_ends(estimate, error, n_items, level, log)
        numbers = np.where(np.isnan(n_items), 0.0, n_items).astype(np.int64)
        parts += [estimate, low, high, error, observed, expected, numbers, carrying]
    return *(np.ascontiguousarray(part).reshape(batch) for part in parts), status.reshape(batch)


def _find_ends(estimate, error, n, level, log):
    """Return both ends of the intervals, by quantiles of Student's t; NaN where the error is."""
    from scipy.special import stdtrit

    reach = stdtrit(np.maximum(n - 1.0, 1.0), (1.0 + level) / 2.0) * error
    if not log:
        return estimate - reach, np.minimum(estimate + reach, 1.0)
    apart = 1.0 - estimate
    with np.errstate(over="ignore"):
        factor = np.exp(reach / np.where(apart > 0.0, apart, 1.0))
    return (
        np.where(error == 0.0, estimate, 1.0 - apart * factor),
        np.where(error == 0.0, estimate, 1.0 - apart / factor),
    )


def _freeze(x):
    """Return a contiguous read-only array: kernels are compiled for these alone."""
    out = np.ascontiguousarray(x).view()
    out.setflags(write=False)
    return out
