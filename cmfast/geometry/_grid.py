"""Regular grids: an origin, a width per axis, and the rules that choose them from data."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any, Self

import numpy as np

from cmfast._core import caller, dispatch, failures, validate
from cmfast._core.annotations import Array, OnFailure

WIDTH_BITS = 24  # widths are rounded to so many significant bits
STEPS = 2**20  # of the integers that moments are taken of; see kernels.cpu.columns
SAMPLE = 100_000  # points that `occupancy` looks at
HALVINGS = 20
LEAST_WIDTH = float(np.finfo(np.float64).tiny)  # the reciprocals of much smaller ones are not finite
MOST_WIDTH = float(np.ldexp(2.0**WIDTH_BITS - 1, 1024 - WIDTH_BITS))
MOST_BINS = 2**53  # more could not be told apart


class Grid:
    """A regular grid of cells: an infinite lattice without first or last bin.

    A coordinate x has the index ``floor((x - origin) * (1 / width))`` in float64, so the left edge belongs to the cell.

    Parameters
    ----------
    origin : sequence of float, shape (m,)
        A corner of the lattice. Finite.
    width : sequence of float, shape (m,)
        Edges of a cell. Finite and above 0, as are their reciprocals.

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
    Two grids are equal if all bits of both arrays are. No rule gives a width below the least normal number, 2.2e-308.

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

    def __init__(self, origin: Sequence[float] | np.ndarray, width: Sequence[float] | np.ndarray) -> None:
        arrays = {}
        for name, value in (("origin", origin), ("width", width)):
            given: dict[str, Any] = {name: value}
            (adopted,) = dispatch.adopt("Grid", **given)
            if dispatch.meta(adopted).device != "cpu":
                validate.refuse("Grid", name, "on the host", f"an array on {dispatch.meta(adopted).device}", TypeError)
            array = np.asarray(dispatch.to_host(adopted))
            if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
                validate.refuse("Grid", name, "real numbers", f"dtype {array.dtype}", TypeError)
            if array.ndim != 1 or array.size == 0:
                validate.refuse("Grid", name, "of shape (m,) with at least one axis", f"shape {array.shape}")
            arrays[name] = array.astype(np.float64)
            if not np.isfinite(arrays[name]).all():
                validate.refuse("Grid", name, "finite", arrays[name].tolist())
        if len(arrays["width"]) != len(arrays["origin"]):
            lengths = f"{len(arrays['width'])} for {len(arrays['origin'])}"
            validate.refuse("Grid", "width", "as long as origin", lengths)
        with np.errstate(divide="ignore", over="ignore"):
            arrays["inverse"] = 1.0 / arrays["width"]
        if not ((arrays["width"] > 0) & np.isfinite(arrays["inverse"])).all():
            wanted = "above 0, with a finite reciprocal"
            validate.refuse("Grid", "width", wanted, arrays["width"].tolist())
        for name, array in arrays.items():
            # Of bytes, so that nobody can make them writable again.
            object.__setattr__(self, name, np.frombuffer(array.tobytes()))

    def __setattr__(self, name: str, value: object) -> None:
        msg = f"Grid: {name} cannot be set; make another Grid"
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        msg = f"Grid: {name} cannot be deleted"
        raise AttributeError(msg)

    def __reduce__(self) -> tuple[type, tuple[np.ndarray, np.ndarray]]:
        return Grid, (self.origin, self.width)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grid):
            return NotImplemented
        return self._bits() == other._bits()

    def __hash__(self) -> int:
        return hash(self._bits())

    def _bits(self) -> tuple[bytes, bytes]:
        return self.origin.tobytes(), self.width.tobytes()

    def __repr__(self) -> str:
        return f"Grid(origin={self.origin.tolist()}, width={self.width.tolist()})"

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return len(self.origin)

    @property
    def log_cell_volume(self) -> float:
        """Natural logarithm of the volume of a cell; the volume itself may overflow in ten dimensions."""
        return float(np.log(self.width).sum())

    def scaled(self, factor: float) -> Self:
        """Return the grid with all widths times a factor and the same origin.

        Parameters
        ----------
        factor : float
            Above 0. A power of two gives nested grids, on which a geometric confusion matrix is monotone.

        Returns
        -------
        Grid

        Raises
        ------
        TypeError, ValueError
            `factor` is no finite number above 0, or a width leaves the range of float64.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid([0.0], [1.5]).scaled(2)
        Grid(origin=[0.0], width=[3.0])
        """
        number = validate.positive("Grid.scaled", "factor", factor)
        with np.errstate(all="ignore"):
            width = self.width * number
            good = (width > 0) & np.isfinite(width) & np.isfinite(1.0 / width)
        if not good.all():
            wanted = "such that widths stay above 0 and finite, as do their reciprocals"
            validate.refuse("Grid.scaled", "factor", wanted, f"{factor} for widths {self.width.tolist()}")
        return type(self)(self.origin, width)

    def shifted(self, fraction: float) -> Self:
        """Return the grid whose origin is moved back by a fraction of a width on every axis.

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
            `fraction` is no finite number, or the origin leaves the range of float64.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid([0.0], [1.5]).shifted(0.5)
        Grid(origin=[-0.75], width=[1.5])
        """
        number = validate.finite("Grid.shifted", "fraction", fraction)
        with np.errstate(over="ignore"):
            origin = self.origin - number * self.width
        if not np.isfinite(origin).all():
            given = f"{fraction} for widths {self.width.tolist()}"
            validate.refuse("Grid.shifted", "fraction", "such that the origin stays finite", given)
        return type(self)(origin, self.width)

    @classmethod
    def scott(
        cls, X: Array, n: int | None = None, *, on_failure: OnFailure = "warn", num_threads: int | None = None
    ) -> Self:
        """Scott's rule: widths ``3.5 sigma n**(-1 / (2 + m))``.

        Parameters
        ----------
        X : array, shape (N, m)
            Points.
        n : int, optional
            Sample size in the rule; default: the number of points. Give the size of a class for histograms of classes.
        on_failure : {"warn", "raise", "ignore"}
            What to do about rows that are not finite; they take part in nothing.
        num_threads : int, optional
            Most threads to use; default: what the process may use.

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
        sigma is the standard deviation with divisor N, of positions on a scale of 2**20 steps between the smallest and
        the largest value, summed as integers; widths are rounded to 24 significant bits. So the same points give the
        same bits in any order and for any number of threads: reproducible.

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
        op = "Grid.scott"
        if n is not None:
            n = validate.count(op, "n", n, least=1)
        columns = _Columns(op, X, on_failure, num_threads)
        return cls(columns.low, columns.scott(n))

    @classmethod
    def freedman_diaconis(
        cls, X: Array, n: int | None = None, *, on_failure: OnFailure = "warn", num_threads: int | None = None
    ) -> Self:
        """Rule of Freedman and Diaconis: widths ``2 IQR n**(-1 / (2 + m))``.

        Parameters
        ----------
        X : array, shape (N, m)
            Points.
        n : int, optional
            Sample size in the rule; default: the number of points.
        on_failure : {"warn", "raise", "ignore"}
            What to do about rows that are not finite; they take part in nothing.
        num_threads : int, optional
            Most threads to use; default: what the process may use.

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
            An axis whose values differ has interquartile range 0: Scott's rule is used for it.

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
        op = "Grid.freedman_diaconis"
        if n is not None:
            n = validate.count(op, "n", n, least=1)
        columns = _Columns(op, X, on_failure, num_threads)
        lower, upper = dispatch.to_host(dispatch.call("column_quartiles", columns.X))
        spread = [Decimal(float(b)) - Decimal(float(a)) for a, b in zip(lower, upper, strict=True)]
        flat = [d for d, s in enumerate(spread) if s == 0 and columns.high[d] > columns.low[d]]
        scott = columns.scott(n)
        if flat:
            axes = ", ".join(map(str, flat))
            text = f"{caller.name(op)}: the interquartile range of axis {axes} is 0; Scott's rule is used there"
            failures.diagnose(text)
        width = [scott[d] if s == 0 else columns.rule(2 * s, n) for d, s in enumerate(spread)]
        return cls(columns.low, width)

    @classmethod
    def regular(
        cls,
        X: Array,
        *,
        bins: int | Sequence[int],
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
    ) -> Self:
        """Cut the range of every axis into `bins` equal parts.

        Parameters
        ----------
        X : array, shape (N, m)
            Points.
        bins : int or sequence of int, shape (m,)
            Parts per axis, at least 1.
        on_failure : {"warn", "raise", "ignore"}
            What to do about rows that are not finite; they take part in nothing.
        num_threads : int, optional
            Most threads to use; default: what the process may use.

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
        Reproducible: same points, same bits, in any order and for any number of threads.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid.regular([[0.0], [1.0], [3.0]], bins=2)
        Grid(origin=[0.0], width=[1.5000000000000002])
        """
        op = "Grid.regular"
        columns = _Columns(op, X, on_failure, num_threads)
        m = len(columns.low)
        given: Any = bins
        given = given.tolist() if hasattr(given, "tolist") else given  # NumPy's integers are no int
        many = list(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else [given] * m
        if len(many) != m:
            validate.refuse(op, "bins", f"one number or {m}", f"{len(many)} numbers")
        parts = [validate.count(op, "bins", b, least=1, most=None) for b in many]
        if max(parts) > MOST_BINS:
            validate.refuse(op, "bins", "at most 2**53", max(parts))
        width = np.ones(m)
        for d in np.flatnonzero(columns.high > columns.low):
            length = columns.high[d] - columns.low[d]
            h = max(length / parts[d], LEAST_WIDTH)
            while np.floor(length * (1.0 / h)) >= parts[d]:
                h = np.nextafter(h, np.inf)
            width[d] = h
        return cls(columns.low, width)

    @classmethod
    def occupancy(
        cls,
        X: Array,
        points_per_cell: float,
        *,
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
    ) -> Self:
        """Widths so wide that the cell of an average point holds `points_per_cell` points.

        Parameters
        ----------
        X : array, shape (N, m)
            Points.
        points_per_cell : float
            Number of points in the cell of a point, itself included, averaged over the points. Above 1.
        on_failure : {"warn", "raise", "ignore"}
            What to do about rows that are not finite; they take part in nothing.
        num_threads : int, optional
            Most threads to use; default: what the process may use.

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
        The factor is found by bisection on every k-th row, about 100,000 of them. From N' of N points the mean is
        estimated as ``1 + (N - 1) s / (N' (N' - 1))``, s the number of ordered pairs of them that share a cell. Where
        that many points are never (or always) together, the widest (or narrowest) grid tried is returned.

        Bad values: a row that is not finite is left out, and reported once. Synchronises the device.
        Reproducible: same points in the same order, same bits, for any number of threads.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid.occupancy([[0.0], [1.0], [2.0], [3.0]], 2).n_axes
        1
        """
        op = "Grid.occupancy"
        wanted = validate.positive(op, "points_per_cell", points_per_cell)
        if wanted <= 1:
            validate.refuse(op, "points_per_cell", "above 1", points_per_cell)
        columns = _Columns(op, X, on_failure, num_threads)
        scott = cls(columns.low, columns.scott(None))
        sample = columns.X[:: max(1, -(-dispatch.meta(columns.X).shape[0] // SAMPLE))]
        varying = columns.high > columns.low

        def widths(power: float) -> list[float]:
            with np.errstate(over="ignore"):
                width = scott.width * np.where(varying, 2.0**power, 1.0)
            return [_rounded(Decimal(float(h))) for h in np.minimum(width, MOST_WIDTH)]

        def companions(power: float) -> float:
            trial = Grid(scott.origin, widths(power))
            options = {"origin": trial.origin, "inverse": trial.inverse, "n_groups": None, "num_threads": num_threads}
            found = dispatch.call("sparse_histogram", sample, None, None, **options)
            with dispatch.chosen(found[1]):
                number, together = float(found[1].sum()), float((found[1] * (found[1] - 1)).sum())
            return float(1.0 + (columns.n - 1) * together / max(number * (number - 1.0), 1.0))

        narrow, wide = -float(HALVINGS), float(HALVINGS)
        while wide - narrow > 1e-3:
            middle = (narrow + wide) / 2
            narrow, wide = (middle, wide) if companions(middle) < wanted else (narrow, middle)
        return cls(scott.origin, widths(wide))


class _Columns:
    """Adopted points with the range of their columns, from which every rule starts."""

    def __init__(self, op: str, X: Array, on_failure: OnFailure, num_threads: int | None) -> None:
        self.op = op
        validate.on_failure(op, on_failure)
        self.num_threads = validate.num_threads(op, num_threads)
        (self.X,) = dispatch.adopt(op, X=X)
        validate.points(op, X=self.X)
        low, high, self.n = dispatch.call("column_ranges", self.X, num_threads=self.num_threads)
        self.low: np.ndarray = dispatch.to_host(low)
        self.high: np.ndarray = dispatch.to_host(high)
        n_rows = dispatch.meta(self.X).shape[0]
        if self.n == 0:
            validate.refuse(op, "X", "points with at least one finite row", f"{n_rows} rows, none of them finite")
        if self.n < n_rows:
            text = f"{caller.name(op)}: {n_rows - self.n} of {n_rows} rows left out: not finite"
            failures.announce(text, on_failure)
        with np.errstate(over="ignore"):
            if not np.isfinite(self.high - self.low).all():
                validate.refuse(op, "X", "columns with a range below 1.8e308", "more")

    def rule(self, spread: Decimal, n: int | None) -> float:
        """Return ``spread * n ** (-1 / (2 + m))``, rounded."""
        with localcontext(prec=50):
            width = spread * Decimal(n or self.n) ** (Decimal(-1) / (2 + len(self.low)))
        if width > Decimal(MOST_WIDTH):
            validate.refuse(self.op, "X", "columns with widths below 1.8e308 by this rule", f"{width:.3g}")
        return _rounded(width)

    def scott(self, n: int | None) -> list[float]:
        """Return the widths of Scott's rule; 1 on a constant axis."""
        options = {"low": tuple(map(float, self.low)), "high": tuple(map(float, self.high))}
        sums = dispatch.call("column_moments", self.X, **options, num_threads=self.num_threads).tolist()
        width = []
        for low, high, first, upper, lower in zip(self.low, self.high, *sums, strict=True):
            if not high > low:
                width.append(1.0)
                continue
            with localcontext(prec=50):
                square = Decimal(self.n * ((upper << 32) + lower) - first**2)
                sigma = square.sqrt() / self.n * Decimal(float(high - low)) / STEPS
                spread = sigma * Decimal("3.5")
            width.append(self.rule(spread, n))
        return width


def _rounded(width: Decimal) -> float:
    """Return the nearest number of 24 significant bits: what is left does not depend on the last digits of `width`.

    The least normal number stands for smaller ones.
    """
    fraction, exponent = np.frexp(max(float(width), LEAST_WIDTH))
    return float(np.ldexp(np.rint(np.ldexp(fraction, WIDTH_BITS)), int(exponent) - WIDTH_BITS))


def as_grid(op: str, grid: Any, m: int) -> Grid:
    """Check that `grid` is a Grid of m axes."""
    if not isinstance(grid, Grid):
        validate.refuse(op, "grid", "a cmfast.Grid", type(grid).__name__, TypeError)
    if grid.n_axes != m:
        validate.refuse(op, "grid", f"of {m} axes as X has columns", f"{grid.n_axes} axes")
    return grid
