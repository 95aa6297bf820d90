"""What is held of a confusion matrix to draw it: counts and shares on the host, names, groups, all in one order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmfast import metrics
from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import METHODS, SYNONYMS, Array, Method, OnFailure
from cmfast.display import _orders
from cmfast.normalizing import normalize as normalized

UNITS = {"row": "% of the true class", "col": "% of the predicted class", "all": "% of all", "bi": "% when balanced"}


@dataclass(frozen=True)
class Drawn:
    """A matrix in the order in which it is drawn; sums of rows and columns are those of the whole."""

    counts: np.ndarray
    row_sums: np.ndarray
    col_sums: np.ndarray
    shares: np.ndarray | None
    order: np.ndarray
    names: list[str]
    groups: list[str] | None

    def with_shares(self, shares: np.ndarray) -> "Drawn":
        """Return the same with other shares."""
        return replace(self, shares=shares)

    @property
    def whole(self) -> bool:
        """Whether what is painted are integers."""
        return self.shares is None and self.counts.dtype.kind in "biu"

    def part(self, places: Any) -> "Drawn":
        """Return some of the lines."""
        at = np.ix_(places, places)
        shares = None if self.shares is None else self.shares[at]
        groups = None if self.groups is None else [self.groups[k] for k in places]
        sums = (self.row_sums[places], self.col_sums[places])
        return Drawn(self.counts[at], *sums, shares, self.order[places], [self.names[k] for k in places], groups)


def options(normalize: Any, on_failure: Any) -> Method | None:
    """Check what all pictures take; return the method of the normalisation by its first name."""
    validate.on_failure(on_failure)
    if normalize is None:
        return None
    validate.choice("normalize", normalize, METHODS)
    given: Method = normalize
    return SYNONYMS.get(given, given)


def adopted(**matrices: Array) -> list[np.ndarray]:
    """Return square matrices on the host."""
    found = dict(zip(matrices, dispatch.adopt(**matrices), strict=True))
    validate.matrices(square=True, **found)
    for name, array in found.items():
        if len(dispatch.shape_of(array)) != 2:
            validate.refuse(name, "one matrix, of shape (C, C)", f"shape {dispatch.shape_of(array)}")
    return [adapter(array).to_host(array) for array in found.values()]


def class_names(names: Any, C: int) -> list[str]:
    """Return what classes are called: by default by their numbers."""
    return [str(k) for k in range(C)] if names is None else texts("class_names", names, C)


def group_names(names: Any, C: int) -> list[str] | None:
    """Return the group of every class, if there are groups."""
    return None if names is None else texts("groups", names, C)


def texts(option: str, names: Any, C: int) -> list[str]:
    """Return names given by an option, one for each of `C`."""
    given = validate.names(option, names, C)
    if any(name is None for name in given):
        validate.refuse(option, f"a sequence of {C} names", validate.format_value(given), TypeError)
    return [" ".join(str(name).split()) for name in given]


def drawn(M: np.ndarray, method: Method | None, order: Any, names: Any, groups: Any, on_failure: OnFailure) -> Drawn:
    """Return a matrix, and its shares by `method`, in `order`."""
    C = len(M)
    own, of = class_names(names, C), group_names(groups, C)
    order = _orders.checked(order, C)
    shares = None if method is None else np.asarray(normalized(M, method, on_failure=on_failure))
    known = np.where(defined(M), M, 0)
    whole = Drawn(M, known.sum(axis=1), known.sum(axis=0), shares, np.arange(C), own, of)
    return whole.part(_orders.arranged(known, order, of))


def defined(M: np.ndarray) -> np.ndarray:
    """Return which cells are a count or a share: neither NaN nor infinite nor below 0."""
    return np.asarray(np.isfinite(M) & (M >= 0))


def collapsed(counts: np.ndarray, groups: Sequence[Any], on_failure: OnFailure) -> tuple[np.ndarray, list[str]]:
    """Return the counts of groups, and their names."""
    found = metrics.collapse(counts, list(groups), on_failure=on_failure)
    return np.asarray(found.matrix), [str(name) for name in found.groups]
