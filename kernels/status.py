"""Status codes of the elements of a batch; the CUDA prelude takes its codes from here."""

import operator
from enum import IntEnum
from typing import Self


class Status(IntEnum):
    """Outcome of one element of a batch; arrays of it are int8.

    Codes 0 and 2 count as success (:attr:`ok`). What the result holds: ``CONVERGED`` the answer, ``MAX_ITER`` the last
    iterate, ``LIMIT_ONLY`` the exact limit (factors NaN), ``UNDETERMINED`` a table with correct sums while the
    digits of its targets do not determine all of its cells, every other code NaN.

    Examples
    --------
    >>> Status(0), Status.LIMIT_ONLY.ok
    (<Status.CONVERGED: 0>, True)
    """

    CONVERGED = 0
    MAX_ITER = 1
    LIMIT_ONLY = 2
    INFEASIBLE = 3
    TOTALS = 4
    INVALID = 5
    ZERO_LINE = 6
    RANGE = 7
    UNDETERMINED = 8

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        """Accept any integer-like scalar, such as those of torch."""
        try:
            return cls._value2member_map_.get(operator.index(value))  # type: ignore[arg-type, return-value]
        except TypeError:
            return None

    @property
    def ok(self) -> bool:
        """Return whether the matrix returned with this status is the exact answer or its exact limit."""
        return self in (Status.CONVERGED, Status.LIMIT_ONLY)


# The codes as plain integers, for kernels.
OK = int(Status.CONVERGED)
MAX_ITER = int(Status.MAX_ITER)
LIMIT_ONLY = int(Status.LIMIT_ONLY)
INFEASIBLE = int(Status.INFEASIBLE)
TOTALS = int(Status.TOTALS)
INVALID = int(Status.INVALID)
ZERO_LINE = int(Status.ZERO_LINE)
RANGE = int(Status.RANGE)
UNDETERMINED = int(Status.UNDETERMINED)
