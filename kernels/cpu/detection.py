"""Match true and predicted boxes of many images by intersection over union (IoU), greedily or optimally.

Greedy: predictions by descending score take the free truth of largest IoU, as in COCO's evaluation (Lin et al. 2014).
Optimal: the assignment of largest summed IoU, by shortest augmenting paths with potentials (Kuhn 1955; Jonker and
Volgenant 1987). Coordinates are float64, so that the IoU of boxes with coordinates below 2**25 is correctly rounded.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.solver.assignment import assign_rows_inline
from cmfast.kernels.shared.detection import IGNORED, SAME_CLASS, UNMATCHED

SECONDS_PER_PAIR = 3e-9


@jit(inner=True, inline=True)
def _intersect(first, second):
    """Return the area of the intersection of two boxes, given by corners."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return width * height if width > 0.0 and height > 0.0 else 0.0


@jit(inner=True, inline=True)
def _overlap(boxes, areas, t, p):
    """Return the IoU of truth `t` and prediction `p`; 0 if both are empty."""
    shared = _intersect(boxes[0][t], boxes[1][p])
    return shared / (areas[0][t] - shared + areas[1][p]) if shared > 0.0 else 0.0


@jit(inner=True)
def _assign(profit, partner):
    """Write the column of each row in the assignment of largest total profit; at least as many columns as rows."""
    n, m = profit.shape
    row_of = np.zeros(m + 1, np.int64)
    assign_rows_inline(profit, np.zeros(n + 1), np.zeros(m + 1), row_of, 0, n)
    for j in range(1, m + 1):
        if row_of[j] != 0:
            partner[row_of[j] - 1] = j - 1


@jit(inner=True)
def _match_greedily(boxes, areas, labels, crowd, order, rules, spans, out):
    """Match the boxes of one image: each prediction in its turn with the free truth of largest IoU.

    Ties go to a truth of the prediction's class, then to the first.
    """
    threshold, restricted, labelled = rules
    first, last, first_turn, last_turn = spans
    truth_of, prediction_of, iou = out
    for turn in range(first_turn, last_turn):
        p = order[turn]
        if truth_of[p] == IGNORED:
            continue
        best, most, same = -1, 0.0, False
        for t in range(first, last):
            alike = labelled and labels[0][t] == labels[1][p]
            if crowd[t] or prediction_of[t] >= 0 or (restricted and not alike):
                continue
            value = _overlap(boxes, areas, t, p)
            if value >= threshold and (value > most or (value == most and alike and not same)):
                best, most, same = t, value, alike
        if best >= 0:
            truth_of[p], prediction_of[best], iou[p] = best - first, p - first_turn, most


@jit(inner=True)
def _match_optimally(boxes, areas, labels, crowd, order, rules, spans, out):
    """Match the boxes of one image so that the summed IoU of pairs that reach the threshold is largest."""
    threshold, restricted, labelled = rules
    first, last, first_turn, last_turn = spans
    truth_of, prediction_of, iou = out
    truths, turns = np.empty(last - first, np.int64), np.empty(last_turn - first_turn, np.int64)
    n, m = 0, 0
    near = np.zeros((last - first, last_turn - first_turn))
    for turn in range(first_turn, last_turn):
        p, found = order[turn], False
        if truth_of[p] == IGNORED:
            continue
        for t in range(first, last):
            alike = labelled and labels[0][t] == labels[1][p]
            if not crowd[t] and (alike or not restricted):
                value = _overlap(boxes, areas, t, p)
                if value >= threshold:
                    near[t - first, turn - first_turn] = value
                    found = True
        if found:
            turns[m] = turn - first_turn
            m += 1
    for t in range(last - first):
        for k in range(m):
            if near[t, turns[k]] > 0.0:
                truths[n] = t
                n += 1
                break
    if n == 0:
        return
    profit = np.empty((min(n, m), max(n, m)))
    for a in range(n):
        for b in range(m):
            value = near[truths[a], turns[b]]
            p = order[first_turn + turns[b]]
            if value > 0.0 and not restricted and labelled and labels[0][first + truths[a]] == labels[1][p]:
                value += SAME_CLASS
            if m <= n:
                profit[b, a] = value
            else:
                profit[a, b] = value
    partner = np.empty(min(n, m), np.int64)
    _assign(profit, partner)
    for k in range(min(n, m)):
        a, b = (partner[k], k) if m <= n else (k, partner[k])
        value = near[truths[a], turns[b]]
        if value > 0.0:
            p = order[first_turn + turns[b]]
            truth_of[p], prediction_of[first + truths[a]], iou[p] = truths[a], p - first_turn, value


@jit()
def _match_images(given, order, offsets, rules, optimal, out, start, stop):
    """Match the boxes of some images, and write partners of predictions and truths, and the IoU of predictions.

    `given` are corners, areas, labels and crowd flags; `order` are the predictions of each image by descending score.
    Crowd regions are IGNORED, and so is a prediction without a partner if one covers a share that reaches the
    threshold.
    """
    boxes, areas, labels, crowd = given
    threshold, restricted, _ = rules
    truth_of, prediction_of, iou = out
    for image in range(start, stop):
        first, last = offsets[0][image], offsets[0][image + 1]
        first_turn, last_turn = offsets[1][image], offsets[1][image + 1]
        spans = first, last, first_turn, last_turn
        crowded = False
        for t in range(first, last):
            prediction_of[t] = IGNORED if crowd[t] else UNMATCHED
            crowded |= crowd[t]
        if optimal:
            _match_optimally(boxes, areas, labels, crowd, order, rules, spans, out)
        else:
            _match_greedily(boxes, areas, labels, crowd, order, rules, spans, out)
        if not crowded:
            continue
        for p in range(first_turn, last_turn):
            if truth_of[p] != UNMATCHED or areas[1][p] == 0.0:
                continue
            for t in range(first, last):
                if crowd[t] and (not restricted or labels[0][t] == labels[1][p]):
                    share = _intersect(boxes[0][t], boxes[1][p]) / areas[1][p]
                    if share >= threshold:
                        truth_of[p], iou[p] = IGNORED, max(iou[p], share)


def _find_corners(boxes, box_format):
    """Return corners (N, 4), areas, and the index of the first box that is not finite or of negative size, or -1."""
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    with np.errstate(all="ignore"):
        if box_format == "xyxy":
            corners, sizes = boxes, boxes[:, 2:] - boxes[:, :2]
        else:
            sizes = boxes[:, 2:]
            low = boxes[:, :2] if box_format == "xywh" else boxes[:, :2] - sizes / 2
            corners = np.concatenate([low, low + sizes], axis=1)
        areas = sizes[:, 0] * sizes[:, 1]
        good = np.isfinite(corners).all(1) & np.isfinite(areas) & (sizes >= 0.0).all(1)
    bad = np.flatnonzero(~good)
    return _freeze(corners), _freeze(areas), int(bad[0]) if bad.size else -1


def match_boxes(
    boxes_true,
    boxes_pred,
    scores=None,
    labels_true=None,
    labels_pred=None,
    iscrowd=None,
    *,
    iou_threshold,
    score_threshold=-math.inf,
    optimal=False,
    restricted=False,
    box_format="xyxy",
    offsets=None,
    num_threads=None,
):
    """Return the truth of each prediction, the prediction of each truth, IoUs, and the first bad box of each and score.

    Boxes are (..., n, 4) and (..., m, 4), and the leading axes images; or with `offsets` (of truths, of predictions)
    they are flat. `restricted`: only boxes of one class match; else labels decide ties alone. The last result is three
    flat indices, -1 where all are good.
    """
    shapes = boxes_true.shape[:-1], boxes_pred.shape[:-1]
    true, true_areas, bad_truth = _find_corners(boxes_true, box_format)
    pred, pred_areas, bad_prediction = _find_corners(boxes_pred, box_format)
    if offsets is None:
        images = math.prod(shapes[0][:-1])
        offsets = tuple(shape[-1] * np.arange(images + 1) for shape in shapes)
    truth_of, prediction_of = np.full(len(pred), UNMATCHED), np.full(len(true), UNMATCHED)
    iou, bad_score = np.zeros(len(pred)), -1
    image_of = np.repeat(np.arange(len(offsets[1]) - 1), np.diff(offsets[1]))
    order = np.arange(len(pred))
    if scores is not None:
        scores = np.asarray(scores, np.float64).reshape(-1)
        bad = np.flatnonzero(np.isnan(scores))
        bad_score = int(bad[0]) if bad.size else -1
        order = np.lexsort((-scores, image_of))
        truth_of[scores < score_threshold] = IGNORED
    faults = bad_truth, bad_prediction, bad_score
    if max(faults) < 0:
        labelled = labels_true is not None and labels_pred is not None
        labels = tuple(
            _freeze(np.asarray(y).reshape(-1).astype(np.int64, copy=False) if labelled else np.empty(0, np.int64))
            for y in (labels_true, labels_pred)
        )
        crowd = np.zeros(len(true), np.bool_) if iscrowd is None else np.asarray(iscrowd).reshape(-1) != 0
        ends = tuple(_freeze(each.astype(np.int64, copy=False)) for each in offsets)
        rules = float(iou_threshold), bool(restricted), labelled
        boxes = (true, pred), (true_areas, pred_areas), labels, _freeze(crowd)
        images = len(offsets[0]) - 1
        pairs = float((np.diff(offsets[0]) * np.diff(offsets[1]).astype(float)).sum())
        seconds = SECONDS_PER_PAIR * (4.0 if optimal else 1.0) * pairs
        out = truth_of, prediction_of, iou
        pool.run(
            _match_images,
            (boxes, _freeze(order), ends, rules, bool(optimal), out),
            images,
            seconds=seconds,
            num_threads=num_threads,
        )
    return truth_of.reshape(shapes[1]), prediction_of.reshape(shapes[0]), iou.reshape(shapes[1]), faults


def _freeze(x):
    """Return a contiguous read-only array: kernels are compiled for these alone."""
    out = np.ascontiguousarray(x).view()
    out.setflags(write=False)
    return out
