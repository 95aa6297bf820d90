"""Data of a plotted confusion matrix on the host: counts, shares, names and groups, in plot order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmfast import metrics
from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import METHODS, SYNONYMS, Array, Method, OnFailure
from cmfast.display import _class_order
from cmfast.normalizing import normalize as normalized

UNITS = {"row": "% of the true class", "col": "% of the predicted class", "all": "% of all", "bi": "% when balanced"}


@dataclass(frozen=True)
class PlotData:
    """A matrix in plot order; row and column sums are those of the whole matrix."""

    counts: np.ndarray
    row_sums: np.ndarray
    col_sums: np.ndarray
    shares: np.ndarray | None
    order: np.ndarray
    names: list[str]
    groups: list[str] | None

    def replace_shares(self, shares: np.ndarray) -> "PlotData":
        """Return a copy with other shares."""
        return replace(self, shares=shares)

    @property
    def whole(self) -> bool:
        """Whether the plotted values are integers."""
        return self.shares is None and self.counts.dtype.kind in "biu"

    def part(self, places: Any) -> "PlotData":
        """Return the rows and columns at `places`."""
        at = np.ix_(places, places)
        shares = None if self.shares is None else self.shares[at]
        groups = None if self.groups is None else [self.groups[k] for k in places]
        sums = (self.row_sums[places], self.col_sums[places])
        return PlotData(self.counts[at], *sums, shares, self.order[places], [self.names[k] for k in places], groups)


def name_unit(method: str | None, counts: np.ndarray) -> str:
    """Return what the values of a plot are: shares by `method`, or counts if all of them are whole."""
    if method is not None:
        return UNITS[method]
    known = counts[np.isfinite(counts)]
    return "count" if (known == np.floor(known)).all() else "value"


def validate_options(normalize: Any, on_failure: Any) -> Method | None:
    """Validate the options common to all displays; return the canonical name of the normalisation, or None."""
    on_failure = validate.on_failure(on_failure)
    if normalize is None:
        return None
    validate.choice("normalize", normalize, METHODS)
    given: Method = normalize
    return SYNONYMS.get(given, given)


def adopt_matrices(**matrices: Array) -> list[np.ndarray]:
    """Validate square matrices and return them on the host."""
    found = dict(zip(matrices, dispatch.adopt(**matrices), strict=True))
    validate.matrices(square=True, **found)
    for name, array in found.items():
        if len(dispatch.shape_of(array)) != 2:
            validate.refuse(name, "one matrix, of shape (C, C)", f"shape {dispatch.shape_of(array)}")
    return [adapter(array).to_host(array) for array in found.values()]


def make_class_names(names: Any, C: int) -> list[str]:
    """Return the class names; by default the class indices."""
    return [str(k) for k in range(C)] if names is None else validate_names("display_labels", names, C)


def make_group_names(names: Any, C: int) -> list[str] | None:
    """Return the group of every class, or None without groups."""
    return None if names is None else validate_names("groups", names, C)


def validate_names(option: str, names: Any, C: int) -> list[str]:
    """Return the `C` names of an option as texts."""
    given = validate.names(option, names, C)
    if any(name is None for name in given):
        validate.refuse(option, f"a sequence of {C} names", validate.format_value(given), TypeError)
    return [" ".join(str(name).split()) for name in given]


def make_plot_data(
    M: np.ndarray, method: Method | None, order: Any, names: Any, groups: Any, on_failure: OnFailure
) -> PlotData:
    """Return a matrix and its shares by `method`, in the order `order`."""
    C = len(M)
    own, of = make_class_names(names, C), make_group_names(groups, C)
    order = _class_order.validate_order(order, C)
    shares = None if method is None else np.asarray(normalized(M, method, on_failure=on_failure))
    known = np.where(find_defined(M), M, 0)
    whole = PlotData(M, known.sum(axis=1), known.sum(axis=0), shares, np.arange(C), own, of)
    return whole.part(_class_order.order_classes(known, order, of))


def find_defined(M: np.ndarray) -> np.ndarray:
    """Return a mask of the cells that are finite and nonnegative."""
    return np.asarray(np.isfinite(M) & (M >= 0))


def collapse_counts(counts: np.ndarray, groups: Sequence[Any], on_failure: OnFailure) -> tuple[np.ndarray, list[str]]:
    """Return the counts of groups of classes, and the group names."""
    found = metrics.collapse(counts, list(groups), on_failure=on_failure)
    return np.asarray(found.matrix), [str(name) for name in found.groups]
