"""Diagnostics of a geometric confusion matrix: guaranteed agreement, and the null of permuted labels."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, plotting, result_frames, result_repr, wording
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.geometry import _permutation_null
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._weights import Weighting, merge_statuses
from cmfast.kernels.loading import load
from cmfast.kernels.status import Status

MOST_GUARANTEED = 0.8
FEWEST_CELLS = 100
FEW_SINGLETONS = 0.05  # share of points alone in their cell
MOST_MISSING = 0.02
DEVIATIONS = 3.0
FRAME_COLUMNS = ("overlap", "guaranteed", "null_overlap", "null_sd", "position", "pattern", "pattern_null")


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class GcmDiagnostics:
    """Diagnostics for reading a geometric confusion matrix (GCM). Print it for a table.

    Attributes after `weighting` are numbers or matrices for one weighting, with a leading axis for a list.

    Attributes
    ----------
    n_points, n_dropped : int
        Points counted, and points left out because a coordinate is not finite. No points are counted if no weighting
        exists.
    n_cells, n_triples : int
        Occupied cells; distinct triples (cell, label, prediction).
    bins : tuple of int
        Number of cells from the first to the last occupied one, per axis.
    key_bits : int
        Bits of a key: cell, label and prediction.
    occupancy : (ndarray, ndarray) of int64
        Cell sizes that occur, and the number of cells of each size.
    singleton_fraction : float
        Share of points that are alone in their cell.
    pure_fraction, unmixed_fraction : float
        Share of points in cells of one label and one prediction; in cells of one label or one prediction. In an unmixed
        cell the GCM equals the normalised confusion matrix by construction.
    largest_cell : int
        Points in the fullest cell.
    pair_work : int
        Pairs (label, prediction) in mixed cells: the terms of the GCM.
    weighting : tuple of str
        Names of the weightings.
    status : int8
        Code of :class:`cmfast.Status` of the weighting; LIMIT_ONLY: its weights are those of a limit.
    normalized : array of float64, shape (C, C)
        ``weights * M``, the normalised confusion matrix to compare the GCM with; a lower bound of the GCM.
    upper : array of float64, shape (C, C)
        Upper bound: the smaller mass of the two histograms, reached when all points share one cell.
    overlap : float
        Overlap of `normalized` with the GCM.
    guaranteed : float
        ``sum(normalized) / sum(GCM)``, a lower bound of `overlap`.
    null_overlap, null_sd : float
        Expected overlap if the pairs (label, prediction) are permuted over the points, by simulation; its standard
        deviation.
    position : float
        Position of the GCM between `upper` (0) and `normalized` (1).
    pattern, pattern_null : float
        Overlap of the off-diagonal excess ``GCM - normalized`` with the off-diagonal of `normalized`, of the data and
        expected under permutation. Sparse cells do not bias it, but it is meaningless if few points are in mixed cells.
    missing_mass : float
        For ``"bi"`` with smoothing: share of the mass in cells of the matrix without points.
    weight_error : float
        Bound of the relative error of the GCM due to rounding the weights.
    """

    n_points: int
    n_dropped: int
    n_cells: int
    n_triples: int
    bins: tuple[int, ...]
    key_bits: int
    occupancy: tuple[np.ndarray, np.ndarray]
    singleton_fraction: float
    pure_fraction: float
    unmixed_fraction: float
    largest_cell: int
    pair_work: int
    weighting: tuple[str, ...]
    status: Any
    normalized: Array
    upper: Array
    overlap: Any
    guaranteed: Any
    null_overlap: Any
    null_sd: Any
    position: Any
    pattern: Any
    pattern_null: Any
    missing_mass: Any
    weight_error: Any

    def __str__(self) -> str:
        mean = self.n_points / self.n_cells if self.n_cells else 0.0
        lines = [
            f"{self.n_points} points ({self.n_dropped} left out) in {self.n_cells} cells, {mean:.1f} per cell",
            f"alone in their cell {self.singleton_fraction:.0%}, in unmixed cells {self.unmixed_fraction:.0%}",
            f"{'weights':<12}{'overlap':>9}{'guaranteed':>12}{'permuted':>10}{'+-':>8}{'pattern':>9}{'permuted':>10}",
        ]
        columns = (self.overlap, self.guaranteed, self.null_overlap, self.null_sd, self.pattern, self.pattern_null)
        for name, *numbers in zip(self.weighting, *map(np.atleast_1d, columns), strict=True):
            widths = (9, 12, 10, 8, 9, 10)
            lines.append(f"{name:<12}" + "".join(f"{x:>{w}.3f}" for x, w in zip(numbers, widths, strict=True)))
        lines.append(self.explain())
        return "\n".join(lines)

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        parts = {"points": f"{self.n_points:,}", "cells": f"{self.n_cells:,}"}
        parts |= {"weights": ", ".join(self.weighting), "status": result_repr.format_statuses(self.status)}
        shown = {"overlap": self.overlap, "guaranteed": self.guaranteed, "permuted": self.null_overlap}
        return parts | {name: result_repr.format_values(value, ".3f") for name, value in shown.items()}

    def explain(self) -> str:
        """Return the verdict, the last line of the printed table: whether the agreement is evidence of geometry."""
        found = list_caveats(self)
        if found:
            return f"Verdict: this says little about geometry: {'; '.join(found)}."
        columns = (self.overlap, self.null_overlap, self.guaranteed)
        known = [row for row in zip(*map(np.atleast_1d, columns), strict=True) if np.isfinite(row).all()]
        if not known:
            none = not any(Status(int(code)).ok for code in np.atleast_1d(self.status))
            return f"Verdict: no overlap is defined{', as the weights do not exist' if none else ''}."
        overlap, permuted, guaranteed = min(known, key=lambda row: row[0] - row[1])
        return (
            f"Verdict: the overlap of {overlap:.2f} is above the {permuted:.2f} of permuted labels, and not all of it "
            f"was guaranteed ({guaranteed:.2f}): it is evidence that classes overlap as they are confused."
        )

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per weighting: overlaps, and those of permuted labels."""
        columns = {name: np.atleast_1d(getattr(self, name)) for name in FRAME_COLUMNS}
        columns["weighting"] = np.array(self.weighting)
        return result_frames.make_frame(columns, ("entry",)).drop(columns="entry").set_index("weighting")

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the overlap of each weighting, the part of it that was guaranteed, and that of permuted labels.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        ax = plotting.get_axes(ax, (5.6, 1.9 + 0.35 * len(self.weighting)))
        load("cmfast.display._geometry").draw_overlaps(ax, self)
        return ax


def warn_if_uninformative(found: GcmDiagnostics) -> GcmDiagnostics:
    """Issue one DiagnosticWarning if there are caveats; return the diagnostics `found`."""
    why = list_caveats(found)
    if why:
        failures.warn_diagnostic("; ".join(why))
    return found


def compute_overlaps(out: Any) -> list[float]:
    """Return the overlap of normalised and geometric matrix for each weighting, from the kernel's output `out`."""
    matrix, normalized = (adapter(x).to_host(x) for x in out[:2])
    return [_compute_overlap(a, b) for a, b in zip(normalized, matrix, strict=True)]


class Shapes(NamedTuple):
    """Statistics of the cells that the diagnostics need besides the kernel's sums, on the host."""

    matrix: np.ndarray
    n_points: int
    n_dropped: int
    n_triples: int
    bins: tuple[int, ...]
    key_bits: int
    sizes: np.ndarray
    number: np.ndarray
    totals: np.ndarray


def compute_shapes(cells: CellCounts) -> Shapes:
    """Return the :class:`Shapes` of cell counts: matrix, sizes of cells and totals."""
    found = dispatch.call("cell_shapes", cells._keys, cells.counts, n_classes=cells.n_classes)
    to_host = adapter(cells.counts).to_host
    M = to_host(cells.confusion_matrix())
    numbers = int(M.sum()), cells.n_dropped, len(cells), cells.bins, cells.key_bits
    return Shapes(M, *numbers, *map(to_host, found))


def make_diagnostics(
    cells: Shapes, weightings: list[Weighting], out: Any, rng: "np.random.Generator", *, single: bool
) -> GcmDiagnostics:
    """Compute the diagnostics from the kernel's output `out`, simulating the null of permuted labels."""
    codes = merge_statuses(weightings, out)
    matrix, normalized, upper, error = (adapter(x).to_host(x) for x in out[:4])
    sizes, number = cells.sizes, cells.number
    n_cells, pure, unmixed, pair_work = map(int, cells.totals)
    n_points = cells.n_points
    W = np.array([adapter(w.table).to_host(w.table) for w in weightings], np.float64).reshape(matrix.shape)
    W[np.isnan(matrix).any(axis=(1, 2))] = np.nan
    null = _permutation_null.make_nan_null(W)
    if not np.isnan(W).all(axis=(1, 2)).all():
        null = _permutation_null.simulate_null(cells.matrix, W, normalized, sizes, number, rng)
    excess = matrix - normalized
    values = {
        "overlap": compute_overlaps(out),
        "guaranteed": [_divide(a.sum(), b.sum()) for a, b in zip(normalized, matrix, strict=True)],
        "null_overlap": null.overlap,
        "null_sd": np.where(np.isnan(null.overlap), np.nan, null.sd),
        "position": [_divide((u - g).sum(), (u - a).sum()) for u, g, a in zip(upper, matrix, normalized, strict=True)],
        "pattern": [_compute_overlap(*map(_clip_off_diagonal, pair)) for pair in zip(normalized, excess, strict=True)],
        "pattern_null": [
            _compute_overlap(*map(_clip_off_diagonal, pair)) for pair in zip(normalized, null.excess, strict=True)
        ],
        "missing_mass": [
            _compute_missing_share(a, w.mass) if w.name == "bi" else 0.0
            for w, a in zip(weightings, normalized, strict=True)
        ],
        "weight_error": error,
    }
    arrays = {name: np.array(x, np.float64) for name, x in values.items()}
    return GcmDiagnostics(
        n_points=n_points,
        n_dropped=cells.n_dropped,
        n_cells=n_cells,
        n_triples=cells.n_triples,
        bins=cells.bins,
        key_bits=cells.key_bits,
        occupancy=(sizes, number),
        singleton_fraction=_divide(number[sizes == 1].sum(), n_points),
        pure_fraction=_divide(pure, n_points),
        unmixed_fraction=_divide(unmixed, n_points),
        largest_cell=int(sizes.max(initial=0)),
        pair_work=pair_work,
        weighting=tuple(w.name for w in weightings),
        status=codes[0] if single else codes,
        normalized=out[1][0, ...] if single else out[1],
        upper=out[2][0, ...] if single else out[2],
        **{name: float(x[0]) if single else x for name, x in arrays.items()},
    )


def list_caveats(found: GcmDiagnostics) -> list[str]:
    """Return the reasons why the agreement says little about geometry; an empty list without any."""
    why: list[str] = []
    if not any(Status(int(code)).ok for code in np.atleast_1d(found.status)):
        return why
    names = ("overlap", "guaranteed", "null_overlap", "null_sd", "missing_mass")
    arrays = {name: np.atleast_1d(np.asarray(getattr(found, name))) for name in names}
    guaranteed = arrays["guaranteed"].max(initial=0.0, where=np.isfinite(arrays["guaranteed"]))
    if guaranteed > MOST_GUARANTEED:
        why.append(
            f"{guaranteed:.0%} of the agreement is guaranteed, because most points lie in cells of one label or one "
            "prediction: the result is the normalised confusion matrix by construction "
            f"({_suggest_fuller_cells(found)})"
        )
    above = arrays["overlap"] - arrays["null_overlap"]
    if (above <= DEVIATIONS * arrays["null_sd"]).any():
        why.append("the overlap is not above that of permuted labels")
    if found.n_cells < FEWEST_CELLS:
        more, narrower = wording.option("n_components"), wording.option("grid")
        cells = "is only 1 occupied cell" if found.n_cells == 1 else f"are only {found.n_cells} occupied cells"
        why.append(f"there {cells} (take more axes by {more}, or narrower cells by {narrower})")
    missing = arrays["missing_mass"].max(initial=0.0, where=np.isfinite(arrays["missing_mass"]))
    if missing > MOST_MISSING:
        why.append(f"smoothing puts {missing:.1%} of the bi-normalised mass where there are no points")
    return why


def _suggest_fuller_cells(found: GcmDiagnostics) -> str:
    """Return a text on how full the cells are, and how to change the grid so that labels share cells."""
    axes = len(found.bins)
    cells = "1 cell" if found.n_cells == 1 else f"{found.n_cells:,} cells"
    said = f"{found.n_points:,} points in {cells} on {axes} {'axis' if axes == 1 else 'axes'}"
    said += f", {found.singleton_fraction:.0%} alone in theirs"
    few = f", as {wording.option('n_components', 2)} or 3" if axes > 3 else f" by {wording.option('n_components')}"
    wider = f"wider cells, {wording.example('grid=cmfast.Grid.scott(points).scaled(2)')}"
    cure = f"fewer axes{few}, or {wider}" if axes > 1 else wider
    if found.singleton_fraction < FEW_SINGLETONS:
        return f"{said}: the classes are separated there; to make them overlap anyway take {cure}"
    return f"{said}; take {cure}"


def _divide(part: Any, whole: Any) -> float:
    """Return part / whole; NaN if the whole is 0."""
    return float(part) / float(whole) if whole else np.nan


def _compute_overlap(S: np.ndarray, T: np.ndarray) -> float:
    """Return the overlap sum(min(s, t)) of two matrices divided by their totals; NaN if a total is 0."""
    if not (S.sum() > 0 and T.sum() > 0):
        return np.nan
    return min(1.0, float(np.minimum(S / S.sum(), T / T.sum()).sum()))


def _clip_off_diagonal(S: np.ndarray) -> np.ndarray:
    """Return the nonnegative off-diagonal part of a matrix."""
    off: np.ndarray = np.maximum(S, 0.0)  # rounding may leave small negative values
    np.fill_diagonal(off, 0.0)
    return off


def _compute_missing_share(normalized: np.ndarray, mass: float) -> float:
    """Return the share of `mass` that is not in the normalised matrix."""
    return 1.0 - _divide(normalized.sum(), mass) if normalized.any() else np.nan
