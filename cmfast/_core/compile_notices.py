"""Log a notice when compiling takes long, so that a first call is not mistaken for a hang.

Notices go through `logging`, where programs decide what is shown: a warning would become a failure under `-W error`,
and a write to stderr could not be turned off. Without logging set up a notice is a line on stderr;
``logging.getLogger("cmfast").setLevel("ERROR")`` or CMFAST_QUIET=1 turns notices off.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType

from cmfast._core import caller
from cmfast._core.progress import StderrHandler
from cmfast.kernels.ops import OPS

NOTICE_DELAY = 1.0  # seconds of compiling for one function before its notice
LEAST_ANNOUNCED_SECONDS = 2.0  # shortest time announced: if the table has less, the machine is slow or busy
_logger = logging.getLogger("cmfast")
_logger.addHandler(StderrHandler())

# Approximate compile time of an op's common case, for one array type on one core, if above USUAL_SECONDS. Kept out of
# the table of ops, because a change of that table recompiles all kernels.
SECONDS = {
    "confusion_matrix": 1.0,
    "normalize": 1.0,
    "importance_weights": 1.0,
    "ipf": 4.0,
    "ras": 4.0,
    "ipf_of_logits": 5.0,
    "ipf_sparse": 2.0,
    "ipf_nd": 8.0,
    "ipf_cells": 8.0,
    "rake": 4.0,
    "balance": 2.0,
    "round_to_margins": 1.5,
    "comparison_gradient": 1.0,
    "metrics_gradient": 5.0,
    "normalizing_gradient": 1.0,
    "scaling_gradient": 4.0,
    "support": 4.5,
    "support_nd": 6.0,
    "cell_counts": 1.0,
    "sparse_histogram": 1.0,
    "merge_cells": 1.0,
    "cell_excess": 1.0,
    "gcm": 1.0,
    "margins": 2.5,
    "metrics_of_matrices": 4.0,
    "weighted_kappa": 2.0,
    "metrics_of_sums": 4.0,
    "one_vs_rest": 2.5,
    "confusion_fractions": 2.5,
    "most_confused": 2.5,
    "agreement_coefficients": 7.0,
    "match_boxes": 4.0,
    "auc_covariance": 2.0,
    "resample": 2.5,
    "standard_errors": 7.0,
    "scores": 3.0,
    "threshold": 1.5,
    "prediction_sets": 5.0,
    "ccm": 2.0,
    "coverage_confusion": 1.0,
    "paired_errors": 5.0,
    "paired_replicates": 2.5,
    "cell_errors": 1.5,
    "cluster_cell_errors": 1.5,
    "cluster_errors": 7.0,
    "cluster_intervals": 6.0,
    "cluster_replicates": 1.5,
    "metric_intervals": 6.0,
    "metric_draws": 4.0,
    "replicate_intervals": 1.5,
}
USUAL_SECONDS = 0.3  # compile time of every other op
# Kernel -> compile time, for kernels whose time differs from their op's.
KERNELS = {
    "scale_square": 5.0,
    "scale_square for a size": 2.5,
    "scale_rectangular": 5.0,
    "scale_by_sinkhorn": 4.0,
    "equilibrate_lane": 2.0,
    "scale_lanes": 2.5,
    "_prune_any_targets": 4.0,
}

_GRID = ("column_ranges", "column_moments")
_GEOMETRIC = (
    "confusion_matrix", "ras", "importance_weights", "pca", "project", *_GRID, "cell_counts", "pair_counts", "gcm",
    "cell_shapes", "cell_excess",
)  # fmt: skip
_COMPARED = ("metrics_of_matrices", "paired_replicates", "metrics_of_sums", "replicate_intervals")
# Public function -> the ops that it calls, unless it calls just the op of its own name.
NEEDS: dict[str, tuple[str, ...]] = {
    "bi_normalize": ("ipf",),
    "estimate_for_target": ("normalize", "importance_weights"),
    "geometric_confusion_matrix": _GEOMETRIC,
    "width_curve": _GEOMETRIC,
    "gcm": ("pair_counts", "ras", "importance_weights", "gcm"),
    "diagnose": ("pair_counts", "ras", "importance_weights", "gcm", "cell_shapes", "cell_excess"),
    "min_overlap": ("min_overlap",),
    "Projection.transform": ("project",),
    "Grid.scott": _GRID,
    "Grid.freedman_diaconis": (*_GRID, "column_quartiles"),
    "Grid.regular": ("column_ranges",),
    "Grid.occupancy": (*_GRID, "sparse_histogram"),
    "CellAccumulator": ("cell_counts", "merge_cells"),
    "PcaAccumulator": ("pca", "project"),
    "CellCounts": ("decode_cells", "merge_cells", "pair_counts", "marginal_histogram"),
    "SparseHistogram": ("decode_cells",),
    "by": ("confusion_matrix",),
    "ConfusionCounts.compute": ("metrics_of_matrices",),
    "ConfusionCounts.table": ("metrics_of_matrices",),
    "ConfusionCounts.normalize": ("normalize",),
    "ConfusionCounts": ("confusion_matrix",),
    "Support": ("support",),
    "uncertainty.paired_counts": ("confusion_matrix",),
    "conformal.scores": ("row_draws", "scores"),
    "conformal.prediction_sets": ("row_draws", "prediction_sets"),
    "conformal.CcmCounts.correlation": ("ccm_ratios",),
    "display.CcmDisplay.from_sets": ("ccm", "ccm_ratios", "coverage_confusion", "confusion_matrix"),
    "PredictionSets.coverage": ("set_coverage",),
    "PredictionSets.coverage_by_size": ("set_coverage",),
    "display.ConfusionDisplay.from_predictions": ("confusion_matrix", "normalize"),
    "display.ConfusionDisplay.compare": ("normalize",),
    "display.StripDisplay.from_matrices": ("normalize",),
    "display.CellsDisplay.from_matrices": ("normalize",),
    "display.PathDisplay.from_matrices": ("metrics_of_matrices",),
    "agreement.compute": ("agreement_coefficients",),
    "agreement.from_counts": ("agreement_coefficients",),
    "detection.match": ("match_boxes",),
    "detection.confusion_matrix": ("match_boxes", "confusion_matrix"),
    "detection.count": ("match_boxes", "confusion_matrix"),
    "uncertainty.compare_many": _COMPARED,
    "uncertainty.compare_groups": (
        "metrics_of_matrices",
        "standard_errors",
        "metric_draws",
        "replicate_intervals",
        "margins",
        "carrying_samples",
    ),
    "uncertainty.equivalence": ("metrics_of_matrices", "metrics_gradient", "paired_errors"),
    "metrics.collapse": ("confusion_matrix",),
    "uncertainty.compare": (*_COMPARED, "auc_covariance"),
    "metrics.classification_report": ("metrics_of_matrices", "margins"),
    "metrics.from_sums": ("metrics_of_sums",),
    "metrics.from_labels": ("label_margins", "metrics_of_sums"),
    "metrics.multilabel": ("confusion_matrix", "metrics_of_matrices"),
    "metrics.multilabel_tables": ("confusion_matrix",),
    "metrics.roc": ("threshold_matrices", "metrics_of_matrices"),
    "metrics.precision_recall": ("threshold_matrices", "metrics_of_matrices"),
    "metrics.roc_auc": ("score_areas",),
    "metrics.average_precision": ("score_areas",),
    "metrics.kappa": ("weighted_kappa",),
    "metrics.heidke": ("weighted_kappa",),
    "metrics.hss": ("weighted_kappa",),
    "contingency.convex_hull": (),
    "contingency.iso_performance_slope": (),
    "report": ("confusion_matrix", "ras", "metric_intervals", "standard_errors"),
    "uncertainty.standard_error": ("standard_errors", "cluster_errors", "cell_errors", "cluster_cell_errors"),
    "uncertainty.interval": (
        "metric_intervals",
        "metrics_of_matrices",
        "replicate_intervals",
        "cluster_intervals",
        "carrying_samples",
        "auc_covariance",
    ),
    "uncertainty.posterior": ("metric_draws", "metrics_of_matrices"),
}


def list_ops(name: str) -> tuple[str, ...]:
    """Return the ops that public function or method `name` calls; empty if it calls none."""
    first, _, last = name.partition(".")
    for known in (name, first):
        if known in NEEDS:
            return NEEDS[known]
    if first in {"metrics", "contingency"} and last not in OPS:
        return ("metrics_of_matrices",)
    return tuple(op for op in (last or first,) if op in OPS)


def estimate_seconds(name: str, op: str, kernel: str) -> float:
    """Return the remaining compile time, in seconds, of a call of `name` that now compiles `kernel` of `op`."""
    needed = list_ops(name)
    others = sum(SECONDS.get(each, USUAL_SECONDS) for each in (needed if op in needed else ()) if each != op)
    return others + KERNELS.get(kernel, SECONDS.get(op, USUAL_SECONDS))


def _find_called_op(frame: FrameType | None) -> tuple[str, str] | None:
    """Return the public function called at `frame` and the op running for it; None outside an op."""
    while frame is not None:
        op = frame.f_code.co_name
        if op in OPS and frame.f_globals.get("__name__") == f"cmfast.kernels.cpu.{OPS[op].module}":
            return caller.name(frame) or op, op
        frame = frame.f_back
    return None


class Notices:
    """Compilation notices: one per public function, once its compilations took NOTICE_DELAY seconds in total."""

    def __init__(self) -> None:
        self.compiled = 0
        self._spent: dict[str, float] = {}
        self._said: set[str] = set()
        self._timer: threading.Timer | None = None
        self._name: str | None = None
        self._begun = 0.0

    def begin(self, kernel: str | None) -> None:
        """Start the timer of a notice in the compiling thread; Numba lets only one thread compile at a time.

        `kernel` None gives no notice: the kernel is being compiled for one more size.
        """
        from cmfast.kernels.cpu._core import pool

        self.compiled += 1
        self._begun = time.monotonic()
        called = _find_called_op(pool.find_calling_frame())
        self._name = None if called is None else called[0]
        if called is None or called[0] in self._said or os.environ.get("CMFAST_QUIET") == "1":
            return
        if kernel is None:
            return
        left = NOTICE_DELAY - self._spent.get(called[0], 0.0)
        self._timer = threading.Timer(max(0.0, left), self._say, (*called, kernel))
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:  # the interpreter is shutting down and starts no threads
            self._timer = None

    def end(self) -> None:
        """Cancel the timer and add the elapsed seconds to the function's total."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._name is not None:
            self._spent[self._name] = self._spent.get(self._name, 0.0) + time.monotonic() - self._begun

    def _say(self, name: str, op: str, kernel: str) -> None:
        """Log the notice of a compilation, with its estimated time."""
        from cmfast.kernels.cpu._core import jit

        self._said.add(name)
        kept = jit.summarize_cache().writable
        often = "once per machine" if kept else f"in every process, as {jit.find_cache_folder()} cannot be written"
        _logger.warning(
            "compiling %s, %s, about %.0f s",
            name,
            often,
            max(estimate_seconds(name, op, kernel), LEAST_ANNOUNCED_SECONDS),
        )


NOTICES = Notices()


@contextmanager
def silence() -> Iterator[None]:
    """Suppress compilation notices in this block, for example in the command that only compiles."""
    before = _logger.level
    _logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        _logger.setLevel(before)


@cache
def watch() -> None:
    """Register the notices with the compiler, once per process."""
    from cmfast.kernels.cpu._core import jit

    jit.watch(NOTICES.begin, NOTICES.end)
