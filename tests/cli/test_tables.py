"""Labels in files of their own, a matrix per group, a row per group or matrix in a file."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import assert_exits_with_error

import cmfast
from cmfast import cli, metrics
from cmfast.cli import _screen

ROWS = 400
rng = np.random.default_rng(3)
TRUTH, GUESS = rng.integers(0, 3, (2, ROWS))
SITES = rng.choice(["north", "south, far", "west"], ROWS)
M = cmfast.confusion_matrix(TRUTH, GUESS)
BY_SITE = np.stack([cmfast.confusion_matrix(TRUTH[site == SITES], GUESS[site == SITES]) for site in np.unique(SITES)])


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs the command in a folder with the labels in several kinds of files."""
    monkeypatch.chdir(tmp_path)
    for name, array in (("y", TRUTH), ("p", GUESS), ("site", SITES), ("short", TRUTH[:5]), ("M", BY_SITE), ("one", M)):
        np.save(f"{name}.npy", array)
    frame = pd.DataFrame({"site": SITES, "y_true": TRUTH, "y_pred": GUESS, "accuracy": SITES})
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")

    def command(*argv):
        status = cli.main([*argv, "--quiet"])
        return (status, *capsys.readouterr())

    return command


def test_labels_in_files_of_their_own(run):
    status, out, _ = run("confusion", "--labels", "y.npy", "--pred", "p.npy", "--json")
    assert status == 0
    assert json.loads(out)["matrix"] == M.tolist()
    found = json.loads(run("metrics", "--labels", "y.npy", "--pred", "p.npy", "--json", "--only", "mcc")[1])
    assert found["metrics"] == {"mcc": float(metrics.mcc(M))}
    by = ("--labels", "y.npy", "--pred", "p.npy", "--by", "site.npy")
    assert [one["matrix"] for one in json.loads(run("confusion", *by, "--json")[1])["groups"]] == BY_SITE.tolist()


def test_labels_in_a_zarr_array(run):
    zarr = pytest.importorskip("zarr")
    for name, array in (("y", TRUTH), ("p", GUESS)):
        zarr.create_array(f"{name}.zarr", data=array, chunks=(70,))
    assert json.loads(run("confusion", "--labels", "y.zarr", "--pred", "p.zarr", "--json")[1])["matrix"] == M.tolist()


@pytest.mark.parametrize("command", ["confusion", "metrics"])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "give FILE, or --labels and --pred"),
        (("t.csv", "--labels", "y.npy", "--pred", "p.npy"), "--labels takes the place of FILE"),
        (("--labels", "y.npy"), "--labels needs --pred"),
        (("--labels", "y.npy", "--pred", "p.npy", "--true", "0"), "--true and --header belong to FILE"),
        (("--labels", "y.npy", "--pred", "short.npy"), "short.npy: holds 5 labels, but y.npy 400"),
        (("--labels", "y.npy", "--pred", "M.npy"), "M.npy: must be of shape (n,)"),
        (("--labels", "y.npy", "--pred", "site.npy"), "the truth holds integers, but the prediction strings"),
        (("--labels", "y.npy", "--pred", "none.npy"), "none.npy: no such file"),
        (("--labels", "y.npy", "--pred", "p.npy", "-o", "p.npy"), "p.npy"),
    ],
)
def test_labels_that_do_not_go_together(run, command, arguments, text):
    assert_exits_with_error(run(command, *arguments), text)


def test_a_matrix_per_group(run):
    facts = json.loads(run("confusion", "t.csv", "--by", "site", "--json")[1])
    assert (facts["by"], facts["labels"]) == ("site", [0, 1, 2])
    assert [one["group"] for one in facts["groups"]] == ["north", "south, far", "west"]
    assert [one["matrix"] for one in facts["groups"]] == BY_SITE.tolist()
    assert [one["samples"] for one in facts["groups"]] == BY_SITE.sum((1, 2)).tolist()
    status, out, _ = run("confusion", "t.parquet", "--by", "site")
    assert status == 0
    assert out.splitlines()[:2] == [f"site = north: {BY_SITE[0].sum()} samples", "true \\ pred   0   1   2"]
    assert out.count("samples\ntrue") == 3


def test_files_of_a_matrix_per_group(run):
    for name in ("g.npy", "g.npz", "g.csv", "g.json"):
        assert run("confusion", "t.csv", "--by", "site", "-o", name)[0] == 0
    np.testing.assert_array_equal(np.load("g.npy"), BY_SITE)
    with np.load("g.npz") as archive:
        np.testing.assert_array_equal(archive["matrix"], BY_SITE)
        assert archive["groups"].tolist() == ["north", "south, far", "west"]
    frame = pd.read_csv("g.csv")
    assert list(frame) == ["site", "true \\ predicted", "0", "1", "2"]
    np.testing.assert_array_equal(frame[["0", "1", "2"]].to_numpy().reshape(3, 3, 3), BY_SITE)
    assert frame["site"].tolist()[3] == "south, far"
    assert len(json.loads(Path("g.json").read_text())["groups"]) == 3


def test_groups_are_normalised_each_by_itself(run):
    status, out, _ = run("confusion", "t.csv", "--by", "site", "--normalize", "bi", "--json")
    assert status == 0
    found = json.loads(out)["groups"]
    np.testing.assert_allclose([one["matrix"] for one in found], cmfast.bi_normalize(BY_SITE), rtol=1e-14)
    Path("zero.csv").write_text("y_true,y_pred,site\n0,0,a\n1,1,a\n0,0,b\n1,0,b\n")
    status, out, err = run("confusion", "zero.csv", "--by", "site", "--normalize", "bi", "--json")
    assert status == 1
    assert [one["status"] for one in json.loads(out)["groups"]] == ["CONVERGED", "ZERO_LINE"]
    assert "ZERO_LINE (element 1 of 2)" in err


def read(name):
    if name.endswith(".json"):
        return pd.DataFrame(json.loads(Path(name).read_text())["rows"])
    return pd.read_csv(name) if name.endswith(".csv") else pd.read_parquet(name)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
def test_a_row_per_group_or_matrix(run, suffix):
    want = metrics.compute(BY_SITE)
    for arguments, head, first in (
        (("t.csv", "--by", "site"), "site", ["north", "south, far", "west"]),
        (("M.npy",), "matrix", [0, 1, 2]),
    ):
        status, out, _ = run("metrics", *arguments, "-o", f"r.{suffix}", "--force")
        assert (status, out) == (0, f"r.{suffix}: 3 rows, {2 + len(want)} columns; 0/0: present\n")
        frame = read(f"r.{suffix}")
        assert list(frame) == [head, "samples", *want]
        assert frame[head].tolist() == first
        assert frame["samples"].tolist() == BY_SITE.sum((1, 2)).tolist()
        for name, values in want.items():
            np.testing.assert_allclose(frame[name], values, rtol=1e-15)
    assert run("metrics", "one.npy", "-o", f"one.{suffix}")[1].startswith(f"one.{suffix}: 1 row, ")
    np.testing.assert_allclose(read(f"one.{suffix}")["mcc"], metrics.mcc(M), rtol=1e-15)


def test_rows_of_numbers_per_class_and_what_is_undefined(run):
    Path("few.csv").write_text("y_true,y_pred,samples\na,a,0\na,b,0\nb,b,1\n")
    given = ("few.csv", "--by", "samples", "--only", "recall", "--undefined", "nan")
    assert run("metrics", *given, "-o", "few.csv.csv")[0] == 0
    assert Path("few.csv.csv").read_text().splitlines() == [
        "'samples',samples,recall a,recall b",
        "0,2,0.5,",
        "1,1,,1.0",
    ]
    assert run("metrics", *given, "-o", "few.json", "--json")[0] == 0
    facts = json.loads(Path("few.json").read_text())
    assert (facts["undefined"], facts["rows"][1]["recall a"]) == ("nan", None)
    pq = pytest.importorskip("pyarrow.parquet")
    assert run("metrics", *given, "-o", "few.parquet")[0] == 0
    assert json.loads(pq.read_schema("few.parquet").metadata[b"cmfast"])["undefined"] == "nan"
    assert_exits_with_error(run("metrics", *given, "-o", "few.txt"), "--output must end in .csv, .parquet, .json")
    assert_exits_with_error(run("metrics", *given, "-o", "few.json"), "exists already")


@pytest.mark.parametrize("command", ["metrics", "confusion"])
def test_the_bar_has_the_name_of_the_command(run, capsys, monkeypatch, command):
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    monkeypatch.setattr(_screen.Stream, "isatty", lambda self: True)
    assert cli.main([command, "t.csv"]) == 0
    assert capsys.readouterr().err.startswith(f"{command}: 100%")


@pytest.mark.parametrize("command", ["metrics", "confusion"])
def test_columns_are_never_guessed(run, command):
    Path("who.csv").write_text("model,site,fact,guess\na,n,0,1\n")
    assert_exits_with_error(
        run(command, "who.csv", "--header"), "has 4 columns; give --true and --pred (has: model, site, fact, guess)"
    )
    Path("two.csv").write_text("fact,guess\n0,1\n1,1\n")
    assert run(command, "two.csv", "--header")[0] == 0
    for head in ("y_true,site,y_pred", "label,site,prediction", "target,site,pred"):
        Path("named.csv").write_text(head + "\n0,n,1\n1,n,1\n")
        assert json.loads(run(command, "named.csv", "--json")[1])["labels"] == [0, 1]


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_json_of_gcm_has_the_pattern(run):
    np.save("X.npy", rng.normal(size=(ROWS, 2)) + TRUTH[:, None])
    argv = ("gcm", "X.npy", "--labels", "y.npy", "--pred", "p.npy", "--weights", "row", "--json")
    found = json.loads(run(*argv)[1])["weights"]["row"]
    d = cmfast.geometric_confusion_matrix(np.load("X.npy"), TRUTH, GUESS, weights="row").diagnostics
    assert (found["pattern"], found["pattern_null"]) == (d.pattern, d.pattern_null)
