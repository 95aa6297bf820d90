"""Confusion matrices of Dask arrays: sum integer counts over the chunks, exactly even for float weights.

Integer weights are summed in 32-bit halves, float weights as 24-bit digits, so that no chunking changes a bit.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import bad_values, failures, labels, lazy, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import OnFailure
from cmfast.kernels.shared import halves
from cmfast.kernels.status import Status

LEAST_SUMMED_BYTES = 8  # sums of narrower integers overflow int64, and raise, after 2**31 samples at the earliest
WEIGHT_DIGIT_BITS = 24  # of float weights; the sum of a digit overflows int64, and raises, after 2**39 samples


class _DigitSums(NamedTuple):
    """Sums of float weights by digit, and the number of weights that are not finite, for each cell of the matrices.

    `digits[k]` counts units of ``2**(WEIGHT_DIGIT_BITS * k)``; digits that are zero everywhere are missing.
    """

    bad: Any
    digits: dict[int, Any]


def count_blocks(
    count: Callable[..., Any],
    arrays: dict[str, Any],
    on_failure: OnFailure,
    options: dict[str, Any],
    normalize: Callable[..., Any] | None,
) -> Any:
    """Return lazy confusion matrices: the sum of `count` over all chunks of labels, passed to `normalize` if given."""
    if options["sparse"]:
        validate.refuse("sparse", "False with Dask arrays", "True")
    known = {name: options[name] for name in ("n_classes", "labels", "n_groups")}
    weight = arrays["sample_weight"]
    labels.check_known(**known, groups=arrays["groups"], y={name: arrays[name] for name in labels.NAMES})
    axes = options["sample_axes"]
    axes = None if axes is None else validate.count("sample_axes", axes, least=1)

    # weights of another library are refused by sum_blocks
    dtype = adapter(weight).dtype(weight) if lazy.are_lazy(weight) else None
    rest: dict[str, Any] = {"on_failure": on_failure, "num_threads": options["num_threads"]}
    dask = lazy.dask()
    if dtype is None or (dtype.kind != "f" and dtype.itemsize < LEAST_SUMMED_BYTES):
        found = dask.sum_blocks(count, arrays, axes, **options)
    elif dtype.kind == "f":
        join = partial(_join_digits, on_failure=on_failure)
        found = dask.merge_blocks(_count_digits, _add_digits, join, arrays, axes, count=count, **options)
    else:
        low, high = dask.sum_blocks(_count_halves, arrays, axes, count=count, **options)
        return _join_halves(low, high, normalize=normalize, **rest)
    return found if normalize is None else normalize(found, num_threads=options["num_threads"])


def _count_halves(
    y_true: Any, y_pred: Any, sample_weight: Any, groups: Any, *, count: Callable[..., Any], **options: Any
) -> tuple[Any, ...]:
    """Count a chunk of labels twice, weighted by the 32-bit halves of integer weights."""
    return tuple(
        count(y_true, y_pred, sample_weight=half, groups=groups, **options)
        for half in halves.split_halves(sample_weight)
    )


@lazy.accept_dask_arrays(low="CC", high="CC")
def _join_halves(
    low: Any, high: Any, *, normalize: Callable[..., Any] | None, on_failure: OnFailure, num_threads: int | None
) -> Any:
    """Join the summed 32-bit halves of integer weights, normalised if requested; 0 or NaN where int64 overflows."""
    table, good = halves.join_halves(low, high)
    good = good.all(axis=(-2, -1))
    status = (~good * np.int8(Status.INVALID)).astype(np.int8)
    failures.report(status, on_failure, why=lambda index: bad_values.OVERFLOWING_WEIGHTS)
    if normalize is None:
        return table * good[..., None, None]
    table[~good] = 1
    shares = normalize(table, num_threads=num_threads)
    shares[~good] = np.nan
    return shares


def _count_digits(
    y_true: Any, y_pred: Any, sample_weight: Any, groups: Any, *, count: Callable[..., Any], **options: Any
) -> _DigitSums:
    """Count a chunk of labels once for every digit of float weights, and once for weights that are not finite."""
    bad = (~np.isfinite(sample_weight)).astype(np.int8)
    digits = {
        k: count(y_true, y_pred, sample_weight=some, groups=groups, **options)
        for k, some in halves.split_digits(sample_weight, WEIGHT_DIGIT_BITS)
    }
    return _DigitSums(count(y_true, y_pred, sample_weight=bad, groups=groups, **options), digits)


def _add_digits(parts: list[_DigitSums]) -> _DigitSums:
    """Add up the digits of chunks."""
    add = lazy.dask().add_arrays
    numbers = sorted({k for part in parts for k in part.digits})
    digits = {k: add([part.digits[k] for part in parts if k in part.digits]) for k in numbers}
    return _DigitSums(add([part.bad for part in parts]), digits)


def _join_digits(found: _DigitSums, *, on_failure: OnFailure) -> Any:
    """Join the summed digits of float weights into float64 sums, each rounded once."""
    bad = adapter(found.bad).to_host(found.bad)
    digits = {k: adapter(some).to_host(some).ravel() for k, some in found.digits.items()}
    none = np.zeros(bad.size, np.int64)
    last, first = min(digits, default=0), max(digits, default=0)
    columns = [digits.get(k, none) for k in range(first, last - 1, -1)]
    table = halves.round_digit_sums(columns, WEIGHT_DIGIT_BITS, WEIGHT_DIGIT_BITS * last).reshape(bad.shape)
    wrong = (bad != 0) | ~np.isfinite(table)
    spoilt = wrong.any(axis=(-2, -1))

    def explain(index: tuple[int, ...]) -> str:
        """Return why the matrix at `index` has no sums: the weights themselves were left in the chunks."""
        return "sample_weight is NaN or infinite" if bad[index].any() else bad_values.OVERFLOWING_WEIGHTS

    failures.report((spoilt * np.int8(Status.INVALID)).astype(np.int8), on_failure, why=explain)
    return adapter(found.bad).send(np.where(spoilt[..., None, None], np.nan, table), found.bad)
