"""Binomial draws of many replicates together: the bits that ``binomial`` of ``_draws`` gives each of them alone.

Loops over the replicates have no branches, so that the processor does eight at a time: of what most draws need, the
first two numbers of a stream and what becomes of them. The few that need more begin anew by themselves.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.uncertainty._draws import (
    FEW,
    MOST_BY_INVERSION,
    _exp,
    _log_ratio,
    _words,
    begin,
    binomial,
    seek,
    uniform,
)

TOGETHER = 32  # replicates
LINES = 5  # of numbers that `draw_together` works in


@jit(inner=True)
def draw_together(stream, lines, left, p, seed, matrix, replicate, part, drawn):
    """Draw the number of successes among `left`, of probability `p`, for every replicate from `replicate` on.

    `lines` has LINES x TOGETHER numbers to work in. What is drawn is taken from `left`.
    """
    n = len(left)
    if p >= 1.0 or p == 0.0:
        for r in range(n):
            drawn[r] = left[r] if p > 0.0 else 0
            left[r] -= drawn[r]
        return
    first, second, size, done = lines[0], lines[1], lines[2], lines[3]
    rare = min(p, 1.0 - p)
    _numbers(np.uint64(seed), np.uint64(matrix), np.uint64(replicate), np.uint64(part), n, first, second)
    few = 0
    for r in range(n):
        size[r] = np.float64(left[r])
        few += 1 if size[r] * rare < FEW else 0
    if few == n:
        _invert(lines, rare, n)
    elif few == 0:
        _propose(lines, rare, n)
    else:
        for r in range(n):
            done[r] = -1.0
    for r in range(n):
        k = min(np.int64(done[r]), left[r])
        drawn[r] = left[r] - k if p > 0.5 else k
    for r in range(n):
        if done[r] < 0.0:
            begin(stream, seed, matrix)
            seek(stream, replicate + r, part)
            drawn[r] = binomial(stream, left[r], p)
    for r in range(n):
        left[r] -= drawn[r]


@jit(inner=True)
def _numbers(seed, matrix, replicate, part, n, first, second):
    """Fill the first two numbers of every stream."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    k, m, d = seed & low, seed >> half, matrix & low
    for r in range(n):
        a, b, c, e = _words(np.uint64(0), (replicate + np.uint64(r)) & low, part, d, k, m)
        first[r], second[r] = uniform(a, b), uniform(c, e)


@jit(inner=True)
def _invert(lines, p, n):
    """Do as `_by_inversion`; -1 where that has to go on."""
    rest, size, k, chance = lines[0], lines[2], lines[3], lines[4]
    odds, log = p / (1.0 - p), _log_ratio(-p, 1.0)
    for r in range(n):
        chance[r] = _exp(size[r] * log)
        k[r] = 0.0
    going, steps = n, 0
    while going > 0 and steps < MOST_BY_INVERSION:
        going, steps = 0, steps + 1
        for r in range(n):
            on = rest[r] > chance[r]
            more = k[r] + 1.0
            after = chance[r] * ((size[r] - more + 1.0) / more * odds)
            rest[r] = rest[r] - chance[r] if on else rest[r]
            k[r] = more if on else k[r]
            chance[r] = after if on else chance[r]
            going += 1 if on else 0
    for r in range(n):
        k[r] = k[r] if rest[r] <= chance[r] else -1.0


@jit(inner=True)
def _propose(lines, p, n):
    """Do the first step of `_by_rejection`; -1 where it does not accept at once."""
    v, u, size, done = lines[0], lines[1], lines[2], lines[3]
    q = 1.0 - p
    for r in range(n):
        spread = math.sqrt(size[r] * p * q)
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * p
        middle = size[r] * p + 0.5
        quick = 0.92 - 4.2 / b
        x = u[r] - 0.5
        edge = 0.5 - abs(x)
        k = np.floor((2.0 * a / edge + b) * x + middle)
        taken = (k >= 0.0) & (k <= size[r]) & (edge >= 0.07) & (v[r] <= quick)
        done[r] = k if taken else -1.0
