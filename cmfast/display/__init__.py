"""Plots of matrices and results: ``from_*`` computes, ``plot(ax=)`` draws and returns the display, as in scikit-learn.

The first plot imports matplotlib.
"""

from typing import TYPE_CHECKING

from cmfast._core.usual_names import make_missing_name_error
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

if not TYPE_CHECKING:  # so that type checkers refuse names that are none

    def __getattr__(name):
        """Raise AttributeError that says what to call for a name of another library."""
        raise make_missing_name_error(__name__, name, __all__)

    def __dir__():
        """Return the public names."""
        return __all__
