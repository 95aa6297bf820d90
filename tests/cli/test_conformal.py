"""The command ``cmfast conformal``."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from cmfast import cli, conformal

RNG = np.random.default_rng(6)
P = RNG.dirichlet(np.full(4, 0.4), 300)
Y = (P.cumsum(-1) < RNG.random((300, 1))).sum(-1)


@pytest.fixture
def files(tmp_path):
    """Return the options that name probabilities and labels."""
    for name, array in {"cal": P[:200], "ycal": Y[:200], "new": P[200:], "y": Y[200:]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    names = {name: str(tmp_path / f"{name}.npy") for name in ("cal", "ycal", "new", "y")}
    known = ["--labels", names["y"], "--calibration", names["cal"], "--calibration-labels", names["ycal"]]
    return ["conformal", names["new"], *known, "--quiet"]


def ours(alphas, seed=0, **options):
    s = conformal.scores(P[:200], Y[:200], rng=seed)
    q = conformal.threshold(s, alphas, **options)
    return q, conformal.prediction_sets(P[200:], q, rng=seed)


def test_json_is_what_the_functions_give(files, capsys):
    assert cli.main([*files, "--alpha", ".1", "0.05", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    q, sets = ours([0.1, 0.05])
    assert [one["threshold"] for one in found["alphas"]] == q.tolist()
    assert [one["coverage"] for one in found["alphas"]] == sets.coverage(Y[200:]).tolist()
    assert [one["G"] for one in found["alphas"]] == conformal.ccm(sets).G.tolist()
    assert (found["rows"], found["calibration_rows"], found["classes"]) == (100, 200, 4)


def test_the_table_and_the_counts(files, capsys, tmp_path):
    out = tmp_path / "counts.npz"
    assert cli.main([*files, "--by-class", "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "100 rows, 4 classes, aps; calibrated by 200"
    assert lines[2].split()[:3] == ["0.1", "by", "class"]
    assert conformal.CcmCounts.load(out) == conformal.ccm(ours([0.1], y=Y[:200], n_classes=4)[1])


def test_tables(tmp_path, capsys, files):
    for name, part in (("cal", slice(200)), ("new", slice(200, 300))):
        frame = pd.DataFrame(P[part], columns=list("abcd")).assign(label=Y[part])
        frame.to_parquet(tmp_path / f"{name}.parquet")
    new, cal = str(tmp_path / "new.parquet"), str(tmp_path / "cal.parquet")
    assert cli.main(["conformal", new, "--labels", "label", "--calibration", cal, "--json", "--quiet"]) == 0
    of_tables = json.loads(capsys.readouterr().out)
    assert cli.main([*files, "--json"]) == 0
    assert of_tables == json.loads(capsys.readouterr().out) | {"columns": list("abcd")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--alpha", "1.5"], "--alpha must be above 0 and below 1, got '1.5'"),
        (["--alpha", "nan"], "--alpha must be above 0"),
        (["--lam", "0.1"], "--lam belongs to --method raps or saps"),
        (["--calibration", "gone.npy"], "gone.npy: no such file"),
        (["-o", "counts.csv"], "--output must end in .npz, .json"),
        (["--method", "raps", "--lam", "400"], "lam must be below 1000 / C"),
        (["--k-reg", "2"], "--k-reg belongs to --method raps"),
        (["--method", "saps"], "--method saps needs --lam"),
        (["--method", "raps", "--k-reg", "1"], "--method raps needs --lam, the penalty per rank beyond --k-reg"),
        (["--method", "top_k", "--lam", "1"], "--lam belongs to --method raps or saps"),
    ],
)
def test_what_is_refused(files, options, said, capsys):
    assert cli.main([*files, *options]) == 2
    assert said in capsys.readouterr().err


def test_rows_that_are_none_are_said(files, capsys, tmp_path):
    bad = P[:200].copy()
    bad[4, 0] = np.nan
    np.save(tmp_path / "cal.npy", bad)
    assert cli.main(files) == 1
    assert "1 of 200 rows not scored" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "said"), [("new", "1 of 100 rows given all classes"), ("y", "rows left out")])
def test_new_rows_and_labels_that_are_none_are_said(files, capsys, tmp_path, name, said):
    bad = {"new": P[200:].copy(), "y": Y[200:].copy()}[name]
    bad[5] = -1
    np.save(tmp_path / f"{name}.npy", bad)
    assert cli.main(files) == 1
    assert said in capsys.readouterr().err


def frames(tmp_path, **columns):
    """Write a calibration with labels and new rows without, whose columns have these names; return their paths."""
    cal, new = tmp_path / "cal.parquet", tmp_path / "new.parquet"
    pd.DataFrame(P[:200], columns=list("abcd")).assign(label=Y[:200]).to_parquet(cal)
    pd.DataFrame(P[200:], columns=list("abcd")).rename(columns=columns).to_parquet(new)
    return ["conformal", str(new), "--calibration", str(cal), "--calibration-labels", "label", "--quiet"]


def test_tables_without_labels(tmp_path, capsys):
    assert cli.main([*frames(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    sizes = ours([0.1])[1].sizes
    assert (found["alphas"][0]["coverage"], found["alphas"][0]["mean_size"]) == (None, sizes.mean())
    options = {"lam": 0.0, "k_reg": 0, "randomised": True, "seed": 0, "by_class": False, "empty": "allow"}
    assert {name: found[name] for name in options} == options


@pytest.mark.parametrize("kind", [str, "category"])
def test_labels_of_tables_may_name_columns(tmp_path, capsys, kind):
    """What a classifier calls its classes is what columns of probabilities are called."""
    command = frames(tmp_path)
    assert cli.main(command) == 0
    want = capsys.readouterr().out
    assert re.search("[a-d]-[a-d] [+-]", want)
    known = pd.DataFrame(P[:200], columns=list("abcd")).assign(
        label=pd.Series(np.array(list("abcd"))[Y[:200]], dtype=kind)
    )
    known.to_parquet(tmp_path / "cal.parquet")
    assert cli.main(command) == 0
    assert capsys.readouterr().out == want
    known.assign(label=known.label.astype(str).replace("b", "x")).to_parquet(tmp_path / "cal.parquet")
    assert cli.main(command) == 2
    row = list(Y).index(1)
    assert f"row {row}: label 'x' of column 'label' names no other column (a, b, c, d)" in capsys.readouterr().err


def test_probabilities_in_a_column_of_lists(tmp_path, capsys, files):
    """Which has one name for all classes: labels cannot be names."""
    command = frames(tmp_path)
    for name, part in (("cal", slice(200)), ("new", slice(200, 300))):
        frame = (
            pd.DataFrame({"p": list(P[part]), "label": Y[part]})
            if name == "cal"
            else pd.DataFrame({"p": list(P[part])})
        )
        frame.to_parquet(tmp_path / f"{name}.parquet")
    assert cli.main(command) == 0
    found = capsys.readouterr().out
    assert cli.main([files[0], files[1], *files[4:]]) == 0
    assert found == capsys.readouterr().out
    pd.DataFrame({"p": list(P[:200]), "label": ["p"] * 200}).to_parquet(tmp_path / "cal.parquet")
    assert cli.main(command) == 2
    assert "column 'label' must hold class ids" in capsys.readouterr().err


@pytest.mark.parametrize("bad", [np.array(list("abcd"))[Y[:200]], Y[:199], Y[:200] * 1.0, Y[:200, None]])
def test_files_of_labels_that_are_none_are_named(files, capsys, tmp_path, bad):
    np.save(tmp_path / "ycal.npy", bad)
    assert cli.main(files) == 2
    assert "ycal.npy must be of shape (200,) with class ids 0, 1, ..." in capsys.readouterr().err


def test_columns_that_differ_are_refused(tmp_path, capsys):
    assert cli.main(frames(tmp_path, b="x")) == 2
    assert "columns differ: 'b' in" in capsys.readouterr().err
    assert cli.main([*frames(tmp_path), "--features", "a", "b", "c", "d"]) == 0
    np.save(tmp_path / "few.npy", P[200:, :3])
    assert cli.main(["conformal", str(tmp_path / "few.npy"), *frames(tmp_path)[2:]]) == 2
    assert "has 4 columns of probabilities, but" in capsys.readouterr().err


def test_progress_is_for_terminals(tmp_path, capsys):
    for name, part in (("cal", slice(200)), ("new", slice(200, 300))):
        pd.DataFrame(P[part], columns=list("abcd")).assign(label=Y[part]).to_parquet(tmp_path / f"{name}.parquet")
    new, cal = str(tmp_path / "new.parquet"), str(tmp_path / "cal.parquet")
    assert cli.main(["conformal", new, "--labels", "label", "--calibration", cal]) == 0
    assert capsys.readouterr().err == ""
