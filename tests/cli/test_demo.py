"""The demo: the same numbers for the same seed, a page that needs nothing else, words that follow the numbers."""

import copy
import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import page_commands
import pytest
from processes import ROOT

import cmfast
from cmfast._core import plot_style
from cmfast._files.output import convert_to_plain
from cmfast._reproduce import _page
from cmfast._reproduce.demo import experiment, page, report, sentences
from cmfast._reproduce.normalization import data
from cmfast.cli import main

pytestmark = pytest.mark.pictures

METHODS = ("all", "row", "col", "bi")
SMALL = experiment.DemoSettings(repeats=2, epochs=3, resamples=400, width_factors=(1.0, 2.0))


def silent(label, unit):
    """Make a progress bar that shows nothing."""
    return lambda done, total: None


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Run the demo on small settings once: folder, numbers, matrices."""
    out = report.prepare(tmp_path_factory.mktemp("demo") / "new" / "folder")
    results = experiment.run(3, SMALL, silent)
    return out, report.write(out, results), results.matrices


def test_the_files_are_there_and_agree(small):
    out, numbers, matrices = small
    assert sorted(path.name for path in out.iterdir()) == ["matrices.npz", "report.html", "results.json"]
    assert json.loads((out / "results.json").read_text()) == numbers
    with np.load(out / "matrices.npz") as archive:
        assert set(archive.files) == set(matrices)
        for name in archive.files:
            np.testing.assert_array_equal(archive[name], matrices[name])


def test_one_seed_gives_one_result(small):
    _, numbers, matrices = small
    again = experiment.run(3, SMALL, silent)
    other = experiment.run(4, SMALL, silent)
    without = {key: value for key, value in numbers.items() if key != "timings"}
    assert convert_to_plain(again.numbers) == without
    assert convert_to_plain(other.numbers) != without
    for name, matrix in matrices.items():
        assert again.matrices[name].tobytes() == matrix.tobytes(), name


def test_the_numbers_follow_from_the_matrices(small):
    _, numbers, matrices = small
    for name in METHODS:
        S = matrices[f"imbalanced_{name}"]
        options = {"smoothing": 1e-3} if name == "bi" else {}
        np.testing.assert_array_equal(S, cmfast.normalize(matrices["imbalanced"], name, **options))
        shown = numbers["normalisation"]["overlap"][name]
        assert shown["shown"] == cmfast.overlap(S, matrices["balanced"])
        assert shown["shown"] == shown["every"][0]
        pair = numbers["geometry"]["matched"][name]["overlap"]["shown"]
        assert pair == pytest.approx(cmfast.overlap(matrices[f"weighted_{name}"], matrices[f"gcm_{name}"]), abs=1e-12)
        assert numbers["geometry"]["overlap_table"][name][name]["shown"] == pytest.approx(pair, abs=1e-12)
        matched = numbers["geometry"]["matched"][name]
        assert matched["overlap"]["shown"] >= matched["guaranteed"]["shown"] - 1e-12
    for measure in ("overlap", "kl"):
        assert sum(numbers["normalisation"][measure][name]["best_in"] for name in METHODS) == SMALL.repeats
    samples = numbers["samples"]
    assert matrices["imbalanced"].sum(axis=1).tolist() == samples["imbalanced_test"]
    assert sum(numbers["bootstrap"]["statuses"].values()) == SMALL.resamples
    assert numbers["bootstrap"]["largest_residual"] <= SMALL.tol
    assert (matrices["bi_low"] <= matrices["bi_high"]).all()


def test_intervals_without_draws_agree_with_the_drawn(small):
    _, numbers, matrices = small
    assert (matrices["bi_low_without_draws"] >= 0).all()
    assert 0.7 < numbers["bootstrap"]["median_width_ratio_without_draws"] < 1.3
    never = matrices["imbalanced"].sum(0) == 0  # of what is smoothing alone nothing varies, but by the other columns
    assert np.isfinite(matrices["bi_high_without_draws"][:, never]).all()
    assert "delta method" in sentences.bootstrap(numbers)


def test_the_page_needs_nothing_else(small):
    text = (small[0] / "report.html").read_text()
    for word in ("http:", "https:", "src=", "href=", "<script", "<link", "@import", "url("):
        assert word not in text, word
    assert "nan" not in re.sub(r"[a-z]*nan[a-z]+|[a-z]+nan", "", text.lower())


def test_the_page_shows_the_numbers(small):
    out, numbers, matrices = small
    text = (out / "report.html").read_text()
    for measure in ("overlap", "kl"):
        for name in METHODS:
            v = numbers["normalisation"][measure][name]
            assert f"<td>{v['shown']:.3f}</td><td>{v['mean']:.3f} ± {v['sd']:.3f}</td>" in text
    for width in numbers["geometry"]["by_width"]:
        assert f"<td>{width['cells']:,}</td><td>{width['overlap']:.3f}</td>" in text
    assert f"<td>{sentences.statuses(numbers)}</td>" in text
    bi = matrices["imbalanced_bi"]
    assert f"true 3, predicted 5: {100 * bi[3, 5] * 10 / bi.sum():.2f} %" in text
    for paragraph in (
        sentences.verdict(numbers),
        sentences.geometry(numbers),
        sentences.decided(numbers),
        sentences.bootstrap(numbers),
    ):
        assert paragraph.replace("'", "&#x27;") in text


def test_every_picture_is_well_formed(small):
    text = (small[0] / "report.html").read_text()
    pictures = re.findall(r"<svg.*?</svg>", text)
    assert len(pictures) == text.count("<svg") >= 15
    for picture in pictures:
        root = ET.fromstring(picture)
        assert root.get("aria-label")
        _, _, width, height = map(float, root.get("viewBox").split())
        for label in root.iter("text"):
            assert 0 <= float(label.get("x")) <= width
            assert 0 <= float(label.get("y")) <= height
        for box in root.iter("rect"):
            assert float(box.get("x")) >= 0
            assert float(box.get("x")) + float(box.get("width")) <= width + 0.11
            assert float(box.get("y")) + float(box.get("height")) <= height + 0.11


def test_the_words_follow_the_numbers(small):
    numbers = copy.deepcopy(small[1])
    overlap = numbers["normalisation"]["overlap"]
    for name, mean, best in (("all", 0.5, 0), ("row", 0.95, 2), ("col", 0.7, 0), ("bi", 0.8, 0)):
        overlap[name].update(mean=mean, best_in=best)
    assert sentences.verdict(numbers).startswith("Here bi-normalisation is not the closest: row shares 0.950")
    overlap["row"]["mean"] = 0.6
    assert sentences.verdict(numbers).startswith(
        "Bi-normalisation comes closest to the balanced truth: it shares 0.800"
    )
    assert "0.100 more than col" in sentences.verdict(numbers)
    numbers["normalisation"]["overlap_by_smoothing"] = {"0.001": 0.8, "1": 0.65}
    assert "with 1 it falls behind col" in sentences.smoothing(numbers)
    numbers["samples"]["never_predicted"] = [2, 9]
    assert "never answers 2 and 9" in sentences.matrices(numbers)
    numbers["bootstrap"]["balanced_inside_interval"] = 0.95
    assert "95 % of all confusions. The thin lines" in sentences.bootstrap(numbers)
    numbers["bootstrap"]["balanced_inside_interval"] = 0.3
    assert "not for 95 %" in sentences.bootstrap(numbers)
    assert "Here bi" not in _page.compose_page(page.compose(numbers, small[2]))


def test_the_page_says_at_which_level_it_stands(small):
    out, numbers, _ = small
    text = (out / "report.html").read_text()
    assert "is 0.3, that is high heterogeneity" in text
    assert "<code>cmfast reproduce normalization</code>" in text
    assert main(["reproduce", "normalization", "--repeats", "x"]) == 2  # so there is such a command
    other = {**numbers, "settings": {**numbers["settings"], "alpha": 0.5}}
    assert "is 0.5, that is none of the paper's levels" in sentences.level(other)


def test_the_terminal_table(small):
    out, numbers, _ = small
    text = report.table(numbers, out)
    for name in METHODS:
        (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        assert f"{numbers['normalisation']['overlap'][name]['mean']:.3f}" in line
        assert f"{numbers['geometry']['matched'][name]['guaranteed']['mean']:.3f}" in line
    assert "report.html" in text


def test_the_halves_have_no_picture_in_common(rng):
    pool = data.digits()
    train, test = experiment.halve_pool(pool, rng)
    assert not {row.tobytes() for row in pool.X[train]} & {row.tobytes() for row in pool.X[test]}
    assert len(set(np.bincount(pool.y[train]))) == len(set(np.bincount(pool.y[test]))) == 1
    for rows in (train, test):  # all turns of a picture are in one half
        assert set(np.bincount(pool.block[rows])) <= {0, 4}


def test_imbalance_keeps_what_it_promises(rng):
    y = rng.permutation(np.repeat(np.arange(experiment.C), 100))
    sizes = []
    for _ in range(50):
        chosen = data.draw_imbalanced(y, rng, alpha=0.3, kept=0.2, n_classes=experiment.C)
        assert len(set(chosen.tolist())) == len(chosen)
        sizes.append(np.bincount(y[chosen], minlength=experiment.C))
    assert np.min(sizes) == 20
    assert np.max(sizes) == 100
    assert np.std(sizes) > 20


def test_percent_is_short():
    assert [plot_style.format_percent(v) for v in (1.0, 0.0996, 0.0994, 0.0005, 0.0004, 0.0)] == [
        "100",
        "10",
        "9.9",
        "0.1",
        "",
        "",
    ]


def test_without_scikit_learn_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cmfast._reproduce.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 2
    assert capsys.readouterr().err == 'cmfast: demo needs scikit-learn: pip install "cmfast[demo]"\n'
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_take_the_results_costs_no_minute(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "run", None)
    mine = tmp_path / "results.json"
    mine.write_text("mine")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert f"{mine}: exists already and is not of an earlier demo" in capsys.readouterr().err
    assert mine.read_text() == "mine"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert main(["demo", "--out", str(tmp_path / "new")]) == 2
    assert "no permission to write into this folder" in capsys.readouterr().err


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "DemoSettings", lambda: SMALL)
    assert main(["demo", "--out", str(tmp_path / "out"), "--seed", "5", "--json"]) == 0
    captured = capsys.readouterr()
    facts = json.loads(captured.out)
    assert facts == json.loads((tmp_path / "out" / "results.json").read_text())
    assert facts["seed"] == 5
    assert "training" in captured.err
    assert main(["demo", "--out", str(tmp_path / "out"), "--seed", "5"]) == 0
    assert "Bootstrap: 400 matrices" in capsys.readouterr().out


@pytest.mark.slow
def test_the_readme_shows_what_the_demo_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- command: demo -->\n```sh\n.*?^```\n\n```text\n(.*?)^```\n", page, re.DOTALL | re.MULTILINE)
    assert page_commands.is_printed(shown[1], capsys.readouterr().out)
