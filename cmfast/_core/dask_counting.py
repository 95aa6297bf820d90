"""Confusion matrices of Dask arrays: sum integer counts over the chunks, exactly even for float weights.

Integer weights are summed in 32-bit halves, float weights as four 24-bit digits, so that no chunking changes a bit.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from cmfast._core import failures, labels, lazy, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import OnFailure
from cmfast.kernels.shared import halves
from cmfast.kernels.status import Status

LEAST_SUMMED_BYTES = 8  # sums of narrower integers overflow int64, and raise, after 2**31 samples at the earliest
SUMMED_DIGITS, SUMMED_DIGIT_BITS = (
    4,
    24,
)  # digits of a float weight; the sum of a digit overflows int64, and raises, after 2**38 samples


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
    labels.check_known(**known, groups=arrays["groups"])
    axes = options["sample_axes"]
    axes = None if axes is None else validate.count("sample_axes", axes, least=1)

    # weights of another library are refused by sum_blocks
    dtype = adapter(weight).dtype(weight) if lazy.are_lazy(weight) else None
    rest: dict[str, Any] = {"on_failure": on_failure, "num_threads": options["num_threads"]}
    dask = lazy.dask()
    if dtype is None or (dtype.kind != "f" and dtype.itemsize < LEAST_SUMMED_BYTES):
        found = dask.sum_blocks(count, arrays, axes, **options)
    elif dtype.kind == "f":
        top = dask.merge_parts(_find_largest, max, {"sample_weight": weight}, {"sample_weight": 0})
        arrays = dask.recompute_after(arrays, top)
        *digits, bad = dask.sum_blocks(
            _count_digits, arrays, axes, known={"top": (top, np.float64(0))}, count=count, **options
        )
        digits = {f"d{k}": digit for k, digit in enumerate(digits)}
        found = _join_digits(**digits, bad=bad, top=dask.da.from_delayed(top, (), np.float64), **rest)
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


def _find_largest(sample_weight: Any) -> Any:
    """Return the largest finite magnitude of the weights, 0 of none."""
    sizes = abs(halves.replace_nonfinite(sample_weight))
    return np.float64(float(sizes.max()) if sizes.size else 0)  # synchronises


@lazy.accept_dask_arrays(low="CC", high="CC")
def _join_halves(
    low: Any, high: Any, *, normalize: Callable[..., Any] | None, on_failure: OnFailure, num_threads: int | None
) -> Any:
    """Join the summed 32-bit halves of integer weights, normalised if requested; 0 or NaN where int64 overflows."""
    table, good = halves.join_halves(low, high)
    good = good.all(axis=(-2, -1))
    failures.report((~good * np.int8(Status.INVALID)).astype(np.int8), on_failure)
    if normalize is None:
        return table * good[..., None, None]
    table[~good] = 1
    shares = normalize(table, num_threads=num_threads)
    shares[~good] = np.nan
    return shares


def _count_digits(
    y_true: Any, y_pred: Any, sample_weight: Any, groups: Any, *, top: Any, count: Callable[..., Any], **options: Any
) -> tuple[Any, ...]:
    """Count a chunk of labels once for every digit of float weights, and once for weights that are not finite.

    The leading digit begins at the power of two above the largest weight, `top`; bits below 2**-96 of that power are
    rounded off.
    """
    digits = halves.extract_digits(sample_weight, int(np.frexp(top)[1]), SUMMED_DIGITS, SUMMED_DIGIT_BITS)
    bad = (~np.isfinite(sample_weight)).astype(np.int8)
    return tuple(count(y_true, y_pred, sample_weight=some, groups=groups, **options) for some in chain(digits, [bad]))


@lazy.accept_dask_arrays(d0="CC", d1="CC", d2="CC", d3="CC", bad="CC", top="")
def _join_digits(
    *, d0: Any, d1: Any, d2: Any, d3: Any, bad: Any, top: Any, on_failure: OnFailure, num_threads: int | None
) -> Any:
    """Join the summed digits of float weights into float64 sums, each rounded once."""
    del num_threads
    total: Any = 0
    for digit in (d0, d1, d2, d3):
        total = total * 2**SUMMED_DIGIT_BITS + adapter(digit).to_host(digit).astype(object)  # Python's integers
    exponent = np.frexp(np.asarray(adapter(top).to_host(top), np.float64))[1] - SUMMED_DIGITS * SUMMED_DIGIT_BITS
    with np.errstate(over="ignore"):
        table = np.ldexp(np.asarray(total, np.float64), exponent[..., None, None])
    wrong = (adapter(bad).to_host(bad) != 0) | ~np.isfinite(table)
    spoilt = wrong.any(axis=(-2, -1))
    failures.report((spoilt * np.int8(Status.INVALID)).astype(np.int8), on_failure)
    return adapter(d0).send(np.where(spoilt[..., None, None], np.nan, table), d0)
