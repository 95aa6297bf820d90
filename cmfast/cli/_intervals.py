"""What ``cmfast metrics --interval`` prints and writes: every number with its ends."""

from typing import Any

import numpy as np

from cmfast.cli import _screen
from cmfast.cli._printing import described
from cmfast.metrics import SCALARS
from cmfast.uncertainty import Interval, Intervals

ENDS = ("low", "high")


def facts(found: Intervals, clusters: list[np.ndarray] | None) -> dict[str, Any]:
    """Return how the intervals were made."""
    made = {"method": found.method, "level": found.level, "replicates": found.n_replicates}
    return made if clusters is None else {**made, "clusters": sum(map(len, clusters))}


def stacked(each: list[Intervals]) -> Intervals:
    """Return the intervals of several groups as those of a batch."""
    first = each[0]
    found = {
        name: Interval(*(np.stack(parts) for parts in zip(*(one[name] for one in each), strict=True))) for name in first
    }
    return Intervals(found, method=first.method, level=first.level, n_replicates=first.n_replicates)


def head(found: Intervals, clusters: list[np.ndarray] | None, undefined: str) -> str:
    """Return the first line of what is printed."""
    drawn = f", {found.n_replicates:,} replicates" if found.n_replicates else ""
    of = "" if clusters is None else f", of {sum(map(len, clusters)):,} clusters"
    return f"{found.level:.0%} intervals by {found.method}{drawn}{of}; {undefined}"


def ends(found: Intervals, group: int | None = None) -> dict[str, dict[str, Any]]:
    """Return both ends, the standard error and the undefined replicates of every metric, of one group or of all."""
    parts = (*ENDS, "standard_error", "n_undefined")
    at = () if group is None else (group,)
    return {name: {part: np.asarray(getattr(one, part))[at] for part in parts} for name, one in found.items()}


def columns(found: Intervals, labels: list[Any]) -> dict[str, np.ndarray]:
    """Return one array per number of a matrix and end."""
    return {
        f"{name} {end}": np.ravel(values)
        for name, one in _numbers(found, labels).items()
        for end, values in zip(ENDS, one[1:], strict=True)
    }


def show(found: Intervals, labels: list[Any], by: list[str] | None, groups: list[tuple[Any, ...]], count: int) -> None:
    """Print a line for each number of each matrix, `count` of them."""
    numbers = _numbers(found, labels)
    width = max((len(name) for name in numbers), default=0)
    for k in range(count):
        if count > 1:
            print(f"\n{described(by, groups[k]) if by is not None else f'matrix {k}'}")
        print(f"{'':{width}}{'estimate':>12}{'low':>12}{'high':>12}")
        for name, one in numbers.items():
            print(f"{name:{width}}" + "".join(f"{np.ravel(part)[k]:>12.4f}" for part in one))
    lost = max((int(np.max(one.n_undefined, initial=0)) for one in found.values()), default=0)
    if lost:
        print(f"undefined in up to {lost:,} replicates, which are left out")


def _numbers(found: Intervals, labels: list[Any]) -> dict[str, tuple[Any, Any, Any]]:
    """Return estimate and ends of every number: a metric per class has a name for every class."""
    names = _screen.names(labels)
    out: dict[str, tuple[Any, Any, Any]] = {}
    for name, one in found.items():
        parts = (one.estimate, one.low, one.high)
        if name not in SCALARS and np.ndim(one.low) > 0 and np.shape(one.low)[-1] == len(names):
            for k, label in enumerate(names):
                out[f"{name} {label}"] = tuple(np.asarray(part)[..., k] for part in parts)  # type: ignore[assignment]
        else:
            out[name] = parts
    return out
