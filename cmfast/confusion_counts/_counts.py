"""Confusion matrices with labelled classes and optional groups, updated sample by sample."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, Unpack, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast import metrics, normalizing
from cmfast._core import axis_names, caller, failures, table_columns, validate
from cmfast._core.adapters import _class_order, _columns, adapter, read_only
from cmfast._core.annotations import (
    Array,
    ArrayT,
    BiOptions,
    CudaArray,
    DeviceT,
    Ignored,
    IntervalMethod,
    JaxArray,
    Label,
    Labelled,
    Method,
    OnFailure,
    Progress,
    Tensor,
    Undefined,
)
from cmfast._core.labels import warn_if_none_occurs, warn_of_matrices
from cmfast._core.locking import ObjectLock
from cmfast._core.result_repr import copy_to_numpy
from cmfast._core.usual_names import make_missing_attribute_error
from cmfast._files.archive import DamagedError, Parts
from cmfast._files.states import State, class_only, decode_array, encode_array
from cmfast.confusion_counts import _count_samples, _distributed_sum, _export
from cmfast.confusion_counts._label_axis import GROWING, LABELS, OTHER
from cmfast.confusion_counts._label_codes import encode_labels
from cmfast.confusion_counts._state import (
    OPTIONAL,
    PARTS,
    CountsState,
    add_counts,
    get_parts,
    merge_counts,
    parse_parts,
    prepare_binary,
    select_group,
)
from cmfast.kernels.loading import load
from cmfast.metrics import MetricName, _plan
from cmfast.metrics._catalogue import find_form
from cmfast.metrics._evaluate import check_options
from cmfast.metrics._names import Names

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import xarray as xr

    from cmfast.display import ConfusionDisplay
    from cmfast.display._class_order import Order
    from cmfast.results import ClassificationReport, Interval, Intervals

LISTED = (LABELS, OTHER)
Groups: TypeAlias = ArrayLike | Tensor | CudaArray | JaxArray | Labelled | Mapping[str, Any] | None


def _merge_parts(parts: "list[ConfusionCounts[Any]]") -> "ConfusionCounts[Any]":
    """Merge the counts of parts of a table."""
    return ConfusionCounts.merge(parts)


class _NamesMissing(type):
    """Metaclass that explains class attributes that counts do not have."""

    def __getattr__(cls, name: str) -> Any:
        owner = f"type object {cls.__name__!r}"
        raise _explain_missing(owner, name)


class ConfusionCounts(State, Generic[ArrayT], metaclass=_NamesMissing):
    """Confusion counts with labelled classes and optional groups, for streams and distributed data.

    :meth:`update` adds samples, and ``a + b`` merges counts exactly: the classes of the sum are the union of both. The
    matrix stays in the library and on the device of the labels (NumPy, CuPy or torch).

    Parameters
    ----------
    labels : array, shape (C,), optional
        The classes, in order; samples with other labels are left out, as by :func:`cmfast.confusion_matrix`. Default:
        the labels that occur, sorted; for a categorical all its categories, in order.
    n_classes : int, optional
        The classes are ``0, ..., n_classes - 1``, and any other label raises. This is fastest.
    other : bool
        Add a last class, "other", for all labels that are not in `labels`. Next to one listed class, which is the
        positive one, it makes the table of this class against the rest. Merging requires equal `labels`.

    Attributes
    ----------
    matrix : array, shape (C, C), or (G, C, C) with groups
        int64 and exact without weights, else float64. Rows are the true classes. In the library of the labels.
    labels : tuple
        The classes, in the order of rows and columns.
    groups : tuple or None
        The group keys: a label, or a tuple of labels for several columns; None without groups.
    group_names : tuple of str
        Names of the columns that define the groups.

    Notes
    -----
    Several threads may update one object: no update is lost, and every property, method and copy sees a consistent
    state. ``a += b`` updates ``a``. An update that overflows int64 raises OverflowError, and one whose negative integer
    weights make a cell negative raises ValueError; neither counts any sample.

    Ordered categories keep their order, which the weighted kappas and Gerrity's score depend on; merging raises if two
    orders contradict each other. Two counts are equal if classes, groups and all bits of the matrix are. Bad values: as
    :func:`cmfast.confusion_matrix`. Synchronises the device. Reproducible: counts do not depend on the partition or
    order of the samples; sums of float weights do in the last bit.

    Examples
    --------
    >>> import cmfast
    >>> counts = cmfast.ConfusionCounts()
    >>> _ = counts.update(["cat", "dog", "dog"], ["cat", "cat", "dog"])
    >>> counts += cmfast.ConfusionCounts.from_labels(["bird"], ["cat"])
    >>> counts.labels
    ('bird', 'cat', 'dog')
    >>> counts.matrix
    array([[0, 1, 0],
           [0, 1, 0],
           [0, 1, 1]])
    >>> round(float(counts.compute("accuracy")), 2)
    0.5
    >>> cmfast.ConfusionCounts.from_json(counts.to_json()) == counts
    True
    """

    _STORED: ClassVar[Parts] = PARTS
    _OPTIONAL: ClassVar[tuple[str, ...]] = OPTIONAL
    __pandas_priority__: ClassVar[int] = 5_000  # above a DataFrame's, which would add by position

    def __init__(self, *, labels: Array | None = None, n_classes: int | None = None, other: bool = False) -> None:
        axis = _count_samples.resolve_classes(labels, n_classes, dates=True, other=other)
        self._empty = CountsState(axis, None, None)
        self._held = self._empty  # replaced in one step while holding the lock
        self._library = "pandas"  # library of the tables that `table` returns
        self._guard = ObjectLock()

    @overload
    @classmethod
    def from_labels(
        cls,
        y_true: DeviceT,
        y_pred: DeviceT,
        *,
        labels: ArrayLike | DeviceT | None = ...,
        n_classes: int | None = ...,
        other: bool = ...,
        sample_weight: DeviceT | None = ...,
        groups: Groups = ...,
        ignore_index: Ignored = ...,
        whole_floats: bool = ...,
    ) -> "ConfusionCounts[DeviceT]": ...
    @overload
    @classmethod
    def from_labels(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        labels: ArrayLike | None = ...,
        n_classes: int | None = ...,
        other: bool = ...,
        sample_weight: ArrayLike | None = ...,
        groups: Groups = ...,
        ignore_index: Ignored = ...,
        whole_floats: bool = ...,
    ) -> "ConfusionCounts[NDArray[Any]]": ...
    @overload
    @classmethod
    def from_labels(
        cls, table: Any, /, *, y_true: str, y_pred: str, **options: Any
    ) -> "ConfusionCounts[NDArray[Any]]": ...
    @classmethod
    @table_columns.accept_table(
        ("y_true", "y_pred"), ("sample_weight", "groups"), several=("groups",), merge=_merge_parts, of_class=True
    )
    def from_labels(
        cls,
        y_true: Array,
        y_pred: Array,
        *,
        labels: Array | None = None,
        n_classes: int | None = None,
        other: bool = False,
        sample_weight: Array | None = None,
        groups: Groups = None,
        ignore_index: Ignored = None,
        whole_floats: bool = False,
    ) -> "ConfusionCounts[Any]":
        """Count some samples; `labels`, `n_classes` and `other` as for the class, other options as for :meth:`update`.

        A table, as for :func:`by`, and names of its columns may be given instead of arrays:
        ``from_labels(table, y_true="label", y_pred="guess")``, with `sample_weight` and `groups` as names, too. A
        DataFrame of Dask gives a ``dask.delayed.Delayed``.
        """
        counts = cls(labels=labels, n_classes=n_classes, other=other)
        warn_of_matrices(y_true, y_pred)
        counts._update(y_true, y_pred, sample_weight, groups, ignore_index, whole_floats=whole_floats)
        counts._held = _count_samples.warn_of_disjoint_labels(counts._held)
        if sample_weight is None:
            counts._warn_of_empty_update(y_true, y_pred, ignore_index)
        return counts

    def update(
        self,
        y_true: Array,
        y_pred: Array,
        *,
        sample_weight: Array | None = None,
        groups: Groups = None,
        ignore_index: Ignored = None,
        whole_floats: bool = False,
    ) -> Self:
        """Count more samples; an update that raises counts no samples.

        Parameters
        ----------
        y_true, y_pred : array
            Labels of the same, arbitrary shape: integers, bool, strings or dates, as NumPy arrays or as columns of
            pandas, polars or Arrow, whose category codes are used.
        sample_weight : array of the same shape, optional
            Weight that each sample adds to its cell; default 1.
        groups : column, or dict of str to column, optional
            The group of each sample, as labels of any kind; a dict for several columns. In every update or in none.
        ignore_index : int or str, or list of these, optional
            Samples with this true label are ignored.
        whole_floats : bool
            Accept float labels, which must be whole numbers: 2.0 is 2.

        Returns
        -------
        ConfusionCounts
            Itself.

        Raises
        ------
        TypeError, ValueError
            Labels of another kind than before; shapes that differ; missing values; groups after updates without groups,
            or of other columns; ordered categories that contradict the order so far.

        Warns
        -----
        DiagnosticWarning
            All samples of the first update were left out, as the classes or `ignore_index` leave them out.
        """
        is_first = self._held.matrix is None
        self._update(y_true, y_pred, sample_weight, groups, ignore_index, whole_floats=whole_floats)
        if is_first and sample_weight is None:
            self._warn_of_empty_update(y_true, y_pred, ignore_index)
        return self

    def _warn_of_empty_update(self, y_true: Array, y_pred: Array, ignored: Ignored) -> None:
        """Warn if listed classes, or ignored ones, leave out all of the first samples."""
        axis = self._empty.axis
        given: Any = y_true
        is_empty = 0 in given.shape if hasattr(given, "shape") else not len(given)  # some arrays have no length
        if is_empty or (axis.source not in LISTED and ignored is None):
            return
        if ignored is None:
            sides = {"y_true": y_true, "y_pred": y_pred}
            occurring, predicted = (partial(_list_labels, name, y) for name, y in sides.items())
            is_other = axis.source == OTHER
            warn_if_none_occurs(self.matrix, axis.own_labels, occurring, other=is_other, predicted=predicted)
        elif not caller.is_task() and not adapter(self.matrix).any(self.matrix):
            text = f"every sample was left out, as its true label is in ignore_index={validate.format_value(ignored)}"
            failures.warn_diagnostic(text + (" or not among the classes" if axis.source in LISTED else ""))

    def _update(
        self,
        y_true: Array,
        y_pred: Array,
        weight: Array | None,
        groups: Any,
        ignored: Any = None,
        *,
        whole_floats: bool = False,
    ) -> Self:
        """Count samples outside the lock and add them under the lock; return self."""
        part = None
        if weight is groups is ignored is None and whole_floats is False:
            part = _count_samples.count_known_ids(self._held, y_true, y_pred)
        if part is None:
            given = (y_true, y_pred, weight, groups, self._empty.axis, ignored)
            part = _count_samples.count_samples(*given, whole_floats=whole_floats)
        with self._guard.lock:  # counting is outside the lock, so threads count concurrently
            self._held = add_counts(self._held, part)
        return self

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, in the order of rows and columns."""
        return self._held.axis.labels

    @property
    def groups(self) -> tuple[Label | tuple[Label, ...], ...] | None:
        """The group keys, in the order of the matrices; None without groups."""
        return None if self._held.keys is None else self._held.keys.labels

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the columns that define the groups; empty without groups."""
        return () if self._held.keys is None else self._held.keys.names

    @property
    def matrix(self) -> ArrayT:
        """The counts: shape (C, C), or (G, C, C) with groups. A NumPy matrix is read-only."""
        M: Any = self._held.whole()
        found: Any = read_only(M) if isinstance(M, np.ndarray) else M
        return cast(ArrayT, found)

    def _matrix_for_ops(self) -> ArrayT:
        """Return what functions of matrices take of an argument of this class."""
        return self.matrix

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the matrix for ``numpy.asarray(counts)``; raise TypeError if it is on a device."""
        return copy_to_numpy("matrix", self.matrix, dtype, copy=copy)

    def _take_for(self, names: Any, pos_label: Label | None) -> tuple[Any, int, axis_names.Axes]:
        """Return the matrix for metrics, the position of the positive class, as for :meth:`compute`, and axis names."""
        held, positive = _choose_positive(self._held, names, pos_label)
        groups = {} if held.keys is None else {"group": held.keys.labels}
        return held.whole(), positive, groups | {"class": held.axis.labels}

    @property
    def n_samples(self) -> float:
        """Sum of all counts or weights. Synchronises the device."""
        return _sum_matrix(self._held)

    if not TYPE_CHECKING:  # so that type checkers refuse attributes that are none

        def __getattr__(self, name):
            """Raise AttributeError that says what to call for an attribute of another library."""
            if any(name in vars(cls) for cls in type(self).__mro__):
                return object.__getattribute__(self, name)  # raises the AttributeError of the attribute itself
            owner = f"{type(self).__name__!r} object"
            raise _explain_missing(owner, name)

    def __repr__(self) -> str:
        held = self._held
        groups = "" if held.keys is None else f", {len(held.keys.rows)} groups"
        return f"<ConfusionCounts: {_sum_matrix(held):,} samples, {len(held.axis.labels)} classes{groups}>"

    def _repr_html_(self) -> str:
        """Return the counts as HTML for notebooks."""
        return _export.to_html(self._held, repr(self)[1:-1])

    def explain(self) -> str:
        """Return a sentence on the accuracy and on the confusions that stand out, or on the best and worst group.

        A lowest recall and the leading confusions are reported only if they are statistically significant.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.ConfusionCounts.from_labels(
        ...     ["cat", "dog", "dog"], ["cat", "cat", "dog"]
        ... ).explain()
        '66.7% of 3 samples are right; confused are cat and dog (1 sample, both ways together)'
        """
        return _export.explain_counts(self._held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfusionCounts) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        msg = "ConfusionCounts are unhashable, as they change"
        raise TypeError(msg)

    def __add__(self, other: object) -> Self:
        (held, empty) = self._snapshot()
        if isinstance(other, int) and other == 0:  # where sum() starts
            return self._replace(held, empty)
        if not isinstance(other, ConfusionCounts):
            summed: Self = self._combine_with_table(operator.add, other)
            return summed
        others = other._snapshot()
        return self._replace(merge_counts(held, others[0]), merge_counts(empty, others[1]))

    def __iadd__(self, other: object) -> Self:
        if not isinstance(other, ConfusionCounts):
            return NotImplemented
        held, empty = other._snapshot()
        with self._guard.lock:
            self._held, self._empty = merge_counts(self._held, held), merge_counts(self._empty, empty)
        return self

    def _snapshot(self) -> tuple[CountsState, CountsState]:
        """Return the counts and the empty initial state, both read under the lock."""
        with self._guard.lock:
            return self._held, self._empty

    def __radd__(self, other: object) -> Self:
        return self.__add__(other)

    def __sub__(self, other: object) -> Any:
        return self._combine_with_table(operator.sub, other)

    def __rsub__(self, other: object) -> Any:
        return self._combine_with_table(lambda a, b: b - a, other)

    def _combine_with_table(self, combine: Callable[[Any, Any], Any], other: object) -> Any:
        """Return a pandas DataFrame of the counts and another DataFrame, aligned by labels; NotImplemented for others.

        Raises ValueError if it has other labels than the counts.
        """
        if _columns.library_name(other) != "pandas":
            return NotImplemented
        table: Any = self.to_pandas()
        given: Any = other
        for axis, index, labels in (("rows", given.index, table.index), ("columns", given.columns, table.columns)):
            if len(index) != len(labels) or not labels.isin(index).all():
                wanted, came = (_class_order.format_labels(list(one)) for one in (labels, index))
                validate.refuse("the table", f"{axis} with the labels of the counts, {wanted}", came)
        return combine(table, given.reindex(index=table.index, columns=table.columns))

    def _replace(self, held: CountsState, empty: CountsState) -> Self:
        """Return new counts with these states."""
        out = type(self)()
        out._empty, out._held, out._library = empty, held, self._library
        return out

    @class_only
    @classmethod
    def merge(cls, parts: Iterable[Self], /) -> Self:
        """Merge any number of parts exactly, as ``sum(parts)``.

        Parameters
        ----------
        parts : iterable of ConfusionCounts
            All with groups of the same columns, or all without groups; labels may differ.

        Raises
        ------
        TypeError, ValueError
            A part that is not ConfusionCounts; parts of two libraries or devices; no parts; labels of two kinds;
            contradicting orders of categories.
        """
        if not isinstance(parts, Iterable):
            validate.refuse("parts", "an iterable of ConfusionCounts", type(parts).__name__, TypeError)
        total = None
        for k, part in enumerate(parts):
            if not isinstance(part, ConfusionCounts):
                validate.refuse(f"parts[{k}]", "ConfusionCounts", type(part).__name__, TypeError)
            total = part + 0 if total is None else total + part
        if total is None:
            validate.refuse("parts", "at least one", "none")
        return total

    def reset(self) -> Self:
        """Reset all counts to zero, and forget inferred labels and groups; declared classes stay."""
        with self._guard.lock:
            self._held = self._empty
        return self

    @overload
    def compute(
        self,
        names: MetricName,
        *,
        undefined: Undefined = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> ArrayT: ...
    @overload
    def compute(
        self,
        names: Names = ...,
        *,
        undefined: Undefined = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> dict[str, ArrayT]: ...
    def compute(
        self,
        names: Any = None,
        *,
        undefined: Undefined = "present",
        pos_label: Label | None = None,
        average_over: Sequence[Label] | None = None,
        on_failure: OnFailure = None,
    ) -> Any:
        """Return metrics of the matrix, or of each group's matrix; arguments as for :func:`cmfast.metrics.compute`.

        Two options take labels: `pos_label` is the positive class of two, and `average_over` lists the classes to
        average over. Without `pos_label`, two integer classes not declared by
        `n_classes` are treated as by :func:`cmfast.metrics.from_labels`: the positive class is 1 of 0 and 1, and 1 of
        -1 and 1; other pairs raise.

        Warns if the labels are text and no label is both a truth and a prediction, so that accuracy is 0; and if a
        metric of ordered classes is requested for more than two text classes without a given order.
        """
        options: dict[str, Any] = {"undefined": undefined, "on_failure": on_failure}
        return self._compute(self._held, names, pos_label, average_over, options)[0]

    @staticmethod
    def _compute(
        held: CountsState,
        names: Any,
        pos_label: Label | None,
        average_over: Sequence[Label] | None,
        options: dict[str, Any],
    ) -> tuple[Any, tuple[Label, ...]]:
        """Return metrics of the state `held`, and all its class labels, in the order of values per class."""
        check_options(**options)
        held, place = _choose_positive(held, names, pos_label)
        axis = held.axis
        if _plan.is_binary(_plan.resolve_names(names)):
            options = {**options, "pos_label": place}
        if average_over is not None:
            if not isinstance(average_over, list | tuple | np.ndarray):
                validate.refuse("average_over", "a list of labels", validate.format_value(average_over), TypeError)
            places = [axis.find_position("average_over", label) for label in average_over]
            options = {**options, "average_over": places}
        M: Any = held.whole()
        return metrics.compute(M, names, **options), axis.labels

    def classification_report(
        self, *, average_over: Sequence[Label] | None = None, undefined: Undefined = "present"
    ) -> "ClassificationReport":
        """Return :func:`cmfast.metrics.classification_report` by label, to print, show or convert to a data frame.

        Parameters
        ----------
        average_over : sequence of labels, optional
            Classes to list, in this order, and to average over; default: all.
        undefined : {"present", "nan", "strict", "zero", "one"} or float
            The value of 0/0.

        Raises
        ------
        ValueError
            The counts have groups; report one :meth:`group` instead.

        Examples
        --------
        >>> import cmfast
        >>> counts = cmfast.ConfusionCounts.from_labels(
        ...     ["cat", "dog", "dog"], ["cat", "cat", "dog"]
        ... )
        >>> print(counts.classification_report())
        0/0: present       precision     recall         f1    jaccard    support
        cat                   0.5000     1.0000     0.6667     0.5000          1
        dog                   1.0000     0.5000     0.6667     0.5000          2
        macro                 0.7500     0.7500     0.6667     0.5000          3
        weighted              0.8333     0.6667     0.6667     0.5000          3
        <BLANKLINE>
        accuracy              0.6667
        balanced_accuracy     0.7500
        min_recall            0.5000
        mcc                   0.5000
        kappa                 0.4000
        geometric_mean        0.7071
        f1_of_macro           0.7500
        """
        held = self._held
        if held.keys is not None:
            validate.fail(
                "there are groups; give counts.group(key).classification_report() of one, or counts.table(names) of all"
            )
        names = list(map(str, held.axis.labels))
        return metrics.classification_report(
            held.whole(), display_labels=names, average_over=average_over, undefined=undefined
        )

    def group(self, key: Label | tuple[Label, ...]) -> Self:
        """Return the counts of one group as counts without groups; all classes stay.

        Parameters
        ----------
        key : label, or tuple of labels
            One of :attr:`groups`.

        Raises
        ------
        KeyError, TypeError
            Unknown group, or counts without groups.

        Examples
        --------
        >>> import cmfast
        >>> counts = cmfast.ConfusionCounts.from_labels(
        ...     [0, 1, 1], [0, 1, 0], groups=["x", "x", "y"]
        ... )
        >>> counts.group("y").matrix.tolist()
        [[0, 0], [1, 0]]
        """
        held, empty = self._snapshot()
        if held.keys is None:
            validate.fail("there are no groups to take one of", TypeError)
        groups = held.keys.labels
        try:
            place = {name: k for k, name in enumerate(groups)}[key]
        except (KeyError, TypeError) as error:
            kind = KeyError if isinstance(error, KeyError) else TypeError
            validate.refuse(
                "key", f"one of the groups {validate.format_value(groups)}", validate.format_value(key), kind
            )
        return self._replace(select_group(held, place), empty)

    def normalize(
        self,
        method: Method,
        *,
        on_failure: OnFailure = None,
        num_threads: int | None = None,
        progress: Progress = None,
        **options: Unpack[BiOptions],
    ) -> ArrayT:
        """Normalise the matrix, or each group's matrix; arguments as for :func:`cmfast.normalize`."""
        M: Any = self.matrix
        common: Any = {"on_failure": on_failure, "num_threads": num_threads, "progress": progress}
        out: ArrayT = normalizing.normalize(M, method, **common, **options)
        return out

    def bi_normalize(
        self, *, on_failure: OnFailure = None, num_threads: int | None = None, **options: Unpack[BiOptions]
    ) -> ArrayT:
        """Scale rows and columns of the matrix, or of each group's, to 1; arguments as for :func:`cmfast.bi_normalize`.

        Examples
        --------
        >>> import cmfast
        >>> counts = cmfast.ConfusionCounts.from_labels(
        ...     [0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]
        ... )
        >>> counts.bi_normalize().round(3).tolist()
        [[0.634, 0.366], [0.366, 0.634]]
        """
        return self.normalize("bi", on_failure=on_failure, num_threads=num_threads, **options)

    def interval(
        self,
        names: Any = None,
        *,
        method: IntervalMethod | None = None,
        confidence_level: float = 0.95,
        n_resamples: int = 10_000,
        rng: "int | np.random.Generator" = 0,
        undefined: Undefined = "present",
        pos_label: Label | None = None,
        on_failure: OnFailure = None,
    ) -> "Interval | Intervals":
        """Return intervals of metrics of the matrix, or of each group's matrix.

        Parameters
        ----------
        names : str or list of str, optional
            As for :meth:`compute`, as are `undefined` and `pos_label`.
        method, confidence_level, n_resamples, rng, on_failure
            As for :func:`cmfast.uncertainty.interval`, which has further options for clusters, strata and priors.

        Returns
        -------
        Interval, or Intervals
            One interval, or several by name; arrays with a value per group.

        Examples
        --------
        >>> import cmfast
        >>> counts = cmfast.ConfusionCounts.from_labels(
        ...     ["ill"] * 9 + ["well"] * 9, ["ill"] * 8 + ["well"] * 10
        ... )
        >>> found = counts.interval(
        ...     "recall_binary", pos_label="ill", method="wilson"
        ... )
        >>> round(float(found.low), 3), round(float(found.high), 3)
        (0.565, 0.98)
        """
        options: dict[str, Any] = {
            "method": method,
            "confidence_level": confidence_level,
            "n_resamples": n_resamples,
            "rng": rng,
            "undefined": undefined,
        }
        options |= {"pos_label": pos_label, "on_failure": on_failure}
        found: Interval | Intervals = load("cmfast.uncertainty").interval(self, names, **options)
        return found

    def plot(
        self,
        *,
        ax: Any = None,
        normalize: Method | None = None,
        order: "Order | Sequence[int]" = "given",
        log: bool = False,
        colorbar: bool = True,
        values_format: str | None = None,
    ) -> "ConfusionDisplay":
        """Draw the matrix with its class labels, by matplotlib.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw into; default: a new figure.
        normalize : {"row", "true", "col", "pred", "all", "bi"}, optional
            Shares to show instead of counts.
        order
            Order of the classes, as for :meth:`cmfast.display.ConfusionDisplay.from_matrix`.
        log, colorbar, values_format
            As for :meth:`cmfast.display.ConfusionDisplay.plot`, which has further options.

        Returns
        -------
        cmfast.display.ConfusionDisplay
            With the attributes ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            The counts have groups; plot one :meth:`group` instead.
        """
        held = self._held
        if held.keys is not None:
            validate.fail("there are groups; give counts.group(key).plot() of one")
        display: type[ConfusionDisplay] = load("cmfast.display").ConfusionDisplay
        M: Any = held.whole()
        prepared = display.from_matrix(M, normalize=normalize, display_labels=held.axis.labels, order=order)
        return prepared.plot(ax=ax, log=log, colorbar=colorbar, values_format=values_format)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the counts as a pandas DataFrame: a row per true label, or per group and true label.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.ConfusionCounts.from_labels(
        ...     ["a", "b"], ["a", "a"]
        ... ).to_pandas().loc["b", "a"]
        np.int64(1)
        """
        found: pd.DataFrame = _export.to_pandas(self._held)
        return found

    def to_xarray(self) -> "xr.DataArray":
        """Return the counts as an xarray DataArray with dimensions ``true``, ``predicted`` and, with groups, ``group``.

        Groups of several columns form a MultiIndex, so that ``sel`` accepts any of the columns by name;
        ``reset_index("group")`` turns them into coordinates, which netCDF files require.
        """
        found: xr.DataArray = _export.to_xarray(self._held)
        return found

    @overload
    def table(
        self,
        names: MetricName | Names = ...,
        *,
        library: Literal["pandas"],
        undefined: Undefined = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> "pd.DataFrame": ...
    @overload
    def table(
        self,
        names: MetricName | Names = ...,
        *,
        library: Literal["polars"],
        undefined: Undefined = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> "pl.DataFrame": ...
    @overload
    def table(
        self,
        names: MetricName | Names = ...,
        *,
        library: Literal["pyarrow"],
        undefined: Undefined = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> "pa.Table": ...
    @overload
    def table(
        self,
        names: MetricName | Names = ...,
        *,
        library: None = ...,
        undefined: Undefined = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> Any: ...
    def table(
        self,
        names: MetricName | Names = None,
        *,
        library: str | None = None,
        undefined: Undefined = "present",
        pos_label: Label | None = None,
        average_over: Sequence[Label] | None = None,
        on_failure: OnFailure = None,
    ) -> Any:
        """Return metrics as a table: a row per group, or per group and class if a metric has a value per class.

        Parameters
        ----------
        names : str or list of str, optional
            As for :meth:`compute`, as are all other options; default: all metrics with one value per matrix.
        library : {"pandas", "polars", "pyarrow"}, optional
            Library of the table; default: the library of the table given to :func:`by`, else pandas.

        Examples
        --------
        >>> import cmfast
        >>> counts = cmfast.ConfusionCounts.from_labels(
        ...     [0, 1, 1], [0, 1, 0], groups=["x", "x", "y"]
        ... )
        >>> counts.table("accuracy")
          groups  accuracy
        0      x       1.0
        1      y       0.0
        """
        library = self._library if library is None else library
        validate.choice("library", library, _export.LIBRARIES)
        wanted = names if _plan.is_group(names) or not isinstance(names, str) else [names]
        options: dict[str, Any] = {"undefined": undefined, "on_failure": on_failure}
        held = self._held
        found, classes = self._compute(held, wanted, pos_label, average_over, options)
        return _export.make_metric_table(held, found, library, classes if average_over is None else average_over)

    def sync(self, process_group: Any = None) -> Self:
        """Return the sum over all processes of ``torch.distributed``; itself if there is only one process.

        The counts themselves stay unchanged, so that later updates are counted once. Labels and groups may differ.

        Parameters
        ----------
        process_group : torch.distributed.ProcessGroup, optional
            Default: all processes. Every process of the group must call this method.

        Raises
        ------
        RuntimeError
            The processes have different versions of cmfast.
        OverflowError
            More samples than int64 holds.
        """
        held, empty = self._snapshot()
        return self._replace(_distributed_sum.sum_processes(held, process_group), empty)

    def state_dict(self) -> dict[str, Any]:
        """Return the counts as a checkpoint dict: tensors unchanged, everything else as plain Python values.

        :func:`torch.load` therefore reads it with ``weights_only=True``, its default. NumPy arrays are encoded
        as by
        :meth:`to_json`; CuPy arrays stay arrays.
        """
        parts = get_parts(self._held, on_host=False)
        return {name: encode_array(part) if isinstance(part, np.ndarray) else part for name, part in parts.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Replace the counts by those that :meth:`state_dict` returned; the matrix stays on its device.

        Raises
        ------
        TypeError, ValueError
            Not a state of ConfusionCounts; other classes than those declared for these counts.
        """
        if not isinstance(state_dict, dict):
            validate.refuse("state_dict", "a dict", type(state_dict).__name__, TypeError)
        try:
            plain = {name for name, part in state_dict.items() if name in PARTS and isinstance(part, dict)}
            arrays = {name: decode_array(name, state_dict[name], *PARTS[name]) for name in plain - {"classes"}}
            held, empty = parse_parts({**state_dict, **arrays})
        except DamagedError as error:
            validate.fail(f"state_dict must be a state of ConfusionCounts: {error}")
        with self._guard.lock:
            declared = self._empty.axis
            if declared.source not in GROWING and declared != held.axis:
                wanted = f"of counts with {declared.describe()}, as these were declared"
                validate.refuse("state_dict", wanted, f"one with {held.axis.describe()}")
            self._held, self._empty = held, empty

    def _get_parts(self) -> dict[str, Any]:
        """Return the parts to save."""
        return get_parts(self._held, on_host=True)

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Return counts made of saved parts."""
        return cls()._replace(*parse_parts(parts))


def _list_labels(name: str, y: Array) -> list[Any]:
    """Return the labels that occur in `y`, or that its categories declare."""
    return list(encode_labels(name, y, dates=True, floats=True).compact().values)


def _explain_missing(owner: str, name: str) -> AttributeError:
    """Return the AttributeError for an attribute that counts, or their class, do not have."""
    if name.startswith("_"):  # protocols that other libraries look for
        return AttributeError(f"{owner} has no attribute {name!r}", name=name)
    known = [known for known in dir(ConfusionCounts) if not known.startswith("_")]
    is_metric = find_form(name) is not None
    return make_missing_attribute_error(owner, name, known, is_metric=is_metric)


def _choose_positive(held: CountsState, names: Any, pos_label: Label | None) -> tuple[CountsState, int]:
    """Return counts for the metrics `names`, and the position of the positive class; warn of labels and their order."""
    _count_samples.warn_of_disjoint_labels(held)
    positive = 1
    if _plan.is_binary(_plan.resolve_names(names, pos_label=pos_label)):
        held, positive = prepare_binary(held, positive if pos_label is None else 0)
    axis = held.axis
    _count_samples.warn_of_order([axis], names)
    if pos_label is None:
        return held, positive
    positive = axis.find_position("pos_label", pos_label)
    if len(axis.labels) != 2:
        given = f"{validate.format_value(pos_label)} with {len(axis.labels)} classes"
        validate.refuse("pos_label", "None for other than two classes", given)
    return held, positive


def _sum_matrix(held: CountsState) -> float:
    """Return the sum of the matrix; adding counts has already checked that integers fit in int64."""
    M: Any = held.whole()
    total: float = adapter(M).evaluate(lambda M: M.sum().item(), M)
    return total
