"""Compare several classifiers on the same samples pairwise, with p-values corrected for the number of pairs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from cmfast._core import result_repr, validate
from cmfast._core.annotations import Label, Undefined
from cmfast._core.lazy import accept_delayed
from cmfast._core.libraries import load_pandas
from cmfast._core.markup import isolate
from cmfast._core.p_values import benjamini_hochberg, holm
from cmfast._core.results_by_name import ResultsByName
from cmfast._core.usual_options import explain_options_of_methods
from cmfast.confusion_counts._count_samples import warn_of_order
from cmfast.kernels.loading import load
from cmfast.metrics import _plan
from cmfast.metrics._names import MetricName, Names
from cmfast.uncertainty._compare import CompareMethod, CompareOptions, CompareTest, compare_pair
from cmfast.uncertainty._comparison import Comparison
from cmfast.uncertainty._many_from_labels import accept_labels_of_models
from cmfast.uncertainty._paired_counts import PairedCounts
from cmfast.uncertainty._symmetry_tests import check_paired

Pairs: TypeAlias = Mapping[tuple[Any, Any], PairedCounts]


@result_repr.add_repr
class Comparisons(NamedTuple):
    """Pairwise comparisons of several classifiers by one metric, with corrected p-values.

    Attributes
    ----------
    name : str
        The metric.
    pairs : dict of (first, second) to Comparison
        The comparison of each pair, in the given order.
    holm : array of float64, shape (P, ...)
        p-values corrected by Holm, in this order: they control the family-wise error rate.
    benjamini_hochberg : array of float64, shape (P, ...)
        p-values corrected by Benjamini and Hochberg: they control the false discovery rate.
    """

    name: str
    pairs: dict[tuple[Any, Any], Comparison]
    holm: Any
    benjamini_hochberg: Any

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {self.name: f"{_count_pairs(self.pairs)}, {self._count_different()} differ"}

    def _count_different(self) -> int:
        """Return the number of pairs that differ after Holm's correction, in any group and class."""
        differ = np.asarray(self.holm) <= self._alpha()
        return int(np.count_nonzero(differ.any(tuple(range(1, differ.ndim)))))

    def _alpha(self) -> float:
        """Return the significance level, ``1 - confidence_level`` of the comparisons."""
        return 1.0 - next((one.confidence_level for one in self.pairs.values()), 1.0)

    def explain(self) -> str:
        """Return a text that says which pairs differ after Holm's correction."""
        return self._explain(str)

    def _explain(self, name: Callable[[object], str]) -> str:
        """Return a line of text for each pair, with classifiers rendered by `name`."""
        said = []
        for pair, one, p in zip(self.pairs, self.pairs.values(), self.holm, strict=True):
            first, second = map(name, pair)
            if np.ndim(p):
                said.append(f"{first} and {second}: the smallest p is {result_repr.format_values(np.min(p))}")
            else:
                higher = second if one.difference < 0 else first
                verdict = f"{higher} is higher" if p <= self._alpha() else "no significant difference"
                said.append(f"{first} and {second}: {one.difference:+.4f}, p = {p:.3g}, {verdict}")
        return "\n".join(said) or "no pairs"

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per pair, and per group and class.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> T = uncertainty.paired_counts(
        ...     [0, 0, 1, 1] * 5, [0, 1, 1, 1] * 5, [0, 0, 1, 0] * 5
        ... )
        >>> found = uncertainty.compare_many(
        ...     {("a", "b"): T}, "accuracy"
        ... ).to_pandas()
        >>> found[["first", "second"]].values.tolist()
        [['a', 'b']]
        """
        pd = load_pandas()
        tables = []
        for k, ((first, second), one) in enumerate(self.pairs.items()):
            table = one.to_pandas().drop(columns=["first_name", "second_name"], errors="ignore")
            table = table.rename(columns={"first": "value", "second": "other_value"})
            table.insert(1, "first", [first] * len(table))
            table.insert(2, "second", [second] * len(table))
            table["holm"], table["benjamini_hochberg"] = np.ravel(self.holm[k]), np.ravel(self.benjamini_hochberg[k])
            tables.append(table)
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the difference of every pair and its interval, not corrected for the number of pairs.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.ComparisonDisplay
            The display, drawn. The figure is not shown.
        """
        return _draw_rows(self._rows(str), 1.0 - self._alpha(), ax)

    def _rows(self, name: Callable[[object], str]) -> list[list[Any]]:
        """Return a row per pair, group and class: first minus second, rendered by `name`, and the numbers.

        These are the difference, its interval and p by Holm.
        """
        rows = []
        for (first, second), one, p in zip(self.pairs, self.pairs.values(), self.holm, strict=True):
            for (text, *numbers, _), corrected in zip(one._rows(name), np.ravel(p), strict=True):
                pair = f"{name(first)} minus {name(second)}{text.removeprefix(self.name)}"
                rows.append([pair, *numbers, float(corrected)])
        return rows


@explain_options_of_methods
@result_repr.add_compute
@dataclass(eq=False, repr=False)
class PairwiseComparisonsByMetric(ResultsByName[Comparisons]):
    """Pairwise comparisons of several classifiers by several metrics: a mapping from metric to :class:`Comparisons`."""

    _heads = ("pair", "difference", "low", "high", "p by Holm")
    _are_named = True

    def _describe(self) -> str:
        differ = self._describe_each(lambda one: f"{one._count_different()} differ")
        return next((f"{_count_pairs(one.pairs)}; {differ}" for one in self.values()), "no metrics")

    def _write_caption(self) -> str:
        return "pairwise comparisons"

    def _list_cells(self) -> list[list[Any]]:
        return [[name, *row] for name, one in self.items() for row in one._rows(isolate)]

    def explain(self) -> str:
        """Return the texts of all comparisons, a line per metric and pair."""
        lines = [f"{name}, {line}" for name, one in self.items() for line in one.explain().splitlines()]
        return "\n".join(lines) or "no metrics"

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per metric and pair, and per group and class."""
        return super().to_pandas()

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the difference of every pair by each metric and its interval, not corrected for the number of pairs.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.ComparisonDisplay
            The display, drawn. The figure is not shown.
        """
        level = next((1.0 - one._alpha() for one in self.values()), 0.95)
        rows = [[f"{name}: {row[0]}", *row[1:]] for name, one in self.items() for row in one._rows(str)]
        return _draw_rows(rows, level, ax)


def _count_pairs(pairs: Mapping[Any, Any]) -> str:
    """Return the number of pairs as a text."""
    return "1 pair" if len(pairs) == 1 else f"{len(pairs)} pairs"


def _draw_rows(rows: list[list[Any]], confidence_level: float, ax: Any) -> Any:
    """Draw rows of a name, the difference and its interval; return the display."""
    if not rows:
        validate.fail("there are no pairs to draw")
    names, difference, low, high, _ = zip(*rows, strict=True)
    display = load("cmfast.display").ComparisonDisplay
    fields = {"difference": np.array(difference), "low": np.array(low), "high": np.array(high)}
    return display(list(names), **fields, confidence_level=confidence_level).plot(ax=ax)


@overload
def compare_many(
    counts_by_pair: Pairs,
    /,
    names: MetricName,
    *,
    method: CompareMethod = ...,
    test: CompareTest = ...,
    confidence_level: float = ...,
    n_resamples: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    num_threads: int | None = ...,
) -> Comparisons: ...
@overload
def compare_many(
    counts_by_pair: Pairs,
    /,
    names: Names = ...,
    *,
    method: CompareMethod = ...,
    test: CompareTest = ...,
    confidence_level: float = ...,
    n_resamples: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    num_threads: int | None = ...,
) -> PairwiseComparisonsByMetric: ...
@overload
def compare_many(y_true: Any, y_pred: Any, names: MetricName, **options: Any) -> Comparisons: ...
@overload
def compare_many(y_true: Any, y_pred: Any, names: Names = ..., **options: Any) -> PairwiseComparisonsByMetric: ...
@overload
def compare_many(
    table: Any, /, names: Any = ..., *, y_true: str, y_pred: Sequence[str] | Mapping[str, str], **options: Any
) -> Any: ...
@accept_labels_of_models
@accept_delayed
def compare_many(
    counts_by_pair: Pairs,
    /,
    names: Any = None,
    *,
    method: CompareMethod = "bca",
    test: CompareTest = "permutation",
    confidence_level: float = 0.95,
    n_resamples: int = 10_000,
    rng: "int | np.random.Generator" = 0,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    num_threads: int | None = None,
) -> Any:
    """Compare several classifiers on the same samples pairwise, and correct the p-values for the number of pairs.

    Parameters
    ----------
    counts_by_pair : dict of (first, second) to PairedCounts
        Paired counts of each pair, by the names of both; all with the same groups. Or, in its place, the true labels
        and the predictions of each classifier, in a dict by name, a list or a table of columns:
        ``compare_many(y_true, {"a": a, "b": b, "c": c}, names)``. Or a table, as for :func:`cmfast.by`, and its
        columns: ``compare_many(table, names, y_true="label", y_pred=["a", "b", "c"])``. Of both, `groups`, `clusters`
        and `ignore_index` are those of :func:`paired_counts`. Lazy columns give a Delayed.
    names : str or list of str
        As for :func:`cmfast.metrics.compute`.
    method, test, confidence_level, n_resamples, rng, undefined, pos_label, num_threads
        As for :func:`compare`.

    Returns
    -------
    Comparisons, or PairwiseComparisonsByMetric: a mapping from str to Comparisons
        The comparisons of one name, or one per name of several.

    Raises
    ------
    TypeError, ValueError
        As :func:`compare`; keys that are not pairs; pairs with different groups or classes.

    Notes
    -----
    Within each group, and each class of a metric per class, p-values are corrected for the number of pairs; pairs with
    undefined p do not count. The corrected p decides; intervals are not corrected and may exclude 0 even if it does
    not call the pair different. Bad values, synchronising, reproducible: as :func:`compare`; all pairs use the same
    `rng`.

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, 1979. Benjamini and Hochberg, Controlling the false
    discovery rate, 1995.

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import uncertainty
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 500)
    >>> said = {
    ...     name: np.where(rng.random(500) < share, y, 0)
    ...     for name, share in zip("abc", (0.9, 0.88, 0.6))
    ... }
    >>> uncertainty.compare_many(y, said, "f1_macro")
    <Comparisons: f1_macro 3 pairs, 2 differ>

    The same from counts, which may be added up or saved before:

    >>> from itertools import combinations
    >>> pairs = {
    ...     (a, b): uncertainty.paired_counts(y, said[a], said[b])
    ...     for a, b in combinations(said, 2)
    ... }
    >>> uncertainty.compare_many(pairs, "f1_macro")
    <Comparisons: f1_macro 3 pairs, 2 differ>
    """
    given: Any = counts_by_pair
    if not isinstance(given, Mapping):
        example = (
            'as {("a", "b"): paired_counts(y_true, a, b)}, or labels: compare_many(y_true, {"a": a, "b": b}, names)'
        )
        pairs = f"a dict of (first, second) to PairedCounts, {example}"
        validate.refuse("counts_by_pair", pairs, type(given).__name__, TypeError)
    for pair, T in counts_by_pair.items():
        named: Any = pair
        if not isinstance(named, tuple) or len(named) != 2:
            validate.refuse("counts_by_pair", "by two names, (first, second)", validate.format_value(pair), TypeError)
        check_paired(T, f"counts_by_pair[{validate.format_value(pair)}]")
    if isinstance(rng, np.random.Generator):
        rng = int(rng.integers(2**63))
    options = CompareOptions(method, test, confidence_level, n_resamples, rng, undefined, pos_label, num_threads)
    wanted = _plan.resolve_names(names, pos_label=pos_label)
    warn_of_order([T._held.axis for T in counts_by_pair.values()], names)
    found = {pair: compare_pair(T, wanted, options) for pair, T in counts_by_pair.items()}
    out = []
    for k, name in enumerate(wanted):
        every = {pair: one[k] for pair, one in found.items()}
        if len({repr(one.axes) for one in every.values()}) > 1:
            validate.refuse("counts_by_pair", "of the same groups and classes", "several")
        p = np.array([one.p_value for one in every.values()], np.float64)
        out.append(Comparisons(name, every, holm(p), benjamini_hochberg(p)))
    matched = _plan.match_requested_type(names, wanted, out)
    return PairwiseComparisonsByMetric(matched) if isinstance(matched, dict) else matched
