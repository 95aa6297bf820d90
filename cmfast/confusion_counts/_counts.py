"""Counts that know their classes, and their groups where there are some."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, Unpack, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast import metrics, normalizing
from cmfast._core import validate
from cmfast._core.adapters import adapter, read_only
from cmfast._core.annotations import (
    Array,
    ArrayT,
    BiOptions,
    CudaArray,
    DeviceT,
    Label,
    Labelled,
    Method,
    OnFailure,
    Progress,
    Tensor,
    Undefined,
)
from cmfast._core.locking import ObjectLock
from cmfast._files.archive import DamagedError, Parts
from cmfast._files.states import State, array_facts, array_of_facts, of_class
from cmfast.confusion_counts import _count_samples, _distributed_sum, _export
from cmfast.confusion_counts._label_axis import GROWING
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
from cmfast.metrics import MetricName, _plan
from cmfast.metrics._evaluate import check_options
from cmfast.metrics._names import Names

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import xarray as xr

Groups: TypeAlias = ArrayLike | Tensor | CudaArray | Labelled | Mapping[str, Any] | None


class ConfusionCounts(State, Generic[ArrayT]):
    """Confusion counts that know their classes, and their groups where there are some.

    They grow by :meth:`update` and add up exactly, whatever each part has seen: labels that differ merge by their
    union. Where they are counted they stay: on NumPy, CuPy or torch, on a device.

    Parameters
    ----------
    labels : array, shape (C,), optional
        The classes, in order; a pair with another label is left out, as by :func:`cmfast.confusion_matrix`. Default:
        those that occur, sorted; of a categorical all of its categories, in their order.
    n_classes : int, optional
        The classes are ``0, ..., n_classes - 1``, and any other label raises: the fastest way.

    Attributes
    ----------
    matrix : array, shape (C, C), or (G, C, C) with groups
        int64 and exact without weights, else float64. Rows are the truth. In the library of what was counted.
    labels : tuple
        The classes, in the order of rows and columns.
    groups : tuple or None
        What the groups are called: by a label, or, of several columns, by a tuple of labels; None without groups.
    group_names : tuple of str
        Names of the columns that groups come from.

    Notes
    -----
    Several threads may update one object: no update is lost, and every property, method and copy is of one moment.
    ``a += b`` is an update of ``a``. More samples than int64 holds, and integer weights that take away more than a cell
    has, raise (OverflowError, ValueError), and nothing is counted.

    Ordered categories keep their order, which the weighted kappas and Gerrity's score depend on; parts whose orders
    contradict each other do not merge. Two counts are equal if classes, groups and all bits of the matrix are. Bad
    values: as :func:`cmfast.confusion_matrix`. Synchronises the device. Reproducible: counts do not depend on how
    samples are cut or ordered; sums of weights do in the last bit.

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

    def __init__(self, *, labels: Array | None = None, n_classes: int | None = None) -> None:
        self._empty = CountsState(_count_samples.resolve_classes(labels, n_classes, dates=True), None, None)
        self._held = self._empty  # replaced in one step, by whoever holds the lock
        self._library = "pandas"  # whose tables are made
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
        sample_weight: DeviceT | None = ...,
        groups: Groups = ...,
        ignore_index: int | str | None = ...,
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
        sample_weight: ArrayLike | None = ...,
        groups: Groups = ...,
        ignore_index: int | str | None = ...,
        whole_floats: bool = ...,
    ) -> "ConfusionCounts[NDArray[Any]]": ...
    @classmethod
    def from_labels(
        cls,
        y_true: Array,
        y_pred: Array,
        *,
        labels: Array | None = None,
        n_classes: int | None = None,
        sample_weight: Array | None = None,
        groups: Groups = None,
        ignore_index: int | str | None = None,
        whole_floats: bool = False,
    ) -> "ConfusionCounts[Any]":
        """Count some samples; `labels` and `n_classes` as for the class, everything else as for :meth:`update`."""
        counts = cls(labels=labels, n_classes=n_classes)
        return counts._update(y_true, y_pred, sample_weight, groups, ignore_index, whole_floats=whole_floats)

    def update(
        self,
        y_true: Array,
        y_pred: Array,
        *,
        sample_weight: Array | None = None,
        groups: Groups = None,
        ignore_index: int | str | None = None,
        whole_floats: bool = False,
    ) -> Self:
        """Count more samples. What raises has counted none of them.

        Parameters
        ----------
        y_true, y_pred : array
            Labels of one shape, whatever it is: integers, bool, strings or dates; beside NumPy's arrays also columns
            of pandas, polars or Arrow, whose own codes of categories are used.
        sample_weight : array of the same shape, optional
            What each sample adds to its cell; default 1.
        groups : column, or dict of str to column, optional
            The group of each sample, by labels of any kind; several columns by their names. In every update or in none.
        ignore_index : int or str, optional
            A truth that counts nowhere, whatever was predicted: a label of the kind of the others.
        whole_floats : bool
            Take floats for labels, each of which must be a whole number: 2.0 is 2.

        Returns
        -------
        ConfusionCounts
            Itself.

        Raises
        ------
        TypeError, ValueError
            Labels of another kind than before; shapes that differ; missing values; groups where there were none, or of
            other columns; categories in an order that contradicts the one before.
        """
        return self._update(y_true, y_pred, sample_weight, groups, ignore_index, whole_floats=whole_floats)

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
        part = None
        if weight is groups is ignored is None and whole_floats is False:
            part = _count_samples.count_known_ids(self._held, y_true, y_pred)
        if part is None:
            given = (y_true, y_pred, weight, groups, self._empty.axis, ignored)
            part = _count_samples.count_samples(*given, whole_floats=whole_floats)
        with self._guard.lock:  # counting takes no part in it: threads count at the same time
            self._held = add_counts(self._held, part)
        return self

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, in the order of rows and columns."""
        return self._held.axis.labels

    @property
    def groups(self) -> tuple[Label | tuple[Label, ...], ...] | None:
        """What the groups are called, in the order of the matrices; None without groups."""
        return None if self._held.keys is None else self._held.keys.labels

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the columns that groups come from; none without groups."""
        return () if self._held.keys is None else self._held.keys.names

    @property
    def matrix(self) -> ArrayT:
        """The counts: shape (C, C), or (G, C, C) with groups. One of NumPy is read-only."""
        M: Any = self._held.whole()
        found: Any = read_only(M) if isinstance(M, np.ndarray) else M
        return cast(ArrayT, found)

    @property
    def n_samples(self) -> float:
        """Sum of all counts; with weights of the weights. Synchronises the device."""
        return _sum_matrix(self._held)

    def __repr__(self) -> str:
        held = self._held
        groups = "" if held.keys is None else f", {len(held.keys.rows)} groups"
        return f"<ConfusionCounts: {_sum_matrix(held):,} samples, {len(held.axis.labels)} classes{groups}>"

    def _repr_html_(self) -> str:
        return _export.to_html(self._held, repr(self)[1:-1])

    def explain(self) -> str:
        """Say in words how much is right, and what stands out of the rest; of groups, which are worst and best.

        A class is said to be found least, and a confusion to stand out, only where that is beyond chance.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.ConfusionCounts.from_labels(["cat", "dog", "dog"], ["cat", "cat", "dog"]).explain()
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
            return NotImplemented
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
        """Return what was counted, and the same before anything was, of one moment."""
        with self._guard.lock:
            return self._held, self._empty

    def __radd__(self, other: object) -> Self:
        return self.__add__(other)

    def _replace(self, held: CountsState, empty: CountsState) -> Self:
        out = type(self)()
        out._empty, out._held, out._library = empty, held, self._library
        return out

    @of_class
    @classmethod
    def merge(cls, parts: Iterable[Self], /) -> Self:
        """Merge any number of parts, exactly: as ``sum(parts)``.

        Parameters
        ----------
        parts : iterable of ConfusionCounts
            All with groups of the same columns, or all without; labels may differ.

        Raises
        ------
        TypeError, ValueError
            A part that is no ConfusionCounts, or parts of two libraries or devices; no part at all; labels of two
            kinds; orders of categories that contradict each other.
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
        """Forget what was counted, and the labels and groups that were found; those that were given stay."""
        with self._guard.lock:
            self._held = self._empty
        return self

    @overload
    def compute(
        self,
        names: MetricName,
        /,
        *,
        undefined: Undefined = ...,
        positive: int = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> ArrayT: ...
    @overload
    def compute(
        self,
        names: Names = ...,
        /,
        *,
        undefined: Undefined = ...,
        positive: int = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> dict[str, ArrayT]: ...
    def compute(
        self,
        names: Any = None,
        /,
        *,
        undefined: Undefined = "present",
        positive: int = 1,
        pos_label: Label | None = None,
        average_over: Sequence[Label] | None = None,
        on_failure: OnFailure = "warn",
    ) -> Any:
        """Return metrics of the matrix, or of every group's; all arguments as for :func:`cmfast.metrics.compute`.

        But for two, which are labels here and not places: `pos_label`, the positive class of two, in the place of
        `positive`; and `average_over`, the classes that averages are over. Without `pos_label` the positive class of
        two integers that were not declared by `n_classes` is as for :func:`cmfast.metrics.from_labels`: 1 of 0 and 1,
        and of -1 and 1; of others an error asks for it.

        Warns where the labels are text and no truth is ever predicted: nothing can be right; and where a metric of
        ordered classes is named and more than two classes are text whose order was not given.
        """
        options: dict[str, Any] = {"undefined": undefined, "positive": positive, "on_failure": on_failure}
        return self._compute(self._held, names, pos_label, average_over, options)[0]

    @staticmethod
    def _compute(
        held: CountsState,
        names: Any,
        pos_label: Label | None,
        average_over: Sequence[Label] | None,
        options: dict[str, Any],
    ) -> tuple[Any, tuple[Label, ...]]:
        """Return metrics of what was counted at one moment, and the classes that there are for them."""
        _count_samples.warn_of_disjoint_labels(held)
        check_options(**options)
        if _plan.is_binary(_plan.resolve_names(names)):
            held, place = prepare_binary(held, options["positive"] if pos_label is None else 0)
            options = {**options, "positive": place}
        axis = held.axis
        _count_samples.warn_of_order([axis], names)
        if pos_label is not None:
            options = {**options, "positive": axis.find_position("pos_label", pos_label)}
            if len(axis.labels) != 2:
                given = f"{validate.format_value(pos_label)} with {len(axis.labels)} classes"
                validate.refuse("pos_label", "None for other than two classes", given)
        if average_over is not None:
            if not isinstance(average_over, list | tuple | np.ndarray):
                validate.refuse("average_over", "a list of labels", validate.format_value(average_over), TypeError)
            places = [axis.find_position("average_over", label) for label in average_over]
            options = {**options, "average_over": places}
        M: Any = held.whole()
        return metrics.compute(M, names, **options), axis.labels

    def report(
        self, *, average_over: Sequence[Label] | None = None, undefined: Undefined = "present"
    ) -> metrics.Report:
        """Report the matrix by its labels: :func:`cmfast.metrics.report`, to be printed, shown or taken as a frame.

        Parameters
        ----------
        average_over : sequence of labels, optional
            Classes that get a row, in this order, and that averages are over; default: all.
        undefined : {"present", "nan", "strict", "zero", "one"} or float
            What a 0/0 gives.

        Raises
        ------
        ValueError
            There are groups: report :meth:`group`, one of them.

        Examples
        --------
        >>> import cmfast
        >>> print(cmfast.ConfusionCounts.from_labels(["cat", "dog", "dog"], ["cat", "cat", "dog"]).report())
        0/0: present           precision      recall          f1     jaccard     support
        cat                       0.5000      1.0000      0.6667      0.5000           1
        dog                       1.0000      0.5000      0.6667      0.5000           2
        macro                     0.7500      0.7500      0.6667      0.5000           3
        weighted                  0.8333      0.6667      0.6667      0.5000           3
        <BLANKLINE>
        accuracy                  0.6667
        balanced_accuracy         0.7500
        min_recall                0.5000
        mcc                       0.5000
        kappa                     0.4000
        geometric_mean            0.7071
        f1_of_macro               0.7500
        """
        held = self._held
        if held.keys is not None:
            validate.fail("there are groups; give counts.group(key).report() of one, or counts.table(names) of all")
        names = list(map(str, held.axis.labels))
        return metrics.report(held.whole(), class_names=names, average_over=average_over, undefined=undefined)

    def group(self, key: Label | tuple[Label, ...], /) -> Self:
        """Return the counts of one group, as counts without groups; all classes stay.

        Parameters
        ----------
        key : label, or tuple of labels
            One of :attr:`groups`.

        Raises
        ------
        KeyError, TypeError
            No such group, or no groups at all.

        Examples
        --------
        >>> import cmfast
        >>> counts = cmfast.ConfusionCounts.from_labels([0, 1, 1], [0, 1, 0], groups=["x", "x", "y"])
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
        /,
        *,
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
        progress: Progress = None,
        **options: Unpack[BiOptions],
    ) -> ArrayT:
        """Return the matrix, or every group's, normalised; all arguments as for :func:`cmfast.normalize`."""
        M: Any = self.matrix
        common: Any = {"on_failure": on_failure, "num_threads": num_threads, "progress": progress}
        out: ArrayT = normalizing.normalize(M, method, **common, **options)
        return out

    def to_pandas(self) -> "pd.DataFrame":
        """Return a DataFrame of the counts: a row per true label, of every group where there are groups.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.ConfusionCounts.from_labels(["a", "b"], ["a", "a"]).to_pandas().loc["b", "a"]
        np.int64(1)
        """
        found: pd.DataFrame = _export.to_pandas(self._held)
        return found

    def to_xarray(self) -> "xr.DataArray":
        """Return a DataArray of the counts: dimensions ``true``, ``predicted``, and ``group`` where there are some.

        Groups of several columns are a MultiIndex, so that ``sel`` takes any of the columns by its name;
        ``reset_index("group")`` makes coordinates of them, as files of netCDF need it.
        """
        found: xr.DataArray = _export.to_xarray(self._held)
        return found

    @overload
    def table(
        self,
        names: MetricName | Names = ...,
        /,
        *,
        library: Literal["pandas"],
        undefined: Undefined = ...,
        positive: int = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> "pd.DataFrame": ...
    @overload
    def table(
        self,
        names: MetricName | Names = ...,
        /,
        *,
        library: Literal["polars"],
        undefined: Undefined = ...,
        positive: int = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> "pl.DataFrame": ...
    @overload
    def table(
        self,
        names: MetricName | Names = ...,
        /,
        *,
        library: Literal["pyarrow"],
        undefined: Undefined = ...,
        positive: int = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> "pa.Table": ...
    @overload
    def table(
        self,
        names: MetricName | Names = ...,
        /,
        *,
        library: None = ...,
        undefined: Undefined = ...,
        positive: int = ...,
        pos_label: Label | None = ...,
        average_over: Sequence[Label] | None = ...,
        on_failure: OnFailure = ...,
    ) -> Any: ...
    def table(
        self,
        names: MetricName | Names = None,
        /,
        *,
        library: str | None = None,
        undefined: Undefined = "present",
        positive: int = 1,
        pos_label: Label | None = None,
        average_over: Sequence[Label] | None = None,
        on_failure: OnFailure = "warn",
    ) -> Any:
        """Return metrics as a table: a row per group; where a metric is one per class, a row per group and class.

        Parameters
        ----------
        names : str or list of str, optional
            As for :meth:`compute`, as are all other options; by default all with one number per matrix.
        library : {"pandas", "polars", "pyarrow"}, optional
            Whose table; default: that of the table that :func:`by` counted, else pandas.

        Examples
        --------
        >>> import cmfast
        >>> counts = cmfast.ConfusionCounts.from_labels([0, 1, 1], [0, 1, 0], groups=["x", "x", "y"])
        >>> counts.table("accuracy")
          groups  accuracy
        0      x       1.0
        1      y       0.0
        """
        library = self._library if library is None else library
        validate.choice("library", library, _export.LIBRARIES)
        wanted = names if _plan.is_group(names) or not isinstance(names, str) else [names]
        options: dict[str, Any] = {"undefined": undefined, "positive": positive, "on_failure": on_failure}
        held = self._held
        found, classes = self._compute(held, wanted, pos_label, average_over, options)
        return _export.make_metric_table(held, found, library, classes if average_over is None else average_over)

    def sync(self, process_group: Any = None) -> Self:
        """Return the sum over all processes of ``torch.distributed``; itself where there is only this one.

        Nothing is changed, so what is counted afterwards is counted once. Labels and groups may differ between them.

        Parameters
        ----------
        process_group : torch.distributed.ProcessGroup, optional
            Default: all processes. Every one of them has to call this.

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
        """Return what was counted as checkpoints have it: tensors as they are, all else as plain Python values.

        So :func:`torch.load` reads it with ``weights_only=True``, which is its default. An array of NumPy is as
        :meth:`to_json` has it; one of CuPy stays one.
        """
        parts = get_parts(self._held, on_host=False)
        return {name: array_facts(part) if isinstance(part, np.ndarray) else part for name, part in parts.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned; the matrix stays where it is.

        Raises
        ------
        TypeError, ValueError
            It is of no ConfusionCounts; its classes are not those that these counts were given, where they were.
        """
        if not isinstance(state_dict, dict):
            validate.refuse("state_dict", "a dict", type(state_dict).__name__, TypeError)
        try:
            plain = {name for name, part in state_dict.items() if name in PARTS and isinstance(part, dict)}
            arrays = {name: array_of_facts(name, state_dict[name], *PARTS[name]) for name in plain - {"classes"}}
            held, empty = parse_parts({**state_dict, **arrays})
        except DamagedError as error:
            validate.fail(f"state_dict is of no ConfusionCounts: {error}")
        with self._guard.lock:
            declared = self._empty.axis
            if declared.source not in GROWING and declared != held.axis:
                wanted = f"of counts with {declared.describe()}, as these were declared"
                validate.refuse("state_dict", wanted, f"one with {held.axis.describe()}")
            self._held, self._empty = held, empty

    def _get_parts(self) -> dict[str, Any]:
        return get_parts(self._held, on_host=True)

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        return cls()._replace(*parse_parts(parts))


def _sum_matrix(held: CountsState) -> float:
    """Return the sum of the matrix: of integers at most what int64 holds, as is checked when they are added."""
    M: Any = held.whole()
    total: float = adapter(M).evaluate(lambda M: M.sum().item(), M)
    return total
