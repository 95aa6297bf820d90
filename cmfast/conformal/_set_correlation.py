"""Conformal correlation matrix: counts of prediction sets that contain two classes, and their correlation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np

from cmfast._core import dispatch, lazy, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Integers
from cmfast._core.usual_options import explain_options
from cmfast._files.archive import Parts, demand
from cmfast._files.states import TEXT
from cmfast.conformal import _options
from cmfast.conformal._batched_counts import BatchedCounts
from cmfast.conformal._prediction_sets import EmptySets, PredictionSets, read_empty_rule
from cmfast.kernels.loading import load

Undefined: TypeAlias = Literal["nan", "zero"]
Order: TypeAlias = Literal["high", "low"]
UNDEFINED, ORDERS = get_args(Undefined), get_args(Order)


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class CcmCounts(BatchedCounts):
    """Counts of prediction sets, and of sets that contain each pair of classes. Returned by :func:`ccm`.

    ``a + b`` merges the counts of two parts of the samples exactly, ``sum(axis)`` merges an axis of the batch; all
    ratios are computed from the counts. The mean of the correlations of parts is not the correlation of the whole.
    Negative counts are refused, and 2**61 sets or more raise OverflowError, so counts never overflow.

    Attributes
    ----------
    n : array of int64, shape (...)
        Number of sets.
    G : array of int64, shape (..., C, C)
        Number of sets that contain both classes; on the diagonal, that contain the class.
    empty : {"allow", "top1"}
        Rule for empty sets. Only counts with the same rule can be added.

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import conformal
    >>> a = conformal.CcmCounts(np.array(2), np.array([[1, 1], [1, 1]]))
    >>> b = conformal.CcmCounts(np.array(6), np.array([[3, 0], [0, 3]]))
    >>> (
    ...     a.correlation()[0, 1].item(),
    ...     b.correlation()[0, 1].item(),
    ...     (a + b).correlation()[0, 1].item(),
    ... )
    (1.0, -1.0, -0.5)
    """

    n: Array
    G: Array
    empty: EmptySets = "allow"

    _CORES: ClassVar[dict[str, int]] = {"n": 0, "G": 2}
    _SAME: ClassVar[tuple[str, ...]] = ("empty",)
    _STORED: ClassVar[Parts] = {"batch": (("<i8",), 1), "n": (("<i8",), 1), "G": (("<i8",), 3), "empty": TEXT}
    _OPTIONAL: ClassVar[tuple[str, ...]] = ("empty",)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(dispatch.shape_of(self.G)[-1])

    @property
    def reason(self) -> Array:
        """Why a class has no correlation: int8, shape (..., C); 0 it has one, 1 in no set, 2 in all, 3 no sets."""
        return self._ratios("correlation")[1]

    def correlation(self, *, undefined: Undefined = "nan") -> Array:
        """Return the correlation matrix of the class membership indicators over the sets.

        Parameters
        ----------
        undefined : {"nan", "zero"}
            Value of a pair with a class that is in no set or in every set; see `reason`.

        Returns
        -------
        array of float64, shape (..., C, C)
            ``(n G_ij - m_i m_j) / sqrt(m_i (n - m_i) m_j (n - m_j))`` with ``m = diag(G)``, in [-1, 1]; the Matthews
            coefficient of the 2 x 2 table of the two classes. The diagonal is 1 where it is defined.

        Raises
        ------
        TypeError, ValueError
            `undefined` is another value.

        Notes
        -----
        The numerator is an exact integer, rounded once (twice beyond 3,037,000,499 sets). Does not synchronise.
        Reproducible.
        """
        validate.choice("undefined", undefined, UNDEFINED)
        return self._ratios("correlation", 0.0 if undefined == "zero" else np.nan)[0]

    def covariance(self) -> Array:
        """Return the covariance of two classes over the sets, ``(n G_ij - m_i m_j) / n**2``; NaN without sets."""
        return self._ratios("covariance")[0]

    def lift(self) -> Array:
        """Return the lift ``n G_ij / (m_i m_j)`` of class j in sets with class i; NaN for a class in no set."""
        return self._ratios("lift")[0]

    def conditional(self) -> Array:
        """Return ``G_ij / m_i``, the share of sets with class i that contain j too; NaN for a class in no set."""
        return self._ratios("conditional")[0]

    @property
    def mean_size(self) -> Array:
        """Mean number of labels in a set: float64, shape (...)."""
        G = adapter(self.G).unwrap(self.G)
        every = adapter(G).send(np.eye(self.n_classes, dtype=np.int64), G)

        def mean(G: Any, every: Any, n: Any) -> Any:
            """Divide the trace of G by the number of sets."""
            hits = (G * every).sum(-1).sum(-1)
            return adapter(hits).cast(hits, np.float64) / n

        with np.errstate(invalid="ignore"):
            return adapter(G).evaluate(mean, G, every, adapter(self.n).unwrap(self.n))

    def _ratios(self, kind: str, undefined: float = np.nan) -> tuple[Any, Any]:
        """Run the op ``ccm_ratios``: return the ratios of one kind, and the reason codes of the classes."""
        n, G = dispatch.adopt(n=self.n, G=self.G)
        found: tuple[Any, Any] = dispatch.call("ccm_ratios", n, G, kind=kind, undefined=undefined)
        return found

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per pair of classes: sets with both, all sets, their correlation."""
        n = result_frames.copy_to_host(self.n)[..., None, None]
        columns = {"G": self.G, "n": n, "correlation": self.correlation()}
        return result_frames.make_frame(columns, ("first", "second"))

    def plot(self, *, index: int | tuple[int, ...] | None = None, ax: Any = None) -> Any:
        """Draw the correlation matrix of one element of the batch, such as of one alpha.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index in the batch; default: the only matrix.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Raises
        ------
        TypeError, ValueError, IndexError
            `index` does not select one matrix of the batch.

        Examples
        --------
        >>> import numpy as np
        >>> from cmfast import conformal
        >>> counts = conformal.CcmCounts(np.array(6), np.array([[3, 0], [0, 3]]))
        >>> counts.plot().images[0].get_array().tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        place = validate.single_index(index, self._batch(), "matrix")
        ax = plotting.get_axes(ax, (4.8, 4.0))
        correlation = result_frames.copy_to_host(self.correlation())[place]
        load("cmfast.conformal._display").draw_correlation(ax, correlation)
        return ax

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {
            "counts": result_repr.format_shape(self.G),
            "sets": result_repr.format_largest(self.n, ","),
            "empty": self.empty,
        }

    def explain(self) -> str:
        """Return a text with the number of classes that have a correlation, and why others have none."""
        reason = adapter(self.reason).to_host(self.reason)
        names = ("in some sets", "in none", "in all", "without sets")
        found = ", ".join(
            f"{(reason == code).sum():,} {name}" for code, name in enumerate(names) if (reason == code).any()
        )
        return f"classes by sets: {found or 'none'}"

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Rebuild the counts from the parts of a saved state; raise DamagedError if they are inconsistent."""
        found = cls._unpack_arrays(parts)
        n, G = found["n"], found["G"]
        demand(G.shape[-1] == G.shape[-2], "its G is not square")
        demand(bool((np.swapaxes(G, -1, -2) == G).all()), "its G is not symmetric")
        held = np.diagonal(G, axis1=-2, axis2=-1)
        demand(bool((held <= np.asarray(n)[..., None]).all()), "its G has more than n")
        demand(bool((held[..., None] >= G).all()), "its G has more of a pair than of a class")
        return cls(np.asarray(n), G, read_empty_rule(parts))


@explain_options
def ccm(sets: PredictionSets, /, *, num_threads: int | None = None) -> CcmCounts:
    """Count the prediction sets that contain each pair of classes (conformal correlation matrix, before division).

    Parameters
    ----------
    sets : PredictionSets
        Prediction sets, from :func:`prediction_sets`.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    CcmCounts
        With the batch of the sets and an axis of alphas. Library and device of the sets.

    Raises
    ------
    TypeError, ValueError
        `sets` is not a PredictionSets.

    Notes
    -----
    No labels are needed, except for the calibration of the sets. The symmetric table cannot replace a confusion
    matrix: use :func:`coverage_confusion` to see which labels the sets of each true class contain.

    Bad values: none; the set of an invalid row has all classes. Does not synchronise. Reproducible: integers, the same
    for any split of the samples and any number of threads. Sets of Dask arrays give a ``dask.delayed.Delayed``.

    References
    ----------
    Perlo, Chiasserini, De Veciana, Malandrino, Characterizing the performance of classification models through
    conformal correlation matrices, 2026.

    Examples
    --------
    >>> from cmfast import conformal
    >>> P = [[0.5, 0.375, 0.125], [0.25, 0.625, 0.125], [0.125, 0.25, 0.625]]
    >>> counts = conformal.ccm(
    ...     conformal.prediction_sets(P, [0.9], randomised=False)
    ... )
    >>> counts.G[0]
    array([[2, 2, 0],
           [2, 3, 1],
           [0, 1, 1]])
    """
    num_threads = validate.num_threads(num_threads)
    if not isinstance(sets, PredictionSets):
        validate.refuse("sets", _options.WANTED_SETS, type(sets).__name__, TypeError)
    options: dict[str, Any] = {"n_classes": sets.n_classes, "num_threads": num_threads}
    if lazy.are_lazy(sets.packed):
        counts = lazy.dask().sum_blocks(_count_shared_sets, {"packed": sets.packed}, 1, {"packed": 1}, **options)
        lazily: CcmCounts = lazy.dask().call_delayed(CcmCounts, *counts, sets.empty)
        return lazily
    return CcmCounts._wrap_arrays(*_count_shared_sets(sets.packed, **options), sets.empty)


def _count_shared_sets(packed: Array, *, n_classes: int, num_threads: int | None) -> tuple[Array, Array]:
    """Return the number of sets and the pair counts of packed sets."""
    (packed,) = dispatch.adopt(sets=packed)
    (*batch, n, _) = dispatch.shape_of(packed)
    with validate.explain_memory_error(8 * n_classes**2 * math.prod(batch), n_classes=n_classes):
        G = dispatch.call("ccm", packed, n_classes=n_classes, num_threads=num_threads)
    packed = adapter(packed).unwrap(packed)
    numbers = np.empty(batch, np.int64)
    numbers.fill(n)  # np.full takes 1 us longer
    return adapter(packed).send(numbers, packed), G


@lazy.accept_delayed
def rank_clients(
    ccms: CcmCounts | Sequence[CcmCounts],
    /,
    pairs: Sequence[tuple[int, int]],
    *,
    order: Order,
) -> Integers:
    """Order clients by the mean correlation of some pairs of classes.

    Parameters
    ----------
    ccms : CcmCounts or list of CcmCounts
        Counts whose first batch axis is that of clients; or the counts of each client.
    pairs : list of pairs of int
        Pairs of class indices.
    order : {"high", "low"}
        Whether clients with high or with low correlation come first. A high correlation means that two classes appear
        in the same sets; whether that is good depends on the application.

    Returns
    -------
    array of int64, shape (K, ...)
        Indices of the clients along the first axis; ties in the given order, clients without a defined pair last.
        NumPy.

    Raises
    ------
    TypeError, ValueError
        Other types; counts without an axis of clients; invalid pairs; another order.

    Notes
    -----
    Bad values: undefined pairs are left out of the mean. Synchronises the device. Reproducible.

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import conformal
    >>> G = np.array([[[1, 1], [1, 1]], [[3, 0], [0, 3]], [[2, 1], [1, 2]]])
    >>> conformal.rank_clients(
    ...     conformal.CcmCounts(np.array([2, 6, 4]), G),
    ...     [(0, 1)],
    ...     order="high",
    ... )
    array([0, 2, 1])
    """
    validate.choice("order", order, ORDERS)
    if isinstance(ccms, CcmCounts):
        rho = ccms.correlation()
        rho = adapter(rho).to_host(rho)
        if rho.ndim < 3:
            validate.refuse("ccms", "counts with an axis of clients", f"shape {rho.shape}")
    else:
        rho = _stack_correlations(ccms)
    first, second = _validate_pairs(pairs, rho.shape[-1])
    chosen = rho[..., first, second]
    known = ~np.isnan(chosen)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, chosen, 0.0).sum(-1) / known.sum(-1)
    found: Integers = np.argsort(-mean if order == "high" else mean, axis=0, kind="stable")
    return found


def _stack_correlations(ccms: Any) -> np.ndarray:
    """Return the stacked correlation matrices of a list of counts, on the host."""
    if not isinstance(ccms, list | tuple) or not ccms or not all(isinstance(one, CcmCounts) for one in ccms):
        validate.refuse("ccms", "CcmCounts or a list of them", validate.format_value(ccms), TypeError)
    if len({one.empty for one in ccms}) > 1:
        validate.refuse("ccms", "of sets with one rule for empty sets", ", ".join(one.empty for one in ccms))
    found = [adapter(rho).to_host(rho) for rho in (one.correlation() for one in ccms)]
    if len({one.shape for one in found}) > 1:
        validate.refuse("ccms", "counts of one shape", ", ".join(str(one.shape) for one in found))
    return np.stack(found)


def _validate_pairs(pairs: Any, n_classes: int) -> tuple[list[int], list[int]]:
    """Validate pairs of classes; return the first and the second classes."""
    wanted = f"a list of pairs of classes from 0 to {n_classes - 1}"
    if not isinstance(pairs, list | tuple | np.ndarray) or not len(pairs):
        validate.refuse("pairs", wanted, validate.format_value(pairs), TypeError)
    found = []
    for pair in pairs:
        if not isinstance(pair, list | tuple | np.ndarray) or np.shape(pair) != (2,):
            validate.refuse("pairs", wanted, validate.format_value(pair))
        found.append([validate.count("pairs", k, most=n_classes - 1) for k in pair])
    return [pair[0] for pair in found], [pair[1] for pair in found]
