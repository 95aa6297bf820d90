"""Order of the classes of a plot, by support, recall or hierarchical clustering; split of the order into blocks."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from cmfast._core import validate

Order: TypeAlias = Literal["given", "support", "recall", "cluster"]
ORDERS = get_args(Order)


def validate_order(order: Any, C: int) -> Any:
    """Validate the option `order`: the name of an order, or different classes out of `C`."""
    if isinstance(order, str):
        validate.choice("order", order, ORDERS)
        return order
    wanted = f"one of {', '.join(map(repr, ORDERS))}, or different classes from 0 to {C - 1}"
    if not isinstance(order, Sequence | np.ndarray):
        validate.refuse("order", wanted, f"{type(order).__name__} {validate.format_value(order)}", TypeError)
    whole = all(isinstance(k, int | np.integer) and not isinstance(k, bool) for k in order)
    if not whole or len(set(order)) < len(order) or not all(0 <= k < C for k in order):
        validate.refuse("order", wanted, validate.format_value(order), ValueError if whole else TypeError)
    return np.array(order, np.int64)


def order_classes(M: np.ndarray, order: Any, groups: Sequence[Any] | None) -> np.ndarray:
    """Return the class at each position: ordered by `order` within each group, groups by first occurrence.

    All cells of `M` are finite and nonnegative.
    """
    if not isinstance(order, str):
        return np.asarray(order)
    first = {name: k for k, name in reversed(list(enumerate(groups or [0] * len(M))))}
    codes = np.array([first[name] for name in groups or [0] * len(M)], np.int64)
    found = []
    for code in np.unique(codes):
        own = np.flatnonzero(codes == code)
        found.append(own[_order_within_group(M, own, order)])
    return np.concatenate(found) if found else codes


def _order_within_group(M: np.ndarray, own: np.ndarray, order: str) -> np.ndarray:
    """Return the order of the classes `own` of one group."""
    if order == "given":
        return np.arange(len(own))
    support = M.sum(axis=1)
    if order == "support":
        return np.argsort(-support[own], kind="stable")
    shares = M / np.where(support > 0, support, 1.0)[:, None]
    if order == "recall":
        return np.argsort(np.where(support > 0, np.diagonal(shares), np.inf)[own], kind="stable")
    return order_by_clustering(shares[np.ix_(own, own)])


def order_by_clustering(shares: np.ndarray, *, turned: bool = True) -> np.ndarray:
    """Return the leaf order of a hierarchical clustering in which confused classes are near.

    Average linkage of the distance one minus the mean of both shares. With `turned`, branches are turned for optimal
    leaf ordering, which takes seconds for many classes.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    near = (shares + shares.T) / 2.0
    upper = near[np.triu_indices(len(near), 1)]
    most = upper.max(initial=0.0)
    if not most:  # no confusions: all distances are equal
        return np.arange(len(shares))
    return np.asarray(leaves_list(linkage(1.0 - upper / most, "average", optimal_ordering=turned)))


def split_into_blocks(M: np.ndarray, most: int) -> list[range]:
    """Split the classes into consecutive blocks of at most `most`, cut where the least confusion crosses.

    Cuts are within the middle half, so that blocks are neither tiny nor many.
    """
    near = np.where(np.isfinite(M) & (M > 0), M, 0.0).astype(np.float64)
    np.fill_diagonal(near, 0.0)
    sums = np.zeros((len(M) + 1, len(M) + 1))
    sums[1:, 1:] = (near + near.T).cumsum(axis=0).cumsum(axis=1)
    found, left = [], [(0, len(M))]
    while left:
        low, high = left.pop()
        if high - low <= most:
            found.append(range(low, high))
            continue
        quarter = max(1, (high - low) // 4)
        cuts = np.arange(low + quarter, high - quarter + 1)
        across = sums[cuts, high] - sums[low, high] - sums[cuts, cuts] + sums[low, cuts]
        middle = abs(2 * cuts - low - high)
        cut = int(cuts[np.lexsort((middle, across))[0]])
        left += [(cut, high), (low, cut)]
    return found
