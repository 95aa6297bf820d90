"""Metrics of confusion matrices: one function per metric, or many metrics in one pass over a batch.

All functions take matrices of shape (..., C, C) as counts or normalised; rows are true classes, columns are predicted
classes. One option, ``undefined=``, sets what a 0/0 gives in every metric; see :func:`compute`. A second name of a
metric, such as ``iou`` of ``jaccard``, is a name for :func:`compute`, and found here as well, but not listed.
"""

from typing import TYPE_CHECKING, get_args

from cmfast._core.usual_names import make_missing_name_error
from cmfast.metrics import _functions
from cmfast.metrics._catalogue import FOREIGN_NAMES
from cmfast.metrics._collapse import collapse
from cmfast.metrics._compute import compute, defined, from_sums
from cmfast.metrics._confusions import confusion_fractions, most_confused, one_vs_rest
from cmfast.metrics._functions import *  # noqa: F403 - one name for each metric
from cmfast.metrics._labels import from_labels, label_margins
from cmfast.metrics._margins import margins
from cmfast.metrics._multilabel import multilabel, multilabel_tables
from cmfast.metrics._names import MetricName
from cmfast.metrics._parameters import fbeta, kappa, tau_weighted
from cmfast.metrics._report import classification_report
from cmfast.metrics._thresholds import (
    average_precision,
    least_cost,
    precision_recall,
    roc,
    roc_auc,
    threshold_matrices,
)

__all__ = [
    "MetricName",
    "average_precision",
    "classification_report",
    "collapse",
    "compute",
    "confusion_fractions",
    "defined",
    "fbeta",
    "from_labels",
    "from_sums",
    "kappa",
    "label_margins",
    "least_cost",
    "margins",
    "most_confused",
    "multilabel",
    "multilabel_tables",
    "one_vs_rest",
    "precision_recall",
    "roc",
    "roc_auc",
    "tau_weighted",
    "threshold_matrices",
]
__all__ += _functions.__all__

if not TYPE_CHECKING:  # so that type checkers refuse names that are none

    def __getattr__(name):
        """Return the function of a metric by its second name."""
        for metric in _functions.METRICS:
            if name in metric.aliases:
                return globals()[metric.name]
        cure = f'metrics.compute(M, "{name}") computes it' if name in get_args(MetricName) else ""
        if name in FOREIGN_NAMES:
            cure = f"it is called metrics.{FOREIGN_NAMES[name]}"
        raise make_missing_name_error(__name__, name, __all__, cure)

    def __dir__():
        """Return the public names."""
        return __all__
