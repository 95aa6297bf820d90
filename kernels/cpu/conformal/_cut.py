"""Where the set of a row of many classes ends, found without a sort.

A label whose probability is below some pivot has all larger ones ranked before it: where these alone exceed the largest
threshold it is in no set. The few that remain are compared pair by pair, eight rows side by side, or, where there are
more, the least probability in the set is searched by halving. The set is then one comparison with that: its bits.

Sums are float64: multiples of 2^-52 below 2 are exact in it, in any order. Rows that add up to more go elsewhere.

A row stands in lines of eight from `base` to `end`; the last ones of a row whose length is no multiple of eight are its
last eight, without those that stand in the line before.
"""

import numpy as np

from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, bits, largest, load, load_row, pack, some, splat, store, total, where
from cmfast.kernels.cpu.conformal._units import LEAST_SHARE, MOST_SHARE, share, units
from cmfast.kernels.shared.conformal import UNITS

STEPS = (1.0, 4.0, 16.0)  # pivots that are tried, in shares that all labels could have of what no set holds
HALVINGS = 2  # between the last pivot that will do and the first that will not


@jit(inner=True, borrows=True)
def take(P, r, lines, base):
    """Copy a row into lines; return its sum, at least 2 where some entry is no probability."""
    C, at, zero, one = P.shape[1], base, splat(0.0), splat(1.0)
    found, good, least, most = zero, one, splat(LEAST_SHARE), splat(MOST_SHARE)
    for j in range(0, C - WIDTH + 1, WIDTH):
        p = load_row(P, r, j)
        good = where((p >= least) & (p <= most), good, zero)
        p = where(p > zero, where(p > one, one, p), zero)
        found = found + ((one + p) - one)
        store(lines, at, p)
        at += 1
    if C % WIDTH:
        places = pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
        p = where(places >= splat(np.float64(WIDTH - C % WIDTH)), load_row(P, r, C - WIDTH), zero)
        good = where((p >= least) & (p <= most), good, zero)
        p = where(p > zero, where(p > one, one, p), zero)
        found = found + ((one + p) - one)
        store(lines, at, p)
    return 2.0 if some(good == zero) else total(found)


@jit(inner=True, borrows=True)
def pivot(lines, base, end, unit, sum_, limit):
    """Return a probability below which no label has a score of at most `limit`; 0 where none is found.

    Tried are multiples of `unit`.
    """
    zero, one = splat(0.0), splat(1.0)
    first, second, third = splat(STEPS[0] * unit), splat(STEPS[1] * unit), splat(STEPS[2] * unit)
    a, b, c = zero, zero, zero
    for k in range(base, end):
        p = load(lines, k)
        part = (one + p) - one
        a = a + where(p < first, part, zero)
        b = b + where(p < second, part, zero)
        c = c + where(p < third, part, zero)
    low, high = 0.0, STEPS[0] * unit
    if sum_ - total(a) > limit:
        low, high = STEPS[0] * unit, STEPS[1] * unit
    if sum_ - total(b) > limit:
        low, high = STEPS[1] * unit, STEPS[2] * unit
    if sum_ - total(c) > limit:
        return STEPS[2] * unit
    for _ in range(HALVINGS):
        middle, left = 0.5 * (low + high), zero
        for k in range(base, end):
            p = load(lines, k)
            left = left + where(p < splat(middle), (one + p) - one, zero)
        if sum_ - total(left) > limit:
            low = middle
        else:
            high = middle
    return low


@jit(inner=True, borrows=True)
def greatest(lines, base, end):
    """Return the largest probability of a row."""
    found = load(lines, base)
    for k in range(base + 1, end):
        p = load(lines, k)
        found = where(p > found, p, found)
    return largest(found)


@jit(inner=True, borrows=True)
def at_least(lines, base, end, C, least, words, at):
    """Set the bits of the labels of at least this probability and of no other, in the words from `at` on.

    Returns how many these are.
    """
    limit, found, last = splat(least), 0, end - 1 if C % WIDTH else end
    for first in range(base, end, WIDTH):
        word = np.int64(0)
        for k in range(first, min(first + WIDTH, last)):
            word |= bits(load(lines, k) >= limit) << WIDTH * (k - first)
        if last < first + WIDTH and last < end:
            word |= bits(load(lines, last) >= limit) >> (WIDTH - C % WIDTH) << WIDTH * (last - first)
        words[at] = word
        at += 1
        found += popcount(word)
    return found


@jit(inner=True, borrows=True)
def gather(P, r, words, out, base, fill):
    """Copy the probabilities of these labels into lines, filled up."""
    size = WIDTH * base
    for w in range(len(words)):
        word, j = words[w], 64 * w
        while word:
            lowest = word & -word
            out[size] = share(P[r, j + popcount(lowest - 1)])
            size += 1
            word ^= lowest
    while size % WIDTH:
        out[size] = fill
        size += 1


@jit(inner=True, borrows=True)
def drop(P, r, least, extra, words, at):
    """Take away the bits of the last `extra` labels of this probability."""
    j = P.shape[1] - 1
    while extra > 0:
        if share(P[r, j]) == least:
            words[at + (j >> 6)] ^= np.int64(1) << (j & 63)
            extra -= 1
        j -= 1


@jit(inner=True, borrows=True)
def _above(kept, base, end, least):
    """Return the units of all of at least this probability, how many these are, and the next smaller one."""
    zero, one, limit = splat(0.0), splat(1.0), splat(least)
    mass, count, below = zero, zero, splat(-1.0)
    for k in range(base, end):
        p = load(kept, k)
        inside = p >= limit
        mass = mass + where(inside, (one + p) - one, zero)
        count = count + where(inside, one, zero)
        below = where(inside | (p < below), below, p)
    return np.int64(total(mass) * UNITS), np.int64(total(count)), largest(below)


@jit(inner=True, borrows=True)
def _beyond(rank, penalty, k_reg):
    return penalty * max(0, rank - k_reg)


@jit(inner=True, borrows=True)
def search(kept, base, end, least, most, draw, penalty, k_reg):
    """Return the least probability in the set whose scores are at most `most`, in units, and how many labels it has.

    `kept` are all probabilities of at least `least`, filled up with -1. Halved are the bits of floats.
    """
    mass, count, following = _above(kept, base, end, np.inf)
    held, low, high = np.inf, np.float64(least).view(np.int64) - 1, np.float64(following).view(np.int64)
    while low < high and mass + units(following) + _beyond(count + 1, penalty, k_reg) <= most:
        middle = high - (high - low) // 2
        edge = np.int64(middle).view(np.float64)
        sum_, size, smaller = _above(kept, base, end, edge)
        if sum_ + _beyond(size, penalty, k_reg) <= most:
            mass, count, following, held = sum_, size, smaller, edge
            high = np.float64(following).view(np.int64) if following >= 0.0 else low
        else:
            low = middle
    if following < 0.0 or mass + units(draw * following) + _beyond(count + 1, penalty, k_reg) > most:
        return held, count
    alike, size, part = _alike(kept, base, end, following), 1, units(following)
    while size < alike:  # the draw makes the part of one smaller, so some may be in and others not
        if mass + size * part + units(draw * following) + _beyond(count + size + 1, penalty, k_reg) > most:
            break
        size += 1
    return following, count + size


@jit(inner=True, borrows=True)
def _alike(kept, base, end, value):
    found = splat(0.0)
    for k in range(base, end):
        found = found + where(load(kept, k) == splat(value), splat(1.0), splat(0.0))
    return np.int64(total(found))
