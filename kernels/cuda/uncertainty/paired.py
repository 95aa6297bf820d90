"""Paired bootstrap and permutation replicates of two classifiers on the same samples."""

from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import Kernel, library
from cmfast.kernels.cuda.metrics import values
from cmfast.kernels.cuda.uncertainty import intervals, resample
from cmfast.kernels.cuda.uncertainty.intervals import NAMES_OF_SUMS
from cmfast.kernels.shared.metrics import Plan
from cmfast.kernels.shared.uncertainty import PairedUnits

_SUMS = Kernel("uncertainty/paired", "cmfast_paired_replicates_sums", registers=128)
KERNELS = (_SUMS,)
DEFINES = resample.DEFINES


def paired_replicates(
    shares: Any, groups: Any, starts: Any, totals: Any, bounds: Any, cells: Any, counts: Any,
    *, plan: Plan, n_classes: int, n_resamples: int, seed: int, before: int = 0,
    num_threads: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Run `plan` on both matrices of every replicate of every group: scalars (G, B, 2), per-class results, status.

    There are `before` other groups before them.
    """
    del num_threads
    xp, C, G = library(shares), n_classes, len(groups) - 1
    units = PairedUnits(*map(xp.ascontiguousarray, (shares, groups, starts, totals, bounds, cells, counts)))
    together = max(1, intervals.MOST_REPLICATE_BYTES // (8 * 5 * 2 * max(C * G, 1)))
    shape = (G, n_resamples, 2)
    out = [xp.empty(shape) for _ in range(plan.scalars)] + [xp.empty((*shape, C)) for _ in range(plan.tables)]
    out.append(xp.empty(shape, np.int8))
    for first in range(0, n_resamples, together):
        count = min(together, n_resamples - first)
        sums: list[Any] = [xp.zeros((G, count, 2, C), np.int64) for _ in range(5 if plan.ordered else 3)]
        sums += [None] * (5 - len(sums))
        if G * C:
            _SUMS.launch(
                (), batches.item_blocks(G * count), **units._asdict(),
                n_cells=len(counts), C=C, n_groups=G, before=before, first=first, count=count, seed=seed,
                **dict(zip(NAMES_OF_SUMS, sums, strict=True)),
            )  # fmt: skip
        part = values.metrics_of_sums(*sums, plan=plan)
        for whole, some in zip(out, part, strict=True):
            whole[:, first : first + count] = some
    return tuple(out)
