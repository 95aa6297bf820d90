"""Metrics of confusion matrices: one function per metric, or many metrics in one pass over a batch.

All functions take matrices of shape (..., C, C) as counts or normalised; rows are true classes, columns are predicted
classes. One option, ``undefined=``, sets what a 0/0 gives in every metric; see :func:`compute`.

All take matrices of shape (..., C, C), rows the truth and columns the prediction, as counts or normalised. What a 0/0
gives is one option, ``undefined=``, with one meaning for all of them; see :func:`compute`.
"""

from cmfast.metrics import _functions
from cmfast.metrics._collapse import Collapsed, collapse
from cmfast.metrics._compute import compute, defined, from_sums
from cmfast.metrics._confusions import Confusions, confusion_fractions, most_confused, one_vs_rest
from cmfast.metrics._curves import LeastCost, PrecisionRecall, Roc, ThresholdMatrices
from cmfast.metrics._functions import *  # noqa: F403 - one name for each metric
from cmfast.metrics._labels import from_labels, label_margins
from cmfast.metrics._margins import Margins, margins
from cmfast.metrics._multilabel import multilabel, multilabel_tables
from cmfast.metrics._names import MetricName
from cmfast.metrics._parameters import fbeta, heidke, hss, kappa, tau_weighted
from cmfast.metrics._report import Report, report
from cmfast.metrics._thresholds import (
    average_precision,
    least_cost,
    precision_recall,
    roc,
    roc_auc,
    threshold_matrices,
)

__all__ = [
    "Collapsed",
    "Confusions",
    "LeastCost",
    "Margins",
    "MetricName",
    "PrecisionRecall",
    "Report",
    "Roc",
    "ThresholdMatrices",
    "average_precision",
    "collapse",
    "compute",
    "confusion_fractions",
    "defined",
    "fbeta",
    "from_labels",
    "from_sums",
    "heidke",
    "hss",
    "kappa",
    "label_margins",
    "least_cost",
    "margins",
    "most_confused",
    "multilabel",
    "multilabel_tables",
    "one_vs_rest",
    "precision_recall",
    "report",
    "roc",
    "roc_auc",
    "tau_weighted",
    "threshold_matrices",
]
__all__ += _functions.__all__
