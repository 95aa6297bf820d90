"""Compose the page of a report: sections of headings, sentences, pictures and tables, readable without its script."""

from typing import Any

import numpy as np

from cmfast._core.markup import isolate
from cmfast._pages import values
from cmfast._pages.charts import draw_forest
from cmfast._pages.parts import Figure, Folded, Markup, Page, Part, Section, Table
from cmfast._pages.pictures import make_picture
from cmfast._pages.render import format_versions, read_source, render_page
from cmfast._report import _extra_sections, _sentences

Facts = dict[str, Any]
FEW_CELLS = 30  # most classes with a table of counts
OPEN_ROWS = 40  # most rows of an unfolded table of classes
VIEWER = Markup(
    '<div id="viewer" hidden><div class="controls" id="controls"></div>'
    '<div id="stage"><canvas id="canvas" tabindex="0" role="application" aria-roledescription="confusion matrix" '
    'aria-label="Confusion matrix. Arrow keys move between cells, plus and minus zoom, 0 shows all." '
    'aria-describedby="cell"></canvas></div>'
    '<output id="cell" aria-live="polite"></output><div id="legend" aria-hidden="true"></div>'
    '<h3>Largest confusions in what is shown</h3><div class="wide"><table id="inview"></table></div></div>'
    "<noscript><p>The matrix is drawn by a script; all numbers are in the tables of this page.</p></noscript>"
)
SEARCH = Markup('<input type="search" class="rows" placeholder="Filter classes" aria-label="Filter classes" hidden>')


def compose_page(facts: Facts, matrices: list[np.ndarray], data: dict[str, Any]) -> str:
    """Return the page as HTML."""
    own = [
        _compose_matrix(facts, matrices),
        _compose_balancing(facts),
        _compose_metrics(facts),
        _compose_confusions(facts),
        _compose_classes(facts),
    ]
    page = Page(
        title=isolate(facts["title"]),
        lead=_sentences.write_lead(facts),
        cards=_compose_cards(facts),
        sections=[*own, *_extra_sections.compose_extra_sections(facts)],
        foot=[_sentences.describe_page(facts), f"{format_versions()} {_sentences.SOURCE}"],
    )
    style, script = (read_source("cmfast._report", name) for name in ("report.css", "report.js"))
    return render_page(page, dark=True, style=style, script=script, data=data)


def _compose_cards(facts: Facts) -> list[tuple[str, str]]:
    """Return the cards at the top: samples, classes, accuracies."""
    cards = [(f"{facts['samples']:,}", "samples"), (f"{len(facts['labels']):,}", "classes")]
    for one in facts["models"]:
        value = one["metrics"]["accuracy"]
        ends = values.format_share_interval(value["low"], value["high"])
        said = f"{isolate(one['name'])}; {100 * facts['confidence_level']:g} % interval {ends}"
        cards.append((f"{100 * value['estimate']:.1f} % right", said))
    return cards


def _compose_matrix(facts: Facts, matrices: list[np.ndarray]) -> Section:
    """Return the section with the interactive matrix."""
    shown: list[Part] = [_sentences.explain_matrix(facts), Figure([VIEWER])]
    if len(facts["labels"]) <= FEW_CELLS:
        each = [
            _compose_counts(one["name"], M, facts["labels"]) for one, M in zip(facts["models"], matrices, strict=True)
        ]
        shown.append(Folded("The counts as a table", each))
    return Section("The matrix", shown)


def _compose_counts(name: str, M: np.ndarray, labels: list[str]) -> Table:
    """Return the table of counts of one model."""
    names = [isolate(label) for label in labels]
    rows = [(label, *(f"{n:,}" for n in row)) for label, row in zip(names, M.tolist(), strict=True)]
    return Table(f"{isolate(name)}: rows are the truth, columns the prediction", ["", *names], rows)


def _compose_balancing(facts: Facts) -> Section:
    """Return the section on the effect of bi-normalisation."""
    paragraphs: list[Part] = [*_sentences.explain_balancing(facts)]
    tables = []
    for one in facts["models"]:
        if said := _sentences.explain_rank_changes(one):
            paragraphs.append(said)
        rows = [
            (
                f"{isolate(c['first'])} and {isolate(c['second'])}",
                f"{c['count']:,}",
                _format_rank(c["rank"]),
                values.format_share(c["balanced"]),
                _format_rank(c["rank_balanced"]),
            )
            for c in one["standing"]["moved"]
        ]
        head = ("confusion", "count", "rank by count", "balanced", "rank when balanced")
        if rows:
            caption = f"{isolate(one['name'])}: confusions whose rank changes beyond chance, both ways together"
            tables.append(Table(caption, head, rows))
    return Section("What balancing changes", [*paragraphs, *tables])


def _format_rank(ends: np.ndarray) -> str:
    """Return a rank, or the range of ranks that the intervals allow, as text."""
    least, largest = (int(end) for end in ends)
    return f"{least:,}" if least == largest else f"{least:,} to {largest:,}"


def _name_confusion(c: Facts) -> str:
    """Return the name of a confusion: one direction, or both."""
    true, predicted = isolate(c["true"]), isolate(c["predicted"])
    return f"{true} and {predicted}, both ways" if c["both_ways"] else f"{true} taken for {predicted}"


def _compose_metrics(facts: Facts) -> Section:
    """Return the section with metrics and intervals."""
    pieces: list[Part] = []
    for one in facts["models"]:
        found = {_sentences.METRICS[name]: ends for name, ends in one["metrics"].items()}
        rows = [(name, float(v["low"]), float(v["estimate"]), float(v["high"])) for name, v in found.items()]
        lowest = min((row[1] for row in rows if row[1] < 0), default=0.0)
        picture = make_picture("", draw_forest(rows, f"{isolate(one['name'])}: metrics with intervals", low=lowest))
        lines = [
            (name, values.format_number(v["estimate"]), values.format_interval(v["low"], v["high"]))
            for name, v in found.items()
        ]
        table = Table(
            isolate(one["name"]), ("metric", "value", f"{100 * facts['confidence_level']:g} % interval"), lines
        )
        pieces += [picture, table]
    said = dict.fromkeys(
        [_sentences.explain_intervals(facts), *(note for one in facts["models"] for note in one["notes"])]
    )
    return Section("How good, and how sure", [Figure(pieces, list(said), "two")])


def _compose_confusions(facts: Facts) -> Section:
    """Return the section with the tables of the largest confusions."""
    tables = []
    for one in facts["models"]:
        rows = [
            (
                _name_confusion(c),
                f"{c['count']:,}",
                values.format_share(c["row"]),
                values.format_share_interval(c["low"], c["high"]),
                values.format_share(c["balanced"]),
                values.format_share_interval(c["balanced_low"], c["balanced_high"])
                if "balanced_low" in c
                else values.MISSING,
            )
            for c in one["confusions"]
        ]
        head = ("confusion", "count", "of the true samples", "interval", "balanced", "interval")
        tables.append(Table(f"{isolate(one['name'])}: largest confusions", head, rows, sorts=True))
    return Section("Largest confusions", [_sentences.CONFUSIONS, *tables])


def _compose_classes(facts: Facts) -> Section:
    """Return the section with the tables of classes."""
    shown: list[Part] = [_sentences.CLASSES]
    for one in facts["models"]:
        rows = _format_classes(one["classes"], [isolate(label) for label in facts["labels"]])
        head = ["class", "samples", "predicted", "recall", "interval", "precision", "interval", "F1"]
        head += ["balanced", "most taken for"]
        table = Table(f"{isolate(one['name'])}: classes", head, rows, sorts=True)
        folded = Folded(f"{isolate(one['name'])}: all {len(rows):,} classes", [SEARCH, table])
        shown.append(folded if len(rows) > OPEN_ROWS else table)
    return Section("Classes", shown)


def _format_classes(columns: dict[str, np.ndarray], labels: list[str]) -> list[tuple[str, ...]]:
    """Return the rows of a table of classes."""
    each = {name: values.tolist() for name, values in columns.items()}
    return [
        (
            label,
            f"{each['support'][k]:,}",
            f"{each['predicted'][k]:,}",
            values.format_share(each["recall"][k]),
            values.format_share_interval(each["recall_low"][k], each["recall_high"][k]),
            values.format_share(each["precision"][k]),
            values.format_share_interval(each["precision_low"][k], each["precision_high"][k]),
            values.format_share(each["f1"][k]),
            values.format_share(each["balanced"][k]),
            labels[each["taken_for"][k]] if each["taken_for"][k] >= 0 else values.MISSING,
        )
        for k, label in enumerate(labels)
    ]
