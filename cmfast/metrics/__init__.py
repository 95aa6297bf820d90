"""Metrics of confusion matrices: one function per metric, or many metrics in one pass over a batch.

All functions take matrices of shape (..., C, C) as counts or normalised; rows are true classes, columns are predicted
classes. One option, ``undefined=``, sets what a 0/0 gives in every metric; see :func:`compute`. A second name of a
metric, such as ``iou`` of ``jaccard``, is a name for :func:`compute`, and found here as well, but not listed.
"""

from typing import TYPE_CHECKING

from cmfast.metrics._catalogue import BINARY, METRICS, PER_CLASS, SCALARS
from cmfast.metrics._collapse import collapse
from cmfast.metrics._compute import compute, defined, from_sums
from cmfast.metrics._confusions import confusion_fractions, most_confused, one_vs_rest
from cmfast.metrics._functions import (
    accuracy,
    balanced_accuracy,
    balanced_accuracy_adjusted,
    diagnostic_odds_ratio,
    doolittle,
    f1,
    f1_of_macro,
    false_omission_rate,
    fdr,
    fnr,
    fowlkes_mallows,
    fpr,
    geometric_mean,
    gerrity,
    gilbert,
    gwet_ac1,
    jaccard,
    kappa_01,
    kappa_linear,
    kappa_quadratic,
    krippendorff_alpha,
    markedness,
    mcc,
    mcc_01,
    min_recall,
    negative_likelihood_ratio,
    npv,
    peirce,
    positive_likelihood_ratio,
    precision,
    recall,
    scott_pi,
    specificity,
    tau,
    tss,
    zero_one_loss,
)
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
    "BINARY",
    "METRICS",
    "PER_CLASS",
    "SCALARS",
    "MetricName",
    "accuracy",
    "average_precision",
    "balanced_accuracy",
    "balanced_accuracy_adjusted",
    "classification_report",
    "collapse",
    "compute",
    "confusion_fractions",
    "defined",
    "diagnostic_odds_ratio",
    "doolittle",
    "f1",
    "f1_of_macro",
    "false_omission_rate",
    "fbeta",
    "fdr",
    "fnr",
    "fowlkes_mallows",
    "fpr",
    "from_labels",
    "from_sums",
    "geometric_mean",
    "gerrity",
    "gilbert",
    "gwet_ac1",
    "jaccard",
    "kappa",
    "kappa_01",
    "kappa_linear",
    "kappa_quadratic",
    "krippendorff_alpha",
    "label_margins",
    "least_cost",
    "margins",
    "markedness",
    "mcc",
    "mcc_01",
    "min_recall",
    "most_confused",
    "multilabel",
    "multilabel_tables",
    "negative_likelihood_ratio",
    "npv",
    "one_vs_rest",
    "peirce",
    "positive_likelihood_ratio",
    "precision",
    "precision_recall",
    "recall",
    "roc",
    "roc_auc",
    "scott_pi",
    "specificity",
    "tau",
    "tau_weighted",
    "threshold_matrices",
    "tss",
    "zero_one_loss",
]

if not TYPE_CHECKING:  # so that type checkers refuse names that are none

    def __getattr__(name):
        """Return the function of a metric by its second name."""
        for metric in METRICS:
            if name in metric.aliases:
                return globals()[metric.name]
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
