"""The experiments of the normalisation paper: halves that share nothing, verdicts that follow planted numbers."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cmfast
from cmfast import _reproduce
from cmfast._files.output import FileError
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce import normalization
from cmfast._reproduce.demo import experiment as demo
from cmfast._reproduce.normalization import claims, data, networks, own, properties, recovery, training
from cmfast.cli import main

pytestmark = pytest.mark.papers

SMALL = training.NormalizationSettings(repeats=2, levels=(10.0, 0.1), epochs=1, most_epochs=2, components=(3,))


def silent(label, unit):
    """Make a progress bar that shows nothing."""
    return lambda done, total: None


def of(*pools, settings=SMALL, **options):
    return normalization.reproduce(quick=True, progress=silent, settings=settings, pools=list(pools), **options)


@pytest.fixture
def few():
    """Return two small pools."""
    digits = data.digits()
    some = np.flatnonzero(digits.block < 160)
    cut = data.Pool("digits", "few digits", digits.X[some], digits.y[some], digits.block[some], digits.classes)
    return [data.letters(40), cut]


def test_every_claim_and_every_figure_is_there(few):
    made = of(*few)
    assert set(made.numbers["experiment_1"]) == {"letters", "digits"}
    texts = [claim.text for claim in made.claims]
    assert len(set(texts)) == len(texts) >= 29
    assert all(claim.figures and claim.found for claim in made.claims)
    whole, *parts = (claim.figures for claim in made.claims if claim.where.endswith("Fig. 3a"))
    assert whole == parts[0] | parts[1]  # the same intervals, so nothing is decided in a part alone
    names = {picture.name for picture in made.pictures()}
    assert names >= {"mixed_all_of_it", "clusters", "recovered_digits", "instance_bi", "clouds_letters_bi"}
    assert names >= {"divergence_digits", "histograms"}
    by_alpha = next(p for p in made.pictures() if p.name == "divergence_digits").numbers["by_alpha"]
    shown = next(p for p in made.pictures() if p.name == "clouds_digits_bi").numbers["by_alpha"]["0.1"]
    matched = made.numbers["experiment_2"]["digits"]["3 axes"]["0.001"]["levels"][-1]["matched"]["bi"]
    assert [shown[name] for name in ("W o M", "guaranteed", "permuted")] == [
        matched[key] for key in ("overlap", "guaranteed", "null")
    ]
    assert shown["guaranteed"] <= shown["W o M"] + 1e-12
    kl = made.numbers["experiment_1"]["digits"]["early"]["0.001"][0]["kl"]
    assert by_alpha["10"] == {method: kl[method]["mean"] for method in ("all", "row", "col", "bi")}


@pytest.mark.slow
def test_the_quick_one_takes_all_data(tmp_path):
    assert main(["reproduce", "normalization", "--quick", "-o", str(tmp_path / "out")]) == 0
    numbers = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(numbers["numbers"]["experiment_1"]) == set(data.SOURCES)
    assert numbers["settings"]["repeats"] == normalization.QUICK


@pytest.mark.parametrize("name", data.SOURCES)
def test_halves_share_no_block_and_are_balanced(name, rng):
    pool = data.SOURCES[name]()
    halves = data.halve_pool(pool, rng)
    assert not set(pool.block[halves.train]) & set(pool.block[halves.test])
    for half in halves:
        assert len(set(np.bincount(pool.y[half], minlength=10))) == 1
        assert len(half) > 1500


def test_a_folder_of_tests_around_python_is_no_test(tmp_path, monkeypatch):
    package = tmp_path / "tests" / "lib" / "of_the_library"
    line = "{} = 'a line that is long enough to be taken'\n"
    for name in ("one", "test/two"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / f"{name}.py").write_text(line.format(Path(name).name))
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(package.parent)
    assert data._read_code_lines("of_the_library") == [line.format("one").strip()]
    with pytest.raises(FileError, match=r"^no_such_package: the sources"):
        data._read_code_lines("no_such_package")


def test_verdicts_follow_planted_numbers():
    up, down, none = (
        paired.compute_interval(np.array(v), 0.95) for v in ([2, 2.1, 1.9], [-1, -1.1, -0.9], [-1, 0, 1.5])
    )
    assert [each["side"] for each in (up, down, none)] == ["higher", "lower", "open"]
    assert claims.verdict({"a": up}) == "holds"
    assert claims.verdict({"a": down, "b": down}) == "fails"
    assert claims.verdict({"a": none}) == "undecided"
    assert claims.verdict({"a at 1": up, "a at 3": up, "b at 1": none}) == "undecided where b at 1, holds elsewhere"
    assert claims.verdict({"a at 1": up, "a at 3": down, "a at 9": down}) == "holds where a at 1, fails elsewhere"
    four = {"a by row": up, "a by col": up, "a by bi": up, "c": up, "b": down, **dict.fromkeys("defgh", none)}
    assert claims.verdict(four) == "fails where b, holds where a by row, col and bi; c, undecided elsewhere"
    assert paired.compute_interval(np.array([1.0]), 0.95)["side"] == "open"


def test_intervals_of_a_claim_hold_together():
    draws = np.random.default_rng(3).normal(size=(4000, 20, 8))
    missed = 0
    for family in draws[:400]:
        found = {f"{k}": paired.compute_interval(values, 0.95) for k, values in enumerate(family)}
        missed += any(one["side"] != "open" for one in paired.widen_to_simultaneous(found, 0.95).values())
    assert 0.02 < missed / 400 < 0.08
    nested = claims._make_claim("", "", {"a at 1": paired.compute_interval(draws[0, 0], 0.95)}, SMALL)
    assert nested.found.startswith("above zero where it holds: a at 1 ")
    one = {"a": paired.compute_interval(draws[0, 0], 0.95)}
    assert paired.widen_to_simultaneous(one, 0.95) == {"a": pytest.approx(one["a"])}
    assert paired.negate_interval(one["a"])["low"] == -one["a"]["high"]


def test_propositions_are_decided_by_their_figures(monkeypatch):
    found = {claim.text: claim.verdict for claim in properties.claims(SMALL)}
    assert found.pop("The overlap is 1 if and only if both matrices are equal.") == "fails where they are proportional"
    volume = next(text for text in found if text.startswith("The volume"))
    assert found.pop(volume) == "holds where no constant is added to M"
    assert set(found.values()) == {"holds"}
    assert properties._judge_identity("", "", 1e-3).verdict == "fails"
    monkeypatch.setattr(cmfast, "bi_normalize", lambda M, tol: cmfast.normalize(M, "row"))
    rows = {claim.text: claim.verdict for claim in properties.claims(SMALL)}
    assert rows["bi(A M B) is bi(M) for positive diagonal A and B."] == "fails"


def test_alike_weights_lose_no_sample():
    share, variance = recovery.measure_weights(np.array([[3, 1], [2, 2]]), np.full((2, 2), 0.5))
    assert (share, variance) == (1, 0)
    share, _ = recovery.measure_weights(np.array([[1, 0], [0, 1]]), np.array([[1.0, 1.0], [1.0, 0.0]]))
    assert share == 0.5


def test_effective_samples_are_those_of_kish(rng):
    M = rng.integers(1, 9, (3, 3))
    w = rng.random((3, 3))
    samples = np.repeat(w.ravel(), M.ravel())  # one weight per sample
    share, variance = recovery.measure_weights(M, w)
    assert share == pytest.approx(samples.sum() ** 2 / (samples**2).sum() / len(samples))
    assert variance == pytest.approx((samples / samples.mean()).var())


def test_uneven_predictions_are_told_from_chance(rng):
    even = np.stack([rng.multinomial(600, [1 / 9] * 9).reshape(3, 3) for _ in range(500)])
    assert recovery._measure_unevenness(even).mean() == pytest.approx(1, abs=0.15)
    assert recovery._measure_unevenness(np.array([[[30, 0], [30, 0]]]))[0] == 60


# Networks


def test_the_demo_and_the_reproduction_draw_and_learn_alike(monkeypatch):
    made, drawn = [], []
    make, draw = networks.make_network, training.draw_imbalanced
    monkeypatch.setattr(networks, "make_network", lambda name, *more: made.append(name) or make(name, *more))
    monkeypatch.setattr(
        training, "draw_imbalanced", lambda y, rng, **how: drawn.append(how["alpha"]) or draw(y, rng, **how)
    )
    results = demo.Results({"samples": {}}, {})
    (twins,) = demo._train(0, demo.DemoSettings(repeats=1, epochs=1), results, lambda done, total: None)
    assert made == ["perceptron"] * 2
    assert drawn == [demo.DemoSettings().alpha] * 2
    assert twins.balanced.M.sum() == results.numbers["samples"]["balanced_train"].sum()


@pytest.mark.parametrize(("shape", "rounds"), [((8, 8), 20), ((9, 10, 3), 20), ((28, 28), 20), ((32, 32, 3), 1)])
def test_convolutions_learn_the_same_twice(shape, rounds, rng):
    pytest.importorskip("torch")
    y = np.tile([0, 1], 40)
    X = rng.random((80, *shape)).astype(np.float32) / 4
    X[y == 1, : shape[0] // 2] += 0.75
    found = []
    for _ in range(2):
        network = networks.make_network("cnn", shape, 2, 7, SMALL)
        for _ in range(rounds):
            network.learn(X, y)
        found.append((network.predict(X), network.embed(X)))
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert rounds == 1 or (found[0][0] == y).mean() > 0.9
    assert found[0][1].shape == (80, 128 if len(shape) == 3 else 64)


def test_convolutions_take_pictures(few):
    pytest.importorskip("torch")
    flat = replace(few[1], X=few[1].X.reshape(len(few[1].X), -1))
    made = of(few[0], flat, network="cnn")
    assert set(made.numbers["experiment_1"]) == {"letters"}
    assert set(made.numbers["experiment_1"]["letters"]) == {"samples", "early"}
    with pytest.raises(FileError, match=r"^--network cnn: takes pictures"):
        of(flat, network="cnn")


def test_a_network_that_is_not_there_is_named(monkeypatch):
    with pytest.raises(FileError, match=r"^--network mlp: must be one of perceptron, cnn"):
        of(network="mlp")
    monkeypatch.setattr(networks, "find_spec", lambda name: None)
    with pytest.raises(FileError, match=r"^--network cnn: needs torch"):
        of(network="cnn")
    with pytest.raises(FileError, match=r"^--repeats: must be 2 at least"):
        of(repeats=1)


# Data of the user


@pytest.fixture
def saved(tmp_path, rng):
    """Return what saves an array and gives its path."""

    def save(name, array):
        np.save(tmp_path / f"{name}.npy", array)
        return tmp_path / f"{name}.npy"

    return save


def planted(rng, n=60):
    """Return embeddings, labels and answers of three classes, two of which are confused."""
    y = np.repeat(np.arange(3), n)
    X = rng.normal(0, 0.5, (3 * n, 4)) + np.eye(3, 4)[y]
    pred = np.where((y == 1) & (rng.random(3 * n) < 0.4), 2, y)
    return X, y, pred


def test_answers_of_the_user_are_not_trained_again(saved, rng, monkeypatch):
    monkeypatch.setattr(networks, "make_network", None)
    X, y, pred = planted(rng)
    names = np.array(["a", "b", "c"])
    files = {"embeddings": saved("X", X), "labels": saved("y", names[y]), "pred": saved("p", names[pred])}
    wide = replace(SMALL, components=(10, 7, 3))  # there are four
    made = normalization.reproduce(quick=True, progress=silent, settings=wide, **files)
    assert made.settings["components"] == (4, 3)
    found = made.numbers["experiment_1"]["own"]
    assert set(found) == {"samples", "given"}
    assert found["samples"]["balanced_test"] == 90
    level = found["given"]["0.001"][0]
    assert level["overlap"]["row"]["mean"] > 0.85  # one classifier: rows are the same for every test set
    assert level["overlap"]["row"]["mean"] > level["overlap"]["col"]["mean"]


@pytest.mark.parametrize("what", ["images", "embeddings"])
def test_data_of_the_user_are_trained_on(what, saved, rng, tmp_path):
    X, y, _ = planted(rng)
    asked = [f"--{what}", str(saved("X", X)), "--labels", str(saved("y", y)), "--repeats", "2", "--quick"]
    assert main(["reproduce", "normalization", *asked, "-o", str(tmp_path / "out"), "--json"]) == 0
    numbers = json.loads((tmp_path / "out" / "results.json").read_text())
    assert numbers["settings"]["data"] == {"own": f"{what} of X.npy, 180 of 180, in each half 30 of every class"}
    assert numbers["settings"]["repeats"] == 2
    said = " ".join(["normalization --quick --repeats 2", *asked[:4]])
    page = re.sub("</?bdi>", "", (tmp_path / "out" / "report.html").read_text())  # names of files are isolated
    assert f"<code>cmfast reproduce {said}</code>" in page
    assert set(numbers["numbers"]["experiment_1"]["own"]["early"]["0.5"][0]["overlap"]) == {"all", "row", "col", "bi"}


def test_large_files_are_thinned_evenly(saved, rng, monkeypatch):
    monkeypatch.setattr(own, "MOST_CLASS_SAMPLES", 20)
    y = np.repeat([0, 1], 1000)
    read = own.read_user_data(images=saved("X", np.arange(4000).reshape(2000, 2)), labels=saved("y", y))
    assert np.bincount(read.pool.y).tolist() == [20, 20]
    assert read.pool.X[:20, 0].tolist() == pytest.approx(np.linspace(0, 999, 20).astype(int) * 2 / 3999, rel=1e-6)
    assert read.predicted is None


X3, Y3 = np.zeros((30, 4)), np.repeat([0, 1, 2], 10)
NAN = np.where(np.arange(120).reshape(30, 4) == 7, np.nan, 0.0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"labels": Y3}, "--labels: needs --images or --embeddings"),
        ({"pred": Y3}, "--pred: needs --images or --embeddings"),
        ({"images": X3}, "--images: needs --labels"),
        ({"embeddings": X3}, "--embeddings: needs --labels"),
        ({"images": X3, "embeddings": X3, "labels": Y3}, "--embeddings: cannot be given beside --images"),
        ({"images": X3, "labels": Y3, "pred": Y3}, "--pred: needs --embeddings"),
        ({"images": Y3, "labels": Y3}, r"--images .*images.npy: must have 2 or 3 or 4 axes, has shape \(30,\)"),
        ({"embeddings": X3[:, :, None], "labels": Y3}, "--embeddings .*: must have 2 axes"),
        ({"images": X3.astype(str), "labels": Y3}, "--images .*: must be real numbers"),
        ({"images": X3[:, :0], "labels": Y3}, "--images .*: is empty"),
        ({"images": np.zeros((30, 3, 8, 8)), "labels": Y3}, "--images .*: must have its colours on the last axis"),
        ({"images": X3, "labels": Y3[1:]}, r"--labels .*: must have shape \(30,\) .*, has \(29,\)"),
        ({"images": X3, "labels": Y3 / 2}, "--labels .*: must be whole numbers or text"),
        ({"images": X3, "labels": Y3 * 0}, "--labels: must name two classes at least, has 1"),
        ({"images": X3, "labels": np.sort(Y3 * (Y3 < 2))}, None),
        (
            {"images": X3, "labels": np.r_[Y3[:-1], 0]},
            "--labels: must have 10 samples of every class at least, has 9 of 2",
        ),
        ({"embeddings": X3, "labels": Y3, "pred": Y3 + 1}, "--pred: must name classes of --labels, has 3"),
        ({"embeddings": X3, "labels": Y3, "pred": Y3.astype(str)}, "--pred: must be of the kind of --labels"),
        ({"images": NAN, "labels": Y3}, "--images .*: must be finite, holds NaN or infinity"),
    ],
)
def test_the_argument_at_fault_is_named(given, said, saved):
    files = {name: saved(name, array) for name, array in given.items()}
    if said is None:
        assert own.read_user_data(**files).pool.classes == ("0", "1")
        return
    with pytest.raises(FileError, match=f"^{said}"):
        own.read_user_data(**files)


def test_the_command_says_it_in_a_line(saved, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "normalization", "--images", str(saved("X", X3))]) == 2
    assert capsys.readouterr().err == "cmfast: --images: needs --labels beside it\n"
    assert not (tmp_path / "cmfast-normalization").exists()
    (tmp_path / "mine").mkdir()
    assert main(["reproduce", "normalization", "--images", str(saved("X", X3)), "-o", "mine"]) == 2
    assert (tmp_path / "mine").is_dir()
    capsys.readouterr()
    assert main(["reproduce", "normalization", "--labels", "nowhere.npy", "--images", str(saved("X", X3))]) == 2
    assert "nowhere.npy" in capsys.readouterr().err
    text = str(saved("X", X3)), str(saved("y", Y3)), str(saved("p", Y3))
    asked = ["--embeddings", text[0], "--labels", text[1], "--pred", text[2], "--network", "cnn"]
    pytest.importorskip("torch")
    assert main(["reproduce", "normalization", *asked]) == 2
    assert capsys.readouterr().err == "cmfast: --network: has nothing to train beside --pred\n"
    assert set(_reproduce.PAPERS["normalization"].options) >= {"images", "embeddings", "labels", "pred"}
