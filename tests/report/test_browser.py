"""Reports in a browser: drawn without a complaint, switched, sorted, filtered, zoomed into, by mouse and by keys."""

import browser as browsers
import numpy as np
import pytest

import cmfast

pytestmark = [pytest.mark.pictures, pytest.mark.skipif(browsers.missing() is not None, reason=str(browsers.missing()))]

RNG = np.random.default_rng(0)
NAMES = np.array(["cat", "dog", "eel", "fox", "gnu", "<b>hen</b>"])
Y = np.repeat(np.arange(6), [90, 80, 70, 60, 50, 40])
READY = "document.documentElement?.dataset.ready"
# The middle of a cell of the matrix, of six classes, on the screen.
PLACE = """(() => { const c = document.getElementById("canvas"); c.scrollIntoView({block: "center"});
    const b = c.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"""


A, B = (np.where(RNG.random(len(Y)) < share, (Y + 1) % 6, Y) for share in (0.2, 0.3))  # wrong: the next class


@pytest.fixture(scope="module")
def browser():
    with browsers.browser() as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return the file of a report on two models."""
    found = cmfast.report(
        NAMES[Y], {"a": NAMES[A], "b": NAMES[B]}, labels=NAMES, n_resamples=50,
        groups=np.arange(len(Y)) % 3,
    )  # fmt: skip
    return found.save(tmp_path_factory.mktemp("report") / "r.html")


@pytest.fixture
def tab(browser, page):
    opened = browsers.Tab(browser)
    opened.open(page, READY)
    yield opened
    problems, fetched = opened.problems(), opened.fetched()
    opened.close()
    assert not problems
    assert set(fetched) == {page.as_uri()}


def said(tab):
    """Return what is said of the cell that is looked at."""
    return tab.js("document.getElementById('cell').textContent")


def listed(tab):
    """Return the lines of the table of what is shown."""
    return tab.js("[...document.querySelectorAll('#inview tbody tr')].map(r => [...r.cells].map(c => c.textContent))")


def drawn(tab):
    """Return the pixels of the canvas."""
    return tab.js("document.getElementById('canvas').toDataURL()")


def choose(tab, name, value):
    """Choose an option of a list."""
    code = f"const s = document.getElementById('by-{name}'); s.value = '{value}'; s.dispatchEvent(new Event('change'))"
    tab.js(f"{{{code}}}")


def test_what_is_seen(tab):
    for selector in ("h1", "#canvas", "#controls", "#legend", "#inview"):
        assert tab.js(f"document.querySelector('{selector}').checkVisibility()"), selector
    heads = tab.js("[...document.querySelectorAll('h2')].filter(h => h.checkVisibility()).map(h => h.textContent)")
    assert heads == ["The matrix", "What balancing changes", "How good, and how sure", "Largest confusions", "Classes",
                     "a or b?", "Groups"]  # fmt: skip
    assert tab.js("document.documentElement.scrollWidth <= innerWidth")
    assert tab.js("document.querySelectorAll('b').length") == 4  # of the facts, none of the label


def test_every_normalisation_is_drawn(tab):
    pictures = {drawn(tab)}
    tab.click("#log")
    pictures.add(drawn(tab))
    tab.click("#log")
    for kind in ("row", "col", "bi"):
        tab.click(f"label:has([value={kind}])")
        assert tab.js(f"document.querySelector('[value={kind}]').checked")
        pictures.add(drawn(tab))
    choose(tab, "model", 2)
    pictures.add(drawn(tab))
    assert len(pictures) == 6
    assert "first more" in tab.js("document.getElementById('legend').textContent")


def test_what_is_drawn_is_said_also_in_print(tab):
    said_ = "(document.getElementById('what').checkVisibility() && document.getElementById('what').textContent)"
    assert tab.js(said_) == "a, counts"
    choose(tab, "model", 1)
    tab.click("label:has([value=bi])")
    tab.click("#log")
    assert tab.js(said_) == "b, balanced, by the logarithm"
    choose(tab, "model", 2)
    tab.tell("Emulation.setEmulatedMedia", media="print", features=[])
    assert tab.js(said_) == "a less b, balanced, by the logarithm"


def test_the_largest_are_those_of_the_matrix(tab):
    M = cmfast.confusion_matrix(Y, A) * ~np.eye(6, dtype=bool)
    i, j = np.unravel_index(M.argmax(), M.shape)
    first = listed(tab)[0]
    assert first[:3] == [NAMES[i], NAMES[j], str(M[i, j])]
    choose(tab, "order", "name")
    assert listed(tab)[0] == first
    tab.click("label:has([value=bi])")
    shares = [float(line[5].removesuffix(" %")) for line in listed(tab)]
    assert shares == sorted(shares, reverse=True)


def test_a_cell_says_its_numbers_and_keys_walk(tab):
    tab.js("document.getElementById('canvas').focus()")
    tab.key("ArrowRight")
    assert said(tab).startswith("cat, recognised — count ")
    tab.key("ArrowRight")
    assert said(tab).startswith("cat taken for dog — count ")
    tab.key("ArrowDown")
    assert said(tab).startswith("dog, recognised")
    for _ in range(9):
        tab.key("ArrowDown")
    assert said(tab).startswith("<b>hen</b> taken for dog")


def test_keys_zoom(tab):
    whole = drawn(tab)
    tab.js("document.getElementById('canvas').focus()")
    tab.key("+")
    assert drawn(tab) != whole
    assert {line[0] for line in listed(tab)} < set(NAMES)
    tab.key("0")
    assert drawn(tab) == whole
    tab.click("[aria-label='Zoom in']")
    assert drawn(tab) != whole
    tab.click("[aria-label='Show all']")
    assert drawn(tab) == whole


def test_dragging_zooms_into_a_block(tab):
    x, y, width, height = tab.js(PLACE)
    tab.drag((x + width - 12, y + height - 12), (x + 0.55 * width, y + 0.55 * height))
    names = {name for line in listed(tab) for name in line[:2]}
    assert names <= set(NAMES[2:])
    assert len(listed(tab)) < 6
    x, y, width, height = tab.js(PLACE)
    tab.mouse("Moved", x + 0.6 * width, y + 0.6 * height)
    assert "count" in said(tab)


def test_filter(tab):
    tab.click("#filter")
    for letter in "hen":
        tab.key(letter)
    assert listed(tab) == []
    tab.js("{const f = document.getElementById('filter'); f.value = 'o'; f.dispatchEvent(new Event('input'))}")
    assert {line[0] for line in listed(tab)} == {"dog", "fox"} & {line[0] for line in listed(tab)}
    tab.js("{const f = document.getElementById('filter'); f.value = 'nothing'; f.dispatchEvent(new Event('input'))}")
    assert listed(tab) == []


def test_tables_sort_by_keys_and_mouse(tab):
    code = "[...[...document.querySelectorAll('table.sorts')].find(t => t.caption.textContent === 'a: classes').rows]"
    column = f"{code}.slice(1).map(r => r.cells[1].textContent)"
    assert tab.js(column) == ["90", "80", "70", "60", "50", "40"]
    tab.js(f"{code}[0].cells[1].querySelector('button').focus()")
    tab.key("Enter")
    assert tab.js(f"{code}[0].cells[1].ariaSort") == "descending"
    tab.key("Enter")
    assert tab.js(column) == ["40", "50", "60", "70", "80", "90"]
    tab.js(f"{code}[0].cells[0].querySelector('button').click()")
    assert tab.js(f"{code}.slice(1).map(r => r.cells[0].textContent)")[0] == "<b>hen</b>"


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1600, False)])
def test_narrow_and_wide_dark_and_light(browser, page, width, dark):
    tab = browsers.Tab(browser, width=width, dark=dark)
    tab.open(page, READY)
    assert tab.js("document.documentElement.scrollWidth <= innerWidth")
    ground = tab.js("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(18, 22, 28)") == dark
    tab.tell("Emulation.setEmulatedMedia", media="print", features=[])
    assert tab.js("getComputedStyle(document.getElementById('controls')).display") == "none"
    assert tab.js("getComputedStyle(document.documentElement).getPropertyValue('--card').trim()") == "#fff"
    assert not tab.problems()
    tab.close()


def test_a_thousand_classes(browser, tmp_path):
    C, n = 1000, 50_000
    y = RNG.integers(0, C, n)
    path = cmfast.report(y, np.where(RNG.random(n) < 0.7, y, RNG.integers(0, C, n))).save(tmp_path / "r.html")
    tab = browsers.Tab(browser)
    tab.open(path, READY)
    whole = drawn(tab)
    x, y, width, height = tab.js(PLACE)
    tab.drag((x + 0.5 * width, y + 0.5 * height), (x + 0.54 * width, y + 0.54 * height))
    assert drawn(tab) != whole
    tab.js("document.querySelector('details').open = true")
    tab.js("{const f = document.querySelector('input.rows'); f.value = '99'; f.dispatchEvent(new Event('input'))}")
    shown = "[...document.querySelectorAll('details tbody tr')].filter(r => !r.hidden).map(r => r.cells[0].textContent)"
    assert tab.js(shown) == [str(k) for k in range(C) if "99" in str(k)]
    assert not tab.problems()
    tab.close()


def test_in_a_frame_as_in_a_notebook(browser, tmp_path):
    found = cmfast.report(NAMES[Y], NAMES[A], n_resamples=50)
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset='utf-8'>{found._repr_html_()}", encoding="utf-8")
    tab = browsers.Tab(browser)
    tab.open(path)
    assert tab.js("document.querySelector('iframe').getBoundingClientRect().height") > 500
    assert not tab.problems()
    tab.close()
