"""The gradient of scaling: what it is asked, and which kernel makes it."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import Kernel, library
from cmfast.kernels.cuda.scaling import gradient_single, team
from cmfast.kernels.cuda.scaling.arguments import by_type
from cmfast.kernels.shared.batches import flatten_one
from cmfast.kernels.shared.scaling import MOST_ELIMINATED_COLUMNS

# Eigenvalue of a graph below which sums that cancel would cost digits that elimination keeps.
LEAST_CREW_EIGENVALUE = 1e-3
DEFINES = team.DEFINES | {"LEAST_CREW_EIGENVALUE": LEAST_CREW_EIGENVALUE}
_INSTANCES = (("32", "false"), ("256", "false"), ("256", "true"))  # width, and whether conjugate gradients come first
_TEAM = Kernel("scaling/gradient", "cmfast_scaling_gradient_team", _INSTANCES, (168, 192, 255))
KERNELS = (_TEAM,)


def scaling_gradient(
    M: Any, G: Any, of_row: Any, of_col: Any, row_scale: Any, col_scale: Any, matrix: Any, status: Any, smoothing: Any,
    *, targets: bool = True, tol: float = 0.0, num_threads: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients in the cells of `M`, and in both targets if wanted; float32 cells where `M` and `G` are.

    `G`, `of_row` and `of_col` are those in the scaled matrix and in its factors; None stands for zeros. `matrix` is
    looked at where only the limit exists, and may be None. All is made as exact as it goes, whatever `tol` allows.
    """
    del num_threads, tol
    xp, (R, C), batch = library(M), M.shape[-2:], row_scale.shape[:-1]
    n, dtype = math.prod(batch), batches.result_dtype(M, *(() if G is None else (G,)))
    out = xp.empty((n, R, C), dtype)
    of_targets = [xp.zeros((n, lines)) for lines in (R, C)] if targets else []
    cells, m_step = flatten_one(batches.as_floating(M), batch, 2, xp, batches.flat_batch)
    if out.size:
        given, limits = (None if a is None else batches.flat_batch(batches.as_floating(a), 2) for a in (G, matrix))
        lines = {"of_row": of_row, "of_col": of_col, "row_scale": row_scale, "col_scale": col_scale}
        arguments = {
            **by_type("", cells), "m_step": m_step, **by_type("of_", given), **by_type("limit_", limits),
            **{name: None if a is None else batches.flat_batch(a, 1, np.float64) for name, a in lines.items()},
            "status": batches.flat_batch(status, 0), "smoothing": batches.flat_batch(smoothing, 0, np.float64),
            **by_type("out_", out), **dict(zip(("out_row", "out_col"), of_targets or (None, None), strict=True)),
        }  # fmt: skip
        if max(R, C) <= gradient_single.MOST_SINGLE_LINES:
            gradient_single.launch(R, C, n, arguments)
        else:
            _launch(R, C, n, arguments, cells)
    return tuple(a.reshape(*batch, *a.shape[1:]) for a in (out, *of_targets))


def _launch(R: int, C: int, n: int, arguments: dict[str, Any], cells: Any) -> None:
    rows, cols = max(R, C), min(R, C)
    is_large = cols > MOST_ELIMINATED_COLUMNS
    crew, size = team.crew_of(cells, R, C, n) if is_large else 1, rows * (cols | 1)
    sizes = {"graph_at": cols * (cols | 1), "scaled_at": size, "cells_at": size}
    lie = team.layout(cells.device, rows, cols, n, sizes, is_crew=crew > 1, is_large=is_large)
    xp, slots = library(cells), lie.blocks * lie.teams
    _TEAM.launch(
        (str(lie.width), "true" if is_large else "false"), lie.blocks * crew, shared=lie.bytes,
        threads=lie.teams * lie.width, R=R, C=C, n=n, **arguments,
        **team.crew_arguments(cells, rows, cols, crew, lie.blocks), **lie.places, lines_size=lie.lines,
        lines=None if lie.places["lines_at"] >= 0 else xp.empty(slots * crew * lie.lines),
        shared_size=lie.near, scratch_size=lie.scratch, scratch=xp.empty(slots * lie.scratch),
    )  # fmt: skip
