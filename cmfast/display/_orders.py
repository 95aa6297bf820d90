"""In which order the classes of a picture stand, and where it falls into blocks."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from cmfast._core import validate

Order: TypeAlias = Literal["given", "support", "recall", "cluster"]
ORDERS = get_args(Order)


def checked(order: Any, C: int) -> Any:
    """Return the option `order`, which is a name or some of `C` classes."""
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


def arranged(M: np.ndarray, order: Any, groups: Sequence[Any] | None) -> np.ndarray:
    """Return which class stands where: by `order` within each group, and groups as they first occur.

    All cells of `M` are finite and at least 0.
    """
    if not isinstance(order, str):
        return np.asarray(order)
    first = {name: k for k, name in reversed(list(enumerate(groups or [0] * len(M))))}
    codes = np.array([first[name] for name in groups or [0] * len(M)], np.int64)
    found = []
    for code in np.unique(codes):
        own = np.flatnonzero(codes == code)
        found.append(own[_within(M, own, order)])
    return np.concatenate(found) if found else codes


def _within(M: np.ndarray, own: np.ndarray, order: str) -> np.ndarray:
    """Return the order of some classes among themselves."""
    if order == "given":
        return np.arange(len(own))
    support = M.sum(axis=1)
    if order == "support":
        return np.argsort(-support[own], kind="stable")
    shares = M / np.where(support > 0, support, 1.0)[:, None]
    if order == "recall":
        return np.argsort(np.where(support > 0, np.diagonal(shares), np.inf)[own], kind="stable")
    return clustered(shares[np.ix_(own, own)])


def clustered(shares: np.ndarray, *, turned: bool = True) -> np.ndarray:
    """Return the order of the leaves of a tree of classes, of which those that are confused with each other are near.

    Average linkage on one less the mean of both shares; where branches are `turned`, which of many classes takes
    seconds, at every one the order in which neighbours are nearest.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    near = (shares + shares.T) / 2.0
    upper = near[np.triu_indices(len(near), 1)]
    most = upper.max(initial=0.0)
    if not most:  # nothing is near anything
        return np.arange(len(shares))
    return np.asarray(leaves_list(linkage(1.0 - upper / most, "average", optimal_ordering=turned)))


def blocks(M: np.ndarray, most: int) -> list[range]:
    """Return the lines of `M` as pieces of at most `most`, cut where the least of what is confused goes across.

    Cuts are near the middle of what is cut, so that pieces are neither tiny nor many.
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
