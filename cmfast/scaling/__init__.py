"""Matrix scaling to given row and column sums by iterative proportional fitting: ``ipf`` and ``ras``."""

from cmfast.scaling._ipf import ipf, ras
from cmfast.scaling._result import ScalingResult

__all__ = ["ScalingResult", "ipf", "ras"]
