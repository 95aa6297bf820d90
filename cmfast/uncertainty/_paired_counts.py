"""What two classifiers said of the same samples: ``paired_counts``, and what it returns."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from cmfast._core import dispatch, lazy, validate
from cmfast._core.adapters import adapter, read_only
from cmfast._core.annotations import Array, Label
from cmfast._core.confused_pairs import USUAL_LEVEL
from cmfast._core.markup import escape_prose, isolate
from cmfast._core.p_values import binomial_test
from cmfast._files.archive import Parts
from cmfast._files.states import State
from cmfast.uncertainty import _paired_samples
from cmfast.uncertainty._paired_held import OPTIONAL, PARTS, HeldCells, merged, nothing, of_parts, parts_of

TRUTH, FIRST, SECOND = range(3)


class Flip(NamedTuple):
    """A cell in which two classifiers differ.

    Attributes
    ----------
    truth, first, second : label
        The class, and what each of the two took it for.
    n_samples : int
        How often.
    """

    truth: Any
    first: Any
    second: Any
    n_samples: int


class PairedCounts(State):
    """How often each class was taken for which by each of two classifiers, on the same samples.

    :func:`paired_counts` counts them, ``a + b`` adds them exactly, whatever labels, groups and clusters each has.

    Attributes
    ----------
    keys, counts : array of int64, shape (k,)
        Every cell that is not empty, in order: ``((unit * C + truth) * C + first) * C + second``, and its samples. A
        unit is a group, or a cluster within a group, in order; 0 without both.
    labels : tuple
        The classes, in order.
    groups : tuple or None
        What the groups are called, as those of :class:`cmfast.ConfusionCounts`; None without groups.
    first, second : array of int64, shape (C, C), or (G, C, C) with groups
        Confusion matrix of each classifier: rows are the truth.
    agreement : array of int64, shape (C, C), or (G, C, C) with groups
        How often the first (rows) said what the second (columns) did, whatever was true.

    Notes
    -----
    Counts are held on the host; arrays are returned in the library, and on the device, of the labels.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> counts = uncertainty.paired_counts([0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 1, 0])
    >>> counts.first.tolist(), counts.second.tolist(), counts.agreement.tolist()
    ([[1, 1], [0, 2]], [[2, 0], [1, 1]], [[1, 0], [2, 1]])
    >>> counts.flips(1)
    [Flip(truth=0, first=1, second=0, n_samples=1)]
    >>> counts + counts
    <PairedCounts: 8 samples, 2 classes>
    """

    _STORED: ClassVar[Parts] = PARTS
    _OPTIONAL: ClassVar[tuple[str, ...]] = OPTIONAL

    def __init__(self, held: HeldCells, home: Array) -> None:
        self._held = held
        self._home = home  # an empty array: whose library results are of

    def _sent(self, array: np.ndarray) -> Any:
        """Return an array where the labels were; one of NumPy is read-only."""
        sent = adapter(self._home).send(array, self._home)
        return read_only(sent) if isinstance(sent, np.ndarray) else sent

    @property
    def keys(self) -> Any:
        """Cells that are not empty, in order."""
        return self._sent(self._held.keys)

    @property
    def counts(self) -> Any:
        """Samples of every cell."""
        return self._sent(self._held.counts)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, in order."""
        return self._held.axis.labels

    @property
    def groups(self) -> tuple[Label | tuple[Label, ...], ...] | None:
        """What the groups are called, in order; None without groups."""
        groups, _ = self._held.groups()
        return None if groups is None else groups.labels

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the columns that groups come from; none without groups."""
        groups, _ = self._held.groups()
        return () if groups is None else groups.names

    @property
    def n_samples(self) -> int:
        """Sum of all counts."""
        return int(self._held.counts.sum())

    @property
    def n_clusters(self) -> int | None:
        """How many clusters there are, in all groups; None without clusters."""
        return self._held.n_units if self._held.clustered else None

    @property
    def first(self) -> Any:
        """Confusion matrix of the first classifier, of every group."""
        return self._sent(table(self._held, TRUTH, FIRST))

    @property
    def second(self) -> Any:
        """Confusion matrix of the second classifier, of every group."""
        return self._sent(table(self._held, TRUTH, SECOND))

    @property
    def agreement(self) -> Any:
        """How often the first (rows) said what the second (columns) did, of every group."""
        return self._sent(table(self._held, FIRST, SECOND))

    def flips(self, k: int = 10) -> list[Flip]:
        """Return the largest cells in which the two differ, of all groups together.

        Parameters
        ----------
        k : int
            How many at most.

        Returns
        -------
        list of Flip
            Those with most samples first; equal ones in the order of the classes.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> uncertainty.paired_counts(["a", "b", "b"], ["a", "a", "a"], ["a", "b", "b"]).flips()
        [Flip(truth='b', first='a', second='b', n_samples=2)]
        """
        k = validate.count("k", k, least=1)
        C = max(len(self.labels), 1)
        cells, which = np.unique(self._held.keys % C**3, return_inverse=True)
        counts = np.zeros(len(cells), np.int64)
        np.add.at(counts, which.reshape(-1), self._held.counts)
        counts[cells // C % C == cells % C] = 0
        order = np.argsort(-counts, kind="stable")[: min(k, np.count_nonzero(counts))]
        places = np.stack([cells // C**2, cells // C % C, cells % C], -1)[order].tolist()
        labels = self.labels
        return [
            Flip(labels[y], labels[a], labels[b], n)
            for (y, a, b), n in zip(places, counts[order].tolist(), strict=True)
        ]

    def __repr__(self) -> str:
        text = f"{self.n_samples:,} samples, {len(self.labels)} classes"
        groups, clusters = self.groups, self.n_clusters
        text += "" if groups is None else f", {len(groups):,} groups"
        text += "" if clusters is None else f", {clusters:,} clusters"
        return f"<PairedCounts: {text}>"

    def _repr_html_(self) -> str:
        said = f"<table><caption>{escape_prose(repr(self)[1:-1])}</caption>"
        return f"{said}</table><p>{escape_prose(self._explain(isolate))}</p>"

    def explain(self) -> str:
        """Say in words how often both, one or none was right, and where they differ most, if that is beyond chance.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> said = uncertainty.paired_counts(["a", "b", "b"], ["a", "a", "a"], ["a", "b", "b"]).explain()
        >>> said.split("; ")[0]
        'of 3 samples both have 1 right, the first alone 0, the second alone 2, neither 0'
        >>> said.split("; ")[1]
        'no difference stands out'
        """
        return self._explain(str)

    def _explain(self, name: Callable[[object], str]) -> str:
        if not self.n_samples:
            return "nothing was counted"
        _, *sides = self._held.decoded()
        first, second = (sides[k] == sides[TRUTH] for k in (FIRST, SECOND))
        kinds = (first & second, first & ~second, ~first & second, ~first & ~second)
        both, one, other, none = (f"{int(self._held.counts[kind].sum()):,}" for kind in kinds)
        said = f"of {self.n_samples:,} samples both have {both} right"
        said += f", the first alone {one}, the second alone {other}, neither {none}"
        most = self.flips(2)
        if not most:
            return f"{said}; they never differ"
        *labels, n = most[0]
        truth, a, b = map(name, labels)
        next_most = most[1].n_samples if len(most) > 1 else 0
        if binomial_test(np.int64(n), np.int64(next_most)) > 1.0 - USUAL_LEVEL:
            return f"{said}; no difference stands out"
        return f"{said}; most often ({n:,}) the first says {a} and the second {b} where {truth} is true"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairedCounts) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        msg = "PairedCounts are unhashable, as arrays are"
        raise TypeError(msg)

    def __add__(self, other: object) -> Self:
        if isinstance(other, int) and other == 0:  # where sum() starts
            return self
        if not isinstance(other, PairedCounts):
            return NotImplemented
        dispatch.adopt(counts=self._home, others=other._home)
        return type(self)(merged(self._held, other._held), self._home)

    def __radd__(self, other: object) -> Self:
        return self.__add__(other)

    def _get_parts(self) -> dict[str, Any]:
        return parts_of(self._held)

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        return cls(of_parts(parts), nothing().keys)


def table(held: HeldCells, rows: int, cols: int) -> np.ndarray:
    """Return how often what `rows` says met what `cols` says, of every group."""
    groups, of_unit = held.groups()
    C, n = len(held.axis.labels), 1 if groups is None else len(groups.rows)
    unit, *sides = held.decoded()
    with validate.explain_memory_error(8 * n * C**2, labels=C):
        out = np.zeros((n, C, C), np.int64)
    np.add.at(out, (of_unit[unit], sides[rows], sides[cols]), held.counts)
    return out[0] if groups is None else out


def paired_counts(
    y_true: Array,
    y_a: Array,
    y_b: Array,
    /,
    *,
    n_classes: int | None = None,
    labels: Array | None = None,
    groups: Any = None,
    clusters: Any = None,
) -> PairedCounts:
    """Count what two classifiers said of the same samples.

    Parameters
    ----------
    y_true, y_a, y_b : array
        Truth and both predictions, of one shape: integers, bool or strings; beside NumPy's arrays also columns of
        pandas, polars or Arrow.
    n_classes : int, optional
        Labels are the class ids ``0, ..., n_classes - 1``; any other raises.
    labels : array, shape (C,), optional
        The classes, in order; a sample with another label, by whomever, is left out. Default: those that occur.
    groups : column, or dict of str to column, optional
        The group of each sample, by labels of any kind: everything else is said of every group.
    clusters : column, optional
        What samples that are not independent of each other have in common: a patient, a document, a speaker.

    Returns
    -------
    PairedCounts
        The counts that every paired comparison is made of: ``T[truth, first, second]``, few of whose cells are filled.

    Raises
    ------
    TypeError, ValueError
        Labels of several kinds, missing values, shapes or libraries that differ, ids outside ``0, ..., n_classes - 1``.
    OverflowError
        More classes, groups and clusters than int64 can number the cells of.

    Warns
    -----
    DiagnosticWarning
        All labels have exactly one 1 in each of several rows, as one-hot labels have.

    Notes
    -----
    Bad values: missing labels are refused. Synchronises the device. Reproducible: counts are exact, and do not depend
    on how samples are cut or ordered. Of Dask arrays it is a ``dask.delayed.Delayed`` of the counts.

    References
    ----------
    McNemar, Note on the sampling error of the difference between correlated proportions, 1947.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> uncertainty.paired_counts(["a", "b", "b"], ["a", "b", "a"], ["a", "b", "b"], clusters=[1, 1, 2])
    <PairedCounts: 3 samples, 2 classes, 2 clusters>
    """
    if lazy.are_lazy(y_true, y_a, y_b, groups, clusters):
        arrays = {"y_true": y_true, "y_a": y_a, "y_b": y_b, "groups": groups, "clusters": clusters}
        options: dict[str, Any] = {"n_classes": n_classes, "labels": labels, "num_threads": None}
        if isinstance(groups, Mapping):
            validate.refuse("groups", "one column with Dask arrays", "a dict", TypeError)
        lazily: PairedCounts = lazy.dask().merge_parts(_of_chunk, _added, arrays, dict.fromkeys(arrays, 0), **options)
        return lazily
    return PairedCounts(*_paired_samples.counted(y_true, y_a, y_b, labels, n_classes, groups, clusters))


def _of_chunk(
    y_true: Array, y_a: Array, y_b: Array, groups: Any = None, clusters: Any = None, *, num_threads: Any, **options: Any
) -> PairedCounts:
    del num_threads  # nothing here takes long enough for a second
    return paired_counts(y_true, y_a, y_b, groups=groups, clusters=clusters, **options)


def _added(parts: list[PairedCounts]) -> PairedCounts:
    return sum(parts[1:], parts[0])
