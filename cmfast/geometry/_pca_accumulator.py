"""Principal axes of a stream of points, by merging the moments of its parts."""

from typing import Any, Self

import numpy as np

from cmfast._core import dispatch, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure
from cmfast._core.locking import ObjectLock
from cmfast._core.usual_options import explain_options_of_methods
from cmfast.geometry import _binning
from cmfast.geometry._exact_pca import diagonalize
from cmfast.geometry._pca import Projection, count_axes
from cmfast.geometry._points import adopt_points


@explain_options_of_methods
class PcaAccumulator:
    """Compute principal axes of a stream of points, part by part, in the memory of one covariance matrix.

    Attributes
    ----------
    n_points, n_dropped : int
        Points so far, and points left out because a coordinate is not finite.

    See Also
    --------
    pca : principal axes of one array, in memory or on disk.
    CellAccumulator : cell counts of the same stream, in a second pass.

    Notes
    -----
    Bad values: as :func:`cmfast.pca`. Reproducible: same parts in the same order, same bits; another partition or order
    changes the result by rounding, relative to the largest variance. Points on a GPU stay there: each part
    synchronises, and its axes and one coordinate per point are copied to the host, where parts are merged. Several
    threads may update one accumulator: no update is lost, and the order of the updates decides the last bits.

    Examples
    --------
    >>> import numpy as np
    >>> import cmfast
    >>> X = np.random.default_rng(0).normal(size=(1000, 3)) * [3, 2, 1]
    >>> stream = cmfast.PcaAccumulator()
    >>> for part in np.split(X, 4):
    ...     _ = stream.update(part)
    >>> axes = stream.projection(2)
    >>> np.allclose(axes.components, cmfast.pca(X, 2).components)
    True
    """

    def __init__(self) -> None:
        self._held: tuple[int, int, Any, Any, Any] = (0, 0, None, None, None)
        self._guard = ObjectLock()

    @property
    def n_points(self) -> int:
        """Points so far."""
        return self._held[0]

    @property
    def n_dropped(self) -> int:
        """Points left out so far, because a coordinate is not finite."""
        return self._held[1]

    def __repr__(self) -> str:
        columns = "" if self._held[2] is None else f", {len(self._held[2])} columns"
        return f"<PcaAccumulator: {self.n_points:,} points{columns}>"

    def _repr_html_(self) -> str:
        """Return what was summed so far as HTML for notebooks."""
        n_columns = 0 if self._held[2] is None else len(self._held[2])
        parts = {"points": f"{self.n_points:,}", "left out": f"{self.n_dropped:,}", "columns": str(n_columns)}
        return result_repr.render_html("PcaAccumulator", parts, "projection() gives the axes; more points may follow")

    def update(self, X: Array, *, on_failure: OnFailure = None, num_threads: int | None = None) -> Self:
        """Add some points.

        Parameters
        ----------
        X : array, shape (N, n)
            Points; real numbers of any type, with as many columns as all before.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about rows that are not finite; they take part in nothing.
            Default: as :func:`cmfast.config` says, first "warn".
        num_threads : int, optional
            Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

        Returns
        -------
        PcaAccumulator
            Itself.

        Raises
        ------
        TypeError, ValueError
            Not a real (N, n) array; another number of columns than before. An update that raises adds no point.
        OverflowError
            A sum of squared distances that overflows float64.
        """
        on_failure = validate.on_failure(on_failure)
        num_threads = validate.num_threads(num_threads)
        X, n_rows, n, *_ = adopt_points(X)
        self._check_columns(n)
        found = dispatch.call("pca", X, n_components=n, precision="float64", num_threads=num_threads)
        mean, components, ratio = (adapter(x).to_host(x) for x in found[:3])
        n_dropped, first = found[3:]
        _binning.report_dropped(n_dropped, n_rows, first, on_failure, why="a coordinate is not finite")
        part: tuple[int, int, Any, Any, Any] = (n_rows - n_dropped, n_dropped, mean, None, X[:0, :])
        if part[0]:
            along = dispatch.call("project", X, *found[:2], num_threads=num_threads)
            along = adapter(along).entry(along, (slice(None), slice(1)))
            shares = ratio / ratio[0] if ratio[0] > 0 else ratio
            with np.errstate(over="ignore", invalid="ignore"):  # an overflow raises below
                largest = np.square(along[~np.isnan(along)]).sum()
                part = (*part[:3], (components.T * (shares * largest)) @ components, X[:0, :])
        with self._guard.lock:
            self._check_columns(n)  # another thread may have added the first points meanwhile
            self._held = _merge_moments("X", self._held, part)
        return self

    def _check_columns(self, n: int) -> None:
        """Raise ValueError if earlier points had another number of columns."""
        mean = self._held[2]
        if mean is not None and len(mean) != n:
            validate.refuse("X", f"of shape (N, {len(mean)}), as the points before", f"shape (N, {n})")

    def add(self, other: "PcaAccumulator", /) -> Self:
        """Add the points of another accumulator.

        Parameters
        ----------
        other : PcaAccumulator
            Accumulator of points with the same number of columns.

        Returns
        -------
        PcaAccumulator
            Itself.

        Raises
        ------
        TypeError, ValueError
            Not a PcaAccumulator, or one of points with another number of columns.
        OverflowError
            A sum of squared distances that overflows float64.
        """
        if not isinstance(other, PcaAccumulator):
            validate.refuse("other", "a PcaAccumulator", type(other).__name__, TypeError)
        part = other._held
        with self._guard.lock:
            mine, theirs = self._held[2], part[2]
            if mine is not None and theirs is not None and len(mine) != len(theirs):
                validate.refuse("other", f"of points with {len(mine)} columns", f"{len(theirs)} columns")
            self._held = _merge_moments("other", self._held, part)
        return self

    def projection(self, n_components: int | None = None) -> Projection[Any]:
        """Return the principal axes of all points so far.

        Parameters
        ----------
        n_components : int, optional
            Number of axes, at most the columns of the points; default: 10, or all if these are fewer.

        Returns
        -------
        Projection
            As returned by :func:`cmfast.pca`, in the library of the last points.

        Raises
        ------
        TypeError, ValueError
            `n_components` not between 1 and the number of columns; no points yet.
        """
        if n_components is not None:
            n_components = validate.count("n_components", n_components, least=1)
        number, _, mean, scatter, like = self._held
        if not number:
            validate.fail("there are no points yet; call update first")
        m = count_axes(n_components, len(mean), "the points")
        return Projection(*(adapter(like).send(x.copy(), like) for x in (mean, *diagonalize(scatter, m))))


def _merge_moments(
    name: str, a: tuple[int, int, Any, Any, Any], b: tuple[int, int, Any, Any, Any]
) -> tuple[int, int, Any, Any, Any]:
    """Merge number of points, number of dropped points, mean and scatter of two parts (pairwise update).

    The fifth element is an array of their library.
    """
    number, dropped, like = a[0] + b[0], a[1] + b[1], a[4] if b[4] is None else b[4]
    if not a[0] or not b[0]:
        some = a if a[0] or b[2] is None else b
        mean, scatter = some[2], some[3]
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            apart = b[2] - a[2]
            mean = a[2] + apart * (b[0] / number)
            scatter = a[3] + b[3] + np.outer(apart, apart) * (a[0] / number * b[0])
    if scatter is not None and not np.isfinite(scatter).all():
        validate.refuse(
            name, "of points whose squared distances float64 can add up", "points farther apart", OverflowError
        )
    return number, dropped, mean, scatter, like
