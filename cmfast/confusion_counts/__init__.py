"""Counts that know their classes and groups: they merge, are written and read, and become tables."""

from cmfast.confusion_counts._by import by
from cmfast.confusion_counts._counts import ConfusionCounts

__all__ = ["ConfusionCounts", "by"]
