"""Scaling a matrix to given margins: ``ipf`` and ``ras``."""

from cmfast.scaling._functions import ipf, ras
from cmfast.scaling._result import ScalingResult

__all__ = ["ScalingResult", "ipf", "ras"]
