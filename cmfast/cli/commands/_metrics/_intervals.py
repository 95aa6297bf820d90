"""Confidence intervals of metrics for blocks of matrices and for groups."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._core import caller, failures
from cmfast._core.annotations import IntervalMethod, Undefined
from cmfast.cli import _screen
from cmfast.cli._calls import compute_with_status, part_of_batch
from cmfast.cli._printing import format_table
from cmfast.metrics import SCALARS
from cmfast.results import Interval, Intervals
from cmfast.uncertainty._caveats import TEXTS, count_caveats, warn_of_counted_caveats
from cmfast.uncertainty._intervals import FAILED

ENDS = ("low", "high")
CALLED = "uncertainty.interval"


class Method(NamedTuple):
    """Interval method and confidence level."""

    method: IntervalMethod
    confidence_level: float


class Caveats(NamedTuple):
    """Statuses and caveats of the intervals of some matrices of a batch."""

    status: np.ndarray
    numbers: np.ndarray
    """Number of matrices by reason and metric, shape (reasons, metrics)."""


def compute_part(
    M: np.ndarray, first: int, names: Sequence[str], how: Method, undefined: Undefined, threads: int | None
) -> tuple[Intervals, Caveats]:
    """Return the intervals of matrices (b, C, C), which start at element `first` of the batch, without warnings."""
    options: dict[str, Any] = {**how._asdict(), "undefined": undefined, "num_threads": threads}
    with part_of_batch(CALLED, first, len(M)):
        found, status = compute_with_status(cmfast.uncertainty.interval, M, names, **options)
    number = count_caveats(M, found, how.method, found.n_resamples, n=None, positive=1, num_threads=threads)
    numbers = [[number.get(reason, {}).get(name, 0) for name in names] for reason in TEXTS]
    return found, Caveats(status, np.array(numbers, np.int64).reshape(len(TEXTS), len(names)))


def warn_of_caveats(parts: Sequence[Caveats], shape: tuple[int, ...], names: Sequence[str], how: Method) -> None:
    """Issue the warnings of all parts of a batch as those of the whole batch."""
    status = np.concatenate([part.status for part in parts]).reshape(shape)
    number = {reason: Counter[str]() for reason in TEXTS}
    for part in parts:
        for reason, counts in zip(TEXTS, part.numbers.tolist(), strict=True):
            number[reason].update({name: count for name, count in zip(names, counts, strict=True) if count})
    with caller.set_task(CALLED):
        failures.report(status, "warn", failed=FAILED)
        warn_of_counted_caveats({reason: of for reason, of in number.items() if of}, how.method, status.size)


def describe_method(found: Intervals, clusters: list[np.ndarray] | None) -> dict[str, Any]:
    """Return the metadata of the intervals."""
    how = {"method": found.method, "confidence_level": found.confidence_level, "resamples": found.n_resamples}
    return how if clusters is None else {**how, "clusters": sum(map(len, clusters))}


def stack(each: list[Intervals]) -> Intervals:
    """Stack the intervals of several groups into those of a batch."""
    first = each[0]
    found = {
        name: Interval(*(np.stack(parts) for parts in zip(*(one[name] for one in each), strict=True))) for name in first
    }
    return Intervals(found, method=first.method, confidence_level=first.confidence_level, n_resamples=first.n_resamples)


def select_ends(found: Intervals, group: int | None = None) -> dict[str, dict[str, Any]]:
    """Return ends, standard error and undefined resamples of every metric, for one group or all."""
    parts = (*ENDS, "standard_error", "n_undefined")
    at = () if group is None else (group,)
    return {name: {part: np.asarray(getattr(one, part))[at] for part in parts} for name, one in found.items()}


def name_ends(found: Intervals, labels: list[Any]) -> dict[str, np.ndarray]:
    """Return one array per number of a matrix and interval end."""
    return {
        f"{name} {end}": np.ravel(values)
        for name, one in _name_numbers(found, labels).items()
        for end, values in zip(ENDS, one[1:], strict=True)
    }


def format_intervals(
    found: Intervals,
    clusters: list[np.ndarray] | None,
    labels: list[Any],
    undefined: str,
    names: Iterable[str],
) -> Iterator[str]:
    """Yield a line per number of each matrix, after the matrix's name unless it is empty."""
    drawn = f", {found.n_resamples:,} resamples" if found.n_resamples else ""
    of = "" if clusters is None else f", of {sum(map(len, clusters)):,} clusters"
    yield f"{found.confidence_level:.0%} intervals by {found.method}{drawn}{of}; {undefined}"
    numbers = _name_numbers(found, labels)
    for k, name in enumerate(names):
        if name:
            yield f"\n{name}"
        rows = {number: [f"{np.ravel(part)[k]:.4f}" for part in parts] for number, parts in numbers.items()}
        yield from format_table("", ("estimate", *ENDS), rows)
    lost = max((int(np.max(one.n_undefined, initial=0)) for one in found.values()), default=0)
    if lost:
        yield f"undefined in up to {lost:,} resamples, which are left out"


def _name_numbers(found: Intervals, labels: list[Any]) -> dict[str, tuple[Any, Any, Any]]:
    """Return estimate and ends of every number; a metric per class gives one entry per class."""
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
