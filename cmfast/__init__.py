"""Fast and exact confusion matrices: counting, bi-normalisation, metrics, uncertainty, geometric confusion matrices.

The array's library selects the backend; leading axes are the batch; rows are true classes, columns predictions.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from cmfast import metrics
from cmfast._core.configuring import config
from cmfast._core.failures import DiagnosticWarning, FailureError, FailureWarning
from cmfast._version import __version__
from cmfast.balancing import balance
from cmfast.comparison import kl_divergence, l1_distance, overlap
from cmfast.confusion_counts import ConfusionCounts, by
from cmfast.counting import confusion_matrix
from cmfast.geometry import (
    CellAccumulator,
    CellCounts,
    Grid,
    PcaAccumulator,
    Projection,
    cell_counts,
    diagnose,
    gcm,
    geometric_confusion_matrix,
    min_overlap,
    pca,
    sparse_histogram,
    width_curve,
)
from cmfast.kernels.status import Status
from cmfast.margins import (
    ipf_cells,
    ipf_nd,
    rake,
    round_to_margins,
    support_nd,
)
from cmfast.normalizing import bi_normalize, estimate_for_target, importance_weights, normalize
from cmfast.scaling import ipf, ras
from cmfast.zeros import support

if TYPE_CHECKING:
    from cmfast import conformal, contingency, display, results, uncertainty
    from cmfast._report import report
else:

    def __getattr__(name):
        """Import modules that many programs never use, and `report`, on first access."""
        if name in {"conformal", "contingency", "display", "results", "uncertainty"}:
            return import_module(f"cmfast.{name}")
        if name != "report":
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_module("cmfast._report"), name)

    def __dir__():
        """Return the public names, imported or not."""
        return __all__


__all__ = [
    "CellAccumulator",
    "CellCounts",
    "ConfusionCounts",
    "DiagnosticWarning",
    "FailureError",
    "FailureWarning",
    "Grid",
    "PcaAccumulator",
    "Projection",
    "Status",
    "__version__",
    "balance",
    "bi_normalize",
    "by",
    "cell_counts",
    "config",
    "conformal",
    "confusion_matrix",
    "contingency",
    "diagnose",
    "display",
    "estimate_for_target",
    "gcm",
    "geometric_confusion_matrix",
    "importance_weights",
    "ipf",
    "ipf_cells",
    "ipf_nd",
    "kl_divergence",
    "l1_distance",
    "metrics",
    "min_overlap",
    "normalize",
    "overlap",
    "pca",
    "rake",
    "ras",
    "report",
    "results",
    "round_to_margins",
    "sparse_histogram",
    "support",
    "support_nd",
    "uncertainty",
    "width_curve",
]
