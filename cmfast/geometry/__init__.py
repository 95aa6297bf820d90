"""Geometric confusion matrices: how the histograms of labels and predictions overlap in the space of the embeddings."""

from cmfast.geometry._accumulator import CellAccumulator
from cmfast.geometry._cells import CellCounts, SparseHistogram
from cmfast.geometry._counts import cell_counts, sparse_histogram
from cmfast.geometry._curve import WidthCurve, width_curve
from cmfast.geometry._diagnostics import GcmDiagnostics
from cmfast.geometry._grid import Grid
from cmfast.geometry._matrices import diagnose, gcm, min_overlap
from cmfast.geometry._projection import Projection, pca
from cmfast.geometry._result import GcmResult, geometric_confusion_matrix
from cmfast.geometry._streaming import PcaAccumulator

__all__ = [
    "CellAccumulator",
    "CellCounts",
    "GcmDiagnostics",
    "GcmResult",
    "Grid",
    "PcaAccumulator",
    "Projection",
    "SparseHistogram",
    "WidthCurve",
    "cell_counts",
    "diagnose",
    "gcm",
    "geometric_confusion_matrix",
    "min_overlap",
    "pca",
    "sparse_histogram",
    "width_curve",
]
