"""Names of the user on pages and in notebooks: text alone, and isolated, so that they reorder nothing around them."""

import html
import json
import re

import numpy as np
import page_names
import pytest

import cmfast
from cmfast import metrics, uncertainty
from cmfast._core import markup
from cmfast._report import _page, _sentences

pytestmark = pytest.mark.pictures

N, C = 660, len(page_names.NAMES)
RNG = np.random.default_rng(0)
Y = np.arange(N) % C
A, B = (np.where(RNG.random(N) < share, (Y + RNG.integers(1, 3, N)) % C, Y) for share in (0.3, 0.5))
SCORES = 0.3 * RNG.dirichlet(np.ones(C), N) + 0.7 * np.eye(C)[(A + 1) % C]  # of other classes, which is noted
POINTS = RNG.normal(size=(N, 2)) + Y[:, None]
TAME = [f"class {k}" for k in range(C)]


def make(names, models=2):
    """Return a page with everything, all its names of `names`."""
    labels = np.array(names, object)
    guesses = {names[k]: labels[one] for k, one in enumerate((A, B)[:models])}
    return cmfast.report(
        labels[Y], guesses, labels=labels, groups={names[2]: labels[Y % 4], names[4]: labels[Y % 2]},
        embeddings=POINTS, scores=SCORES, n_resamples=20, title=names[3],
    )  # fmt: skip


def of_skewed(names):
    """Return a page on classes of which one confusion stands out, and balancing moves it."""
    M = np.array([[80_000, 3000, 40, 40], [3000, 80_000, 40, 40], [40, 40, 900, 500], [40, 40, 500, 900]])
    cells = np.repeat(np.arange(16), M.ravel())
    labels = np.array(names[:4], object)
    return cmfast.report(labels[cells // 4], {names[4]: labels[cells % 4]}, labels=labels, n_resamples=20)


@pytest.mark.parametrize("make", [make, lambda names: make(names, 1), of_skewed])
def test_names_on_a_page_are_isolated_and_only_text(make):
    assert page_names.complain(make(page_names.NAMES).html, make(TAME).html) == []


def test_each_place_of_a_name_that_is_not_isolated_is_found():
    page = make(page_names.NAMES).html
    faults = page_names.remove_isolates(page)
    assert len(faults) > 200
    assert [fault for fault in faults[::7] if not page_names.complain(fault)] == []


@pytest.mark.parametrize(
    ("module", "function", "fault"),
    [
        (_page, "isolate", str),
        (_sentences, "isolate", str),
        (markup, "balance_controls", str),
        (markup, "_escape", lambda text: text.replace("&", "&amp;")),
        (markup, "_PARAGRAPHS", re.compile("$^")),
    ],
)
def test_a_planted_fault_is_found(monkeypatch, module, function, fault):
    results = notebooks(page_names.NAMES)
    monkeypatch.setattr(module, function, fault)
    pages = [make(page_names.NAMES).html, *(one._repr_html_() for one in results)]
    assert any(page_names.complain(page) for page in pages)


def test_what_a_script_reads_is_as_it_was_given_but_for_what_would_reorder():
    page = make(page_names.NAMES).html
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    labels = json.loads(text)["labels"]
    assert labels[:3] == page_names.NAMES[:3]
    assert [markup.balance_controls(label) for label in labels] == labels
    assert "textContent: names" not in page


def notebooks(names):
    """Return results that show names in a notebook."""
    labels = np.array(names, object)
    y, a, b = labels[Y], labels[A], labels[B]
    leading = labels[np.where(Y == 1, 2, Y)]
    counts = cmfast.ConfusionCounts.from_labels
    pair = uncertainty.paired_counts(y, a, b)
    M = cmfast.confusion_matrix(Y, A, n_classes=C)
    return [
        counts(y, a, labels=labels), counts(y, leading, labels=labels), counts(y, a, groups={names[0]: y}),
        uncertainty.paired_counts(y, leading, y), uncertainty.compare_many({(names[0], names[1]): pair}, "accuracy"),
        metrics.classification_report(M, display_labels=names),
        metrics.collapse(M, [names[k % 3] for k in range(C)]), make(names),
    ]  # fmt: skip


def test_names_in_notebooks_are_isolated_and_only_text():
    for one, tame in zip(notebooks(page_names.NAMES), notebooks(TAME), strict=True):
        shown = one._repr_html_()
        assert page_names.complain(shown, tame._repr_html_()) == [], type(one)
        assert "\u2068" not in one.explain() if hasattr(one, "explain") else "iframe" in shown


@pytest.mark.parametrize(
    ("text", "balanced"),
    [
        ("cat", "cat"),
        ("a\u2069b", "ab"),
        ("a\u2067b", "a\u2067b\u2069"),
        ("\u202ea\u2067b", "\u202ea\u2067b\u2069\u202c"),
        ("\u2067\u202ea\u2069b", "\u2067\u202ea\u202c\u2069b"),
        ("a\u202cb", "ab"),
    ],
)
def test_controls_are_balanced(text, balanced):
    assert markup.balance_controls(text) == balanced
    assert markup.isolate(text) == f"\u2068{balanced}\u2069"


def test_prose_has_elements_and_attributes_have_marks():
    text = f"{markup.isolate('<b> ' + markup.isolate('x'))} & y"
    assert markup.escape_prose(text) == "<bdi>&lt;b&gt; \u2068x\u2069</bdi> &amp; y"
    assert html.unescape(markup.escape_attribute(text)) == text
    assert markup.shorten(markup.isolate("abcdef"), 4) == markup.isolate("abc…")
    assert markup.shorten(markup.isolate("abcd"), 4) == markup.isolate("abcd")
