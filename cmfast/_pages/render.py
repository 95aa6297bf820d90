"""Render pages: parts to one self-contained HTML file. Escapes all text by `_core/markup.py`."""

import base64
import hashlib
import json
import platform
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import numpy as np

from cmfast._core.markup import escape_attribute, escape_prose
from cmfast._files.output import convert_to_plain
from cmfast._pages import parts
from cmfast._pages.parts import Part
from cmfast._version import __version__

FORBIDDEN = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_page(page: parts.Page, *, dark: bool = False, style: str = "", script: str = "", data: Any = None) -> str:
    """Return a page as HTML; `dark` follows the colour scheme of the reader, otherwise the page is light.

    `style` is appended to the style of all pages; `script` is the only script that may run, and reads `data` as JSON
    from the element of that name.
    """
    base = read_source("cmfast._pages", "page.css")
    facts = "" if data is None else embed_json("data", data)
    code = f"<script>{script}</script>" if script else ""
    return (
        f'<!doctype html><html lang="en" class="{"both" if dark else "light"}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{make_content_policy(script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape_attribute(page.name or page.title)}</title><style>{base}{style}</style></head>"
        f"<body><main>{_render_header(page)}{''.join(map(_render_section, page.sections))}"
        f"<footer>{render_parts(page.foot)}</footer>{facts}</main>{code}</body></html>\n"
    )


def make_content_policy(script: str = "") -> str:
    """Return the content security policy: nothing from the network, inline style, data images, this one script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"'sha256-{digest}'" if script else "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def read_source(package: str, name: str) -> str:
    """Return the text of a file that is shipped in a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def embed_json(name: str, facts: Any) -> str:
    """Return a JSON script element; no text in it can end the element or begin a comment."""
    text = json.dumps(convert_to_plain(facts), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, code in FORBIDDEN.items():
        text = text.replace(character, code)
    return f'<script type="application/json" id="{escape_attribute(name)}">{text}</script>'


def format_versions() -> str:
    """Return the versions of cmfast, Python and NumPy as a sentence."""
    return f"cmfast {__version__}, Python {platform.python_version()}, NumPy {np.__version__}."


def render_parts(shown: Iterable[Part]) -> str:
    """Return parts as HTML."""
    return "".join(map(_render_part, shown))


def _render_header(page: parts.Page) -> str:
    """Return the header: notice, title, source, lead, cards and opening."""
    notice = f'<p class="notice" role="note">{escape_prose(page.notice)}</p>' if page.notice else ""
    source = _render_part(page.source) if page.source else ""
    cards = "".join(
        f'<div class="fact"><b>{escape_prose(value)}</b><span>{escape_prose(text)}</span></div>'
        for value, text in page.cards
    )
    return (
        f'<header>{notice}<h1>{escape_prose(page.title)}</h1>{source}<p class="lead">{escape_prose(page.lead)}</p>'
        f'<div class="facts">{cards}</div>{render_parts(page.opening)}</header>'
    )


def _render_section(section: parts.Section) -> str:
    """Return a section with its heading."""
    anchor = f' id="{escape_attribute(section.anchor)}"' if section.anchor else ""
    return f"<section><h2{anchor}>{escape_prose(section.title)}</h2>{render_parts(section.parts)}</section>"


def _render_part(part: Part) -> str:
    """Return one part as HTML, by its type."""
    match part:
        case str() | tuple():
            return f"<p>{_render_prose(part)}</p>"
        case parts.Table():
            return _render_table(part)
        case parts.Picture():
            return _render_picture(part)
        case parts.Heading():
            return f"<h3>{escape_prose(part.text)}</h3>"
        case parts.Markup():
            return part.html
        case parts.Figure():
            return _render_figure(part)
        case parts.Folded():
            return f"<details><summary>{escape_prose(part.summary)}</summary>{render_parts(part.parts)}</details>"


def _render_figure(figure: parts.Figure) -> str:
    """Return a frame of parts with a caption."""
    shown = render_parts(figure.parts)
    if figure.columns:
        kind = ' class="table"'
        cells = "".join(f"<div{kind * isinstance(one, parts.Table)}>{_render_part(one)}</div>" for one in figure.parts)
        shown = f'<div class="{figure.columns}">{cells}</div>'
    caption = f"<figcaption>{render_parts(figure.caption)}</figcaption>" if figure.caption else ""
    return f"<figure>{shown}{caption}</figure>"


def _render_prose(paragraph: parts.Paragraph) -> str:
    """Return a paragraph with its code pieces."""
    pieces = (paragraph,) if isinstance(paragraph, str) else paragraph
    return "".join(
        f"<code>{escape_prose(piece)}</code>" if isinstance(piece, parts.Code) else escape_prose(piece)
        for piece in pieces
    )


def _render_table(table: parts.Table) -> str:
    """Return a table with a heading for every row and column."""
    caption = f"<caption>{escape_prose(table.caption)}</caption>" if table.caption else ""
    names = "".join(f'<th scope="col">{escape_prose(cell)}</th>' for cell in table.head)
    lines = []
    for name, *cells in table.rows:
        values = "".join(f"<td{_render_verdict_class(cell)}>{escape_prose(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape_prose(name)}</th>{values}</tr>')
    kind = ' class="sorts"' if table.sorts else ""
    head = f"<thead><tr>{names}</tr></thead>" if names else ""
    return f'<div class="wide"><table{kind}>{caption}{head}<tbody>{"".join(lines)}</tbody></table></div>'


def _render_verdict_class(cell: str) -> str:
    """Return the class attribute that colours a verdict, or an empty text."""
    return f' class="{parts.classify(cell)}"' if isinstance(cell, parts.Verdict) else ""


def _render_picture(picture: parts.Picture) -> str:
    """Return an SVG inline, or a PNG as an embedded image."""
    if isinstance(picture.image, str):
        return picture.image
    image = base64.b64encode(picture.image).decode()
    return f'<img alt="{escape_attribute(picture.says)}" src="data:image/png;base64,{image}">'
