"""Prediction sets: all labels of a row that the threshold does not exclude."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cmfast._core import dispatch, failures, lazy, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure
from cmfast._files.archive import demand
from cmfast.conformal import _options, _reasons
from cmfast.conformal._options import ScoreMethod
from cmfast.kernels.shared.conformal import BITS_PER_WORD

EmptySets: TypeAlias = Literal["allow", "top1"]
EMPTY = get_args(EmptySets)


class SizeCoverage(NamedTuple):
    """How many sets there are of every size, and how many of them hold their label: counts, which add.

    Attributes
    ----------
    n, covered : array of int64, shape (..., A, C + 1)
        Sets of 0, 1, ..., C labels; those of them that hold the label of their row.
    """

    n: Array
    covered: Array


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class PredictionSets:
    """Sets of labels, as bits. Made by :func:`prediction_sets`.

    Attributes
    ----------
    packed : array of int64, shape (..., A, n, W)
        Bit ``c % 64`` of word ``c // 64`` says whether class c is in the set of a row.
    sizes : array of int64, shape (..., A, n)
        Labels in every set.
    n_classes : int
        Classes.
    empty : {"allow", "top1"}
        What was done about empty sets.
    """

    packed: Array
    sizes: Array
    n_classes: int
    empty: EmptySets

    @property
    def mask(self) -> Array:
        """Whether every class is in the set of every row: bool, shape (..., A, n, C)."""
        return _mask(adapter(self.packed).unwrap(self.packed), n_classes=self.n_classes)

    @property
    def size_counts(self) -> Array:
        """How many sets there are of 0, 1, ..., C labels: int64, shape (..., A, C + 1). No labels are needed."""
        counts: Array
        if lazy.are_lazy(self.packed):
            (counts,) = lazy.dask().sum_blocks(
                _sizes, {"packed": self.packed}, 1, {"packed": 1}, n_classes=self.n_classes
            )
        else:
            (counts,) = _sizes(self.packed, n_classes=self.n_classes)
        return counts

    def coverage(self, y: Array, /, *, on_failure: OnFailure = "warn") -> Array:
        """Return the share of rows whose label is in their set.

        Parameters
        ----------
        y : array of int, shape (..., n)
            The label of every row.
        on_failure : {"warn", "raise", "ignore"}
            What to do about labels that are no class; their rows are left out.

        Returns
        -------
        array of float64, shape (..., A)
            NaN where there are no rows.

        Raises
        ------
        TypeError, ValueError
            Labels of another library or device, or shape, or that are no integers.

        Examples
        --------
        >>> from cmfast import conformal
        >>> sets = conformal.prediction_sets([[0.5, 0.375, 0.125], [0.75, 0.25, 0.0]], [0.9], randomised=False)
        >>> sets.coverage([2, 0])
        array([0.5])
        """
        found = self.coverage_by_size(y, on_failure=on_failure)
        with np.errstate(invalid="ignore"):
            return adapter(found.n).evaluate(_share_of_sizes, found.covered, found.n)

    def coverage_by_size(self, y: Array, /, *, on_failure: OnFailure = "warn") -> SizeCoverage:
        """Return how many sets there are of every size, and how many of them hold the label of their row.

        Parameters
        ----------
        y : array of int, shape (..., n)
            The label of every row.
        on_failure : {"warn", "raise", "ignore"}
            What to do about labels that are no class; their rows are left out.

        Returns
        -------
        SizeCoverage

        Raises
        ------
        TypeError, ValueError
            Labels of another library or device, or shape, or that are no integers.

        Notes
        -----
        Bad values: a label that is no class (INVALID) is left out and reported as `on_failure` says. Synchronises the
        device unless `on_failure` is "ignore". Reproducible: integers.

        Examples
        --------
        >>> from cmfast import conformal
        >>> sets = conformal.prediction_sets([[0.5, 0.375, 0.125], [0.75, 0.25, 0.0]], [0.9], randomised=False)
        >>> n, covered = sets.coverage_by_size([2, 0])
        >>> n.tolist(), covered.tolist()
        ([[0, 1, 1, 0]], [[0, 1, 0, 0]])
        """
        validate.on_failure(on_failure)
        return SizeCoverage(*counted("set_coverage", self, y, on_failure))

    def _parts(self) -> dict[str, str]:
        return {"sets": result_repr.format_shape(self.sizes, 2), "classes": str(self.n_classes), "empty": self.empty}

    def explain(self) -> str:
        """Say in words how large the sets are."""
        sizes = adapter(self.sizes).to_host(self.sizes)
        if not sizes.size:
            return "no sets"
        text = f"sets of {sizes.mean():.3g} of {self.n_classes} classes on average, from {sizes.min()} to {sizes.max()}"
        return f"{text}; {(sizes == 0).mean():.2%} are empty"


def _share_of_sizes(covered: Any, n: Any) -> Any:
    """Return the share of rows that are covered, of any size of sets."""
    total = covered.sum(-1)
    return adapter(total).cast(total, np.float64) / n.sum(-1)


def rule_of_empty(parts: dict[str, Any]) -> EmptySets:
    """Return what a file says was done about empty sets; the first versions did not write it, and meant the default."""
    found: EmptySets = parts.get("empty", "allow")
    demand(found in EMPTY, "its empty is no rule")
    return found


@lazy.accept_dask_arrays(words="W")
def _mask(words: Array, *, n_classes: int) -> Array:
    shape = dispatch.shape_of(words)
    places = adapter(words).send(np.arange(BITS_PER_WORD), words)

    def unpack(words: Any, places: Any) -> Any:
        bits = (words.reshape(*shape, 1) >> places) & 1
        return bits.reshape(*shape[:-1], shape[-1] * BITS_PER_WORD)[..., :n_classes] != 0

    return adapter(words).evaluate(unpack, words, places)


def _sizes(packed: Array, *, n_classes: int) -> tuple[Array]:
    words = adapter(packed).unwrap(packed)
    (*batch, _, n, _) = dispatch.shape_of(words)
    anything = adapter(words).send(np.zeros((*batch, n), np.int64), words)
    packed, anything = dispatch.adopt(sets=packed, y=anything)
    return (dispatch.call("set_coverage", packed, anything, n_classes=n_classes)[0],)


def counted(op: str, sets: PredictionSets, y: Array, on_failure: OnFailure, **options: Any) -> tuple[Array, Array]:
    """Return what `op` counts of sets and the labels of their rows; report labels that are no class."""
    known = {"n_classes": sets.n_classes, **options}
    if lazy.are_lazy(sets.packed, y):
        y = y[..., np.newaxis, :] if lazy.are_lazy(y) else y  # one for all alphas
        found: tuple[Array, Array] = lazy.dask().sum_blocks(
            _counted, {"sets": sets.packed, "y": y}, 1, {"sets": 1, "y": 0}, op=op, on_failure=on_failure, **known
        )
        return found
    packed, y = labels_of(sets, y)
    return _reported(op, packed, y, on_failure, known)


def _counted(sets: Array, y: Array, *, op: str, on_failure: OnFailure, **known: Any) -> tuple[Array, Array]:
    packed, y = dispatch.adopt(sets=sets, y=validate.type_empty_labels(y[..., 0, :] if y.shape[-2] else y.sum(-2)))
    validate.integer(y=y)
    return _reported(op, packed, y, on_failure, known)


def _reported(op: str, packed: Array, y: Array, on_failure: OnFailure, known: dict[str, Any]) -> tuple[Array, Array]:
    n, covered, status = dispatch.call(op, packed, y, **known)
    why = partial(_reasons.unlabelled, "y", y, known["n_classes"])
    failures.report(status, on_failure, failed="rows left out", why=why)
    return n, covered


def labels_of(sets: PredictionSets, y: Any) -> tuple[Any, Any]:
    """Return the bits of sets and the label of every row, of one library and of shapes that fit."""
    if not isinstance(sets, PredictionSets):
        validate.refuse("sets", "PredictionSets", type(sets).__name__, TypeError)
    packed, y = dispatch.adopt(sets=sets.packed, y=validate.type_empty_labels(y))
    validate.integer(y=y)
    (*batch, _, n, _), given = dispatch.shape_of(packed), dispatch.shape_of(y)
    if given != (*batch, n):
        validate.refuse("y", f"of shape {(*batch, n)}, one entry per row", f"shape {given}")
    return packed, y


def prediction_sets(
    P: Array,
    q: Array,
    /,
    *,
    method: ScoreMethod = "aps",
    randomised: bool = True,
    u: Array | None = None,
    rng: "int | np.random.Generator | None" = None,
    lam: float = 0.0,
    k_reg: int = 0,
    groups: Array | None = None,
    empty: EmptySets = "allow",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> PredictionSets:
    """Give every row of probabilities the set of all labels whose score is at most the threshold.

    Parameters
    ----------
    P : array, shape (..., n, C)
        Probabilities, as the model gives them.
    q : array, shape (..., A), (..., A, C) or (..., A, G)
        Thresholds, as :func:`threshold` gives them: for all classes, for each, or for each group. Of the batch axes of
        `P` all must be there; those of length 1 are repeated.
    method, randomised, u, rng, lam, k_reg
        See :func:`scores`: as for the calibration, the seed too; a `u` is of new rows, with a number for each.
    groups : array of int, shape (..., n), optional
        The group of every row, where thresholds are those of groups.
    empty : {"allow", "top1"}
        Empty sets are valid: with U = 0 they fall on the rows of which the model is most certain, whose largest
        probability is above the threshold. "top1" gives them the first label of the ranking: coverage can only rise,
        its upper bound is lost, and how often classes share a set changes.
    on_failure : {"warn", "raise", "ignore"}
        What to do about rows that are none (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    PredictionSets
        Its arrays are of the library and device of `P`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; options that :func:`scores` refuses.

    See Also
    --------
    ccm : how often two classes share a set.
    coverage_confusion : how often the sets of one class hold another.

    Notes
    -----
    For one U the score never falls along the ranking, so the set of one threshold is the first labels of it; sets of
    thresholds per class are not. Sets of a smaller alpha hold those of a larger one.

    Bad values: a row with an entry that is NaN or farther than rounding outside of 0 to 1, or with a U or a group that
    is none (INVALID) gets all classes, and is reported as `on_failure` says; so does one whose threshold is NaN or
    infinity, without report.
    Synchronises the device unless `on_failure` is "ignore". Reproducible: same input, same bits, for any number of
    threads, and for any chunks of Dask arrays, whose sets have Dask arrays; `rng` is a seed with them.

    References
    ----------
    Romano, Sesia, Candes, Classification with valid and adaptive coverage, 2020. Angelopoulos, Bates, Malik, Jordan,
    Uncertainty sets for image classifiers using conformal prediction, 2021.

    Examples
    --------
    >>> from cmfast import conformal
    >>> sets = conformal.prediction_sets([[0.5, 0.375, 0.125], [0.75, 0.25, 0.0]], [0.8, 0.9], randomised=False)
    >>> sets.sizes
    array([[1, 1],
           [2, 1]])
    >>> sets.mask[1]
    array([[ True,  True, False],
           [ True, False, False]])
    """
    rule = _options.rule(method, randomised, lam, k_reg)
    validate.choice("empty", empty, EMPTY)
    validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    if lazy.are_lazy(P, q, u, groups):
        return _of_chunks(
            P, q, u, groups, rule=rule, rng=rng, empty=empty, on_failure=on_failure, num_threads=num_threads
        )
    rows = ScoredRows(P, q, u, groups)
    return _sets(rows, rule=rule, rng=rng, empty=empty, on_failure=on_failure, num_threads=num_threads)


class ScoredRows(NamedTuple):
    """Rows of probabilities, and what decides which of their classes are in a set: by row, but for the thresholds."""

    P: Array
    q: Array
    u: Array | None
    groups: Array | None


def _sets(
    given: ScoredRows,
    *,
    rule: _options.Rule,
    rng: Any,
    empty: EmptySets,
    on_failure: OnFailure,
    num_threads: int | None,
) -> PredictionSets:
    arrays = given._replace(groups=validate.type_empty_labels(given.groups))._asdict()
    P, q, u, groups = dispatch.adopt(optional=("u", "groups"), **arrays)
    rows = _options.probabilities(P, rule)
    validate.integer(groups=groups)
    _options.per_row("groups", groups, rows)
    n_classes = dispatch.shape_of(P)[-1]
    limits = _limits(q, rows, n_classes, groups is not None)
    shares = _options.draws(u, rng, rule, P, rows, num_threads)
    packed, sizes, status = dispatch.call(
        "prediction_sets", P, limits, shares, groups, empty=empty, num_threads=num_threads, **rule.options()
    )
    why = partial(_reasons.unscored, P, None, u, groups, dispatch.shape_of(limits)[-2])
    failures.report(status, on_failure, failed="rows given all classes", why=why)
    return PredictionSets(packed, sizes, n_classes, empty)


def _of_chunks(
    P: Any, q: Any, u: Any, groups: Any, *, rule: _options.Rule, empty: EmptySets, **options: Any
) -> PredictionSets:
    """Return the sets of Dask arrays: rows are the batch here, and every block gets the thresholds of its elements."""
    rows = _options.probabilities(P, rule)
    n_batch, n_classes = len(rows) - 1, dispatch.shape_of(P)[-1]
    if lazy.are_lazy(P):
        q = lazy.dask().da.asarray(q)
    _limits(q, rows, n_classes, groups is not None)
    q = q[(slice(None),) * n_batch + (np.newaxis,)]
    core = "A" * (len(dispatch.shape_of(q)) - len(rows))
    found = lazy.dask().map_blocks(
        _turned, {"P": P, "q": q, "u": u, "groups": groups}, {"P": "C", "q": core, "u": "", "groups": ""}, {},
        rule=rule, empty=empty, **options,
    )  # fmt: skip
    packed, sizes = (x.swapaxes(n_batch, n_batch + 1) for x in found)
    return PredictionSets(packed, sizes, n_classes, empty)


def _turned(P: Array, q: Array, u: Array | None, groups: Array | None, **options: Any) -> tuple[Array, Array]:
    """Return sets with the axis of alphas behind that of rows, of which `q` has one or, in an empty block, none."""
    n_batch = P.ndim - 2
    sets = _sets(ScoredRows(P, q.sum(n_batch), u, groups), **options)
    return sets.packed.swapaxes(n_batch, n_batch + 1), sets.sizes.swapaxes(n_batch, n_batch + 1)


def _limits(q: Any, rows: tuple[int, ...], n_classes: int, by_group: bool) -> Any:
    """Return thresholds in the shape (batch, alpha, group, 1 or class)."""
    validate.real(q=q)
    q = adapter(q).unwrap(q)
    shape, batch = dispatch.shape_of(q), rows[:-1]
    wanted = "(..., A, G)" if by_group else f"(..., A) or (..., A, {n_classes})"
    core = len(shape) - len(batch)
    by_class = core == 2 and not by_group
    fits = core == 2 if by_group else core == 1 or (core == 2 and shape[-1] == n_classes)
    first = shape[: len(batch)]
    broadcast = all(k in (1, m) for k, m in zip(first, batch, strict=False))
    if not (fits and broadcast and (len(shape) > len(batch) and shape[len(batch)])):
        validate.refuse("q", f"of shape {wanted}, with the batch axes {batch} of P", f"shape {shape}")
    *outer, alphas = shape[: len(batch) + 1]
    core_shape = (1, shape[-1]) if by_class else (shape[-1] if by_group else 1, 1)
    return adapter(q).reshape(q, (*outer, alphas, *core_shape))
