"""Conformal prediction: scores, thresholds, prediction sets, coverage, and correlation of classes in sets."""

from typing import TYPE_CHECKING

from cmfast._core.usual_names import make_missing_name_error
from cmfast.conformal._coverage import CoverageCounts, coverage_confusion
from cmfast.conformal._histogram import ScoreHistogram, score_histogram
from cmfast.conformal._p_values import p_values
from cmfast.conformal._prediction_sets import prediction_sets
from cmfast.conformal._scores import scores
from cmfast.conformal._set_correlation import CcmCounts, ccm, rank_clients
from cmfast.conformal._threshold import threshold

__all__ = [
    "CcmCounts",
    "CoverageCounts",
    "ScoreHistogram",
    "ccm",
    "coverage_confusion",
    "p_values",
    "prediction_sets",
    "rank_clients",
    "score_histogram",
    "scores",
    "threshold",
]

if not TYPE_CHECKING:  # so that type checkers refuse names that are none

    def __getattr__(name):
        """Raise AttributeError that says what to call for a name of another library."""
        raise make_missing_name_error(__name__, name, __all__)

    def __dir__():
        """Return the public names."""
        return __all__
