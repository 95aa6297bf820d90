"""Cells of normalised matrices: their standard errors and intervals."""

from statistics import NormalDist
from typing import Any, Literal, TypeAlias

from cmfast._core import dispatch, failures
from cmfast.normalizing import normalize
from cmfast.uncertainty._resample import resample
from cmfast.uncertainty._results import Interval

CellsOf: TypeAlias = Literal["all", "row", "true", "col", "pred", "bi"]


def intervals(
    M: Any, of: Any, method: str, level: float, scheme: str, draws: dict[str, Any], options: dict[str, Any]
) -> Interval:
    """Return the intervals of the cells of a normalised matrix; `draws` is what ``resample`` takes, but `scheme`."""
    threads, on_failure = options["num_threads"], options["on_failure"]
    quiet = {"on_failure": "ignore", "num_threads": threads}
    rows = scheme == "rows"
    if method == "normal":
        estimate, error = _with_errors(M, of, rows=rows, options=options)
        z = NormalDist().inv_cdf(0.5 + level / 2)
        with dispatch.chosen(M):
            none = (error != error) & (error == error)  # noqa: PLR0124 - no replicate was undefined
            return Interval(estimate, estimate - z * error, estimate + z * error, error, none)
    draws = draws | {"scheme": "row_multinomial" if rows else scheme, "n": options["n"]}
    drawn = resample(M, **draws, on_failure=on_failure, num_threads=threads)
    estimate, replicates = normalize(M, of, **quiet), normalize(drawn, of, **quiet)
    bends = None
    if method == "bca":
        made = {"of": of, "rows": rows, "n": options["n"], "bent": True, "num_threads": threads}
        _, bends, _ = dispatch.call("cell_errors", M, estimate, **made)
    parts = dispatch.call(
        "replicate_intervals", replicates, estimate, bends, method=method, level=level, num_threads=threads
    )
    return Interval(estimate, *parts)


def errors(M: Any, of: Any, *, rows: bool, options: dict[str, Any]) -> Any:
    """Return the standard errors of the cells of a normalised matrix."""
    return _with_errors(M, of, rows=rows, options=options)[1]


def _with_errors(M: Any, of: Any, *, rows: bool, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the cells of a normalised matrix, and their standard errors."""
    threads, on_failure = options["num_threads"], options["on_failure"]
    estimate = normalize(M, of, on_failure=on_failure, num_threads=threads)
    made = {"of": of, "rows": rows, "n": options["n"], "bent": False, "num_threads": threads}
    error, _, status = dispatch.call("cell_errors", M, estimate, **made)
    failures.report(status, on_failure, failed="matrices without standard errors")
    return estimate, error
