"""Shared bodies of the public metric functions, and decorators that explain calls meant for other libraries."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, get_args, overload

from numpy.typing import ArrayLike

from cmfast._core import validate
from cmfast._core.annotations import Array, DeviceT, Floats, Label, OnFailure, Sparse, Undefined
from cmfast._core.usual_options import BY_PLACE, refuse_wrong_call
from cmfast.metrics._catalogue import Averaging
from cmfast.metrics._evaluate import evaluate

Average: TypeAlias = Averaging | None
P = ParamSpec("P")
R = TypeVar("R")
LABELS = frozenset({"y_true", "y_pred"})


class PerMatrix(Protocol):
    """Type of a function of matrices with one value per matrix."""

    @overload
    def __call__(
        self,
        M: DeviceT,
        /,
        *,
        undefined: Undefined = ...,
        on_failure: OnFailure = ...,
        num_threads: int | None = ...,
    ) -> DeviceT: ...
    @overload
    def __call__(
        self,
        M: ArrayLike | Sparse,
        /,
        *,
        undefined: Undefined = ...,
        on_failure: OnFailure = ...,
        num_threads: int | None = ...,
    ) -> Floats: ...


class PerClass(Protocol):
    """Type of a function of matrices with one value per class, or an average of them."""

    @overload
    def __call__(
        self,
        M: DeviceT,
        /,
        *,
        average: Average = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[int] | None = ...,
        undefined: Undefined = ...,
        on_failure: OnFailure = ...,
        num_threads: int | None = ...,
    ) -> DeviceT: ...
    @overload
    def __call__(
        self,
        M: ArrayLike | Sparse,
        /,
        *,
        average: Average = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[int] | None = ...,
        undefined: Undefined = ...,
        on_failure: OnFailure = ...,
        num_threads: int | None = ...,
    ) -> Floats: ...


class Binary(Protocol):
    """Type of a function of 2x2 matrices."""

    @overload
    def __call__(
        self,
        M: DeviceT,
        /,
        *,
        pos_label: Label | None = ...,
        undefined: Undefined = ...,
        on_failure: OnFailure = ...,
        num_threads: int | None = ...,
    ) -> DeviceT: ...
    @overload
    def __call__(
        self,
        M: ArrayLike | Sparse,
        /,
        *,
        pos_label: Label | None = ...,
        undefined: Undefined = ...,
        on_failure: OnFailure = ...,
        num_threads: int | None = ...,
    ) -> Floats: ...


# By function, what takes labels in its place; for all others it is `from_labels`.
LABEL_CALLS = {"classification_report": "ConfusionCounts.from_labels(y_true, y_pred).classification_report()"}


def explain_label_calls(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a metric of matrices: calls with labels or unknown options raise and name the right function."""
    name, some = function.__name__, list(signature(function).parameters.values())
    most = sum(p.kind in BY_PLACE for p in some)

    def refuse(args: tuple[Any, ...], options: Mapping[str, object]) -> None:
        """Raise TypeError for labels; return for another call."""
        if (len(args) > most and any(map(_is_array, args[1:]))) or not LABELS.isdisjoint(options):
            average = options.get("average")
            metric = f"{name}_{average}" if average in get_args(Averaging) else name
            use = LABEL_CALLS.get(name, f'metrics.from_labels(y_true, y_pred, "{metric}")')
            validate.fail(f"metrics.{name}: M must be a confusion matrix, got labels; for these use {use}", TypeError)

    @wraps(function)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        """Call the metric; explain a TypeError that labels, surplus arguments or unknown options caused."""
        try:
            return function(*args, **options)
        except TypeError:
            refuse(args, options)
            refuse_wrong_call(function, args, options)
            raise

    return wrapper


def _is_array(x: object) -> bool:
    """Return whether `x` is an array or a sequence other than text."""
    return hasattr(x, "shape") or (hasattr(x, "__len__") and not isinstance(x, str | bytes))


def evaluate_one(
    name: str,
    M: Array,
    undefined: Undefined,
    on_failure: OnFailure,
    num_threads: int | None,
    pos_label: Label | None = None,
) -> Any:
    """Return the metric `name` of every matrix."""
    return evaluate(M, (name,), undefined, pos_label, on_failure, num_threads)[0]


def evaluate_average(
    name: str,
    M: Array,
    average: Average,
    undefined: Undefined,
    on_failure: OnFailure,
    num_threads: int | None,
    pos_label: Label | None = None,
    average_over: Sequence[int] | None = None,
) -> Any:
    """Return the metric `name` of every class, or its average over the classes."""
    if average is not None:
        validate.choice("average", average, get_args(Averaging))
    wanted = name if average is None else f"{name}_{average}"
    if pos_label is not None and average != "binary":
        validate.refuse("pos_label", 'left out without average="binary"', validate.format_value(pos_label))
    return evaluate(M, (wanted,), undefined, pos_label, on_failure, num_threads, average_over)[0]
