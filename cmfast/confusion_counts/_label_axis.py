"""Ordered class labels along an axis: where they come from, and how two sets of labels merge."""

import json
import math
from collections.abc import Hashable
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from cmfast._core import labels as _labels
from cmfast._core import validate
from cmfast._files.archive import demand

FOUND = "found"  # the labels that occur, sorted
CATEGORIES = "categories"  # all categories of a categorical
ORDERED = "ordered"  # all categories of an ordered categorical; merging fails if two orders contradict
LABELS = "labels"  # given by the user; samples with other labels are left out
IDS = "ids"  # given by n_classes: 0, ..., n - 1; other labels raise
OTHER = _labels.OTHER  # labels given by the user, and a last class of this name for all others
SOURCES = (FOUND, CATEGORIES, ORDERED, LABELS, IDS, OTHER)
GROWING = (FOUND, CATEGORIES, ORDERED)

INFINITIES = ("Infinity", "-Infinity")  # floats that JSON cannot represent

KINDS: dict[str, type | tuple[type, ...]] = {  # bool before int, because a bool is an int
    "booleans": bool,
    "integers": int,
    "floats": float,
    "strings": str,
    "bytes": bytes,
    "times": np.datetime64,
}


class Axis(NamedTuple):
    """Labels in order and their source, which decides how labels of another axis are merged."""

    labels: tuple[Any, ...]
    source: str

    @property
    def own_labels(self) -> tuple[Any, ...]:
        """The labels without the name of the rest."""
        return self.labels[:-1] if self.source == OTHER else self.labels

    @property
    def kind(self) -> str:
        """The kind of the labels ("integers", "strings", ...); "" without labels."""
        kinds = {get_kind(label) for label in self.own_labels}
        return "integers" if len(kinds) > 1 else "".join(kinds)  # only bool and int may occur together

    @property
    def positions(self) -> dict[Any, int]:
        """Dict from label to position."""
        return {label: k for k, label in enumerate(self.labels)}

    def find_position(self, name: str, label: Any) -> int:
        """Return the position of `label`; raise ValueError, naming argument `name`, if it is not a label."""
        place = self.positions.get(label) if isinstance(label, Hashable) else None
        if place is None:
            validate.refuse(name, f"of the labels {validate.format_value(self.labels)}", validate.format_value(label))
        return place

    @property
    def is_range(self) -> bool:
        """Whether the labels are 0, 1, ..., in this order."""
        return self.source == IDS or self.labels == tuple(range(len(self.labels)))

    def find_positions_in(self, other: "Axis") -> list[int]:
        """Return the position of each label in `other`, -1 for labels that it lacks."""
        if self.labels == other.labels:
            return list(range(len(self.labels)))
        places = other.positions
        return [places.get(label, -1) for label in self.labels]

    def union(self, other: "Axis", what: str, like: str = "before") -> "Axis":
        """Return the merged labels of both axes: in the order of a categorical if there is one, else sorted.

        In error messages `what` is the argument that holds the other labels, and `like` the one that holds these.
        """
        if self == other:
            return self
        if OTHER in (self.source, other.source):
            return self._merge_rest(other, what)
        if self.kind and other.kind and not are_comparable(self.kind, other.kind):
            advise = _labels.advise_on_names if like == "labels" else partial(_labels.advise_on_numbers, what)
            cure = advise(self.kind, other.kind) if like in ("labels", "y_true") else ""
            given = f"{other.kind}, {validate.format_value(other.labels)}{cure}"
            validate.refuse(what, f"{self.kind}, as {like}", given, TypeError)
        source = _merge_sources(self.source, other.source)
        if source == FOUND:
            return Axis(tuple(sorted({*self.labels, *other.labels})), FOUND)
        if source == IDS:
            return max(self, other, key=lambda axis: len(axis.labels))
        first, second = sorted((self, other), key=_order_priority)
        if first.source != second.source:  # the second source does not affect the order
            known = set(first.labels)
            return Axis(first.labels + tuple(label for label in second.labels if label not in known), source)
        merged = (
            partial(_labels.merge_orders, what) if first.source == second.source == ORDERED else _labels.insert_labels
        )
        return Axis(merged(first.labels, second.labels), source)

    def _merge_rest(self, other: "Axis", what: str) -> "Axis":
        """Return the axis with a rest if the other one has no labels yet; else raise ValueError, as they differ."""
        with_rest, axis = (self, other) if self.source == OTHER else (other, self)
        if axis != Axis((), FOUND):
            wanted = "the same on both sides where other=True, else the rest is of other labels"
            validate.refuse(what, wanted, f"{self.describe()} and {other.describe()}")
        return with_rest

    def describe(self) -> str:
        """Describe the labels and whether the user gave them, for messages."""
        if self.source == IDS:
            return f"n_classes={len(self.labels)}"
        kind = "labels" if self.source in (LABELS, OTHER) else "found labels"
        return f"{kind} {validate.format_value(self.own_labels)}{' and the rest' if self.source == OTHER else ''}"

    def to_json_dict(self) -> dict[str, Any]:
        """Return the axis as a dict that JSON can represent."""
        kind = self.kind
        labels = list(self.own_labels)
        if kind == "bytes":
            labels = [label.decode("latin-1") for label in labels]
        elif kind == "times":
            labels = list(map(str, labels))
        elif kind == "floats":
            labels = [label if math.isfinite(label) else json.dumps(label) for label in labels]
        return {"from": self.source, "kind": kind, "labels": labels}

    @classmethod
    def from_json_dict(cls, facts: Any) -> Self:
        """Return the axis described by a dict from JSON, validated because the file is untrusted."""
        demand(isinstance(facts, dict) and set(facts) == {"from", "kind", "labels"}, "its labels are not described")
        source, kind, labels = facts["from"], facts["kind"], facts["labels"]
        demand(source in SOURCES and isinstance(labels, list), "the source of its labels is unknown")
        try:
            if kind == "bytes":
                labels = [label.encode("latin-1") for label in labels]
            elif kind == "times":
                labels = [np.datetime64(label) for label in labels if isinstance(label, str)]
            elif kind == "floats":
                labels = [float(label) if label in INFINITIES else label for label in labels]
        except (AttributeError, ValueError):
            demand(holds=False, why="its labels are not of their kind")
        known = all(isinstance(label, tuple(KINDS.values())) for label in labels)
        demand(known and len(set(labels)) == len(labels) == len(facts["labels"]), "its labels are invalid or repeated")
        demand(source != OTHER or (bool(labels) and OTHER not in labels), "its labels have no rest")
        found = cls((*labels, *([OTHER] if source == OTHER else [])), source)
        of_one = len({*map(get_kind, labels)} - {"booleans"}) <= 1
        demand(of_one and found.kind == kind, "its labels are of several kinds")
        demand(source != IDS or found.labels == tuple(range(len(labels))), "its labels are not 0, 1, ...")
        demand(source != FOUND or found.labels == tuple(sorted(labels)), "its labels are not sorted")
        return found


def get_kind(label: Any) -> str:
    """Return the kind of a label: "booleans", "integers", "floats", "strings", "bytes" or "times"."""
    return next(kind for kind, types in KINDS.items() if isinstance(label, types))


def are_comparable(a: str, b: str) -> bool:
    """Whether labels of two kinds can be equal: the same kind, or booleans and integers."""
    return a == b or {a, b} == {"booleans", "integers"}


def _merge_sources(a: str, b: str) -> str:
    """Return the source of merged labels: growing sources keep growing, and an order is kept."""
    if a == b:
        return a
    if a in GROWING or b in GROWING:
        return ORDERED if ORDERED in (a, b) else CATEGORIES
    return LABELS


def _order_priority(axis: Axis) -> int:
    """Return the priority of an axis's order in a merge; 0 is highest."""
    return (ORDERED, LABELS, IDS, CATEGORIES, FOUND).index(axis.source)
