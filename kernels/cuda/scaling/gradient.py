"""The op ``scaling_gradient`` on a device: arguments, choice of the kernel, launch."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import Kernel, library
from cmfast.kernels.cuda.scaling import gradient_single, team
from cmfast.kernels.cuda.scaling.arguments import split_by_type
from cmfast.kernels.shared.batches import flatten_one
from cmfast.kernels.shared.scaling import MOST_ELIMINATED_COLUMNS

# Below this eigenvalue of the Laplacian conjugate gradients lose digits that elimination keeps.
LEAST_GROUP_EIGENVALUE = 1e-3
DEFINES = team.DEFINES | {"LEAST_GROUP_EIGENVALUE": LEAST_GROUP_EIGENVALUE}
_INSTANCES = (("32", "false"), ("256", "false"), ("256", "true"))  # width, and whether conjugate gradients come first
_TEAM = Kernel("scaling/gradient", "cmfast_scaling_gradient_team", _INSTANCES, (168, 192, 255))
KERNELS = (_TEAM,)


def scaling_gradient(
    M: Any, G: Any, of_row: Any, of_col: Any, row_scale: Any, col_scale: Any, matrix: Any, status: Any, smoothing: Any,
    *, targets: bool = True, tol: float = 0.0, num_threads: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Compute the gradients in the cells of `M` and, if `targets`, in both targets; float32 if `M` and `G` are.

    `G`, `of_row` and `of_col` are the gradients in the scaled matrix and in its factors; None means zeros. `matrix` is
    needed only where just the limit exists, and may be None. `tol` is ignored: results are as accurate as rounding
    allows.
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
            **split_by_type("", cells), "m_step": m_step,
            **split_by_type("of_", given), **split_by_type("limit_", limits),
            **{name: None if a is None else batches.flat_batch(a, 1, np.float64) for name, a in lines.items()},
            "status": batches.flat_batch(status, 0), "smoothing": batches.flat_batch(smoothing, 0, np.float64),
            **split_by_type("out_", out), **dict(zip(("out_row", "out_col"), of_targets or (None, None), strict=True)),
        }  # fmt: skip
        if max(R, C) <= gradient_single.MOST_SINGLE_LINES:
            gradient_single.launch(R, C, n, arguments)
        else:
            _launch(R, C, n, arguments, cells)
    return tuple(a.reshape(*batch, *a.shape[1:]) for a in (out, *of_targets))


def _launch(R: int, C: int, n: int, arguments: dict[str, Any], cells: Any) -> None:
    """Launch the kernel of teams: a warp, a thread block, or a group of blocks for each matrix."""
    rows, cols = max(R, C), min(R, C)
    is_large = cols > MOST_ELIMINATED_COLUMNS
    group, size = team.count_group_blocks(cells, R, C, n) if is_large else 1, rows * (cols | 1)
    sizes = {"graph_at": cols * (cols | 1), "scaled_at": size, "cells_at": size}
    lie = team.make_layout(cells.device, rows, cols, n, sizes, is_shared=group > 1, is_large=is_large)
    xp, slots = library(cells), lie.blocks * lie.teams
    _TEAM.launch(
        (str(lie.width), "true" if is_large else "false"), lie.blocks * group, shared=lie.bytes,
        threads=lie.teams * lie.width, R=R, C=C, n=n, **arguments,
        **team.make_group_arguments(cells, rows, cols, group, lie.blocks), **lie.places, lines_size=lie.lines,
        lines=None if lie.places["lines_at"] >= 0 else xp.empty(slots * group * lie.lines),
        shared_size=lie.near, scratch_size=lie.scratch, scratch=xp.empty(slots * lie.scratch),
    )  # fmt: skip
