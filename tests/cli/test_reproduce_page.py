"""The page of a reproduction: its first line, the order of its parts, and tables that fit a screen of 1300 px."""

import re
from html import unescape
from importlib import import_module

import pytest

from cmfast._core import plotting
from cmfast._pages import pictures, render
from cmfast._pages.parts import Claim, Picture, Table
from cmfast._pages.svg import INK, Svg
from cmfast._reproduce import _page
from cmfast._reproduce._reproduction import Reproduction, make_figure_section
from cmfast._reproduce.conformal._network import ConformalSettings
from cmfast._reproduce.contingency._training import ContingencySettings
from cmfast._reproduce.normalization import training
from cmfast._reproduce.normalization.data import letters

pytestmark = pytest.mark.papers

SMALL = {  # what makes each quicker than quick
    "glossary": {"n": 2000},
    "conformal": {"settings": ConformalSettings(seeds=2, epochs=4, rounds=2)},
    "uncertainty": {"n_resamples": 200},
    "contingency": {
        "settings": ContingencySettings(runs=2, epochs=4, rates=(0.1,), pair_runs=1, tracked=2, n_ratios=3)
    },
    "normalization": {
        "settings": training.NormalizationSettings(
            repeats=3, levels=(10.0, 0.1), epochs=1, most_epochs=2, components=(3,)
        ),
        "pools": [letters(60)],
    },
}

SCREEN = 1300
CHARACTER = 8.2  # of digits and bold letters at 13 px in the widest of the page's typefaces, in px


def silent(label, unit):
    """Make a progress bar that shows nothing."""
    return lambda done, total: None


def undrawn(figure, *dpi):
    """Stand for a picture that takes long to write."""
    plotting.load_pyplot().close(figure)
    return b"PNG"


def drawn():
    svg = Svg(40, 20, "a line")
    svg.line(0, 10, 40, 10, INK)
    return str(svg)


def reproduction(claims, sections=(), **settings):
    return Reproduction("glossary", "Title", "Source", "Lead.", claims, sections, settings, reduced="2 of 30 seeds")


def first_text(page):
    """Return the first text that is read on a page."""
    body = page[page.index("<main>") :]
    return unescape(re.sub(r"<[^>]*>", "\n", body)).strip().split("\n")[0]


def test_a_quick_page_begins_with_what_it_cannot_decide():
    claims = [
        Claim("One.", "section 1", "undecided", "so so"),
        Claim("Two.", "Fig. 2", "undecided where it rains, holds elsewhere", "so so"),
        Claim("Three.", "Fig. 2", "undecided", "so so"),
        Claim("Four.", "section 4", "holds", "yes"),
    ]
    assert first_text(_page.compose_page(reproduction(claims, quick=True))) == (
        "This is a quick run: 2 of 30 seeds. It cannot decide 3 of 4 claims (1 only in part): section 1; Fig. 2 (2 "
        "claims). Run cmfast reproduce glossary without --quick for those."
    )
    sure = _page.compose_page(reproduction(claims[3:], quick=True))
    assert "It leaves no claim undecided" in first_text(sure)
    assert first_text(_page.compose_page(reproduction(claims, quick=False))) == "Title"


def test_pictures_come_before_the_claims_and_tables_alone_after():
    table = Table("Numbers", ["", "x"], [["a", "1"]])
    sections = [
        make_figure_section("Only numbers", [table]),
        make_figure_section("Seen", [Picture("a_line", drawn(), {}), Table("Beside", ["", "x"], [["a", "1"]])]),
        make_figure_section("Seen too", [Picture("another", drawn(), {})]),
    ]
    page = _page.compose_page(reproduction([Claim("One.", "section 1", "holds", "yes")], sections))
    order = ["Seen", "Seen too", "Claims", "Only numbers", "How this was made"]
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == order
    assert page.rindex("<svg") < page.index('id="claims"')
    assert 'href="#claims"' in page


def widest_words(table):
    """Return the longest piece without a space of every column, and the number of columns."""
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)]
    cells = [[unescape(re.sub(r"<[^>]*>", "", cell)) for cell in row] for row in rows]
    columns = max(map(len, cells))
    longest = [max(max(map(len, row[k].split()), default=0) for row in cells if len(row) > k) for k in range(columns)]
    return sum(longest), columns


def test_the_style_lets_tables_break_at_spaces_over_the_whole_width():
    section = make_figure_section("Lines", [Picture("a_line", drawn(), {}), Table("Numbers", ["", "x"], [["a", "1"]])])
    page = _page.compose_page(reproduction([Claim("One.", "section 1", "holds", "yes")], [section]))
    style = page[page.index("<style>") : page.index("</style>")]
    assert "main{max-width:1260px}" in style
    assert style.index("main{max-width:1080px") < style.index("main{max-width:1260px}")  # the later one counts
    assert ".shown>.table{grid-column:1/-1;min-width:0}" in style
    assert ".shown th,.shown td{white-space:normal}" in style
    assert ".claims td,.claims th{white-space:normal" in style
    assert ".wide{overflow-x:auto}" in style  # what is narrower scrolls, and hides nothing
    assert re.search(r'<div class="table"><div class="wide"><table>', page)
    assert render.render_parts([Table("c", ["", "x"], [["a", "1"]])]).startswith('<div class="wide">')


@pytest.mark.parametrize("name", SMALL)
def test_no_table_of_a_paper_is_cut(name, monkeypatch):
    monkeypatch.setattr(pictures, "save_png", undrawn)
    found = import_module(f"cmfast._reproduce.{name}").reproduce(quick=True, progress=silent, **SMALL[name])
    page = _page.compose_page(found)
    room = SCREEN - 2 * 20 - 2 * 18 - 2 - 15  # sides of the page and of the frame, its border, a scroll bar
    tables = re.findall(r"<table.*?</table>", page, re.S)
    assert tables
    for table in tables:
        characters, columns = widest_words(table)
        assert characters * CHARACTER + 2 * 7 * columns < room, table[:300]
    assert page.rindex("</svg>" if "</svg>" in page else "<img") < page.index('id="claims"')
