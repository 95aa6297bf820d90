"""Regular lattices of cells, with an origin and a width per axis, and constructors by Scott's and other rules."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from cmfast._core import dispatch, lazy, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure
from cmfast._files.archive import DamagedError, Parts
from cmfast._files.states import State
from cmfast.geometry import _dask_grid
from cmfast.geometry._points import adopt_points
from cmfast.geometry._width_rules import Columns, copy_read_only


class Grid(State):
    """A regular grid of cells: an infinite lattice, without a first or last bin.

    A coordinate x has the index ``floor((x - origin) * (1 / width))`` in float64, so the left edge belongs to the cell.

    Parameters
    ----------
    origin : sequence of float, shape (m,)
        A lattice point. Finite.
    width : sequence of float, shape (m,)
        Side lengths of a cell. Finite and above 0, as are their reciprocals.

    Attributes
    ----------
    origin, width, inverse : ndarray of float64, shape (m,)
        Read-only; `inverse` is ``1 / width``, rounded once.
    n_axes : int
        m.

    Raises
    ------
    TypeError, ValueError
        Not one-dimensional, not of one length, no axis at all, or not finite and positive.

    Notes
    -----
    Two grids are equal if all bits of both arrays are. Rules choose widths of at least the least normal number,
    2.2e-308.

    Examples
    --------
    >>> import cmfast
    >>> cmfast.Grid([0.0, 0.0], [0.5, 2.0])
    Grid(origin=[0.0, 0.0], width=[0.5, 2.0])
    """

    __slots__ = ("inverse", "origin", "width")
    origin: np.ndarray
    width: np.ndarray
    inverse: np.ndarray
    _STORED: ClassVar[Parts] = {"origin": (("<f8",), 1), "width": (("<f8",), 1)}

    def __init__(self, origin: Sequence[float] | np.ndarray, width: Sequence[float] | np.ndarray) -> None:
        arrays = {}
        for name, value in (("origin", origin), ("width", width)):
            given: dict[str, Any] = {name: value}
            (adopted,) = dispatch.adopt(**given)
            if not adapter(adopted).is_on_host(adopted):
                validate.refuse(name, "on the host", f"an array on {adapter(adopted).device(adopted)}", TypeError)
            array = adapter(adopted).to_host(adopted)
            if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
                validate.refuse(name, "real numbers", f"dtype {array.dtype}", TypeError)
            if array.ndim != 1 or array.size == 0:
                validate.refuse(name, "of shape (m,) with at least one axis", f"shape {array.shape}")
            arrays[name] = array.astype(np.float64)
            if not np.isfinite(arrays[name]).all():
                validate.refuse(name, "finite", arrays[name].tolist())
        if len(arrays["width"]) != len(arrays["origin"]):
            lengths = f"{len(arrays['width'])} for {len(arrays['origin'])}"
            validate.refuse("width", "as long as origin", lengths)
        with np.errstate(divide="ignore", over="ignore"):
            arrays["inverse"] = 1.0 / arrays["width"]
        if not ((arrays["width"] > 0) & np.isfinite(arrays["inverse"])).all():
            wanted = "above 0, with a finite reciprocal"
            validate.refuse("width", wanted, arrays["width"].tolist())
        for name, array in arrays.items():
            object.__setattr__(self, name, copy_read_only(array))

    def __setattr__(self, name: str, value: object) -> None:
        validate.fail(f"{name} cannot be set; make another Grid", AttributeError)

    def __delattr__(self, name: str) -> None:
        validate.fail(f"{name} cannot be deleted", AttributeError)

    def __reduce__(self) -> tuple[type, tuple[np.ndarray, np.ndarray]]:
        return Grid, (self.origin, self.width)

    def _get_parts(self) -> dict[str, Any]:
        """Return the parts to save."""
        return {"origin": self.origin, "width": self.width}

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Return a grid made of saved parts."""
        try:
            return cls(**parts)
        except ValueError as error:
            raise DamagedError(str(error)) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grid):
            return NotImplemented
        return self._bits() == other._bits()

    def __hash__(self) -> int:
        return hash(self._bits())

    def _bits(self) -> tuple[bytes, bytes]:
        """Return the bytes of origin and width, for exact comparison."""
        return self.origin.tobytes(), self.width.tobytes()

    def __repr__(self) -> str:
        return f"Grid(origin={self.origin.tolist()}, width={self.width.tolist()})"

    def _repr_html_(self) -> str:
        """Return the grid as HTML for notebooks."""
        parts = {
            "axes": str(self.n_axes),
            "origin": result_repr.format_values(self.origin),
            "width": result_repr.format_values(self.width),
        }
        return result_repr.render_html("Grid", parts, self.explain())

    def explain(self) -> str:
        """Return a sentence on the number of axes, the widths and the cell volume.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid([0.0, 0.0], [0.5, 2.0]).explain()
        'cells of 2 axes, 0.5 to 2 wide; the logarithm of their volume is 0'
        """
        axes = "1 axis" if self.n_axes == 1 else f"{self.n_axes} axes"
        ends = list(dict.fromkeys(f"{width:.3g}" for width in (self.width.min(), self.width.max())))
        return f"cells of {axes}, {' to '.join(ends)} wide; the logarithm of their volume is {self.log_cell_volume:.3g}"

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return len(self.origin)

    @property
    def log_cell_volume(self) -> float:
        """Natural logarithm of the volume of a cell; the volume itself may overflow in ten dimensions."""
        return float(np.log(self.width).sum())

    def scaled(self, factor: float) -> Self:
        """Return the grid with all widths multiplied by a factor and the same origin.

        Parameters
        ----------
        factor : float
            Above 0. A power of two gives nested grids, over which a geometric confusion matrix is monotone.

        Returns
        -------
        Grid

        Raises
        ------
        TypeError, ValueError
            `factor` is not a finite number above 0, or a width overflows or underflows float64.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid([0.0], [1.5]).scaled(2)
        Grid(origin=[0.0], width=[3.0])
        """
        number = validate.positive("factor", factor)
        with np.errstate(all="ignore"):
            width = self.width * number
            good = (width > 0) & np.isfinite(width) & np.isfinite(1.0 / width)
        if not good.all():
            wanted = "such that widths stay above 0 and finite, as do their reciprocals"
            validate.refuse("factor", wanted, f"{factor} for widths {self.width.tolist()}")
        return type(self)(self.origin, width)

    def shifted(self, fraction: float) -> Self:
        """Return the grid with its origin shifted back by a fraction of a width on every axis.

        Parameters
        ----------
        fraction : float
            Share of a width; a whole number gives the same cells with other indices.

        Returns
        -------
        Grid

        Raises
        ------
        TypeError, ValueError
            `fraction` is not a finite number, or the origin overflows float64.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid([0.0], [1.5]).shifted(0.5)
        Grid(origin=[-0.75], width=[1.5])
        """
        number = validate.finite("fraction", fraction)
        with np.errstate(over="ignore"):
            origin = self.origin - number * self.width
        if not np.isfinite(origin).all():
            given = f"{fraction} for widths {self.width.tolist()}"
            validate.refuse("fraction", "such that the origin stays finite", given)
        return type(self)(origin, self.width)

    @classmethod
    def scott(
        cls, X: Array, n: int | None = None, *, on_failure: OnFailure = None, num_threads: int | None = None
    ) -> Self:
        """Choose the grid by Scott's rule: widths ``3.5 sigma n**(-1 / (2 + m))``.

        Parameters
        ----------
        X : array, shape (N, m)
            Points.
        n : int, optional
            Sample size in the rule; default: the number of points. Give the size of a class for histograms of classes.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about rows that are not finite; they are left out.
            Default: as :func:`cmfast.config` says, first "warn".
        num_threads : int, optional
            Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

        Returns
        -------
        Grid
            Origin: the smallest value per axis. A constant axis gets width 1.

        Raises
        ------
        TypeError, ValueError
            Not a real (N, m) array with at least one axis and one finite row.

        Notes
        -----
        sigma is the standard deviation with divisor N, computed from coordinates quantised to 2**20 steps between the
        smallest and the largest value, summed as integers; widths are rounded to 24 significant bits. Reproducible: the
        same points give the same bits in any order and for any number of threads. For a Dask array the result is a
        ``dask.delayed.Delayed`` of the grid, with the same bits for any chunking, in two passes over the points.

        Bad values: a row that is not finite is left out, and reported once. Synchronises the device.

        References
        ----------
        Scott, Multivariate Density Estimation, second edition, equation 3.66.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid.scott([[0.0], [1.0], [2.0], [3.0]])
        Grid(origin=[0.0], width=[2.465111017227173])
        """
        if n is not None:
            n = validate.count("n", n, least=1)
        if lazy.are_lazy(X):
            lazily: Self = _dask_grid.choose_grid(cls, "scott", X, n, on_failure=on_failure, num_threads=num_threads)
            return lazily
        columns = Columns(adopt_points(X), on_failure, num_threads)
        return cls(columns.low, columns.scott(n))

    @classmethod
    def freedman_diaconis(
        cls, X: Array, n: int | None = None, *, on_failure: OnFailure = None, num_threads: int | None = None
    ) -> Self:
        """Choose the grid by the rule of Freedman and Diaconis: widths ``2 IQR n**(-1 / (2 + m))``.

        Parameters
        ----------
        X : array, shape (N, m)
            Points.
        n : int, optional
            Sample size in the rule; default: the number of points.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about rows that are not finite; they are left out.
            Default: as :func:`cmfast.config` says, first "warn".
        num_threads : int, optional
            Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

        Returns
        -------
        Grid
            Origin: the smallest value per axis. A constant axis gets width 1.

        Raises
        ------
        TypeError, ValueError
            Not a real (N, m) array with at least one axis and one finite row.

        Warns
        -----
        DiagnosticWarning
            A non-constant axis has interquartile range 0; Scott's rule is used for it.

        Notes
        -----
        Quartiles are interpolated linearly between order statistics. Memory: one column in float64.

        Bad values: a row that is not finite is left out, and reported once. Synchronises the device.
        Reproducible: same points, same bits, in any order and for any number of threads.

        References
        ----------
        Freedman and Diaconis, On the histogram as a density estimator: L2 theory, 1981.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid.freedman_diaconis([[0.0], [1.0], [2.0], [3.0]])
        Grid(origin=[0.0], width=[1.8898816108703613])
        """
        if n is not None:
            n = validate.count("n", n, least=1)
        columns = Columns(adopt_points(X), on_failure, num_threads)
        return cls(columns.low, columns.freedman_diaconis(n))

    @classmethod
    def regular(
        cls,
        X: Array,
        *,
        bins: int | Sequence[int],
        on_failure: OnFailure = None,
        num_threads: int | None = None,
    ) -> Self:
        """Choose the grid that divides the range of every axis into `bins` equal parts.

        Parameters
        ----------
        X : array, shape (N, m)
            Points.
        bins : int or sequence of int, shape (m,)
            Parts per axis, at least 1.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about rows that are not finite; they are left out.
            Default: as :func:`cmfast.config` says, first "warn".
        num_threads : int, optional
            Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

        Returns
        -------
        Grid
            Widths ``(max - min) / bins``, nudged up by single ulps until the largest value is inside the last part. A
            constant axis gets width 1.

        Raises
        ------
        TypeError, ValueError
            Not a real (N, m) array with at least one axis and one finite row; a number of bins below 1.

        Notes
        -----
        Bad values: a row that is not finite is left out, and reported once. Synchronises the device.
        Reproducible: same points, same bits, in any order and for any number of threads. For a Dask array the result is
        a ``dask.delayed.Delayed`` of the grid.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid.regular([[0.0], [1.0], [3.0]], bins=2)
        Grid(origin=[0.0], width=[1.5000000000000002])
        """
        if lazy.are_lazy(X):
            lazily: Self = _dask_grid.choose_grid(
                cls, "regular", X, bins, on_failure=on_failure, num_threads=num_threads
            )
            return lazily
        columns = Columns(adopt_points(X), on_failure, num_threads)
        return cls(columns.low, columns.regular(bins))

    @classmethod
    def occupancy(
        cls,
        X: Array,
        points_per_cell: float,
        *,
        on_failure: OnFailure = None,
        num_threads: int | None = None,
    ) -> Self:
        """Choose the grid by mean occupancy: the cell of an average point holds `points_per_cell` points.

        Parameters
        ----------
        X : array, shape (N, m)
            Points.
        points_per_cell : float
            Number of points in the cell of a point, itself included, averaged over the points. Above 1.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about rows that are not finite; they are left out.
            Default: as :func:`cmfast.config` says, first "warn".
        num_threads : int, optional
            Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

        Returns
        -------
        Grid
            The widths of Scott's rule times one common factor.

        Raises
        ------
        TypeError, ValueError
            Not a real (N, m) array with at least one axis and one finite row; `points_per_cell` not above 1.

        Notes
        -----
        The factor is found by bisection on every k-th row, about 100,000 rows. From N' of N points the mean is
        estimated as ``1 + (N - 1) s / (N' (N' - 1))``, where s is the number of ordered pairs of points that share a
        cell. If the target is never (or always) reached, the widest (or narrowest) grid tried is returned.

        Bad values: a row that is not finite is left out, and reported once. Synchronises the device.
        Reproducible: same points in the same order, same bits, for any number of threads.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid.occupancy([[0.0], [1.0], [2.0], [3.0]], 2).n_axes
        1
        """
        wanted = validate.positive("points_per_cell", points_per_cell)
        if wanted <= 1:
            validate.refuse("points_per_cell", "above 1", points_per_cell)
        columns = Columns(adopt_points(X), on_failure, num_threads)
        return cls(columns.low, columns.occupancy(wanted))


def validate_grid(grid: Any, m: int) -> Grid:
    """Validate that `grid` is a Grid of m axes and return it."""
    if not isinstance(grid, Grid):
        validate.refuse("grid", "a cmfast.Grid", type(grid).__name__, TypeError)
    if grid.n_axes != m:
        validate.refuse("grid", f"of {m} axes as X has columns", f"{grid.n_axes} axes")
    return grid
