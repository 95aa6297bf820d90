"""Read ratings and categories of any kind: numbers of any library; on the host also text, tables and missing values."""

import sys
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import bad_values, dispatch, failures, frames, validate
from cmfast._core.adapters import adapter, read_only
from cmfast.kernels.shared.agreement import MISSING, NO_CATEGORY

MANY_RATERS = 10  # raters for each item, above which rows are probably raters
LEAST_COUNTED_ITEMS = 3  # rows from which on equal sums look like counts


class Ratings(NamedTuple):
    """Ratings as numbers, shape (..., n, m), with the categories among them and the value of missing ones.

    `categories` is None where the categories are all values that occur. Text has become its positions in `labels`.
    """

    values: Any
    categories: np.ndarray | None
    missing: Any
    labels: list[Any] | None = None
    is_ordered: bool = False
    """Whether the labels are ordered categories, so that their positions are values."""

    def explain(self, weights: Any, index: tuple[int, ...]) -> str:
        """Return a text that names the first bad rating of the element at `index` of the batch."""
        values = adapter(self.values).entry(self.values, index)
        gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
        if self.missing is not None:
            gone |= values == self.missing
        wrong = np.isinf(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
        if self.categories is not None:
            wrong |= ~np.isin(values, self.categories)
        if isinstance(weights, str) and weights == "ratio":
            wrong |= values < 0
        at = tuple(int(k) for k in np.argwhere(wrong & ~gone)[0])
        where = f"ratings{bad_values.format_index((*index, *at))}"
        if self.labels is not None:
            return f"{where} is not among the categories"
        known = self.categories is None or values[at] in self.categories
        return f"{where} is {values[at]}, {'negative or infinite' if known else 'which is not among the categories'}"


def refuse_confusion_counts(name: str, given: Any, wanted: str) -> None:
    """Raise TypeError for counts of a confusion matrix, whose rows are no items."""
    if hasattr(type(given), "_matrix_for_ops"):
        two = "ConfusionCounts, which count two raters; metrics.kappa takes them"
        validate.refuse(name, wanted, two, TypeError)


def warn_of_counts(values: Any) -> None:
    """Warn if all rows of numbers have one sum, as counts of the raters who chose each category have."""
    n, m = dispatch.shape_of(values)[-2:]
    if n < LEAST_COUNTED_ITEMS or len(dispatch.shape_of(values)) != 2 or not adapter(values).is_on_host(values):
        return
    host = adapter(values).to_host(values)
    sums = host.sum(1)
    if sums[0] > 1 and (sums == sums[0]).all() and host.min() == 0 and len(np.unique(host, axis=0)) > 1:
        failures.warn_diagnostic(
            f"all {n:,} rows of {m:,} numbers add up to {sums[0]:g}, as counts of raters per category do; for such a "
            "table call agreement.from_counts"
        )


def adopt_ratings(ratings: Any, categories: Any, missing: Any) -> Ratings:
    """Return validated ratings as numbers; warn of so few rows that they may be raters."""
    ratings = frames.collect_table(ratings)
    refuse_confusion_counts("ratings", ratings, "a row per item and a column per rater")
    order = _list_ordered_categories(ratings) if categories is None else None
    found = _adopt(ratings, categories if order is None else order, missing)
    if order is not None and found.labels is not None:
        found = found._replace(is_ordered=True)
    n, m = dispatch.shape_of(found.values)[-2:]
    if found.labels is not None and _is_table(ratings):
        _warn_of_other_columns(found, frames.column_names(ratings))
    if 0 < n * MANY_RATERS < m:
        failures.warn_diagnostic(f"{n:,} items and {m:,} raters; items come first, so transpose if rows are raters")
    return found


def _warn_of_other_columns(found: Ratings, names: list[Any]) -> None:
    """Warn of a column of text that has no category in common with any other, if all others have some."""
    m, n_categories = len(names), len(found.labels or ())
    values = np.asarray(found.values)
    rows, columns = np.nonzero(values >= 0)
    occurs = np.zeros((m, n_categories), np.bool_)
    occurs[columns, values[rows, columns]] = True
    shared = (occurs & (occurs.sum(0) > 1)).any(1)
    alone = np.flatnonzero(occurs.any(1) & ~shared)
    if m > 2 and len(alone) == 1:
        k = int(alone[0])
        raters = validate.format_value([name for name in names if name != names[k]])
        failures.warn_diagnostic(
            f"column {names[k]!r} was taken for a rater, but has no value in common with another column; "
            f"ratings[{raters}] leaves it out"
        )


def _list_ordered_categories(ratings: Any) -> list[Any] | None:
    """Return the categories of a table whose columns all declare the same texts in order; None for other ratings."""
    if not _is_table(ratings) or type(ratings).__module__.startswith("pyarrow"):
        return None
    dtypes = [ratings[name].dtype for name in ratings.columns]
    ordered = [getattr(dtype, "ordered", type(dtype).__name__ == "Enum") for dtype in dtypes]
    if not dtypes or not all(ordered):
        return None
    orders = [list(dtype.categories) for dtype in dtypes]
    is_text = all(isinstance(category, str) for category in orders[0])
    return orders[0] if is_text and orders.count(orders[0]) == len(orders) else None


def _adopt(ratings: Any, categories: Any, missing: Any) -> Ratings:
    """Return validated ratings as numbers."""
    host = _read_objects(ratings)
    if host is not None and host.dtype.kind == "O":
        host = _clear_missing(host, missing)
    if host is not None and host.dtype.kind in "OUS":
        return _check_shape(_encode_text(host, categories, missing))
    values = dispatch.adopt_one("ratings", ratings if host is None else host)
    validate.real(ratings=values)
    return _check_shape(Ratings(values, adopt_categories(categories), _adopt_missing(missing)))


def _read_objects(ratings: Any) -> np.ndarray | None:
    """Return ratings that are text, or have missing ones among objects, as an array; None for all others."""
    if isinstance(ratings, np.ndarray):
        host = ratings if type(ratings) is np.ndarray else None
    elif isinstance(ratings, list | tuple) or _is_table(ratings):
        try:
            host = np.asarray(ratings)
        except ValueError:  # rows of several lengths, which the adapter describes
            return None
        if host.dtype.kind in "US":
            host = np.array(ratings, object)  # numbers among text are still numbers
    else:
        return None
    if host is None or host.dtype.kind not in "OUS" or host.ndim == 0:
        return None
    huge = host.dtype.kind == "O" and any(isinstance(x, int) and abs(x) >= 2**63 for x in host.ravel().tolist())
    return None if huge else host


def _is_table(x: Any) -> bool:
    """Whether `x` is a table with a column per rater, such as a DataFrame of pandas or polars."""
    return hasattr(x, "columns") and hasattr(x, "shape") and len(x.shape) == 2 and hasattr(x, "__array__")


def _check_shape(found: Ratings) -> Ratings:
    """Raise ValueError unless ratings have an axis of items and one of raters."""
    shape = dispatch.shape_of(found.values)
    if len(shape) < 2:
        validate.refuse("ratings", "of shape (..., n, m), a row per item and a column per rater", f"shape {shape}")
    return found


def _is_missing(value: Any) -> bool:
    """Whether an object stands for no rating: None, NaN, NaT, or the NA of pandas."""
    if value is None or (isinstance(value, float | np.floating) and value != value):  # noqa: PLR0124
        return True
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def _clear_missing(host: np.ndarray, missing: Any) -> np.ndarray:
    """Return objects as float64 with NaN for missing ones if all others are numbers, else with None for missing."""
    flat = [None if _is_missing(x) or (missing is not None and x == missing) else x for x in host.ravel().tolist()]
    if all(x is None or isinstance(x, int | float | np.number) for x in flat):
        return np.array([np.nan if x is None else float(x) for x in flat], np.float64).reshape(host.shape)
    kinds = {"text" if isinstance(x, str | bytes) else "numbers" for x in flat if x is not None}
    if any(not isinstance(x, str | bytes | int | float | np.number) for x in flat if x is not None):
        other = next(x for x in flat if x is not None and not isinstance(x, str | bytes | int | float | np.number))
        validate.refuse("ratings", "numbers or text", f"a {type(other).__name__}", TypeError)
    if len(kinds) > 1:
        validate.refuse("ratings", "all numbers or all text", "both", TypeError)
    out = np.empty(host.shape, object)
    out.ravel()[:] = flat
    return out


def _encode_text(host: np.ndarray, categories: Any, missing: Any) -> Ratings:
    """Return text as positions in the categories, which by default are the texts that occur, sorted."""
    if missing is not None and not isinstance(missing, str | bytes):
        validate.refuse("missing", "text or None, as ratings are text", validate.format_value(missing), TypeError)
    flat = host.ravel().tolist()
    if missing is not None:
        flat = [None if x == missing else x for x in flat]
    found = {x for x in flat if x is not None}
    if len({type(x) for x in found}) > 1:
        validate.refuse("ratings", "all str or all bytes", "both", TypeError)
    labels = sorted(found) if categories is None else _list_categories(categories)
    if any(not isinstance(x, str | bytes) for x in labels):
        validate.refuse("categories", "text, as ratings are", validate.format_value(categories), TypeError)
    places: dict[Any, int] = {label: k for k, label in enumerate(labels)} | {None: MISSING}
    codes = np.array([places.get(x, NO_CATEGORY) for x in flat], np.int64).reshape(host.shape)
    return Ratings(read_only(codes), np.arange(len(labels)), MISSING, labels)


def _list_categories(categories: Any) -> list[Any]:
    """Return the categories as a list of at least one and no two equal."""
    if isinstance(categories, str | bytes) or not hasattr(type(categories), "__len__"):
        validate.refuse("categories", "a sequence of categories", validate.format_value(categories), TypeError)
    one = adapter(categories)
    found = np.asarray(categories if one.takes_columns else one.to_host(categories), None)
    if found.ndim != 1 or not found.size:
        validate.refuse("categories", "one axis of at least one category", f"shape {found.shape}")
    if found.dtype.kind not in "biufUS":
        validate.refuse("categories", "numbers or text", validate.format_value(categories), TypeError)
    listed: list[Any] = found.tolist()
    if len(set(listed)) < len(listed):
        validate.refuse("categories", "without repetition", validate.format_value(categories))
    return listed


def adopt_categories(categories: Any) -> np.ndarray | None:
    """Return categories as an array of finite numbers; None unchanged."""
    if categories is None:
        return None
    found = np.asarray(_list_categories(categories))
    if found.dtype.kind not in "biuf":
        validate.refuse("categories", "numbers, as ratings are", validate.format_value(categories), TypeError)
    if not np.isfinite(found).all():
        validate.refuse("categories", "finite", validate.format_value(categories))
    return found.astype(np.int64) if found.dtype.kind == "b" else found


def _adopt_missing(missing: Any) -> Any:
    """Return the number that stands for no rating; None unchanged, and for NaN, which always does."""
    if missing is None:
        return None
    found = validate.number("missing", missing)
    if found != found:  # noqa: PLR0124
        return None
    return int(missing) if found.is_integer() else found
