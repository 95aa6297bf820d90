"""Points with labels and predictions, from the ugly to the plain. Grids are given as tuples: they are no arrays."""

import numpy as np

from cases._case import Case

NAN, INF = np.nan, np.inf


def _points(n, m, n_classes, seed, spread=1.5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    p = np.where(rng.random(n) < 0.6, y, rng.integers(0, n_classes, n))
    X = rng.normal(size=(n, m)) + spread * np.sin(np.arange(m) + y[:, None])
    return X, y, p


def _grid(m, width=1.0, origin=0.0):
    return {"origin": (float(origin),) * m, "width": (float(width),) * m}


def _on_edges():
    """Every edge of a grid, and one ulp to either side."""
    for width in (1.0, 0.1, 0.7):
        edges = np.arange(-4, 5) * width
        x = np.concatenate([edges, np.nextafter(edges, -INF), np.nextafter(edges, INF)])
        y = np.arange(len(x)) % 3
        yield f"edges-{width}", x[:, None], y, y[::-1].copy(), _grid(1, width)


def _sets():
    """Yield ``(id, X, y_true, y_pred, grid, fails)``."""
    points = _points(60, 3, 4, 1)
    yield from _outside(*points)
    yield from _few(*points)
    for name, *rest in _on_edges():
        yield name, *rest, False
    yield from _spreads(*points)
    yield from _ranked(*points)
    yield from _types(*points)
    yield from _sizes()


def _outside(X, y, p):
    bad = X.copy()
    bad[0, 0], bad[29, 1], bad[59, 2] = NAN, INF, -INF
    yield "bad-first-middle-last", bad, y, p, _grid(3), True
    every = X[:12].copy()
    for d in range(3):
        every[4 * d : 4 * d + 2, d] = NAN
    yield "nan-in-every-column", every, y[:12], p[:12], _grid(3), True
    yield "all-bad", np.full((4, 2), NAN), y[:4], p[:4], _grid(2), True
    far = X[:, :2].copy()
    far[3, 1], far[7, 0] = 1e300, -1e17
    yield "too-far", far, y, p, _grid(2), True
    big = X[:, :1].copy()
    big[5], big[6] = 2.0**53, np.nextafter(2.0**53, 0)
    yield "last-index", big, y, p, _grid(1), True


def _few(X, y, p):
    yield "none", np.empty((0, 2)), y[:0], p[:0], _grid(2), False
    yield "one", X[:1], y[:1], p[:1], _grid(3), False
    yield "minus-zero", np.array([[-0.0], [0.0], [5e-324], [-5e-324]]), y[:4], p[:4], _grid(1), False
    yield "minus-zero-f4", np.array([[-0.0], [0.0], [1e-45], [-1e-45]], np.float32), y[:4], p[:4], _grid(1), False


def _spreads(X, y, p):
    yield "constant-axis", np.concatenate([X, np.ones((60, 1))], axis=1), y, p, _grid(4), False
    yield "one-cell", X, y, p, _grid(3, 1e6, -5e5), False
    yield "all-alone", X, y, p, _grid(3, 1e-6), False
    yield "one-class", X, y * 0, p * 0, _grid(3), False
    yield "only-true-or-only-predicted", X, y // 2 * 2, np.minimum(p // 2 * 2 + 1, 3), _grid(3), False
    yield "offset-1e9", X + 1e9, y, p, _grid(3, 0.5, 1e9), False
    yield "far-clusters", X + 1e12 * (y % 2)[:, None], y, p, _grid(3), False


def _ranked(X, y, p):
    yield "ranked-65-bits", np.concatenate([X * 1e6] * 3, axis=1), y, p, _grid(9, 3e4), False
    yield "ranked-270-bits", np.concatenate([X * 1e9] * 3, axis=1), y, p, _grid(9), False
    ranked = np.concatenate([X * 1e9] * 3, axis=1)
    ranked[[0, 30, 59], [0, 4, 8]] = NAN
    yield "ranked-bad", ranked, y, p, _grid(9), True


def _types(X, y, p):
    yield "float32", X.astype(np.float32), y, p, _grid(3, 0.7, 0.1), False
    yield "float16", X.astype(np.float16), y, p, _grid(3, 0.7, 0.1), False
    yield "int8", np.rint(3 * X).astype(np.int8), y, p, _grid(3, 2), False
    yield "uint8-labels", X, y.astype(np.uint8), p.astype(np.uint8), _grid(3), False
    yield "int16-int32-labels", X, y.astype(np.int16), p.astype(np.int32), _grid(3), False
    yield "bool-labels", X, y > 1, p > 1, _grid(3), False


def _sizes():
    many = _points(400, 2, 256, 2)
    yield "256-classes", many[0], many[1].astype(np.uint8), many[2].astype(np.uint8), _grid(2), False
    yield "20-axes", *_points(50, 20, 3, 3), _grid(20, 2.5), False
    yield "plain", *_points(500, 3, 5, 4), _grid(3, 0.8, -0.3), False


def _cells():
    for name, X, y, p, grid, fails in _sets():
        yield Case(name, (X, y, p), grid, fails=fails)
    X, y, p = _points(50, 2, 3, 5)
    yield Case("more-classes-than-occur", (X, y, p), {**_grid(2), "n_classes": 7})


def _merges():
    for name, X, y, p, grid, fails in _sets():
        cuts = (0, len(X) // 2, len(X)) if name in {"plain", "ranked-270-bits"} else (len(X) // 3,)
        for cut in cuts:
            options = {**grid, "cut": cut, "n_classes": 256}
            yield Case(f"{name}-cut-{cut}", (X, y, p), options, fails=fails)
    # Neither part needs ranks, both together do; and parts with ranges of their own.
    X, y, p = _points(40, 9, 3, 6)
    X[20:] *= 1e9
    yield Case("ranked-together", (X, y, p), {**_grid(9), "cut": 20, "n_classes": 3})
    X, y, p = _points(80, 2, 3, 7)
    X = X[np.argsort(X[:, 0])]
    yield Case("apart", (X, y, p), {**_grid(2, 0.3), "cut": 30, "n_classes": 3})


def _plain():
    for name, X, y, p, grid, fails in _sets():
        if not fails:  # points without a cell are the business of cell_counts, whose warning would come first
            yield Case(name, (X, y, p), grid)


def _gcms():
    rng = np.random.default_rng(8)
    for case in _plain():
        n = max([int(max(a.max(initial=0), 0)) for a in case.args[1:]]) + 1 if case.args[1].size else 0
        if n > 10:
            yield Case(case.id, case.args, {**case.options, "weights": ("row",)})
            continue
        options = {**case.options, "weights": ("all", "row", "col")}
        yield Case(case.id, (*case.args, rng.random((n, n))), options)
    X, y, p = _points(120, 2, 3, 9)
    table = rng.random((3, 3))
    bad = table.copy()
    bad[1, 2] = NAN
    minus = table.copy()
    minus[0, 0] = -1e-9
    yield Case("bad-table-between-good", (X, y, p, table, bad, table[::-1].copy()), _grid(2), fails=True)
    yield Case("negative-and-infinite", (X, y, p, minus, table, np.full((3, 3), INF)), _grid(2), fails=True)
    unused = np.where(np.eye(3) > 0, table, NAN)
    yield Case("unread-where-no-points", (X, y, y, unused), _grid(2))
    yield Case("zero-weights", (X, y, p, np.eye(3), 1 - np.eye(3), np.zeros((3, 3))), _grid(2))
    yield Case("constant", (X, y, p, np.full((3, 3), 0.1)), _grid(2))
    yield Case("tiny", (X, y, p, table * 1e-300, table * 5e-310), _grid(2))
    yield Case("huge", (X, y, p, table * 1e300), _grid(2))
    extreme = 10.0 ** rng.uniform(-30, 30, (3, 3))
    yield Case("extreme-limbs", (X, y, p, extreme, table, 10.0 ** rng.uniform(-300, 4, (3, 3))), _grid(2))
    yield Case("counts-as-weights", (X, y, p, np.arange(9).reshape(3, 3)), _grid(2))
    yield Case("float32-table", (X, y, p, table.astype(np.float32)), _grid(2))
    yield Case("no-weighting", (X, y, p), _grid(2))


def _histograms():
    rng = np.random.default_rng(10)
    for case in _plain():
        yield Case(case.id, (case.args[0], None, case.args[1]), case.options)
    X, y = _points(70, 2, 4, 11)[:2]
    w = rng.normal(size=70)
    bad = w.copy()
    bad[[0, 35, 69]] = NAN, INF, -INF
    nan = X.copy()
    nan[[0, 35, 69], [0, 1, 0]] = NAN, INF, -INF
    yield Case("bad-points", (nan, w, y), _grid(2), fails=True)
    yield Case("bad-weights", (X, bad, y), _grid(2, 0.5), fails=True)
    yield Case("no-groups", (X, w, None), _grid(2))
    yield Case("counts-no-groups", (X, None, None), _grid(2))
    yield Case("int-weights", (X, rng.integers(-9, 9, 70), y), _grid(2))
    yield Case("int8-weights", (X, rng.integers(-99, 99, 70).astype(np.int8), y), _grid(2))
    yield Case("uint8-weights", (X, rng.integers(0, 255, 70).astype(np.uint8), y), _grid(2))
    yield Case("bool-weights", (X, w > 0, y), _grid(2))
    large = rng.integers(-(2**62), 2**62, 70)
    large[:2] = 2**62, -(2**62)
    yield Case("int64-near-the-end", (X, large, y), _grid(2, 0.5))
    yield Case("float32-weights", (X, w.astype(np.float32), y), _grid(2))
    yield Case("float16-weights", (X, w.astype(np.float16), y), _grid(2))
    yield Case("weights-of-all-sizes", (X, w * 10.0 ** rng.integers(-12, 12, 70), y), _grid(2, 3))
    yield Case("subnormal-weights", (X, rng.integers(0, 9, 70) * 5e-324, y), _grid(2, 3))
    yield Case("huge-weights", (X, w * 1e307, y), _grid(2, 0.5))
    yield Case("sums-beyond-float64", (X, np.full(len(X), 1e308), y), _grid(2, 5.0), fails=True)
    yield Case("sums-beyond-float32", (X, np.full(len(X), 1e38, np.float32), y), _grid(2), fails=True)
    yield Case("minus-zero-weights", (X, w * 0.0, y), _grid(2))
    yield Case("cancelling", (np.zeros((4, 1)), np.array([1e16, 1.0, -1e16, 1.0]), None), _grid(1))
    yield Case("more-groups", (X, None, y), {**_grid(2), "n_groups": 9})


def _marginals():
    rng = np.random.default_rng(12)
    X, y, p = _points(90, 2, 4, 13)
    bad = rng.random((4, 4))
    bad[0, 0] = NAN
    ranked = np.concatenate([X * 1e9] * 4, axis=1)
    for axis in (0, 1):
        name = ("labels", "predictions")[axis]
        yield Case(f"{name}-bad", (X, y, p, bad), {**_grid(2), "axis": axis}, fails=True)
        yield Case(f"{name}-none", (X[:0], y[:0], p[:0]), {**_grid(2), "axis": axis})
        yield Case(f"{name}-none-weighted", (X[:0], y[:0], p[:0], np.empty((0, 0))), {**_grid(2), "axis": axis})
        yield Case(f"{name}-counts", (X, y, p), {**_grid(2), "axis": axis})
        yield Case(f"{name}-weights", (X, y, p, rng.random((4, 4))), {**_grid(2), "axis": axis})
        limbs = 10.0 ** rng.uniform(-30, 30, (4, 4))
        yield Case(f"{name}-limbs", (X, y, p, limbs), {**_grid(2), "axis": axis})
        yield Case(f"{name}-ranked", (ranked, y, p, rng.random((4, 4))), {**_grid(8), "axis": axis})


def _excesses():
    rng = np.random.default_rng(20)
    for n, classes, weightings in ((1, 1, 1), (1, 2, 2), (40, 3, 4), (10, 12, 1)):
        draws = rng.multinomial(6, np.full(classes**2, classes**-2.0), n).reshape(n, classes, classes)
        W, C = rng.random((2, weightings, classes, classes))
        yield Case(f"{n}-cells-{classes}-classes", (draws, rng.random(n), W, C))
    yield Case("none", (np.empty((0, 3, 3), np.int64), np.empty(0), *rng.random((2, 1, 3, 3))))


def _overlaps():
    rng = np.random.default_rng(14)
    (X, g), (Y, h) = _points(60, 2, 3, 15)[:2], _points(80, 2, 4, 16)[:2]
    v, w = rng.random(60), rng.random(80)
    bad, minus = v.copy(), v.copy()
    bad[30] = NAN
    minus[:] = -v
    ten = np.concatenate([X] * 5, axis=1)[:, :9] * 1e9
    yield Case("bad-height", (X, Y, bad, w, g, h), _grid(2), fails=True)
    yield Case("negative-height", (X, Y, minus, w, g, h), _grid(2), fails=True)
    yield Case("none", (X[:0], Y, None, None, None, h), _grid(2))
    yield Case("counts", (X, Y, None, None, g, h), _grid(2))
    yield Case("weights", (X, Y, v, w, g, h), _grid(2))
    yield Case("weights-and-counts", (X, Y, v, None, g, None), _grid(2))
    yield Case("weights-of-all-sizes", (X, Y, v * 1e-200, w * 10.0 ** rng.integers(-20, 20, 80), g, h), _grid(2))
    yield Case("apart", (X, Y + 1e6, v, w, g, h), _grid(2))
    yield Case("ranked", (ten, ten[::-1].copy(), v, None, g, g), _grid(9))
    yield Case("one-ranked", (ten, ten[:5] * 1e-9, None, None, g, g[:5]), _grid(9))


def _columns():
    rng = np.random.default_rng(17)
    X = rng.normal(size=(70, 4))
    bad = X.copy()
    bad[0, 0], bad[35, 1], bad[69, 3] = NAN, INF, -INF
    bad[7] = NAN
    yield "bad-first-middle-last", bad
    yield "all-bad", np.full((3, 2), NAN)
    yield "none", np.empty((0, 3))
    yield "one", X[:1]
    yield "two", X[:2]
    yield "three", X[:3]
    yield "constant", np.concatenate([X, np.full((70, 1), 0.1)], axis=1)
    yield "minus-zero", np.array([[-0.0], [0.0]])
    yield "denormal", rng.integers(0, 9, (20, 2)) * 1e-300
    yield "outlier", np.concatenate([X, np.full((1, 4), 1e9)])
    yield "one-column", X[:, :1]
    yield "17-columns", rng.normal(size=(100, 17))
    yield "float32", X.astype(np.float32)
    yield "float16", X.astype(np.float16)
    yield "int32", rng.integers(-1000, 1000, (50, 3)).astype(np.int32)
    yield "uint8", rng.integers(0, 255, (50, 3)).astype(np.uint8)
    yield "bool", X > 0
    yield "many", rng.normal(size=(20_000, 2)) * [1.0, 1e-3]


def _pcas():
    rng = np.random.default_rng(18)
    A = rng.normal(size=(5, 5)) * [8.0, 4.0, 2.0, 1.0, 0.5]
    X = rng.normal(size=(300, 5)) @ A + 3.0
    bad = X.copy()
    bad[0, 0], bad[150, 4], bad[299] = NAN, INF, -INF
    yield Case("bad-first-middle-last", (bad,), {"n_components": 3}, fails=True)
    yield Case("all-bad", (np.full((3, 2), NAN),), {"n_components": 2}, fails=True)
    yield Case("all", (X,), {"n_components": 5})
    yield Case("float32", (X.astype(np.float32),), {"n_components": 2})
    yield Case("float16", ((X / 8).astype(np.float16),), {"n_components": 2})
    yield Case("int16", (np.rint(10 * X).astype(np.int16),), {"n_components": 2})
    yield Case("offset", (X + 1e4,), {"n_components": 2})
    yield Case("one-column", (X[:, :1],), {"n_components": 1})
    yield Case("fewer-rows-than-columns", (X[:4],), {"n_components": 3})
    yield Case("blocks", (rng.normal(size=(40_000, 3)) * [3.0, 2.0, 1.0],), {"n_components": 3})


def _projections():
    rng = np.random.default_rng(19)
    X = rng.normal(size=(100, 4)) * [4.0, 3.0, 2.0, 1.0]
    bad = X.copy()
    bad[0, 0], bad[50, 2], bad[99, 3] = NAN, INF, -INF
    yield Case("bad-first-middle-last", (X, bad), {"n_components": 2})
    yield Case("none", (X, X[:0]), {"n_components": 2})
    yield Case("one", (X, X[:1]), {"n_components": 4})
    yield Case("float32", (X, X.astype(np.float32)), {"n_components": 2})
    yield Case("blocks", (X, np.tile(X, (400, 1))), {"n_components": 2})


CASES = {
    "cell_counts": list(_cells()),
    "cell_excess": list(_excesses()),
    "cell_shapes": list(_plain()),
    "column_moments": [Case(name, (X,)) for name, X in _columns()],
    "column_products": [Case(name, (X,)) for name, X in _columns()],
    "column_quartiles": [Case(name, (X,)) for name, X in _columns()],
    "column_ranges": [Case(name, (X,)) for name, X in _columns()],
    "decode_cells": list(_plain()),
    "gcm": list(_gcms()),
    "marginal_histogram": list(_marginals()),
    "merge_cells": list(_merges()),
    "min_overlap": list(_overlaps()),
    "pair_counts": list(_plain()),
    "pca": list(_pcas()),
    "project": list(_projections()),
    "sparse_histogram": list(_histograms()),
}


# Classes, and keys of every cell: within tiles of keys, across their ends, and longer than one.
CELL_SIZES = [
    (6, [1] * 300),
    (6, [36, 32, 31, 33, 1, 2]),
    (9, [80] * 6),
    (9, [31] * 8 + [1] * 250),
    (9, [1] * 223 + [33, 32, 1]),
    (9, [1] * 192 + [32, 2, 32]),
    (9, [1] * 191 + [32, 33] + [1] * 222 + [40, 3]),
    (6, [5] * 44 + [3] + [36] * 7),
    (70, [700, 3, 40, 900]),
    (90, [33, 400, 1, 1500]),
    (1700, [300, 2, 900, 34]),
]


def key_cells_of_sizes(C, sizes, seed):
    """Return sorted keys (cell, label, prediction) of cells with so many keys, counts, weights, and bits of a class.

    Weights are integers of one word, and of two, (C, C, 2), the lower one first.
    """
    rng, half = np.random.default_rng([C, seed]), (C - 1).bit_length()
    pairs = [np.sort(rng.choice(C * C, size, replace=False)) for size in sizes]
    tags = [each // C << half | each % C for each in pairs]
    cells = np.cumsum(rng.integers(1, 5, len(sizes)))
    keys = np.concatenate([cell << 2 * half | tag for cell, tag in zip(cells, tags, strict=True)])
    weights = rng.integers(0, 2**32, (C, C)) * (rng.random((C, C)) < 0.9)
    counts, low = rng.integers(1, 2**20, len(keys)), rng.integers(0, 2**64, (C, C), np.uint64).view(np.int64)
    return keys, counts, (weights, np.stack([low, weights], axis=2)), half
