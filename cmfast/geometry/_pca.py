"""Principal component analysis of points, and projection onto the principal axes."""

from typing import Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeAlias, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import dispatch, lazy, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, Floats, OnFailure, PointsT
from cmfast._core.lazy import accept_dask_arrays, are_lazy
from cmfast._core.libraries import load_pandas
from cmfast._core.usual_options import explain_options
from cmfast._files.archive import Parts, demand
from cmfast._files.scratch import Scratch
from cmfast._files.states import State
from cmfast.geometry import _binning, _dask_grid
from cmfast.geometry._exact_pca import compute_exact_axes, sum_products
from cmfast.geometry._point_tables import accept_point_table
from cmfast.geometry._points import AdoptedPoints, adopt_points
from cmfast.geometry._width_rules import Spread, measure_columns

Precision: TypeAlias = Literal["auto", "float64", "float32", "exact"]

USUAL_AXES = 10
MOST_PROJECTED = 1 << 30  # bytes of projected points kept in memory; more go to a file


class _Axes(NamedTuple, Generic[ArrayT]):
    mean: ArrayT
    components: ArrayT
    explained_variance_ratio: ArrayT


@result_repr.add_repr
class Projection(_Axes[ArrayT], State):
    """Principal axes of a set of points, and the projection onto them.

    Attributes
    ----------
    mean : array of float64, shape (n,)
        Mean of the points.
    components : array of float64, shape (m, n)
        Orthonormal rows by decreasing variance. The entry of largest magnitude of each row is positive.
    explained_variance_ratio : array of float64, shape (m,)
        Share of the variance along each axis; 0 if all points are equal.
    """

    __slots__ = ()
    _STORED: ClassVar[Parts] = {
        "mean": (("<f8",), 1),
        "components": (("<f8",), 2),
        "explained_variance_ratio": (("<f8",), 1),
    }

    def _get_parts(self) -> dict[str, Any]:
        """Return the parts to save."""
        return {name: adapter(array).to_host(array) for name, array in self._asdict().items()}

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Return a projection made of saved parts."""
        m, n = parts["components"].shape
        shapes = parts["mean"].shape, parts["explained_variance_ratio"].shape
        demand(m > 0 and n > 0 and shapes == ((n,), (m,)), "its arrays do not fit together")
        return cls(**parts)

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        m, n = dispatch.shape_of(self.components)
        return {"axes": f"{m} of {n}", "variance": f"{self._share():.1%}"}

    def _share(self) -> float:
        """Return the share of the variance along all axes."""
        return float(np.sum(adapter(self.explained_variance_ratio).to_host(self.explained_variance_ratio)))

    def explain(self) -> str:
        """Return a sentence on the share of variance along the axes."""
        m, n = dispatch.shape_of(self.components)
        return f"{m} of {n} axes hold {self._share():.1%} of the variance of the points"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per axis: its share of the variance, and its component per column."""
        pd = load_pandas()
        share, components = map(result_frames.copy_to_host, (self.explained_variance_ratio, self.components))
        frame = pd.DataFrame(components, columns=[f"column_{k}" for k in range(components.shape[1])])
        frame.insert(0, "explained_variance_ratio", share)
        return frame.rename_axis("axis")

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the share of the variance along each axis, and along all axes up to it (scree plot).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Examples
        --------
        >>> import cmfast
        >>> axes = cmfast.pca([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]], 1)
        >>> axes.plot().get_ylabel()
        'share of the variance'
        """
        share = result_frames.copy_to_host(self.explained_variance_ratio)
        ax = plotting.get_axes(ax, (4.8, 3.6))
        colours, places = plotting.match_palette(ax), np.arange(len(share))
        ax.bar(places, share, color=colours.off_diagonal, label="this axis")
        ax.plot(places, np.cumsum(share), ".-", color=colours.diagonal, label="up to this axis")
        ax.set(xlabel="axis", ylabel="share of the variance", ylim=(0, 1.05))
        plotting.set_integer_ticks(ax.xaxis)
        ax.legend(fontsize="small", frameon=False)
        return ax

    def __eq__(self, other: object) -> bool:
        """Whether both are projections with equal bits in all arrays."""
        return isinstance(other, Projection) and all(_bits(a) == _bits(b) for a, b in zip(self, other, strict=True))

    def __ne__(self, other: object) -> bool:
        """Whether any bit differs."""
        return not self == other

    def __hash__(self) -> int:
        """Raise TypeError: arrays are not hashable."""
        msg = "a Projection is unhashable, as its arrays are"
        raise TypeError(msg)

    def transform(self, X: Array, *, num_threads: int | None = None) -> Array:
        """Project points onto the axes: return ``(X - mean) @ components.T``.

        Parameters
        ----------
        X : array, shape (N, n)
            Points; real numbers of any type.
        num_threads : int, optional
            Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

        Returns
        -------
        array of float64, shape (N, m)
            In the library and on the device of `X`, which must be those of the points given to :func:`pca`.

        Raises
        ------
        TypeError, ValueError
            Another library or device; not a real array with n columns.

        Notes
        -----
        Bad values: a row that is not finite silently becomes NaN; a result that overflows float64 is infinite. Does not
        synchronise the device.
        Reproducible: same input, same bits, for any number of threads; on the CPU the bits of a point do not depend on
        the other points, so the result for a Dask array, a Dask array, does not depend on its chunks. `X` is never
        copied as a whole.

        Examples
        --------
        >>> import cmfast
        >>> axes = cmfast.pca([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]], 1)
        >>> axes.transform([[3.0, 4.0], [9.0, 12.0]]).round(6)
        array([[ 0.],
               [10.]])
        """
        if are_lazy(self.mean):
            lazily: Array = lazy.dask().map_blocks(
                _transform, {"X": X}, {"X": "n"}, {"axes": self}, num_threads=num_threads
            )
            return lazily
        return _transform(X, axes=self, num_threads=num_threads)


@accept_dask_arrays(X="n")
def _transform(X: Array, *, axes: Projection[Any], num_threads: int | None) -> Array:
    """Validate shapes and project points onto the axes; maps over the blocks of Dask arrays."""
    num_threads = validate.num_threads(num_threads)
    X, mean, components = dispatch.adopt(X=X, mean=axes.mean, components=axes.components)
    m, n = validate.points(components=components)
    validate.vectors("mean", mean, n)
    if dispatch.shape_of(mean) != (n,) or m == 0:
        shapes = f"shapes {dispatch.shape_of(mean)} and {dispatch.shape_of(components)}"
        validate.refuse("mean and components", "of shapes (n,) and (m, n), as pca returns them", shapes)
    if validate.points(X=X)[1] != n:
        validate.refuse("X", f"of shape (N, {n}), as the points of pca", f"shape {dispatch.shape_of(X)}")
    return dispatch.call("project", X, mean, components, num_threads=num_threads)


def _bits(array: Array) -> tuple[Any, ...]:
    """Return dtype, shape and bytes of an array, for exact comparison."""
    host = adapter(array).to_host(array)
    return host.dtype, host.shape, host.tobytes()


@overload
def pca(
    X: PointsT,
    n_components: int | None = ...,
    *,
    precision: Precision = ...,
    on_failure: OnFailure = ...,
) -> Projection[PointsT]: ...
@overload
def pca(
    X: ArrayLike,
    n_components: int | None = ...,
    *,
    precision: Precision = ...,
    on_failure: OnFailure = ...,
) -> Projection[Floats]: ...
@accept_point_table
@explain_options
def pca(
    X: Array, n_components: int | None = None, *, precision: Precision = "auto", on_failure: OnFailure = None
) -> Projection[Any]:
    """Compute principal axes from the covariance matrix, summed block by block.

    Parameters
    ----------
    X : array, shape (N, n)
        Points; real numbers of any type.
    n_components : int, optional
        Number m of axes, at most n; default: 10, or n if that is less.
    precision : {"auto", "float64", "float32", "exact"}
        Precision of the products of coordinates; blocks are added in float64. "auto" is float64, except for a large
        float32 `X` on the CPU (see Notes) and for Dask arrays, which use "exact". Arrays on a GPU: float64 or "exact".
        "exact" multiplies integers, so that the sums do not depend on the order.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about rows that are not finite; they are left out.
        Default: as :func:`cmfast.config` says, first "warn".

    Returns
    -------
    Projection
        ``mean``, ``components``, ``explained_variance_ratio`` and ``transform(X)``; in float64, in the library of `X`.

    Raises
    ------
    TypeError, ValueError
        Not a real (N, n) array, or one without rows; `n_components` not between 1 and n; "float64" or "float32" with a
        Dask array.

    Notes
    -----
    Bad values: a row with NaN or infinity is left out, and reported once. Without any finite row all results are NaN.
    Synchronises the device. Reproducible on one machine for any number of our threads: blocks of fixed size in fixed
    order. The last bits may differ between linear algebra libraries, and with the number of threads of the library,
    which computes up to 2**25 products and the axes on its own threads. Memory: a block and an (n, n) covariance per
    thread, and the covariances of parts, which take at most a sixteenth of the memory of `X`; never a second `X`.
    Accuracy is that of a covariance: axes whose variance is below ``16 eps n`` of the largest (eps = 2.2e-16) may be
    noise.

    Products in float32 take half the time. Entry (i, j) of the covariance s then has an error of about 1e-7 of
    ``sqrt(s_ii s_jj)``, from rounding to float32 once; axes with less than about 1e-7 of the total variance are lost.
    "auto" therefore uses float32 only for float32 points with at least 2**33 products (``N n**2``), and only if each of
    the m axes has at least 1e-4 of the total variance: otherwise it starts again in float64. "float32" uses it for
    points of any type, without this check.

    "exact" rounds each coordinate to 2**-44 of the range of its column, and does not round again before the sums over
    all points are complete. The sums do not depend on the order of the points, on blocks or on machines; for a Dask
    array the result has Dask arrays with the same bits for any chunking, in two passes over the points. It takes about
    four times as long as float64, and loses digits if a few points are very far from all others.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.2 and appendix D.1.

    Examples
    --------
    >>> import cmfast
    >>> axes = cmfast.pca([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]], 1)
    >>> axes.components.round(6), axes.explained_variance_ratio.round(6)
    (array([[0.707107, 0.707107]]), array([1.]))
    """
    on_failure = validate.on_failure(on_failure)
    validate.choice("precision", precision, get_args(Precision))
    if n_components is not None:
        n_components = validate.count("n_components", n_components, least=1)
    chunked = are_lazy(X)
    if chunked and precision not in ("auto", "exact"):
        validate.refuse("precision", '"exact" with Dask arrays, whose other sums depend on the chunks', precision)
    points = AdoptedPoints(X, *validate.points(X=X)) if chunked else adopt_points(X)
    X, n_rows, n, *_ = points
    m = count_axes(n_components, n, "X")
    if not n_rows:
        validate.refuse("X", "of at least one point", f"shape {dispatch.shape_of(X)}")
    if chunked:
        found, words = _dask_grid.sum_parts(X, _sum_part_products, _add_products)
        shapes = ((n,), np.float64), ((m, n), np.float64), ((m,), np.float64)
        return Projection(
            *lazy.dask().delayed_to_arrays(
                lazy.dask().call_delayed(_derive_axes, found, words, m, on_failure), shapes, X
            )
        )
    if precision == "exact":
        rows = measure_columns(X, None)
        axes = _derive_axes(rows, sum_products(X, rows), m, on_failure)
        return Projection(*(adapter(X).send(x, X) for x in axes))
    known = {"precision": precision, "num_threads": validate.num_threads(None)}
    mean, components, ratio, n_dropped, first = dispatch.call("pca", X, n_components=m, **known)
    _binning.report_dropped(n_dropped, n_rows, first, on_failure, why="a coordinate is not finite")
    return Projection(mean, components, ratio)


def count_axes(n_components: int | None, n_columns: int, points: str) -> int:
    """Return the number of axes, by default USUAL_AXES or all; refuse more than the points have columns."""
    m = min(USUAL_AXES, n_columns) if n_components is None else n_components
    if m > n_columns:
        validate.refuse("n_components", f"at most {n_columns}, the columns of {points}", m)
    return m


def _sum_part_products(X: Array, found: Spread, *, num_threads: int | None) -> np.ndarray:
    """Return the integer sums of products of one chunk of points."""
    del num_threads  # the linear algebra library uses its own
    (X,) = dispatch.adopt(X=X)
    return sum_products(X, found)


def _add_products(parts: list[np.ndarray]) -> np.ndarray:
    """Add the integer sums of chunks."""
    return np.asarray(np.add.reduce(parts))


def _derive_axes(found: Spread, words: np.ndarray, m: int, on_failure: OnFailure) -> tuple[np.ndarray, ...]:
    """Report dropped points and return mean, axes and variance shares from the integer sums."""
    _binning.report_dropped(found.n_rows - found.n, found.n_rows, (), on_failure, why="a coordinate is not finite")
    return compute_exact_axes(found, words, m)


def compute_axes(X: Array, m: int, *, keep_all: bool, num_threads: int | None) -> Projection[Any]:
    """Return the principal axes of adopted points; unless `keep_all`, without axes that are only rounding noise."""
    axes = Projection(*dispatch.call("pca", X, n_components=m, precision="auto", num_threads=num_threads)[:3])
    ratio = adapter(axes.explained_variance_ratio).to_host(axes.explained_variance_ratio)
    if not keep_all:
        # Rounding error of a covariance summed over many points and of its eigenvalues: a few times n units each.
        noise = 16 * float(np.finfo(np.float64).eps) * dispatch.shape_of(axes.mean)[0]
        m = max(1, int((ratio > noise * ratio[:1]).sum()))
    return Projection(axes.mean, axes.components[:m, :], axes.explained_variance_ratio[:m])


def project(points: AdoptedPoints, m: int, *, keep_all: bool, num_threads: int | None) -> AdoptedPoints:
    """Project points onto at most `m` principal axes from :func:`compute_axes`; large results go to a file."""
    axes = compute_axes(points.X, m, keep_all=keep_all, num_threads=num_threads)
    m = dispatch.shape_of(axes.components)[0]
    size = points.n * m * 8
    X = points.X
    if size <= MOST_PROJECTED or not adapter(X).is_on_host(X):  # arrays on a device stay there
        out = dispatch.call("project", X, *axes[:2], num_threads=num_threads)
        return points._replace(X=out, m=m)
    with Scratch() as parts:
        rows = max(MOST_PROJECTED // (8 * 8 * m), 1)
        for start in range(0, points.n, rows):
            part = dispatch.call("project", X[start : start + rows, :], *axes[:2], num_threads=num_threads)
            parts.append(adapter(part).to_host(part))
        return points._replace(X=adapter(X).from_host(parts.mapped(), X), m=m)
