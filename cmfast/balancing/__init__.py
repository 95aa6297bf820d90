"""Weights of bins that give all rows of a symmetric sparse matrix, as a contact map is, their sums."""

from cmfast.balancing._balance import balance
from cmfast.balancing._result import BalanceResult

__all__ = ["BalanceResult", "balance"]
