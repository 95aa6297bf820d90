"""Paired counts of two classifiers on the same samples: the class ``PairedCounts``, counted by ``paired_counts``."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self, overload

import numpy as np

from cmfast._core import dispatch, lazy, plotting, table_columns, validate
from cmfast._core.adapters import adapter, read_only
from cmfast._core.annotations import Array, Ignored, Label
from cmfast._core.confused_pairs import USUAL_LEVEL
from cmfast._core.libraries import load_pandas
from cmfast._core.markup import escape_prose, isolate
from cmfast._core.p_values import binomial_test
from cmfast._core.result_repr import render_html
from cmfast._core.usual_options import explain_options_of_methods
from cmfast._files.archive import Parts
from cmfast._files.states import State
from cmfast.uncertainty import _paired_counting
from cmfast.uncertainty._paired_cells import (
    OPTIONAL,
    PARTS,
    PairedCells,
    make_empty_cells,
    merge_cells,
    pack_parts,
    unpack_parts,
)

TRUTH, FIRST, SECOND = range(3)
CELL_COLUMNS = ("truth", "first", "second", "n_samples")


@explain_options_of_methods
class Flip(NamedTuple):
    """A cell of the paired counts in which two classifiers differ.

    Attributes
    ----------
    truth, first, second : label
        True class, and the class that each classifier predicts.
    n_samples : int
        Number of samples.
    """

    truth: Any
    first: Any
    second: Any
    n_samples: int

    def _repr_html_(self) -> str:
        """Return the cell as HTML for notebooks."""
        return render_html("Flip", {name: isolate(x) for name, x in self._asdict().items()}, self._explain(isolate))

    def explain(self) -> str:
        """Return a sentence on what both classifiers predict, and what is true."""
        return self._explain(str)

    def _explain(self, name: Callable[[object], str]) -> str:
        """Return the text of `explain`, with labels rendered by `name`."""
        return f"{self.n_samples:,} sample{'s' * (self.n_samples != 1)}: {self._name_classes(name)}"

    def _name_classes(self, name: Callable[[object], str]) -> str:
        """Return the predictions and the true class as text, with labels rendered by `name`."""
        truth, first, second = map(name, self[:3])
        return f"the first predicts {first}, the second {second}, the true class is {truth}"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with one row; ``pandas.DataFrame(flips)`` has a row for each of a list."""
        return load_pandas().DataFrame([self])


class PairedCounts(State):
    """Counts of (truth, first prediction, second prediction) of two classifiers on the same samples.

    :func:`paired_counts` counts them; ``a + b`` adds two exactly, also with different labels, groups and clusters.

    Attributes
    ----------
    keys, counts : array of int64, shape (k,)
        Keys of the nonempty cells in order, ``((unit * C + truth) * C + first) * C + second``, and their numbers of
        samples. A unit is a group, or a cluster within a group, in order; 0 without both.
    labels : tuple
        The classes, in order.
    groups : tuple or None
        Labels of the groups, as in :class:`cmfast.ConfusionCounts`; None without groups.
    first, second : array of int64, shape (C, C), or (G, C, C) with groups
        Confusion matrix of each classifier: rows are the truth.
    agreement : array of int64, shape (C, C), or (G, C, C) with groups
        Predictions of the first (rows) by predictions of the second (columns), over all true classes.

    Notes
    -----
    Counts are held on the host; arrays are returned in the library, and on the device, of the labels.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> counts = uncertainty.paired_counts(
    ...     [0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 1, 0]
    ... )
    >>> (
    ...     counts.first.tolist(),
    ...     counts.second.tolist(),
    ...     counts.agreement.tolist(),
    ... )
    ([[1, 1], [0, 2]], [[2, 0], [1, 1]], [[1, 0], [2, 1]])
    >>> counts.flips(1)
    [Flip(truth=0, first=1, second=0, n_samples=1)]
    >>> counts + counts
    <PairedCounts: 8 samples, 2 classes>
    """

    _STORED: ClassVar[Parts] = PARTS
    _OPTIONAL: ClassVar[tuple[str, ...]] = OPTIONAL

    def __init__(self, held: PairedCells, home: Array) -> None:
        self._held = held
        self._home = home  # an empty array: results are returned in its library, on its device

    def _send(self, array: np.ndarray) -> Any:
        """Return an array in the library and on the device of the labels; NumPy arrays are read-only."""
        sent = adapter(self._home).send(array, self._home)
        return read_only(sent) if isinstance(sent, np.ndarray) else sent

    @property
    def keys(self) -> Any:
        """Keys of the nonempty cells, in order."""
        return self._send(self._held.keys)

    @property
    def counts(self) -> Any:
        """Number of samples of every nonempty cell."""
        return self._send(self._held.counts)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, in order."""
        return self._held.axis.labels

    @property
    def groups(self) -> tuple[Label | tuple[Label, ...], ...] | None:
        """Labels of the groups, in order; None without groups."""
        groups, _ = self._held.groups()
        return None if groups is None else groups.labels

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the columns that define the groups; empty without groups."""
        groups, _ = self._held.groups()
        return () if groups is None else groups.names

    @property
    def n_samples(self) -> int:
        """Sum of all counts."""
        return int(self._held.counts.sum())

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters in all groups; None without clusters."""
        return self._held.n_units if self._held.clustered else None

    @property
    def first(self) -> Any:
        """Confusion matrix of the first classifier, per group."""
        return self._send(count_pairs(self._held, TRUTH, FIRST))

    @property
    def second(self) -> Any:
        """Confusion matrix of the second classifier, per group."""
        return self._send(count_pairs(self._held, TRUTH, SECOND))

    @property
    def agreement(self) -> Any:
        """Table of the predictions of the first (rows) and of the second classifier (columns), per group."""
        return self._send(count_pairs(self._held, FIRST, SECOND))

    def flips(self, k: int = 10) -> list[Flip]:
        """Return the largest cells in which the two differ, summed over groups.

        Parameters
        ----------
        k : int
            Largest number of cells to return.

        Returns
        -------
        list of Flip
            Largest first; ties in the order of the classes.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> uncertainty.paired_counts(
        ...     ["a", "b", "b"], ["a", "a", "a"], ["a", "b", "b"]
        ... ).flips()
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
        """Return the repr and the explanation as HTML, which notebooks show."""
        said = f"<table><caption>{escape_prose(repr(self)[1:-1])}</caption>"
        return f"{said}</table><p>{escape_prose(self._explain(isolate))}</p>"

    def explain(self) -> str:
        """Return a text with the numbers of samples that both, one or neither predicts correctly, and the largest flip.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> said = uncertainty.paired_counts(
        ...     ["a", "b", "b"], ["a", "a", "a"], ["a", "b", "b"]
        ... ).explain()
        >>> said.split("; ")[0]
        '3 samples: both correct 1, only the first 0, only the second 2, neither 0'
        >>> said.split("; ")[1]
        'no flip is significantly most frequent'
        """
        return self._explain(str)

    def _explain(self, name: Callable[[object], str]) -> str:
        """Return the text of `explain`, with labels rendered by `name`."""
        if not self.n_samples:
            return "no samples"
        both, one, other, none = (f"{count:,}" for count in self._count_kinds())
        said = f"{self.n_samples:,} samples: both correct {both}"
        said += f", only the first {one}, only the second {other}, neither {none}"
        most = self.flips(2)
        if not most:
            return f"{said}; they never differ"
        n = most[0].n_samples
        next_most = most[1].n_samples if len(most) > 1 else 0
        if binomial_test(np.int64(n), np.int64(next_most)) > 1.0 - USUAL_LEVEL:
            return f"{said}; no flip is significantly most frequent"
        return f"{said}; most frequent flip ({n:,}): {most[0]._name_classes(name)}"

    def _count_kinds(self) -> list[int]:
        """Return the numbers of samples that both, only the first, only the second, and neither predicts correctly."""
        _, *sides = self._held.decode()
        first, second = (sides[k] == sides[TRUTH] for k in (FIRST, SECOND))
        kinds = (first & second, first & ~second, ~first & second, ~first & ~second)
        return [int(self._held.counts[kind].sum()) for kind in kinds]

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per nonempty cell: group, cluster, truth, predictions, n_samples.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> T = uncertainty.paired_counts(
        ...     ["a", "b", "b"], ["a", "a", "a"], ["a", "b", "b"]
        ... )
        >>> T.to_pandas()
          truth first second  n_samples
        0     a     a      a          1
        1     b     a      b          2
        """
        pd = load_pandas()
        unit, *sides = self._held.decode()
        columns: dict[str, Any] = {}
        if self._held.units is not None:
            names, axes, rows = self._held.units
            for c, (name, axis) in enumerate(zip(names, axes, strict=True)):
                while name in CELL_COLUMNS or name in columns:  # column names must be unique
                    name = f"'{name}'"  # noqa: PLW2901
                columns[name] = [axis.labels[k] for k in rows[unit, c].tolist()]
        for name, side in zip(CELL_COLUMNS, sides, strict=False):
            columns[name] = [self.labels[k] for k in side.tolist()]
        return pd.DataFrame(columns | {CELL_COLUMNS[-1]: self._held.counts})

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the numbers of samples that both, one or neither predicts correctly, over all groups.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        names = ["both", "only the first", "only the second", "neither"]
        return plotting.draw_counts(ax, names, self._count_kinds(), "samples predicted correctly by")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairedCounts) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        msg = "PairedCounts are unhashable, as arrays are"
        raise TypeError(msg)

    def __add__(self, other: object) -> Self:
        if isinstance(other, int) and other == 0:  # start value of sum()
            return self
        if not isinstance(other, PairedCounts):
            return NotImplemented
        dispatch.adopt(counts=self._home, others=other._home)
        return type(self)(merge_cells(self._held, other._held), self._home)

    def __radd__(self, other: object) -> Self:
        return self.__add__(other)

    def _get_parts(self) -> dict[str, Any]:
        """Return the parts that a saved state holds."""
        return pack_parts(self._held)

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Rebuild the counts from the parts of a saved state."""
        return cls(unpack_parts(parts), make_empty_cells().keys)


def count_pairs(held: PairedCells, rows: int, cols: int) -> np.ndarray:
    """Return the table of side `rows` by side `cols` (truth, first or second), per group."""
    groups, of_unit = held.groups()
    C, n = len(held.axis.labels), 1 if groups is None else len(groups.rows)
    unit, *sides = held.decode()
    with validate.explain_memory_error(8 * n * C**2, labels=C):
        out = np.zeros((n, C, C), np.int64)
    np.add.at(out, (of_unit[unit], sides[rows], sides[cols]), held.counts)
    return out[0] if groups is None else out


def _add_chunks(parts: list[PairedCounts]) -> PairedCounts:
    """Add up the paired counts of chunks."""
    return sum(parts[1:], parts[0])


@overload
def paired_counts(
    y_true: Array,
    y_a: Array,
    y_b: Array,
    /,
    *,
    n_classes: int | None = ...,
    labels: Array | None = ...,
    groups: Any = ...,
    clusters: Any = ...,
    ignore_index: Ignored = ...,
) -> PairedCounts: ...
@overload
def paired_counts(table: Any, /, *, y_true: str, y_a: str, y_b: str, **options: Any) -> PairedCounts: ...
@table_columns.accept_table(("y_true", "y_a", "y_b"), ("groups", "clusters"), several=("groups",), merge=_add_chunks)
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
    ignore_index: Ignored = None,
) -> PairedCounts:
    """Count the pairs of predictions of two classifiers on the same samples, by true class.

    Parameters
    ----------
    y_true, y_a, y_b : array
        Truth and both predictions, of one shape: integers, bool or strings; NumPy arrays, or columns of pandas, polars
        or Arrow. In their place a table, as for :func:`cmfast.by`, and names of its columns may stand:
        ``paired_counts(table, y_true="label", y_a="new", y_b="old")``; then `groups` and `clusters` are names, too.
    n_classes : int, optional
        Labels are the class ids ``0, ..., n_classes - 1``; any other raises.
    labels : array, shape (C,), optional
        The classes, in order; samples with any other label are left out. Default: the labels that occur.
    groups : column, or dict of str to column, optional
        The group label of each sample; all results are then per group.
    clusters : column, optional
        The cluster of each sample, if samples are not independent: its patient, document or speaker.
    ignore_index : int or str, or list of these, optional
        Samples with this true label are ignored.

    Returns
    -------
    PairedCounts
        Sparse counts ``T[truth, first, second]``, the input of all paired comparisons.

    Raises
    ------
    TypeError, ValueError
        Labels of several kinds, missing values, shapes or libraries that differ, ids outside ``0, ..., n_classes - 1``.
    OverflowError
        More cells (classes, groups and clusters) than int64 can index.

    Warns
    -----
    DiagnosticWarning
        All labels have exactly one 1 in each of several rows, as one-hot labels have.

    Notes
    -----
    Bad values: missing labels are refused. Synchronises the device. Reproducible: counts are exact and do not depend on
    chunks or order of the samples. Dask arrays give a ``dask.delayed.Delayed`` of the counts.

    References
    ----------
    McNemar, Note on the sampling error of the difference between correlated proportions, 1947.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> uncertainty.paired_counts(
    ...     ["a", "b", "b"],
    ...     ["a", "b", "a"],
    ...     ["a", "b", "b"],
    ...     clusters=[1, 1, 2],
    ... )
    <PairedCounts: 3 samples, 2 classes, 2 clusters>
    """
    if lazy.are_lazy(y_true, y_a, y_b, groups, clusters):
        arrays = {"y_true": y_true, "y_a": y_a, "y_b": y_b, "groups": groups, "clusters": clusters}
        options: dict[str, Any] = {"n_classes": n_classes, "labels": labels, "ignore_index": ignore_index}
        options["num_threads"] = None
        if isinstance(groups, Mapping):
            validate.refuse("groups", "one column with Dask arrays", "a dict", TypeError)
        lazily: PairedCounts = lazy.dask().merge_parts(
            _count_chunk, _add_chunks, arrays, dict.fromkeys(arrays, 0), **options
        )
        return lazily
    samples = (y_true, y_a, y_b, labels, n_classes, groups, clusters, ignore_index)
    return PairedCounts(*_paired_counting.count_paired_cells(*samples))


def _count_chunk(
    y_true: Array, y_a: Array, y_b: Array, groups: Any = None, clusters: Any = None, *, num_threads: Any, **options: Any
) -> PairedCounts:
    """Count the pairs of one chunk of Dask arrays."""
    del num_threads  # counting a chunk is too fast to need a second thread
    return paired_counts(y_true, y_a, y_b, groups=groups, clusters=clusters, **options)
