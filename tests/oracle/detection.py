"""Boxes matched by IoU in fractions, rounded once: greedy by the rule of the page, optimal by trying all."""

from fractions import Fraction

import numpy as np

NONE, IGNORED = -1, -2


def corners(box, box_format):
    """Return the corners of a box as fractions."""
    a, b, c, d = (Fraction(x) for x in box)
    if box_format == "xyxy":
        return a, b, c, d
    if box_format == "cxcywh":
        a, b = a - c / 2, b - d / 2
    return a, b, a + c, b + d


def area(box):
    """Return the area of a box given by corners."""
    return (box[2] - box[0]) * (box[3] - box[1])


def shared(one, other):
    """Return the area of the intersection of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, Fraction(0)) * max(height, Fraction(0))


def iou(one, other):
    """Return the intersection over union; 0 of two empty boxes."""
    common = shared(one, other)
    return common / (area(one) + area(other) - common) if common else Fraction(0)


def greedy(order, near, alike):
    """Return the truth of each prediction: in order, the free one of largest IoU, of its class, given first."""
    found, taken = {}, set()
    for p in order:
        free = [t for t in near[p] if t not in taken]
        if free:
            found[p] = min(free, key=lambda t: (-float(near[p][t]), not alike(t, p), t))
            taken.add(found[p])
    return found


def optimal(order, near, bonus):
    """Return the assignment of largest summed IoU, of all there are."""
    best = (Fraction(-1), {})

    def search(k, total, found):
        nonlocal best
        if k == len(order):
            best = max(best, (total, dict(found)), key=lambda pair: pair[0])
            return
        p = order[k]
        search(k + 1, total, found)
        for t, value in near[p].items():
            if t not in found.values():
                search(k + 1, total + value + bonus(t, p), {**found, p: t})

    search(0, Fraction(0), {})
    return best[1]


def match_image(true, pred, scores, labels, crowd, *, threshold, least, method, restricted):
    """Return the truth of each prediction, the prediction of each truth, and the IoU of predictions, of one image."""
    truth_of, prediction_of, values = [NONE] * len(pred), [NONE] * len(true), [Fraction(0)] * len(pred)
    alike = lambda t, p: labels is not None and labels[0][t] == labels[1][p]  # noqa: E731
    may = lambda t, p: not restricted or alike(t, p)  # noqa: E731
    kept = [p for p in range(len(pred)) if scores is None or scores[p] >= least]
    order = kept if scores is None else sorted(kept, key=lambda p: -scores[p])
    usual = [t for t in range(len(true)) if not crowd[t]]
    every = {p: {t: iou(true[t], pred[p]) for t in usual if may(t, p)} for p in order}
    near = {p: {t: x for t, x in found.items() if float(x) >= threshold} for p, found in every.items()}
    bonus = lambda t, p: Fraction(1, 2**30) if alike(t, p) and not restricted else Fraction(0)  # noqa: E731
    found = greedy(order, near, alike) if method == "greedy" else optimal(order, near, bonus)
    for p, t in found.items():
        truth_of[p], prediction_of[t], values[p] = t, p, near[p][t]
    for t in range(len(true)):
        if crowd[t]:
            prediction_of[t] = IGNORED
    for p in range(len(pred)):
        if p not in kept:
            truth_of[p] = IGNORED
        elif p not in found and area(pred[p]):
            shares = [shared(true[t], pred[p]) / area(pred[p]) for t in range(len(true)) if crowd[t] and may(t, p)]
            inside = max((x for x in shares if float(x) >= threshold), default=None)
            if inside is not None:
                truth_of[p], values[p] = IGNORED, inside
    return truth_of, prediction_of, [float(x) for x in values]


def match_boxes(
    boxes_true,
    boxes_pred,
    scores=None,
    labels_true=None,
    labels_pred=None,
    iscrowd=None,
    *,
    iou_threshold=0.5,
    score_threshold=None,
    method="greedy",
    box_format="xyxy",
    restricted=True,
):
    """Return the truth of each prediction, the prediction of each truth, and the IoU of predictions, of a batch."""
    truth_of, prediction_of = (np.zeros(x.shape[:-1], np.int64) for x in (boxes_pred, boxes_true))
    iou_of = np.zeros(boxes_pred.shape[:-1])
    for index in np.ndindex(boxes_true.shape[:-2]):
        parts = match_image(
            [corners(box, box_format) for box in boxes_true[index].tolist()],
            [corners(box, box_format) for box in boxes_pred[index].tolist()],
            None if scores is None else scores[index].tolist(),
            None if labels_true is None else (labels_true[index].tolist(), labels_pred[index].tolist()),
            [False] * boxes_true.shape[-2] if iscrowd is None else [x != 0 for x in iscrowd[index].tolist()],
            threshold=iou_threshold,
            least=score_threshold if score_threshold is not None else -np.inf,
            method=method,
            restricted=restricted and labels_true is not None,
        )
        truth_of[index], prediction_of[index], iou_of[index] = parts
    return truth_of, prediction_of, iou_of


ORACLES = {"match_boxes": match_boxes}
