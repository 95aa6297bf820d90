"""Totals and means of raked records, with standard errors by linearisation (Deville and Saerndal, 1992).

The linearised value of a record is the residual of its value in a regression on the columns whose totals were raked to,
weighted by the design weights; its variance is that of the sums of clusters, drawn with replacement within strata. Soft
totals enter the regression as a ridge penalty. The regression is a QR factorisation by blocks of records, whose
triangular factor's singular values tell redundant columns; iterative refinement corrects each solution.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import axis_names, bad_values, dispatch, failures, frames, validate
from cmfast._core.adapters import _columns, adapter
from cmfast._core.annotations import OnFailure
from cmfast.kernels.status import Status
from cmfast.margins._csr_matrix import CsrMatrix

KINDS = ("total", "mean")
LABEL_KINDS = "biuSU"  # dtype kinds that may label strata and clusters
LEAST_SINGULAR_VALUE = 1e-12  # relative to the largest, of columns of norm 1: below it a column is redundant
MOST_DRIFT = {4: 1e-5, 8: 1e-8}  # by bytes of a weight: relative deviation of a total from `achieved` by rounding alone
CORRECTIONS = 2  # of the solution of the regression
FEWEST_UNITS = 6  # for each independent total: with fewer, intervals held the truth in less than 90 % of samples
BLOCK_RECORDS = 8192  # least records of a block of the factorisation


class RakedRecords(NamedTuple):
    """Records as they were raked: what the variance of an estimate depends on besides the weights.

    Attributes
    ----------
    design : array, or CsrMatrix
        As the kernel took it: columns, or categories with `axes`.
    weights : array of float64, shape (..., n), or None
        A copy of the design weights.
    targets, achieved : list of arrays
        Targets, and what the weights added up to, for each margin.
    axes : tuple of tuples of int, or None
        Attributes of each margin; None for columns.
    importance : list of float, or None
        Penalty weight of each margin, or column.
    batch : tuple of int
        Shape of the batch.
    frame : table, Series or None
        The table that holds the records, as it was raked, or else a Series of pandas with their index.
    table : table, Series or None
        The same object that the caller holds, and may have changed since.
    columns : tuple of str
        Columns of the table that were raked.
    """

    design: Any
    weights: Any
    targets: list[Any]
    achieved: list[Any]
    axes: tuple[tuple[int, ...], ...] | None
    importance: list[float] | None
    batch: tuple[int, ...]
    frame: Any
    table: Any
    columns: tuple[str, ...]


class GroupedRecords(NamedTuple):
    """Records of several groups, each raked to its own totals.

    Attributes
    ----------
    groups : tuple
        Labels of the groups.
    order : array of int64, shape (n,)
        Records sorted by group.
    first : array of int64, shape (groups + 1,)
        Where the sorted records of each group begin.
    parts : list of RakedRecords
        The records of each group.
    frame, table, columns
        As :class:`RakedRecords` has them.
    """

    groups: tuple[Any, ...]
    order: np.ndarray
    first: np.ndarray
    parts: list[RakedRecords]
    frame: Any
    table: Any
    columns: tuple[str, ...]


def get_design_weights(records: RakedRecords | GroupedRecords) -> Any:
    """Return the design weights of records, in their order; None if all are 1."""
    if isinstance(records, RakedRecords):
        return records.weights
    parts = [part.weights for part in records.parts]
    if not parts or parts[0] is None:
        return None
    out = np.empty((*parts[0].shape[:-1], len(records.order)))
    out[..., records.order] = np.concatenate(parts, -1)
    return out


class SamplingUnits(NamedTuple):
    """The units that were drawn, records or clusters, and their strata.

    Attributes
    ----------
    of_record : array of int64, shape (n,)
        Unit of each record.
    strata : array of int64, shape (units,)
        Stratum of each unit.
    factors : array of float64, shape (strata,)
        Units over units less one, times the share of units that were not drawn.
    degrees : int
        Degrees of freedom: units less strata.
    """

    of_record: np.ndarray
    strata: np.ndarray
    factors: np.ndarray
    degrees: int


def keep_records(given: RakedRecords) -> RakedRecords | None:
    """Return what estimates need, with a copy of the weights; None while a transformation traces the arrays."""
    design, weights, table = given.design, given.weights, given.table
    arrays = [weights, *given.targets, *([] if isinstance(design, CsrMatrix) else [design])]
    arrays = [x for x in arrays if x is not None]
    if not all(adapter(x).has_values(x) for x in arrays):
        return None
    own = None if weights is None else np.array(adapter(weights).to_host(weights), np.float64)
    # A copy of DataFrames, so that rows that are sorted in place later are found as they were raked.
    frame = table.copy(deep=False) if hasattr(table, "iloc") else table
    return given._replace(weights=own, frame=frame)


class EstimateOptions(NamedTuple):
    """The options of an estimate as the caller gave them."""

    kind: str
    where: Any
    strata: Any
    clusters: Any
    fpc: Any
    confidence_level: float
    on_failure: OnFailure


def estimate(raked: Any, records: RakedRecords | GroupedRecords, values: Any, options: EstimateOptions) -> Any:
    """Return the Interval of a total or mean of `values`, or Intervals by name for a list of columns."""
    from cmfast.uncertainty._results import Intervals

    validate.choice("kind", options.kind, KINDS)
    level = validate.confidence_level(options.confidence_level)
    on_failure = validate.on_failure(options.on_failure)
    records = records._replace(frame=_read_table(records))
    strata, clusters, where, fpc = (
        _find_column(records, name, getattr(options, name)) for name in ("strata", "clusters", "where", "fpc")
    )
    for_records = {name: getattr(options, name) for name in ("where", "strata", "clusters", "fpc")}
    dispatch.check_row_order(design=records.frame, values=values, **for_records)
    n = dispatch.shape_of(raked)[-1]
    units = find_units(n, strata, clusters, fpc)
    one = isinstance(values, str) or not _are_names(values)
    wanted: dict[str, Any] = {values if isinstance(values, str) else "": values} if one else {x: x for x in values}
    raked, where, *columns = dispatch.adopt(
        optional=("where",),
        weights=raked,
        where=where,
        **{_name(name): _columns.fill_integer_gaps(_find_column(records, "values", x)) for name, x in wanted.items()},
    )
    inside = None if where is None else _read_mask(where, n)
    if on_failure != "ignore" and inside is not None:
        _warn_of_small_domain(len(np.unique(units.of_record[inside])), "records" if clusters is None else "clusters")
    arrays = []
    for name, column in zip(wanted, columns, strict=True):
        shape = validate.vectors(_name(name), column, n)
        host = adapter(column).to_host(column)
        arrays.append(np.asarray(host, np.float64).reshape(*shape, n))
    calibration = Calibration(raked, records)
    found = [
        calibration.estimate(
            column, inside, units, kind=options.kind, level=level, name=_name(name), on_failure=on_failure
        )
        for name, column in zip(wanted, arrays, strict=True)
    ]
    if on_failure != "ignore" and units.factors.any():
        _warn_of_few_units(
            calibration.count_units(units), calibration.rank, "records" if clusters is None else "clusters"
        )
    settings: dict[str, Any] = {"method": "linearization", "confidence_level": level, "n_resamples": 0}
    named = [axis_names.name_axes(x, {}, name, settings) for name, x in zip(wanted, found, strict=True)]
    return named[0] if one else Intervals(dict(zip(wanted, named, strict=True)), **settings)


def _warn_of_few_units(n_units: int, n_totals: int, what: str) -> None:
    """Warn if there are so few units for each independent total that intervals are too short."""
    if n_units < FEWEST_UNITS * n_totals:
        failures.warn_diagnostic(
            f"intervals are too short: {n_units} {what} for {n_totals} independent totals, of {FEWEST_UNITS} for each "
            "that are needed; rake to fewer categories, or use replicate weights"
        )


def _warn_of_small_domain(n_units: int, what: str) -> None:
    """Warn if so few units hold records of a subpopulation that its intervals are too short."""
    if n_units < FEWEST_UNITS:
        failures.warn_diagnostic(
            f"intervals are too short: where= selects so few {what}: {n_units}, of {FEWEST_UNITS} that are needed"
            if n_units
            else "where= selects no record, so that totals are 0 and means NaN"
        )


def _are_names(values: Any) -> bool:
    """Return whether `values` is a list of names of columns."""
    return isinstance(values, list | tuple) and len(values) > 0 and all(isinstance(x, str) for x in values)


def _name(name: str) -> str:
    """Return the name of an array of values for messages."""
    return f"values {name}" if name else "values"


def _read_table(records: RakedRecords | GroupedRecords) -> Any:
    """Return the table that was raked, with columns added since; as it was raked if its rows are others now."""
    kept, table = records.frame, records.table
    if not (frames.is_table(kept) and hasattr(kept, "iloc")):
        return kept
    same = table.index.equals(kept.index) and all(
        name in table.columns and table[name].equals(kept[name]) for name in records.columns
    )
    return table if same else kept


def _find_column(records: RakedRecords | GroupedRecords, option: str, x: Any) -> Any:
    """Return the column of the raked table that `x` names; `x` itself if it is no name."""
    if not isinstance(x, str):
        return x
    if not frames.is_table(records.frame):
        given = f"str {validate.format_value(x)}; names are those of columns, and no table was raked"
        validate.refuse(option, "an array", given, TypeError)
    return frames.get_column(records.frame, option, x)


def _read_mask(where: Any, n: int) -> np.ndarray:
    """Return the option `where`, one boolean for each record."""
    if adapter(where).dtype(where).kind != "b" or dispatch.shape_of(where) != (n,):
        kind = adapter(where).dtype(where)
        cure = "; compare numbers, as where == 1" if kind.kind in "iuf" and dispatch.shape_of(where) == (n,) else ""
        given = f"dtype {kind}, shape {dispatch.shape_of(where)}{cure}"
        validate.refuse("where", f"True or False for each record, shape ({n},)", given)
    mask: np.ndarray = adapter(where).to_host(where)
    return mask


def find_units(n: int, strata: Any, clusters: Any, fpc: Any) -> SamplingUnits:
    """Return the sampling units of `n` records: clusters within strata, or records."""
    names, of_record = _encode("strata", strata, n)
    unit, strata_of_units = np.arange(n), of_record
    if clusters is not None:
        pairs = of_record * (n + 1) + _encode("clusters", clusters, n)[1]
        _, first, unit = np.unique(pairs, return_index=True, return_inverse=True)
        strata_of_units = of_record[first]
    size = np.bincount(strata_of_units, minlength=len(names))
    left = _read_unsampled_shares(fpc, of_record, names, size, strata is not None)
    lonely = np.flatnonzero((size < 2) & (left > 0.0))
    if len(lonely):
        what = "cluster" if clusters is not None else "record"
        if strata is None:
            validate.fail(f"one {what} has no variance; two or more are needed")
        validate.fail(
            f"stratum {names[lonely[0]]} has one {what}, which has no variance; "
            "merge it with a similar stratum, or pass fpc= if all of it was sampled"
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = np.where(left > 0.0, left * size / (size - 1.0), 0.0)
    return SamplingUnits(unit.reshape(-1), strata_of_units, factors, len(strata_of_units) - len(names))


def _encode(name: str, labels: Any, n: int) -> tuple[list[Any], np.ndarray]:
    """Return the distinct labels, and the index of each record's."""
    from cmfast.confusion_counts import _label_codes

    if labels is None:
        return [None], np.zeros(n, np.int64)
    labels = _label_codes.convert_whole_floats(name, labels)
    found = _label_codes.encode_column(name, labels, _label_codes.OWN_CODE_SPAN, LABEL_KINDS, "labels").compact()
    codes = np.asarray(adapter(found.codes).to_host(found.codes))
    if codes.shape != (n,):
        validate.refuse(name, f"of shape ({n},), a label for each record", f"shape {codes.shape}")
    used, index = np.unique(codes, return_inverse=True)
    return [found.values[int(k)] for k in used], index.reshape(-1).astype(np.int64)


def _read_unsampled_shares(
    fpc: Any, of_record: np.ndarray, names: list[Any], size: np.ndarray, stratified: bool
) -> np.ndarray:
    """Return the share of the units of each stratum that were not sampled."""
    wanted = "numbers of units in the population, or the sampled shares of them, up to 1"
    if fpc is None:
        return np.ones(len(names))
    if isinstance(fpc, Mapping):
        if not stratified:
            validate.refuse("fpc", "a number, as there are no strata", "a dict", TypeError)
        missing = [name for name in names if name not in fpc]
        if missing:
            validate.refuse("fpc", "a dict with all strata", f"none for stratum {missing[0]}")
        given = np.array([validate.number("fpc", fpc[name]) for name in names])
    else:
        fpc = dispatch.adopt_one("fpc", fpc)
        validate.real(fpc=fpc)
        if adapter(fpc).dtype(fpc).kind == "b":
            validate.refuse("fpc", wanted, "booleans", TypeError)
        host = np.asarray(adapter(fpc).to_host(fpc), np.float64)
        if host.shape not in ((), of_record.shape):
            wanted = f"a number, or an array of shape {of_record.shape}{', or a dict by stratum' if stratified else ''}"
            validate.refuse("fpc", wanted, f"shape {host.shape}")
        if not ((host > 0.0) & np.isfinite(host)).all():
            validate.refuse("fpc", f"above 0 and finite: {wanted}", validate.format_value(host.tolist()))
        each = np.broadcast_to(host, of_record.shape)
        given = np.ones(len(names))
        given[of_record] = each
        wrong = np.flatnonzero(each != given[of_record])
        if len(wrong):
            at = f"{each[wrong[0]]:g} and {given[of_record[wrong[0]]]:g} in stratum {names[of_record[wrong[0]]]}"
            validate.refuse("fpc", "the same for all records of a stratum", at)
    if not ((given > 0.0) & np.isfinite(given)).all():
        validate.refuse("fpc", f"above 0 and finite: {wanted}", validate.format_value(given))
    share = given if (given <= 1.0).all() else size / given
    wrong = np.flatnonzero(share > 1.0)
    if len(wrong):
        what = f" of stratum {names[wrong[0]]}" if stratified else ""
        validate.refuse("fpc", f"at least {size[wrong[0]]}, the number of sampled units{what}", f"{given[wrong[0]]:g}")
    return np.asarray(1.0 - share)


class _Block:
    """Records that were raked together: their columns, design weights and targets for each element of the batch."""

    def __init__(self, records: RakedRecords, index: Any, n: int) -> None:
        self.index, self.batch = index, records.batch
        q = np.ones(n) if records.weights is None else records.weights
        self.q = q
        self.shared_weights = records.weights is None or records.weights.ndim == 1
        self.targets = self._concatenate(records.targets, records.axes)
        self.achieved = self._concatenate(records.achieved, records.axes)
        self.A = _make_matrix(records, n)
        self.p = None
        if records.importance is not None:
            p = np.array(records.importance)
            if records.axes is not None:
                cores = [np.shape(x)[-len(of) :] for x, of in zip(records.targets, records.axes, strict=True)]
                p = np.repeat(p, [int(np.prod(core)) for core in cores])
            self.p = p
        self.is_used = False  # whether its records entered an estimate
        self.rank = 0  # largest number of independent totals of the elements estimated so far
        self._kept: tuple[Any, Regression] | None = None

    def _concatenate(self, parts: list[Any], axes: tuple[tuple[int, ...], ...] | None) -> np.ndarray:
        """Return one row of values of all margins for each element of the batch."""
        flat = []
        for k, part in enumerate(parts):
            host = np.asarray(adapter(part).to_host(part), np.float64)
            core = 1 if axes is None else len(axes[k])
            host = host.reshape(*host.shape[: host.ndim - core], -1)
            flat.append(np.broadcast_to(host, (*self.batch, host.shape[-1])))
        return np.concatenate(flat, -1).reshape(-1, sum(x.shape[-1] for x in flat))

    def check(self, k: int, w: np.ndarray, itemsize: int) -> None:
        """Raise ValueError if the records, or the weights, are not those that were raked."""
        sums, sizes = self.A.T @ w, abs(self.A).T @ abs(w)
        off = abs(sums - self.achieved[k]) > MOST_DRIFT[itemsize] * sizes
        if off.any():
            validate.fail("design or weights were changed after rake; rake again, and estimate before changing them")

    def compute_residuals(self, k: int, rows: np.ndarray) -> np.ndarray:
        """Return the residuals of `rows`, shape (m, n), in the regression of element `k` of the batch."""
        asked = ~np.isnan(self.targets[k])
        penalty = np.zeros(len(asked)) if self.p is None else np.where(asked, abs(self.achieved[k]) / self.p, 0.0)
        key = (0 if self.shared_weights else k, asked.tobytes(), penalty.tobytes())
        if self._kept is None or self._kept[0] != key:
            A = self.A if asked.all() else self.A[:, np.flatnonzero(asked)]
            q = np.broadcast_to(self.q, (*self.batch, self.q.shape[-1])).reshape(-1, self.q.shape[-1])[k]
            self._kept = (key, Regression(A, q, penalty[asked]))
            self.rank = max(self.rank, self._kept[1].inverse.shape[1])
        return np.stack([self._kept[1].compute_residuals(row) for row in rows])


class Calibration:
    """The raked weights of a batch of sets of records, in blocks that were raked each to its own totals."""

    def __init__(self, raked: Any, records: RakedRecords | GroupedRecords) -> None:
        self.like = raked
        self.w = adapter(raked).to_host(raked)
        self.itemsize = self.w.dtype.itemsize
        n = self.w.shape[-1]
        self.w = np.asarray(self.w, np.float64).reshape(-1, n)
        if isinstance(records, RakedRecords):
            self.batch = records.batch
            self.blocks = [_Block(records, slice(None), n)]
        else:
            self.batch = dispatch.shape_of(raked)[:-1]
            ranges = [records.order[i:j] for i, j in pairwise(records.first)]
            self.blocks = [_Block(own, at, len(at)) for own, at in zip(records.parts, ranges, strict=True)]

    @property
    def rank(self) -> int:
        """Number of independent totals of the blocks that entered estimates."""
        return sum(block.rank for block in self.blocks)

    def count_units(self, units: SamplingUnits) -> int:
        """Return the number of units with records in the blocks that entered estimates."""
        if len(self.blocks) == 1:
            return len(units.strata)
        used = [units.of_record[block.index] for block in self.blocks if block.is_used]
        return len(np.unique(np.concatenate(used))) if used else 0

    def estimate(
        self,
        values: np.ndarray,
        where: np.ndarray | None,
        units: SamplingUnits,
        *,
        kind: str,
        level: float,
        name: str,
        on_failure: OnFailure,
    ) -> Any:
        """Return the Interval of the total or mean of `values`, float64 of shape (..., n)."""
        from scipy.special import stdtrit

        from cmfast.uncertainty._results import Interval

        n, shape = values.shape[-1], validate.batch(weights=self.batch, values=values.shape[:-1])
        inside = np.ones(n, np.bool_) if where is None else where
        rows = np.where(inside, values.reshape(-1, n), 0.0)
        good = np.asarray(np.isfinite(rows).all(-1))
        rows[~good] = 0.0
        scale = abs(rows).max(-1, initial=0.0)  # so that squares of large values do not overflow
        scale[scale == 0.0] = 1.0
        rows = rows / scale[:, None]
        of_weights, of_values = (
            np.broadcast_to(np.arange(int(np.prod(batch))).reshape(batch), shape).reshape(-1)
            for batch in (self.batch, values.shape[:-1])
        )
        estimates, errors = np.full((2, len(of_weights)), np.nan)
        for k in np.unique(of_weights):
            at = np.flatnonzero(of_weights == k)
            w = self._read_weights(int(k), inside)
            if w is None:
                continue
            used = of_values[at]
            with np.errstate(all="ignore"):  # a mean over no weight is NaN
                totals, variances = self._estimate_one(int(k), w, rows[used], inside, units, kind)
                estimates[at], errors[at] = totals * scale[used], np.sqrt(variances) * scale[used]
        bad = ~good[of_values]
        beyond = ~bad & (np.isinf(estimates) | np.isinf(errors))
        estimates[bad | beyond] = errors[bad | beyond] = np.nan
        status = np.where(bad, Status.INVALID, np.where(beyond, Status.RANGE, Status.CONVERGED))
        status = status.astype(np.int8).reshape(shape)[()]

        def describe(index: tuple[int, ...]) -> str:
            """Return a text that names the first bad value of the element at `index`."""
            row = np.broadcast_to(values, (*shape, n))[index]
            if np.isfinite(row[inside]).all():
                return "the estimate is beyond the range of float64"
            said = bad_values.describe_first(name, row, ~np.isfinite(row) & inside)
            return f"{said}; pass where= to leave records out"

        failures.report(status, on_failure, failed="estimates not computed", describe=describe)
        t = stdtrit(units.degrees, 0.5 + level / 2) if units.degrees else 0.0
        parts = (estimates, estimates - t * errors, estimates + t * errors, errors, np.zeros(len(errors), np.int64))
        if isinstance(self.like, np.ndarray):
            return Interval(*(x.reshape(shape)[()] for x in parts))
        like = adapter(self.like)
        return Interval(*(like.from_host(x.reshape(shape), self.like) for x in parts))

    def _read_weights(self, k: int, inside: np.ndarray) -> np.ndarray | None:
        """Return the weights of element `k` of the batch; None if they are NaN in a block that the estimate needs.

        Weights of other blocks that could not be raked are 0, as the values of their records are.
        """
        w: np.ndarray = self.w[k]
        if np.isfinite(w).all():
            return w
        lost = [block for block in self.blocks if not np.isfinite(w[block.index]).all()]
        if len(self.blocks) == 1 or any(inside[block.index].any() for block in lost):
            return None
        w = w.copy()
        for block in lost:
            w[block.index] = 0.0
        return w

    def _compute_residuals(self, k: int, w: np.ndarray, rows: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """Return the residuals of `rows`, shape (m, n), which are 0 in blocks without records `inside`."""
        residuals = np.zeros_like(rows)
        for block in self.blocks:
            if len(self.blocks) == 1 or inside[block.index].any():
                block.is_used = True
                block.check(k, w[block.index], self.itemsize)
                residuals[:, block.index] = block.compute_residuals(k, rows[:, block.index])
        return residuals

    def _estimate_one(
        self, k: int, w: np.ndarray, rows: np.ndarray, inside: np.ndarray, units: SamplingUnits, kind: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimates of `rows`, shape (m, n), by the weights of element `k` of the batch, and variances."""
        residuals = self._compute_residuals(k, w, np.concatenate([rows, inside[None]]), inside)
        if kind == "total":
            return np.array([row @ w for row in rows]), _compute_variance(w * residuals[:-1], units)
        shares = w / (w @ inside)
        means = np.array([row @ shares for row in rows])
        return means, _compute_variance(shares * (residuals[:-1] - means[:, None] * residuals[-1]), units)


def _make_matrix(records: RakedRecords, n: int) -> Any:
    """Return the columns whose totals were raked to: an array, or a csr_array of SciPy."""
    from scipy.sparse import csr_array

    design, axes = records.design, records.axes
    columns: list[Any]
    if isinstance(design, CsrMatrix):
        return csr_array((np.asarray(design.values, np.float64), design.columns, design.first), shape=design.shape)
    host = adapter(design).to_host(design)
    if axes is None:
        return np.asarray(host, np.float64)
    columns, start = [], 0
    for target, of in zip(records.targets, axes, strict=True):
        shape = dispatch.shape_of(target)[-len(of) :]
        columns.append(start + np.ravel_multi_index(tuple(host[axis].astype(np.int64) for axis in of), shape))
        start += int(np.prod(shape))
    index = np.stack(columns, 1).reshape(-1)
    return csr_array((np.ones(len(index)), index, np.arange(0, len(index) + 1, len(axes))), shape=(n, start))


class Regression:
    """Least squares on the columns of A, shape (n, K), with weights q and a ridge penalty for each column.

    Attributes
    ----------
    inverse : array, shape (K, rank)
        Times its transpose: the pseudo-inverse of the normal equations.
    """

    def __init__(self, A: Any, q: np.ndarray, penalty: np.ndarray) -> None:
        from scipy.linalg import svd

        self.A, self.q, self.penalty = A, q, penalty
        n, K = A.shape
        root, size = np.sqrt(q), max(BLOCK_RECORDS, 4 * K)
        factor: Any = np.diag(np.sqrt(penalty)) if penalty.any() else np.zeros((0, K))
        for start in range(0, n if K else 0, size):
            here = slice(start, start + size)
            block = A[here] if isinstance(A, np.ndarray) else A[here].toarray()
            factor = np.linalg.qr(np.concatenate([factor, block * root[here, None]]), mode="r")
        norms = np.sqrt((factor**2).sum(0))
        norms[norms == 0.0] = 1.0
        _, sizes, directions = svd(factor / norms, full_matrices=False) if factor.size else (0, np.zeros(0), factor)
        kept = sizes > LEAST_SINGULAR_VALUE * sizes.max(initial=0.0)
        self.inverse = directions[kept].T / sizes[kept] / norms[:, None]

    def compute_residuals(self, y: np.ndarray) -> np.ndarray:
        """Return the residuals of `y`, shape (n,); corrections take the rounding errors of the first solution away."""
        b, e = np.zeros(self.A.shape[1]), y
        for _ in range(1 + CORRECTIONS):
            b = b + self.inverse @ (self.inverse.T @ (self.A.T @ (self.q * e) - self.penalty * b))
            e = y - self.A @ b
        return e


def _compute_variance(linear: np.ndarray, units: SamplingUnits) -> np.ndarray:
    """Return the variance of the sums of linearised values, shape (m, n), over clusters drawn within strata."""
    variance = np.zeros(len(linear))
    size = np.bincount(units.strata, minlength=len(units.factors))
    for k, row in enumerate(linear):
        sums = np.bincount(units.of_record, row, len(units.strata))
        mean = np.bincount(units.strata, sums, len(size)) / size
        squares = np.bincount(units.strata, (sums - mean[units.strata]) ** 2, len(size))
        variance[k] = units.factors @ squares
    return variance
