"""Width curve: how a geometric confusion matrix depends on the widths and the origin of the grid cells."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from cmfast._core import plotting, result_repr, validate
from cmfast._core.annotations import Array, Empty, OnFailure, Progress, Smoothing
from cmfast._core.libraries import load_pandas
from cmfast._core.progress import make_reporter
from cmfast._core.usual_options import explain_options
from cmfast.geometry import _binning
from cmfast.geometry._cell_accumulator import count_in_parts
from cmfast.geometry._diagnostics import GcmDiagnostics, compute_shapes, make_diagnostics
from cmfast.geometry._diagnostics import compute_overlaps as overlaps_of
from cmfast.geometry._grid import Grid
from cmfast.geometry._point_tables import accept_point_table
from cmfast.geometry._points import adopt_named_points, refuse_swapped_points
from cmfast.geometry._prepare_points import Rule, Weights, compute_gcm, prepare_points
from cmfast.geometry._weights import is_list, validate_bi_options
from cmfast.kernels.loading import load

COLUMNS = ("overlap", "guaranteed", "null_overlap", "pattern", "pattern_null")


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class WidthCurve:
    """Diagnostics of a set of points over several widths and origins of the cells. Print it for a table.

    Attributes
    ----------
    factors : tuple of float, length F
        Widths, as multiples of the grid's widths.
    diagnostics : tuple of GcmDiagnostics, length F
        Diagnostics for each width, at the origin of the grid.
    origins : int
        Number K of origins.
    overlaps : array of float64, shape (F, K), or (F, K, W) for a list of W weightings
        Overlap with the normalised confusion matrix; origin k is shifted back by ``k / K`` of a width on every axis.
    origin_spread : array of float64, shape (F,) or (F, W)
        Largest minus smallest overlap over the origins.
    """

    factors: tuple[float, ...]
    diagnostics: tuple[GcmDiagnostics, ...]
    origins: int
    overlaps: np.ndarray
    origin_spread: np.ndarray

    def __str__(self) -> str:
        heads = ("overlap", "guaranteed", "permuted", "pattern", "permuted", "origin")
        lines = [
            f"{'width':>5}{'cells':>10}{'alone':>7}{'unmixed':>9}  {'weights':<10}"
            + "".join(map("{:>11}".format, heads))
        ]
        for factor, d, spread in zip(self.factors, self.diagnostics, self.origin_spread, strict=True):
            columns = [np.atleast_1d(getattr(d, name)) for name in COLUMNS] + [np.atleast_1d(spread)]
            for name, *numbers in zip(d.weighting, *columns, strict=True):
                head = f"{factor:>5g}{d.n_cells:>10}{d.singleton_fraction:>7.0%}{d.unmixed_fraction:>9.0%}  {name:<10}"
                lines.append(head + "".join(f"{x:>11.3f}" for x in numbers))
        lines.append(self.explain())
        return "\n".join(lines)

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        parts = {"widths": result_repr.format_values(np.array(self.factors), "g"), "origins": str(self.origins)}
        return parts | {"origin spread": result_repr.format_largest(self.origin_spread)}

    def explain(self) -> str:
        """Return a verdict: how far the overlap varies over cell widths and origins, and over origins alone."""
        known = self.overlaps[np.isfinite(self.overlaps)]
        if not known.size:
            return "Verdict: no overlap is defined."
        low, high = float(known.min()), float(known.max())
        moved = float(np.nanmax(self.origin_spread))
        return f"Verdict: the overlap ranges from {low:.2f} to {high:.2f}, and by {moved:.2f} over the origins alone."

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per width and weighting: overlaps, and their spread over origins."""
        pd = load_pandas()
        tables = [one.to_pandas().reset_index() for one in self.diagnostics]
        for table, factor, spread in zip(tables, self.factors, self.origin_spread, strict=True):
            table.insert(0, "factor", factor)
            table["origin_spread"] = np.atleast_1d(spread)
        return pd.concat(tables, ignore_index=True)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the overlap by the width of the cells: mean and range over the origins, and permuted labels.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        ax = plotting.get_axes(ax)
        load("cmfast.display._geometry").draw_width_curve(ax, self)
        return ax


@accept_point_table
@explain_options
def width_curve(
    X: Array,
    y_true: Array,
    y_pred: Array,
    *,
    factors: Sequence[float] = (0.5, 1.0, 1.5, 2.0),
    origins: int = 5,
    weights: Weights = "bi",
    n_components: int | None = 10,
    grid: Grid | Rule = "scott",
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    n_classes: int | None = None,
    rng: "int | np.random.Generator" = 0,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> WidthCurve:
    """Compute the overlap of geometric and normalised confusion matrix over several cell widths and origins.

    Parameters
    ----------
    X, y_true, y_pred, weights, n_components, grid, smoothing, empty, n_classes, rng, on_failure, num_threads
        As for :func:`cmfast.geometric_confusion_matrix`.
    factors : sequence of float
        Widths of the cells, as multiples of the widths of `grid`; above 0.
    origins : int
        Number of origins per width, at least 1.
    progress : bool or callable, optional
        Show progress, or call it with ``(done, total)`` grids.

    Returns
    -------
    WidthCurve
        Results per width; print it for a table.

    Raises
    ------
    TypeError, ValueError
        As :func:`cmfast.geometric_confusion_matrix`; no factors, a factor not above 0, or `origins` below 1.

    Notes
    -----
    An overlap that falls as cells grow fuller, or that changes with the origin, is a property of the cells and not of
    the points; compare it with the overlap of permuted labels. Bad values, synchronisation, reproducibility: as
    :func:`cmfast.geometric_confusion_matrix`, without its DiagnosticWarning.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 5.4 and appendix D.1.

    Examples
    --------
    >>> import numpy as np
    >>> import cmfast
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 2000)
    >>> X = rng.normal(size=(2000, 2)) + y[:, None]
    >>> guess = np.clip(np.rint(X.mean(axis=1)), 0, 2).astype(int)
    >>> curve = cmfast.width_curve(
    ...     X, y, guess, weights="row", factors=(0.5, 1, 2), origins=3
    ... )
    >>> [d.n_cells > 20 for d in curve.diagnostics], curve.overlaps.shape
    ([True, True, True], (3, 3))
    """
    on_failure = validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    generator = validate.generator(rng)
    if n_classes is not None:
        n_classes = _binning.validate_n_classes(n_classes)
    origins = validate.count("origins", origins, least=1)
    # Sets have no order, and a 0-d array is a single number.
    given: Any = factors
    several = isinstance(given, Iterable) and not isinstance(given, Set | Mapping | str | bytes)
    if not several or getattr(given, "ndim", 1) == 0:
        what = f"{type(factors).__name__} {validate.format_value(factors)}"
        validate.refuse("factors", "a sequence of numbers", what, TypeError)
    widths = tuple(validate.positive("factors", factor) for factor in factors)
    if not widths:
        validate.refuse("factors", "at least one number", "none")
    bi = validate_bi_options(smoothing, empty)
    refuse_swapped_points(X, y_true, y_pred)
    points, n_classes, _ = adopt_named_points(X, y_true, y_pred, n_classes)
    common: dict[str, Any] = {"n_classes": n_classes, "num_threads": num_threads}
    asked: dict[str, Any] = {"weights": weights, "bi": bi, "on_failure": on_failure}
    known = prepare_points(points, n_components, grid, **asked, **common)
    common["n_classes"] = known.n_classes
    report = make_reporter(progress, "grids")
    single = not is_list(weights)
    diagnostics: list[GcmDiagnostics] = []
    overlaps: list[list[list[float]]] = []
    for factor in widths:
        row: list[list[float]] = []
        for k in range(origins):
            there = known.grid.scaled(factor).shifted(k / origins)
            cells = count_in_parts(known.points, there, **common)
            first = not overlaps and not row
            if first:
                _binning.report_dropped(cells.n_dropped, cells.n_points + cells.n_dropped, (), on_failure)
            once: OnFailure = on_failure if first else "ignore"
            out, found = compute_gcm(cells, weights, bi, once, num_threads, known=known.weightings)
            if k == 0:
                diagnostics.append(make_diagnostics(compute_shapes(cells), found, out, generator, single=single))
            row.append(overlaps_of(out))
            if report is not None:
                report(len(overlaps) * origins + k + 1, len(widths) * origins)
        overlaps.append(row)
    table = np.array(overlaps, np.float64)
    table = table[..., 0] if single else table
    return WidthCurve(widths, tuple(diagnostics), origins, table, np.ptp(table, axis=1))
