"""Which cases of an op the short run tries: those of the usual types that need few kernels of their own."""

from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from cases import CASES, Case

# Cases whose oracles take long, and cases for which kernels are compiled that no other case of the short run needs, as
# those of wide rows, of exact integers and of tables with many unknowns.
_ROWS = ("*bool*", "many-classes*", "*rows-of-one-matrix*")
_EXACT = ("too-many*", "huge-*", "wide-5*", "products-beyond*", "sums-beyond*")
_LAST = ("aps*-wide", "by-class-*-wide", "batch-wide")
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "agreement_coefficients": ("*-gaps", "degenerate-*"),
    "balance": ("path", "pendant", "star", "two-colours-*"),
    "ccm": (*_LAST, "64-classes"),
    "cell_errors": ("bi-many-classes", "bi-n", "bi-rows", "bi-gaps", "bi-two-axes", "bi-bad-first-and-last"),
    "cluster_cell_errors": ("bi-strata",),
    "confusion_fractions": _ROWS,
    "coverage_confusion": _LAST,
    "gcm": ("extreme-limbs",),
    "importance_weights": ("all-many", "bi-bad"),
    "ipf": ("denormal", "sinkhorn?*"),
    "ipf_cells": ("large", "soft-large"),
    "ipf_nd": ("large", "soft-large"),
    "ipf_of_logits": ("far-zeros", "tall-far", "zero-targets-far"),
    "kl_divergence": ("many",),
    "margins": _ROWS,
    "metric_intervals": ("many-samples",),
    "metrics_gradient": ("shares",),
    "metrics_of_matrices": (*_ROWS, *_EXACT, "tiles", "*-some-*", "*-weights-*"),
    "metrics_of_sums": _EXACT[1:],
    "most_confused": _ROWS,
    "normalize": ("all-many",),
    "one_vs_rest": _ROWS,
    "paired_errors": ("many-of-a-cell",),
    "paired_replicates": ("many-classes",),
    "prediction_sets": ("*wide", "*-classes", "*too-far*", "nan", "exactly-one"),
    "rake": ("both-batches",),
    "ras": ("sinkhorn*",),
    "round_to_margins": ("table",),
    "scaling_gradient": ("exponentials",),
    "scores": ("*wide*", "all-lac-*", "*too-far*", "*-drawn", "*-classes"),
    "set_coverage": _LAST,
    "standard_errors": ("rows-all", "rows-degenerate", "total-degenerate", "degenerate-*", "*-tiles", "rows-float32"),
    "support_nd": ("zeros",),
}
COMPRESSED = ("ipf_sparse",)  # its indices are int32, as SciPy's are
USUAL = (np.float64, np.int64, np.bool_)


def is_left_out(op: str, case: Case) -> bool:
    """Return whether the short run leaves out a case."""
    if any(fnmatchcase(case.id, pattern) for pattern in LEFT_OUT.get(op, ())):
        return True
    return op not in COMPRESSED and not all(map(_is_usual, (*case.args, *case.options.values())))


def list_cases(op: str) -> list[Case]:
    """Return the cases of an op that the short run tries."""
    return [case for case in CASES[op] if not is_left_out(op, case)]


def _is_usual(value: Any) -> bool:
    """Return whether a value is no array of numbers, or one of the commonest types."""
    return not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf" or value.dtype in USUAL
