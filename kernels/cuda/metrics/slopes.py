"""What slopes of metrics are made of: the sums of matrices; and the room that they take."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda.metrics import values
from cmfast.kernels.shared.metrics import LINES_OF_VALUE, Plan, count_slope_lines

SLOPE_THREADS = 64  # of a block that differentiates


class SlopeSums(NamedTuple):
    """Sums of matrices in float64, (n, C) each, totals and status (n,); bands and tops only for a plan that is ordered.

    What no matrix has is NaN or 0, as its status says.
    """

    d: Any
    t: Any
    p: Any
    bands: Any
    tops: Any
    totals: Any
    status: Any

    def some(self, first: int, last: int) -> "SlopeSums":
        """Return those of some matrices."""
        return SlopeSums(*(None if part is None else part[first:last] for part in self))


def margins_of(M: Any, plan: Plan) -> SlopeSums:
    """Return the sums of matrices (n, C, C); what float64 does not hold exactly is rounded."""
    *sums, status = values.sums_of(M, ordered=plan.ordered)
    d, t, p, bands, tops, totals = (None if part is None else part.astype(np.float64, copy=False) for part in sums)
    return SlopeSums(d, t, p, bands, tops, totals, status)


def bytes_of(C: int, plan: Plan) -> int:
    """Return the bytes of the slopes of one matrix, and of what they are made in."""
    return 8 * (
        plan.registers * (count_slope_lines(C, ordered=plan.ordered) + 1)
        + 4 * plan.tables * C
        + LINES_OF_VALUE * (C + 1)
    )
