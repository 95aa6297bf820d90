"""Lists of what margins keep, and their targets."""

from typing import Any

from cmfast._core import validate

Kept = tuple[tuple[int, ...], ...]
MOST_AXES = 32


def n_axes(option: str, axes: Kept, ndim: int | None) -> int:
    """Return how many axes a table has, of which the argument `option` keeps some; refuse to guess where it keeps none.

    All of an array would be a batch of single cells then.
    """
    least = 1 + max((axis for of in axes for axis in of), default=-1)
    if ndim is None and least == 0:
        validate.refuse("ndim", f"the number of axes of a table, as no part of {option} keeps any", "None")
    return least if ndim is None else validate.count("ndim", ndim, least=max(1, least), most=MOST_AXES)


def split(name: str, kept: str, pairs: Any, most: int) -> tuple[Kept, list[Any]]:
    """Return the axes of all pairs (axes, target) of the argument `name`, which calls axes `kept`, and the targets."""
    wanted = f"a list of pairs ({kept}, target)"
    if not isinstance(pairs, list | tuple) or not pairs:
        nothing = isinstance(pairs, list | tuple)  # a table would compare its cells
        validate.refuse(name, wanted, "none" if nothing else type(pairs).__name__, TypeError)
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
