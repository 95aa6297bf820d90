"""Papers, computed again: what a page of claims is made of, its files, and the command."""

import json
import re
import time
import xml.etree.ElementTree as ET
from importlib import import_module
from runpy import run_path

import numpy as np
import pytest
from processes import ROOT

from cmfast import _reproduce
from cmfast._core import plotting
from cmfast._files.output import FileError, Outputs
from cmfast._pages import parts, pictures
from cmfast._pages.parts import Claim, Picture, Table, classify
from cmfast._pages.svg import INK, Svg
from cmfast._reproduce import _files, _reproduction
from cmfast._reproduce._reproduction import Reproduction, make_figure_section
from cmfast._reproduce.conformal._network import ConformalSettings
from cmfast._reproduce.contingency._training import ContingencySettings
from cmfast._reproduce.normalization import training
from cmfast._reproduce.normalization.data import letters
from cmfast.cli import main

pytestmark = pytest.mark.papers

FEW = ConformalSettings(seeds=2, epochs=3, rounds=2)
BRIEF = training.NormalizationSettings(repeats=3, levels=(10.0, 0.1), epochs=1, most_epochs=2, components=(3,))
SMALL = {  # what makes each quicker than quick
    "glossary": {"n": 2000},
    "conformal": {"settings": FEW},
    "uncertainty": {"n_resamples": 200},
    "contingency": {
        "settings": ContingencySettings(runs=2, epochs=4, rates=(0.1,), pair_runs=1, tracked=2, n_ratios=3)
    },
    "normalization": {"settings": BRIEF, "pools": [letters(60)]},
}


def silent(label, unit):
    """Make a progress bar that shows nothing."""
    return lambda done, total: None


def drawn():
    svg = Svg(40, 20, "a line")
    svg.line(0, 10, 40, 10, INK)
    return str(svg)


def made(*pictures, **more):
    """Return a small reproduction."""
    claims = [
        Claim("One is <one>.", "section 1", "holds", "1.00", {"one": np.float64(1)}, seeds=(0, 1)),
        Claim("Two is three.", "section 2", "fails", "2.00"),
        Claim("All is well.", "section 3", "holds where it is small", "below 5"),
    ]
    sections = [
        make_figure_section("Lines", [*pictures, Table("Numbers", ["", "x"], [["a", "1"]])], ["Before."], ["After."])
    ]
    options = {"settings": {"quick": True, "seed": 3}, "timings": {"all_of_it": 1.25}, **more}
    return Reproduction("glossary", "A paper", "Somebody, 2020", "It says much.", claims, sections, **options)


def test_the_files_hold_all_of_it_and_nothing_is_fetched(tmp_path):
    folder = _files.prepare_folder(tmp_path / "new" / "folder")
    pictures = Picture("a_line", drawn(), {"y": [10]}), Picture("dots", b"\x89PNG", {"n": 2}, "two dots")
    numbers = _files.write_reproduction(made(*pictures, pages={"more.html": "<p>more</p>"}), folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(numbers["files"])
    assert numbers["files"] == ["report.html", "more.html", "a_line.svg", "dots.png", "results.json"]
    assert json.loads((folder / "results.json").read_text()) == numbers
    assert numbers["figures"] == {"a_line": {"y": [10]}, "dots": {"n": 2}}
    assert numbers["claims"][0]["figures"] == {"one": 1.0}
    page = (folder / "report.html").read_text()
    for text in ("One is &lt;one&gt;.", "holds where it is small", "1 of 3", "--quick", "1.25 s", "After.", "<svg"):
        assert text in page, text
    assert re.findall(r'(?:src|href)="(.{0,21})', page) == ['#claims">To the table', "data:image/png;base64"]
    alone = (folder / "a_line.svg").read_text()
    assert "var(" not in alone
    assert ET.fromstring(alone).tag == "{http://www.w3.org/2000/svg}svg"


def test_an_earlier_one_is_replaced_and_nothing_else(tmp_path):
    _files.write_reproduction(made(Picture("a_line", drawn(), {})), _files.prepare_folder(tmp_path))
    _files.write_reproduction(made(Picture("other", drawn(), {})), _files.prepare_folder(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.svg", "report.html", "results.json"]
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileError, match=r"mine\.txt: is not of an earlier reproduction"):
        _files.prepare_folder(tmp_path)


def plant(folder, files):
    """Put a results.json that lists these files into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(files if isinstance(files, str) else json.dumps({"files": files}))
    return folder


@pytest.mark.parametrize("written_by", ["reproduce", "demo"])
def test_results_of_a_stranger_remove_no_other_file(written_by, tmp_path):
    mine = [tmp_path / "precious.svg", tmp_path / "elsewhere" / "precious.html", tmp_path / "report" / "deep" / "a.svg"]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    folder = tmp_path / "report"
    (folder / "linked.svg").symlink_to(mine[0])
    (folder / "sub.svg").mkdir()
    (folder / "thesis.txt").write_text("mine")
    named = ["../precious.svg", str(mine[1]), "deep/a.svg", "linked.svg", "sub.svg", "thesis.txt", "..", "", 3, None]
    plant(folder, ["results.json", *named, "a\0.svg", "\ud800.svg", {"a": 1}])
    if written_by == "reproduce":  # the demo's folder may hold files of the user
        with pytest.raises(FileError, match="is not of an earlier reproduction"):
            _files.prepare_folder(folder)
    _files.write_reproduction(made(), folder)
    assert [path.read_text() for path in [*mine, folder / "thesis.txt", folder / "linked.svg"]] == ["mine"] * 5
    assert (folder / "sub.svg").is_dir()
    plain = plant(tmp_path / "plain", ["results.json", "../precious.svg", str(mine[1])])
    _files.write_reproduction(made(), _files.prepare_folder(plain))
    assert all(path.exists() for path in mine)


@pytest.mark.parametrize("files", ["", "{", "[" * 10**5, '{"files": "report.html"}', '{"files": {"a.svg": 1}}', "[1]"])
def test_damaged_results_remove_no_file(files, tmp_path):
    (plant(tmp_path, files) / "a.svg").write_text("mine")
    with pytest.raises(FileError, match="is not of an earlier reproduction"):
        _files.prepare_folder(tmp_path)
    _files.write_reproduction(made(), tmp_path)
    assert (tmp_path / "a.svg").read_text() == "mine"


def test_a_link_in_the_place_of_results_is_not_read(tmp_path):
    (tmp_path / "other.json").write_text(json.dumps({"files": ["a.svg"]}))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.svg").write_text("mine")
    (folder / "results.json").symlink_to(tmp_path / "other.json")
    _files.write_reproduction(made(), folder)
    assert (folder / "a.svg").read_text() == "mine"
    assert json.loads((tmp_path / "other.json").read_text()) == {"files": ["a.svg"]}


def test_it_is_whole_or_not_there(tmp_path, monkeypatch):
    before = Outputs.replace_file
    opened = []

    def full_disk(outputs, target, **options):
        opened.append(target)
        if len(opened) == 3:
            raise OSError(28, "No space left on device")
        return before(outputs, target, **options)

    monkeypatch.setattr(Outputs, "replace_file", full_disk)
    with pytest.raises(OSError, match="No space"):
        _files.write_reproduction(made(Picture("a_line", drawn(), {})), tmp_path)
    assert len(opened) == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verdict", ["true", "holds sometimes", "fails where ", "undecided, mostly", ""])
def test_a_verdict_is_one_of_few(verdict):
    with pytest.raises(ValueError, match="verdict must be"):
        Claim("", "", verdict, "")


def test_verdicts_are_counted_and_the_undecided_named_where_there_are_any():
    words = {"holds": "hold", "fails": "fail", "partly": "in part", "undecided": "open"}
    assert parts.count_verdicts(["holds", "fails where it rains"], words) == [(1, "hold"), (0, "fail"), (1, "in part")]
    assert parts.count_verdicts(["undecided"], words)[-1] == (1, "open")
    assert parts.summarize_verdicts(["holds", "fails", "fails"]) == "Claims: 1 that holds, 2 that fail, 0 in part."
    assert parts.summarize_verdicts(["undecided"]) == "Claims: 0 that hold, 0 that fail, 0 in part, 1 undecided."
    assert parts.count_verdicts(["undecided where it rains, holds elsewhere"], words)[2] == (1, "in part")


def test_pictures_have_names_of_their_own(tmp_path):
    with pytest.raises(ValueError, match="name must be lower case letters"):
        Picture("A line", "", {})
    with pytest.raises(ValueError, match="pictures of one name: a_line"):
        _files.write_reproduction(made(*[Picture("a_line", drawn(), {})] * 2), tmp_path)


def undrawn(figure, *dpi):
    """Stand for a picture that takes long to write."""
    plotting.load_pyplot().close(figure)
    return b"PNG"


def without_times(folder):
    """Return the content of all files, but for what differs between two runs."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    found["results.json"] = {k: v for k, v in json.loads(found["results.json"]).items() if k != "timings"}
    found["report.html"] = re.sub(rb"<p>Time: .*?</p>", b"", found["report.html"])
    return found


@pytest.mark.parametrize("name", SMALL)
def test_two_runs_are_identical_but_for_times(name, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "save_png", undrawn)  # which takes seconds
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        reproduce = import_module(f"cmfast._reproduce.{name}").reproduce
        _files.write_reproduction(reproduce(quick=True, progress=silent, **SMALL[name]), _files.prepare_folder(folder))
    one, two = map(without_times, folders)
    assert one == two
    verdicts = {classify(claim["verdict"]) for claim in one["results.json"]["claims"]}
    assert verdicts >= {"holds", "fails"}
    assert all(one["results.json"]["figures"].values())


TRAINS = {"contingency", "normalization"}  # half a minute each


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in TRAINS else ()) for name in _reproduce.PAPERS]
)
def test_the_quick_run(name, tmp_path):
    assert main(["reproduce", name, "--quick", "-o", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "results.json").read_text())["settings"]["quick"] is True


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []

    def reproduce(*, quick, progress, **options):
        asked.append((quick, options))
        return made()

    monkeypatch.setattr("cmfast._reproduce.glossary.reproduce", reproduce)
    assert main(["reproduce", "glossary"]) == 0
    out = capsys.readouterr().out
    assert "fails: Two is three. (section 2)\n    2.00" in out
    assert "Claims: 1 that holds, 1 that fails, 1 in part." in out
    assert (tmp_path / "cmfast-glossary" / "report.html").is_file()
    assert main(["reproduce", "glossary", "--quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reproduction"] == "glossary"
    assert asked == [(False, {}), (True, {})]


def test_what_is_missing_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cmfast._reproduce.find_spec", lambda name: None)
    assert main(["reproduce", "glossary"]) == 2
    assert capsys.readouterr().err == 'cmfast: reproduce glossary needs matplotlib: pip install "cmfast[demo,plot]"\n'
    assert main(["reproduce", "gloss"]) == 2
    assert "invalid choice: 'gloss'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_paper_has_options_of_its_own(tmp_path, capsys, monkeypatch):
    other = _reproduce.Paper("another", options={"the_data": {"metavar": "FILE", "help": "what it reads"}})
    monkeypatch.setitem(_reproduce.PAPERS, "other", other)
    asked = []
    monkeypatch.setattr(_reproduce, "run", lambda name, out, **options: asked.append((name, options)) or {})
    assert main(["reproduce", "other", "--the-data", "x.npy", "--json"]) == 0
    assert asked == [("other", {"quick": False, "the_data": "x.npy"})]
    assert main(["reproduce", "glossary", "--the-data", "x.npy"]) == 2
    assert "--the-data is no option of glossary" in capsys.readouterr().err
    assert main(["reproduce", "--help"]) == 0
    assert "options of other:" in capsys.readouterr().out


def test_a_figure_is_the_same_bytes_twice():
    pyplot = plotting.load_pyplot()
    images = []
    for _ in range(2):
        figure, ax = pyplot.subplots(figsize=(1, 1))
        ax.plot([0, 1])
        images.append(pictures.save_png(figure))
    assert images[0] == images[1]
    assert images[0].startswith(b"\x89PNG")
    assert not pyplot.get_fignums()


def test_times_add_up():
    timings = {}
    for _ in range(2):
        with _reproduction.measure_time(timings, "work"):
            time.sleep(0.01)
    assert timings["work"] >= 0.02
    assert set(_reproduce.DISTRIBUTIONS).issuperset(
        need for paper in _reproduce.PAPERS.values() for need in paper.needs
    )


def test_the_page_of_the_claims_is_made_of_what_is_kept(tmp_path):
    script = run_path(str(ROOT / "docs" / "reproduced.py"))
    kept = json.loads(script["KEPT"].read_text())
    assert script["PAGE"].read_text() == script["page"](kept)
    _files.write_reproduction(made(), tmp_path)
    script["keep"](tmp_path, kept)
    assert "| All is well. | section 3 | holds where it is small | below 5 |" in script["page"](kept)
    assert "Claims: 1 that holds, 1 that fails, 1 in part." in script["page"](kept)
