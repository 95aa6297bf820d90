"""Contingency space: metrics as surfaces over (tnr, tpr), training runs as paths, convex hulls, and plots of them."""

from cmfast.contingency._convex_hull import Hull, convex_hull, iso_performance_slope
from cmfast.contingency._display import PathDisplay, SurfaceDisplay
from cmfast.contingency._path import LearningPath, learning_path
from cmfast.contingency._surface import Sensitivity, chance_level, imbalance_sensitivity, metric_surface

__all__ = [
    "Hull",
    "LearningPath",
    "PathDisplay",
    "Sensitivity",
    "SurfaceDisplay",
    "chance_level",
    "convex_hull",
    "imbalance_sensitivity",
    "iso_performance_slope",
    "learning_path",
    "metric_surface",
]
