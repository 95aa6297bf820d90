"""Feasibility of scaling tables to margins given their zero pattern, with infeasibility certificates (Farkas)."""

import math
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import bad_values, dispatch, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, DeviceT
from cmfast._core.libraries import load_pandas
from cmfast._core.usual_options import explain_options
from cmfast.kernels.status import Status
from cmfast.margins._ipf_tables import Axes, adopt_tables
from cmfast.margins._margin_lists import MOST_AXES, split_margins
from cmfast.margins._result import MEANING

MOST_PROOF_LINES = 6  # most margin entries listed per side of a certificate
NOT_DECIDED = "undecided: neither a solution nor an infeasibility certificate was found"


@result_repr.add_repr
class MarginsSupport(NamedTuple, Generic[ArrayT]):
    """Result of :func:`support_nd`.

    Attributes
    ----------
    status : array of int8, shape (...)
        Codes of :class:`cmfast.Status`. CONVERGED: a table with these margins exists that is positive wherever the
        given one is, except in margin entries with target zero. LIMIT_ONLY: such a table exists, but the `dead_cells`
        are zero in all of them. INFEASIBLE, ZERO_LINE: no such table exists. TOTALS, INVALID, RANGE: invalid input.
        MAX_ITER: not decided.
    dead_cells : array of bool, shape (..., n_1, ..., n_d)
        Positive cells that are zero in every nonnegative table with these margins and these zeros, except those in
        margin entries with target zero.
    proof : list of array of float64
        Farkas certificate: one multiplier per margin entry, in the shape of the margins. For every positive cell
        outside of entries with target zero, the multipliers of its entries sum to at most zero. INFEASIBLE, ZERO_LINE:
        the sum of targets times multipliers is positive. LIMIT_ONLY: it is zero, and negative for every dead cell.
        Integers, except for very large tables. Zero where the target is zero or NaN. NaN with any other status, and for
        limits of more than 100,000 cells.
    asked, carried : array of float64, shape (...)
        Sums of targets times multipliers over the positive and over the negative multipliers (absolute values): `asked`
        exceeds `carried`, or equals it with LIMIT_ONLY.
    """

    status: ArrayT
    dead_cells: ArrayT
    proof: list[ArrayT]
    asked: ArrayT
    carried: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        core = len(dispatch.shape_of(self.dead_cells)) - len(dispatch.shape_of(self.status))
        parts = {"of": result_repr.format_shape(self.dead_cells, core), "margins": str(len(self.proof))}
        parts |= {"status": result_repr.format_statuses(self.status)}
        return parts | {"dead cells": f"{int(adapter(self.dead_cells).to_host(self.dead_cells).sum()):,}"}

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Return a text that states feasibility and lists the certificate for one table of the batch.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index in the batch; default: the only table, or the number of tables per status.

        Returns
        -------
        str
            One sentence.

        Raises
        ------
        TypeError, IndexError
            `index` is not an index of the batch.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.support_nd(
        ...     [[1, 1], [0, 1]], [(0, [1, 1]), (1, [1, 1])]
        ... ).explain()
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
        said = _explain_certificate(
            [adapter(part).to_host(part)[place] for part in self.proof],
            float(adapter(self.asked).to_host(self.asked)[place]),
            float(adapter(self.carried).to_host(self.carried)[place]),
            short=status is not Status.LIMIT_ONLY,
        )
        if status is not Status.LIMIT_ONLY:
            return said or MEANING[status]
        cells = "1 positive cell goes" if len(dead) == 1 else f"{len(dead)} positive cells go"
        return f"{cells} to zero, first {bad_values.format_index(dead[0].tolist())}" + (f": {said}" if said else "")

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per margin entry: its margin, its index there, and its multiplier."""
        n_batch = len(dispatch.shape_of(self.status))
        frames = []
        for k, part in enumerate(map(result_frames.copy_to_host, self.proof)):
            batch, core = part.shape[:n_batch], part.shape[n_batch:]
            frame = result_frames.make_frame({"multiplier": part.reshape(*batch, math.prod(core))}, ("index",))
            frame["index"] = [bad_values.format_index(np.unravel_index(at, core)) for at in frame["index"]]
            frame.insert(n_batch, "margin", k)
            frames.append(frame)
        return load_pandas().concat(frames, ignore_index=True)

    def plot(self, *, index: int | tuple[int, ...] | None = None, ax: Any = None) -> Any:
        """Draw the infeasibility certificate of one table: the largest multipliers of margin entries.

        Entries on the right together ask for more than those on the left carry, or for all of it. Without a
        certificate the plot has no bars; the status is its title.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index in the batch; default: the only table.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Raises
        ------
        TypeError, ValueError, IndexError
            `index` does not select one table of the batch.

        Examples
        --------
        >>> import cmfast
        >>> ax = cmfast.support_nd(
        ...     [[1, 1], [0, 1]], [(0, [1, 1]), (1, [1, 1])]
        ... ).plot()
        >>> [text.get_text() for text in ax.get_yticklabels()]
        ['margins[0][0]', 'margins[1][0]']
        """
        place = validate.single_index(index, dispatch.shape_of(self.status), "table")
        found: list[tuple[float, str]] = []
        for k, part in enumerate(self.proof):
            entries = result_frames.copy_to_host(part)[place]
            known = np.argwhere(np.isfinite(entries) & (entries != 0.0)).tolist()
            found += [(float(entries[tuple(at)]), f"margins[{k}]{bad_values.format_index(at)}") for at in known]
        found.sort(key=lambda entry: -abs(entry[0]))
        names, values = [name for _, name in found[: plotting.MOST_BARS]], [x for x, _ in found[: plotting.MOST_BARS]]
        ax = plotting.draw_bars(ax, names, values, [f"{x:g}" for x in values], "multiplier: carries (below 0), asks")
        ax.set_title(Status(int(result_frames.copy_to_host(self.status)[place])).name, fontsize="medium")
        return ax


def _explain_certificate(proof: list[np.ndarray], asked: float, carried: float, *, short: bool) -> str:
    """Return a text that states an infeasibility certificate; an empty text without one."""
    if not asked > 0.0:
        return ""
    sides = [_list_certificate_entries([sign * part for part in proof]) for sign in (1, -1)]
    (one, _), (other, some) = ((", ".join(names), len(names)) for names in sides)
    asks, its = ("asks", "its") if len(sides[0]) == 1 else ("together ask", "their")
    carries = "carries" if some == 1 else "together carry"
    if not short:
        return f"{one} {asks} {asked:.12g}, all that {other} {carries}"
    if not some:
        return f"{one} {asks} {asked:.12g} but has no positive cell"
    return f"{one} {asks} {asked:.12g}, but all of {its} cells lie in {other} as well, which {carries} {carried:.12g}"


def _list_certificate_entries(proof: list[np.ndarray]) -> list[str]:
    """Return texts that list the margin entries with a positive multiplier."""
    found = []
    for k, part in enumerate(proof):
        for at in np.argwhere(part > 0.0).tolist():
            times = f"{part[tuple(at)]:g} times " if part[tuple(at)] != 1.0 else ""
            found.append(f"{times}margins[{k}]{bad_values.format_index(at)}")
    return found if len(found) <= MOST_PROOF_LINES else [*found[:MOST_PROOF_LINES], f"... ({len(found)} in all)"]


@overload
def support_nd(
    M: DeviceT,
    /,
    margins: Sequence[tuple[Axes, DeviceT]],
    *,
    ndim: int | None = ...,
    num_threads: int | None = ...,
) -> MarginsSupport[DeviceT]: ...
@overload
def support_nd(
    M: ArrayLike,
    /,
    margins: Sequence[tuple[Axes, ArrayLike]],
    *,
    ndim: int | None = ...,
    num_threads: int | None = ...,
) -> MarginsSupport[NDArray[Any]]: ...
@explain_options
def support_nd(
    M: Array,
    /,
    margins: Any,
    *,
    ndim: int | None = None,
    num_threads: int | None = None,
) -> MarginsSupport[Any]:
    """Decide from the zeros of tables whether they can be scaled to margins over any axes, with a certificate if not.

    Only the zero pattern matters, not the size of the other cells. For an infeasible problem the dual iterates of a
    table of ones diverge, which proves infeasibility; a linear program then finds a certificate in small integers,
    which is verified exactly.

    Parameters
    ----------
    M : array, shape (..., n_1, ..., n_d)
        Nonnegative; d is `ndim`.
    margins : list of (axes, target)
        As for :func:`ipf_nd`; all must be met.
    ndim : int, optional
        Number of axes of a table, at most 32; default: one more than the highest axis of `margins`.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

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
    Bad values: the status says INVALID, TOTALS or RANGE as that of :func:`ipf_nd`; nothing warns, since the status is
    the result. Cells count as zero if proved to be less than 1e-9 of the smallest target of their margin entries.
    MAX_ITER: the iteration ended without a verdict, and the table is too large for a linear program (100,000 positive
    cells), which else has the last word; or both differ, and neither proves it, as may be where targets have more than
    nine digits. Does not synchronise a device: there are no kernels for GPUs. Reproducible: verdicts are; which of
    several proofs is found depends on the version of SciPy.

    References
    ----------
    Csiszar, I-divergence geometry of probability distributions and minimization problems, 1975.

    Examples
    --------
    Every two of these margins agree, and yet no table has all three:

    >>> import cmfast
    >>> same, other = [[3, 1], [1, 3]], [[1, 3], [3, 1]]
    >>> M = [[[1, 1], [1, 1]], [[1, 1], [1, 1]]]
    >>> found = cmfast.support_nd(
    ...     M, [((0, 1), same), ((1, 2), same), ((0, 2), other)]
    ... )
    >>> cmfast.Status(found.status)
    <Status.INFEASIBLE: 3>
    >>> found.proof[2].tolist(), found.explain()[:60]
    ([[0.0, 0.0], [1.0, 0.0]], 'margins[2][1, 0] asks 3, but all of its cells lie in margins')
    """
    num_threads = validate.num_threads(num_threads)
    axes, targets = split_margins("margins", "axes", margins, MOST_AXES)
    arrays, ndim, _ = adopt_tables(M, axes, targets, ndim)
    status, dead, *rest = dispatch.call("support_nd", *arrays, axes=axes, ndim=ndim, num_threads=num_threads)
    return MarginsSupport(status, dead, list(rest[:-2]), *rest[-2:])
