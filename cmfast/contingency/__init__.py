"""Contingency space: metrics as surfaces over (tnr, tpr), training runs as paths, convex hulls, and plots of them."""

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
