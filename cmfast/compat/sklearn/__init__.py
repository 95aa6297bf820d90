"""Drop-in replacements for scikit-learn's classification metrics: same names, arguments, warnings and errors.

Import them instead of ``sklearn.metrics``, or call :func:`patch` and keep your code. Needs scikit-learn.
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
    """Replace scikit-learn's own metric functions by these, in all its modules and scorers.

    Names that other modules imported from scikit-learn earlier are not replaced: call this first. Call it again after
    importing further modules of scikit-learn.

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
    _patch.swap({_patch.get_original(function): function for function in FUNCTIONS})


def unpatch() -> None:
    """Restore scikit-learn's own functions where :func:`patch` replaced them."""
    _patch.swap({function: _patch.get_original(function) for function in FUNCTIONS})


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
