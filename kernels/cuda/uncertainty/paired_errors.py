"""Delta-method standard errors of the difference of metrics between two classifiers on the same samples."""

from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import THREADS, Kernel, library
from cmfast.kernels.cuda.metrics.slopes import sum_classes
from cmfast.kernels.cuda.uncertainty.errors import differentiate_sums
from cmfast.kernels.shared.metrics import Plan

_COUNTS = Kernel("uncertainty/paired_errors", "cmfast_paired_errors_counts")
_NUMBERS = Kernel("uncertainty/paired_errors", "cmfast_paired_errors_numbers", registers=96)
KERNELS = (_COUNTS, _NUMBERS)


def paired_errors(
    weights: Any, starts: Any, bounds: Any, cells: Any, counts: Any,
    *, plan: Plan, n_classes: int, clustered: bool, num_threads: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return standard errors of the differences of the metrics of `plan`: scalars (G,), per-class results (G, C).

    There are `weights` units of every kind; for all else see ``PairedUnits``.
    """
    del num_threads
    xp, C, G = library(weights), n_classes, len(starts) - 1
    given = {"weights": weights, "starts": starts, "bounds": bounds, "cells": cells, "counts": counts}
    units = {name: xp.ascontiguousarray(array, np.int64) for name, array in given.items()}
    M = xp.zeros((2 * G, C, C), np.uint64)
    n_units, n_numbers = len(weights), plan.scalars + plan.tables * C
    if n_units:
        _COUNTS.launch(
            (),
            batches.item_blocks(n_units),
            **units,
            n_units=n_units,
            n_cells=len(counts),
            C=C,
            n_groups=G,
            out=M,
        )
    numbers, classes = differentiate_sums(sum_classes(M.view(np.int64), plan), plan)
    scalars, tables = xp.empty((plan.scalars, G)), xp.empty((plan.tables, G, C))
    if G * n_numbers:
        _NUMBERS.launch(
            (), G * n_numbers, shared=batches.team_scratch(str(THREADS)), **units, n_cells=len(counts), C=C,
            n_groups=G, n_scalars=plan.scalars, n_numbers=n_numbers, ordered=plan.ordered, clustered=clustered,
            numbers=numbers, classes=classes, out_scalars=scalars, out_classes=tables,
        )  # fmt: skip
    return tuple(part[k] for part in (scalars, tables) for k in range(len(part)))
