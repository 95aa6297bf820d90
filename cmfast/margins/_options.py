"""Options shared by the functions of margins."""

from typing import Any

import numpy as np

from cmfast._core import validate
from cmfast._core.annotations import OnFailure, Progress
from cmfast._core.progress import make_reporter


def validate_table_options(
    n_margins: int,
    *,
    importance: Any,
    smoothing: float | None,
    tol: float,
    max_iter: int | None,
    on_failure: OnFailure,
    num_threads: int | None,
    progress: Progress,
) -> dict[str, Any]:
    """Validate the options of functions of tables; return them as the kernels take them."""
    on_failure = validate.on_failure(on_failure)
    validate.progress(progress)
    return {
        "importance": validate_importance(importance, n_margins),
        "smoothing": None if smoothing is None else validate.positive("smoothing", smoothing),
        "tol": validate.tolerance(tol),
        "max_iter": validate.max_iter(max_iter),
        "num_threads": validate.num_threads(num_threads),
        "progress": make_reporter(progress, "tables"),
    }


def validate_values(name: str, given: Any, n: int) -> np.ndarray:
    """Return one value, or one for each of n, as float64."""
    wanted = f"a number, or an array of {n}"
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):
        validate.refuse(name, wanted, type(given).__name__, TypeError)
    if found.dtype.kind not in "uif" or found.dtype.itemsize > 8:
        validate.refuse(name, wanted, validate.format_value(given), TypeError)
    if found.shape not in ((), (n,)) or np.isnan(found).any():
        validate.refuse(name, wanted, validate.format_value(given))
    return np.array(found, np.float64)


def validate_importance(importance: Any, n: int) -> list[float] | None:
    """Return the penalty weight of each target; None if all targets must be met."""
    if importance is None:
        return None
    found = np.broadcast_to(validate_values("importance", importance, n), n)
    if not (found > 0.0).all():
        validate.refuse("importance", "above 0", validate.format_value(importance))
    return [float(p) for p in found] if np.isfinite(found).any() else None
