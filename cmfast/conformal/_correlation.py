"""The conformal correlation matrix: counts of sets that two classes share, which add, and what is read off them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np

from cmfast._core import dispatch, lazy, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Integers
from cmfast._files.archive import Parts, demand
from cmfast._files.states import TEXT
from cmfast.conformal._counts import BatchedCounts
from cmfast.conformal._sets import EmptySets, PredictionSets, rule_of_empty

Undefined: TypeAlias = Literal["nan", "zero"]
Order: TypeAlias = Literal["high", "low"]
UNDEFINED, ORDERS = get_args(Undefined), get_args(Order)


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class CcmCounts(BatchedCounts):
    """How many sets hold two classes, and how many sets there are. Made by :func:`ccm`.

    All that is read off them needs nothing else, so ``a + b`` merges two parts of the samples exactly, ``sum(axis)`` an
    axis of the batch. The mean of the correlations of parts is not the correlation of the whole. Counts that
    are negative are refused, and 2**61 sets or more are an OverflowError: nothing wraps.

    Attributes
    ----------
    n : array of int64, shape (...)
        Sets.
    G : array of int64, shape (..., C, C)
        Sets that hold both classes; on the diagonal those that hold the class.
    empty : {"allow", "top1"}
        What was done about empty sets. Only counts of one rule add.

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import conformal
    >>> a = conformal.CcmCounts(np.array(2), np.array([[1, 1], [1, 1]]))
    >>> b = conformal.CcmCounts(np.array(6), np.array([[3, 0], [0, 3]]))
    >>> a.correlation()[0, 1].item(), b.correlation()[0, 1].item(), (a + b).correlation()[0, 1].item()
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
        """Classes."""
        return int(dispatch.shape_of(self.G)[-1])

    @property
    def reason(self) -> Array:
        """Why a class has no correlation: int8, shape (..., C); 0 it has, 1 never in a set, 2 always, 3 no sets."""
        return self._ratios("correlation")[1]

    def correlation(self, *, undefined: Undefined = "nan") -> Array:
        """Return the correlation of two classes over the sets: that of "is in the set".

        Parameters
        ----------
        undefined : {"nan", "zero"}
            What a pair gets of which a class is in no set or in all; see `reason`.

        Returns
        -------
        array of float64, shape (..., C, C)
            ``(n G_ij - m_i m_j) / sqrt(m_i (n - m_i) m_j (n - m_j))`` with ``m = diag(G)``, in [-1, 1]; the Matthews
            coefficient of the 2 x 2 table of the two classes. The diagonal is 1 where it is defined.

        Raises
        ------
        TypeError, ValueError
            Another name.

        Notes
        -----
        The numerator is an exact integer, rounded once, beyond 3,037,000,499 sets twice. Does not synchronise.
        Reproducible.
        """
        validate.choice("undefined", undefined, UNDEFINED)
        return self._ratios("correlation", 0.0 if undefined == "zero" else np.nan)[0]

    def covariance(self) -> Array:
        """Return the covariance of two classes over the sets, ``(n G_ij - m_i m_j) / n**2``; NaN without sets."""
        return self._ratios("covariance")[0]

    def lift(self) -> Array:
        """Return ``n G_ij / (m_i m_j)``: how much likelier class j is in sets that hold i; NaN for a class in none."""
        return self._ratios("lift")[0]

    def conditional(self) -> Array:
        """Return ``G_ij / m_i``, the share of the sets with class i that hold j too; NaN for a class in none."""
        return self._ratios("conditional")[0]

    @property
    def mean_size(self) -> Array:
        """Labels in a set on average: float64, shape (...)."""
        G = adapter(self.G).unwrap(self.G)
        every = adapter(G).send(np.eye(self.n_classes, dtype=np.int64), G)

        def mean(G: Any, every: Any, n: Any) -> Any:
            hits = (G * every).sum(-1).sum(-1)
            return adapter(hits).cast(hits, np.float64) / n

        with np.errstate(invalid="ignore"):
            return adapter(G).evaluate(mean, G, every, adapter(self.n).unwrap(self.n))

    def _ratios(self, kind: str, undefined: float = np.nan) -> tuple[Any, Any]:
        n, G = dispatch.adopt(n=self.n, G=self.G)
        found: tuple[Any, Any] = dispatch.call("ccm_ratios", n, G, kind=kind, undefined=undefined)
        return found

    def _parts(self) -> dict[str, str]:
        return {
            "counts": result_repr.format_shape(self.G),
            "sets": result_repr.format_largest(self.n, ","),
            "empty": self.empty,
        }

    def explain(self) -> str:
        """Say in words how many classes have a correlation."""
        reason = adapter(self.reason).to_host(self.reason)
        names = ("in some sets", "in none", "in all", "without sets")
        found = ", ".join(
            f"{(reason == code).sum():,} {name}" for code, name in enumerate(names) if (reason == code).any()
        )
        return f"classes by sets: {found or 'none'}"

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        found = cls._unpacked(parts)
        n, G = found["n"], found["G"]
        demand(G.shape[-1] == G.shape[-2], "its G is not square")
        demand(bool((np.swapaxes(G, -1, -2) == G).all()), "its G is not symmetric")
        held = np.diagonal(G, axis1=-2, axis2=-1)
        demand(bool((held <= np.asarray(n)[..., None]).all()), "its G has more than n")
        demand(bool((held[..., None] >= G).all()), "its G has more of a pair than of a class")
        return cls(np.asarray(n), G, rule_of_empty(parts))


def ccm(sets: PredictionSets, /, *, num_threads: int | None = None) -> CcmCounts:
    """Count how often two classes sit in the same prediction set: the conformal correlation matrix, before division.

    Parameters
    ----------
    sets : PredictionSets
        Of :func:`prediction_sets`.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    CcmCounts
        With the batch of the sets and an axis of alphas. Library and device of the sets.

    Raises
    ------
    TypeError, ValueError
        Something else than sets.

    Notes
    -----
    No labels are needed here; the calibration of the sets needs some. A symmetric table without labels cannot give back
    a confusion matrix: :func:`coverage_confusion` says which true class drags which label in.

    Bad values: none; a row that was none is in all classes. Does not synchronise. Reproducible: integers, the same for
    any split of the samples and any number of threads. Of sets of Dask arrays it is a ``dask.delayed.Delayed``.

    References
    ----------
    Perlo, Chiasserini, De Veciana, Malandrino, Characterizing the performance of classification models through
    conformal correlation matrices, 2026.

    Examples
    --------
    >>> from cmfast import conformal
    >>> P = [[0.5, 0.375, 0.125], [0.25, 0.625, 0.125], [0.125, 0.25, 0.625]]
    >>> counts = conformal.ccm(conformal.prediction_sets(P, [0.9], randomised=False))
    >>> counts.G[0]
    array([[2, 2, 0],
           [2, 3, 1],
           [0, 1, 1]])
    """
    num_threads = validate.num_threads(num_threads)
    if not isinstance(sets, PredictionSets):
        validate.refuse("sets", "PredictionSets", type(sets).__name__, TypeError)
    options: dict[str, Any] = {"n_classes": sets.n_classes, "num_threads": num_threads}
    if lazy.are_lazy(sets.packed):
        counts = lazy.dask().sum_blocks(_counted, {"packed": sets.packed}, 1, {"packed": 1}, **options)
        lazily: CcmCounts = lazy.dask().call_delayed(CcmCounts, *counts, sets.empty)
        return lazily
    return CcmCounts._of(*_counted(sets.packed, **options), sets.empty)


def _counted(packed: Array, *, n_classes: int, num_threads: int | None) -> tuple[Array, Array]:
    (packed,) = dispatch.adopt(sets=packed)
    (*batch, n, _) = dispatch.shape_of(packed)
    with validate.explain_memory_error(8 * n_classes**2 * math.prod(batch), n_classes=n_classes):
        G = dispatch.call("ccm", packed, n_classes=n_classes, num_threads=num_threads)
    packed = adapter(packed).unwrap(packed)
    return adapter(packed).send(np.full(batch, n, np.int64), packed), G


@lazy.accept_delayed
def rank_clients(
    ccms: CcmCounts | Sequence[CcmCounts], pairs: Sequence[tuple[int, int]], /, *, order: Order
) -> Integers:
    """Order clients by the correlation of some pairs of classes, the mean of them where there are several.

    Parameters
    ----------
    ccms : CcmCounts or list of CcmCounts
        Counts whose first axis of the batch is that of clients; or those of every client.
    pairs : list of pairs of int
        Classes.
    order : {"high", "low"}
        Which clients come first. Whether a high correlation is good is for the caller to say: it means that two classes
        sit in the same sets, which may be what is to be mended, or what is to be avoided.

    Returns
    -------
    array of int64, shape (K, ...)
        Numbers of the clients, along the first axis; equal ones as they come, those without a defined pair last. NumPy.

    Raises
    ------
    TypeError, ValueError
        No counts; counts without an axis of clients; pairs that are none; another order.

    Notes
    -----
    Bad values: pairs that are undefined are left out of the mean. Synchronises the device. Reproducible.

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import conformal
    >>> G = np.array([[[1, 1], [1, 1]], [[3, 0], [0, 3]], [[2, 1], [1, 2]]])
    >>> conformal.rank_clients(conformal.CcmCounts(np.array([2, 6, 4]), G), [(0, 1)], order="high")
    array([0, 2, 1])
    """
    validate.choice("order", order, ORDERS)
    if isinstance(ccms, CcmCounts):
        rho = ccms.correlation()
        rho = adapter(rho).to_host(rho)
        if rho.ndim < 3:
            validate.refuse("ccms", "counts with an axis of clients", f"shape {rho.shape}")
    else:
        rho = _stacked(ccms)
    first, second = _pairs(pairs, rho.shape[-1])
    chosen = rho[..., first, second]
    known = ~np.isnan(chosen)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, chosen, 0.0).sum(-1) / known.sum(-1)
    found: Integers = np.argsort(-mean if order == "high" else mean, axis=0, kind="stable")
    return found


def _stacked(ccms: Any) -> np.ndarray:
    if not isinstance(ccms, list | tuple) or not ccms or not all(isinstance(one, CcmCounts) for one in ccms):
        validate.refuse("ccms", "CcmCounts or a list of them", validate.format_value(ccms), TypeError)
    if len({one.empty for one in ccms}) > 1:
        validate.refuse("ccms", "of sets made by one rule for empty ones", ", ".join(one.empty for one in ccms))
    found = [adapter(rho).to_host(rho) for rho in (one.correlation() for one in ccms)]
    if len({one.shape for one in found}) > 1:
        validate.refuse("ccms", "counts of one shape", ", ".join(str(one.shape) for one in found))
    return np.stack(found)


def _pairs(pairs: Any, n_classes: int) -> tuple[list[int], list[int]]:
    wanted = f"a list of pairs of classes from 0 to {n_classes - 1}"
    if not isinstance(pairs, list | tuple | np.ndarray) or not len(pairs):
        validate.refuse("pairs", wanted, validate.format_value(pairs), TypeError)
    found = []
    for pair in pairs:
        if not isinstance(pair, list | tuple | np.ndarray) or np.shape(pair) != (2,):
            validate.refuse("pairs", wanted, validate.format_value(pair))
        found.append([validate.count("pairs", k, most=n_classes - 1) for k in pair])
    return [pair[0] for pair in found], [pair[1] for pair in found]
