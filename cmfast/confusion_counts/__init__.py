"""Counts that know their classes and groups: they merge, are written and read, and become tables."""

from cmfast.confusion_counts._counts import ConfusionCounts
from cmfast.confusion_counts._group_by import by

__all__ = ["ConfusionCounts", "by"]
