"""Facts about confusions: the largest with intervals, significant directions, rank changes by bi-normalisation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast import uncertainty
from cmfast._core import confused_pairs
from cmfast._report import _sparse_counts
from cmfast._report._class_facts import compute_share_intervals
from cmfast._report._options import MOST_LISTED_CONFUSIONS, MOST_RESAMPLED_CLASSES, ReportOptions, ScalingFactors
from cmfast._report._sparse_counts import SparseCounts

Facts = dict[str, Any]
MOST_RANK_CHANGES = 8  # listed pairs with a rank change


def describe_confusions(M: np.ndarray, scaled: ScalingFactors, labels: Sequence[str], request: ReportOptions) -> Facts:
    """Return the largest confusions with intervals, and the statements about their order that are significant."""
    cells = _sparse_counts.list_cells(M)
    pairs, errors = confused_pairs.list_pairs(*cells), _compute_balanced_errors(M, scaled, request)
    in_balance = _rank_balanced_pairs(M, scaled, errors, pairs, request)
    return _describe_pairs(cells, pairs, scaled, errors, in_balance, labels, request)


def describe_sparse_confusions(
    cells: SparseCounts, scaled: ScalingFactors, labels: Sequence[str], request: ReportOptions
) -> Facts:
    """Return the largest confusions of many classes, without errors and ranks of balanced cells."""
    return _describe_pairs(cells, confused_pairs.list_pairs(*cells), scaled, None, None, labels, request)


def _describe_pairs(
    cells: SparseCounts,
    pairs: confused_pairs.Pairs,
    scaled: ScalingFactors,
    errors: np.ndarray | None,
    in_balance: np.ndarray | None,
    labels: Sequence[str],
    request: ReportOptions,
) -> Facts:
    """Return the facts of the confused pairs, given balanced errors and ranks where known."""
    what = confused_pairs.find_distinct_pairs(pairs, request.confidence_level)
    forth, back = (
        scaled.scale_counts(pairs.first, pairs.second, pairs.forth),
        scaled.scale_counts(pairs.second, pairs.first, pairs.back),
    )
    both, support = (forth + back) / 2, cells.sums()[1]
    told = [
        {"first": labels[i], "second": labels[j], "forth": n, "back": m, "told": bool(d)}
        for i, j, n, m, d in zip(*pairs[:4], what.told, strict=True)
        if n + m
    ][: what.leading if pairs.n_pairs > 1 else 1]
    standing: Facts = {"n_pairs": pairs.n_pairs, "confused": int((pairs.forth + pairs.back).sum()), "pairs": told}
    standing |= {"balanced": None, "moved": [], "judged": in_balance is not None}
    if in_balance is not None and len(pairs.first):
        k = int(both.argmax())
        if in_balance[k, 1] == 1 and pairs.n_pairs > 1:
            standing["balanced"] = {"first": labels[int(pairs.first[k])], "second": labels[pairs.second[k]]}
        standing["moved"] = _list_rank_changes(pairs, what.ranks, in_balance, both, labels)
    order = dict.fromkeys(
        [
            *range(min(MOST_LISTED_CONFUSIONS, len(both))),
            *np.argsort(-both, kind="stable")[:MOST_LISTED_CONFUSIONS].tolist(),
        ]
    )
    found = [
        line | {"rank": what.ranks[k], "rank_balanced": None if in_balance is None else in_balance[k]}
        for k in order
        for line in _describe_directions(k, pairs, bool(what.told[k]), support, scaled, errors, labels, request)
    ]
    return {"confusions": found, "standing": standing}


def _compute_balanced_errors(M: np.ndarray, scaled: ScalingFactors, request: ReportOptions) -> np.ndarray | None:
    """Return standard errors of bi-normalised cells, or None with smoothing or many classes."""
    if scaled.smoothing or len(M) > MOST_RESAMPLED_CLASSES:
        return None
    options: Facts = {
        "of": "bi",
        "method": "normal",
        "confidence_level": request.confidence_level,
        "on_failure": "ignore",
    }
    found = uncertainty.interval(M, num_threads=request.num_threads, **options)
    return np.asarray(found.standard_error)


def _rank_balanced_pairs(
    M: np.ndarray,
    scaled: ScalingFactors,
    errors: np.ndarray | None,
    pairs: confused_pairs.Pairs,
    request: ReportOptions,
) -> np.ndarray | None:
    """Return the ranks of balanced pairs that simultaneous intervals allow; None without standard errors.

    An interval covers both that of the delta method and that of the count alone (Garwood), which allows for samples in
    empty cells.
    """
    from scipy.special import ndtri

    if errors is None or not np.isfinite(errors).all():
        return None
    balanced = scaled.cells(M)
    tail = (1.0 - request.confidence_level) / confused_pairs.STATEMENTS / max(4 * pairs.n_pairs, 1)
    reach = -ndtri(tail) * errors
    factors = scaled.rows[:, None] * scaled.cols
    few, many = confused_pairs.poisson_intervals(M.astype(np.float64), tail)
    low = np.maximum(np.minimum(balanced - reach, few * factors), 0.0)
    high = np.minimum(np.maximum(balanced + reach, many * factors), 1.0)
    upper = np.triu_indices(len(M), 1)
    ends = confused_pairs.bound_ranks(low[upper] + low.T[upper], high[upper] + high.T[upper], pairs.n_pairs, 0.0)
    place = np.zeros(M.shape, np.int64)
    place[upper] = np.arange(pairs.n_pairs)
    return np.asarray(ends[place[pairs.first, pairs.second]])


def _list_rank_changes(
    pairs: confused_pairs.Pairs, by_count: np.ndarray, in_balance: np.ndarray, both: np.ndarray, labels: Sequence[str]
) -> list[Facts]:
    """Return the pairs whose rank intervals by count and when balanced are disjoint, farthest first."""
    far = np.maximum(by_count[:, 0] - in_balance[:, 1], in_balance[:, 0] - by_count[:, 1])
    return [
        {
            "first": labels[int(pairs.first[k])],
            "second": labels[int(pairs.second[k])],
            "count": pairs.forth[k] + pairs.back[k],
            "balanced": both[k],
            "rank": by_count[k],
            "rank_balanced": in_balance[k],
        }
        for k in np.argsort(-far, kind="stable")[:MOST_RANK_CHANGES].tolist()
        if far[k] > 0
    ]


def _describe_directions(
    k: int,
    pairs: confused_pairs.Pairs,
    told: bool,
    support: np.ndarray,
    scaled: ScalingFactors,
    errors: np.ndarray | None,
    labels: Sequence[str],
    request: ReportOptions,
) -> list[Facts]:
    """Return a row of facts for each direction of a pair if they differ significantly, else one for both."""
    i, j = int(pairs.first[k]), int(pairs.second[k])
    M = {(i, j): pairs.forth[k], (j, i): pairs.back[k]}
    ways = [[(i, j)], [(j, i)]] if told else [[(i, j), (j, i)]]
    found = []
    for way in sorted(ways, key=lambda cells: -sum(M[cell] for cell in cells)):
        count, of = sum(M[cell] for cell in way), sum(support[r] for r, _ in way)
        if not count:
            continue
        low, high = compute_share_intervals(np.array([count]), np.array([of]), request)
        value = float(np.mean([scaled.scale_counts(*cell, M[cell]) for cell in way]))
        one: Facts = {"true": labels[way[0][0]], "predicted": labels[way[0][1]], "both_ways": not told, "count": count}
        one |= {"row": count / of, "low": low[0], "high": high[0], "balanced": value}
        if errors is not None:
            # The errors may be correlated, so they are added: a conservative interval.
            reach = request.z * float(np.mean([errors[cell] for cell in way]))
            one |= {"balanced_low": max(value - reach, 0.0), "balanced_high": min(value + reach, 1.0)}
        found.append(one)
    return found
