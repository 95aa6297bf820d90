"""Optional sections of a report: two models, groups, geometry, prediction sets."""

from typing import Any

import numpy as np

from cmfast._core.markup import isolate
from cmfast._pages import values
from cmfast._pages.charts import draw_forest
from cmfast._pages.parts import Figure, Folded, Heading, Part, Section, Table
from cmfast._pages.pictures import make_picture
from cmfast._report import _sentences

Facts = dict[str, Any]
NAMES = ("comparison", "groups", "geometry", "sets")
MOST_OPEN_ROWS = 40  # most rows shown without folding
MOST_LISTED_SIZES = 12
SIDE_BY_SIDE = ("accuracy", "balanced_accuracy", "f1_macro")


def compose_extra_sections(facts: Facts) -> list[Section]:
    """Return the optional sections that have facts."""
    found = zip(NAMES, (_compose_comparison, _compose_groups, _compose_geometry, _compose_sets), strict=True)
    return [section(facts[name], facts) for name, section in found if facts.get(name)]


def _compose_comparison(one: Facts, facts: Facts) -> Section:
    """Return the section that compares two models."""
    first, second = (isolate(name) for name in one["models"])
    rows = [
        (_sentences.METRICS[name], float(v["low"]), float(v["difference"]), float(v["high"]))
        for name, v in one["metrics"].items()
    ]
    picture = make_picture("", draw_forest(rows, f"{first} minus {second}, with intervals", signed=True))
    lines = [
        (
            _sentences.METRICS[name],
            values.format_number(v["first"]),
            values.format_number(v["second"]),
            values.format_number(v["difference"], "+z.3f"),
            values.format_interval(v["low"], v["high"], "+.3f"),
            values.format_number(v["p_value"], ".3g"),
        )
        for name, v in one["metrics"].items()
    ]
    head = ("metric", first, second, "difference", f"{100 * facts['confidence_level']:g} % interval", "p")
    table = Table("The same samples, both models", head, lines)
    flips = [(*(isolate(f[key]) for key in ("true", "first", "second")), f"{f['count']:,}") for f in one["flips"]]
    changed = Table("Largest disagreements", ("truth", first, second, "samples"), flips)
    figure = Figure([picture, table], [_sentences.explain_comparison(one), *one["notes"]])
    return Section(f"{first} or {second}?", [figure, Heading("Flips"), changed])


def _compose_groups(one: Facts, facts: Facts) -> Section:
    """Return the section with the metrics of groups."""
    pieces: list[Part] = []
    names = [isolate(group) for group in one["groups"]]
    for model_name, model in one["models"].items():
        name, metrics = isolate(model_name), model["metrics"]
        ends = [metrics["accuracy"][key].tolist() for key in ("low", "estimate", "high")]
        rows = list(zip(names, *ends, strict=True))
        lines = [
            (
                group,
                f"{int(model['samples'][g]):,}",
                *(text for metric in SIDE_BY_SIDE for text in _format_with_interval(metrics[metric], g)),
            )
            for g, group in enumerate(names)
        ]
        head = [", ".join(map(isolate, one["by"])), "samples"]
        for metric in SIDE_BY_SIDE:
            head += [_sentences.METRICS[metric], "interval"]
        if len(rows) <= MOST_OPEN_ROWS:
            pieces += [Heading(f"{name}: accuracy"), make_picture("", draw_forest(rows, f"{name}: accuracy of groups"))]
        pieces.append(Table(f"{name}: groups", head, lines, sorts=True))
    return Section("Groups", [Figure(pieces, [_sentences.explain_groups(one), *one["notes"]])])


def _format_with_interval(value: Facts, g: int) -> tuple[str, str]:
    """Return the estimate and the interval of group `g` as texts."""
    return values.format_number(value["estimate"][g]), values.format_interval(
        float(value["low"][g]), float(value["high"][g])
    )


def _compose_geometry(one: Facts, facts: Facts) -> Section:
    """Return the section on the geometric confusion matrix."""
    named = {
        "overlap": "overlap with the balanced matrix",
        "guaranteed": "guaranteed part of the overlap",
        "null_overlap": "overlap with permuted labels",
        "missing_mass": "share of the matrix without a point",
    }
    rows = [(text, values.format_number(float(one[name]))) for name, text in named.items()]
    rows += [
        ("points", f"{one['points']:,}"),
        ("cells", f"{one['cells']:,}"),
        ("share of points alone in a cell", values.format_share(one["alone"])),
    ]
    table = Table("Geometric confusion matrix against the balanced one", ("", "value"), rows)
    said = _sentences.explain_geometry(facts, drawn=one["drawn"])
    notes = [note for note in one["notes"] if note not in one["verdict"] and one["verdict"] not in note]
    return Section("Geometry", [Figure([table], [said, one["verdict"], *notes])])


def _compose_sets(one: Facts, facts: Facts) -> Section:
    """Return the section on prediction sets."""
    sizes = [(f"{k}", f"{int(n):,}") for k, n in enumerate(one["sizes"]) if n]
    head = ("labels in a set", "sets")
    if len(sizes) > MOST_LISTED_SIZES:
        every = np.repeat(np.arange(len(one["sizes"])), one["sizes"])
        found = np.quantile(every, (0, 0.25, 0.5, 0.75, 1), method="lower").tolist()
        names = ("the smallest", "a quarter, at most", "half, at most", "three quarters, at most", "the largest")
        head, sizes = ("sets", "labels in a set"), [(name, f"{n:,}") for name, n in zip(names, found, strict=True)]
    pairs = [
        (
            f"{isolate(p['first'])} and {isolate(p['second'])}",
            f"{p['sets']:,}",
            values.format_number(float(p["correlation"]), "+z.2f"),
        )
        for p in one["pairs"]
    ]
    by_class = [
        (isolate(label), values.format_share(float(rate)))
        for label, rate in zip(facts["labels"], one["coverage_by_class"], strict=True)
    ]
    classes: Part = Table("Coverage of classes", ("class", "coverage"), by_class, sorts=True)
    if len(by_class) > MOST_OPEN_ROWS:
        classes = Folded(f"Coverage of {len(by_class):,} classes", [classes])
    together = Table("Classes that share sets", ("classes", "sets with both", "correlation"), pairs)
    tables = [Table("Sizes of the sets", head, sizes), together, classes]
    return Section("Prediction sets", [Figure(tables, [_sentences.explain_sets(one), *one["notes"]], "two")])
