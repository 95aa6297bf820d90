"""What ``cmfast metrics --interval`` prints and writes: every number with its ends."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._core import caller, failures, lazy
from cmfast._core.annotations import Undefined
from cmfast.cli import _screen
from cmfast.cli._options import compute
from cmfast.cli._printing import described
from cmfast.metrics import SCALARS
from cmfast.uncertainty import Interval, Intervals
from cmfast.uncertainty._doubts import TEXTS, number_of_doubts, tell_doubts
from cmfast.uncertainty._intervals import FAILED, IntervalMethod

ENDS = ("low", "high")
CALLED = "uncertainty.interval"


class Made(NamedTuple):
    """How intervals are made."""

    method: IntervalMethod
    level: float


class Told(NamedTuple):
    """What is known of the intervals of some matrices of a batch."""

    status: np.ndarray
    doubts: np.ndarray
    """In how many matrices, by reason and metric, shape (reasons, metrics)."""


def of_part(
    M: np.ndarray, first: int, names: Sequence[str], made: Made, undefined: Undefined, threads: int | None
) -> tuple[Intervals, Told]:
    """Return the intervals of matrices (b, C, C) that a batch has from its element `first` on; nothing is said yet."""
    options: dict[str, Any] = {**made._asdict(), "undefined": undefined, "num_threads": threads}
    status = np.zeros(len(M), np.int8)
    with caller.inside(CALLED, is_part=True), lazy.placed(np.arange(first, first + len(M))):
        try:
            found = compute(cmfast.uncertainty.interval, M, names, on_failure="raise", **options)
        except cmfast.FailureError as error:  # it has the status of every matrix; the same again for the intervals
            status = np.asarray(error.status)
            found = compute(cmfast.uncertainty.interval, M, names, on_failure="ignore", **options)
    number = number_of_doubts(M, found, made.method, found.n_replicates, n=None, positive=1, num_threads=threads)
    doubts = [[number.get(reason, {}).get(name, 0) for name in names] for reason in TEXTS]
    return found, Told(status, np.array(doubts, np.int64).reshape(len(TEXTS), len(names)))


def tell(every: Sequence[Told], shape: tuple[int, ...], names: Sequence[str], made: Made) -> None:
    """Warn of all that is known of the parts of a batch of a shape, as of the whole."""
    status = np.concatenate([one.status for one in every]).reshape(shape)
    number = {reason: Counter[str]() for reason in TEXTS}
    for one in every:
        for reason, counts in zip(TEXTS, one.doubts.tolist(), strict=True):
            number[reason].update({name: count for name, count in zip(names, counts, strict=True) if count})
    with caller.inside(CALLED):
        failures.report(status, "warn", failed=FAILED)
        tell_doubts({reason: of for reason, of in number.items() if of}, made.method, status.size)


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
