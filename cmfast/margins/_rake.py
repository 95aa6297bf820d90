"""Raking (calibration) of survey weights to known totals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from cmfast._core import dispatch, failures, frames, sparse, validate, wording
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure, Progress
from cmfast._core.progress import make_reporter
from cmfast._core.usual_options import explain_options
from cmfast.margins import _explain_rake_failure, _grouped_tables, _long_tables, _rake_groups
from cmfast.margins._csr_matrix import CsrMatrix, read_csr
from cmfast.margins._estimates import RakedRecords, keep_records
from cmfast.margins._labels import AxisLabels
from cmfast.margins._margin_lists import split_margins
from cmfast.margins._options import validate_importance, validate_values
from cmfast.margins._rake_result import RakeResult, attach_records

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Raking: TypeAlias = Literal["raking", "linear", "truncated", "logit"]
RAKINGS = get_args(Raking)
BOUNDED = ("truncated", "logit")
MOST_ATTRIBUTES = 2**16
ARGUMENTS = _long_tables.Arguments("weights", "design", "targets", records=True)
MOST_SHARE_ERROR = 1e-6  # largest deviation of a sum of proportions from 1
LEAST_COUNTED_TOTAL = 10.0  # total of the weights from which targets that add up to 1 are suspicious


@explain_options
def rake(
    design: "Array | pd.DataFrame | pl.DataFrame | pa.Table",
    /,
    targets: Any,
    *,
    groups: str | Sequence[str] | None = None,
    weights: Array | str | None = None,
    method: Raking = "raking",
    bounds: Any = None,
    importance: Any = None,
    names: Sequence[str] | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> RakeResult[Any]:
    r"""Adjust the weights of survey respondents, as little as possible, to known totals (raking, calibration).

    For survey weights and synthetic populations. Newton's method on the dual variables :math:`\lambda` of the totals:
    with z the row of the design times :math:`\lambda`, the new weight of a record is its design weight times
    :math:`e^z`, :math:`1 + z`, or a bounded function of z.

    Parameters
    ----------
    design : array or matrix of scipy.sparse, shape (n, K), or array, shape (attributes, n), or table
        Contribution of each record to each total: 0 or 1 for categories, counts, any real numbers. A sparse matrix of
        more than 64 columns is never made dense. Or, if `targets` names attributes, the category of each record, from
        0, a row per attribute. Or, if `targets` names columns, a DataFrame of pandas or polars, a LazyFrame,
        or a Table or stream of Arrow: a row for each record, with its categories. Shared by the batch.
    targets : array, shape (..., K), or list of (attributes, target), or dict, or table, or list of tables
        The totals. With categories: the wanted sums of weights for the categories of an attribute, an int, or for all
        combinations of several, a tuple of ints; `target` has shape ``(..., *categories)``. NaN leaves a total
        unconstrained. Targets that share attributes must agree there, and all on the total, to a relative 1e-9. For a
        table ``{column: totals}``, with a tuple of columns for their combinations: totals are a Series of pandas with
        the categories as its index, a dict ``{category: total}``, or a table. Or tables, as the margins of
        :func:`ipf_cells`: columns named as in `design` and one of totals, a row for each combination. Every category
        of `design` needs a total.
    groups : str, or list of str, optional
        Names of the columns of a table that define groups, each raked to its own totals. `targets` are as for a table,
        with the columns of `groups` next to the others, in tables or as ``{(group, category): total}`` for a column; or
        ``{group: targets}``, with the targets of each group alone; groups of several columns are tuples. Every
        group of `design` needs totals.
    weights : array, shape (..., n), or str, optional
        Design weights, nonnegative; default: ones. Leading axes broadcast with those of the targets: areas, replicates.
        Or, if `targets` names columns, the name of their column in `design`.
    method : {"raking", "linear", "truncated", "logit"}
        Distance function: how a weight depends on z. "raking": times :math:`e^z`, the limit of iterative fitting.
        "linear": times 1 + z, the generalised regression estimator; weights may be negative. "truncated": times
        :math:`e^z`, clipped to the bounds. "logit": a smooth function strictly between the bounds.
    bounds : (low, high), optional
        Bounds of the ratio of a weight to its design weight; each a number or an array with one entry per record.
        Required by "truncated" and "logit" alone; 0 <= low <= high, and low < 1 < high for "logit".
    importance : positive float, or sequence of them, optional
        Penalty weights of soft constraints, one for each column, or for each pair or table of `targets`: a missed total
        m r instead of m adds importance times m (r log r - r + 1) to the divergence of the weights, so that its sign is
        kept, and zero stays zero. Infinite (the default): must be met. With finite weights margins need not agree, and
        the result does not depend on their order.
    names : sequence of str, optional
        Names of the columns, or of all target entries in order, for messages. None if `targets` names columns: messages
        then name these and their categories.
    tol : float
        Absolute bound of `RakeResult.residual`. At least the rounding error, 2e-14, or that times the number of
        records over 32.
    max_iter : int, optional
        Most passes over the records; default: 200 Newton steps.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about elements without a solution (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use, for a batch; default: as :func:`cmfast.config` says, else what the process may use.
    progress : bool or callable, optional
        True shows a bar on stderr; a callable gets ``(done, total)`` in elements of the batch, or in groups.

    Returns
    -------
    RakeResult
        In the library of `design`; NumPy arrays for a sparse design, and for a table. With a table whose columns are
        named `multipliers`, `achieved` and `proof` have one value per given category, in that order. With `groups` the
        diagnostics have a last axis of groups, whose labels are in `groups`, sorted or in the order of a categorical.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; a column that is not there, or has
        missing values; a category or group of the records that has no total; a wrong option.
    NotImplementedError
        Arrays on a GPU.

    See Also
    --------
    ipf_nd : The same for tables.
    ipf_cells : Tables with a row for each cell.

    Notes
    -----
    Bad values: an element that has no answer gets NaN and a code in `status`, is reported as `on_failure` says, and
    does not affect others. INVALID: a design value that is not finite, a category beyond the target, a weight that is
    NaN, infinite or negative, an infinite target. TOTALS: categories that disagree. ZERO_LINE: a nonzero target to
    which no record contributes. INFEASIBLE: no weights, within the bounds, have these totals, proved by `proof`.
    LIMIT_ONLY counts as success and warns: some weights are zero of which it is proved that they are less than 1e-9 of
    the smallest of their targets, in units of the record, for any weights of the others; with "logit" some weights are
    at a bound, which no multiplier takes them to. RANGE: weights beyond float64. MAX_ITER keeps its last weights;
    `max_iter` passes were not enough. UNDETERMINED keeps its weights, which more passes would not improve: they add up
    to the targets as far as `residual` says, and rounding these once would move a weight by more than 1e-4 of itself,
    or 200 steps led nowhere. CONVERGED means that `residual` was measured on what is returned, that the last step moved
    no weight by more than 1e-3 of itself ("linear": of its design weight), and that `weight_error`, an estimate, is at
    most 1e-4.

    With `groups` each group has the bits of a call with its records alone, and a status of its own; one with totals
    and no records is a ZERO_LINE. Messages name groups by their labels.

    Does not synchronise a device: there are no kernels for GPUs yet. Reproducible: same input, same bits, for any
    `num_threads` and neighbours in the batch; with more than 64 columns where the linear algebra library is the same
    and has as many threads. Memory, for each thread: eight bytes for each pair of columns, up to 3,000 of these.

    Equal records are merged if that leaves at most three quarters of them, so that few attributes cost little more than
    reading them. With hundreds of columns steps are found by conjugate gradients; `weight_error`
    is larger then, by the least eigenvalue that these have seen: a bound if they have seen the least. Above 3,000
    columns what they do not reach is UNDETERMINED.

    References
    ----------
    Deville and Saerndal, Calibration estimators in survey sampling, 1992. Deming and Stephan, On a least squares
    adjustment of a sampled frequency table when the expected marginal totals are known, 1940.

    Examples
    --------
    Six persons with two attributes and known population totals:

    >>> import cmfast
    >>> age, sex = [0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1]
    >>> result = cmfast.rake(
    ...     [age, sex], [(0, [60.0, 40.0]), (1, [45.0, 55.0])]
    ... )
    >>> result.weights.round(2).tolist()
    [17.38, 17.38, 25.24, 10.24, 14.88, 14.88]

    The same by name:

    >>> import pandas as pd
    >>> persons = pd.DataFrame(
    ...     {
    ...         "age": ["young"] * 3 + ["old"] * 3,
    ...         "sex": ["m", "m", "f", "m", "f", "f"],
    ...     }
    ... )
    >>> result = cmfast.rake(
    ...     persons,
    ...     {
    ...         "age": {"young": 60.0, "old": 40.0},
    ...         "sex": {"m": 45.0, "f": 55.0},
    ...     },
    ... )
    >>> result.weights.round(2).tolist()
    [17.38, 17.38, 25.24, 10.24, 14.88, 14.88]

    Two groups, each with its own totals:

    >>> persons["site"] = ["a", "b", "a", "a", "b", "b"]
    >>> totals = pd.DataFrame(
    ...     {
    ...         "site": ["a", "a", "b", "b"],
    ...         "age": ["young", "old", "young", "old"],
    ...         "total": [10.0, 20.0, 30.0, 40.0],
    ...     }
    ... )
    >>> result = cmfast.rake(persons, totals, groups="site")
    >>> result.groups, result.weights.round(6).tolist()
    (('a', 'b'), [5.0, 30.0, 5.0, 20.0, 20.0, 20.0])

    The first example by columns, with no weight more than 1.25 times its design weight:

    >>> design = [
    ...     [1, 0, 1],
    ...     [1, 0, 1],
    ...     [1, 0, 0],
    ...     [0, 1, 1],
    ...     [0, 1, 0],
    ...     [0, 1, 0],
    ... ]
    >>> known = [60.0, 40.0, 45.0]
    >>> result = cmfast.rake(
    ...     design,
    ...     known,
    ...     weights=[20.0] * 6,
    ...     method="truncated",
    ...     bounds=(0.5, 1.25),
    ... )
    >>> result.weights.round(2).tolist(), cmfast.Status(result.status).name
    ([17.5, 17.5, 25.0, 10.0, 15.0, 15.0], 'CONVERGED')
    """
    on_failure = validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    validate.choice("method", method, RAKINGS)
    tol = validate.tolerance(tol)
    max_iter = validate.max_iter(max_iter)
    long, frame = None, frames.collect_table(design)
    design = frame
    _refuse_several_tables(design)
    if groups is not None:
        if names is not None:
            validate.refuse("names", "None with groups", validate.format_value(names))
        shared = {"method": method, "tol": tol, "max_iter": max_iter, "num_threads": num_threads}
        return _rake_by_groups(design, targets, groups, weights, (bounds, importance), shared, on_failure, progress)
    targets = frames.collect_tables(targets) if frames.is_table(design) else targets
    rows_of = _check_row_order(design, weights, bounds)
    if _long_tables.are_by_name(design, targets, ARGUMENTS):
        if names is not None:
            validate.refuse("names", "None if targets names columns", validate.format_value(names))
        long = _long_tables.read_long_table(weights, design, targets, ARGUMENTS)
        weights, design, targets = long.values, long.coords, long.margins
    if long is not None or _are_attribute_pairs(targets):
        axes, given = split_margins("targets", "attributes", targets, MOST_ATTRIBUTES)
        labels = [f"target of targets[{k}]" for k in range(len(axes))]
    else:
        axes, given, labels = None, [targets], ["targets"]
    rows = _read_sparse_design(design, axes)
    is_named = long is None and frames.is_table(design)
    design, weights, *given = dispatch.adopt(
        optional=("weights",),
        design=rows.values if rows else design,
        weights=weights,
        **dict(zip(labels, given, strict=True)),
    )
    if is_named and adapter(design).dtype(design).kind in "US":
        wanted = "a dict {column: totals}, as design is a table of categories"
        validate.refuse("targets", wanted, "numbers without names", TypeError)
    n, batch = _check_shapes(rows.shape if rows else dispatch.shape_of(design), design, weights, given, labels, axes)
    low, high = _validate_bounds(method, bounds, n)
    n_lines = sum(
        int(np.prod(_get_target_sizes(target, of))) for target, of in zip(given, axes or (None,), strict=True)
    )
    p = validate_importance(importance, len(axes) if axes else n_lines)
    options: dict[str, Any] = {"axes": axes, "method": method, "low": low, "high": high, "importance": p}
    options |= {"tol": tol, "max_iter": max_iter, "pattern": (rows.first, rows.columns) if rows else None}
    if axes and n:
        _warn_of_proportions(weights, n, given, axes, None if long is None else long.words)
    lines = _validate_names(names, n_lines)
    words = AxisLabels() if long is None else long.words
    out = dispatch.call(
        "rake",
        design,
        weights,
        *given,
        **options,
        num_threads=num_threads,
        progress=make_reporter(progress, "elements"),
    )
    parts = [list(out[k : k + len(given)]) for k in range(1, 3 * len(given) + 1, len(given))]
    result: RakeResult[Any] = RakeResult(out[0], *(parts if axes else (part[0] for part in parts)), *out[-4:])

    problem = _explain_rake_failure.RakeProblem(batch, rows or design, weights, given, axes, lines, words)

    def describe(index: tuple[int, ...]) -> str:
        """Return the reason why the weights at `index` were not found."""
        return _explain_rake_failure.explain_rake_failure(index, problem, result)

    failed = "sets of weights not found"
    failures.report(result.status, on_failure, failed=failed, describe=describe, limit_is_answer=True)
    table = frame if frames.is_table(frame) else rows_of
    records = keep_records(
        RakedRecords(rows or design, weights, given, parts[1], axes, p, batch, table, table, words.columns)
    )
    if long is not None:
        multipliers, achieved, proof = map(long.select_rows, parts)
        result = result._replace(multipliers=multipliers, achieved=achieved, proof=proof)
    return attach_records(result, records)


def _refuse_several_tables(design: Any) -> None:
    """Raise TypeError for a list of tables, with the call that rakes all of them."""
    if isinstance(design, list | tuple) and design and all(map(frames.is_table, design)):
        cure = "one table of all, with a column of their names: rake(pandas.concat(tables), targets, groups=column)"
        validate.refuse("design", cure, f"a {type(design).__name__} of {len(design)} tables", TypeError)


def _rake_by_groups(
    design: Any,
    targets: Any,
    groups: Any,
    weights: Any,
    limits: tuple[Any, Any],
    shared: dict[str, Any],
    on_failure: OnFailure,
    progress: Progress,
) -> RakeResult[Any]:
    """Rake each group of a table to its totals; `limits` are the bounds and the importance."""
    bounds, importance = limits
    columns = _grouped_tables.validate_groups(groups)
    if not frames.is_table(design):
        validate.refuse("groups", "None unless design is a table", validate.format_value(groups), TypeError)
    _check_row_order(design, weights, bounds)
    table = _grouped_tables.read_grouped_table(weights, design, frames.collect_tables(targets), columns, ARGUMENTS)
    n = len(table.order)
    codes, own = dispatch.adopt(optional=("weights",), design=table.codes, weights=table.weights)
    validate.real(weights=own)
    if own is not None:
        validate.vectors("weights", own, n)
        own = adapter(own).to_host(own)
    low, high = _validate_bounds(shared["method"], bounds, n)
    p = validate_importance(importance, len(table.margins))
    _warn_of_proportions_by_group(table, own)
    reporter = make_reporter(progress, "groups")
    options = _rake_groups.GroupOptions(shared, low, high, p, on_failure, reporter)
    return _rake_groups.rake_groups(table._replace(codes=codes), design, own, options)


def _check_row_order(design: Any, weights: Any, bounds: Any) -> Any:
    """Raise ValueError if Series for each record have one index in two orders; return one of them, or None."""
    arrays = {"design": design}
    if isinstance(design, list | tuple) and len(design) and hasattr(design[0], "iloc"):  # others may be many records
        arrays = {f"design[{k}]": x for k, x in enumerate(design)}
    sides = bounds if isinstance(bounds, list | tuple) and len(bounds) == 2 else ()
    others = {"weights": weights, **{f"bounds[{k}]": x for k, x in enumerate(sides)}}
    arrays |= {name: x for name, x in others.items() if getattr(x, "ndim", 0) == 1}  # rows of others are a batch
    return dispatch.check_row_order(**arrays)


def _warn_of_proportions(
    weights: Any, n: int, given: list[Any], axes: tuple[tuple[int, ...], ...], words: AxisLabels | None
) -> None:
    """Warn if all targets are proportions, but the weights add up to far more; or if some do not add up to 1."""
    totals = []
    for k, (target, of) in enumerate(zip(given, axes, strict=True)):
        host = np.asarray(adapter(target).to_host(target), np.float64)
        total = host.sum(axis=tuple(range(-len(of), 0)))
        if not total.size or not ((host >= 0.0) & (host <= 1.0)).all():  # false for NaN, a category without target
            return
        wrong = total[abs(total - 1.0) > MOST_SHARE_ERROR]
        totals.append((k, of, wrong.ravel()[0]) if wrong.size else None)
    before = float(n)
    if weights is not None:
        before = float(np.asarray(adapter(weights).to_host(weights), np.float64).sum(-1).min())
    if before < LEAST_COUNTED_TOTAL:
        return
    odd = next((one for one in totals if one is not None), None)
    if odd is not None:
        k, of, total = odd
        name = (words or AxisLabels()).margin("targets", k, of)
        failures.warn_diagnostic(
            f"{name} are at most 1, as proportions are, but add up to {total:.6g}; proportions must add up to 1"
        )
    else:
        said = f"targets add up to 1, as proportions do, and so will the weights, which add up to {before:,.6g} now"
        failures.warn_diagnostic(
            f"{said}; multiply the targets by the size of the population for weights that add up to it"
        )


def _warn_of_proportions_by_group(table: _grouped_tables.GroupedTable, weights: np.ndarray | None) -> None:
    """Warn if the targets of all groups are proportions, but the weights of the largest group add up to far more."""
    if not all(((one.targets >= 0.0) & (one.targets <= 1.0)).all() for one in table.margins) or not table.groups:
        return
    totals = np.diff(table.first)
    if weights is not None:
        sums = np.concatenate([np.zeros(1), np.cumsum(weights.reshape(-1, len(table.order))[:1, table.order])])
        totals = np.diff(sums[table.first])
    g = int(np.argmax(totals))
    margins = table.find_margins(g)
    here = slice(int(table.first[g]), int(table.first[g + 1]))
    own = None if weights is None else weights[..., table.order[here]]
    axes = tuple(table.margins[k].of for k in margins)
    given = [table.get_target(k, g) for k in margins]
    _warn_of_proportions(own, here.stop - here.start, given, axes, table.name_categories(g))


def _are_attribute_pairs(targets: Any) -> bool:
    """Return whether targets are pairs of attributes and target: tuples that begin with an int or a tuple."""
    if not isinstance(targets, list) or not targets:
        return False
    return all(isinstance(pair, tuple) and len(pair) == 2 and _is_attribute(pair) for pair in targets)


def _is_attribute(pair: tuple[Any, Any]) -> bool:
    """Return whether a pair begins with an attribute: a tuple, or a scalar with an array as its target."""
    return isinstance(pair[0], tuple) or (np.ndim(pair[0]) == 0 and np.ndim(pair[1]) > 0)


def _get_target_sizes(target: Any, of: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the sizes of the axes of a target after the batch axes."""
    shape = dispatch.shape_of(target)
    return shape[len(shape) - (1 if of is None else len(of)) :]


def _read_sparse_design(design: Any, axes: tuple[tuple[int, ...], ...] | None) -> CsrMatrix | None:
    """Return a sparse design as CSR; None for a dense one."""
    if not sparse.is_sparse(design):
        return None
    if axes is not None:
        validate.refuse("design", "an array of categories, a row per attribute", "a sparse matrix", TypeError)
    return read_csr(design)


def _check_shapes(
    shape: tuple[int, ...],
    design: Any,
    weights: Any,
    given: list[Any],
    labels: list[str],
    axes: tuple[tuple[int, ...], ...] | None,
) -> tuple[int, tuple[int, ...]]:
    """Check that shapes agree; return the number of records and the shape of the batch."""
    validate.real(design=design, weights=weights, **dict(zip(labels, given, strict=True)))
    if len(shape) != 2:
        validate.refuse("design", f"of shape {'(n, K)' if axes is None else '(attributes, n)'}", f"shape {shape}")
    shapes: dict[str, tuple[int, ...]] = {}
    if axes is None:
        n = shape[0]
        shapes["targets"] = validate.vectors("targets", given[0], shape[1])
    else:
        validate.integer(design=design)
        n, sizes = shape[1], dict[int, int]()
        for name, target, of in zip(labels, given, axes, strict=True):
            if len(dispatch.shape_of(target)) < len(of):
                wanted = f"of shape (..., *categories) of {len(of)} attributes"
                validate.refuse(name, wanted, f"shape {dispatch.shape_of(target)}")
            for axis, size in zip(of, _get_target_sizes(target, of), strict=True):
                if axis >= shape[0]:
                    validate.refuse(f"attributes of {name[10:]}", f"below {shape[0]}, the rows of design", str(axis))
                if sizes.setdefault(axis, size) != size:
                    wanted = f"{sizes[axis]} categories of attribute {axis}, as a target before"
                    validate.refuse(name, f"for {wanted}", f"{size}")
            shapes[name] = dispatch.shape_of(target)[: -len(of) or None]
    if weights is not None:
        shapes["weights"] = validate.vectors("weights", weights, n)
    return n, validate.batch(**shapes)


def _validate_bounds(method: str, bounds: Any, n: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the lower and upper bounds as scalars or arrays of n, or None without bounds."""
    if method not in BOUNDED:
        if bounds is not None:
            cure = f"{' and '.join(wording.option('method', name) for name in BOUNDED)} take bounds"
            wanted = f'None with method="{method}", which has none'
            validate.refuse("bounds", wanted, f"{validate.format_value(bounds)}; {cure}")
        return None, None
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        validate.refuse("bounds", "a pair (low, high)", type(bounds).__name__, TypeError)
    low, high = (validate_values(f"bounds[{k}]", part, n) for k, part in enumerate(bounds))
    if not ((low >= 0.0) & (low <= high)).all() or np.isinf(low).any():
        validate.refuse("bounds", "0 <= low <= high, low finite", validate.format_value(bounds))
    if method == "logit" and not ((low < 1.0) & (high > 1.0) & (high < np.inf)).all():
        validate.refuse("bounds", 'low < 1 < high, finite, with method="logit"', validate.format_value(bounds))
    return low, high


def _validate_names(names: Any, n: int) -> list[str] | None:
    """Return the option `names` as texts, or None."""
    if names is None:
        return None
    return [str(name) for name in validate.names("names", names, n)]
