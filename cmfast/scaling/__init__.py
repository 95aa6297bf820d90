"""Scaling a matrix to given margins: ``ipf`` and ``ras``."""

from cmfast.scaling._functions import ScalingResult, ipf, ras

__all__ = ["ScalingResult", "ipf", "ras"]
