"""Confusion matrices, fast and exact: counting, bi-normalisation, geometric confusion matrices, comparison.

The array picks the backend, leading axes are the batch, rows are the truth and columns the prediction. See the README.
"""

from cmfast._failures import FailureError, FailureWarning
from cmfast._version import __version__
from cmfast.comparison import kl_divergence, l1_distance, overlap
from cmfast.counting import confusion_matrix
from cmfast.kernels.status import Status

__all__ = [
    "FailureError",
    "FailureWarning",
    "Status",
    "__version__",
    "confusion_matrix",
    "kl_divergence",
    "l1_distance",
    "overlap",
]
