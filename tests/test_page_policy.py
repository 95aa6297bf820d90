"""Every page carries a policy that lets it load nothing from a network and run its own script alone."""

import base64
import hashlib
import re
from html import unescape

from cmfast._core.markup import isolate
from cmfast._pages.parts import Code, Figure, Folded, Heading, Page, Picture, Section, Table, Verdict
from cmfast._pages.render import read_source, render_page

PAGE = Page("title", "lead", [], [Section("section", ["text"])], [])


def policy(page):
    found = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert len(found) == 1
    return dict(rule.strip().split(" ", 1) for rule in unescape(found[0]).split(";"))


def test_a_page_without_script_runs_none():
    rules = policy(render_page(PAGE))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'none'"
    assert rules["img-src"] == "data:"


def test_the_script_of_the_report_is_the_one_allowed():
    script = read_source("cmfast._report", "report.js")
    page = render_page(PAGE, dark=True, script=script)
    (written,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(written.encode()).digest()).decode()
    assert policy(page)["script-src"] == f"'sha256-{digest}'"
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_text_is_escaped_in_every_part():
    evil = f"<s>& {isolate('<u>name')}"
    table = Table(evil, [evil] * 2, [[evil, Verdict(f"holds where {evil}")]])
    shown = [evil, (evil, Code(evil)), table, Picture("", b"PNG", says=evil), Heading(evil), Folded(evil, [evil])]
    sections = [Section(evil, [*shown, *(Figure(shown, [evil], kind) for kind in ("", "shown", "two"))], anchor=evil)]
    page = render_page(
        Page(evil, evil, [(evil, evil)], sections, shown, notice=evil, source=evil, opening=shown), data={"x": evil}
    )
    assert not re.search("<[su]>", page)
    assert page.count("&lt;s&gt;") > 60
    assert page.count("<bdi>&lt;u&gt;name</bdi>") > 50
    assert 'class="partly"' in page
