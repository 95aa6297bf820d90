"""Labels of every type, with weights, groups and batches."""

import numpy as np

from cases._case import Case

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def _confusion_matrix():
    rng = np.random.default_rng(1797)
    t = rng.integers(0, 4, 60)
    p = np.where(rng.random(60) < 0.7, t, rng.integers(0, 4, 60))
    w = rng.random(60)
    batch = rng.integers(0, 3, (5, 20))
    groups = np.repeat(np.arange(3), 20)
    yield from _bad_weights(rng, t, p, w, batch, groups)
    yield from _empty(t, p, w)
    yield from _values(rng)
    yield from _types(t, p)
    yield from _labels(t, p, w)
    yield from _words(t, p, w, groups)
    yield from _weights(rng, t, p, w)
    yield from _groups(rng, t, p, w, batch, groups)
    yield from _shapes(rng, t, w, batch)
    yield from _ignored(rng, t, p, w, batch)
    yield from _integer_weights(rng, t, p)


def _ignored(rng, t, p, w, batch):
    holes = np.where(rng.random(60) < 0.3, 255, t)
    for ignore, truth in ((255, holes), (-100, np.where(holes == 255, -100, holes)), (2, t), (7, t)):
        options = {"ignore_index": ignore}
        yield Case(f"ignored-{ignore}", (truth, p), options)
        yield Case(f"ignored-{ignore}-classes", (truth, p), {"n_classes": 4, **options})
        yield Case(f"ignored-{ignore}-labels", (truth, p), {"labels": np.array([3, 2, 0]), **options})
        yield Case(f"ignored-{ignore}-weights", (truth, p), {"n_classes": 4, "sample_weight": w, **options})
    yield Case("ignored-two", (holes, p), {"ignore_index": [255, 2]})
    yield Case("ignored-three-classes", (holes, p), {"ignore_index": (255, -7, 1), "n_classes": 4, "sample_weight": w})
    yield Case("ignored-none-of-two", (t, p), {"ignore_index": [9, 255], "labels": np.array([3, 2, 0])})
    yield Case("ignored-empty", (t, p), {"ignore_index": []})
    yield Case("ignored-two-bool", (t > 1, p > 1), {"ignore_index": [0, 7], "n_classes": 2})
    yield Case("ignored-uint8", (holes.astype(np.uint8), p.astype(np.uint8)), {"ignore_index": 255, "n_classes": 4})
    yield Case("ignored-int8", (t.astype(np.int8) - 2, p.astype(np.int8)), {"ignore_index": -2})
    wide = np.where(rng.random(60) < 0.2, 10**7, t * 10**6)
    yield Case("ignored-far-apart", (wide, p * 10**6), {"ignore_index": 10**7})
    yield Case("ignored-beside-wrong-predictions", (holes, np.where(holes == 255, 99, p)), {"ignore_index": 255})
    beside = {"ignore_index": 255, "n_classes": 4}
    yield Case("ignored-beside-ids-outside", (holes, np.where(holes == 255, 99, p)), beside)
    yield Case(
        "ignored-one-truth", (np.where(batch[0] == 1, 255, batch[0]), batch), {"ignore_index": 255, "n_classes": 3}
    )
    yield Case("ignored-all", (t * 0, p), {"ignore_index": 0, "n_classes": 4})
    many = rng.integers(0, 5, (2, 9000))
    yield Case("ignored-many", (many[0], many[1]), {"ignore_index": 4, "n_classes": 5})
    yield Case("ignored-many-rows", (many, many[::-1]), {"ignore_index": 4, "n_classes": 5})


def _integer_weights(rng, t, p):
    large = rng.integers(-(2**56), 2**56, 60)
    yield Case("weights-int64", (t, p), {"sample_weight": large, "n_classes": 4})
    yield Case("weights-int64-groups", (t, p), {"sample_weight": large, "groups": t % 2})
    odd = np.where(np.arange(60) == 9, 2**53 + 1, 0)
    yield Case("weights-beyond-a-float", (t, p), {"sample_weight": odd, "n_classes": 4})
    most = np.where(np.arange(60) < 2, 2**62, -1)
    yield Case("weights-that-meet", (t * 0, p * 0), {"sample_weight": most, "n_classes": 2})
    yield Case("weights-overflow", (t * 0, p * 0), {"sample_weight": abs(most), "n_classes": 2}, fails=True)
    yield Case("weights-uint64", (t, p), {"sample_weight": (odd * 2).astype(np.uint64), "n_classes": 4})
    yield Case("weights-uint64-overflow", (t, p), {"sample_weight": odd.astype(np.uint64) << 10}, fails=True)
    many = rng.integers(0, 3, (2, 9000))
    yield Case("weights-int32-many", (many[0], many[1]), {"sample_weight": rng.integers(-9, 2**31, 9000).astype("i4")})


def _bad_weights(rng, t, p, w, batch, groups):
    for name, where in (("first", 0), ("middle", 31), ("last", 59)):
        bad = w.copy()
        bad[where] = np.nan
        yield Case(f"nan-weight-{name}", (t, p), {"sample_weight": bad}, fails=True)
    infinite = w.copy()
    infinite[[3, 40]] = np.inf, -np.inf
    yield Case("infinite-weights", (t, p), {"sample_weight": infinite, "n_classes": 4}, fails=True)
    bad = rng.random(batch.shape)
    bad[0, 0], bad[2, 7], bad[4, 19] = np.nan, np.inf, np.nan
    yield Case("bad-rows", (batch, batch[::-1]), {"sample_weight": bad, "n_classes": 3}, fails=True)
    bad = w.copy()
    bad[25] = np.nan
    yield Case("bad-group", (t, p), {"sample_weight": bad, "groups": groups, "n_classes": 4}, fails=True)
    skipped = np.where(t == 2, np.nan, w)
    yield Case("nan-weight-left-out", (t, p), {"sample_weight": skipped, "labels": np.array([0, 1, 3])})
    huge = np.full(60, 3e38, np.float32)
    yield Case("beyond-float32", (t, p), {"sample_weight": huge, "n_classes": 4})
    yield Case("float64-overflow", (t, p), {"sample_weight": np.full(60, 1.7e308), "n_classes": 4}, fails=True)


def _empty(t, p, w):
    yield Case("no-samples", (np.empty(0, np.int64), np.empty(0, np.int64)))
    yield Case("no-samples-classes", (np.empty(0, np.int64), np.empty(0, np.int64)), {"n_classes": 3})
    yield Case("no-samples-weights", (t[:0], p[:0]), {"n_classes": 2, "sample_weight": w[:0]})
    yield Case("no-samples-groups", (t[:0], p[:0]), {"n_classes": 2, "groups": t[:0], "n_groups": 3})
    yield Case("no-samples-no-groups", (t[:0], p[:0]), {"n_classes": 2, "groups": t[:0]})
    yield Case("batch-of-none", (np.empty((0, 5), np.int64), np.empty((0, 5), np.int64)), {"n_classes": 3})
    yield Case("batch-of-none-default", (np.empty((0, 5), np.int64), np.empty((0, 5), np.int64)))
    yield Case("batch-of-empty", (np.empty((4, 0), np.int64), np.empty((4, 0), np.int64)), {"n_classes": 2})
    yield Case("no-classes", (np.empty((4, 0), np.int64), np.empty((4, 0), np.int64)), {"n_classes": 0})


def _values(rng):
    yield Case("one-sample", (np.array([2]), np.array([0])), {"n_classes": 3})
    yield Case("one-class", (np.zeros(5, np.int64), np.zeros(5, np.int64)), {"n_classes": 1})
    yield Case("never-true-never-predicted", (np.array([0, 0, 3]), np.array([1, 1, 3])), {"n_classes": 5})
    yield Case("default-absent", (np.array([0, 0, 3]), np.array([5, 5, 3])))
    yield Case("negative", (np.array([-7, 3, 3, -1]), np.array([3, -7, 3, 0])))
    yield Case("far-apart", (np.array([-(2**62), 3, 2**62]), np.array([3, 3, 2**62])))
    yield Case("far-apart-labels", (np.array([-5, 3, 9]), np.array([3, 3, 10**6])), {"labels": np.array([10**6, 3])})
    yield Case("beyond-the-guess", (np.r_[np.zeros(9000, np.int64), 700], np.r_[0, np.ones(9000, np.int64)]))
    yield Case("uint64-beside-negative", (np.array([2**64 - 1, 1], np.uint64), np.array([-1, 1])))
    yield Case("uint64-large", (np.array([2**64 - 1, 2**64 - 2], np.uint64), np.array([2**64 - 1] * 2, np.uint64)))
    ids = rng.integers(-(2**63), 2**63 - 1, 6)
    yield Case("random-ids", (ids[rng.integers(0, 6, 1500)], ids[rng.integers(1, 5, 1500)]))
    wide = rng.integers(0, 2, (3000, 2)) * 1000
    yield Case("wide-span-many-rows", (wide, wide[::-1]))


def _types(t, p):
    for name in _INTEGERS:
        most = 2 if name == "bool" else 4
        pair = (t % most).astype(name), (p % most).astype(name)
        yield Case(name, pair, {"n_classes": most})
        yield Case(f"{name}-default", pair)
        yield Case(f"{name}-beside-int64", (pair[0], p % most))
    yield Case("int8-negative", (np.array([-128, 127, 0], np.int8), np.array([127, 127, -128], np.int8)))


def _labels(t, p, w):
    yield Case("labels-order", (t, p), {"labels": np.array([3, 0, 1, 2])})
    yield Case("labels-some", (t, p), {"labels": np.array([2, 0])})
    yield Case("labels-few-occur", (t, p), {"labels": np.array([11, 3, 12])})
    yield Case("labels-int8", (t, p), {"labels": np.array([1, 3], np.int8)})
    yield Case("labels-weights", (t, p), {"labels": np.array([2, 0]), "sample_weight": w})


def _words(t, p, w, groups):
    words = np.array(["ant", "bee", "", "a long name of a class"])
    yield Case("strings", (words[t], words[p]))
    yield Case("strings-labels", (words[t], words[p]), {"labels": words[[3, 1]]})
    yield Case("strings-weights-groups", (words[t], words[p]), {"sample_weight": w, "groups": groups})
    yield Case("strings-batch", (words[t].reshape(3, 20), words[p].reshape(3, 20)))
    yield Case("bytes", (words[t].astype("S4"), words[p].astype("S4")))


def _weights(rng, t, p, w):
    yield Case("weights", (t, p), {"sample_weight": w})
    yield Case("weights-none-in-a-class", (t, p), {"sample_weight": np.where((t == 1) | (p == 1), 0.0, w)})
    yield Case("weights-minus-zero", (t, p), {"sample_weight": np.full(60, -0.0)})
    k = np.arange(900)
    both = (1.0 - rng.random(900) * 2.0**-20) * np.where(k % 3 == 0, -1.0, 1.0) * 2.0 ** (k % 2)
    yield Case("weights-of-both-signs", (k % 2, k * 0), {"sample_weight": both})
    yield Case("weights-denormal", (t, p), {"sample_weight": np.full(60, 5e-324)})
    yield Case("weights-negative", (t, p), {"sample_weight": w - 0.25})
    yield Case("weights-of-every-size", (t, p), {"sample_weight": w * 10.0 ** rng.integers(-300, 300, 60)})
    yield Case("weights-float32", (t, p), {"sample_weight": w.astype(np.float32), "n_classes": 4})
    yield Case("weights-float16", (t, p), {"sample_weight": w.astype(np.float16), "n_classes": 4})
    yield Case("weights-int", (t, p), {"sample_weight": np.arange(60), "n_classes": 4})
    yield Case("weights-bool", (t, p), {"sample_weight": t > 1, "n_classes": 4})


def _groups(rng, t, p, w, batch, groups):
    yield Case("groups", (t, p), {"groups": groups})
    yield Case("groups-int8", (t, p), {"groups": groups.astype(np.int8), "n_groups": 5, "n_classes": 6})
    yield Case("groups-weights", (t, p), {"groups": rng.integers(0, 4, 60), "sample_weight": w, "n_classes": 4})
    yield Case("groups-batch", (batch, batch[::-1]), {"groups": rng.integers(0, 3, (5, 20)), "n_classes": 3})


def _shapes(rng, t, w, batch):
    wide = rng.integers(0, 130, (2, 300))
    yield Case("many-classes", (wide[0], wide[1]), {"n_classes": 130})
    yield Case("rows", (batch, batch[::-1]), {"n_classes": 3})
    yield Case("rows-default", (batch, batch[::-1]))
    yield Case("rows-many", (rng.integers(0, 3, (4, 10, 7)), rng.integers(0, 3, (4, 10, 7))), {"n_classes": 3})
    yield Case("one-truth-many-predictions", (batch[0], batch), {"n_classes": 3})
    yield Case("many-truths-one-prediction", (batch, batch[:1]), {"n_classes": 3, "sample_weight": w[:20]})
    yield Case("broadcast-both", (batch[:, None], batch[None, :2]), {"n_classes": 3, "groups": t[:20]})


CASES = {"confusion_matrix": list(_confusion_matrix())}
