"""Lists of what margins keep, and their targets."""

from typing import Any

from cmfast._core import validate

Kept = tuple[tuple[int, ...], ...]


def split(name: str, kept: str, pairs: Any, most: int) -> tuple[Kept, list[Any]]:
    """Return the axes of all pairs (axes, target) of the argument `name`, which calls axes `kept`, and the targets."""
    wanted = f"a list of pairs ({kept}, target)"
    if not isinstance(pairs, list | tuple) or not pairs:
        validate.refuse(name, wanted, "none" if pairs in ([], ()) else type(pairs).__name__, TypeError)
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
