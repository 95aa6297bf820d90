"""Replicates drawn one at a time from the documented streams, cells rounded one at a time in exact arithmetic."""

import math

import numpy as np


def _usable(cells, n):
    flat = [float(x) for row in cells for x in row]
    if any(not (math.isfinite(x) and x >= 0) for x in flat):
        return False
    if n is None:
        return all(x == int(x) for x in flat) and sum(flat) < 2**63
    return n == 0 or sum(flat) > 0


def _counts(stream, total, weights):
    filled = [k for k, w in enumerate(weights) if w]
    out = [0] * len(weights)
    if filled:
        share = np.array([weights[k] for k in filled]) / np.sum(weights)
        for k, x in zip(filled, stream.multinomial(total, share / share.sum()), strict=True):
            out[k] = int(x)
    return out


def _rounded(x):
    low = math.floor(x)
    return low + int(x - low > 0.5 or (x - low == 0.5 and low % 2 == 1))


def _replicate(stream, cells, total, scheme):
    C = len(cells)
    if scheme == "multinomial":
        drawn = _counts(stream, total, [x for row in cells for x in row])
        return [drawn[i * (C + 1) : i * (C + 1) + C] for i in range(C)]
    support = [sum(row) for row in cells]
    found = [sum(row[:C]) for row in cells]
    drawn = _counts(stream, total, support)
    out = [[0] * C for _ in range(C)]
    for i in range(C):
        detected = _rounded(drawn[i] * (found[i] / support[i])) if support[i] else 0
        for j in range(C):
            out[i][j] = _rounded(detected * (cells[i][j] / found[i])) if found[i] else 0
    return out


def resample(M, missed=None, *, n_replicates, scheme="multinomial", n=None, rng=0):
    M = np.asarray(M)
    C = M.shape[-1]
    missed = np.zeros(M.shape[:-1]) if missed is None else np.asarray(missed)
    seed = int(np.random.default_rng(rng).integers(2**63))
    out = np.zeros((*M.shape[:-2], n_replicates, C, C), np.int64)
    for b, index in enumerate(np.ndindex(M.shape[:-2])):
        cells = [[*map(float, M[index][i]), float(missed[index][i])] for i in range(C)]
        if not _usable(cells, n):
            continue
        stream = np.random.Generator(np.random.Philox(key=np.array([seed, b], np.uint64)))
        total = int(sum(map(sum, cells))) if n is None else n
        if scheme == "row_multinomial":  # one class after the other
            for i in range(C):
                for k in range(n_replicates):
                    out[(*index, k, i)] = _counts(stream, int(sum(cells[i])), cells[i])[:C]
        else:
            for k in range(n_replicates):
                out[(*index, k)] = _replicate(stream, cells, total, scheme)
    return (out,)


ORACLES = {"resample": resample}
