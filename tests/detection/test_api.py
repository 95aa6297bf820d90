"""Detection: laws, SciPy's assignment, the rivals' counts, images of every kind, merged counts, refusals."""

import warnings
from fractions import Fraction
from types import SimpleNamespace

import cuda_host
import numpy as np
import pytest
from cases.detection import draw
from checks import assert_same_bits
from optional import torch
from oracle.detection import iou as exact_iou
from oracle.detection import match_image
from scipy.optimize import linear_sum_assignment

import cmfast
from cmfast import detection, metrics, uncertainty

BOX, OTHER = [0, 0, 10, 10], [20, 0, 30, 10]


def images(n=6, seed=0, C=3, *, whole=False):
    """Return targets and predictions of `n` images, some without truths or without predictions."""
    rng, targets, predictions = np.random.default_rng(seed), [], []
    for k in range(n):
        true, pred = draw(rng, (), 4, 6, whole=whole)
        true, pred = true[: (4, 0, 3)[k % 3]], pred[: (6, 5, 0, 2)[k % 4]]
        targets.append({"boxes": true, "labels": rng.integers(0, C, len(true))})
        predictions.append({"boxes": pred, "labels": rng.integers(0, C, len(pred)), "scores": rng.random(len(pred))})
    return targets, predictions


def count_by_hand(targets, predictions, C, *, threshold=0.5, least=-np.inf, method="greedy"):
    """Return the matrix of every image, from the oracle's matches."""
    out = np.zeros((len(targets), C + 1, C + 1), np.int64)
    for M, true, pred in zip(out, targets, predictions, strict=True):
        boxes = [[[Fraction(x) for x in box] for box in one["boxes"].tolist()] for one in (true, pred)]
        labels = true["labels"].tolist(), pred["labels"].tolist()
        crowd = true.get("iscrowd", [0] * len(labels[0]))
        rules = {"threshold": threshold, "least": least, "method": method, "restricted": False}
        truth_of, prediction_of, _ = match_image(*boxes, pred["scores"].tolist(), labels, crowd, **rules)
        for p, t in enumerate(truth_of):
            if t >= -1:
                M[C if t == -1 else labels[0][t], labels[1][p]] += 1
        for t, p in enumerate(prediction_of):
            if p == -1:
                M[labels[0][t], C] += 1
    return out


@pytest.mark.parametrize("method", ["greedy", "optimal"])
@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_counts_are_those_of_the_oracle(method, threshold):
    targets, predictions = images(12)
    targets[0]["iscrowd"] = np.array([0, 1, 0, 0])
    want = count_by_hand(targets, predictions, 3, threshold=threshold, least=0.2, method=method)
    options = {"n_classes": 3, "iou_threshold": threshold, "score_threshold": 0.2, "method": method}
    each = detection.confusion_matrix(targets, predictions, per_image=True, **options)
    np.testing.assert_array_equal(each, want)
    np.testing.assert_array_equal(detection.confusion_matrix(targets, predictions, **options), want.sum(0))
    assert want[:, :3, :3].sum() > 5


@pytest.mark.parametrize("restricted", [False, True])
def test_optimal_is_the_assignment_of_scipy(restricted):
    rng = np.random.default_rng(3)
    for n, m in ((1, 1), (5, 5), (12, 30), (30, 12), (40, 40)):
        true, pred = draw(rng, (), n, m)
        labels = rng.integers(0, 2, n), rng.integers(0, 2, m)
        near = np.array([[float(exact_iou(t, p)) for p in pred.tolist()] for t in true.tolist()])
        near[near < 0.05] = 0.0
        if restricted:
            near[labels[0][:, None] != labels[1]] = 0.0
        best = near[linear_sum_assignment(near, maximize=True)].sum()
        classes = dict(zip(("labels_true", "labels_pred"), labels, strict=True)) if restricted else {}
        found = detection.match(true, pred, method="optimal", iou_threshold=0.05, **classes)
        pairs = np.flatnonzero(found.true_index >= 0)
        np.testing.assert_allclose(near[found.true_index[pairs], pairs].sum(), best, rtol=1e-12)
        np.testing.assert_array_equal(found.pred_index[found.true_index[pairs]], pairs)


def test_greedy_takes_the_score_and_optimal_the_sum():
    true = [BOX, [3, 0, 13, 10]]
    pred = [[2, 0, 12, 10], [4, 0, 14, 10]]
    scores = [0.9, 0.1]
    greedy = detection.match(true, pred, scores, iou_threshold=0.3)
    optimal = detection.match(true, pred, scores, iou_threshold=0.3, method="optimal")
    assert greedy.true_index.tolist() == [1, 0]
    assert optimal.true_index.tolist() == [0, 1]
    assert optimal.iou.sum() > greedy.iou.sum()
    assert detection.match(true, pred, scores[::-1], iou_threshold=0.3).true_index.tolist() == [0, 1]


@pytest.mark.parametrize("method", ["greedy", "optimal"])
def test_truths_in_one_place_are_told_apart_by_class(method):
    for labels in ([0, 1], [1, 0]):
        target = {"boxes": [BOX, BOX], "labels": labels}
        one = {"boxes": [BOX], "labels": [1], "scores": [0.5]}
        M = detection.confusion_matrix([target], [one], n_classes=2, method=method)
        assert M.tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_ties_take_what_is_given_first():
    found = detection.match([BOX, BOX], [BOX, BOX, BOX], [0.5, 0.9, 0.5])
    assert found.true_index.tolist() == [1, 0, -1]


def test_kinds_of_images_agree():
    targets, predictions = images(whole=True)
    want = detection.confusion_matrix(targets, predictions, n_classes=3)
    lists = [[{key: x.tolist() for key, x in one.items()} for one in side] for side in (targets, predictions)]
    assert_same_bits(detection.confusion_matrix(*lists, n_classes=3), want)
    single = [[{**one, "boxes": one["boxes"].astype(np.float32)} for one in side] for side in (targets, predictions)]
    assert_same_bits(detection.confusion_matrix(*single, n_classes=3), want)
    texts = [
        [{**one, "labels": np.array(list("abc"))[one["labels"]]} for one in side] for side in (targets, predictions)
    ]
    for given in (texts, (targets, predictions)):
        assert_same_bits(detection.confusion_matrix(*given, labels=["a", "b", "c"]), want)
    other = detection.confusion_matrix(targets, predictions, labels=[2, 0, 1])
    assert_same_bits(other, want[np.ix_([2, 0, 1, 3], [2, 0, 1, 3])])
    assert_same_bits(detection.confusion_matrix(targets, predictions), want)  # all three occur
    objects = [
        [SimpleNamespace(xyxy=one["boxes"], class_id=one["labels"], confidence=one.get("scores")) for one in side]
        for side in (targets, predictions)
    ]
    assert_same_bits(detection.confusion_matrix(*objects, n_classes=3), want)
    tensors = [
        [{key: torch.from_numpy(x) for key, x in one.items()} for one in side] for side in (targets, predictions)
    ]
    found = detection.confusion_matrix(*tensors, n_classes=3)
    assert isinstance(found, torch.Tensor)
    assert_same_bits(found.numpy(), want)


@pytest.mark.parametrize("box_format", ["xywh", "cxcywh"])
def test_formats_of_boxes(box_format):
    targets, predictions = images(whole=True)
    want = detection.confusion_matrix(targets, predictions, n_classes=3)

    def change(boxes):
        sizes = boxes[:, 2:] - boxes[:, :2]
        return np.concatenate([boxes[:, :2] + (sizes / 2 if box_format == "cxcywh" else 0), sizes], 1)

    changed = [[{**one, "boxes": change(one["boxes"])} for one in side] for side in (targets, predictions)]
    assert_same_bits(detection.confusion_matrix(*changed, n_classes=3, box_format=box_format), want)


def test_lists_and_batches_of_boxes_are_images():
    true, pred = draw(np.random.default_rng(5), (3,), 4, 5)
    scores = np.random.default_rng(6).random((3, 5))
    batch = detection.match(true, pred, scores)
    each = detection.match(list(true), list(pred), list(scores))
    for k, one in enumerate(each):
        alone = detection.match(true[k], pred[k], scores[k])
        for part, whole, single in zip(one, batch, alone, strict=True):
            assert_same_bits(part, whole[k])
            assert_same_bits(part, single)
    ragged = detection.match([true[0], []], [[], pred[1][:2]])
    assert [one.true_index.tolist() for one in ragged] == [[], [-1, -1]]
    assert [one.pred_index.tolist() for one in ragged] == [[-1] * 4, []]
    tensors = detection.match([torch.from_numpy(x) for x in true], [torch.from_numpy(x) for x in pred])
    assert all(isinstance(part, torch.Tensor) for one in tensors for part in one)


def test_threads_leave_the_bits():
    true, pred = draw(np.random.default_rng(5), (300,), 20, 20)
    for method in ("greedy", "optimal"):
        one, many = (detection.match(true, pred, method=method, num_threads=n) for n in (1, 4))
        for part, other in zip(one, many, strict=True):
            assert_same_bits(part, other)


def test_counts_merge_and_have_intervals():
    targets, predictions = images(12)
    whole = detection.count(targets, predictions, labels=["a", "b", "c"])
    parts = [detection.count(*part, labels=["a", "b", "c"]) for part in zip(targets, predictions, strict=True)]
    assert cmfast.ConfusionCounts.merge(parts) == whole
    assert whole.labels == ("a", "b", "c", "background")
    want = detection.confusion_matrix(targets, predictions, n_classes=3)
    assert_same_bits(np.asarray(whole.matrix), want)
    numbered = detection.count(targets, predictions, n_classes=3)
    assert numbered.labels == (0, 1, 2, -1)
    assert_same_bits(np.asarray(numbered.matrix), want)
    cameras = ["north", "south"] * 6
    grouped = detection.count(targets, predictions, n_classes=3, groups=cameras)
    assert grouped.groups == ("north", "south")
    assert_same_bits(np.asarray(grouped.matrix.sum(0)), want)
    each = detection.confusion_matrix(targets, predictions, n_classes=3, per_image=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        found = uncertainty.interval(each, "recall", clusters=True, n_resamples=200)
    np.testing.assert_allclose(found.estimate, metrics.recall(want), rtol=1e-14)
    found, _ = whole.plot(), whole.interval("recall", method="wilson", on_failure="ignore")
    assert found is not None


def test_nothing_at_all():
    none = {"boxes": [], "labels": []}
    assert detection.confusion_matrix([], [], n_classes=1).tolist() == [[0, 0], [0, 0]]
    assert detection.confusion_matrix([], [], n_classes=1, per_image=True).shape == (0, 2, 2)
    assert detection.confusion_matrix(none, none, n_classes=1).tolist() == [[0, 0], [0, 0]]
    assert detection.confusion_matrix([none], [none]).tolist() == [[0]]
    assert detection.match([], []).iou.shape == (0,)
    assert detection.count(none, none, n_classes=2).matrix.sum() == 0


def test_pycocotools():
    """The same pairs within a class at IoU .5 as COCO's evaluation, which has no ties here."""
    mask, rng = pytest.importorskip("pycocotools.mask"), np.random.default_rng(8)
    for _ in range(20):
        true, pred = draw(rng, (), 5, 8)
        scores = rng.random(8)
        sizes = [np.concatenate([x[:, :2], x[:, 2:] - x[:, :2]], 1) for x in (true, pred)]
        near = mask.iou(sizes[1], sizes[0], [0] * 5)  # predictions by truths
        taken, want = set(), np.full(8, -1)
        for p in np.argsort(-scores):
            free = [t for t in range(5) if t not in taken and near[p, t] >= 0.5]
            if free:
                want[p] = max(free, key=lambda t: near[p, t])
                taken.add(want[p])
        found = detection.match(true, pred, scores)
        np.testing.assert_array_equal(found.true_index, want)
        pairs = np.flatnonzero(want >= 0)
        np.testing.assert_allclose(found.iou[pairs], near[pairs, want[pairs]], rtol=1e-12)


NAN = float("nan")
ONE = {"boxes": [BOX], "labels": [0], "scores": [0.5]}
REFUSED = {
    "negative width": (lambda: detection.match([BOX, [3, 0, 2, 1]], [BOX]), r"boxes_true must be .*in box 1$"),
    "NaN": (
        lambda: detection.match([[BOX], [BOX]], [[BOX], [BOX, [0, 0, NAN, 1]]]),
        r"boxes_pred .*in image 1, box 1$",
    ),
    "infinite": (lambda: detection.match([[0, 0, np.inf, 1]], [BOX]), "boxes_true must be of finite"),
    "negative size": (lambda: detection.match([[0, 0, -1, 1]], [BOX], box_format="xywh"), "sizes of at least 0"),
    "batch": (
        lambda: detection.match(np.ones((2, 1, 4)), np.array([[BOX], [[1, 0, 0, 1]]])),
        r"boxes_pred .*in image 1, box 0$",
    ),
    "NaN score": (
        lambda: detection.match([BOX], [BOX, BOX], [0.5, NAN]),
        "scores must be numbers, not NaN, got nan in",
    ),
    "three numbers": (lambda: detection.match([[0, 0, 1]], [BOX]), r"boxes_true must be of shape \(\.\.\., n, 4\)"),
    "scores of another length": (lambda: detection.match([BOX], [BOX], [1, 2]), r"scores must be of shape \(1,\)"),
    "labels of one side": (lambda: detection.match([BOX], [BOX], labels_true=[0]), "both given, or none"),
    "threshold of 0": (lambda: detection.match([BOX], [BOX], iou_threshold=0), "above 0 and at most 1, got 0"),
    "threshold without scores": (lambda: detection.match([BOX], [BOX], score_threshold=0.5), "None without scores"),
    "images": (lambda: detection.match([[BOX], [BOX]], [[BOX]]), "boxes_pred must be of 2 images as boxes_true, got 1"),
    "image of a dict": (
        lambda: detection.confusion_matrix([ONE, ONE], [ONE, {**ONE, "boxes": [[5, 5, 1, 9]]}]),
        r"predictions\[1\]\['boxes'\] must be .*in image 1, box 0$",
    ),
    "score of a dict": (
        lambda: detection.confusion_matrix([ONE], [{**ONE, "scores": [NAN]}]),
        r"predictions\[0\]\['scores'\] must be numbers, not NaN",
    ),
    "class": (
        lambda: detection.confusion_matrix([{**ONE, "labels": [5]}], [ONE], n_classes=2),
        r"targets\[0\]\['labels'\] must be among the classes \[0, 1\], got 5 in image 0, box 0",
    ),
    "lengths of lists": (lambda: detection.confusion_matrix([ONE], [ONE, ONE]), "predictions must be of 1 images"),
    "no labels": (
        lambda: detection.confusion_matrix([{"boxes": []}], [ONE]),
        r"targets\[0\]\['labels'\] must be given",
    ),
    "scores of some": (
        lambda: detection.confusion_matrix([ONE, ONE], [ONE, {"boxes": [BOX], "labels": [0]}]),
        r"predictions\[1\]\['scores'\] must be given, as for predictions\[0\]",
    ),
    "background": (lambda: detection.count([ONE], [ONE], labels=[0, -1]), "labels must be without -1"),
    "no classes": (lambda: detection.count([ONE], [ONE]), "n_classes or labels must be given"),
    "groups": (lambda: detection.count([ONE], [ONE], n_classes=1, groups=[1, 2]), "groups must be of 1 images"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, said = REFUSED[name]
    with pytest.raises(ValueError, match=said):
        call()


def test_kinds_that_are_refused():
    for call, said in (
        (lambda: detection.confusion_matrix([3], [ONE]), r"targets\[0\] must be a dict"),
        (lambda: detection.confusion_matrix(3, [ONE]), "targets must be a list of images"),
        (lambda: detection.confusion_matrix([ONE], [{**ONE, "labels": ["a"]}]), "all integers or all text"),
        (lambda: detection.confusion_matrix([ONE], [{**ONE, "boxes": torch.ones(1, 4)}]), "must come from one library"),
    ):
        with pytest.raises(TypeError, match=said):
            call()


def test_several_ignored_labels_of_masks():
    """Semantic masks: true pixels of any of the ignored labels count nowhere, in every library."""
    rng = np.random.default_rng(2)
    truth, guess = rng.choice([0, 1, 2, 255], (2, 5, 6, 7)), rng.integers(0, 3, (2, 5, 6, 7))
    truth, guess = truth[0], guess[0]
    want = np.zeros((3, 3), np.int64)
    for t, p in zip(truth.ravel().tolist(), guess.ravel().tolist(), strict=True):
        if t not in (0, 255):
            want[t, p] += 1
    options = {"n_classes": 3, "sample_axes": 3, "ignore_index": [0, 255]}
    for make in (np.asarray, torch.from_numpy):
        for dtype in (np.uint8, np.int64):
            found = cmfast.confusion_matrix(make(truth.astype(dtype)), make(guess.astype(dtype)), **options)
            assert_same_bits(np.asarray(found), want)
    dask = pytest.importorskip("dask.array")
    lazy = [dask.from_array(x, chunks=(2, 3, 7)) for x in (truth, guess)]
    assert_same_bits(cmfast.confusion_matrix(*lazy, **options).compute(), want)
    counts = cmfast.ConfusionCounts(n_classes=3).update(truth, guess, ignore_index=[0, 255])
    assert_same_bits(np.asarray(counts.matrix), want)
    found = metrics.from_labels(truth.ravel(), guess.ravel(), "jaccard", n_classes=3, ignore_index=[0, 255])
    assert_same_bits(np.asarray(found), metrics.jaccard(want))


@pytest.mark.cuda_host
@pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))
def test_arrays_on_a_device_are_refused_by_name():
    import device

    boxes = device.asarray(np.array([[0.0, 0.0, 9.0, 9.0]]))
    image = {"boxes": boxes, "labels": [0]}
    with pytest.raises(NotImplementedError, match="match_boxes has no cuda kernel"):
        detection.match(boxes, boxes)
    with pytest.raises(NotImplementedError, match=r"targets\[0\]\['boxes'\] is on .*copy it to the host"):
        detection.confusion_matrix([image], [image])
