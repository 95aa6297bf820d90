"""Count confusion matrices of detectors, with a background class for missed truths and false predictions."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np

from cmfast import counting
from cmfast._core import dispatch, validate
from cmfast._core import labels as _labels
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, BoxFormat, Detections, MatchMethod
from cmfast._core.usual_options import explain_options
from cmfast.confusion_counts import ConfusionCounts
from cmfast.detection import _images
from cmfast.kernels.shared.detection import IGNORED, UNMATCHED

BACKGROUND, BACKGROUND_ID = "background", -1


class _CountedBoxes(NamedTuple):
    """Classes of pairs as positions in `classes`, where the number of classes is the background."""

    y_true: np.ndarray
    y_pred: np.ndarray
    image: np.ndarray
    """The image of each pair."""
    n_images: int
    classes: list[Any]
    like: Any


@explain_options
def confusion_matrix(
    targets: Detections,
    predictions: Detections,
    *,
    n_classes: int | None = None,
    labels: Array | None = None,
    iou_threshold: float = 0.5,
    score_threshold: float | None = None,
    method: MatchMethod = "greedy",
    box_format: BoxFormat = "xyxy",
    per_image: bool = False,
    num_threads: int | None = None,
) -> Any:
    """Count the confusion matrix of a detector, whose last row and column are the background.

    Boxes of any classes match. A pair counts in the row of its true class and the column of the predicted
    one, a truth without a prediction in the column of the background, and a prediction without a truth in its row.

    Parameters
    ----------
    targets : list of dict
        The true boxes of each image: "boxes" of shape (n, 4), "labels" of shape (n,), integers or text, and perhaps
        "iscrowd" of shape (n,), nonzero for regions in which predictions without a truth are ignored. Also detections
        of the library supervision. One dict is one image.
    predictions : list of dict
        The predicted boxes of each image: "boxes", "labels", and perhaps "scores" of shape (m,).
    n_classes : int, optional
        The classes are ``0, ..., n_classes - 1``.
    labels : sequence, shape (C,), optional
        The classes in order, as they occur in the boxes; or the names of the classes 0, 1, ... Default: the labels that
        occur, sorted.
    iou_threshold : float
        Least IoU of a pair, above 0 and at most 1.
    score_threshold : float, optional
        Predictions with a lower score are left out. Default: none, and each counts.
    method : {"greedy", "optimal"}
        As for :func:`match`.
    box_format : {"xyxy", "xywh", "cxcywh"}
        As for :func:`match`.
    per_image : bool
        Return a matrix for each image, for intervals with images as clusters.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array of int64, shape (C + 1, C + 1), or (images, C + 1, C + 1) with `per_image`
        Rows are true classes, columns predicted ones, and the background is last. Its own cell is 0. Library of the
        boxes of the first image.

    Raises
    ------
    TypeError, ValueError
        Images that are no dicts, or not as many of both; boxes that are not finite, or of negative size, NaN scores and
        labels that are not among the classes (the message names image and box); text and integer labels together.
    NotImplementedError
        Arrays on a GPU: only the CPU has a kernel.

    Notes
    -----
    Of truths with equal IoU a prediction takes one of its own class, else the first; "optimal" counts a pair of one
    class as 1e-9 more IoU. An IoU equal to the threshold is enough. The IoU of a box without area is 0.

    Metrics are those of any matrix: recall and precision of the classes are those of the detector at these thresholds.
    The background has no true negatives, so accuracy and specificity depend on how many boxes are wrong alone.

    Bad values: raise, see above. Synchronises the device. Reproducible: the same counts for any number of threads.

    References
    ----------
    Lin et al., Microsoft COCO: common objects in context, 2014.

    Examples
    --------
    >>> from cmfast import detection
    >>> targets = [
    ...     {"boxes": [[0, 0, 9, 9], [20, 0, 29, 9]], "labels": [0, 1]}
    ... ]
    >>> predictions = [
    ...     {
    ...         "boxes": [[1, 0, 10, 9], [40, 0, 49, 9]],
    ...         "labels": [1, 1],
    ...         "scores": [0.9, 0.4],
    ...     }
    ... ]
    >>> detection.confusion_matrix(targets, predictions, n_classes=2)
    array([[0, 1, 0],
           [0, 0, 1],
           [0, 1, 0]])
    """
    validate.flag("per_image", per_image)
    options = iou_threshold, score_threshold, method, box_format, num_threads
    pairs = _match_images(targets, predictions, (n_classes, labels), options)
    sizes: dict[str, Any] = {"n_classes": len(pairs.classes) + 1, "num_threads": num_threads}
    if per_image:
        sizes |= {"groups": pairs.image, "n_groups": pairs.n_images}
    matrix = counting.confusion_matrix(pairs.y_true, pairs.y_pred, **sizes)
    return matrix if pairs.like is None else adapter(pairs.like).from_host(matrix, pairs.like)


@explain_options
def count(
    targets: Detections,
    predictions: Detections,
    *,
    n_classes: int | None = None,
    labels: Array | None = None,
    groups: Array | Mapping[str, Any] | None = None,
    iou_threshold: float = 0.5,
    score_threshold: float | None = None,
    method: MatchMethod = "greedy",
    box_format: BoxFormat = "xyxy",
    num_threads: int | None = None,
) -> ConfusionCounts[Any]:
    """Count the confusions of a detector as counts that know their classes and can be merged.

    Parameters
    ----------
    targets, predictions : list of dict
        Boxes of each image, as for :func:`confusion_matrix`.
    n_classes : int, optional
        The classes are ``0, ..., n_classes - 1``, and the background is -1, the last one.
    labels : sequence, shape (C,), optional
        The classes in order, as for :func:`confusion_matrix`; the background is "background" next to text, else -1.
        One of `n_classes` and `labels` is needed, so that counts of parts have the same classes.
    groups : sequence, shape (images,), or dict of str to sequence, optional
        The group of each image: a camera, a patient, or the image itself; a dict for several columns.
    iou_threshold : float
        Least IoU of a pair, above 0 and at most 1.
    score_threshold : float, optional
        Predictions with a lower score are left out. Default: none, and each counts.
    method : {"greedy", "optimal"}
        As for :func:`match`.
    box_format : {"xyxy", "xywh", "cxcywh"}
        As for :func:`match`.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    ConfusionCounts
        Counts with the background as last class. A group without any box does not occur.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        As for :func:`confusion_matrix`; no classes given, or "background" or -1 among them.

    Notes
    -----
    Bad values: raise. Synchronises the device. Reproducible: the same counts for any number of threads and any parts.

    References
    ----------
    As for :func:`confusion_matrix`.

    Examples
    --------
    >>> from cmfast import detection
    >>> truth = {"boxes": [[0, 0, 9, 9]], "labels": [0]}
    >>> found = {"boxes": [[1, 0, 10, 9]], "labels": [0], "scores": [0.9]}
    >>> counts = detection.count(truth, found, labels=["car", "bus"])
    >>> counts += detection.count(
    ...     truth, [{"boxes": [], "labels": []}], labels=["car", "bus"]
    ... )
    >>> counts.labels
    ('car', 'bus', 'background')
    >>> counts.matrix.tolist()
    [[1, 0, 1], [0, 0, 0], [0, 0, 0]]
    """
    if n_classes is None and labels is None:
        validate.fail("n_classes or labels must be given, so that counts of parts have the same classes")
    options = iou_threshold, score_threshold, method, box_format, num_threads
    pairs = _match_images(targets, predictions, (n_classes, labels), options)
    text = bool(pairs.classes) and isinstance(pairs.classes[0], str)
    background = BACKGROUND if text else BACKGROUND_ID
    if background in pairs.classes:
        validate.refuse("labels", f"without {background!r}, which is the background", "it")
    names = np.array([*pairs.classes, background], object if text else np.int64)
    y_true, y_pred = names[pairs.y_true], names[pairs.y_pred]
    if pairs.like is not None and not text:
        y_true, y_pred = (adapter(pairs.like).from_host(y, pairs.like) for y in (y_true, y_pred))
    return ConfusionCounts(labels=list(names.tolist())).update(y_true, y_pred, groups=_spread_groups(groups, pairs))


def _spread_groups(groups: Any, pairs: _CountedBoxes) -> Any:
    """Return the group of each pair, given that of each image."""
    if groups is None:
        return None
    if isinstance(groups, Mapping):
        return {name: _spread_groups(column, pairs) for name, column in groups.items()}
    if isinstance(groups, str | bytes) or not hasattr(groups, "__len__"):
        validate.refuse("groups", "a sequence with the group of each image", type(groups).__name__, TypeError)
    if len(groups) != pairs.n_images:
        validate.refuse("groups", f"of {pairs.n_images} images as targets", f"{len(groups)}")
    values = list(groups.tolist() if hasattr(groups, "tolist") else groups)
    return [values[k] for k in pairs.image.tolist()]


def _match_images(targets: Any, predictions: Any, known: tuple[Any, Any], options: tuple[Any, ...]) -> _CountedBoxes:
    """Return the true and predicted class of every pair, missed truth and false prediction.

    `known` are the options `n_classes` and `labels`; `options` those of matching.
    """
    (n_classes, labels), (iou_threshold, score_threshold, method, box_format, num_threads) = known, options
    threshold, least = _images.check_numbers(iou_threshold, score_threshold)
    validate.choice("method", method, get_args(MatchMethod))
    validate.choice("box_format", box_format, get_args(BoxFormat))
    num_threads = validate.num_threads(num_threads)
    n_classes = None if n_classes is None else validate.count("n_classes", n_classes, least=1)
    listed = None if labels is None else _list_labels(labels, n_classes)
    _images.refuse_swapped_sides(targets, predictions)
    true = _images.read_images("targets", targets, box_format, predicted=False)
    pred = _images.read_images("predictions", predictions, box_format, predicted=True)
    if len(true.names) != len(pred.names):
        validate.refuse("predictions", f"of {len(true.names)} images as targets", f"{len(pred.names)}")
    if true.like is not None and adapter(true.like) is not adapter(pred.like):
        dispatch.refuse_libraries({f"{one.names[0]}['boxes']": one.like for one in (true, pred)})
    if least > -np.inf and pred.scores is None and len(pred.boxes):
        validate.refuse("score_threshold", "None without scores", score_threshold)
    classes = list(range(n_classes)) if n_classes is not None else listed
    classes, (labels_true, labels_pred) = _encode((true, pred), classes)
    *found, bad = dispatch.call(
        "match_boxes",
        true.boxes,
        pred.boxes,
        pred.scores,
        labels_true,
        labels_pred,
        true.crowd,
        iou_threshold=threshold,
        score_threshold=least,
        optimal=method == "optimal",
        box_format=box_format,
        offsets=(true.offsets, pred.offsets),
        num_threads=num_threads,
    )
    for name, one, index in zip(("boxes", "boxes", "scores"), (true, pred, pred), bad, strict=True):
        if index >= 0:
            image, box = one.find_image(index)
            of = "targets" if one is true else "predictions"
            if name == "scores":
                validate.refuse(f"{of}[{image}]['scores']", "numbers, not NaN", f"nan in image {image}, box {box}")
            _images.explain_bad_box(f"{of}[{image}]['boxes']", box_format, image, box, one.boxes[index])
    return _list_pairs(true, pred, labels_true, labels_pred, found, classes)


def _list_pairs(
    true: _images.Boxes, pred: _images.Boxes, labels_true: Any, labels_pred: Any, found: list[Any], classes: list[Any]
) -> _CountedBoxes:
    """Return the classes of pairs, then of missed truths, then of false predictions."""
    truth_of, prediction_of, _ = found
    images = [np.repeat(np.arange(len(one.names)), np.diff(one.offsets)) for one in (true, pred)]
    paired = np.flatnonzero(truth_of >= 0)
    partner = true.offsets[images[1][paired]] + truth_of[paired]
    missed, false = np.flatnonzero(prediction_of == UNMATCHED), np.flatnonzero(truth_of == UNMATCHED)
    C = len(classes)
    return _CountedBoxes(
        np.concatenate([labels_true[partner], labels_true[missed], np.full(len(false), C)]),
        np.concatenate([labels_pred[paired], np.full(len(missed), C), labels_pred[false]]),
        np.concatenate([images[1][paired], images[0][missed], images[1][false]]),
        len(true.names),
        classes,
        true.like,
    )


def _list_labels(labels: Any, n_classes: int | None) -> list[Any]:
    """Return the option `labels` as a list of unique integers or texts."""
    names = dispatch.adopt_one("labels", labels)
    kind = adapter(names).dtype(names).kind
    if kind not in "iuU":
        validate.refuse("labels", "integers or text", validate.describe_dtype(names), TypeError)
    return _labels.check_listed(names, n_classes, kind)


def _encode(sides: Sequence[_images.Boxes], classes: list[Any] | None) -> tuple[list[Any], list[np.ndarray]]:
    """Return the classes, and the labels of both sides as positions in them; texts may name the integers 0, 1, ..."""
    flat = [[x for x in one.labels if x.size] for one in sides]
    kinds = {x.dtype.kind for side in flat for x in side}
    if len(kinds) > 1:
        validate.fail("labels of targets and predictions must be all integers or all text, got both", TypeError)
    text = kinds == {"O"}
    columns = [np.concatenate(side) if side else np.empty(0, np.int64) for side in flat]
    if classes is None:
        classes = sorted({label for column in columns for label in np.unique(column).tolist()})
    named = bool(classes) and isinstance(classes[0], str)
    if text and not named and any(column.size for column in columns):
        validate.fail("labels of boxes must be integers as the classes are, got text", TypeError)
    places = {label: k for k, label in enumerate(classes if text or not named else range(len(classes)))}
    found = []
    for of, one, column in zip(("targets", "predictions"), sides, columns, strict=True):
        values, codes = np.unique(column, return_inverse=True)
        table = np.array([places.get(value, IGNORED) for value in values.tolist()], np.int64)
        codes = table[codes] if len(table) else np.empty(0, np.int64)
        unknown = np.flatnonzero(codes < 0)
        if unknown.size:
            image, box = one.find_image(int(unknown[0]))
            given = f"{column[unknown[0]]!r:.40} in image {image}, box {box}"
            wanted = f"among the classes {validate.format_value(list(places))}"
            validate.refuse(f"{of}[{image}]['labels']", wanted, given.replace("np.int64(", "").replace(") in", " in"))
        found.append(codes)
    return classes, found
