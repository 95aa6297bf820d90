"""Detection: the confusion matrix with a background of many images, from boxes."""

import numpy as np

from benchmarks._job import Job, Rival
from cmfast import detection

CLASSES = 10


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    return [_count(method, small=small) for method in ("greedy", "optimal")]


def _draw(n: int):
    """Return targets and predictions of `n` images of twenty objects; a tenth is missed, labelled wrongly or false."""
    rng = np.random.default_rng(0)
    targets, predictions = [], []
    for _ in range(n):
        low = rng.uniform(0, 600, (20, 2))
        true = np.concatenate([low, low + rng.uniform(20, 120, (20, 2))], 1)
        labels = rng.integers(0, CLASSES, 20)
        pred = true[2:] + rng.normal(0, 2, (18, 4))
        false = np.concatenate([low[:2], low[:2] + rng.uniform(20, 120, (2, 2))], 1) + 300
        named = np.where(rng.random(20) < 0.1, rng.integers(0, CLASSES, 20), np.roll(labels, -2))
        targets.append({"boxes": true, "labels": labels})
        predictions.append({"boxes": np.concatenate([pred, false]), "labels": named, "scores": rng.random(20)})
    return targets, predictions


def _count(method: str, *, small: bool) -> Job:
    """Return the job: one matrix of all images."""
    B, few = (20, 5) if small else (5_000, 500)
    targets, predictions = _draw(B)

    def run(threads):
        return detection.confusion_matrix(
            targets, predictions, n_classes=CLASSES, method=method, per_image=True, num_threads=threads
        )

    want = _count_in_numpy(targets, predictions, method)

    def check(found):
        np.testing.assert_array_equal(found, want[: len(found)])
        return "same counts"

    def check_sum(found):
        total = want[:few].sum(0)
        apart = int(np.abs(np.asarray(found) - total).sum())
        if apart > 0.02 * total.sum():
            msg = f"{apart} of {total.sum()} boxes are counted elsewhere"
            raise AssertionError(msg)
        return f"{apart} of {total.sum()} counted elsewhere: other rules of matching" if apart else "same counts"

    def use_supervision():
        import supervision as sv

        corners = [np.column_stack([one["boxes"], one["labels"]]) for one in targets[:few]]
        found = [np.column_stack([one["boxes"], one["labels"], one["scores"]]) for one in predictions[:few]]
        names = [str(k) for k in range(CLASSES)]
        return sv.ConfusionMatrix.from_tensors(found, corners, names, conf_threshold=0.0, iou_threshold=0.5).matrix

    rivals = [
        Rival("NumPy and SciPy", lambda: _count_in_numpy(targets[:few], predictions[:few], method), few, check),
        Rival("pycocotools' IoU", lambda: _count_with_coco(targets[:few], predictions[:few], method), few, check,
              needs="pycocotools"),
        Rival("supervision", use_supervision, few, check_sum, needs="supervision"),
    ]  # fmt: skip
    size = f"{B:,} images, 20 boxes"
    boxes = np.stack([one["boxes"] for one in predictions])
    return Job(f"detection {method}", size, B, "images", run, check, boxes.copy, "copy", rivals)


def _count_in_numpy(targets, predictions, method):
    """Return the matrix of every image, from IoUs of NumPy."""
    return _count_pairs(targets, predictions, method, _overlap)


def _count_with_coco(targets, predictions, method):
    """Return the matrix of every image, from IoUs of pycocotools."""
    from pycocotools import mask

    def overlap(true, pred):
        sizes = [np.concatenate([x[:, :2], x[:, 2:] - x[:, :2]], 1) for x in (true, pred)]
        return mask.iou(*sizes, [0] * len(pred))

    return _count_pairs(targets, predictions, method, overlap)


def _overlap(true, pred):
    """Return the IoU of every two boxes."""
    low, high = np.maximum(true[:, None, :2], pred[:, :2]), np.minimum(true[:, None, 2:], pred[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), -1)
    areas = [np.prod(x[:, 2:] - x[:, :2], -1) for x in (true, pred)]
    return shared / (areas[0][:, None] + areas[1] - shared)


def _count_pairs(targets, predictions, method, overlap):
    """Return the matrix of every image, matching by `overlap`."""
    from scipy.optimize import linear_sum_assignment

    out = np.zeros((len(targets), CLASSES + 1, CLASSES + 1), np.int64)
    for M, true, pred in zip(out, targets, predictions, strict=True):
        near = overlap(true["boxes"], pred["boxes"])
        near[near < 0.5] = 0.0
        truth_of = np.full(len(pred["boxes"]), -1)
        if method == "optimal":
            rows, columns = linear_sum_assignment(near, maximize=True)
            good = near[rows, columns] > 0
            truth_of[columns[good]] = rows[good]
        else:
            for p in np.argsort(-pred["scores"], kind="stable"):
                t = near[:, p].argmax()
                if near[t, p] > 0:
                    truth_of[p], near[t] = t, 0.0
        missed = np.setdiff1d(np.arange(len(true["boxes"])), truth_of)
        np.add.at(M, (np.append(true["labels"], CLASSES)[truth_of], pred["labels"]), 1)
        np.add.at(M, (true["labels"][missed], CLASSES), 1)
    return out
