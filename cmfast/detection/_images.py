"""Read boxes, labels and scores of a list of images into flat host arrays with offsets."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cmfast._core import dispatch, labels, validate
from cmfast._core.adapters import adapter

FIELDS = {"boxes": "xyxy", "labels": "class_id", "scores": "confidence"}  # and their names in `supervision`
CORNERS = "of finite x0, y0, x1, y1 with x0 <= x1 and y0 <= y1"
WANTED = {
    "xyxy": CORNERS,
    "xywh": "of finite x, y, width, height with sizes of at least 0",
    "cxcywh": "of finite centre x, centre y, width, height with sizes of at least 0",
}


class Boxes(NamedTuple):
    """Boxes of all images, one image after another, on the host; fields that were not given are None.

    `names` are what messages call the images, and `like` is the first array given.
    """

    names: list[str]
    boxes: np.ndarray
    labels: Any
    scores: Any
    crowd: Any
    offsets: np.ndarray
    like: Any

    def find_image(self, index: int) -> tuple[int, int]:
        """Return the image of a box, and its index there."""
        image = int(np.searchsorted(self.offsets, index, side="right")) - 1
        return image, index - int(self.offsets[image])


def adopt_host(name: str, x: Any) -> Any:
    """Return an array of any library in host memory, or text as codes; raise for one on a device, and a lazy one."""
    if type(x) is np.ndarray:
        return x if x.dtype in dispatch.NUMBERS else dispatch.adopt_one(name, x)
    found = dispatch.adopt_one(name, x)
    one = adapter(found)
    found = one.unwrap(found)
    one = adapter(found)
    if type(found).__module__.startswith("dask"):
        validate.refuse(name, "in memory", "a Dask array; call its .compute() first", TypeError)
    if not one.is_on_host(found):
        device = one.device(found)
        validate.fail(f"{name} is on {device}, and only the CPU has a kernel; copy it to the host", NotImplementedError)
    return found if isinstance(found, np.ndarray) or one.takes_columns else one.to_host(found)


def is_list_of_images(x: Any) -> bool:
    """Whether a list or tuple holds the boxes of several images: tables, or empty lists, instead of four numbers."""
    if not isinstance(x, list | tuple) or not x:
        return False
    most = max(map(_count_axes, x))
    if most > 1:
        return most == 2
    return all(_count_axes(one) == 1 and not len(one) for one in x)


def _count_axes(x: Any) -> int:
    """Return the number of axes of an array or of nested lists."""
    axes = getattr(x, "ndim", None)
    if isinstance(axes, int):
        return axes
    if not isinstance(x, list | tuple):
        return 0
    return 1 + max(map(_count_axes, x), default=0)


def check_boxes(name: str, x: Any) -> np.ndarray:
    """Return boxes of one image as an array of shape (n, 4); nothing at all is none."""
    boxes: np.ndarray = adopt_host(name, x)
    validate.real(**{name: boxes})
    if boxes.size == 0 and (boxes.ndim < 2 or boxes.shape[-1] in (0, 4)):
        return np.empty((0, 4), boxes.dtype)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        validate.refuse(name, "of shape (n, 4), a row of four numbers for each box", f"shape {boxes.shape}")
    return boxes


def check_column(name: str, x: Any, n: int) -> Any:
    """Return a value for each of the `n` boxes of an image."""
    found = adopt_host(name, x)
    shape = dispatch.shape_of(found)
    if shape != (n,) and not (n == 0 and 0 in shape):
        validate.refuse(name, f"of shape ({n},), one for each box", f"shape {shape}")
    return found.reshape(n) if isinstance(found, np.ndarray) else found


def refuse_swapped_sides(targets: Any, predictions: Any) -> None:
    """Raise ValueError for predictions before targets: scores in images of the first, but not of the second."""
    if any(_list_scores(targets)) and not any(_list_scores(predictions) or [True]):
        cure = "targets come first: give (targets, predictions)"
        validate.refuse("targets", "the true boxes, without scores", f"scores, and predictions without; {cure}")


def _list_scores(given: Any) -> list[bool]:
    """Return whether each image of a list, or the only one, has scores; False for what is no image."""
    images = given if isinstance(given, list | tuple) else [given]
    scores = (x.get("scores") if isinstance(x, Mapping) else getattr(x, FIELDS["scores"], None) for x in images)
    return [one is not None for one in scores]


def read_images(name: str, given: Any, box_format: str, *, predicted: bool) -> Boxes:
    """Return the boxes of a list of images, or of one: each a mapping, or detections of `supervision`.

    A mapping has "boxes", "labels", for truths perhaps "iscrowd", and for predictions perhaps "scores".
    """
    alone = isinstance(given, Mapping) or hasattr(given, "xyxy")
    if not alone and not isinstance(given, list | tuple):
        what = "a list of images, each a dict with 'boxes' and 'labels'"
        validate.refuse(name, what, f"{type(given).__name__} {validate.format_value(given)}", TypeError)
    images = [given] if alone else list(given)
    names = [name] if alone else [f"{name}[{k}]" for k in range(len(images))]
    extra = "scores" if predicted else "iscrowd"
    read = [_read_image(*pair, box_format, extra) for pair in zip(names, images, strict=True)]
    offsets = np.array([0, *accumulate(len(one[0]) for one in read)], np.int64)
    boxes = [one[0] for one in read] or [np.empty((0, 4))]
    with_extra = [one[2] is not None for one in read]
    if any(with_extra) and not all(with_extra) and predicted:
        k = with_extra.index(False)
        validate.refuse(f"{names[k]}['scores']", f"given, as for {names[with_extra.index(True)]}", "none")
    column: Any = None
    if any(with_extra):
        zeros = [np.zeros(len(one[0]), np.bool_) if one[2] is None else one[2] for one in read]
        column = np.concatenate(zeros)
    scores, crowd = (column, None) if predicted else (None, column)
    like = next((adapter(one[3]).unwrap(one[3]) for one in read), None)
    _check_libraries(names, [one[3] for one in read])
    return Boxes(names, np.concatenate(boxes), [one[1] for one in read], scores, crowd, offsets, like)


def _read_image(name: str, image: Any, box_format: str, extra: str) -> tuple[np.ndarray, Any, Any, Any]:
    """Return boxes, labels, and scores or crowd flags (or None) of one image, and its boxes as given."""
    if isinstance(image, Mapping):
        found = {key: image[key] for key in ("boxes", "labels", extra) if image.get(key) is not None}
        calls = {key: f"{name}[{key!r}]" for key in ("boxes", "labels", extra)}
    elif hasattr(image, "xyxy"):
        if box_format != "xyxy":
            validate.refuse("box_format", "'xyxy' for detections with corners in .xyxy", repr(box_format))
        pairs = {key: getattr(image, FIELDS[key], None) for key in ("boxes", "labels", extra) if key in FIELDS}
        found = {key: value for key, value in pairs.items() if value is not None}
        calls = {key: f"{name}.{FIELDS.get(key, key)}" for key in ("boxes", "labels", extra)}
    else:
        what = f"{type(image).__name__} {validate.format_value(image)}"
        validate.refuse(name, "a dict with 'boxes' and 'labels'", what, TypeError)
    for key in ("boxes", "labels"):
        if key not in found:
            validate.refuse(calls[key], "given", "none")
    boxes = check_boxes(calls["boxes"], found["boxes"])
    column = check_column(calls["labels"], found["labels"], len(boxes))
    other = found.get(extra)
    if other is not None:
        other = check_column(calls[extra], other, len(boxes))
        validate.real(**{calls[extra]: other})
    return boxes, _check_labels(calls["labels"], column), other, found["boxes"]


def _check_labels(name: str, column: Any) -> np.ndarray:
    """Return labels as integers, or text as objects."""
    if not isinstance(column, np.ndarray):
        return np.array(labels.list_values(column), object)
    if not column.size:
        return column.astype(np.int64)
    validate.integer(**{name: column})
    return column.astype(np.int64, copy=False)


def _check_libraries(names: list[str], given: list[Any]) -> None:
    """Raise TypeError for boxes of two libraries."""
    known = [adapter(x) for x in given]
    for name, one, x in zip(names, known, given, strict=True):
        if one is not known[0]:
            dispatch.refuse_libraries({f"{names[0]}['boxes']": given[0], f"{name}['boxes']": x})


def explain_bad_box(name: str, box_format: str, image: int | None, index: int, box: Any) -> NoReturn:
    """Raise ValueError for a box that is not finite, or of negative size."""
    shown = validate.format_value(np.asarray(box).tolist())
    where = f"box {index}" if image is None else f"image {image}, box {index}"
    validate.refuse(name, WANTED[box_format], f"{shown} in {where}")


def check_numbers(threshold: Any, score_threshold: Any) -> tuple[float, float]:
    """Return validated thresholds; no threshold of scores is minus infinity."""
    found = validate.number("iou_threshold", threshold)
    if not 0.0 < found <= 1.0:
        validate.refuse("iou_threshold", "above 0 and at most 1", threshold)
    return found, -np.inf if score_threshold is None else validate.finite("score_threshold", score_threshold)
