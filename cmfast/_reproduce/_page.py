"""Compose the page of a reproduction: quick limits, summary, pictures, claims, tables, provenance."""

from collections.abc import Iterable

from cmfast._core.markup import isolate
from cmfast._pages import values
from cmfast._pages.parts import Code, Figure, Markup, Page, Part, Picture, Section, Table, Verdict, count_verdicts
from cmfast._pages.render import format_versions, render_page
from cmfast._reproduce._reproduction import Reproduction

# Wide enough for tables of fifteen columns at 1300 px; cells wrap at spaces. On narrower screens the table scrolls.
STYLE = "main{max-width:1260px}"
CARDS = {
    "holds": "claims hold",
    "fails": "claims fail",
    "partly": "claims differ by place, the table says where",
    "undecided": "claims are undecided: an interval holds both answers",
}


def compose_page(made: Reproduction) -> str:
    """Return the page of a reproduction as HTML."""
    return render_page(_lay_out(made), style=STYLE)


def _lay_out(made: Reproduction) -> Page:
    """Return the page as parts."""
    counted = count_verdicts((claim.verdict for claim in made.claims), CARDS)
    return Page(
        title=made.title,
        lead=made.lead,
        cards=made.cards or [(f"{count} of {len(made.claims)}", text) for count, text in counted if count],
        sections=list(_order_sections(made)),
        foot=_compose_foot(made),
        name=made.command,
        notice=made.describe_quick_limits(),
        source=made.source,
        opening=[*made.opening, *[Markup('<p><a href="#claims">To the table of claims</a></p>')] * bool(made.claims)],
    )


def _order_sections(made: Reproduction) -> Iterable[Section]:
    """Yield sections with pictures first, then the claims, then tables of numbers."""
    yield from (section for section in made.sections if section.find(Picture))
    if made.claims:
        head = ("The paper says", "where", "verdict", "found")
        rows = [(claim.text, claim.where, Verdict(claim.verdict), claim.found) for claim in made.claims]
        yield Section("Claims", [Figure([Table("", head, rows)], columns="claims")], anchor="claims")
    yield from (section for section in made.sections if not section.find(Picture))


def _compose_foot(made: Reproduction) -> list[Part]:
    """Return the foot of the page: command, files, times, versions."""
    asked = "".join([" --quick" * bool(made.settings.get("quick")), *(f" {isolate(option)}" for option in made.asked)])
    kept: list[str] = [". All numbers are in ", Code("results.json")]
    if made.arrays:
        kept += [", all matrices in ", Code("matrices.npz")]
    kept.append(f"{', each picture in a separate file' * bool(made.pictures())}, next to this page.")
    durations = {name.replace("_", " "): values.format_seconds(value) for name, value in made.timings.items()}
    times = ", ".join(f"{name} {duration}" for name, duration in durations.items())
    return [
        Markup("<h2>How this was made</h2>"),
        *made.making,
        ("Command: ", Code(made.command + asked), *kept),
        f"Time: {times}.",
        format_versions(),
    ]
