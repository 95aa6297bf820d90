"""``--by`` of several columns: a matrix for every combination of values that occurs."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import cli
from cmfast._files import tables

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({
    "label": RNG.integers(0, 3, 90), "guess": RNG.integers(0, 3, 90),
    "model": RNG.choice(["tree", "net"], 90), "site": RNG.choice([9, 10, 100], 90), "run": RNG.choice(["x", "y"], 90),
})  # fmt: skip
COLUMNS = ["--true", "label", "--pred", "guess"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("t.csv", index=False)
    FRAME.to_parquet("t.parquet")

    def command(*argv):
        status = cli.main([*argv, "--quiet"])
        out, err = capsys.readouterr()
        assert status == 0, err
        return out

    return command


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("keys", [["model"], ["model", "site"], ["run", "site", "model"]])
def test_a_matrix_for_every_combination(run, name, keys):
    wanted = cmfast.by(FRAME, keys, y_true="label", y_pred="guess")
    by = [word for key in keys for word in ("--by", key)]
    found = json.loads(run("confusion", name, *COLUMNS, *by, "--json"))
    assert found["by"] == (keys if len(keys) > 1 else keys[0])
    groups = [tuple(one["group"]) if len(keys) > 1 else one["group"] for one in found["groups"]]
    assert tuple(groups) == wanted.groups  # 9 before 10
    assert [one["matrix"] for one in found["groups"]] == wanted.matrix.tolist()
    found = json.loads(run("metrics", name, *COLUMNS, *by, "--only", "mcc", "--json"))
    np.testing.assert_allclose([one["metrics"]["mcc"] for one in found["groups"]], wanted.compute("mcc"))


def test_numbers_of_columns(run):
    assert run("metrics", "t.csv", "--header", *COLUMNS, "--by", "2", "--by", "site", "--json") == run(
        "metrics", "t.csv", *COLUMNS, "--by", "2", "--by", "site", "--json"
    )


def test_intervals_of_groups_in_blocks(run):
    by, more = ["--by", "model", "--by", "site"], ["--only", "mcc", "--interval", "--block-mb", "0.0001"]
    run("metrics", "t.csv", *COLUMNS, *by, *more, "--group-mb", "0.0001", "-o", "o.csv")
    M = cmfast.by(FRAME, ["model", "site"], y_true="label", y_pred="guess").matrix
    found = cmfast.uncertainty.interval(M, ["mcc"], on_failure="ignore")["mcc"]
    table = pd.read_csv("o.csv")
    assert list(table.columns) == ["model", "site", "samples", "mcc", "mcc low", "mcc high"]
    np.testing.assert_array_equal(table[["mcc", "mcc low", "mcc high"]].to_numpy().T, found[:3])


def test_rows_of_groups(run):
    by = ["--by", "model", "--by", "site"]
    wanted = cmfast.by(FRAME, ["model", "site"], y_true="label", y_pred="guess").table(["accuracy"])
    for name, read in (("o.csv", pd.read_csv), ("o.parquet", pd.read_parquet)):
        run("metrics", "t.csv", *COLUMNS, *by, "--only", "accuracy", "-o", name)
        found = read(name)
        assert list(found.columns) == ["model", "site", "samples", "accuracy"]
        pd.testing.assert_frame_equal(found.drop(columns="samples"), wanted, check_dtype=False)
    lines = run("metrics", "t.csv", *COLUMNS, *by, "--only", "accuracy").splitlines()
    head = next(k for k, line in enumerate(lines) if line.split()[:2] == ["model", "site"])
    rows = [[model, str(site)] for model, site in wanted[["model", "site"]].to_numpy()]
    assert [line.split()[:2] for line in lines[head + 1 :]] == rows
    assert "model = net, site = 9: " in run("metrics", "t.csv", *COLUMNS, *by)
    assert "model = net, site = 9: " in run("confusion", "t.csv", *COLUMNS, *by)


def test_files_of_groups(run):
    by = ["--by", "model", "--by", "site"]
    wanted = cmfast.by(FRAME, ["model", "site"], y_true="label", y_pred="guess")
    run("confusion", "t.csv", *COLUMNS, *by, "-o", "o.npz")
    with np.load("o.npz") as found:
        np.testing.assert_array_equal(found["matrix"], wanted.matrix)
        groups = zip(found["groups_0"].tolist(), found["groups_1"].tolist(), strict=True)
        assert tuple(groups) == wanted.groups
    run("confusion", "t.csv", *COLUMNS, *by, "-o", "o.csv")
    lines = Path("o.csv").read_text().splitlines()
    assert lines[0] == "model,site,true \\ predicted,0,1,2"
    assert len(lines) == 1 + 3 * len(wanted.groups)
    for key in ("label", "guess", "model", "site"):
        np.save(f"{key}.npy", FRAME[key].to_numpy() if key != "model" else (FRAME[key] == "tree").to_numpy())
    found = json.loads(run("confusion", "--labels", "label.npy", "--pred", "guess.npy", "--by", "model.npy",
                           "--by", "site.npy", "--json"))  # fmt: skip
    assert [one["matrix"] for one in found["groups"]] == wanted.matrix.tolist()


@pytest.mark.parametrize(
    ("by", "text"),
    [
        (["site", "site"], "column 'site' is given to --by twice"),
        (["site", "3"], "column 'site' is given to --by twice"),
        (["site", "label"], "column 'label' cannot be --by and --true or --pred"),
        (["site", "none"], "has no column 'none'"),
        (["site", "model", "run", "0"], "needs a column for each: truth, prediction, group"),
    ],
)
def test_columns_that_cannot_be_groups(run, capsys, by, text):
    assert cli.main(["confusion", "t.csv", *COLUMNS, *(w for key in by for w in ("--by", key)), "--quiet"]) == 2
    assert text in capsys.readouterr().err


SMALL = 0.0005  # MiB of counts in memory, so that they go to disk many times


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    "groups",
    [
        ["10", "9", "-3", "123456789012345678901234567890"],
        ["01", "1", "2", "10"],
        ["007", "08", "9"],
        ["True", "FALSE", "true"],
        ["1.5", "1e3", "1000", "inf"],
        [str(2**63), "3", "2"],
        ["b", "\ud7ff", "\U0001f600", 'with "quotes", and commas', "None", "a\tb"],
    ],
    ids=repr,
)
def test_groups_on_disk_are_those_in_memory(tmp_path, monkeypatch, capsys, suffix, groups):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "TABLE_BLOCK_ROWS", 7)
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.choice(list("abc"), (80, 2)), columns=["label", "guess"])
    frame["g"], frame["h"] = rng.choice(groups, 80), rng.choice(["x", "y"], 80)
    name = f"t.{suffix}"
    frame.to_csv(name, index=False) if suffix == "csv" else frame.to_parquet(name)
    options = ["metrics", name, *COLUMNS, "--by", "g", "--by", "h", "--only", "recall", "mcc", "--quiet"]
    assert cli.main([*options, "--json"]) == 0
    wanted = json.loads(capsys.readouterr().out)
    texts = []
    for room in (SMALL, 256):
        assert cli.main([*options, "-o", "o.csv", "--force", "--group-mb", str(room)]) == 0
        texts.append(Path("o.csv").read_bytes())
        assert cli.main([*options, "-o", "o.parquet", "--force", "--group-mb", str(room)]) == 0
        found = pd.read_parquet("o.parquet")
        assert found[["g", "h"]].to_numpy().tolist() == [
            [float(one["group"][0]) if one["group"][0] == "Infinity" else one["group"][0], one["group"][1]]
            for one in wanted["groups"]
        ]
        assert found["samples"].tolist() == [one["samples"] for one in wanted["groups"]]
        mcc = [np.nan if (value := one["metrics"]["mcc"]) is None else value for one in wanted["groups"]]
        np.testing.assert_array_equal(found["mcc"], mcc)
    assert texts[0] == texts[1]


def test_groups_on_disk_keep_orders_and_warnings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "TABLE_BLOCK_ROWS", 7)
    sizes = pd.CategoricalDtype(["S", "M", "L"], ordered=True)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"y": pd.Categorical(rng.choice(["S", "M"], 50), dtype=sizes)})
    frame["p"], frame["g"] = frame["y"], pd.Categorical(rng.choice(["S", "M", "L"], 50), dtype=sizes)
    frame.to_parquet("t.parquet")
    options = ["metrics", "t.parquet", "--true", "y", "--pred", "p", "--by", "g", "--only", "recall", "-o", "o.csv"]
    assert cli.main([*options, "--group-mb", str(SMALL)]) == 0
    found = pd.read_csv("o.csv")
    assert found["g"].tolist() == ["S", "M", "L"]
    assert list(found.columns[2:]) == ["recall S", "recall M"]
    Path("t.csv").write_text("y,p,g\n" + "a,c,1\nb,d,2\n" * 9)
    options[1], options[-1] = "t.csv", "s.csv"
    assert cli.main([*options, "--group-mb", str(SMALL)]) == 0
    assert "no label in common" in capsys.readouterr().err
    Path("t.csv").write_text("y,p,g\n" + "a,a,1\n" * 9 + "a,a,nan\n")
    assert cli.main([*options, "--force", "--group-mb", str(SMALL)]) == 2
    assert "line 11 holds nan" in capsys.readouterr().err
