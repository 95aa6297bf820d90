"""Plots of matrices and results: ``from_*`` computes, ``plot(ax=)`` draws and returns the display, as in scikit-learn.

The first plot imports matplotlib.
"""

from cmfast.conformal._display import CcmDisplay
from cmfast.contingency._display import PathDisplay, SurfaceDisplay
from cmfast.display._confusion import ConfusionDisplay
from cmfast.display._difference import DifferenceDisplay
from cmfast.display._epochs import CellsDisplay, StripDisplay
from cmfast.display._geometry import GcmDisplay
from cmfast.uncertainty._display import ComparisonDisplay

__all__ = [
    "CcmDisplay",
    "CellsDisplay",
    "ComparisonDisplay",
    "ConfusionDisplay",
    "DifferenceDisplay",
    "GcmDisplay",
    "PathDisplay",
    "StripDisplay",
    "SurfaceDisplay",
]
