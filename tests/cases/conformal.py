"""Rows of probabilities with ties, zeros and what is none; scores of few and many groups."""

import numpy as np

from cases._case import Case

RNG = np.random.default_rng(18)
FLAT, PEAKED = RNG.dirichlet(np.ones(4), 30), RNG.dirichlet(np.full(70, 0.05), 9)
TIED = np.array([[16, 16, 16, 16], [0, 32, 32, 0], [64, 0, 0, 0], [0, 0, 0, 0], [20, 24, 20, 0], [64, 64, 64, 64]]) / 64
BAD = FLAT.copy()
BAD[0, 1], BAD[7, 0], BAD[13, 3], BAD[29, 2] = np.nan, -0.25, np.inf, 1.5
WIDE = np.concatenate([PEAKED, RNG.dirichlet(np.ones(70), 3), np.eye(70)[:2], np.full((2, 70), 1 / 64)])
SIGNED = TIED * np.where(TIED > 0, 1.0, -1.0)  # zeros of both signs are one probability
SHARES = {"flat": FLAT, "tied": TIED, "wide": WIDE, "signed-zeros": SIGNED}
KINDS = ("correlation", "covariance", "lift", "conditional")


def _u(P):
    return np.random.default_rng(P.shape[-2:]).integers(0, 17, P.shape[:-1]) / 16


def _labels(P):
    return np.random.default_rng(P.shape).integers(0, P.shape[-1], P.shape[:-1])


def _rules():
    """Yield what a score may be made of, by a name: options, of an array of probabilities."""
    yield "aps", lambda P: {"u": _u(P)}
    yield "aps-1", lambda P: {"randomised": False}
    yield "raps", lambda P: {"method": "raps", "lam": 0.125, "k_reg": 2, "u": _u(P)}
    yield "lac", lambda P: {"method": "lac"}
    yield "saps", lambda P: {"method": "saps", "lam": 0.3, "u": _u(P)}
    yield "saps-1", lambda P: {"method": "saps", "lam": 5, "randomised": False}
    yield "top-k", lambda P: {"method": "top_k", "u": _u(P)}


def _rows():
    """Yield probabilities, the options of a score, and whether a row is none."""
    for name, P in SHARES.items():
        for rule, options in _rules():
            yield f"{rule}-{name}", P, options(P), False
    off = TIED.copy()
    off[2, 0], off[3, 1], off[5] = 1 + 2.0**-52, -(2.0**-20), [1 + 2.0**-20, 1, 1 - 2.0**-53, 0]
    yield "rounded", off, {"u": _u(TIED)}, False
    far = np.pad(off, ((0, 0), (30, 4)))
    yield "rounded-wide", far, {"u": _u(TIED)}, False
    far = far.copy()
    far[1, 2], far[4, 0] = 1 + 2.0**-19, -(2.0**-19)
    yield "too-far-for-rounding", far, {"u": _u(TIED)}, True
    yield "drawn-by-default", FLAT, {}, False
    yield "bad-first-middle-last", BAD, {"u": _u(BAD)}, True
    off = _u(FLAT)
    off[0], off[3], off[29] = np.nan, -0.5, 1.25
    yield "no-draws", FLAT, {"u": off}, True
    yield "drawn", FLAT, {"rng": 3}, False
    yield "drawn-wide", WIDE, {"rng": 3}, False
    for kind in (np.float32, np.float16):
        P = WIDE.astype(kind)
        yield f"{kind.__name__}", P, {"u": _u(P)}, False
        yield f"few-{kind.__name__}", FLAT.astype(kind), {"u": _u(FLAT)}, False
    yield "bool", np.eye(5, dtype=bool), {"randomised": False}, False
    for rule in ({"method": "saps", "lam": 0.125}, {"method": "top_k"}):
        name = rule["method"].replace("_", "-")
        yield f"{name}-bad", BAD, {"u": _u(BAD), **rule}, True
        yield f"{name}-no-draws", FLAT, {"u": off, **rule}, True
        yield f"{name}-bad-wide", far, {"u": _u(TIED), **rule}, True
        yield f"{name}-drawn", WIDE, {"rng": 3, **rule}, False
        yield f"{name}-float32", WIDE.astype(np.float32), {"u": _u(WIDE), **rule}, False
        yield f"{name}-1-class", np.ones((3, 1)), {"u": np.array([0.0, 0.5, 1.0]), **rule}, False
    yield "batch", FLAT.reshape(2, 3, 5, 4), {"u": _u(FLAT.reshape(2, 3, 5, 4))}, False
    yield "batch-wide", WIDE[:12].reshape(2, 6, 70), {"randomised": False}, False
    yield "batch-of-none", FLAT.reshape(1, 30, 4)[:0], {"randomised": False}, False
    yield "no-rows", FLAT[:0], {"randomised": False}, False
    yield "1-class", np.ones((3, 1)), {"u": np.array([0.0, 0.5, 1.0])}, False
    yield "24-classes", WIDE[:, :24], {"u": _u(WIDE)}, False
    yield "25-classes", WIDE[:, :25], {"u": _u(WIDE)}, False
    yield "64-classes", WIDE[:, :64], {"u": _u(WIDE)}, False


def _scores():
    for name, P, options, fails in _rows():
        yield Case(name, (P, _labels(P)), options, fails=fails)
        yield Case(f"all-{name}", (P,), options, fails=fails)
    y = _labels(FLAT)
    y[0], y[29] = -1, 4
    yield Case("labels-that-are-none", (FLAT, y), {"randomised": False}, fails=True)
    for kind in ("u1", "i2", "u8", "?"):
        yield Case(f"labels-{kind}", (FLAT, (_labels(FLAT) % 2).astype(kind)), {"randomised": False})


def _row_draws():
    for name, P in SHARES.items():
        yield Case(name, (P,), {"seed": 0})
    yield Case("large-seed", (FLAT,), {"seed": 10**30})
    yield Case("float32", (WIDE.astype(np.float32),), {"seed": 3})
    yield Case("what-is-none", (BAD,), {"seed": 3})
    yield Case("batch", (FLAT.reshape(2, 3, 5, 4),), {"seed": 3})
    yield Case("no-rows", (FLAT[:0],), {"seed": 3})


def _thresholds():
    some = (0.05, 0.1, 0.5, 0.7, 0.25)
    s = RNG.integers(0, 20, (3, 40)) / 16
    holed = s.copy()
    holed[0, :3], holed[1, 5], holed[2, 0] = np.nan, np.inf, -0.0
    y = RNG.integers(0, 4, (3, 40))
    yield Case("several", (s, some))
    yield Case("one", (s, 0.3))
    yield Case("single", (s[0], some))
    yield Case("nan-and-infinity", (holed, some))
    yield Case("float32", (s.astype(np.float32), some))
    yield Case("integers", ((16 * s).astype(np.int64), some))
    yield Case("no-scores", (s[:, :0], some))
    yield Case("batch-of-none", (s[:0], some))
    yield Case("many", (RNG.random(12_000), (0.001, 0.5, 0.123456789)))
    yield Case("sorted", (np.arange(999.0), some))
    yield Case("equal", (np.full(50, 0.25), some))
    for name in ("y", "groups"):
        size = {"y": "n_classes", "groups": "n_groups"}[name]
        yield Case(f"by-{name}", (s, some), {name: y, size: 4})
        yield Case(f"by-{name}-as-found", (holed, some), {name: y})
        yield Case(f"{name}-without-scores", (s, some), {name: y, size: 6}, fails=True)
        off = y.copy()
        off[1, 7] = -1
        yield Case(f"{name}-that-are-none", (s, some), {name: off, size: 4}, fails=True)
        yield Case(f"{name}-of-none", (s[0, :0], some), {name: y[0, :0], size: 0})
    yield Case("long-decimal", (s, (0.1234567890123456, 0.9999999999999999)), {"y": y, "n_classes": 4})


def _weighted():
    some = (0.05, 0.1, 0.5, 0.7, 0.25)
    rng = np.random.default_rng(31)
    s, w, v = rng.integers(0, 20, (3, 40)) / 16, rng.integers(0, 9, (3, 40)) / 4, rng.integers(0, 40, (3, 11)) / 8

    def weighted(name, s, alpha, w, v, **options):
        """Return a case of scores and weights."""
        return Case(name, (s, alpha), {"sample_weight": w, "new_weight": v}, **options)

    yield weighted("several", s, some, w, v)
    yield weighted("one", s[0], 0.3, w[0], v[0])
    yield weighted("equal", s, some, np.full(s.shape, 0.7), np.full(v.shape, 0.7))
    yield weighted("integers", (16 * s).astype(np.int64), some, (4 * w).astype(np.int32), v)
    yield weighted("float32", s.astype("f4"), some, w.astype("f4"), v.astype("f4"))
    yield weighted("long-decimal", s, (0.1234567890123456, 0.9999999999999999), w, v)
    holed = s.copy()
    holed[0, :3], holed[1, 5], holed[2, 0] = np.nan, np.inf, -0.0
    yield weighted("nan-and-infinity", holed, some, w, v)
    yield weighted("tiny", s, some, w * 2.0**-1060, v * 2.0**-1060)
    yield weighted("huge", s, some, w * 2.0**1020, v * 2.0**1018)
    yield weighted("heavy-new-row", s, some, w, v * 2.0**60)
    yield weighted("no-weights", s, some, 0 * w, v)
    yield weighted("no-new-weights", s, some, w, 0 * v)
    yield weighted("no-scores", s[:, :0], some, w[:, :0], v)
    yield weighted("no-new-rows", s, some, w, v[:, :0])
    yield weighted("batch-of-none", s[:0], some, w[:0], v[:0])
    for value in (np.nan, np.inf, -0.25):
        bad = v.copy()
        bad[0, 0], bad[1, 5], bad[2, 10] = value, value, value
        yield weighted(f"new-weights-{value}", s, some, w, bad, fails=True)
    bad = w.copy()
    bad[1, 39] = np.nan
    yield weighted("bad-weights", s, some, bad, v, fails=True)


def _p_values():
    rng = np.random.default_rng(32)
    s, y, new = rng.integers(0, 20, (3, 40)) / 16, rng.integers(0, 4, (3, 40)), rng.integers(-1, 22, (3, 7, 4)) / 16
    holed, off = s.copy(), new.copy()
    holed[0, :3], holed[1, 5], holed[2, 0] = np.nan, np.inf, -0.0
    off[0, 0], off[1, 2, 1], off[2, 6, 3] = np.nan, np.inf, -np.inf
    yield Case("all", (s, new))
    yield Case("one-per-row", (s, new[..., 0]))
    yield Case("single", (s[0], new[0]))
    yield Case("nan-and-infinity", (holed, off))
    yield Case("integers", ((16 * s).astype(np.int64), (16 * new).astype(np.int16)))
    yield Case("float32", (s.astype("f4"), new.astype("f4")))
    yield Case("no-scores", (s[:, :0], new))
    yield Case("no-rows", (s, new[:, :0]))
    yield Case("batch-of-none", (s[:0], new[:0]))
    yield Case("by-class", (s, new), {"y": y})
    yield Case("by-class-nan", (holed, off), {"y": y.astype(np.uint8)})
    yield Case("class-without-scores", (s, new), {"y": np.minimum(y, 2)}, fails=True)
    bad = y.copy()
    bad[0, 0], bad[1, 20], bad[2, 39] = -1, 4, 99
    yield Case("labels-that-are-none", (s, new), {"y": bad}, fails=True)


def _histograms():
    s = np.concatenate([RNG.random(50), [0.0, -0.0, 1.0, 0.125, 0.375, 1.0000000000000002, np.nan, np.inf, -1.0]])
    yield Case("eighths", (s,), {"bins": 8})
    yield Case("usual", (s.reshape(1, -1),), {})
    yield Case("thirds", (np.concatenate([s, np.arange(10) / 7]),), {"bins": 7, "top": 1.4})
    yield Case("float32", (s.astype(np.float32),), {"bins": 10, "top": 1.1})
    yield Case("batch", (np.stack([s, s[::-1] / 2]),), {"bins": 3})
    yield Case("no-scores", (s[:0],), {"bins": 5})
    yield Case("batch-of-none", (s.reshape(1, -1)[:0],), {"bins": 5})


def _q(P, *more):
    return np.random.default_rng([7, *P.shape]).integers(0, 20, (*P.shape[:-2], *more)) / 16


def _sets():
    for name, P, options, fails in _rows():
        q = _q(P, 3)
        q[..., 1] = np.inf
        if options.get("method") == "top_k":
            q[..., 2] = P.shape[-1] / 2
        yield Case(name, (P, q), options, fails=fails)
        if P.ndim == 2 and len(P):
            yield Case(f"by-class-{name}", (P, _q(P, 2, P.shape[-1])), options, fails=fails)
    u = {"u": _u(WIDE)}
    yield Case("nan", (WIDE, np.array([np.nan, 0.0])), u)
    yield Case("exactly-one", (WIDE, np.array([1.0])), {"randomised": False})
    for name, P in (("flat", FLAT), ("wide", WIDE)):
        groups = np.arange(len(P)) % 3
        yield Case(f"groups-{name}", (P, _q(P, 2, 3)), {"u": _u(P), "groups": groups})
        yield Case(f"groups-that-are-none-{name}", (P, _q(P, 2, 2)), {"u": _u(P), "groups": groups}, fails=True)
        yield Case(f"groups-lac-{name}", (P, _q(P, 2, 3)), {"method": "lac", "groups": groups})
        top = {"randomised": False, "empty": "top1"}
        yield Case(f"top1-{name}", (P, np.array([0.25, 0.0, 0.5])), top)
        for rule in ({"method": "saps", "lam": 0.25}, {"method": "top_k"}):
            kind = rule["method"].replace("_", "-")
            yield Case(f"groups-{kind}-{name}", (P, 4 * _q(P, 2, 3)), {"u": _u(P), "groups": groups, **rule})
            yield Case(f"top1-{kind}-{name}", (P, np.array([0.0, 2.0])), {"empty": "top1", **rule})
        yield Case(f"top1-lac-{name}", (P, np.array([0.0])), {"method": "lac", "empty": "top1"})
    B = FLAT.reshape(2, 3, 5, 4)
    yield Case("shared-thresholds", (B, _q(B, 2)[:1, :, :]), {"u": _u(B)})


def _with_labels(cases, arity):
    for case in cases:
        P = case.args[0]
        y = _labels(P)
        yield Case(case.id, (*case.args, y)[:arity], case.options, fails=case.fails)


def _chosen(*words):
    return [case for case in _sets() if case.id.startswith(words)]


def _of_labels():
    yield from _with_labels(_chosen("aps", "batch", "by-class-aps", "no-rows", "groups-flat", "1-class"), 3)
    y = _labels(FLAT)
    y[0], y[12], y[29] = -1, 4, 99
    yield Case("labels-that-are-none", (FLAT, _q(FLAT, 3), y), {"randomised": False}, fails=True)


def _shared():
    yield from _chosen("aps", "batch", "by-class-aps", "no-rows", "1-class", "64-classes", "float32")
    many = np.random.default_rng(5).dirichlet(np.ones(5), 4500)
    yield Case("several-blocks", (many, np.array([0.5, 0.9])), {"randomised": False})


def _ratios():
    z = RNG.random((3, 40, 6)) < RNG.random(6)
    z[0, :, 0], z[1, :, 3] = False, True
    G = np.einsum("bni,bnj->bij", z.astype(np.int64), z.astype(np.int64))
    far = np.array([[[2**31, 2**20 + 1], [2**20 + 1, 2**21 + 5]]])
    vast = 10**6 * G[2] + np.arange(6)[:, None] + np.arange(6)
    for kind in KINDS:
        yield Case(f"{kind}-vast", (np.array(40 * 10**6 + 11), vast), {"kind": kind})
        yield Case(f"{kind}-vaster", (np.array(10**6 * (40 * 10**6 + 11)), 10**6 * vast), {"kind": kind})
        yield Case(f"{kind}-batch", (np.full(3, 40), G), {"kind": kind})
        yield Case(f"{kind}-single", (np.array(40), G[2]), {"kind": kind})
        yield Case(f"{kind}-no-samples", (np.zeros(2, np.int64), 0 * G[:2]), {"kind": kind})
        yield Case(f"{kind}-many-samples", (np.array([3_037_000_499]), far), {"kind": kind})
        yield Case(f"{kind}-batch-of-none", (np.full(0, 40), G[:0]), {"kind": kind})


CASES = {
    "row_draws": list(_row_draws()),
    "scores": list(_scores()),
    "threshold": list(_thresholds()),
    "weighted_threshold": list(_weighted()),
    "p_values": list(_p_values()),
    "score_histogram": list(_histograms()),
    "prediction_sets": list(_sets()),
    "set_coverage": list(_of_labels()),
    "ccm": list(_shared()),
    "coverage_confusion": list(_of_labels()),
    "ccm_ratios": list(_ratios()),
}
