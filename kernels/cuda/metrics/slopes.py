"""Class sums in float64 for differentiating metrics, and the memory that derivatives take."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda.metrics import values
from cmfast.kernels.shared.metrics import LINES_OF_VALUE, Plan, count_slope_lines

SLOPE_THREADS = 64  # threads of a block that differentiates


class SlopeSums(NamedTuple):
    """Class sums in float64, (n, C) each; totals and status (n,); bands and tops only for an ordered plan.

    Sums of an invalid matrix are NaN or 0, as its status tells.
    """

    d: Any
    t: Any
    p: Any
    bands: Any
    tops: Any
    totals: Any
    status: Any

    def some(self, first: int, last: int) -> "SlopeSums":
        """Return the sums of matrices `first` to `last`."""
        return SlopeSums(*(None if part is None else part[first:last] for part in self))


def sum_classes(M: Any, plan: Plan) -> SlopeSums:
    """Return the class sums of matrices (n, C, C), int64 sums rounded to float64."""
    *sums, status = values.sum_matrices(M, ordered=plan.ordered)
    d, t, p, bands, tops, totals = (None if part is None else part.astype(np.float64, copy=False) for part in sums)
    return SlopeSums(d, t, p, bands, tops, totals, status)


def count_slope_bytes(C: int, plan: Plan) -> int:
    """Return the bytes of the derivatives of one matrix and of their workspace."""
    return 8 * (
        plan.registers * (count_slope_lines(C, ordered=plan.ordered) + 1)
        + 4 * plan.tables * C
        + LINES_OF_VALUE * (C + 1)
    )
