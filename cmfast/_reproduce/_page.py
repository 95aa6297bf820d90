"""A reproduction as one self-contained page: nothing is fetched, so it can be mailed and kept."""

import base64
import platform
from collections.abc import Sequence

import numpy as np

import cmfast
from cmfast._core.markup import escape_attribute, escape_prose, isolate
from cmfast._pages import parts
from cmfast._reproduce._frame import Claim, Picture, Reproduction, Section, Table, kind, tally

STYLE = (
    ".claims td,.claims th{white-space:normal;text-align:left;vertical-align:top}.claims td:nth-child(2){width:14%}"
    ".claims td:nth-child(3){width:16%;font-weight:600}.holds{color:#1f7a4d}.fails{color:#c0322b}.partly{color:#a56a00}"
    ".undecided{color:#667085}"
    # Room for tables of fifteen columns at 1300 px: the page is wider, headings and cells break at spaces, and a
    # table has a row of its own. On narrower screens the frame around it scrolls.
    "main{max-width:1260px}.shown>.table{grid-column:1/-1;min-width:0}.shown th,.shown td{white-space:normal}"
    ".shown th,.shown td{padding:5px 7px;font-size:13px;vertical-align:bottom}"
    ".limits{max-width:none;margin:0 0 18px;padding:10px 14px;border:1px solid #a56a00;border-radius:8px;"
    "background:#fdf4e3}"
    "img{display:block;max-width:100%;height:auto}.shown{display:grid;gap:20px 36px;"
    "grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr))}"
)


_TABLE = ' class="table"'


def whole(made: Reproduction) -> str:
    """Return the page."""
    # Pictures first: claims are read with them in mind. Tables of numbers are looked up, so they come last.
    pictured = [any(isinstance(part, Picture) for part in section.shown) for section in made.sections]
    seen, looked_up = (
        "".join(_section(section) for section, one in zip(made.sections, pictured, strict=True) if one is wanted)
        for wanted in (True, False)
    )
    body = _head(made) + seen + _claims(made.claims) + looked_up + _foot(made)
    return parts.document(f"cmfast reproduce {made.name}", body, dark=False, style=STYLE)


def _head(made: Reproduction) -> str:
    words = {"holds": "claims hold", "fails": "claims fail", "partly": "claims differ by place, the table says where"}
    words["undecided"] = "claims are undecided: an interval holds both answers"
    counted = tally((claim.verdict for claim in made.claims), words)
    facts = [(f"{count} of {len(made.claims)}", text) for count, text in counted if count]
    limits = made.describe_quick_limits()
    quick = f'<p class="limits" role="note">{escape_prose(limits)}</p>' if limits else ""
    claims = '<p><a href="#claims">To the table of claims</a></p>' if made.claims else ""
    return (
        f"<header>{quick}<h1>{escape_prose(made.title)}</h1><p>{escape_prose(made.source)}</p>"
        f'<p class="lead">{escape_prose(made.lead)}</p>{parts.facts(facts)}{claims}</header>'
    )


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("The paper says", "where", "verdict", "found"))
    rows = "".join(
        f'<tr><td>{escape_prose(claim.text)}</td><td>{escape_prose(claim.where)}</td><td class="{kind(claim.verdict)}">'
        f"{escape_prose(claim.verdict)}</td><td>{escape_prose(claim.found)}</td></tr>"
        for claim in claims
    )
    return f'<h2 id="claims">Claims</h2><figure class="claims wide"><table><tr>{head}</tr>{rows}</table></figure>'


def _section(section: Section) -> str:
    before = "".join(f"<p>{escape_prose(text)}</p>" for text in section.before)
    shown = "".join(f"<div{_TABLE * isinstance(part, Table)}>{_part(part)}</div>" for part in section.shown)
    picture = parts.figure(f'<div class="shown">{shown}</div>', *section.after) if section.shown else ""
    return f"<h2>{escape_prose(section.title)}</h2>{before}{picture}"


def _part(part: Table | Picture) -> str:
    if isinstance(part, Table):
        return parts.headed(part.caption, part.head, part.rows)
    if isinstance(part.image, str):
        return part.image
    return (
        f'<img alt="{escape_attribute(part.says)}" src="data:image/png;base64,{base64.b64encode(part.image).decode()}">'
    )


def _foot(made: Reproduction) -> str:
    asked = "".join([" --quick" * bool(made.settings.get("quick")), *(f" {isolate(option)}" for option in made.asked)])
    seconds = ", ".join(f"{name.replace('_', ' ')} {value:.1f} s" for name, value in made.timings.items())
    return (
        "<footer><h2>How this was made</h2>"
        f"<p>The same again: <code>cmfast reproduce {escape_prose(made.name + asked)}</code>. All numbers are in "
        "<code>results.json</code>, every picture in a file of its own, beside this page.</p>"
        f"<p>Time: {escape_prose(seconds)}.</p>"
        f"<p>cmfast {cmfast.__version__}, Python {platform.python_version()}, NumPy {np.__version__}.</p></footer>"
    )
