"""Contingency space: metrics as surfaces over (tnr, tpr), training runs as paths, convex hulls, and plots of them."""

from typing import TYPE_CHECKING

from cmfast._core.usual_names import make_missing_name_error
from cmfast.contingency._convex_hull import convex_hull, iso_performance_slope
from cmfast.contingency._path import learning_path
from cmfast.contingency._surface import chance_level, imbalance_sensitivity, metric_surface

__all__ = [
    "chance_level",
    "convex_hull",
    "imbalance_sensitivity",
    "iso_performance_slope",
    "learning_path",
    "metric_surface",
]

if not TYPE_CHECKING:  # so that type checkers refuse names that are none

    def __getattr__(name):
        """Raise AttributeError that says what to call for a name of another library."""
        raise make_missing_name_error(__name__, name, __all__)

    def __dir__():
        """Return the public names."""
        return __all__
