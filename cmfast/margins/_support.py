"""What the zeros of tables allow: whether they can be scaled to given margins, and if not, why."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import bad_values, dispatch, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, DeviceT
from cmfast.kernels.status import Status
from cmfast.margins._functions import Axes, adopted
from cmfast.margins._pairs import MOST_AXES, split
from cmfast.margins._result import MEANING

MOST_PROOF_LINES = 6  # lines of a side of a proof
NOT_DECIDED = "neither an answer nor a proof that there is none was found"


@result_repr.add_repr
class MarginsSupport(NamedTuple, Generic[ArrayT]):
    """What :func:`support_nd` returns.

    Attributes
    ----------
    status : array of int8, shape (...)
        Codes of :class:`cmfast.Status`. CONVERGED: there is a table with these margins that is positive wherever the
        given one is, but in lines whose target is zero. LIMIT_ONLY: there is one, but in all of them the `dead_cells`
        are zero. INFEASIBLE, ZERO_LINE: there is none. TOTALS, INVALID, RANGE: the input makes no problem at all.
        MAX_ITER: not decided.
    dead_cells : array of bool, shape (..., n_1, ..., n_d)
        Positive cells that are zero in every nonnegative table with these margins and these zeros; those of lines whose
        target is zero are not counted.
    proof : list of array of float64
        Numbers for the lines of each margin, in its shape. No positive cell, but of lines whose target is zero, adds up
        to more than zero by the numbers of its lines. INFEASIBLE, ZERO_LINE: all targets times their numbers add up to
        more than zero. LIMIT_ONLY: they add up to zero, and every dead cell to less. Integers, but where tables are
        very large. Zero where the target is zero or NaN. NaN with any other status, and for limits of more than 100,000
        cells.
    asked, carried : array of float64, shape (...)
        The sum of the targets times their numbers, of those above and below zero: more is asked than carried, or,
        with LIMIT_ONLY, as much.
    """

    status: ArrayT
    dead_cells: ArrayT
    proof: list[ArrayT]
    asked: ArrayT
    carried: ArrayT

    def _parts(self) -> dict[str, str]:
        core = len(dispatch.shape_of(self.dead_cells)) - len(dispatch.shape_of(self.status))
        parts = {"of": result_repr.format_shape(self.dead_cells, core), "margins": str(len(self.proof))}
        parts |= {"status": result_repr.format_statuses(self.status)}
        return parts | {"dead cells": f"{int(adapter(self.dead_cells).to_host(self.dead_cells).sum()):,}"}

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Say in words, with places in margins, what was found for one table of the batch.

        Parameters
        ----------
        index : int or tuple of int, optional
            Place in the batch; default: the only table, or how many of a batch have which status.

        Returns
        -------
        str
            One sentence.

        Raises
        ------
        TypeError, IndexError
            `index` is not one place in the batch.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.support_nd([[1, 1], [0, 1]], [(0, [1, 1]), (1, [1, 1])]).explain()
        '1 positive cell goes to zero, first [0, 1]: margins[1][0] asks 1, all that margins[0][0] carries'
        """
        codes = adapter(self.status).to_host(self.status)
        if index is None and codes.ndim:
            return result_repr.format_statuses(codes)
        place = validate.batch_index(() if index is None else index, codes.shape)
        status = Status(int(codes[place]))
        if status is Status.CONVERGED:
            return "a table with these margins exists that is positive wherever this one is"
        if status is Status.MAX_ITER:
            return NOT_DECIDED
        if status not in (Status.INFEASIBLE, Status.ZERO_LINE, Status.LIMIT_ONLY):
            return MEANING[status]
        dead = np.argwhere(adapter(self.dead_cells).to_host(self.dead_cells)[place])
        said = _proved(
            [adapter(part).to_host(part)[place] for part in self.proof],
            float(adapter(self.asked).to_host(self.asked)[place]),
            float(adapter(self.carried).to_host(self.carried)[place]),
            short=status is not Status.LIMIT_ONLY,
        )
        if status is not Status.LIMIT_ONLY:
            return said or MEANING[status]
        cells = "1 positive cell goes" if len(dead) == 1 else f"{len(dead)} positive cells go"
        return f"{cells} to zero, first {bad_values.format_index(dead[0].tolist())}" + (f": {said}" if said else "")


def _proved(proof: list[np.ndarray], asked: float, carried: float, *, short: bool) -> str:
    """Say what a proof says; "" where there is none."""
    if not asked > 0.0:
        return ""
    sides = [_named([sign * part for part in proof]) for sign in (1, -1)]
    (one, _), (other, some) = ((", ".join(names), len(names)) for names in sides)
    asks, its = ("asks", "its") if len(sides[0]) == 1 else ("together ask", "their")
    carries = "carries" if some == 1 else "together carry"
    if not short:
        return f"{one} {asks} {asked:.12g}, all that {other} {carries}"
    if not some:
        return f"{one} {asks} {asked:.12g} but has no positive cell"
    return f"{one} {asks} {asked:.12g}, but all of {its} cells lie in {other} as well, which {carries} {carried:.12g}"


def _named(proof: list[np.ndarray]) -> list[str]:
    """Name the lines whose numbers are above zero."""
    found = []
    for k, part in enumerate(proof):
        for at in np.argwhere(part > 0.0).tolist():
            times = f"{part[tuple(at)]:g} times " if part[tuple(at)] != 1.0 else ""
            found.append(f"{times}margins[{k}]{bad_values.format_index(at)}")
    return found if len(found) <= MOST_PROOF_LINES else [*found[:MOST_PROOF_LINES], f"... ({len(found)} in all)"]


@overload
def support_nd(
    M: DeviceT,
    margins: Sequence[tuple[Axes, DeviceT]],
    /,
    *,
    ndim: int | None = ...,
    num_threads: int | None = ...,
) -> MarginsSupport[DeviceT]: ...
@overload
def support_nd(
    M: ArrayLike,
    margins: Sequence[tuple[Axes, ArrayLike]],
    /,
    *,
    ndim: int | None = ...,
    num_threads: int | None = ...,
) -> MarginsSupport[NDArray[Any]]: ...
def support_nd(
    M: Array, margins: Any, /, *, ndim: int | None = None, num_threads: int | None = None
) -> MarginsSupport[Any]:
    """Tell from the zeros of tables whether they can be scaled to margins over any of their axes, and prove it if not.

    Only which cells are zero matters, not how large the others are. The multipliers of a table of ones run away where
    there is no answer, which proves it; a linear program then finds a proof in small integers, checked as such.

    Parameters
    ----------
    M : array, shape (..., n_1, ..., n_d)
        Nonnegative; d is `ndim`.
    margins : list of (axes, target)
        As :func:`ipf_nd` takes them; all are to be met.
    ndim : int, optional
        Number of axes of a table, at most 32; default: one more than the highest axis of `margins`.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    MarginsSupport
        In the library of `M`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; a wrong option.
    NotImplementedError
        Arrays on a GPU.

    See Also
    --------
    support : Rows and columns of matrices, exactly, by maximum flow.

    Notes
    -----
    Bad values: the status says INVALID, TOTALS or RANGE as that of :func:`ipf_nd`; nothing warns, for the status is the
    answer. What counts as zero: cells of which it is proved that they are less than 1e-9 of the smallest target of
    their lines. MAX_ITER: the iteration ended without a verdict, and the table is too large for a linear program
    (100,000 positive cells), which else has the last word; or both differ, and neither proves it, as may be where
    targets have more than nine digits. Does not synchronise a device: there are no kernels for GPUs. Reproducible:
    verdicts are; which of several proofs is found depends on the version of SciPy.

    References
    ----------
    Csiszar, I-divergence geometry of probability distributions and minimization problems, 1975.

    Examples
    --------
    Every two of these margins agree, and yet no table has all three:

    >>> import cmfast
    >>> same, other = [[3, 1], [1, 3]], [[1, 3], [3, 1]]
    >>> M = [[[1, 1], [1, 1]], [[1, 1], [1, 1]]]
    >>> found = cmfast.support_nd(M, [((0, 1), same), ((1, 2), same), ((0, 2), other)])
    >>> cmfast.Status(found.status)
    <Status.INFEASIBLE: 3>
    >>> found.proof[2].tolist(), found.explain()[:60]
    ([[0.0, 0.0], [1.0, 0.0]], 'margins[2][1, 0] asks 3, but all of its cells lie in margins')
    """
    num_threads = validate.num_threads(num_threads)
    axes, targets = split("margins", "axes", margins, MOST_AXES)
    arrays, ndim, _ = adopted(M, axes, targets, ndim)
    status, dead, *rest = dispatch.call("support_nd", *arrays, axes=axes, ndim=ndim, num_threads=num_threads)
    return MarginsSupport(status, dead, list(rest[:-2]), *rest[-2:])
