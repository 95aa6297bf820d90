"""Confusion counts with labelled classes and groups: update, merge, save, load, export."""

from cmfast.confusion_counts._counts import ConfusionCounts
from cmfast.confusion_counts._group_by import by

__all__ = ["ConfusionCounts", "by"]
