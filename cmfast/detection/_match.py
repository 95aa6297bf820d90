"""Match true and predicted boxes by intersection over union."""

from functools import partial
from itertools import accumulate
from typing import Any, get_args

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, BoxFormat, MatchMethod
from cmfast._core.lazy import accept_dask_arrays
from cmfast.detection import _images
from cmfast.detection._results import Matches


@accept_dask_arrays(boxes_true="nk", boxes_pred="mk", scores="m", labels_true="n", labels_pred="m", iscrowd="n")
def match(
    boxes_true: Array,
    boxes_pred: Array,
    scores: Array | None = None,
    *,
    labels_true: Array | None = None,
    labels_pred: Array | None = None,
    iscrowd: Array | None = None,
    iou_threshold: float = 0.5,
    score_threshold: float | None = None,
    method: MatchMethod = "greedy",
    box_format: BoxFormat = "xyxy",
    num_threads: int | None = None,
) -> Any:
    """Match the true and predicted boxes of an image, or of many, by intersection over union (IoU).

    Parameters
    ----------
    boxes_true : array, shape (..., n, 4), or list of arrays
        True boxes: of one image, of a batch with as many in each, or a list with an array of shape (n, 4) per image.
    boxes_pred : array, shape (..., m, 4), or list of arrays
        Predicted boxes, given in the same way.
    scores : array, shape (..., m), or list of arrays, optional
        Confidence of the predictions: larger ones choose first. Default: the order given.
    labels_true, labels_pred : array of int, shapes (..., n) and (..., m), or lists of arrays, optional
        Classes: boxes of two classes do not match. Default: any may match.
    iscrowd : array, shape (..., n), or list of arrays, optional
        Nonzero for a region with many objects, as in COCO: a prediction without a truth is ignored if a share of at
        least `iou_threshold` of it is inside.
    iou_threshold : float
        Least IoU of a pair, above 0 and at most 1.
    score_threshold : float, optional
        Predictions with a lower score are ignored. Default: none.
    method : {"greedy", "optimal"}
        "greedy": each prediction, by descending score, takes the free truth of largest IoU. "optimal": the pairs of
        largest summed IoU; scores do not matter.
    box_format : {"xyxy", "xywh", "cxcywh"}
        Opposite corners; corner of least coordinates, width and height; or centre, width and height.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Matches, or list of Matches
        `true_index` of shape (..., m), `pred_index` of shape (..., n) and `iou` of shape (..., m); for a list of
        images a list. Library and device of `boxes_true`.

    Raises
    ------
    TypeError, ValueError
        Boxes that do not have four numbers, or are not finite or of negative size (the message names image and box);
        NaN scores; lists of different lengths; arrays of two libraries.
    NotImplementedError
        Arrays on a GPU: only the CPU has a kernel.

    Notes
    -----
    Ties of scores go to the prediction that is given first, ties of IoU to the truth that is given first. Of equally
    good optimal assignments one is returned, which depends on the order of the boxes alone. A box without area has an
    IoU of 0 with any other. IoU is computed in float64 for all types, and correctly rounded for integer coordinates
    below 2**25 and for halves, quarters and so on of such: an IoU of exactly 3/5 reaches a threshold of 0.6.

    COCO's evaluation matches in the same way within each class, except that ties of IoU go to the truth given last, and
    that an IoU up to 1e-10 below a threshold of 1 reaches it.

    Bad values: NaN, infinite coordinates and negative sizes raise. Synchronises the device. Reproducible: the same bits
    for any number of threads.

    References
    ----------
    Lin et al., Microsoft COCO: common objects in context, 2014. Crouse, On implementing 2D rectangular assignment
    algorithms, 2016.

    Examples
    --------
    >>> from cmfast import detection
    >>> true = [[0, 0, 10, 10], [20, 0, 30, 10]]
    >>> pred = [[1, 0, 11, 10], [0, 0, 10, 9], [50, 50, 60, 60]]
    >>> found = detection.match(true, pred, [0.9, 0.8, 0.7])
    >>> found
    <Matches: pairs 1, missed 1, false 2>
    >>> found.true_index
    array([ 0, -1, -1])
    """
    threshold, least = _images.check_numbers(iou_threshold, score_threshold)
    validate.choice("method", method, get_args(MatchMethod))
    validate.choice("box_format", box_format, get_args(BoxFormat))
    num_threads = validate.num_threads(num_threads)
    if least > -np.inf and scores is None:
        validate.refuse("score_threshold", "None without scores", score_threshold)
    if (labels_true is None) != (labels_pred is None):
        validate.refuse("labels_true and labels_pred", "both given, or none", "one")
    columns = {"scores": scores, "labels_true": labels_true, "labels_pred": labels_pred, "iscrowd": iscrowd}
    options: dict[str, Any] = {"iou_threshold": threshold, "score_threshold": least, "optimal": method == "optimal"}
    options |= {"restricted": labels_true is not None, "box_format": box_format, "num_threads": num_threads}
    lists = [_images.is_list_of_images(x) for x in (boxes_true, boxes_pred)]
    if any(lists):
        return _match_lists(boxes_true, boxes_pred, columns, options)
    given = {"boxes_true": _type_empty(boxes_true), "boxes_pred": _type_empty(boxes_pred), **columns}
    adopted = dict(zip(given, dispatch.adopt(optional=columns, **given), strict=True))
    validate.real(**{name: adopted[name] for name in ("boxes_true", "boxes_pred", "scores", "iscrowd")})
    validate.integer(labels_true=adopted["labels_true"], labels_pred=adopted["labels_pred"])
    shapes = {name: dispatch.shape_of(x) for name, x in adopted.items() if x is not None}
    for name in ("boxes_true", "boxes_pred"):
        if len(shapes[name]) < 2 or shapes[name][-1] != 4:
            wanted = "of shape (..., n, 4), a row of four numbers for each box"
            validate.refuse(name, wanted, f"shape {shapes[name]}")
    if shapes["boxes_pred"][:-2] != shapes["boxes_true"][:-2]:
        wanted = f"boxes of a batch of shape {shapes['boxes_true'][:-2]} as boxes_true"
        validate.refuse("boxes_pred", wanted, f"shape {shapes['boxes_pred']}")
    for name, of in (("scores", "pred"), ("labels_true", "true"), ("labels_pred", "pred"), ("iscrowd", "true")):
        each = shapes[f"boxes_{of}"][:-1]
        if name in shapes and shapes[name] != each:
            validate.refuse(name, f"of shape {each}, one for each box of boxes_{of}", f"shape {shapes[name]}")
    *found, bad = dispatch.call("match_boxes", *adopted.values(), **options)
    _refuse_bad(adopted, bad, box_format)
    return Matches(*found)


def _type_empty(boxes: Any) -> Any:
    """Return boxes unchanged, but an empty list as no boxes."""
    return np.empty((0, 4)) if isinstance(boxes, list | tuple) and not boxes else boxes


def _refuse_bad(adopted: dict[str, Any], bad: tuple[int, int, int], box_format: str) -> None:
    """Raise ValueError for the first bad box or score of arrays."""
    for name, index in zip(("boxes_true", "boxes_pred", "scores"), bad, strict=True):
        if index < 0:
            continue
        host = adapter(adopted[name]).to_host(adopted[name])
        *image, box = map(int, np.unravel_index(index, host.shape[: host.ndim - (name != "scores")]))
        where: Any = None if not image else image[0] if len(image) == 1 else tuple(image)
        if name == "scores":
            place = f"box {box}" if where is None else f"image {where}, box {box}"
            validate.refuse("scores", "numbers, not NaN", f"nan in {place}")
        _images.explain_bad_box(name, box_format, where, box, host[(*image, box)])


def _match_lists(boxes_true: Any, boxes_pred: Any, columns: dict[str, Any], options: dict[str, Any]) -> list[Any]:
    """Match the boxes of a list of images."""
    given = {"boxes_true": boxes_true, "boxes_pred": boxes_pred, **columns}
    for name, array in given.items():
        if getattr(array, "ndim", 0) == (3 if name.startswith("boxes") else 2):  # a batch next to a list
            given[name] = [array[k] for k in range(len(array))]
        x = given[name]
        if x is not None and not isinstance(x, list | tuple):
            wanted = "a list with an array for each image, as the boxes are"
            validate.refuse(name, wanted, type(x).__name__, TypeError)
        if x is not None and len(x) != len(given["boxes_true"]):
            validate.refuse(name, f"of {len(given['boxes_true'])} images as boxes_true", f"{len(x)}")
    flat: dict[str, Any] = {}
    offsets = []
    for name in ("boxes_true", "boxes_pred"):
        each = [_images.check_boxes(f"{name}[{k}]", x) for k, x in enumerate(given[name])]
        offsets.append(np.array([0, *accumulate(map(len, each))], np.int64))
        flat[name] = np.concatenate(each)
    for name, of in (("scores", 1), ("labels_true", 0), ("labels_pred", 1), ("iscrowd", 0)):
        flat[name] = None
        if given[name] is not None:
            sizes = np.diff(offsets[of]).tolist()
            each = [
                _images.check_column(f"{name}[{k}]", x, n)
                for k, (x, n) in enumerate(zip(given[name], sizes, strict=True))
            ]
            for k, x in enumerate(each):
                (validate.integer if name.startswith("labels") and x.shape != (0,) else validate.real)(
                    **{f"{name}[{k}]": x}
                )
            flat[name] = np.concatenate(each)
    like = given["boxes_true"][0]
    for name in ("boxes_true", "boxes_pred"):
        for k, x in enumerate(given[name]):
            if adapter(x) is not adapter(like):
                dispatch.refuse_libraries({"boxes_true[0]": like, f"{name}[{k}]": x})
    *found, bad = dispatch.call("match_boxes", *flat.values(), offsets=tuple(offsets), **options)
    for name, index, ends in zip(("boxes_true", "boxes_pred", "scores"), bad, (*offsets, offsets[1]), strict=True):
        if index >= 0:
            image = int(np.searchsorted(ends, index, side="right")) - 1
            box = index - int(ends[image])
            if name == "scores":
                validate.refuse("scores", "numbers, not NaN", f"nan in image {image}, box {box}")
            _images.explain_bad_box(name, options["box_format"], image, box, flat[name][index])
    bare = adapter(like).unwrap(like)
    wrap = partial(adapter(bare).from_host, like=bare)
    parts = [np.split(x, ends[1:-1]) for x, ends in zip(found, (offsets[1], offsets[0], offsets[1]), strict=True)]
    return [Matches(*map(wrap, image)) for image in zip(*parts, strict=True)]
