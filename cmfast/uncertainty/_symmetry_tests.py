"""Tests of paired classifiers and square tables: McNemar, Bowker (symmetry), Stuart-Maxwell (marginal homogeneity)."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, get_args, overload

import numpy as np

from cmfast._core import axis_names, caller, dispatch, failures, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Ignored, OnFailure
from cmfast._core.lazy import accept_dask_arrays, accept_delayed
from cmfast._core.p_values import Kind, binomial_test
from cmfast.kernels.status import Status
from cmfast.uncertainty import _models
from cmfast.uncertainty._from_labels import accept_pairs_of_labels
from cmfast.uncertainty._models import accept_names_of_models
from cmfast.uncertainty._paired_counts import PairedCounts

MOST_SQUARE_EXPONENT = 300  # exponent of two beyond which squares of cells may overflow float64


@result_repr.add_repr
class McNemar(NamedTuple):
    """Result of McNemar's test; each field has shape (...), one value per group.

    Attributes
    ----------
    statistic : array of float64
        The smaller of the two counts; the chi-square for the corrected test.
    p_value : array of float64
        Probability of counts that differ at least as much if both accuracies are equal.
    only_first, only_second : array of int64
        Number of samples that only the first, only the second predicts correctly.
    degrees : int or None
        Degrees of freedom of the chi-square; None for binomial tests.
    """

    statistic: Any
    p_value: Any
    only_first: Any
    only_second: Any
    degrees: int | None

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return self._named_parts(str)

    def _named_parts(self, name: Callable[[object], str]) -> dict[str, str]:
        """Return the parts, with the models rendered by `name`."""
        names = [f"only {model}" for model in _models.get_models(self, name)]
        heads = names if _models.has_models(self) else ["only_first", "only_second"]
        counts = [result_repr.format_values(side, ",") for side in (self.only_first, self.only_second)]
        return {"p": result_repr.format_values(self.p_value), **dict(zip(heads, counts, strict=True))}

    def explain(self) -> str:
        """Return a text with both counts and the p-value."""
        return self._explain(str)

    def _explain(self, name: Callable[[object], str]) -> str:
        """Return the text of `explain`, with the models rendered by `name`."""
        if np.ndim(self.p_value):
            return result_repr.format_least_p(self.p_value)
        first, second = _models.get_models(self, name)
        more = first if self.only_first > self.only_second else second
        more = "neither" if self.only_first == self.only_second else more
        counts = f"only {first} is correct in {self.only_first:,} samples, only {second} in {self.only_second:,}"
        return f"{counts}: {more} is correct more often, p = {self.p_value:.3g}"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with one row, or a row per group.

        Names of both classifiers, if they have some, are in the columns first_name and second_name.
        """
        frame = result_frames.make_frame(self._asdict() | {"degrees": np.nan if self.degrees is None else self.degrees})
        return frame.assign(**_models.list_columns(self))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the samples that only the first, and only the second predicts correctly, with p; two bars per group.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        names, counts = [], []
        for place in np.ndindex(np.shape(self.p_value)):
            group = f" [{', '.join(map(str, place))}]" if place else ""
            p = float(np.asarray(self.p_value)[place])
            first, second = _models.get_models(self)
            names += [f"only {first}{group}", f"only {second}{group}\np = {p:.3g}"]
            counts += [np.asarray(side)[place].item() for side in (self.only_first, self.only_second)]
        return plotting.draw_counts(ax, names, counts, "samples predicted correctly")


@result_repr.add_repr
class Symmetry(NamedTuple):
    """Result of a symmetry or marginal homogeneity test of square tables; one value per group.

    Attributes
    ----------
    statistic : array of float64
        Chi-square.
    p_value : array of float64
        Probability of a larger statistic under the null hypothesis.
    degrees : array of int64
        Degrees of freedom; if 0, p is 1.
    """

    statistic: Any
    p_value: Any
    degrees: Any

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {name: result_repr.format_values(getattr(self, name)) for name in ("statistic", "degrees", "p_value")}

    def explain(self) -> str:
        """Return a text with the statistic, the degrees of freedom and the p-value."""
        if np.ndim(self.p_value):
            return result_repr.format_least_p(self.p_value)
        return f"chi-square {self.statistic:.4g} on {self.degrees} degrees of freedom, p = {self.p_value:.3g}"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with one row, or a row per group."""
        return result_frames.make_frame(self._asdict())

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the differences that the test adds up, the largest of one table.

        Of :func:`bowker` for each two classes: how often they were exchanged in one direction more than in the other,
        by their part of the statistic. Of :func:`stuart_maxwell` for each class: its row sum less its column sum.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Raises
        ------
        ValueError
            A batch of tables; a result that a test did not return itself, which does not know its table.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> S = [[20, 10, 5], [3, 30, 15], [0, 5, 40]]
        >>> ax = uncertainty.bowker(S).plot()
        >>> [float(bar.get_width()) for bar in ax.patches]
        [5.0, 10.0, 7.0]
        >>> [text.get_text() for text in ax.get_yticklabels()]
        ['0, 2', '1, 2', '0, 1']
        """
        if np.ndim(self.p_value):
            validate.fail(f"plot draws the test of one table, got a batch of {np.shape(self.p_value)}")
        drawn = axis_names.get_settings(self).get("largest")
        if drawn is None:
            validate.fail("this result does not know its table; call plot of what bowker or stuart_maxwell returned")
        labels = axis_names.get_axes(self).get("class")
        names = [", ".join(str(k if labels is None else labels[k]) for k in classes) for classes in drawn.classes]
        texts = [f"{one:,.6g} and {other:,.6g}" for one, other in zip(drawn.counts, drawn.others, strict=True)]
        widths = [one - other for one, other in zip(drawn.counts, drawn.others, strict=True)]
        is_of_pairs = axis_names.get_metric(self) == "bowker"
        what = (
            "count of the pair (row, column) minus that of the reverse" if is_of_pairs else "row sum minus column sum"
        )
        return plotting.draw_bars(ax, names, widths, texts, what)


class _LargestDifferences(NamedTuple):
    """The largest differences of one table, which its plot draws: the classes, and both counts of each."""

    classes: list[tuple[int, ...]]
    counts: list[float]
    others: list[float]


def _find_largest_exchanges(S: np.ndarray, exponent: Any, parts: np.ndarray) -> _LargestDifferences:
    """Return the pairs of cells of one table with the largest `parts` of the statistic, shape (C, C), upper triangle.

    Of equal parts the first ones; pairs without counts are left out.
    """
    most = plotting.MOST_BARS
    rows = np.sort(np.argsort(-parts.max(1, initial=0.0), kind="stable")[:most])  # hold the largest parts
    order = np.argsort(-parts[rows], axis=None, kind="stable")[:most]
    i, j = rows[order // len(S)] if len(S) else order, order % max(len(S), 1)
    found = [pair for pair in zip(i.tolist(), j.tolist(), strict=True) if parts[pair] > 0.0]
    for row in range(len(S)):  # pairs that are exchanged equally often come last
        if len(found) >= most:
            break
        equal = np.flatnonzero((S[row, row + 1 :] + S[row + 1 :, row] > 0.0) & (parts[row, row + 1 :] == 0.0))
        found += [(row, row + 1 + col) for col in equal[: most - len(found)].tolist()]
    counts, others = (
        [float(np.ldexp(S[pair], exponent)) for pair in pairs] for pairs in (found, [p[::-1] for p in found])
    )
    return _LargestDifferences(list(found), counts, others)


def _find_largest_biases(S: np.ndarray, exponent: Any) -> _LargestDifferences:
    """Return the classes of one table with the largest differences of row sum and column sum."""
    rows, cols = S.sum(1), S.sum(0)
    order = np.argsort(-np.abs(rows - cols), kind="stable")[: plotting.MOST_BARS]
    with np.errstate(over="ignore"):
        counts, others = (np.ldexp(sums[order], exponent).tolist() for sums in (rows, cols))
    return _LargestDifferences([(k,) for k in order.tolist()], counts, others)


@overload
def mcnemar(T: PairedCounts, /, *, kind: Kind = ..., ignore_index: Ignored = ...) -> McNemar: ...
@overload
def mcnemar(y_true: Array, y_a: Array, y_b: Array, *, kind: Kind = ..., ignore_index: Ignored = ...) -> McNemar: ...
@overload
def mcnemar(table: Any, /, *, y_true: str, y_a: str, y_b: str, **options: Any) -> McNemar: ...
@accept_names_of_models
@accept_pairs_of_labels()
@accept_delayed
def mcnemar(T: PairedCounts, /, *, kind: Kind = "exact", ignore_index: Ignored = None) -> McNemar:
    """Test whether two classifiers have the same accuracy on the same samples (McNemar's test).

    Parameters
    ----------
    T : PairedCounts
        Paired predictions of both classifiers. Or, in its place, three arrays of labels: ``mcnemar(y_true, y_a, y_b)``;
        or a table and its columns: ``mcnemar(table, y_true="label", y_a="new", y_b="old")``.
    kind : {"exact", "mid_p", "corrected"}
        Exact binomial test; its mid-p version, which counts half the probability f of the observed outcome and is
        less conservative (``1 - f / 2`` for equal counts); chi-square with the continuity correction of Edwards.
    ignore_index : int or str, or list of these, optional
        If labels are given: samples with this true label are ignored.

    Returns
    -------
    McNemar
        NumPy values, one per group.

    Raises
    ------
    TypeError, ValueError
        `T` is not from :func:`paired_counts`; an unknown `kind`.

    Notes
    -----
    Samples are taken as independent; for clusters use :func:`compare`. If the two never differ, p is 1. Bad values:
    counts have none. Synchronises nothing. Reproducible.

    References
    ----------
    McNemar 1947. Edwards, Note on the correction for continuity, 1948. Fagerland, Lydersen and Laake, The McNemar test
    for binary matched-pairs data: mid-p and asymptotic are better than exact conditional, 2013, equations 1 to 3.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> T = uncertainty.paired_counts(
    ...     [1] * 9, [1, 1, 1, 1, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0, 1, 1, 0]
    ... )
    >>> uncertainty.mcnemar(T)
    <McNemar: p 0.125, only_first 6, only_second 1>
    """
    del ignore_index  # read where labels are counted, before this call
    check_paired(T)
    validate.choice("kind", kind, get_args(Kind))
    b, c = count_discordant_right(T)
    n, least = b + c, np.minimum(b, c)
    if kind == "corrected":
        from scipy.special import chdtrc

        statistic = np.maximum(np.abs(b - c) - 1, 0).astype(np.float64) ** 2 / np.maximum(n, 1)
        return McNemar(statistic, chdtrc(1, statistic), b, c, 1)
    return McNemar(np.float64(least), binomial_test(b, c, kind), b, c, None)


def count_discordant_right(T: PairedCounts) -> tuple[Any, Any]:
    """Return per group the number of samples that only the first, and that only the second, predicts correctly."""
    groups, of_unit = T._held.groups()
    unit, y, first, second = T._held.decode()
    found = []
    for right, wrong in ((first, second), (second, first)):
        total = np.zeros(1 if groups is None else len(groups.rows), np.int64)
        alone = (right == y) & (wrong != y)
        np.add.at(total, of_unit[unit[alone]], T._held.counts[alone])
        found.append(total[0] if groups is None else total)
    return found[0], found[1]


def check_paired(T: object, name: str = "T") -> None:
    """Refuse `T` unless it is a PairedCounts."""
    if not isinstance(T, PairedCounts):
        given = type(T).__name__
        if (
            caller.name() == "uncertainty.mcnemar"
            and isinstance(T, np.ndarray | list | tuple)
            and np.shape(T) == (2, 2)
        ):
            given = "a table of 2 x 2; uncertainty.bowker takes it, and gives McNemar's chi-square"
        if isinstance(T, list | tuple | dict) and given == type(T).__name__:
            given = f"{given}; give them one by one: {caller.name()}(y_true, a, b, ...)"
        wanted = "PairedCounts, from uncertainty.paired_counts, or three arrays of labels"
        validate.refuse(name, wanted, given, TypeError)


@overload
def bowker(T: "PairedCounts | Array", /, *, on_failure: OnFailure = ..., ignore_index: Ignored = ...) -> Symmetry: ...
@overload
def bowker(
    y_true: Array, y_a: Array, y_b: Array, *, on_failure: OnFailure = ..., ignore_index: Ignored = ...
) -> Symmetry: ...
@overload
def bowker(table: Any, /, *, y_true: str, y_a: str, y_b: str, **options: Any) -> Symmetry: ...
@accept_pairs_of_labels()
@accept_delayed
@accept_dask_arrays(T="CC")
def bowker(T: "PairedCounts | Array", /, *, on_failure: OnFailure = None, ignore_index: Ignored = None) -> Symmetry:
    """Test a square table for symmetry (Bowker's test): whether each two classes are exchanged equally often.

    Parameters
    ----------
    T : PairedCounts or array, shape (..., C, C)
        Paired predictions, in whose place ``y_true, y_a, y_b`` may stand, or counts of any square table. For a
        confusion matrix the test asks whether each pair of classes is confused equally often in both directions.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about tables with negative or non-finite cells.
        Default: as :func:`cmfast.config` says, first "warn".
    ignore_index : int or str, or list of these, optional
        If labels are given: samples with this true label are ignored.

    Returns
    -------
    Symmetry
        ``sum over i < j of (S_ij - S_ji)**2 / (S_ij + S_ji)``, as many degrees of freedom as there are pairs of classes
        that were exchanged at all. NumPy values, one per group or table.

    Raises
    ------
    TypeError, ValueError
        Other types; tables that are not square.

    Notes
    -----
    The test asks whether two classifiers *predict* alike, not which is better; for that use :func:`compare`. Bad
    values: a table with a negative, NaN or infinite cell (INVALID) has NaN there, and is reported as `on_failure` says.
    Synchronises the device of a table. Reproducible.

    References
    ----------
    Bowker, A test for symmetry in contingency tables, 1948.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> uncertainty.bowker([[20, 10, 5], [3, 30, 15], [0, 5, 40]])
    <Symmetry: statistic 13.8, degrees 3, p_value 0.00324>
    """
    del ignore_index  # read where labels are counted, before this call
    S, bad = _adopt_table(T, on_failure)
    upper = np.triu(np.ones(S.shape[-2:], np.bool_), 1)
    met = upper & ((S > 0) | (S.swapaxes(-1, -2) > 0))
    S, exponent = _scale_to_unit(S)
    both, apart = S + S.swapaxes(-1, -2), S - S.swapaxes(-1, -2)
    parts = np.where(upper & (both > 0), apart**2 / np.where(both > 0, both, 1.0), 0.0)
    found = _build_symmetry(parts.sum((-1, -2)), exponent, met.sum((-1, -2)), bad)
    return found if S.ndim > 2 else _name_largest(found, T, "bowker", _find_largest_exchanges(S, exponent, parts))


@overload
def stuart_maxwell(
    T: "PairedCounts | Array", /, *, on_failure: OnFailure = ..., ignore_index: Ignored = ...
) -> Symmetry: ...
@overload
def stuart_maxwell(
    y_true: Array, y_a: Array, y_b: Array, *, on_failure: OnFailure = ..., ignore_index: Ignored = ...
) -> Symmetry: ...
@overload
def stuart_maxwell(table: Any, /, *, y_true: str, y_a: str, y_b: str, **options: Any) -> Symmetry: ...
@accept_pairs_of_labels()
@accept_delayed
@accept_dask_arrays(T="CC")
def stuart_maxwell(
    T: "PairedCounts | Array", /, *, on_failure: OnFailure = None, ignore_index: Ignored = None
) -> Symmetry:
    """Test a square table for equal row and column marginals (Stuart-Maxwell test of marginal homogeneity).

    Parameters
    ----------
    T : PairedCounts or array, shape (..., C, C)
        Paired predictions, in whose place ``y_true, y_a, y_b`` may stand, or counts of any square table. For a
        confusion matrix the test asks whether each class is predicted as often as it is true (no bias).
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about tables with negative or non-finite cells.
        Default: as :func:`cmfast.config` says, first "warn".
    ignore_index : int or str, or list of these, optional
        If labels are given: samples with this true label are ignored.

    Returns
    -------
    Symmetry
        ``d' V^-1 d`` for the differences d of both marginals, with the rank of V as degrees of freedom. NumPy
        values, one per group or table.

    Raises
    ------
    TypeError, ValueError
        Other types; tables that are not square.

    Notes
    -----
    V is the Laplacian of the graph whose edges are exchanged pairs of classes, so its rank is the number of classes
    minus the number of connected components: classes without exchange need not be removed first. The elimination
    subtracts nothing, so that near singular tables lose no accuracy. Bad values: a table with a negative, NaN or
    infinite cell (INVALID) has NaN there, and is reported as `on_failure` says. Synchronises the device of a table.
    Reproducible.

    References
    ----------
    Stuart, A test for homogeneity of the marginal distributions in a two-way classification, 1955. Maxwell, Comparing
    the classification of subjects by two independent judges, 1970. Grassmann, Taksar and Heyman, Regenerative analysis
    and steady state distributions for Markov chains, 1985.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> uncertainty.stuart_maxwell([[20, 10, 5], [3, 30, 15], [0, 5, 40]])
    <Symmetry: statistic 13.8, degrees 2, p_value 0.00103>
    """
    del ignore_index  # read where labels are counted, before this call
    S, bad = _adopt_table(T, on_failure)
    S, exponent = _scale_to_unit(S)
    C = S.shape[-1]
    weights, d = S + S.swapaxes(-1, -2), (S - S.swapaxes(-1, -2)).sum(-1)
    statistic, degrees = np.zeros(S.shape[:-2]), np.zeros(S.shape[:-2], np.int64)
    # Gaussian elimination of the Laplacian on its edge weights, without subtractions (Grassmann, Taksar and Heyman
    # 1985): pivots keep full relative accuracy for any range of weights.
    for k in range(C - 1, 0, -1):
        row = weights[..., k, :k]
        pivot = row.sum(-1)
        met = pivot > 0  # False for the last class of a connected component
        share = np.where(met[..., np.newaxis], row / np.where(met, pivot, 1.0)[..., np.newaxis], 0.0)
        statistic += np.where(met, d[..., k] * (d[..., k] / np.where(met, pivot, 1.0)), 0.0)
        degrees += met
        d[..., :k] += share * d[..., k, np.newaxis]
        weights[..., :k, :k] += row[..., :, np.newaxis] * share[..., np.newaxis, :]
        weights[..., np.arange(k), np.arange(k)] = 0.0
    found = _build_symmetry(statistic, exponent, degrees, bad)
    return found if S.ndim > 2 else _name_largest(found, T, "stuart_maxwell", _find_largest_biases(S, exponent))


def _scale_to_unit(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return tables scaled by a power of two, and its exponent, so that squares and sums stay within float64.

    Tables without extreme cells are returned unchanged.
    """
    lowest, highest = (math.ldexp(0.5, sign * MOST_SQUARE_EXPONENT) for sign in (-1, 1))
    if S.max(initial=0.0) < highest and not ((S > 0) & (lowest > S)).any():
        return S, np.zeros(S.shape[:-2], np.int64)
    largest = S.max((-1, -2), initial=0.0)
    _, exponent = np.frexp(largest)
    exponent = np.where((largest > 0) & (np.abs(exponent) > MOST_SQUARE_EXPONENT), exponent, 0)
    return np.ldexp(S, -exponent[..., np.newaxis, np.newaxis]), exponent


def _build_symmetry(statistic: np.ndarray, exponent: np.ndarray, degrees: np.ndarray, bad: np.ndarray) -> Symmetry:
    """Return the test result of a statistic that is still scaled by a power of two."""
    with np.errstate(over="ignore"):  # a chi-square beyond float64 becomes infinite, with p = 0
        statistic = np.ldexp(statistic, exponent)
    p = _compute_tail(degrees, statistic)
    return Symmetry(np.where(bad, np.nan, statistic)[()], np.where(bad, np.nan, p)[()], degrees[()])


def _compute_tail(degrees: np.ndarray, statistic: np.ndarray) -> np.ndarray:
    """Return the probability that a chi-square variable exceeds a statistic; 1 for no degrees of freedom.

    That of one degree takes a fiftieth of the time of others, and tables of two classes have no more.
    """
    from scipy.special import chdtrc, erfc

    p, more = np.ones(statistic.shape), degrees > 1
    np.copyto(p, erfc(np.sqrt(0.5 * statistic)), where=degrees == 1)
    if more.any():
        p[more] = chdtrc(degrees[more], statistic[more])
    return p


def _name_largest(found: Symmetry, T: Any, test: str, largest: _LargestDifferences) -> Symmetry:
    """Return the result of a test of one table with the differences that its plot draws, not with the table."""
    axes = {"class": T.labels} if isinstance(T, PairedCounts) else axis_names.get_axes_of_counts(T)
    return axis_names.name_axes(found, axes, test, {"largest": largest})


def _adopt_table(T: Any, on_failure: OnFailure) -> tuple[np.ndarray, np.ndarray]:
    """Return square tables of counts as float64, zeroed where invalid, and the mask of invalid tables."""
    on_failure = validate.on_failure(on_failure)
    S = T.agreement if isinstance(T, PairedCounts) else T
    (S,) = dispatch.adopt(T=S)
    validate.matrices(square=True, T=S)
    host: np.ndarray = np.ascontiguousarray(adapter(S).to_host(S), np.float64)  # sums depend on the memory order
    bad: np.ndarray = np.asarray(~(np.isfinite(host) & (host >= 0)).all((-1, -2)))
    failures.report(np.where(bad, np.int8(Status.INVALID), np.int8(0))[()], on_failure, failed="tables not tested")
    return np.where(bad[..., None, None], 0.0, host), bad
