"""True and predicted boxes of images: near each other, equal, empty, of many classes, in crowds."""

import numpy as np

from cases._case import Case


def draw(rng, shape, n, m, *, whole=False):
    """Return true boxes and predictions that lie near them, with whole coordinates or any."""
    low = rng.uniform(0, 12, (*shape, n, 2))
    true = np.concatenate([low, low + rng.uniform(4, 9, (*shape, n, 2))], -1)
    near = np.take(true, rng.integers(0, n, m), axis=-2)
    pred = near + rng.normal(0, 0.7, near.shape)
    pred[..., 2:] = np.maximum(pred[..., :2], pred[..., 2:])
    return (np.round(true), np.round(pred)) if whole else (true, pred)


def _cases():
    rng = np.random.default_rng(42)
    for method in ("greedy", "optimal"):
        true, pred = draw(rng, (3,), 4, 5)
        scores = rng.random((3, 5))
        labels = rng.integers(0, 2, (3, 4)), rng.integers(0, 2, (3, 5))
        crowd = np.array([[0, 0, 0, 1], [1, 0, 1, 0], [0, 0, 0, 0]])
        options = {"method": method}
        yield Case(f"{method}-boxes-alone", (true, pred), options)
        yield Case(f"{method}-scores", (true, pred, scores), options)
        yield Case(f"{method}-loose", (true, pred, scores), {"iou_threshold": 0.05, **options})
        yield Case(f"{method}-strict", (true, pred, scores), {"iou_threshold": 0.9, **options})
        yield Case(f"{method}-classes", (true, pred, scores, *labels), {"iou_threshold": 0.2, **options})
        yield Case(f"{method}-crowd", (true, pred, scores, *labels, crowd), {"iou_threshold": 0.3, **options})
        yield Case(f"{method}-crowd-of-any-class", (true, pred, scores, None, None, crowd > 0), options)
        yield Case(f"{method}-confident", (true, pred, scores), {"score_threshold": 0.5, **options})
        yield Case(f"{method}-one-image", (true[0], pred[0], scores[0]), options)
        yield Case(f"{method}-two-axes", (true[:, None], pred[:, None], scores[:, None]), options)
        yield Case(f"{method}-no-images", (true[:0], pred[:0], scores[:0]), options)
        yield Case(f"{method}-no-truths", (true[:, :0], pred, scores), options)
        yield Case(f"{method}-no-predictions", (true, pred[:, :0], scores[:, :0]), options)
        yield Case(f"{method}-nothing", (true[:, :0], pred[:, :0]), options)
        yield Case(f"{method}-float32", (true.astype(np.float32), pred.astype(np.float32)), options)
        sizes = [np.concatenate([x[..., :2], x[..., 2:] - x[..., :2]], -1) for x in (true, pred)]
        sizes = [np.round(x * 8) / 8 for x in sizes]  # exact sums
        centres = [np.concatenate([x[..., :2] + x[..., 2:] / 2, x[..., 2:]], -1) for x in sizes]
        yield Case(f"{method}-xywh", (*sizes, scores), {"box_format": "xywh", **options})
        yield Case(f"{method}-cxcywh", (*centres, scores), {"box_format": "cxcywh", **options})
        many, more = draw(rng, (2,), 6, 3)
        yield Case(f"{method}-more-truths", (many, more, rng.random((2, 3))), {"iou_threshold": 0.1, **options})
    whole, rounded = draw(rng, (8,), 4, 5, whole=True)
    scores = rng.integers(0, 3, (8, 5)) / 4
    yield Case("ties-of-scores", (whole, rounded, scores), {"iou_threshold": 0.2})
    yield Case("integers", (whole.astype(np.int32), rounded.astype(np.int32), scores), {"iou_threshold": 0.2})
    yield Case("uint8", (whole.astype(np.uint8), np.clip(rounded, 0, 255).astype(np.uint8)))
    same = np.tile([2.0, 2.0, 6.0, 6.0], (3, 1))
    yield Case("equal-boxes", (same, same[:2], np.array([0.5, 0.5])))
    row = np.array([[0.0, 0, 10, 10], [2, 0, 12, 10], [4, 0, 14, 10]])
    yield Case("ties-of-iou", (row, np.array([[1.0, 0, 11, 10], [3, 0, 13, 10]])))
    exact = np.array([[0.0, 0, 5, 1]]), np.array([[0.0, 0, 3, 1]])
    yield Case("three-fifths-is-enough", exact, {"iou_threshold": 0.6})
    yield Case("just-below", exact, {"iou_threshold": np.nextafter(0.6, 1)})
    yield Case("all-of-it", (same[:1], same[:1]), {"iou_threshold": 1.0})
    points = np.array([[1.0, 1, 1, 1], [0, 0, 4, 0], [3, 3, 3, 3]])
    yield Case("no-area", (points, points))
    yield Case("no-area-in-a-crowd", (np.array([[0.0, 0, 9, 9]]), points, None, None, None, np.array([1])))
    yield Case("touching", (np.array([[0.0, 0, 5, 5]]), np.array([[5.0, 0, 10, 5], [0, 5, 5, 10]])))
    yield Case("negative-coordinates", (row - 20, row - 19))
    yield Case("tiny-threshold", (row, row[::-1]), {"iou_threshold": 1e-300})


CASES = {"match_boxes": list(_cases())}
