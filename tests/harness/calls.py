"""How a test calls an op, and which arrays of its result an oracle speaks of."""

import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gpu
import numpy as np
from describe import describe_call

import cmfast
from cmfast._core import dispatch
from cmfast._core.adapters import adapter
from cmfast.kernels.cuda._core import module
from cmfast.metrics import _plan
from cmfast.uncertainty import _paired_replicates
from cmfast.uncertainty._clusters import parse_cluster_axis


def _grid(origin: Any, width: Any) -> Any:
    return cmfast.Grid(origin, width)


def _cells(X: Any, y: Any, p: Any, origin: Any, width: Any, n_classes: int | None = None) -> Any:
    return cmfast.cell_counts(X, y, p, grid=_grid(origin, width), n_classes=n_classes)


def _shapes(*args: Any, **options: Any) -> Any:
    cells = _cells(*args, **options)
    return dispatch.call("cell_shapes", cells._keys, cells.counts, n_classes=cells.n_classes)


def _excess(draws: Any, share: Any, W: Any, C: Any) -> Any:
    draws, share, W, C = dispatch.adopt(draws=draws, share=share, W=W, C=C)
    n_classes = W.shape[-1]
    half = max(n_classes - 1, 0).bit_length()
    where = np.argwhere(adapter(draws).to_host(draws))
    counts = adapter(draws).to_host(draws)[tuple(where.T)]
    keys = (where[:, 0] << (2 * half)) | (where[:, 1] << half) | where[:, 2]
    keys, counts = (adapter(draws).send(a, draws) for a in (keys, counts))
    return dispatch.call("cell_excess", *dispatch.adopt(keys=keys, counts=counts), share, W, C)


def _count_and_merge(X: Any, y: Any, p: Any, *, cut: int, **options: Any) -> Any:
    X, y, p = dispatch.adopt(X=X, y=y, p=p)  # a part of an empty list has no columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.FailureWarning)
        first, second = (_cells(X[part, :], y[part], p[part], **options) for part in (slice(cut), slice(cut, None)))
        merged = sum([first, second])
    if merged.n_dropped:
        warnings.warn("of the parts", cmfast.FailureWarning, stacklevel=1)
    return merged


def _gcm(X: Any, y: Any, p: Any, *tables: Any, weights: Any = (), **options: Any) -> Any:
    return cmfast.gcm(_cells(X, y, p, **options), [*weights, *tables])


def _histogram(X: Any, weights: Any, groups: Any, *, origin: Any, width: Any, n_groups: Any = None) -> Any:
    return cmfast.sparse_histogram(X, weights=weights, groups=groups, n_groups=n_groups, grid=_grid(origin, width))


def _marginal(X: Any, y: Any, p: Any, table: Any = None, *, axis: int, **options: Any) -> Any:
    cells = _cells(X, y, p, **options)
    return (cells.label_histogram, cells.prediction_histogram)[axis](table)


def _overlap(X: Any, Y: Any, v: Any, w: Any, g: Any, h: Any, *, origin: Any, width: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.FailureWarning)  # of the histograms; that of the overlap is asked for
        a, b = (_histogram(*s, origin=origin, width=width) for s in ((X, v, g), (Y, w, h)))
    return cmfast.min_overlap(a, b)


def _ranges(X: Any) -> Any:
    return dispatch.call("column_ranges", *dispatch.adopt(X=X))


def _spanned(op: str, X: Any) -> Any:
    (X,) = dispatch.adopt(X=X)
    low, high, n = dispatch.call("column_ranges", X)
    ends = (tuple(adapter(x).to_host(x).tolist()) for x in (low, high))
    span = tuple(ends) if n else ((0.0,) * X.shape[1],) * 2
    return dispatch.call(op, X, low=span[0], high=span[1])


def _quartiles(X: Any) -> Any:
    return dispatch.call("column_quartiles", *dispatch.adopt(X=X))


def _without_doubts(function: Any) -> Any:
    """Return the function without its warnings of results that may mislead."""

    def call(*args: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
            return function(*args, **options)

    return call


_interval = _without_doubts(cmfast.uncertainty.interval)  # of few samples, of few clusters
_standard_error = _without_doubts(cmfast.uncertainty.standard_error)  # of one cluster


def _cell_intervals(R: Any, estimate: Any, acceleration: Any = None, **options: Any) -> Any:
    arrays = dispatch.adopt(R=R, estimate=estimate, acceleration=acceleration, optional=("acceleration",))
    return dispatch.call("replicate_intervals", *arrays, **options)


def _cell_errors(M: Any, *, of: Any, fixed: Any = "total", n: Any = None) -> Any:
    errors = cmfast.uncertainty.standard_error(M, of=of, fixed=fixed, n=n)
    (M,) = dispatch.adopt(M=M)
    exact = {"tol": 1e-13} if of == "bi" else {}  # what is left of a residual is no error of the derivative
    P = cmfast.normalize(M, of, on_failure="ignore", **exact)
    return errors, dispatch.call("cell_errors", M, P, of=of, rows=fixed == "rows", n=n, bent=True)[1]


def _cluster_replicates(
    M: Any, *, clusters: Any = False, strata: Any = None, n: Any = None, n_resamples: Any, rng: Any = 0
) -> Any:
    (M,) = dispatch.adopt(M=M)
    options = {**parse_cluster_axis(M, clusters, strata, n)._asdict(), "n": n, "n_resamples": n_resamples}
    seed = int(np.random.default_rng(rng).integers(2**63))
    return dispatch.call("cluster_replicates", M, **options, seed=seed)[0]


def _cluster_cell_errors(M: Any, *, of: Any, clusters: Any = False, strata: Any = None, n: Any = None) -> Any:
    errors = _standard_error(M, of=of, clusters=clusters, strata=strata, n=n)
    (M,) = dispatch.adopt(M=M)
    exact = {"tol": 1e-13} if of == "bi" else {}
    whole = adapter(M).evaluate(lambda M: M.sum(-3), M)
    P = cmfast.normalize(whole, of, on_failure="ignore", **exact)
    options = {**parse_cluster_axis(M, clusters, strata, n)._asdict(), "n": n}
    return errors, dispatch.call("cluster_cell_errors", M, P, of=of, **options)[1]


def _table(h: Any) -> tuple[Any, ...]:
    return h.cells, h.groups, h.values


def _scaling_gradient(
    M: Any, G: Any, of_row: Any, of_col: Any, u: Any = None, v: Any = None, *, num_threads: Any = None, **options: Any
) -> Any:
    result = cmfast.ipf(M, u, v, num_threads=num_threads, **options)
    optional = ("G", "of_row", "of_col")
    M, G, of_row, of_col = dispatch.adopt(optional=optional, M=M, G=G, of_row=of_row, of_col=of_col)
    known = result.row_scale, result.col_scale, result.matrix, result.status, result.smoothing
    return dispatch.call("scaling_gradient", M, G, of_row, of_col, *known, num_threads=num_threads)


def _ipf_nd(M: Any, *targets: Any, axes: Any, **options: Any) -> Any:
    return cmfast.ipf_nd(M, list(zip(axes, targets, strict=True)), **options)


def _support_nd(M: Any, *targets: Any, axes: Any, **options: Any) -> Any:
    return cmfast.support_nd(M, list(zip(axes, targets, strict=True)), **options)


def _ipf_cells(values: Any, coords: Any, *targets: Any, axes: Any, **options: Any) -> Any:
    return cmfast.ipf_cells(values, coords, list(zip(axes, targets, strict=True)), **options)


def _rake(design: Any, weights: Any, *targets: Any, axes: Any = None, bounds: Any = None, **options: Any) -> Any:
    wanted = list(zip(axes, targets, strict=True)) if axes else targets[0]
    return cmfast.rake(design, wanted, weights=weights, bounds=bounds, **options)


def _ipf_sparse(first: Any, column: Any, values: Any, u: Any = None, v: Any = None, *, C: int, **options: Any) -> Any:
    given = {"first": first, "column": column, "values": values, "u": u, "v": v}
    arrays = dispatch.adopt(optional=("u", "v"), **given)
    return dispatch.call("ipf_sparse", *arrays, None, None, n_columns=C, **options)


def _balance(
    rows: Any, columns: Any, values: Any, sums: Any = None, keep: Any = None, *, n: Any, **options: Any
) -> Any:
    return cmfast.balance((rows, columns, values, n), sums, keep=keep, **options)


def _comparison_gradient(S: Any, T: Any, G: Any, *, of: str, num_threads: Any = None) -> Any:
    return dispatch.call("comparison_gradient", *dispatch.adopt(S=S, T=T, G=G), of=of, num_threads=num_threads)


def _normalizing_gradient(M: Any, G: Any, *, method: str, of_weights: bool = False, num_threads: Any = None) -> Any:
    options = {"method": method, "of_weights": of_weights, "num_threads": num_threads}
    return dispatch.call("normalizing_gradient", *dispatch.adopt(M=M, G=G), **options)


def _metrics_gradient(M: Any, of_scalars: Any, of_tables: Any, *, names: Any, num_threads: Any = None) -> Any:
    M, of_scalars, of_tables = dispatch.adopt(M=M, of_scalars=of_scalars, of_tables=of_tables)
    plan = _plan.make_plan(tuple(names), M.shape[-1], "present", 1, argument="M").plan
    return dispatch.call("metrics_gradient", M, of_scalars, of_tables, plan=plan, num_threads=num_threads)


def _sets(P: Any, q: Any, **options: Any) -> Any:
    return cmfast.conformal.prediction_sets(P, q, **options)


def _ratios(n: Any, G: Any, *, kind: str) -> Any:
    n, G = dispatch.adopt(n=n, G=G)
    counts = cmfast.conformal.CcmCounts(n, G)
    return getattr(counts, kind)(), counts.reason


def _row_draws(P: Any, *, seed: int) -> Any:
    (P,) = dispatch.adopt(P=P)
    return dispatch.call("row_draws", P, seed=seed)


def _covered(P: Any, q: Any, y: Any, **options: Any) -> Any:
    return _sets(P, q, **options).coverage_by_size(y)


def _paired(y: Any, a: Any, b: Any, *, names: Any, n_resamples: int, seed: int, **options: Any) -> Any:
    T = cmfast.uncertainty.paired_counts(y, a, b, **options)
    plan = _plan.make_plan(tuple(names), options["n_classes"], "present", 1, argument="T").plan
    arrays = _paired_replicates.send_units(_paired_replicates.list_units(T._held), T._home)
    groups = slice(0, len(T.groups or [0]))
    return _paired_replicates.draw_replicates(arrays, groups, plan, options["n_classes"], n_resamples, seed, None)


def _auc_covariance(scores: Any, y: Any, **options: Any) -> Any:
    """Call auc_covariance without warnings of uneven weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        return cmfast.uncertainty.auc_covariance(y, scores, **options)


def _carrying_samples(M: Any, *, names: Any, **options: Any) -> Any:
    plan = _plan.make_plan(tuple(names), np.shape(M)[-1], "present", 1, argument="M")
    (M,) = dispatch.adopt(M=M)
    found = dispatch.call("carrying_samples", M, plan=plan.plan, **options)
    return tuple(found[place] for place in plan.positions)


def _agreement(x: Any, *, counts: bool = False, **options: Any) -> Any:
    names = "fleiss_kappa", "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "conger_kappa", "light_kappa"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        if counts:
            return cmfast.agreement.from_counts(x, names[:4], **options)
        return cmfast.agreement.compute(x, names, **options)


def _match_boxes(*arrays: Any, **options: Any) -> Any:
    names = "scores", "labels_true", "labels_pred", "iscrowd"
    found = cmfast.detection.match(*arrays[:2], **dict(zip(names, arrays[2:], strict=False)), **options)
    if isinstance(found, list):  # of lists that are images
        return cmfast.results.Matches(*map(np.stack, zip(*found, strict=True)))
    return found


def _paired_errors(y: Any, a: Any, b: Any, *, names: Any, **options: Any) -> Any:
    T = cmfast.uncertainty.paired_counts(y, a, b, **options)
    C, units = options["n_classes"], _paired_replicates.list_units(T._held)
    plan = _plan.make_plan(tuple(names), C, "present", 1, argument="T").plan
    found = _paired_replicates.compute_delta_errors(units, T._home, plan, C, None, clustered=T.n_clusters is not None)
    return tuple(adapter(T._home).send(array, T._home) for array in found)  # from where they are used


# Ops that are not a public function of that name: what calls them, on the arrays that the oracle takes.
ENTRIES: dict[str, Any] = {
    "cell_errors": _cell_errors,
    "cluster_cell_errors": _cluster_cell_errors,
    "cluster_errors": _standard_error,
    "cluster_intervals": _interval,
    "cluster_replicates": _cluster_replicates,
    "confusion_fractions": cmfast.metrics.confusion_fractions,
    "label_margins": cmfast.metrics.label_margins,
    "margins": cmfast.metrics.margins,
    "metrics_of_matrices": cmfast.metrics.compute,
    "metrics_of_sums": cmfast.metrics.from_sums,
    "most_confused": cmfast.metrics.most_confused,
    "one_vs_rest": cmfast.metrics.one_vs_rest,
    "threshold_matrices": lambda s, y, **options: cmfast.metrics.threshold_matrices(y, s, **options),
    "score_areas": lambda s, y, **options: (
        cmfast.metrics.roc_auc(y, s, **options),
        cmfast.metrics.average_precision(y, s, **{**options, "on_failure": "ignore"}),
    ),
    "least_cost": lambda s, y, cost, **options: cmfast.metrics.least_cost(y, s, cost, **options),
    "agreement_coefficients": _agreement,
    "match_boxes": _match_boxes,
    "auc_covariance": _auc_covariance,
    "carrying_samples": _carrying_samples,
    "paired_errors": _paired_errors,
    "paired_replicates": _paired,
    "resample": cmfast.uncertainty.resample,
    "standard_errors": cmfast.uncertainty.standard_error,
    "metric_draws": cmfast.uncertainty.posterior,
    "metric_intervals": _interval,
    "replicate_intervals": _cell_intervals,
    "weighted_kappa": cmfast.metrics.kappa,
    "comparison_gradient": _comparison_gradient,
    "ipf_of_logits": lambda *args, **options: cmfast.ipf(*args, logits=True, **options),
    "ipf_nd": _ipf_nd,
    "ipf_cells": _ipf_cells,
    "support_nd": _support_nd,
    "rake": _rake,
    "balance": _balance,
    "ipf_sparse": _ipf_sparse,
    "metrics_gradient": _metrics_gradient,
    "normalizing_gradient": _normalizing_gradient,
    "scaling_gradient": _scaling_gradient,
    "scores": cmfast.conformal.scores,
    "threshold": cmfast.conformal.threshold,
    "weighted_threshold": cmfast.conformal.threshold,
    "p_values": cmfast.conformal.p_values,
    "score_histogram": cmfast.conformal.score_histogram,
    "prediction_sets": _without_doubts(cmfast.conformal.prediction_sets),  # of as many rows as classes
    "set_coverage": _covered,
    "ccm": lambda P, q, **options: cmfast.conformal.ccm(_sets(P, q, **options)),
    "coverage_confusion": lambda P, q, y, **o: cmfast.conformal.coverage_confusion(_sets(P, q, **o), y),
    "ccm_ratios": _ratios,
    "row_draws": _row_draws,
    "cell_counts": _cells,
    "cell_excess": _excess,
    "cell_shapes": _shapes,
    "column_moments": partial(_spanned, "column_moments"),
    "column_products": partial(_spanned, "column_products"),
    "column_quartiles": _quartiles,
    "column_ranges": _ranges,
    "decode_cells": _cells,
    "gcm": _gcm,
    "marginal_histogram": _marginal,
    "merge_cells": _count_and_merge,
    "min_overlap": _overlap,
    "pair_counts": lambda *args, **options: _cells(*args, **options).confusion_matrix(),
    "project": lambda X, Y, **options: cmfast.pca(X, **options).transform(Y),
    "sparse_histogram": _histogram,
}

# Result of the public function -> the tuple of arrays that the oracle returns. Default: the result itself.
PARTS: dict[str, Any] = {
    "ras": lambda result: result[1:],
    "agreement_coefficients": lambda found: [one[k] for one in found.values() for k in (0, 3, 4, 5, 6)],
    "metrics_of_matrices": lambda found: found.values(),
    "metrics_of_sums": lambda found: found.values(),
    "standard_errors": lambda found: found.values(),
    "cluster_errors": lambda found: found.values(),
    "cluster_intervals": lambda found: [part for one in found.values() for part in one],
    "metric_draws": lambda found: [one.draws for one in found.values()],
    "metric_intervals": lambda found: [part for one in found.values() for part in one],
    "support": lambda found: (*found[:-1], *found.certificate),
    "ipf_nd": lambda r: (r.table, *r.achieved, r.status),
    "ipf_sparse": lambda r: (r[0], r[5]),
    "balance": lambda r: (r.weights, r.reason, r.status),
    "ipf_cells": lambda r: (r.table, *r.achieved, r.status),
    "support_nd": lambda r: (r.status, r.dead_cells),
    "rake": lambda r: (r.weights, *(r.achieved if isinstance(r.achieved, list) else [r.achieved]), r.status),
    "cell_counts": lambda r: (r.cells, r.labels, r.predictions, r.counts),
    "column_ranges": lambda r: r[:2],
    "decode_cells": lambda r: (r.cells, r.labels, r.predictions),
    "marginal_histogram": _table,
    "merge_cells": lambda r: (r.cells, r.labels, r.predictions, r.counts),
    "score_histogram": lambda r: (r.counts,),
    "prediction_sets": lambda r: (r.packed, r.sizes),
    "ccm": lambda r: (r.G,),
    "coverage_confusion": lambda r: (r.V, r.n),
    "sparse_histogram": _table,
}


# Ops that take a batch of matrices alone, or can be made to: for tests that care about nothing else.
CALLS: dict[str, Any] = {
    "overlap": lambda M, **options: cmfast.overlap(M, M[::-1], **options),
    "l1_distance": lambda M, **options: cmfast.l1_distance(M, M[::-1], **options),
    "kl_divergence": lambda M, **options: cmfast.kl_divergence(M, M[::-1], **options),
    "normalize": lambda M, **options: cmfast.normalize(M, "row", **options),
    "importance_weights": lambda M, **options: cmfast.importance_weights(M, "col", **options),
    "margins": cmfast.metrics.margins,
}


def public(op: str) -> Any:
    """Return the public function of `op`, or its replacement in tests."""
    return ENTRIES.get(op) or getattr(cmfast, op)


def is_direct(op: str) -> bool:
    """Return whether the op is a public function of its own name, which the general tests can call as it is."""
    return getattr(cmfast, op, None) is public(op)


def parts(op: str, result: Any) -> tuple[Any, ...]:
    """Return the arrays of `result` in the order of the oracle."""
    if op in PARTS:
        return tuple(PARTS[op](result))
    return tuple(result) if isinstance(result, tuple) else (result,)


# A file of the package is known by its own path, or by that of the folder which a link leads to.
OURS = tuple(
    str(folder) + os.sep
    for path in (Path(__file__), Path(cmfast.__file__), Path(module.__file__).parent)
    for folder in (path.parent, path.resolve().parent)
)


def counts(w: warnings.WarningMessage) -> bool:
    """Return whether a warning is a fault of ours.

    On a GPU nobody chose which releases of other libraries are installed: warnings that point into them are not ours,
    and would fail all tests. Elsewhere every warning counts.
    """
    return not gpu.required() or w.filename.startswith(OURS)


def call_result(op: str, args: tuple[Any, ...], options: dict[str, Any], *, fails: bool, what: str = "") -> Any:
    """Call the public function; a case that fails must warn exactly once, any other never. `what` begins messages."""
    what = what or describe_call(op, args, options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = public(op)(*args, **options)
    failures = [w for w in caught if issubclass(w.category, cmfast.FailureWarning)]
    others = [w for w in caught if w not in failures and counts(w)]
    if others:
        msg = f"{what}: got {others[0].category.__name__}: {others[0].message}, expected no such warning"
        raise AssertionError(msg)
    if len(failures) != int(fails):
        text = f" ({failures[0].message})" if failures else ""
        msg = f"{what}: got {len(failures)} failure warnings{text}, expected {int(fails)}"
        raise AssertionError(msg)
    for w in failures:
        if w.filename != __file__:
            msg = f"{what}: got a warning that points at {w.filename}, expected one that points at the caller"
            raise AssertionError(msg)
    return result


def call(op: str, args: tuple[Any, ...], options: dict[str, Any], *, fails: bool) -> tuple[Any, ...]:
    """Do the same, and return the arrays that the oracle speaks of."""
    return parts(op, call_result(op, args, options, fails=fails))
