"""Parts of a page: the whole, figures, tables, data for its script. Every text is escaped here; names come isolated."""

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from cmfast._core.markup import escape_attribute, escape_prose
from cmfast._files.output import plain

NOTHING = "\u2013"  # in place of a number that is not there
FORBIDDEN = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def document(title: str, body: str, *, dark: bool, style: str = "", script: str = "") -> str:
    """Return a page; `dark` has it follow the wish of the reader, else it is light. `style` and `script` are ours."""
    base = source("cmfast._pages", "page.css")
    code = f"<script>{script}</script>" if script else ""
    return (
        f'<!doctype html><html lang="en" class="{"both" if dark else "light"}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{content_policy(script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape_attribute(title)}</title><style>{base}{style}</style></head>"
        f"<body><main>{body}</main>{code}</body></html>\n"
    )


def content_policy(script: str = "") -> str:
    """Return what a page may load: nothing from a network, its own style, images within it, and this one script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"'sha256-{digest}'" if script else "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def source(package: str, name: str) -> str:
    """Return the text of a file that is shipped in a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def data(name: str, facts: Any) -> str:
    """Return what a script reads as JSON; no text in it can end the element, or begin a comment."""
    text = json.dumps(plain(facts), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, code in FORBIDDEN.items():
        text = text.replace(character, code)
    return f'<script type="application/json" id="{escape_attribute(name)}">{text}</script>'


def figure(pictures: str, *paragraphs: str) -> str:
    """Return pictures with what is said of them."""
    caption = "".join(f"<p>{escape_prose(text)}</p>" for text in paragraphs)
    return f"<figure>{pictures}<figcaption>{caption}</figcaption></figure>"


def two(left: str, right: str) -> str:
    """Return two pieces side by side where there is room."""
    return f'<div class="two"><div>{left}</div><div class="wide">{right}</div></div>'


def facts(shown: Sequence[tuple[str, str]]) -> str:
    """Return large numbers with what each is."""
    cards = "".join(
        f'<div class="fact"><b>{escape_prose(v)}</b><span>{escape_prose(text)}</span></div>' for v, text in shown
    )
    return f'<div class="facts">{cards}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a plain table; its first column is left."""
    first = "<tr>" + "".join(f"<th>{escape_prose(cell)}</th>" for cell in head) + "</tr>" if head else ""
    body = "".join("<tr>" + "".join(f"<td>{escape_prose(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{first}{body}</table>"


def headed(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, sorts: bool = False) -> str:
    """Return a table with a caption and a heading for every row and column; `sorts`: by a click on a heading."""
    names = "".join(f'<th scope="col">{escape_prose(cell)}</th>' for cell in head)
    lines = []
    for name, *cells in rows:
        values = "".join(f"<td>{escape_prose(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape_prose(name)}</th>{values}</tr>')
    kind = ' class="sorts"' if sorts else ""
    return (
        f'<div class="wide"><table{kind}><caption>{escape_prose(caption)}</caption><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def number(value: float, form: str = "z.3f") -> str:
    """Return a number; a dash where there is none, and nothing below zero that is written as zero."""
    return NOTHING if math.isnan(value) else f"{value:{form}}"


def share(value: float) -> str:
    """Return a share as a number of percent with one decimal."""
    return NOTHING if math.isnan(value) else f"{100 * value:.1f} %"


def between(low: float, high: float, form: str = ".3f") -> str:
    """Return the ends of an interval."""
    return NOTHING if math.isnan(low) or math.isnan(high) else f"{low:{form}} to {high:{form}}"


def shares_between(low: float, high: float) -> str:
    """Return the ends of an interval of shares in percent."""
    return NOTHING if math.isnan(low) or math.isnan(high) else f"{100 * low:.1f} to {100 * high:.1f} %"
