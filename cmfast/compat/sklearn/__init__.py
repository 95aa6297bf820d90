"""scikit-learn's classification metrics, counted and computed by cmfast: same names, arguments, warnings and errors.

Use them in place of ``sklearn.metrics``, or call :func:`patch` and go on as before. Needs scikit-learn.
"""

from cmfast.compat.sklearn import _originals, _patch
from cmfast.compat.sklearn._agreement import (
    balanced_accuracy_score,
    class_likelihood_ratios,
    cohen_kappa_score,
    matthews_corrcoef,
)
from cmfast.compat.sklearn._areas import average_precision_score, roc_auc_score
from cmfast.compat.sklearn._averages import (
    f1_score,
    fbeta_score,
    jaccard_score,
    precision_recall_fscore_support,
    precision_score,
    recall_score,
)
from cmfast.compat.sklearn._curves import (
    confusion_matrix_at_thresholds,
    det_curve,
    precision_recall_curve,
    roc_curve,
)
from cmfast.compat.sklearn._matrices import (
    accuracy_score,
    confusion_matrix,
    hamming_loss,
    multilabel_confusion_matrix,
    zero_one_loss,
)
from cmfast.compat.sklearn._report import classification_report
from cmfast.compat.sklearn._scorers import make_scorer

__all__ = [
    "accuracy_score",
    "average_precision_score",
    "balanced_accuracy_score",
    "class_likelihood_ratios",
    "classification_report",
    "cohen_kappa_score",
    "confusion_matrix",
    "confusion_matrix_at_thresholds",
    "det_curve",
    "f1_score",
    "fbeta_score",
    "hamming_loss",
    "jaccard_score",
    "make_scorer",
    "matthews_corrcoef",
    "multilabel_confusion_matrix",
    "patch",
    "precision_recall_curve",
    "precision_recall_fscore_support",
    "precision_score",
    "recall_score",
    "roc_auc_score",
    "roc_curve",
    "unpatch",
    "zero_one_loss",
]

FUNCTIONS = tuple(globals()[name] for name in _originals.ORIGINALS)


def patch() -> None:
    """Put these functions in place of scikit-learn's own, in all of its modules and scorers.

    Names that other modules have imported from scikit-learn before stay what they are: call this first. A second call
    does what the first did, also for modules of scikit-learn imported since.

    Examples
    --------
    >>> from cmfast.compat import sklearn as fast
    >>> import sklearn.metrics
    >>> fast.patch()
    >>> sklearn.metrics.f1_score is fast.f1_score
    True
    >>> fast.unpatch()
    >>> sklearn.metrics.f1_score is fast.f1_score
    False
    """
    _patch.swap({_patch.original(function): function for function in FUNCTIONS})


def unpatch() -> None:
    """Put scikit-learn's own functions back where :func:`patch` took them from."""
    _patch.swap({function: _patch.original(function) for function in FUNCTIONS})
