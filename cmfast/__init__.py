"""Confusion matrices, fast and exact: counting, bi-normalisation, geometric confusion matrices, comparison.

The array picks the backend, leading axes are the batch, rows are the truth and columns the prediction. See the README.
"""

from cmfast._failures import FailureError, FailureWarning
from cmfast._version import __version__
from cmfast.comparison import kl_divergence, l1_distance, overlap
from cmfast.counting import confusion_matrix
from cmfast.kernels.status import Status
from cmfast.normalizing import bi_normalize, importance_weights, normalize
from cmfast.scaling import ScalingResult, ipf, ras
from cmfast.zeros import Certificate, Support, support

__all__ = [
    "Certificate",
    "FailureError",
    "FailureWarning",
    "ScalingResult",
    "Status",
    "Support",
    "__version__",
    "bi_normalize",
    "confusion_matrix",
    "importance_weights",
    "ipf",
    "kl_divergence",
    "l1_distance",
    "normalize",
    "overlap",
    "ras",
    "support",
]
