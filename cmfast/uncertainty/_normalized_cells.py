"""Standard errors and bootstrap intervals of the cells of normalised confusion matrices."""

from statistics import NormalDist
from typing import Any, Literal, TypeAlias

from cmfast._core import dispatch
from cmfast._core.adapters import adapter
from cmfast.normalizing import normalize
from cmfast.uncertainty._clusters import ClusterAxis
from cmfast.uncertainty._invalid_counts import mask_failed, report_invalid
from cmfast.uncertainty._results import Interval, normal_interval

CellsOf: TypeAlias = Literal["all", "row", "true", "col", "pred", "bi"]


def compute_intervals(
    M: Any,
    of: Any,
    method: str,
    confidence_level: float,
    scheme: str,
    parts: ClusterAxis | None,
    draws: dict[str, Any],
    options: dict[str, Any],
) -> Interval:
    """Return intervals of the cells of a normalised matrix; `draws` holds n_resamples, seed and stream numbers."""
    threads = options["num_threads"]
    rows = scheme == "rows"
    if method == "normal":
        estimate, error = _estimate_with_errors(M, of, parts, rows=rows, options=options)
        z = NormalDist().inv_cdf(0.5 + confidence_level / 2)
        return normal_interval(estimate, error, z)
    estimate = normalize(_sum_clusters(M, parts), of, on_failure=options["on_failure"], num_threads=threads)
    drawn, status = _draw_replicates(M, parts, "row_multinomial" if rows else scheme, draws, options)
    status = adapter(M).evaluate(_clear_missing, status, estimate)
    report_invalid(status, options["on_failure"], "matrices without intervals", M, clustered=parts is not None)
    replicates = normalize(drawn, of, on_failure="ignore", num_threads=threads)
    bends = (
        _compute_errors(M, estimate, of, parts, rows=rows, bent=True, options=options)[1] if method == "bca" else None
    )
    ends = dispatch.call(
        "replicate_intervals",
        replicates,
        estimate,
        bends,
        method=method,
        confidence_level=confidence_level,
        num_threads=threads,
    )

    def known(status: Any, low: Any, high: Any, error: Any, n_undefined: Any) -> tuple[Any, ...]:
        """Return the ends with NaN for failed matrices, whose replicates all count as undefined."""
        n_undefined = n_undefined + (draws["n_resamples"] - n_undefined) * (status != 0)[..., None, None]
        return *(x * mask_failed(status, 2) for x in (low, high, error)), n_undefined

    return Interval(estimate, *adapter(M).evaluate(known, status, *ends))


def _clear_missing(status: Any, estimate: Any) -> Any:
    """Return the statuses with OK for matrices without an estimate, which have been reported before."""
    return status * (estimate == estimate).all(-1).all(-1)  # noqa: PLR0124


def compute_standard_errors(M: Any, of: Any, parts: ClusterAxis | None, *, rows: bool, options: dict[str, Any]) -> Any:
    """Return the standard errors of the cells of a normalised matrix."""
    return _estimate_with_errors(M, of, parts, rows=rows, options=options)[1]


def _sum_clusters(M: Any, parts: ClusterAxis | None) -> Any:
    """Return the matrix to normalise: the sum over clusters and strata."""
    if parts is None:
        return M
    return adapter(M).evaluate(lambda M: M.sum(-3), M)


def _draw_replicates(
    M: Any, parts: ClusterAxis | None, scheme: Any, draws: dict[str, Any], options: dict[str, Any]
) -> Any:
    """Return bootstrap resamples of the matrix, resampled by cells, rows or clusters, and the status."""
    given = {"n": options["n"], "num_threads": options["num_threads"], **draws}
    if parts is None:
        return dispatch.call("resample", M, None, scheme=scheme, **given)
    return dispatch.call("cluster_replicates", M, **parts._asdict(), **given)


def _compute_errors(
    M: Any, estimate: Any, of: Any, parts: ClusterAxis | None, *, rows: bool, bent: bool, options: dict[str, Any]
) -> Any:
    """Return standard errors, BCa accelerations and the status of the cells."""
    given = {"of": of, "n": options["n"], "num_threads": options["num_threads"]}
    if parts is None:
        return dispatch.call("cell_errors", M, estimate, rows=rows, bent=bent, **given)
    return dispatch.call("cluster_cell_errors", M, estimate, **parts._asdict(), **given)


def _estimate_with_errors(
    M: Any, of: Any, parts: ClusterAxis | None, *, rows: bool, options: dict[str, Any]
) -> tuple[Any, Any]:
    """Return the cells of the normalised matrix and their standard errors."""
    threads, on_failure = options["num_threads"], options["on_failure"]
    estimate = normalize(_sum_clusters(M, parts), of, on_failure=on_failure, num_threads=threads)
    error, _, status = _compute_errors(M, estimate, of, parts, rows=rows, bent=False, options=options)
    report_invalid(status, on_failure, "matrices without standard errors", M, clustered=parts is not None)
    return estimate, error
