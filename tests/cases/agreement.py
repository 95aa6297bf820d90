"""Ratings of items by raters, and counts of ratings."""

import numpy as np

from cases._case import Case

NAN = np.nan
# Krippendorff 2011, four observers and twelve units.
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T
TABLE = [[0, 1, 4, 4, 2], [1, 0, 1, 2, 3], [4, 1, 0, 1, 0.5], [4, 2, 1, 0, 1], [2, 3, 0.5, 1, 0]]
ALL = {"categories": [1, 2, 3, 4, 5]}


def _cases():
    rng = np.random.default_rng(71)
    truth = rng.integers(1, 6, (2, 8, 1))
    ratings = np.where(rng.random((2, 8, 3)) < 0.6, truth, rng.integers(1, 6, (2, 8, 3)))
    gaps = np.where(rng.random(ratings.shape) < 0.3, NAN, ratings)
    for weights in ("nominal", "ordinal", "linear", "interval", "ratio", TABLE):
        name = weights if isinstance(weights, str) else "table"
        yield Case(f"{name}-published", (KRIPPENDORFF,), {"weights": weights, **ALL})
        yield Case(f"{name}-batch", (ratings,), {"weights": weights, **ALL})
        yield Case(f"{name}-gaps", (gaps,), {"weights": weights, **ALL})
    yield Case("categories-that-occur", (KRIPPENDORFF,), {"weights": "linear"})
    yield Case("minus-one-is-missing", (np.where(np.isnan(gaps), -1, gaps).astype(int),), {"missing": -1, **ALL})
    yield Case("minus-one-is-missing-ratio", (np.where(np.isnan(gaps[0]), -1, gaps[0]),), {
        "missing": -1, "weights": "ratio"
    })  # fmt: skip
    yield Case("other-order", (gaps,), {"weights": "ordinal", "categories": [3, 1, 5, 2, 4]})
    yield Case("unused-categories", (gaps,), {"weights": "interval", "categories": range(-2, 9)})
    yield Case("far-values", (10**9 + 7 * ratings[0],), {"weights": "interval"})
    yield Case("fractions", (gaps[0] / 4,), {"weights": "linear"})
    yield Case("float32", (gaps.astype(np.float32),), {"weights": "ordinal", **ALL})
    yield Case("uint8", (ratings.astype(np.uint8),), ALL)
    yield Case("int16", (ratings[0].astype(np.int16),), {"weights": "ordinal"})
    yield Case("bool", (ratings[0] > 2,))
    yield Case("two-axes", (gaps[:, np.newaxis],), ALL)
    yield Case("batch-of-none", (gaps[:0],), ALL)
    yield Case("two-raters", (gaps[..., :2],), {"weights": "linear", **ALL})
    yield Case("one-rater", (gaps[..., :1],), ALL)
    yield Case("no-raters", (gaps[..., :0],), ALL)
    yield Case("no-items", (gaps[:, :0],), ALL)
    yield Case("one-item", (ratings[:, :1],), ALL)
    yield Case("two-items", (ratings[:, :2],), ALL)
    silent = gaps.copy()
    silent[..., 1] = NAN
    yield Case("a-rater-without-ratings", (silent,), ALL)
    degenerate = np.full((6, 6, 3), 2.0)
    degenerate[1] = NAN  # no rating
    degenerate[2, :, 1:] = NAN  # no pair
    degenerate[3, :, 1] = 4  # each rater has a category of its own, two the same
    degenerate[4, 0, 0] = 5  # one rating differs
    degenerate[5, :4] = 3  # all agree, in two categories
    for undefined in ("present", "nan", "strict", "one"):
        yield Case(f"degenerate-{undefined}", (degenerate,), {"undefined": undefined, **ALL})
    for weights in ("ordinal", "linear", "interval", "ratio"):
        yield Case(f"degenerate-{weights}", (degenerate,), {"weights": weights, **ALL})
    yield Case("one-category", (degenerate[0],), {"weights": "ordinal"})
    yield Case("no-category", (degenerate[1],), {"weights": "ordinal"})
    apart = np.stack([ratings[0, :, 0], NAN * truth[0, :, 0], ratings[0, :, 1]], 1)
    apart[:4, 0], apart[4:, 2] = NAN, NAN
    yield Case("no-item-in-common", (apart,))
    bad = gaps.copy()
    bad[0, 0, 0], bad[1, 7, 2] = np.inf, -np.inf
    yield Case("infinite-first-and-last", (bad,), ALL, fails=True)
    wrong = ratings.copy()
    wrong[1, 4, 2] = 9
    yield Case("no-category-of-the-list", (wrong,), ALL, fails=True)
    yield Case("negative-ratio", (-gaps[0],), {"weights": "ratio"}, fails=True)
    counts = rng.integers(0, 4, (2, 8, 5))
    counts[1, 3], counts[1, 4] = 0, [0, 1, 0, 0, 0]
    even = rng.multinomial(6, [0.1, 0.2, 0.3, 0.3, 0.1], 12)
    of_counts = {"counts": True}
    for weights in ("nominal", "ordinal", "linear", "interval", TABLE):
        name = weights if isinstance(weights, str) else "table"
        yield Case(f"counts-{name}", (counts,), {"weights": weights, **of_counts})
    yield Case("counts-even", (even,), of_counts)
    yield Case("counts-ratio", (counts,), {"weights": "ratio", "categories": [1, 2, 4, 8, 0], **of_counts})
    yield Case("counts-float32", (counts.astype(np.float32),), of_counts)
    yield Case("counts-uint64", (counts.astype(np.uint64),), of_counts)
    yield Case("counts-many", (counts * 2**40,), of_counts)
    yield Case("counts-of-none", (counts[:, :, :0],), of_counts)
    yield Case("counts-of-one-category", (counts[:, :, :1],), of_counts)
    for name, value in {"negative": -1.0, "half": 0.5, "nan": NAN, "infinite": np.inf, "huge": 2.0**53}.items():
        bad = counts.astype(float)
        bad[1, 2, 3] = value
        yield Case(f"counts-{name}", (bad,), of_counts, fails=True)
    negative = counts.copy()
    negative[0, 7, 4] = -3
    yield Case("counts-negative-int", (negative,), of_counts, fails=True)


CASES = {"agreement_coefficients": list(_cases())}
