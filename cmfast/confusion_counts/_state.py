"""State of confusion counts (labels, groups, matrix): merging two states, and the parts that are saved."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, overflow_checks, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast._files.archive import Parts, demand
from cmfast._files.states import TEXT
from cmfast.confusion_counts._groups import Keys
from cmfast.confusion_counts._label_axis import FOUND, GROWING, IDS, OTHER, Axis
from cmfast.metrics._samples import order_two_classes

COUNTS = ("<i8", "<f8")
PARTS: Parts = {
    "classes": TEXT,
    "columns": TEXT,  # columns of the groups
    "groups": (("<i8",), 2),  # a row per group: the position of its label in each column's labels
    "matrix": (COUNTS, 2),  # without groups
    "matrices": (COUNTS, 3),  # with groups
}
OPTIONAL = ("columns", "groups", "matrix", "matrices")


UNKNOWN = 2**63


class CountsState(NamedTuple):
    """Immutable state of ConfusionCounts, replaced as a whole so that updates are atomic."""

    axis: Axis
    keys: Keys | None
    matrix: Array | None
    """None before the first samples, whose library is not known yet."""
    most: int = UNKNOWN
    """Upper bound of the sum of nonnegative integer counts; UNKNOWN if unchecked."""
    is_checked: bool = False
    """Whether a warning was due, and given, that truth and prediction share no label."""

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the matrix."""
        C = len(self.axis.labels)
        return (C, C) if self.keys is None else (len(self.keys.rows), C, C)

    def whole(self) -> Array:
        """Return the matrix; a NumPy array of zeros if nothing was counted."""
        return np.zeros(self.shape(), np.int64) if self.matrix is None else self.matrix


def add_counts(held: CountsState, part: CountsState) -> CountsState:
    """Return the sum of two states; the fast path for equal classes without groups adds matrices directly."""
    if part.axis is held.axis and held.keys is part.keys is None and held.matrix is not None:
        return add_matrix(held, part.matrix, part.most)
    return merge_counts(held, part)


def merge_counts(a: CountsState, b: CountsState) -> CountsState:
    """Return the sum of two states, over the union of their classes and groups."""
    if a.matrix is not None and b.matrix is not None:
        dispatch.adopt(counts=a.matrix, others=b.matrix)
        if (a.keys is None) != (b.keys is None):
            given = ("without", "with") if a.keys is None else ("with", "without")
            validate.refuse("groups", "given for all counts or for none", f"counts {given[0]} and {given[1]} groups")
    out = CountsState(
        a.axis.union(b.axis, "labels"), a.keys.union(b.keys) if a.keys and b.keys else a.keys or b.keys, None
    )
    parts = [reindex_matrix(held, out) for held in (a, b) if held.matrix is not None]
    if not parts:
        return out
    if len(parts) == 1:
        return check_integers(out._replace(matrix=parts[0], most=a.most if b.matrix is None else b.most))
    return add_matrix(out._replace(matrix=parts[0], most=a.most), parts[1], b.most)


def add_matrix(held: CountsState, M: Array, most: int) -> CountsState:
    """Add a matrix of the same classes, whose integers sum to at most `most`; raise OverflowError on overflow."""
    most += held.most
    if most > validate.LARGEST_INT64 and all(adapter(x).dtype(x).kind != "f" for x in (held.matrix, M)):
        return check_integers(held._replace(matrix=overflow_checks.add_counts("counts", held.matrix, M), most=most))
    with np.errstate(over="ignore"):  # float weights that overflow give inf, which metrics report
        matrix = adapter(M).evaluate(lambda a, b: a + b, held.matrix, M)
    return held._replace(matrix=matrix, most=most)


def check_integers(held: CountsState) -> CountsState:
    """Raise for negative integer counts or a total above int64, unless `most` already proves them valid."""
    M = held.matrix
    if M is None or held.most <= validate.LARGEST_INT64 or adapter(M).dtype(M).kind == "f":
        return held
    return held._replace(most=overflow_checks.check_total("counts", M))


def reindex_matrix(held: CountsState, out: CountsState) -> Array:
    """Return the matrix of `held` scattered to the positions of its labels and groups in `out`."""
    if held.axis == out.axis and (held.keys is None or held.keys is out.keys):
        return held.matrix
    target = [held.axis.find_positions_in(out.axis)] * 2
    if held.keys is not None and out.keys is not None:
        target = [held.keys.find_positions_in(out.keys), *target]
    return adapter(held.matrix).scatter(held.matrix, out.shape(), [list(range(n)) for n in held.shape()], target)


def select_group(held: CountsState, place: int) -> CountsState:
    """Return the counts of the group at position `place`, copied."""
    C, M = len(held.axis.labels), held.whole()
    every = [list(range(C))] * 2
    one = adapter(M).evaluate(lambda M: adapter(M).scatter(M[place], (C, C), every, every), M)
    return CountsState(held.axis, None, one)


def prepare_binary(held: CountsState, positive: int) -> tuple[CountsState, int]:
    """Return counts for binary metrics and the position of the positive class, as `metrics.from_labels` chooses it.

    Integers other than 0, 1 and -1 need an explicit positive class; if 0, 1 or -1 occurs alone, the other class is
    added. Of one listed class and the rest, the listed one is positive.
    """
    labels, source = held.axis.labels, held.axis.source
    if source == OTHER:
        return held, 0
    alone = source in GROWING and set(labels) in ({-1}, {0}, {1})
    if source == IDS or held.axis.kind not in ("booleans", "integers") or not (alone or len(labels) == 2):
        return held, positive
    pair = order_two_classes(labels, positive)
    if alone:
        both = held._replace(axis=Axis(tuple(pair), source))
        held = both._replace(matrix=reindex_matrix(held._replace(matrix=held.whole()), both))
    return held, held.axis.positions[pair[positive]]


def get_parts(held: CountsState, *, on_host: bool) -> dict[str, Any]:
    """Return the parts of a state that are saved, by name; with `on_host` the matrix is copied to the host."""
    M = held.matrix
    parts: dict[str, Any] = {"classes": held.axis.to_json_dict()}
    if held.keys is not None:
        parts |= {"columns": held.keys.to_json_dict(), "groups": held.keys.rows}
    if M is not None:
        parts["matrix" if held.keys is None else "matrices"] = adapter(M).to_host(M) if on_host else M
    return parts


def parse_parts(parts: dict[str, Any]) -> tuple[CountsState, CountsState]:
    """Return the state saved in `parts`, and its empty initial state; raise DamagedError for inconsistent parts."""
    for name in parts:
        demand(name in PARTS, f"it has {validate.format_value(name)}")
    axis, keys = Axis.from_json_dict(parts.get("classes")), None
    demand(("columns" in parts) == ("groups" in parts) == ("matrices" in parts), "its groups are not whole")
    demand(not ("groups" in parts and "matrix" in parts), "it has counts with groups and without")
    if "groups" in parts:
        rows = np.asarray(parts["groups"])
        demand(rows.ndim == 2 and (rows.dtype.kind == "i" or not rows.size), "its groups are no rows of places")
        keys = Keys.from_json_dict(parts["columns"], rows)
    M = parts.get("matrix" if keys is None else "matrices")
    held = CountsState(axis, keys, M)
    demand(M is not None or axis.source not in GROWING or not held.shape()[-1], "it has classes, but no matrix of them")
    if M is not None:
        (M,) = dispatch.adopt(matrix=M)
        kind = adapter(M).dtype(M)
        demand(kind in (np.int64, np.float64) and dispatch.shape_of(M) == held.shape(), "its matrix has another shape")
        every = [list(range(n)) for n in held.shape()]
        held = held._replace(
            matrix=adapter(M).scatter(M, held.shape(), every, every)
        )  # a copy, not shared with the caller
        try:
            held = check_integers(held)
        except (ValueError, OverflowError) as error:
            demand(holds=False, why=f"its {str(error).partition(': ')[2] or error}")
    return held, CountsState(Axis((), FOUND) if axis.source in GROWING else axis, None, None)
