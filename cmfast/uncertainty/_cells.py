"""Cells of normalised matrices: their standard errors and intervals."""

from statistics import NormalDist
from typing import Any, Literal, TypeAlias

from cmfast._core import dispatch, failures
from cmfast.normalizing import normalize
from cmfast.uncertainty._clusters import Parts
from cmfast.uncertainty._resample import resample
from cmfast.uncertainty._results import Interval

CellsOf: TypeAlias = Literal["all", "row", "true", "col", "pred", "bi"]


def intervals(
    M: Any,
    of: Any,
    method: str,
    level: float,
    scheme: str,
    parts: Parts | None,
    draws: dict[str, Any],
    options: dict[str, Any],
) -> Interval:
    """Return the intervals of the cells of a normalised matrix; `draws` are `n_replicates` and `rng`."""
    threads = options["num_threads"]
    quiet = {"on_failure": "ignore", "num_threads": threads}
    rows = scheme == "rows"
    if method == "normal":
        estimate, error = _with_errors(M, of, parts, rows=rows, options=options)
        z = NormalDist().inv_cdf(0.5 + level / 2)
        with dispatch.chosen(M):
            none = (error != error) & (error == error)  # noqa: PLR0124 - no replicate was undefined
            return Interval(estimate, estimate - z * error, estimate + z * error, error, none)
    drawn = _drawn(M, parts, "row_multinomial" if rows else scheme, draws, options)
    estimate, replicates = normalize(_whole(M, parts), of, **quiet), normalize(drawn, of, **quiet)
    bends = _errors(M, estimate, of, parts, rows=rows, bent=True, options=options)[1] if method == "bca" else None
    ends = dispatch.call(
        "replicate_intervals", replicates, estimate, bends, method=method, level=level, num_threads=threads
    )
    return Interval(estimate, *ends)


def errors(M: Any, of: Any, parts: Parts | None, *, rows: bool, options: dict[str, Any]) -> Any:
    """Return the standard errors of the cells of a normalised matrix."""
    return _with_errors(M, of, parts, rows=rows, options=options)[1]


def _whole(M: Any, parts: Parts | None) -> Any:
    """Return the matrix that is normalised: that of all clusters and strata."""
    if parts is None:
        return M
    with dispatch.chosen(M):
        return M.sum(-3)


def _drawn(M: Any, parts: Parts | None, scheme: Any, draws: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return replicates of the matrix."""
    given = {"n": options["n"], "num_threads": options["num_threads"]}
    if parts is None:
        return resample(M, scheme=scheme, **draws, **given, on_failure=options["on_failure"])
    seed, count = int(draws["rng"].integers(2**63)), draws["n_replicates"]
    drawn, status = dispatch.call("cluster_replicates", M, **parts._asdict(), **given, n_replicates=count, seed=seed)
    failures.report(status, options["on_failure"], failed="matrices without intervals")
    return drawn


def _errors(
    M: Any, estimate: Any, of: Any, parts: Parts | None, *, rows: bool, bent: bool, options: dict[str, Any]
) -> Any:
    """Return standard errors, accelerations and the status of cells."""
    given = {"of": of, "n": options["n"], "num_threads": options["num_threads"]}
    if parts is None:
        return dispatch.call("cell_errors", M, estimate, rows=rows, bent=bent, **given)
    return dispatch.call("cluster_cell_errors", M, estimate, **parts._asdict(), **given)


def _with_errors(M: Any, of: Any, parts: Parts | None, *, rows: bool, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the cells of a normalised matrix, and their standard errors."""
    threads, on_failure = options["num_threads"], options["on_failure"]
    estimate = normalize(_whole(M, parts), of, on_failure=on_failure, num_threads=threads)
    error, _, status = _errors(M, estimate, of, parts, rows=rows, bent=False, options=options)
    failures.report(status, on_failure, failed="matrices without standard errors")
    return estimate, error
