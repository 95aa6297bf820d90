"""Geometric confusion matrices: overlaps of the histograms of labels and of predictions in embedding space."""

from cmfast.geometry._cell_accumulator import CellAccumulator
from cmfast.geometry._cell_counts import cell_counts, sparse_histogram
from cmfast.geometry._cells import CellCounts, SparseHistogram
from cmfast.geometry._diagnostics import GcmDiagnostics
from cmfast.geometry._gcm import diagnose, gcm, min_overlap
from cmfast.geometry._geometric_confusion_matrix import GcmResult, geometric_confusion_matrix
from cmfast.geometry._grid import Grid
from cmfast.geometry._pca import Projection, pca
from cmfast.geometry._pca_accumulator import PcaAccumulator
from cmfast.geometry._width_curve import WidthCurve, width_curve

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
