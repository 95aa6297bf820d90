"""Conformal prediction: scores, thresholds, prediction sets, coverage, and correlation of classes in sets."""

from cmfast.conformal._coverage import CoverageCounts, coverage_confusion
from cmfast.conformal._histogram import ScoreHistogram, score_histogram
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
    "prediction_sets",
    "rank_clients",
    "score_histogram",
    "scores",
    "threshold",
]
