"""Parse lists of margins: pairs of kept axes and targets."""

from collections.abc import Mapping
from typing import Any

from cmfast._core import validate

Kept = tuple[tuple[int, ...], ...]
MOST_AXES = 32


def count_axes(option: str, axes: Kept, ndim: int | None) -> int:
    """Return the number of axes of a table from the axes that margins keep; refuse to guess if they keep none.

    Without kept axes all of an array would be a batch of single cells.
    """
    least = 1 + max((axis for of in axes for axis in of), default=-1)
    if ndim is None and least == 0:
        validate.refuse("ndim", f"the number of axes of a table, as no part of {option} keeps any", "None")
    return least if ndim is None else validate.count("ndim", ndim, least=max(1, least), most=MOST_AXES)


def split_margins(name: str, kept: str, pairs: Any, most: int) -> tuple[Kept, list[Any]]:
    """Split a list of pairs (axes, target) of the argument `name` into axes and targets; messages call axes `kept`."""
    wanted = f"a list of pairs ({kept}, target)"
    if not isinstance(pairs, list | tuple) or not pairs:
        nothing = isinstance(pairs, list | tuple)  # comparing a table with [] would compare its cells
        given = "none" if nothing else type(pairs).__name__
        if isinstance(pairs, Mapping) and pairs:
            of_axes = all(isinstance(key, int | tuple) for key in pairs)
            given += f"; pass list({name}.items())" if of_axes else "; ipf_cells(values, table, margins) takes names"
        validate.refuse(name, wanted, given, TypeError)
    axes, targets = [], []
    for k, pair in enumerate(pairs):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            validate.refuse(f"{name}[{k}]", f"a pair ({kept}, target)", type(pair).__name__, TypeError)
        of = pair[0] if isinstance(pair[0], list | tuple) else (pair[0],)
        here = f"{kept} of {name}[{k}]"
        of = tuple(validate.count(here, axis, most=most - 1) for axis in of)
        if len(set(of)) < len(of):
            validate.refuse(here, "different ones", str(of))
        axes.append(of)
        targets.append(pair[1])
    return tuple(axes), targets
