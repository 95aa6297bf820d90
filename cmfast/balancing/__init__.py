"""Balancing of symmetric sparse matrices such as Hi-C contact maps: bin weights that give all rows their sums."""

from cmfast.balancing._balance import balance
from cmfast.balancing._result import BalanceResult

__all__ = ["BalanceResult", "balance"]
