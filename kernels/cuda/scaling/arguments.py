"""Arguments of the scaling kernels, by the parameter names in their sources."""

from typing import Any

import numpy as np

from cmfast.kernels.cuda._core.module import library
from cmfast.kernels.shared.scaling import ScalingProblem


def make_problem_arguments(problem: ScalingProblem) -> dict[str, Any]:
    """Return the arguments that every scaling kernel takes: the batch, the rules, and the arrays for the results."""
    p = problem
    lines = {"row_sums": p.row_sums, "col_sums": p.col_sums, "start_row": p.start_row, "start_col": p.start_col}
    target, still, bound = p.goals
    return {
        "n": p.n, "R": p.R, "C": p.C, **split_by_type("", p.cells), "m_step": p.m_step,
        **{name: line.values for name, line in lines.items()},
        **{f"{name}_step": line.step for name, line in lines.items()},
        "smoothing": p.amount, "drop": p.drop, "bi": p.bi,
        "target": target, "still": still, "bound": bound, "last_width": p.last_width, "max_iter": p.max_iter,
        **split_by_type("out_", p.out), "out_row": p.out_row, "out_col": p.out_col, "out_residual": p.residual,
        "out_n_iter": p.n_iter, "out_status": p.status, "out_smoothing": p.smoothing,
        "out_line_error": p.line_error,
    }  # fmt: skip


def make_queue_arguments(problem: ScalingProblem) -> dict[str, Any]:
    """Return a queue to which a kernel appends the matrices it leaves, in any order, and its length."""
    xp = library(problem.cells)
    return {"out_queue": xp.empty(problem.n, np.int64), "out_length": xp.zeros(1, np.uint64)}


def split_by_type(start: str, cells: Any) -> dict[str, Any]:
    """Return `cells` as the float32 or the float64 argument of a kernel, None as the other."""
    is_single = cells is not None and cells.dtype == np.float32
    return {f"{start}floats": cells if is_single else None, f"{start}doubles": None if is_single else cells}
