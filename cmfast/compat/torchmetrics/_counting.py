"""Counting mixins for torchmetrics' metrics: a matrix of counts, or a table per label."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251
from torchmetrics import Metric
from torchmetrics.__about__ import __version__
from torchmetrics.functional.classification.confusion_matrix import (
    _binary_confusion_matrix_format,
    _binary_confusion_matrix_tensor_validation,
    _multiclass_confusion_matrix_format,
    _multiclass_confusion_matrix_tensor_validation,
    _multilabel_confusion_matrix_tensor_validation,
)
from torchmetrics.functional.classification.stat_scores import (
    _binary_stat_scores_format,
    _binary_stat_scores_tensor_validation,
    _multiclass_stat_scores_format,
    _multiclass_stat_scores_tensor_validation,
    _multilabel_stat_scores_format,
    _multilabel_stat_scores_tensor_validation,
)
from torchmetrics.utilities.compute import normalize_logits_if_needed

from cmfast import counting
from cmfast._core import dispatch
from cmfast._core.adapters import read_only
from cmfast._core.locking import ObjectLock
from cmfast.compat.torchmetrics._sums import (
    build_matrix,
    build_tables,
    sum_all_classes,
    sum_all_tables,
    sum_matrices,
    sum_tables,
)

if tuple(int(part) for part in __version__.split(".")[:3] if part.isdecimal()) < (1, 7, 3):
    msg = f"cmfast.compat.torchmetrics needs torchmetrics 1.7.3 or later, got {__version__}"
    raise ImportError(msg)


# Dtypes that the fast path reads in place.
LABELS = frozenset((torch.int64, torch.int32, torch.uint8, torch.bool))
SCORES = frozenset((torch.float32, torch.float64))
# Scores up to which NumPy finds the largest: in one thread, up to 6 times faster than torch.
MOST_NUMPY_SCORES = 1 << 20


def count(
    target: Tensor,
    preds: Tensor,
    n_classes: int,
    keep: Tensor | None,
    groups: Tensor | None = None,
    given: Tensor | None = None,
) -> Tensor:
    """Return the confusion matrix of two tensors of classes, of the samples in `keep`; with groups, one per group.

    `given` is a mask with the shape of the target that the user gave: False for ignored samples. Errors name the
    position of a label among all samples, also if `target` and `preds` come without the ignored ones.
    """
    n_groups = None if groups is None else int(groups.max()) + 1 if groups.numel() else 0
    arrays = [target, preds] if groups is None else [target, preds, groups.expand(target.shape)]
    arrays = [array.reshape(-1) if keep is None else array[keep] for array in arrays]
    labels = [array.to(torch.int64) for array in arrays]
    options: dict[str, Any] = {"groups": None if groups is None else labels[2], "n_groups": n_groups}
    found: Tensor
    try:
        found = counting.confusion_matrix(labels[0], labels[1], n_classes=n_classes, **options)
        return found
    except ValueError:
        if given is None or int(given.sum()) != len(labels[0]):
            raise
    full = [torch.zeros(given.shape, dtype=torch.int64, device=given.device) for _ in range(2)]
    for whole, some in zip(full, labels[:2], strict=True):
        whole[given] = some
    found = counting.confusion_matrix(full[0].reshape(-1), full[1].reshape(-1), n_classes=n_classes)  # raises
    return found


def view_tensor(x: Tensor, dtypes: frozenset[torch.dtype]) -> np.ndarray | None:
    """Return an array that shares the memory of a plain CPU tensor of one of the dtypes; None for any other tensor.

    Empty tensors are not plain.
    """
    if type(x) is not Tensor or not x.is_cpu or x.dtype not in dtypes or not x.numel() or torch.compiler.is_compiling():
        return None
    try:
        array: np.ndarray = (x.detach() if x.requires_grad else x).numpy()
    except (RuntimeError, TypeError):  # sparse, negated, or within torch.func
        return None
    return array


def view_binary_predictions(metric: Any, preds: Tensor) -> np.ndarray | None:
    """Return labels 0 and 1 of predictions given as labels or as scores; None if the general path must find them."""
    if preds.dtype in LABELS:
        return view_tensor(preds, LABELS)
    if view_tensor(preds, SCORES) is None:
        return None
    preds = preds.detach()
    low, high = torch.aminmax(preds)
    if not (low >= 0 and high <= 1):
        if metric.ignore_index is not None:  # torchmetrics' matrices look at samples that are not ignored alone
            return None
        preds = normalize_logits_if_needed(preds, "sigmoid")
    labels: np.ndarray = (preds > metric.threshold).numpy()
    return labels


def view_class_predictions(preds: Tensor, target: Tensor, n_classes: int) -> np.ndarray | None:
    """Return the predicted classes of labels or scores; None if the general path must find or refuse them."""
    shape = target.shape
    if preds.shape == shape:
        return view_tensor(preds, LABELS)
    if preds.shape != (*shape[:1], n_classes, *shape[1:]):
        return None
    scores = view_tensor(preds, SCORES)
    if scores is None:
        return None
    small = scores.ndim == 2 and scores.size <= MOST_NUMPY_SCORES
    labels: np.ndarray = scores.argmax(1) if small else preds.detach().argmax(1).numpy()
    return labels


def count_plain(
    target: Tensor, guess: np.ndarray | None, n_classes: int, ignored: int | None, n_labels: int | None = None
) -> np.ndarray | None:
    """Return the matrix of a target and predicted classes; with labels on the second axis, one for each.

    If the general path must count, or torchmetrics might refuse a value, return None.
    """
    truth = view_tensor(target, LABELS)
    if truth is None or guess is None:
        return None
    if n_labels is None:
        truth, guess = truth.reshape(-1), guess.reshape(-1)
    else:
        truth, guess = (np.moveaxis(y, 1, 0).reshape(n_labels, -1) for y in (truth, guess))
    options = {"n_groups": None, "n_classes": n_classes, "labels": None, "ignored": ignored}
    counts: np.ndarray
    counts, _, outside = dispatch.call("confusion_matrix", read_only(truth), read_only(guess), None, None, **options)
    if outside is not None:
        return None
    # Predictions of ignored samples are not counted, but torchmetrics checks them.
    if ignored is not None and counts.sum() < truth.size and (guess.min() < 0 or guess.max() >= n_classes):
        return None
    return counts


def mask_ignored(target: Tensor, ignored: int | None) -> Tensor | None:
    """Return a mask of the samples that are not ignored; None if none can be."""
    return None if ignored is None else target != ignored


def number_samples(target: Tensor) -> Tensor:
    """Return the sample number of every element, shaped to broadcast."""
    return torch.arange(len(target), device=target.device).reshape(-1, *[1] * (target.ndim - 1))


class LockedMetric:
    """Mixin that locks updates, so that none is lost when several threads make them.

    torchmetrics' own ``forward`` swaps the state, so all of it runs under the lock.
    """

    @property
    def _lock(self: Any) -> Any:
        """The lock of the metric, made on first use."""
        guard = self.__dict__.get("_guard")
        if guard is None:
            guard = self.__dict__.setdefault("_guard", ObjectLock())
        return guard.lock

    @torch.jit.unused  # type: ignore[untyped-decorator]
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Add predictions and targets, and return the metric of these alone."""
        with self._lock:
            return super().forward(*args, **kwargs)  # type: ignore[misc]

    def reset(self: Any) -> None:
        """Reset the counts."""
        with self._lock:
            super().reset()  # type: ignore[misc]


def skip_wrapper(method: Callable[..., Any]) -> Callable[..., Any]:
    """Mark an update or compute that may run without torchmetrics' wrapper for plain CPU tensors."""
    method.needs_no_wrapper = True  # type: ignore[attr-defined]
    return method


UNLISTED = np.ndarray | Tensor | set | frozenset | range  # what holds integers but is no list


def split_ignored(value: Any) -> tuple[int | None, tuple[int, ...]]:
    """Return the first of the values of `ignore_index`, which torchmetrics is given, and the others."""
    if isinstance(value, UNLISTED):
        text = (
            f"ignore_index must be None, an integer or a list of integers, as list(...) makes of others, got {value!r}"
        )
        raise ValueError(text)
    if not isinstance(value, list | tuple):
        return value, ()
    for each in value:
        if not isinstance(each, int | np.integer) or isinstance(each, bool):
            text = f"ignore_index must be None, an integer or a list of integers, got {each!r} in it"
            raise ValueError(text)
    first, *others = dict.fromkeys(int(each) for each in value) or [None]
    return first, tuple(other for other in others if other is not None)


def accept_several_ignored(init: Callable[..., None]) -> Callable[..., None]:
    """Decorate the constructor of a metric so that `ignore_index` may be a list or a tuple of integers."""

    @wraps(init)
    def create(self: Any, *args: Any, **kwargs: Any) -> None:
        """Create the metric with the first value, and keep the others."""
        others: tuple[int, ...] = ()
        if any(isinstance(value, list | tuple | UNLISTED) for value in (*args, kwargs.get("ignore_index"))):
            given = signature(init).bind(self, *args, **kwargs)
            first, others = split_ignored(given.arguments.get("ignore_index", kwargs.get("ignore_index")))
            if "ignore_index" in given.arguments:
                given.arguments["ignore_index"] = first
            else:
                given.arguments["kwargs"]["ignore_index"] = first
            args, kwargs = given.args[1:], given.kwargs
        init(self, *args, **kwargs)
        self.also_ignored = others

    create.accepts_several = True  # type: ignore[attr-defined]
    return create


class CountedMetric(LockedMetric):
    """Mixin for metrics with one state of counts, ``confmat``, and a fast path for plain tensors on the CPU.

    torchmetrics validates labels by sorting them, which takes longer than counting. The fast path counts first; labels
    outside the classes make it return None, and take torchmetrics' path. Its wrappers of update and compute, which
    switch gradients off and synchronise processes, take 3 us each and are skipped without gradients and processes.
    """

    __jit_unused_properties__ = [*Metric.__jit_unused_properties__, "_lock", "_is_apart", "_fill"]  # noqa: RUF012

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let `ignore_index` be a list in the constructors of metrics, not of mixins."""
        super().__init_subclass__(**kwargs)
        if issubclass(cls, Metric) and not hasattr(cls.__init__, "accepts_several"):
            cls.__init__ = accept_several_ignored(cls.__init__)  # type: ignore[method-assign]

    def _merge_ignored(self: Any, target: Tensor) -> Tensor:
        """Return a target in which all values of `ignore_index` are the first of them."""
        others = self.__dict__.get("also_ignored")
        if not others or not isinstance(target, Tensor) or target.is_floating_point():
            return target
        mask = target == others[0]
        for other in others[1:]:
            mask = mask | (target == other)
        limits = None if target.dtype == torch.bool else torch.iinfo(target.dtype)
        if limits is None or not limits.min <= self.ignore_index <= limits.max:
            target = target.to(torch.int64)
        return target.masked_fill(mask, self.ignore_index)

    def _add_counts(self: Any, preds: Tensor, target: Tensor) -> None:
        """Add the counts of predictions and targets to the state, validated by torchmetrics."""
        target = self._merge_ignored(target)
        if self.validate_args:
            self._validate(preds, target)
        counts = self._counts(preds, target, each=False)
        with self._lock:
            self.confmat = self.confmat + counts

    def _wrap_update(self: Any, update: Callable[..., None]) -> Callable[..., None]:
        """Return an update that counts plain tensors itself and passes all others to torchmetrics' wrapper."""
        wrapped: Callable[..., None] = super()._wrap_update(update)  # type: ignore[misc]
        if not hasattr(update, "needs_no_wrapper"):  # of a subclass
            return wrapped

        @wraps(update)
        def update_counts(*args: Any, **kwargs: Any) -> None:
            attributes = self.__dict__
            counts = attributes.get("confmat")
            if len(args) == 2 and not kwargs and counts is not None and counts.is_cpu:
                preds, target = args
                target = self._merge_ignored(target)
                plain = isinstance(preds, Tensor) and isinstance(target, Tensor)
                added = self._count_plain(preds, target) if plain else None
                if added is not None:
                    with self._lock:
                        attributes["_computed"] = None  # a module's own assignment takes .7 us
                        attributes["_update_count"] += 1
                        attributes["confmat"] = attributes["confmat"] + torch.from_numpy(added)
                    return
            wrapped(*args, **kwargs)

        return update_counts

    def _wrap_compute(self: Any, compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Return a compute that calls torchmetrics' wrapper only to warn, to return a kept value, or to synchronise."""
        wrapped: Callable[[], Tensor] = super()._wrap_compute(compute)  # type: ignore[misc]
        if not hasattr(compute, "needs_no_wrapper"):
            return wrapped

        @wraps(compute)
        def compute_locally() -> Tensor:
            is_distributed = self.distributed_available_fn
            if self._computed is not None or not self._update_count or self._is_synced:
                return wrapped()
            if callable(is_distributed) and is_distributed():
                return wrapped()
            value = compute()
            if value.ndim and value.numel() == 1:
                value = value.squeeze()
            if self.compute_with_cache:
                self.__dict__["_computed"] = value
            return value

        return compute_locally


class BinaryCounts:
    """Mixin that counts two classes."""

    def _shape(self: Any) -> tuple[int, ...]:
        """Return the shape of the counts."""
        return (2, 2)

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for scores."""
        _binary_stat_scores_tensor_validation(preds, target, self.multidim_average, self.ignore_index)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the matrix of all samples, or of each sample."""
        ignored = self.ignore_index
        given = mask_ignored(target, ignored)
        preds, target = _binary_stat_scores_format(preds, target, self.threshold, ignored)
        keep = None if ignored is None else target >= 0
        return count(target, preds, 2, keep, number_samples(target) if each else None, given)

    def _count_plain(self: Any, preds: Tensor, target: Tensor) -> np.ndarray | None:
        """Return the matrix of plain CPU tensors; None if they need the general path."""
        if preds.shape != target.shape or not target.ndim:
            return None
        return count_plain(target, view_binary_predictions(self, preds), 2, self.ignore_index)

    _sum = _sum_classes = staticmethod(sum_tables)
    _build = staticmethod(build_tables)


class Multiclass:
    """Mixin that counts several classes."""

    def _shape(self: Any) -> tuple[int, ...]:
        """Return the shape of the counts."""
        return (self.num_classes, self.num_classes)

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for scores."""
        options = (self.num_classes, self.multidim_average, self.ignore_index)
        _multiclass_stat_scores_tensor_validation(preds, target, *options)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the matrix of all samples, or of each sample."""
        ignored = self.ignore_index
        given = mask_ignored(target, ignored)
        preds, target = _multiclass_stat_scores_format(preds, target, self.top_k)
        if self.top_k != 1:  # top-k: the truth if it is among the k best, else the best
            first = preds.topk(self.top_k, dim=1).indices
            preds = torch.where((first == target.unsqueeze(1)).any(1), target, first[:, 0])
        keep = None if ignored is None else target != ignored
        return count(target, preds, self.num_classes, keep, number_samples(target) if each else None, given)

    def _count_plain(self: Any, preds: Tensor, target: Tensor) -> np.ndarray | None:
        """Return the matrix of plain CPU tensors; None if they need the general path."""
        if getattr(self, "top_k", 1) != 1 or not target.ndim:
            return None
        guess = view_class_predictions(preds, target, self.num_classes)
        return count_plain(target, guess, self.num_classes, self.ignore_index)

    _sum = staticmethod(sum_matrices)
    _sum_classes = staticmethod(sum_all_classes)
    _build = staticmethod(build_matrix)


class Multilabel:
    """Mixin that counts a table per label."""

    def _shape(self: Any) -> tuple[int, ...]:
        """Return the shape of the counts."""
        return (self.num_labels, 2, 2)

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for scores."""
        options = (self.num_labels, self.multidim_average, self.ignore_index)
        _multilabel_stat_scores_tensor_validation(preds, target, *options)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the tables of all samples, or of each sample."""
        ignored, labels = self.ignore_index, self.num_labels
        given = mask_ignored(target, ignored)
        preds, target = _multilabel_stat_scores_format(preds, target, labels, self.threshold, ignored)
        groups = torch.arange(labels, device=target.device).reshape(1, -1, 1)
        if each:
            groups = groups + labels * number_samples(target)
        found = count(target, preds, 2, None if ignored is None else target >= 0, groups, given)
        return found.reshape(-1, labels, 2, 2) if each else found

    def _count_plain(self: Any, preds: Tensor, target: Tensor) -> np.ndarray | None:
        """Return the tables of plain CPU tensors; None if they need the general path."""
        labels = self.num_labels
        if preds.shape != target.shape or target.ndim < 2 or target.shape[1] != labels:
            return None
        return count_plain(target, view_binary_predictions(self, preds), 2, self.ignore_index, labels)

    _sum = staticmethod(sum_tables)
    _sum_classes = staticmethod(sum_all_tables)
    _build = staticmethod(build_tables)


class BinaryMatrix(BinaryCounts):
    """Mixin that counts two classes, validated as for a confusion matrix."""

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for matrices."""
        _binary_confusion_matrix_tensor_validation(preds, target, self.ignore_index)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the matrix of all samples."""
        given = mask_ignored(target, self.ignore_index)
        preds, target = _binary_confusion_matrix_format(preds, target, self.threshold, self.ignore_index)
        return count(target, preds, 2, None, given=given)


class MulticlassMatrix(Multiclass):
    """Mixin that counts several classes, validated as for a confusion matrix."""

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for matrices."""
        _multiclass_confusion_matrix_tensor_validation(preds, target, self.num_classes, self.ignore_index)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the matrix of all samples."""
        given = mask_ignored(target, self.ignore_index)
        preds, target = _multiclass_confusion_matrix_format(preds, target, self.ignore_index)
        return count(target, preds, self.num_classes, None, given=given)


class MultilabelMatrix(Multilabel):
    """Mixin that counts a table per label, validated as for a confusion matrix."""

    def _validate(self: Any, preds: Tensor, target: Tensor) -> None:
        """Validate tensors by torchmetrics' own check for matrices."""
        _multilabel_confusion_matrix_tensor_validation(preds, target, self.num_labels, self.ignore_index)

    def _counts(self: Any, preds: Tensor, target: Tensor, *, each: bool) -> Tensor:
        """Return the tables of all samples; zeros without samples."""
        if not target.numel():  # torchmetrics' format for scores raises without samples, its matrices do not
            return torch.zeros(self._shape(), dtype=torch.long, device=target.device)
        return super()._counts(preds, target, each=each)
