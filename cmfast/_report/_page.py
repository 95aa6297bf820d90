"""The page of a report: sections of headings, sentences, pictures and tables, which also read without its script."""

import platform
from typing import Any

import numpy as np

from cmfast._core.markup import escape_name, escape_prose, isolate
from cmfast._pages import parts
from cmfast._pages.forest import forest
from cmfast._report import _extra_sections, _words
from cmfast._version import __version__

Facts = dict[str, Any]
FEW_CELLS = 30  # classes up to which the counts are a table as well
OPEN_ROWS = 40  # classes up to which their table is open


def whole(facts: Facts, matrices: list[np.ndarray], data: dict[str, Any]) -> str:
    """Return the page."""
    own = [_head(facts), _matrix(facts, matrices), _balancing(facts), _metrics(facts), _confusions(facts)]
    body = "".join([*own, _classes(facts), *_extra_sections.all_of(facts), _foot(facts)])
    style, script = (parts.source("cmfast._report", name) for name in ("report.css", "report.js"))
    return parts.document(
        isolate(facts["title"]), body + parts.data("data", data), dark=True, style=style, script=script
    )


def _head(facts: Facts) -> str:
    cards = [(f"{facts['samples']:,}", "samples"), (f"{len(facts['labels']):,}", "classes")]
    for one in facts["models"]:
        value = one["metrics"]["accuracy"]
        ends = parts.shares_between(value["low"], value["high"])
        said = f"{isolate(one['name'])}; {100 * facts['level']:g} % interval {ends}"
        cards.append((f"{100 * value['estimate']:.1f} % right", said))
    return (
        f"<header><h1>{escape_name(facts['title'])}</h1>"
        f'<p class="lead">{escape_prose(_words.lead(facts))}</p>{parts.facts(cards)}</header>'
    )


def _matrix(facts: Facts, matrices: list[np.ndarray]) -> str:
    tables = ""
    if len(facts["labels"]) <= FEW_CELLS:
        each = [_counts(one["name"], M, facts["labels"]) for one, M in zip(facts["models"], matrices, strict=True)]
        tables = f"<details><summary>The counts as a table</summary>{''.join(each)}</details>"
    viewer = (
        '<div id="viewer" hidden><div class="controls" id="controls"></div>'
        '<div id="stage"><canvas id="canvas" tabindex="0" role="application" aria-roledescription="confusion matrix" '
        'aria-label="Confusion matrix. Arrow keys move between cells, plus and minus zoom, 0 shows all." '
        'aria-describedby="cell"></canvas></div>'
        '<output id="cell" aria-live="polite"></output><div id="legend" aria-hidden="true"></div>'
        '<h3>Largest confusions in what is shown</h3><div class="wide"><table id="inview"></table></div></div>'
        "<noscript><p>The matrix is drawn by a script; all numbers are in the tables of this page.</p></noscript>"
    )
    said = escape_prose(_words.matrix(facts))
    return f"<section><h2>The matrix</h2><p>{said}</p><figure>{viewer}</figure>{tables}</section>"


def _counts(name: str, M: np.ndarray, labels: list[str]) -> str:
    names = [isolate(label) for label in labels]
    rows = [(label, *(f"{n:,}" for n in row)) for label, row in zip(names, M.tolist(), strict=True)]
    return parts.headed(f"{isolate(name)}: rows are the truth, columns the prediction", ["", *names], rows)


def _balancing(facts: Facts) -> str:
    paragraphs = [f"<p>{escape_prose(text)}</p>" for text in _words.balancing(facts)]
    tables = []
    for one in facts["models"]:
        if said := _words.moved(one):
            paragraphs.append(f"<p>{escape_prose(said)}</p>")
        rows = [
            (
                f"{isolate(c['first'])} and {isolate(c['second'])}",
                f"{c['count']:,}",
                _rank(c["rank"]),
                parts.share(c["balanced"]),
                _rank(c["rank_balanced"]),
            )
            for c in one["standing"]["moved"]
        ]
        head = ("confusion", "count", "rank by count", "balanced", "rank when balanced")
        if rows:
            caption = f"{isolate(one['name'])}: confusions whose rank changes beyond chance, both ways together"
            tables.append(parts.headed(caption, head, rows))
    return f"<section><h2>What balancing changes</h2>{''.join(paragraphs + tables)}</section>"


def _rank(ends: np.ndarray) -> str:
    """Return the ranks that chance allows."""
    least, largest = (int(end) for end in ends)
    return f"{least:,}" if least == largest else f"{least:,} to {largest:,}"


def _between(c: Facts) -> str:
    """Return what is confused: one direction, or both."""
    true, predicted = isolate(c["true"]), isolate(c["predicted"])
    return f"{true} and {predicted}, both ways" if c["both_ways"] else f"{true} taken for {predicted}"


def _metrics(facts: Facts) -> str:
    pieces = []
    for one in facts["models"]:
        values = one["metrics"]
        rows = [(_words.METRICS[n], float(v["low"]), float(v["estimate"]), float(v["high"])) for n, v in values.items()]
        lowest = min((row[1] for row in rows if row[1] < 0), default=0.0)
        picture = forest(rows, f"{isolate(one['name'])}: metrics with intervals", low=lowest)
        lines = [
            (_words.METRICS[n], parts.number(v["estimate"]), parts.between(v["low"], v["high"]))
            for n, v in values.items()
        ]
        table = parts.headed(isolate(one["name"]), ("metric", "value", f"{100 * facts['level']:g} % interval"), lines)
        pieces.append(parts.two(picture, table))
    said = dict.fromkeys([_words.intervals(facts), *(note for one in facts["models"] for note in one["notes"])])
    return f"<section><h2>How good, and how sure</h2>{parts.figure(''.join(pieces), *said)}</section>"


def _confusions(facts: Facts) -> str:
    tables = []
    for one in facts["models"]:
        rows = [
            (
                _between(c),
                f"{c['count']:,}",
                parts.share(c["row"]),
                parts.shares_between(c["low"], c["high"]),
                parts.share(c["balanced"]),
                parts.shares_between(c["balanced_low"], c["balanced_high"]) if "balanced_low" in c else parts.NOTHING,
            )
            for c in one["confusions"]
        ]
        head = ("confusion", "count", "of the true samples", "interval", "balanced", "interval")
        tables.append(parts.headed(f"{isolate(one['name'])}: largest confusions", head, rows, sorts=True))
    return f"<section><h2>Largest confusions</h2><p>{escape_prose(_words.CONFUSIONS)}</p>{''.join(tables)}</section>"


def _classes(facts: Facts) -> str:
    pieces = []
    for one in facts["models"]:
        rows = _class_rows(one["classes"], [isolate(label) for label in facts["labels"]])
        head = ["class", "samples", "predicted", "recall", "interval", "precision", "interval", "F1"]
        head += ["balanced", "most taken for"]
        table = parts.headed(f"{isolate(one['name'])}: classes", head, rows, sorts=True)
        search = '<input type="search" class="rows" placeholder="Filter classes" aria-label="Filter classes" hidden>'
        if len(rows) > OPEN_ROWS:
            said = f"{escape_name(one['name'])}: all {len(rows):,} classes"
            table = f"<details><summary>{said}</summary>{search}{table}</details>"
        pieces.append(table)
    return f"<section><h2>Classes</h2><p>{escape_prose(_words.CLASSES)}</p>{''.join(pieces)}</section>"


def _class_rows(columns: dict[str, np.ndarray], labels: list[str]) -> list[tuple[str, ...]]:
    each = {name: values.tolist() for name, values in columns.items()}
    return [
        (
            label,
            f"{each['support'][k]:,}",
            f"{each['predicted'][k]:,}",
            parts.share(each["recall"][k]),
            parts.shares_between(each["recall_low"][k], each["recall_high"][k]),
            parts.share(each["precision"][k]),
            parts.shares_between(each["precision_low"][k], each["precision_high"][k]),
            parts.share(each["f1"][k]),
            parts.share(each["balanced"][k]),
            labels[each["taken_for"][k]] if each["taken_for"][k] >= 0 else parts.NOTHING,
        )
        for k, label in enumerate(labels)
    ]


def _foot(facts: Facts) -> str:
    return (
        f"<footer><p>{escape_prose(_words.making(facts))}</p>"
        f"<p>cmfast {__version__}, Python {platform.python_version()}, NumPy {np.__version__}. "
        "Bi-normalisation: Erbani et al., On the Normalization of Confusion Matrices: Methods and Geometric "
        "Interpretations.</p></footer>"
    )
