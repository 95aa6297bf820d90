"""Sections that not every report has: two models, groups, geometry, prediction sets."""

from typing import Any

import numpy as np

from cmfast._core.markup import escape_prose, isolate
from cmfast._pages import parts
from cmfast._pages.forest import forest
from cmfast._report import _words

Facts = dict[str, Any]
NAMES = ("comparison", "groups", "geometry", "sets")
MOST_LINES = 40  # that are shown at once
MOST_SIZES = 12
SIDE_BY_SIDE = ("accuracy", "balanced_accuracy", "f1_macro")


def all_of(facts: Facts) -> list[str]:
    """Return those that there is something to say in."""
    found = zip(NAMES, (_comparison, _groups, _geometry, _sets), strict=True)
    return [section(facts[name], facts) for name, section in found if facts.get(name)]


def _comparison(one: Facts, facts: Facts) -> str:
    first, second = (isolate(name) for name in one["models"])
    rows = [
        (_words.METRICS[name], float(v["low"]), float(v["difference"]), float(v["high"]))
        for name, v in one["metrics"].items()
    ]
    picture = forest(rows, f"{first} less {second}, with intervals", signed=True)
    lines = [
        (
            _words.METRICS[name],
            parts.number(v["first"]),
            parts.number(v["second"]),
            parts.number(v["difference"], "+z.3f"),
            parts.between(v["low"], v["high"], "+.3f"),
            parts.number(v["p_value"], ".3g"),
        )
        for name, v in one["metrics"].items()
    ]
    head = ("metric", first, second, "difference", f"{100 * facts['level']:g} % interval", "p")
    table = parts.headed("The same samples, both models", head, lines)
    flips = [(*(isolate(f[key]) for key in ("true", "first", "second")), f"{f['count']:,}") for f in one["flips"]]
    changed = parts.headed("Where they say different things most often", ("truth", first, second, "samples"), flips)
    said = _words.comparison(one)
    return (
        f"<section><h2>{escape_prose(f'{first} or {second}?')}</h2>"
        f"{parts.figure(picture + table, said, *one['notes'])}"
        f"<h3>Flips</h3>{changed}</section>"
    )


def _groups(one: Facts, facts: Facts) -> str:
    pieces = []
    names = [isolate(group) for group in one["groups"]]
    for model_name, model in one["models"].items():
        name, values = isolate(model_name), model["metrics"]
        ends = [values["accuracy"][key].tolist() for key in ("low", "estimate", "high")]
        rows = list(zip(names, *ends, strict=True))
        lines = [
            (
                group,
                f"{int(model['samples'][g]):,}",
                *(text for metric in SIDE_BY_SIDE for text in _with_ends(values[metric], g)),
            )
            for g, group in enumerate(names)
        ]
        head = [", ".join(map(isolate, one["by"])), "samples"]
        for metric in SIDE_BY_SIDE:
            head += [_words.METRICS[metric], "interval"]
        few = (
            f"<h3>{escape_prose(name)}: accuracy</h3>{forest(rows, f'{name}: accuracy of groups')}"
            if len(rows) <= 40
            else ""
        )
        pieces.append(f"{few}{parts.headed(f'{name}: groups', head, lines, sorts=True)}")
    return f"<section><h2>Groups</h2>{parts.figure(''.join(pieces), _words.groups(one), *one['notes'])}</section>"


def _with_ends(value: Facts, g: int) -> tuple[str, str]:
    return parts.number(value["estimate"][g]), parts.between(float(value["low"][g]), float(value["high"][g]))


def _geometry(one: Facts, facts: Facts) -> str:
    named = {
        "overlap": "overlap with the balanced matrix",
        "guaranteed": "of it guaranteed before looking",
        "null_overlap": "expected if labels were permuted",
        "missing_mass": "share of the matrix without a point",
    }
    rows = [(text, parts.number(float(one[name]))) for name, text in named.items()]
    rows += [
        ("points", f"{one['points']:,}"),
        ("cells", f"{one['cells']:,}"),
        ("alone in a cell", parts.share(one["alone"])),
    ]
    table = parts.headed("Geometric confusion matrix against the balanced one", ("", "value"), rows)
    said = _words.geometry(facts, drawn=one["drawn"])
    notes = [note for note in one["notes"] if note not in one["verdict"] and one["verdict"] not in note]
    return f"<section><h2>Geometry</h2>{parts.figure(table, said, one['verdict'], *notes)}</section>"


def _sets(one: Facts, facts: Facts) -> str:
    sizes = [(f"{k}", f"{int(n):,}") for k, n in enumerate(one["sizes"]) if n]
    head = ("labels in a set", "sets")
    if len(sizes) > MOST_SIZES:
        every = np.repeat(np.arange(len(one["sizes"])), one["sizes"])
        found = np.quantile(every, (0, 0.25, 0.5, 0.75, 1), method="lower").tolist()
        names = ("the smallest", "a quarter, at most", "half, at most", "three quarters, at most", "the largest")
        head, sizes = ("sets", "labels in a set"), [(name, f"{n:,}") for name, n in zip(names, found, strict=True)]
    pairs = [
        (
            f"{isolate(p['first'])} and {isolate(p['second'])}",
            f"{p['sets']:,}",
            parts.number(float(p["correlation"]), "+z.2f"),
        )
        for p in one["pairs"]
    ]
    by_class = [
        (isolate(label), parts.share(float(rate)))
        for label, rate in zip(facts["labels"], one["coverage_by_class"], strict=True)
    ]
    classes = parts.headed("Coverage of classes", ("class", "sets that hold it"), by_class, sorts=True)
    if len(by_class) > MOST_LINES:
        classes = f"<details><summary>Coverage of {len(by_class):,} classes</summary>{classes}</details>"
    tables = parts.two(
        parts.headed("Sizes of the sets", head, sizes),
        parts.headed("Classes that share sets", ("classes", "sets with both", "correlation"), pairs),
    )
    said = [_words.sets(one), *one["notes"]]
    return f"<section><h2>Prediction sets</h2>{parts.figure(tables + classes, *said)}</section>"
