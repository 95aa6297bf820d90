"""Conformal prediction sets as bit masks: all labels of a row whose score is at most the threshold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cmfast._core import dispatch, failures, lazy, plot_style, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Label, OnFailure
from cmfast._core.libraries import load_pandas
from cmfast._core.usual_options import explain_options
from cmfast._files.archive import demand
from cmfast.conformal import _explain_invalid, _named_groups, _options
from cmfast.conformal._options import ScoreMethod
from cmfast.kernels.shared.conformal import BITS_PER_WORD

EmptySets: TypeAlias = Literal["allow", "top1"]
EMPTY_RULES = get_args(EmptySets)


@result_repr.add_repr
class SizeCoverage(NamedTuple):
    """Counts of sets by size, and of those that contain their label; both add over parts.

    Attributes
    ----------
    n, covered : array of int64, shape (..., A, C + 1)
        Number of sets of 0, 1, ..., C labels, and of those that contain the label of their row.
    """

    n: Array
    covered: Array

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        n = int(result_frames.copy_to_host(self.n).sum())
        return {"sets": f"{n:,}", "sizes": result_repr.format_shape(self.n, 1)}

    def explain(self) -> str:
        """Return a text with the share of the sets that contain the label of their row."""
        n, covered = (int(result_frames.copy_to_host(x).sum()) for x in self)
        return f"{covered / n:.1%} of {n:,} sets contain the label" if n else "no sets"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per threshold and size."""
        return result_frames.make_frame(self._asdict(), ("threshold", "size"))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the share of the sets of each size that contain their label, a line per threshold.

        Sizes without sets are left out. Coverage far below the others marks sizes that are too small for their rows.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        n, covered = (result_frames.copy_to_host(x) for x in self)
        n, covered = (x.reshape(-1, x.shape[-1]) for x in (n, covered))
        ax = plotting.get_axes(ax, (4.8, 3.6))
        for k, (of_size, inside) in enumerate(zip(n, covered, strict=True)):
            sizes = np.flatnonzero(of_size)
            ax.plot(sizes, inside[sizes] / of_size[sizes], "o-", clip_on=False, label=f"threshold {k}")
        ax.set(ylim=(0, 1), xlabel="labels in the set", ylabel="share that contain the label")
        plotting.set_integer_ticks(ax.xaxis)
        if 1 < len(n) <= plotting.MOST_LEGEND_LINES:
            ax.legend()
        return ax


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class PredictionSets:
    """Prediction sets as packed bits. Returned by :func:`prediction_sets`.

    Attributes
    ----------
    packed : array of int64, shape (..., A, n, W)
        Bit ``c % 64`` of word ``c // 64`` says whether class c is in the set of a row.
    sizes : array of int64, shape (..., A, n)
        Number of labels in every set.
    n_classes : int
        Number of classes.
    empty : {"allow", "top1"}
        Rule for empty sets.
    labels : tuple, or None
        The classes, if :func:`prediction_sets` was given their labels: methods then take true labels of these.
    """

    packed: Array
    sizes: Array
    n_classes: int
    empty: EmptySets
    labels: tuple[Label, ...] | None = None
    _class_names: tuple[Any, ...] | None = None  # of the columns of a table of probabilities

    @property
    def mask(self) -> Array:
        """Whether each class is in the set of each row: bool, shape (..., A, n, C)."""
        return _unpack_bits(adapter(self.packed).unwrap(self.packed), n_classes=self.n_classes)

    @property
    def size_counts(self) -> Array:
        """Number of sets of 0, 1, ..., C labels: int64, shape (..., A, C + 1). Needs no true labels."""
        counts: Array
        if lazy.are_lazy(self.packed):
            (counts,) = lazy.dask().sum_blocks(
                _count_sizes, {"packed": self.packed}, 1, {"packed": 1}, n_classes=self.n_classes
            )
        else:
            (counts,) = _count_sizes(self.packed, n_classes=self.n_classes)
        return counts

    def coverage(self, y: Array, *, on_failure: OnFailure = None) -> Array:
        """Return the coverage: the share of rows whose true label is in their set.

        Parameters
        ----------
        y : array of int, or of the `labels`, shape (..., n)
            The true label of every row.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about labels that are not classes; their rows are left out.
            Default: as :func:`cmfast.config` says, first "warn".

        Returns
        -------
        array of float64, shape (..., A)
            NaN without rows.

        Raises
        ------
        TypeError, ValueError
            Labels of another library, device or shape, or that are not integers.

        Examples
        --------
        >>> from cmfast import conformal
        >>> sets = conformal.prediction_sets(
        ...     [[0.5, 0.375, 0.125], [0.75, 0.25, 0.0]],
        ...     [0.9],
        ...     randomised=False,
        ... )
        >>> sets.coverage([2, 0])
        array([0.5])
        """
        found = self.coverage_by_size(y, on_failure=on_failure)
        with np.errstate(invalid="ignore"):
            return adapter(found.n).evaluate(_sum_shares, found.covered, found.n)

    def coverage_by_size(self, y: Array, *, on_failure: OnFailure = None) -> SizeCoverage:
        """Count the sets of every size, and how many of them contain the true label of their row.

        Parameters
        ----------
        y : array of int, or of the `labels`, shape (..., n)
            The true label of every row.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about labels that are not classes; their rows are left out.
            Default: as :func:`cmfast.config` says, first "warn".

        Returns
        -------
        SizeCoverage

        Raises
        ------
        TypeError, ValueError
            Labels of another library, device or shape, or that are not integers.

        Notes
        -----
        Bad values: a label that is not a class (INVALID) is left out and reported as `on_failure` says. Synchronises
        the device unless `on_failure` is "ignore". Reproducible: integers.

        Examples
        --------
        >>> from cmfast import conformal
        >>> sets = conformal.prediction_sets(
        ...     [[0.5, 0.375, 0.125], [0.75, 0.25, 0.0]],
        ...     [0.9],
        ...     randomised=False,
        ... )
        >>> n, covered = sets.coverage_by_size([2, 0])
        >>> n.tolist(), covered.tolist()
        ([[0, 1, 1, 0]], [[0, 1, 0, 0]])
        """
        on_failure = validate.on_failure(on_failure)
        return SizeCoverage(*count_with_labels("set_coverage", self, y, on_failure))

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"sets": result_repr.format_shape(self.sizes, 2), "classes": str(self.n_classes), "empty": self.empty}

    def explain(self) -> str:
        """Return a text with the mean and the range of the set sizes, and the share of empty sets."""
        sizes = adapter(self.sizes).to_host(self.sizes)
        if not sizes.size:
            return "no sets"
        text = f"sets of {sizes.mean():.3g} of {self.n_classes} classes on average, from {sizes.min()} to {sizes.max()}"
        return f"{text}; {(sizes == 0).mean():.2%} are empty"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per set and a column per class: whether the class is in the set.

        Columns have the labels of the classes, or the names of the columns of probabilities.
        """
        frame = result_frames.make_matrix_frame(self.mask, axes=("row", "class"))
        names = self._class_names if self.labels is None else self.labels
        return frame if names is None else frame.set_axis(_make_label_index(names), axis=1)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw how many sets have each size, a line per threshold; the true labels are not needed.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        counts = adapter(self.size_counts).to_host(self.size_counts)
        ax = plotting.get_axes(ax, (4.5, 3.3))
        colours = plot_style.list_line_colours(plotting.match_palette(ax).ground)
        lines = counts.reshape(-1, counts.shape[-1])
        for k, line in enumerate(lines):
            name = f"threshold {k}" if len(lines) > 1 else None
            ax.plot(line, color=colours[k % len(colours)], marker=plot_style.MARKERS[k % 7], label=name)
        ax.set(xlabel="labels in the set", ylabel="sets", ylim=(0, None))
        plotting.set_integer_ticks(ax.xaxis)
        if 1 < len(lines) <= plotting.MOST_LEGEND_LINES:
            ax.legend(fontsize="small", frameon=False)
        return ax


def _make_label_index(labels: tuple[Any, ...]) -> Any:
    """Return labels as an index of columns."""
    pd = load_pandas()
    return pd.Index(labels, name="class")


def _sum_shares(covered: Any, n: Any) -> Any:
    """Return the share of covered rows, summed over set sizes."""
    total = covered.sum(-1)
    return adapter(total).cast(total, np.float64) / n.sum(-1)


def read_empty_rule(parts: dict[str, Any]) -> EmptySets:
    """Return the rule for empty sets of a saved state; states of the first versions lack it and mean the default."""
    found: EmptySets = parts.get("empty", "allow")
    demand(found in EMPTY_RULES, "its empty is no rule")
    return found


@lazy.accept_dask_arrays(words="W")
def _unpack_bits(words: Array, *, n_classes: int) -> Array:
    """Unpack 64-bit words to a boolean mask of classes."""
    if type(words) is np.ndarray and words.size:
        octets = np.ascontiguousarray(words, "<i8").view(np.uint8)[..., : -(-n_classes // 8)]
        return np.unpackbits(octets, axis=-1, count=n_classes, bitorder="little").view(np.bool_)
    shape = dispatch.shape_of(words)
    places = adapter(words).send(np.arange(BITS_PER_WORD), words)

    def unpack(words: Any, places: Any) -> Any:
        """Return the bits of words as booleans, cut to the number of classes."""
        bits = (words.reshape(*shape, 1) >> places) & 1
        return bits.reshape(*shape[:-1], shape[-1] * BITS_PER_WORD)[..., :n_classes] != 0

    return adapter(words).evaluate(unpack, words, places)


def _count_sizes(packed: Array, *, n_classes: int) -> tuple[Array]:
    """Return the number of sets of every size."""
    words = adapter(packed).unwrap(packed)
    (*batch, _, n, _) = dispatch.shape_of(words)
    anything = adapter(words).send(np.zeros((*batch, n), np.int64), words)
    packed, anything = dispatch.adopt(sets=packed, y=anything)
    return (dispatch.call("set_coverage", packed, anything, n_classes=n_classes)[0],)


def count_with_labels(
    op: str, sets: PredictionSets, y: Array, on_failure: OnFailure, **options: Any
) -> tuple[Array, Array]:
    """Run the counting op `op` on sets and true labels, lazily for Dask arrays; report labels that are not classes."""
    known = {"n_classes": sets.n_classes, **options}
    if lazy.are_lazy(sets.packed, y):
        if sets.labels is not None:
            validate.refuse("y", "of sets without labels= where arrays are of Dask", "labels", TypeError)
        y = y[..., np.newaxis, :] if lazy.are_lazy(y) else y  # one label per row, for all alphas
        found: tuple[Array, Array] = lazy.dask().sum_blocks(
            _count_chunk_with_labels,
            {"sets": sets.packed, "y": y},
            1,
            {"sets": 1, "y": 0},
            op=op,
            on_failure=on_failure,
            **known,
        )
        return found
    packed, y = adopt_labels(sets, y)
    return _run_counting_op(op, packed, y, on_failure, known)


def _count_chunk_with_labels(
    sets: Array, y: Array, *, op: str, on_failure: OnFailure, **known: Any
) -> tuple[Array, Array]:
    """Run the counting op on one chunk of sets and labels."""
    packed, y = dispatch.adopt(sets=sets, y=validate.type_empty_labels(y[..., 0, :] if y.shape[-2] else y.sum(-2)))
    validate.integer(y=y)
    return _run_counting_op(op, packed, y, on_failure, known)


def _run_counting_op(
    op: str, packed: Array, y: Array, on_failure: OnFailure, known: dict[str, Any]
) -> tuple[Array, Array]:
    """Run the counting op; report labels that are not classes."""
    n, covered, status = dispatch.call(op, packed, y, **known)
    why = partial(_explain_invalid.explain_invalid_label, "y", y, known["n_classes"])
    failures.report(status, on_failure, failed="rows left out", why=why)
    return n, covered


def adopt_labels(sets: PredictionSets, y: Any) -> tuple[Any, Any]:
    """Validate true labels against the rows of sets; return packed sets and labels in one library."""
    if not isinstance(sets, PredictionSets):
        validate.refuse("sets", _options.WANTED_SETS, type(sets).__name__, TypeError)
    y = _options.find_class_ids(sets.packed, y, sets.labels, sets.n_classes, sets._class_names)
    packed, y = dispatch.adopt(sets=sets.packed, y=validate.type_empty_labels(y))
    _options.check_ids(y)
    (*batch, _, n, _), given = dispatch.shape_of(packed), dispatch.shape_of(y)
    if given != (*batch, n):
        validate.refuse("y", f"of shape {(*batch, n)}, one entry per row", f"shape {given}")
    return packed, y


@explain_options
def prediction_sets(
    P: Array,
    /,
    q: Array,
    *,
    labels: Sequence[Label] | None = None,
    method: ScoreMethod = "aps",
    randomised: bool = True,
    u: Array | None = None,
    rng: "int | np.random.Generator | None" = None,
    lam: float | None = None,
    k_reg: int = 0,
    groups: Array | None = None,
    empty: EmptySets = "allow",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> PredictionSets:
    """Build the conformal prediction set of every row: all labels whose score is at most the threshold.

    Parameters
    ----------
    P : array, shape (..., n, C)
        Probabilities as the model returns them.
    q : array, shape (..., A), (..., A, C), (..., A, G), (..., A, G, C) or (..., A, n or 1, C or 1)
        Thresholds from :func:`threshold`: for all classes, per class, per group, or per group and class. Without
        `groups` an array with one more axis than per class has thresholds per row, per class or both: ``q[..., None]``
        makes it of thresholds per row. All batch axes of `P` must be present; those of length 1 are broadcast. One
        threshold alone, as ``q[0]``, is an array of one; ``q[0]`` of thresholds per class or group would be taken for
        several alphas: write ``q[:1]``. Or a dict of thresholds by group, all of one shape.
    labels : sequence of C labels, optional
        The class of each column of `P`, such as ``model.classes_``, which the sets then know.
    method, randomised, u, rng, lam, k_reg
        As for :func:`scores`: the same as in the calibration, including the seed; `u` has one value per new row.
    groups : array of int or text, shape (..., n), or table, optional
        The group of every row, if thresholds are per group. Keys of `q`, if that is a dict; a row of another group is
        invalid. Several columns as for :func:`threshold`, by their names there; by position if `q` is another dict.
    empty : {"allow", "top1"}
        Rule for empty sets. They are valid: with U = 0 they occur for rows whose largest probability exceeds the
        threshold. "top1" puts the most probable label into them: coverage can only rise, its upper bound is lost, and
        the counts of shared sets change.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about invalid rows (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    PredictionSets
        The arrays are in the library and on the device of `P`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; options that :func:`scores` refuses.

    Warns
    -----
    DiagnosticWarning
        `q` of shape (..., A, C) differs between classes, and there are as many rows: it is taken per class. Not for
        Dask arrays, nor if `on_failure` is "ignore".

    See Also
    --------
    ccm : How often two classes share a set.
    coverage_confusion : How often the sets of one class contain another.

    Notes
    -----
    For a given U the score is nondecreasing along the ranking, so with one threshold the set is a prefix of the
    ranking; with thresholds per class it is not. Sets of a smaller alpha contain those of a larger one.

    Bad values: a row with an entry that is NaN or outside [0, 1] by more than rounding, or with an invalid U or group
    (INVALID), gets all classes and is reported as `on_failure` says; a threshold of NaN or infinity also gives all
    classes, without report. Synchronises the device unless `on_failure` is "ignore". Reproducible: same input, same
    bits, for any number of threads, and for any chunks of Dask arrays, which give Dask arrays and need a seed as `rng`.

    References
    ----------
    Romano, Sesia, Candes, Classification with valid and adaptive coverage, 2020. Angelopoulos, Bates, Malik, Jordan,
    Uncertainty sets for image classifiers using conformal prediction, 2021.

    Examples
    --------
    >>> from cmfast import conformal
    >>> sets = conformal.prediction_sets(
    ...     [[0.5, 0.375, 0.125], [0.75, 0.25, 0.0]],
    ...     [0.8, 0.9],
    ...     randomised=False,
    ... )
    >>> sets.sizes
    array([[1, 1],
           [2, 1]])
    >>> sets.mask[1]
    array([[ True,  True, False],
           [ True, False, False]])
    """
    rule = _options.validate_rule(method, randomised, lam, k_reg)
    validate.choice("empty", empty, EMPTY_RULES)
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    names = _options.find_column_names(P)
    known = None if labels is None else _options.validate_labels(labels, _options.count_classes(P))
    _named_groups.refuse_names_of_columns(groups, P, -2)
    options: dict[str, Any] = {"rule": rule, "rng": rng, "empty": empty}
    options |= {"on_failure": on_failure, "num_threads": num_threads}
    if isinstance(q, Mapping):
        if lazy.are_lazy(P, u, groups, *q.values()):
            validate.refuse("q", "an array of thresholds, and groups integers, with Dask arrays", "a dict", TypeError)
        dispatch.check_row_order(P=P, u=u, groups=groups)
        P = dispatch.adopt_one("P", P)
        thresholds, q = q, _named_groups.stack_thresholds(q, dispatch.shape_of(P)[:-1], P)
        named = _named_groups.find_groups(groups, thresholds)
        options["group_names"], groups = named.names, adapter(P).send(named.codes, P)
    else:
        _named_groups.refuse_unnamed_thresholds(groups)
    if lazy.are_lazy(P, q, u, groups):
        if groups is None and lazy.are_lazy(P):
            q, groups = _number_rows(P, lazy.dask().da.asarray(q))
        found = _make_sets_lazily(P, q, u, groups, **options)
    else:
        found = _make_sets(ScoredRows(P, q, u, groups), **options)
    return replace(found, labels=known, _class_names=names)


class ScoredRows(NamedTuple):
    """Arrays that define prediction sets: probabilities, thresholds, U and groups of rows."""

    P: Array
    q: Array
    u: Array | None
    groups: Array | None


def _make_sets(
    given: ScoredRows,
    *,
    rule: _options.ScoreOptions,
    rng: Any,
    empty: EmptySets,
    on_failure: OnFailure,
    num_threads: int | None,
    group_names: tuple[Any, ...] = (),
    in_block: bool = False,
) -> PredictionSets:
    """Validate the arrays and run the op ``prediction_sets``, of all rows or of those of a block of Dask arrays."""
    arrays = given._replace(groups=validate.type_empty_labels(given.groups))._asdict()
    P, q, u, groups = dispatch.adopt(optional=("u", "groups"), **arrays)
    rows = _options.check_probabilities(P, rule)
    validate.integer(groups=groups)
    _options.check_per_row("groups", groups, rows)
    n_classes = dispatch.shape_of(P)[-1]
    if groups is None:
        if on_failure != "ignore" and not in_block:
            _warn_of_two_readings(q, rows, n_classes)
        q, groups = _number_rows(P, q)
    by_group = groups is not None
    limits = _shape_thresholds(_add_alpha_axis(q, rows), rows, n_classes, by_group=by_group)
    shares = _options.make_row_shares(u, rng, rule, P, rows, num_threads)
    packed, sizes, status = dispatch.call(
        "prediction_sets", P, limits, shares, groups, empty=empty, num_threads=num_threads, **rule.options()
    )
    known = {"group_names": group_names}
    why = partial(_explain_invalid.explain_unscored_row, P, None, u, groups, dispatch.shape_of(limits)[-2], **known)
    failures.report(status, on_failure, failed="rows given all classes", why=why)
    return PredictionSets(packed, sizes, n_classes, empty)


def _make_sets_lazily(
    P: Any, q: Any, u: Any, groups: Any, *, rule: _options.ScoreOptions, empty: EmptySets, **options: Any
) -> PredictionSets:
    """Return the sets of Dask arrays: blocks run along rows, and each gets the thresholds of its batch elements."""
    rows = _options.check_probabilities(P, rule)
    n_batch, n_classes = len(rows) - 1, dispatch.shape_of(P)[-1]
    if lazy.are_lazy(P):
        q = lazy.dask().da.asarray(q)
    q = _add_alpha_axis(q, rows)
    _shape_thresholds(q, rows, n_classes, by_group=groups is not None)
    q = q[(slice(None),) * n_batch + (np.newaxis,)]
    core = "A" * (len(dispatch.shape_of(q)) - len(rows))
    found = lazy.dask().map_blocks(
        _make_block_sets, {"P": P, "q": q, "u": u, "groups": groups}, {"P": "C", "q": core, "u": "", "groups": ""}, {},
        rule=rule, empty=empty, **options,
    )  # fmt: skip
    packed, sizes = (x.swapaxes(n_batch, n_batch + 1) for x in found)
    return PredictionSets(packed, sizes, n_classes, empty)


def _make_block_sets(P: Array, q: Array, u: Array | None, groups: Array | None, **options: Any) -> tuple[Array, Array]:
    """Return packed sets and sizes of a block with the alpha axis after the row axis; `q` has at most one row."""
    n_batch = P.ndim - 2
    sets = _make_sets(ScoredRows(P, q.sum(n_batch), u, groups), in_block=True, **options)
    return sets.packed.swapaxes(n_batch, n_batch + 1), sets.sizes.swapaxes(n_batch, n_batch + 1)


def _number_rows(P: Any, q: Any) -> tuple[Any, Any]:
    """Return thresholds of shape (..., A, n or 1, C or 1) as those of groups or of classes, and the groups, or None.

    Each row is a group of its own. Other thresholds return as they are, without groups.
    """
    *batch, n, C = dispatch.shape_of(P)
    shape = dispatch.shape_of(q)
    if len(shape) != len(batch) + 3 or shape[-2] not in (1, n) or shape[-1] not in (1, C):
        return q, None
    if shape[-2] == 1 and shape[-1] == C:
        return adapter(q).reshape(q, (*shape[:-2], C)), None
    if shape[-1] == 1:
        q = adapter(q).reshape(q, shape[:-1])
    numbers = np.broadcast_to(np.arange(n) * (shape[-2] > 1), (*batch, n))
    if lazy.are_lazy(P):
        return q, lazy.dask().da.from_array(numbers, chunks=P.chunks[:-1])
    return q, dispatch.adopt_one("groups", adapter(P).send(np.ascontiguousarray(numbers), P))


def _warn_of_two_readings(q: Any, rows: tuple[int, ...], n_classes: int) -> None:
    """Warn if thresholds per class could be thresholds per row, because there are as many, and differ."""
    shape = dispatch.shape_of(q)
    if n_classes < 2 or rows[-1] != n_classes or len(shape) != len(rows) + 1 or shape[-1] != n_classes:
        return
    own = adapter(q).unwrap(q)
    values = np.asarray(adapter(own).to_host(own))
    if ((values == values[..., :1]) | (np.isnan(values) & np.isnan(values[..., :1]))).all():
        return
    failures.warn_diagnostic(
        f"q of shape {shape} is taken as thresholds per class, but there are as many rows as classes; "
        "pass q[..., None] for thresholds per row, q[..., None, :] for thresholds per class"
    )


def _add_alpha_axis(q: Any, rows: tuple[int, ...]) -> Any:
    """Return one threshold without a batch as an array of one."""
    return adapter(q).reshape(q, (1,)) if dispatch.shape_of(q) == () and len(rows) == 1 else q


def _shape_thresholds(q: Any, rows: tuple[int, ...], n_classes: int, *, by_group: bool) -> Any:
    """Validate thresholds; return them in the shape (batch, alpha, group, 1 or class)."""
    validate.real(q=q)
    q = adapter(q).unwrap(q)
    shape, batch = dispatch.shape_of(q), rows[:-1]
    if shape == rows and rows[-1] > 1 and adapter(q).dtype(q).kind in "iu":
        cure = "as labels are; thresholds come from threshold(scores(P, y), alpha)"
        validate.refuse("q", "thresholds", f"an integer for each row of P, {cure}", TypeError)
    groups = ", G" if by_group else ""
    wanted = f"(..., A{groups}) or (..., A{groups}, {n_classes})"
    core = shape[len(batch) :]
    by_class = len(core) == 2 + by_group
    fits = len(core) == 1 + by_group or (by_class and core[-1] == n_classes)
    broadcast = all(k in (1, m) for k, m in zip(shape, batch, strict=False))
    if not (fits and broadcast and core[0]):
        per_row = not by_group and len(core) == 2 and core[-1] == rows[-1]
        cure = "; for a threshold per row pass q[..., None]" if per_row else ""
        validate.refuse("q", f"of shape {wanted}, with the batch axes {batch} of P", f"shape {shape}{cure}")
    core_shape = (core[1] if by_group else 1, n_classes if by_class else 1)
    return adapter(q).reshape(q, (*shape[: len(batch) + 1], *core_shape))
