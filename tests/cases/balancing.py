"""Contact maps: bad values, zeros that leave no answer, bins that are left out, blocks."""

import numpy as np

from cases._case import Case

TIGHT = {"tol": 1e-13}


def contacts(n=40, seed=0, fill=0.6, depth=300.0):
    """Return the pixels of a map, those above the diagonal and on it: counts that fall with the distance."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n)
    bias = np.exp(rng.normal(0.0, 0.4, n))
    counts = rng.poisson(depth * bias[i] * bias[j] / (1 + j - i))
    keep = (counts > 0) & (rng.random(len(i)) < fill)
    return i[keep], j[keep], counts[keep]


def both_sides(i, j, a):
    """Return the pixels of a map on both sides of the diagonal."""
    off = i < j
    return np.concatenate([i, j[off]]), np.concatenate([j, i[off]]), np.concatenate([a, a[off]])


def _pixels(*cells):
    i, j, a = zip(*cells, strict=True)
    return np.array(i), np.array(j), np.array(a, np.float64)


TRIANGLE = _pixels((0, 1, 1), (0, 2, 2), (1, 2, 3))


def _upper(name, pixels, n, sums=None, keep=None, fails=False, **options):
    return Case(name, (*pixels, sums, keep), {"n": n, "symmetric": "upper", **TIGHT, **options}, fails=fails)


def _bad():
    for name, value in (("nan", np.nan), ("infinite", np.inf), ("negative", -1.0)):
        i, j, a = (x.copy() for x in TRIANGLE)
        a[1] = value
        yield _upper(name, (i, j, a), 3, fails=True)
    i, j, a = TRIANGLE
    yield _upper("bin-beyond", (i, j, a), 2, fails=True)
    yield _upper("bin-below-zero", (i - 1, j, a), 3, fails=True)
    yield _upper("below-the-diagonal", (j, i, a), 3, fails=True)
    yield Case("not-symmetric", (i, j, a), {"n": 3}, fails=True)
    full = both_sides(*TRIANGLE)
    yield Case("sides-differ", (*full[:2], full[2] * np.array([1, 1, 1, 1, 1, 2])), {"n": 3}, fails=True)
    for name, sums in (("no-sum", 0.0), ("bad-sum", np.nan)):
        yield _upper(name, TRIANGLE, 3, np.array([1.0, sums, 1.0]), fails=True)


def _zeros():
    yield _upper("path", _pixels((0, 1, 1), (1, 2, 1)), 3, fails=True)
    yield _upper("pendant", _pixels((0, 1, 1), (0, 2, 2), (1, 2, 3), (0, 3, 1)), 4, fails=True)
    yield _upper("pendant-of-less", _pixels((0, 1, 1), (0, 2, 2), (1, 2, 3), (0, 3, 1)), 4, np.array([1, 1, 1, 0.5]))
    yield _upper("star", _pixels((0, 1, 1), (0, 2, 2), (0, 3, 3), (1, 3, 1)), 4, fails=True)
    yield _upper("two-colours-of-other-sums", _pixels((0, 1, 1), (0, 2, 1)), 3, np.array([3.0, 1.0, 1.0]), fails=True)
    yield _upper("no-pixels", _pixels((0, 1, 0.0)), 2, fails=True)
    yield Case("no-bins", (np.zeros(0, np.int64),) * 2 + (np.zeros(0),), {"n": 0}, fails=True)
    yield _upper("empty-bins", TRIANGLE, 5)
    yield _upper("diagonal-alone", _pixels((0, 0, 4), (1, 1, 9)), 2)
    yield _upper("on-the-diagonal-too", _pixels((0, 0, 4), (0, 1, 1), (1, 1, 9)), 2)
    yield _upper("chain-with-ends", _pixels((0, 0, 1), (0, 1, 1), (1, 2, 5), (2, 3, 1), (3, 3, 7)), 4)
    rng = np.random.default_rng(4)
    for seed in range(12):
        n = int(rng.integers(3, 9))
        i, j = np.triu_indices(n)
        keep = rng.random(len(i)) < 0.35
        if keep.any():
            pixels = i[keep], j[keep], np.exp(rng.normal(size=int(keep.sum())))
            if _is_plain(pixels, n):
                yield _upper(f"pattern-{seed}", pixels, n)


def _is_plain(pixels, n):
    """Whether a pattern has the diagonal in each of its parts, so that weights are unique; and then has an answer."""
    i, j, _ = pixels
    return bool(np.isin(np.arange(n), i[i == j]).all())


def _maps():
    i, j, a = contacts()
    yield _upper("map", (i, j, a), 40)
    yield Case("both-sides", both_sides(i, j, a), {"n": 40, **TIGHT})
    order = np.random.default_rng(1).permutation(len(i))
    yield _upper("any-order", (i[order], j[order], a[order]), 40)
    yield _upper("in-parts", (np.tile(i, 2), np.tile(j, 2), np.concatenate([a // 2, a - a // 2])), 40)
    yield _upper("sums", (i, j, a), 40, np.linspace(0.5, 2.0, 40))
    yield _upper("one-sum", (i, j, a), 40, 3.0)
    yield _upper("no-counts", (i, j, a * 0.37), 40)
    yield _upper("large-counts", (i, j, a * 1000), 40)
    yield _upper("few-large-counts", (i, j, np.where(a > 0.8 * a.max(), a * 1000, a)), 40)
    yield _upper("float32", (i.astype(np.int32), j.astype(np.int32), a.astype(np.float32)), 40)
    yield _upper("ignore-diags", (i, j, a), 40, ignore_diags=2)
    keep = np.ones(40, np.bool_)
    keep[[3, 17, 18]] = False
    yield _upper("keep", (i, j, a), 40, None, keep)
    thin = contacts(60, 5, 0.15, 60.0)
    yield _upper("left-out", thin, 60, None, np.arange(60) != 7, min_nnz=6, min_count=60, mad_max=2.0)
    yield _upper("mad-of-blocks", contacts(60, 6, 0.7), 60, mad_blocks=[0, 20, 60], mad_max=1.0)
    yield _upper("mad-of-a-block-of-nothing", TRIANGLE, 5, mad_blocks=[0, 3, 5], mad_max=3)
    yield _upper("blocks", contacts(60, 7, 0.8), 60, blocks=[0, 25, 25, 26, 60], mad_max=3.0, fails=True)
    yield _upper("blocks-of-one", TRIANGLE, 3, blocks=[0, 3])


CASES = {"balance": [case for group in (_bad, _zeros, _maps) for case in group()]}
