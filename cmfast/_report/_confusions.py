"""What a report says of confusions: which stand out, which directions differ, whose ranks balancing changes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast import uncertainty
from cmfast._core import confused_pairs
from cmfast._report import _cells
from cmfast._report._asked import LARGEST, MOST_RESAMPLED_CLASSES, Asked, Scaled
from cmfast._report._cells import Cells
from cmfast._report._classes import share_ends

Facts = dict[str, Any]
MOST_RANK_CHANGES = 8  # pairs that are listed because their rank changes


def of_matrix(M: np.ndarray, scaled: Scaled, labels: Sequence[str], asked: Asked) -> Facts:
    """Return the largest confusions with intervals, and what of their order is beyond chance."""
    cells = _cells.of_matrix(M)
    pairs, errors = confused_pairs.list_pairs(*cells), _balanced_errors(M, scaled, asked)
    in_balance = _ranks_in_balance(M, scaled, errors, pairs, asked)
    return _of_pairs(cells, pairs, scaled, errors, in_balance, labels, asked)


def of_cells(cells: Cells, scaled: Scaled, labels: Sequence[str], asked: Asked) -> Facts:
    """Return the same of so many classes that nothing is known of errors and ranks of balanced cells."""
    return _of_pairs(cells, confused_pairs.list_pairs(*cells), scaled, None, None, labels, asked)


def _of_pairs(
    cells: Cells,
    pairs: confused_pairs.Pairs,
    scaled: Scaled,
    errors: np.ndarray | None,
    in_balance: np.ndarray | None,
    labels: Sequence[str],
    asked: Asked,
) -> Facts:
    what = confused_pairs.find_distinct_pairs(pairs, asked.level)
    forth, back = scaled.at(pairs.first, pairs.second, pairs.forth), scaled.at(pairs.second, pairs.first, pairs.back)
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
        standing["moved"] = _moved(pairs, what.ranks, in_balance, both, labels)
    order = dict.fromkeys([*range(min(LARGEST, len(both))), *np.argsort(-both, kind="stable")[:LARGEST].tolist()])
    found = [
        line | {"rank": what.ranks[k], "rank_balanced": None if in_balance is None else in_balance[k]}
        for k in order
        for line in _lines(k, pairs, bool(what.told[k]), support, scaled, errors, labels, asked)
    ]
    return {"confusions": found, "standing": standing}


def _balanced_errors(M: np.ndarray, scaled: Scaled, asked: Asked) -> np.ndarray | None:
    """Return standard errors of balanced cells, of few classes that are scaled as they are; else None."""
    if scaled.smoothing or len(M) > MOST_RESAMPLED_CLASSES:
        return None
    options: Facts = {"of": "bi", "method": "normal", "level": asked.level, "on_failure": "ignore"}
    found = uncertainty.interval(M, num_threads=asked.num_threads, **options)
    return np.asarray(found.standard_error)


def _ranks_in_balance(
    M: np.ndarray, scaled: Scaled, errors: np.ndarray | None, pairs: confused_pairs.Pairs, asked: Asked
) -> np.ndarray | None:
    """Return the ranks of pairs that simultaneous intervals allow when balanced; None where errors are not known.

    An interval holds that of the delta method and that of the count alone (Garwood), which knows of cells without a
    sample that they may have one.
    """
    from scipy.special import ndtri

    if errors is None or not np.isfinite(errors).all():
        return None
    balanced = scaled.cells(M)
    tail = (1.0 - asked.level) / confused_pairs.STATEMENTS / max(4 * pairs.n_pairs, 1)
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


def _moved(
    pairs: confused_pairs.Pairs, by_count: np.ndarray, in_balance: np.ndarray, both: np.ndarray, labels: Sequence[str]
) -> list[Facts]:
    """Return the pairs whose ranks by count and when balanced cannot be the same, farthest first."""
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


def _lines(
    k: int,
    pairs: confused_pairs.Pairs,
    told: bool,
    support: np.ndarray,
    scaled: Scaled,
    errors: np.ndarray | None,
    labels: Sequence[str],
    asked: Asked,
) -> list[Facts]:
    """Return the directions of a pair where they differ, else both together."""
    i, j = int(pairs.first[k]), int(pairs.second[k])
    M = {(i, j): pairs.forth[k], (j, i): pairs.back[k]}
    ways = [[(i, j)], [(j, i)]] if told else [[(i, j), (j, i)]]
    found = []
    for way in sorted(ways, key=lambda cells: -sum(M[cell] for cell in cells)):
        count, of = sum(M[cell] for cell in way), sum(support[r] for r, _ in way)
        if not count:
            continue
        low, high = share_ends(np.array([count]), np.array([of]), asked)
        value = float(np.mean([scaled.at(*cell, M[cell]) for cell in way]))
        one: Facts = {"true": labels[way[0][0]], "predicted": labels[way[0][1]], "both_ways": not told, "count": count}
        one |= {"row": count / of, "low": low[0], "high": high[0], "balanced": value}
        if errors is not None:
            # The two may go together, so their errors are added: the interval is too wide rather than too short.
            reach = asked.z * float(np.mean([errors[cell] for cell in way]))
            one |= {"balanced_low": max(value - reach, 0.0), "balanced_high": min(value + reach, 1.0)}
        found.append(one)
    return found
