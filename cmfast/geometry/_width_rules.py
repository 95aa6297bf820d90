"""Rules that choose cell widths from points (Scott, Freedman-Diaconis, regular, occupancy), same bits in any order."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure
from cmfast.geometry._points import AdoptedPoints
from cmfast.kernels.shared.geometry_columns import COLUMN_STEPS

WIDTH_BITS = 24  # significant bits of widths
MOST_LOOKED_AT_POINTS = 100_000  # points sampled by `occupancy`
HALVINGS = 20
LEAST_WIDTH = float(np.finfo(np.float64).tiny)  # reciprocals of much smaller widths overflow
MOST_WIDTH = float(np.ldexp(2.0**WIDTH_BITS - 1, 1024 - WIDTH_BITS))


class Spread(NamedTuple):
    """Minimum and maximum of every column over finite rows, the number of finite rows and the number of all rows."""

    low: np.ndarray
    high: np.ndarray
    n: int
    n_rows: int


def measure_columns(X: Array, num_threads: int | None) -> Spread:
    """Return the spread (minimum and maximum per column) of points."""
    low, high, n = dispatch.call("column_ranges", X, num_threads=num_threads)
    return Spread(adapter(low).to_host(low), adapter(high).to_host(high), int(n), dispatch.shape_of(X)[0])


def sum_moments(X: Array, found: Spread, num_threads: int | None) -> list[list[int]]:
    """Return the integer moments per column that Scott's rule needs, which add up over parts of the points."""
    options = {"low": tuple(map(float, found.low)), "high": tuple(map(float, found.high))}
    sums = dispatch.call("column_moments", X, **options, num_threads=num_threads)
    return adapter(sums).to_host(sums).tolist()  # type: ignore[no-any-return]


class Columns:
    """Column statistics of points for the width rules; some rules also need the points, or their summed moments."""

    def __init__(
        self,
        points: AdoptedPoints | None,
        on_failure: OnFailure,
        num_threads: int | None,
        *,
        found: Spread | None = None,
        sums: list[list[int]] | None = None,
    ) -> None:
        on_failure = validate.on_failure(on_failure)
        self.num_threads = validate.num_threads(num_threads)
        self.X: Any = None if points is None else points.X
        if found is None:
            found = measure_columns(self.X, self.num_threads)
        self.spread, self._sums = found, sums
        self.low, self.high, self.n, n_rows = found
        if self.n == 0:
            given = f"{n_rows} rows, none of them finite" if n_rows else "no rows"
            validate.refuse("X", "points with at least one finite row", given)
        if self.n < n_rows:
            text = f"{n_rows - self.n} of {n_rows} rows left out: not finite"
            failures.warn_or_raise(text, on_failure)
        with np.errstate(over="ignore"):
            if not np.isfinite(self.high - self.low).all():
                validate.refuse("X", "columns with a range below 1.8e308", "more")

    def rule(self, spread: Decimal, n: int | None) -> float:
        """Return the width ``spread * n ** (-1 / (2 + m))``, rounded to WIDTH_BITS bits."""
        with localcontext(prec=50):
            width = spread * Decimal(n or self.n) ** (Decimal(-1) / (2 + len(self.low)))
        if width > Decimal(MOST_WIDTH):
            validate.refuse("X", "columns with widths below 1.8e308 by this rule", f"{width:.3g}")
        return _round_width(width)

    def scott(self, n: int | None) -> list[float]:
        """Return the widths of Scott's rule; 1 on a constant axis."""
        sums = sum_moments(self.X, self.spread, self.num_threads) if self._sums is None else self._sums
        width = []
        for low, high, first, upper, lower in zip(self.low, self.high, *sums, strict=True):
            if not high > low:
                width.append(1.0)
                continue
            with localcontext(prec=50):
                square = Decimal(self.n * ((upper << 32) + lower) - first**2)
                sigma = square.sqrt() / self.n * Decimal(float(high - low)) / int(COLUMN_STEPS)
                spread = sigma * Decimal("3.5")
            width.append(self.rule(spread, n))
        return width

    def freedman_diaconis(self, n: int | None) -> list[float]:
        """Return the widths of the Freedman-Diaconis rule; Scott's where the interquartile range is 0."""
        quartiles = dispatch.call("column_quartiles", self.X)
        lower, upper = adapter(quartiles).to_host(quartiles)
        spread = [Decimal(float(b)) - Decimal(float(a)) for a, b in zip(lower, upper, strict=True)]
        flat = [d for d, s in enumerate(spread) if s == 0 and self.high[d] > self.low[d]]
        scott = self.scott(n)
        if flat:
            axes = ", ".join(map(str, flat))
            text = f"the interquartile range of axis {axes} is 0; Scott's rule is used there"
            failures.warn_diagnostic(text)
        return [scott[d] if s == 0 else self.rule(2 * s, n) for d, s in enumerate(spread)]

    def regular(self, bins: Any) -> np.ndarray:
        """Return widths that divide the range of every axis into `bins` parts; 1 on a constant axis."""
        m = len(self.low)
        bins = bins.tolist() if hasattr(bins, "tolist") else bins  # convert NumPy integers to int
        many = list(bins) if isinstance(bins, Sequence) and not isinstance(bins, str | bytes) else [bins] * m
        if len(many) != m:
            validate.refuse("bins", f"one number or {m}", f"{len(many)} numbers")
        parts = [validate.count("bins", b, least=1, most=None) for b in many]
        if max(parts) > validate.EXACT_FLOAT64:
            validate.refuse("bins", "at most 2**53", max(parts))
        width = np.ones(m)
        for d in np.flatnonzero(self.high > self.low):
            length = self.high[d] - self.low[d]
            h = max(length / parts[d], LEAST_WIDTH)
            while np.floor(length * (1.0 / h)) >= parts[d]:
                h = np.nextafter(h, np.inf)
            width[d] = h
        return width

    def occupancy(self, wanted: float) -> list[float]:
        """Return Scott's widths times a factor, found by bisection, for a mean cell occupancy of `wanted` points."""
        origin, scott = copy_read_only(self.low), np.array(self.scott(None))
        sample = self.X[:: max(1, -(-dispatch.shape_of(self.X)[0] // MOST_LOOKED_AT_POINTS)), :]
        varying = self.high > self.low

        def widths(power: float) -> list[float]:
            """Return Scott's widths times 2**power on non-constant axes, rounded."""
            with np.errstate(over="ignore"):
                width = scott * np.where(varying, 2.0**power, 1.0)
            return [_round_width(Decimal(float(h))) for h in np.minimum(width, MOST_WIDTH)]

        def companions(power: float) -> float:
            """Return the estimated mean number of points per point's cell, itself included, at these widths."""
            grid = {"origin": origin, "inverse": copy_read_only(1.0 / np.array(widths(power)))}
            options: dict[str, Any] = {"n_groups": None, "num_threads": self.num_threads}
            found = dispatch.call("sparse_histogram", sample, None, None, **grid, **options)
            number, together = adapter(found[1]).evaluate(_count_pairs, found[1])
            return float(1.0 + (self.n - 1) * together / max(number * (number - 1.0), 1.0))

        narrow, wide = -float(HALVINGS), float(HALVINGS)
        while wide - narrow > 1e-3:
            middle = (narrow + wide) / 2
            narrow, wide = (middle, wide) if companions(middle) < wanted else (narrow, middle)
        return widths(wide)


def _count_pairs(counts: Any) -> tuple[float, float]:
    """Return the number of points and of ordered pairs of points in the same cell; synchronises the device."""
    return float(counts.sum()), float((counts * (counts - 1)).sum())


def copy_read_only(array: np.ndarray) -> np.ndarray:
    """Return an immutable copy (backed by bytes); kernels are compiled for read-only arrays."""
    return np.frombuffer(array.tobytes(), array.dtype)


def _round_width(width: Decimal) -> float:
    """Round a width to WIDTH_BITS significant bits, at least the least normal number.

    Rounding makes the result independent of the last digits of `width`.
    """
    fraction, exponent = np.frexp(max(float(width), LEAST_WIDTH))
    return float(np.ldexp(np.rint(np.ldexp(fraction, WIDTH_BITS)), int(exponent) - WIDTH_BITS))
