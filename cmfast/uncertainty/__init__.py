"""How far a confusion matrix, and so any metric of it, could be off because its samples are few."""

from cmfast.uncertainty._resample import resample

__all__ = ["resample"]
