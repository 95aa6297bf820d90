"""Fast and exact confusion matrices: counting, bi-normalisation, metrics, uncertainty, geometric confusion matrices.

The array's library selects the backend; leading axes are the batch; rows are true classes, columns predictions.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from cmfast import _kernels_folder, metrics  # noqa: F401  # the former makes the kernels importable
from cmfast._core.configuring import config
from cmfast._core.failures import DiagnosticWarning, FailureError, FailureWarning
from cmfast._core.usual_names import make_missing_name_error
from cmfast._version import __version__
from cmfast.balancing import balance
from cmfast.comparison import kl_divergence, l1_distance, overlap
from cmfast.confusion_counts import ConfusionCounts, by
from cmfast.counting import confusion_matrix
from cmfast.kernels.loading import load
from cmfast.kernels.status import Status
from cmfast.normalizing import bi_normalize, estimate_for_target, importance_weights, normalize
from cmfast.scaling import ipf, ras
from cmfast.zeros import support

if TYPE_CHECKING:
    from cmfast import agreement, conformal, contingency, detection, display, results, uncertainty
    from cmfast._report import report
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
    from cmfast.margins import ipf_cells, ipf_nd, rake, round_to_margins, support_nd
else:
    _MODULES = ("agreement", "conformal", "contingency", "detection", "display", "results", "uncertainty")
    _OPTIONAL = {"nn": "torch", "compat": "the library that it replaces"}  # not imported by ``import *``
    _HOMES = {
        "geometry": (
            "CellAccumulator",
            "CellCounts",
            "Grid",
            "PcaAccumulator",
            "Projection",
            "cell_counts",
            "diagnose",
            "gcm",
            "geometric_confusion_matrix",
            "min_overlap",
            "pca",
            "sparse_histogram",
            "width_curve",
        ),
        "margins": ("ipf_cells", "ipf_nd", "rake", "round_to_margins", "support_nd"),
        "_report": ("report",),
    }

    def __getattr__(name):
        """Import modules that many programs never use, and their functions, on first access."""
        if name in _MODULES or name in _OPTIONAL:
            try:
                return import_module(f"cmfast.{name}")
            except ImportError as error:  # so that `hasattr` is False
                msg = f"module {__name__!r} has no attribute {name!r}, as it needs {_OPTIONAL.get(name)}: {error}"
                raise AttributeError(msg) from error
        if name in _HOMES:
            return load(f"cmfast.{name}")
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home:
            found = globals()[name] = getattr(load(f"cmfast.{home}"), name)
            return found
        homes = ("metrics", *_MODULES) if not name.startswith("_") else ()
        home = next((home for home in homes if name in import_module(f"cmfast.{home}").__all__), None)
        raise make_missing_name_error(__name__, name, __all__, f"it is cmfast.{home}.{name}" if home else "")

    def __dir__():
        """Return the public names, imported or not."""
        return [*__all__, *_OPTIONAL]


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
    "agreement",
    "balance",
    "bi_normalize",
    "by",
    "cell_counts",
    "config",
    "conformal",
    "confusion_matrix",
    "contingency",
    "detection",
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
