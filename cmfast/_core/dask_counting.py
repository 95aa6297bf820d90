"""Confusion matrices of Dask arrays: sum integer counts over the chunks, exactly even for float weights.

Integer weights are summed in 32-bit halves, float weights as four 24-bit digits, so that no chunking changes a bit.
"""

from collections.abc import Callable
from itertools import islice
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

    def sum_counts(weight: Any) -> Any:
        """Return the lazy sum of `count` over all chunks, with these integer weights."""
        return lazy.dask().sum_blocks(count, arrays | {"sample_weight": weight}, axes, **options)

    dtype = (
        adapter(weight).dtype(weight) if lazy.are_lazy(weight) else None
    )  # weights of another library are refused by sum_blocks
    rest: dict[str, Any] = {"on_failure": on_failure, "num_threads": options["num_threads"]}
    if dtype is None or (dtype.kind != "f" and dtype.itemsize < LEAST_SUMMED_BYTES):
        found = sum_counts(weight)
    elif dtype.kind == "f":
        top = abs(halves.replace_nonfinite(weight)).max()
        digits = {
            f"d{k}": sum_counts(weight.map_blocks(_extract_digit, top, k, dtype=np.int64)) for k in range(SUMMED_DIGITS)
        }
        bad = sum_counts((weight != halves.replace_nonfinite(weight)).astype(np.int8))
        found = _join_digits(**digits, bad=bad, top=top, **rest)
    else:
        low, high = map(sum_counts, halves.split_halves(weight))
        return _join_halves(low, high, normalize=normalize, **rest)
    return found if normalize is None else normalize(found, num_threads=options["num_threads"])


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


def _extract_digit(weight: Any, top: Any, k: int) -> Any:
    """Return digit `k` of float weights; the leading digit begins at the power of two above the largest weight, `top`.

    Bits below 2**-96 of that power are rounded off.
    """
    exponent = np.frexp(top.astype(np.float64))[1]
    return next(islice(halves.extract_digits(weight, exponent, SUMMED_DIGITS, SUMMED_DIGIT_BITS), k, None))


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
