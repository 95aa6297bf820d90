"""The contingency space: metrics as surfaces over (tnr, tpr), training runs as paths in it, and pictures of both."""

from cmfast.contingency._display import PathDisplay, SurfaceDisplay
from cmfast.contingency._path import LearningPath, learning_path
from cmfast.contingency._surface import Sensitivity, imbalance_sensitivity, metric_surface

__all__ = [
    "LearningPath",
    "PathDisplay",
    "Sensitivity",
    "SurfaceDisplay",
    "imbalance_sensitivity",
    "learning_path",
    "metric_surface",
]
