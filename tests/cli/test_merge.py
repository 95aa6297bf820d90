"""``cmfast merge``: what parts have counted adds up to what one run over all of it counts."""

import json
from pathlib import Path

import numpy as np
import pytest

import cmfast
from cmfast import cli, conformal, uncertainty
from cmfast.cli.commands import _merge

PARTS = [([0, 1, 5], [1, 1, 5]), ([5, 7], [7, 7])]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def command(*argv):
        status = cli.main([*argv])
        out, err = capsys.readouterr()
        return status, out, err

    return command


def counts(k, **options):
    return cmfast.ConfusionCounts.from_labels(*PARTS[k], **options)


@pytest.mark.parametrize(("first", "second"), [("a.json", "b.json"), ("a.npz", "b.json"), ("a", "b")])
@pytest.mark.parametrize("out", ["all.json", "all.npz"])
def test_files_of_counts_add_up(run, first, second, out):
    counts(0).save(first)
    counts(1).save(second)
    status, text, err = run("merge", first, second, "-o", out)
    assert (status, err) == (0, "")
    assert cmfast.ConfusionCounts.load(out) == counts(0) + counts(1)
    assert text.splitlines()[0].split() == ["true", "\\", "pred", "0", "1", "5", "7"]


def test_sums_that_are_printed(run):
    counts(0, groups=["a", "b", "b"]).save("a.json")
    status, out, _ = run("merge", "a.json", "a.json", "--json")
    assert status == 0
    assert cmfast.ConfusionCounts.from_json(out) == sum([counts(0, groups=["a", "b", "b"])] * 2)
    assert run("merge", "a.json", "a.json")[1] == "ConfusionCounts: 6 samples, 3 classes, 2 groups of 2 files\n"


def test_what_the_command_counted_adds_up(run):
    rows = [f"{a},{b}" for y, p in PARTS for a, b in zip(y, p, strict=True)]
    for name, some in (("a", rows[:3]), ("b", rows[3:]), ("all", rows)):
        Path(f"{name}.csv").write_text("y_true,y_pred\n" + "\n".join(some) + "\n")
        assert run("confusion", f"{name}.csv", "-o", f"{name}.json", "--quiet")[0] == 0
    assert run("merge", "a.json", "b.json", "-o", "sum.json")[0] == 0
    whole, found = json.loads(Path("all.json").read_text()), cmfast.ConfusionCounts.load("sum.json")
    assert (list(found.labels), found.matrix.tolist()) == (whole["labels"], whole["matrix"])


@pytest.mark.parametrize("by", [("site",), ("site", "fold")])
def test_what_the_command_counted_of_groups_adds_up(run, by):
    rows = [f"{y},{p},{s},{f}" for y, p, s, f in zip("00110122", "01110120", "bbabbacc", "12121212", strict=True)]
    options = [part for name in by for part in ("--by", name)]
    for name, some in (("a", rows[:3]), ("b", rows[3:]), ("all", rows)):
        Path(f"{name}.csv").write_text("y_true,y_pred,site,fold\n" + "\n".join(some) + "\n")
        assert run("confusion", f"{name}.csv", *options, "-o", f"{name}.json", "--quiet")[0] == 0
    assert run("merge", "a.json", "b.json", "-o", "sum.json")[0] == 0
    found, whole = cmfast.ConfusionCounts.load("sum.json"), json.loads(Path("all.json").read_text())["groups"]
    groups = [one["group"] if len(by) == 1 else tuple(one["group"]) for one in whole]
    assert (found.group_names, list(found.groups)) == (by, groups)
    assert found.matrix.tolist() == [one["matrix"] for one in whole]
    for name in ("sum.json", "all.json"):  # as metrics says of the labels themselves
        for more in (("--json",), ("--only", "mcc", "f1"), ()):
            assert run("metrics", name, *more)[:2] == run("metrics", "all.csv", *options, "--quiet", *more)[:2]


def test_metrics_of_counts(run):
    whole = counts(0) + counts(1)
    for name in ("c.json", "c.npz"):
        whole.save(name)
        found = json.loads(run("metrics", name, "--json", "--only", "mcc", "f1")[1])
        assert (found["labels"], found["metrics"]["mcc"]) == ([0, 1, 5, 7], float(whole.compute("mcc")))
        assert run("metrics", name)[1].startswith("0/0: present")
    groups = counts(0, groups=["a", "b", "b"])
    groups.save("g.json")
    assert run("metrics", "g.json", "-o", "t.csv")[0] == 0
    rows = Path("t.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["groups", "a", "b"]


def test_what_has_no_metrics(run):
    counts(0).save("a.json")
    cmfast.cell_counts([[0.0]], [0], [0], grid=cmfast.Grid([0.0], [1.0])).save("c.npz")
    Path("g.json").write_text(json.dumps({"labels": [0], "normalize": None, "by": "g", "groups": [{"group": [1]}]}))
    Path("m.json").write_text(json.dumps({"labels": [0, 1], "normalize": None, "matrix": [[1]]}))
    refused = {
        ("c.npz",): "c.npz: holds no ConfusionCounts",
        ("g.json",): "g.json: holds no groups and counts of them",
        ("m.json",): "m.json: holds no ConfusionCounts, or is damaged: its matrix has another shape",
        ("none.json",): "none.json: no such file",
        ("a.json", "--by", "site"): "--by, --cluster and --header belong to labels, not to counts",
    }
    for arguments, words in refused.items():
        status, out, err = run("metrics", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert words in err, err


def test_a_square_of_numbers_is_a_matrix(run):
    np.save("two.npy", np.array([[3, 1], [2, 4]]))
    np.save("text.npy", np.array([["a", "b"], ["b", "b"]]))
    assert "mcc" in run("metrics", "two.npy")[1]
    status, out, err = run("confusion", "two.npy")
    assert (status, out) == (2, "")
    assert "two.npy: is of shape (2, 2): a matrix, which cmfast metrics and normalize read; to take its columns" in err
    columns = ("--true", "0", "--pred", "1", "--json", "--quiet")
    assert json.loads(run("confusion", "two.npy", *columns)[1])["labels"] == [1, 2, 3, 4]
    assert json.loads(run("metrics", "two.npy", *columns)[1])["labels"] == [1, 2, 3, 4]
    for command in ("confusion", "metrics"):
        assert json.loads(run(command, "text.npy", "--json", "--quiet")[1])["labels"] == ["a", "b"]


def test_counts_per_cell_add_up(run):
    grid = cmfast.Grid([0.0], [1.0])
    parts = [cmfast.cell_counts([[x]], [0], [1], grid=grid, n_classes=2) for x in (0.5, 7.5)]
    for part, name in zip(parts, ("a.npz", "b.npz"), strict=True):
        part.save(name)
    status, out, _ = run("merge", "a.npz", "b.npz", "-o", "all.npz")
    assert status == 0
    assert out.startswith("CellCounts: ")
    assert out.endswith("of 2 files\n")
    assert cmfast.CellCounts.load("all.npz") == parts[0] + parts[1]


def test_whatever_is_saved_and_adds_up(run):
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet(np.ones(3), 40), rng.integers(0, 3, 40)
    s = conformal.scores(P, y)
    sets = conformal.prediction_sets(P, conformal.threshold(s, 0.1))
    found = {
        "ccm": conformal.ccm(sets),
        "coverage": conformal.coverage_confusion(sets, y),
        "histogram": conformal.score_histogram(s),
        "paired": uncertainty.paired_counts(y, P.argmax(1), (P + 0.1).argmin(1), groups=y % 2),
    }
    for name, one in found.items():
        one.save(f"{name}.npz")
        one.save(f"{name}.json")
        status, out, err = run("merge", f"{name}.npz", f"{name}.json", "-o", f"{name}-all.npz")
        assert (status, err) == (0, "")
        assert out.startswith(type(one).__name__)
        assert type(one).load(f"{name}-all.npz") == one + one
        assert type(one).from_json(run("merge", f"{name}.npz", "--json")[1]) == one


def test_files_that_do_not_add_up(run):
    counts(0).save("a.json")
    counts(0, groups=["a", "b", "b"]).save("g.json")
    cmfast.cell_counts([[0.0]], [0], [0], grid=cmfast.Grid([0.0], [1.0])).save("c.npz")
    cmfast.Grid([0.0], [1.0]).save("grid.json")
    np.savez("other.npz", x=np.ones(3))
    Path("t.csv").write_text("y_true,y_pred\n0,1\n")
    Path("deep.json").write_text("[" * 100_000)
    Path("normal.json").write_text(json.dumps({"labels": [0], "matrix": [[1.0]], "normalize": "row"}))
    Path("odd.json").write_text(json.dumps({"labels": [0], "matrix": [[1.5]], "normalize": None}))
    known = f"holds no {' or '.join(kind.__name__ for kind in _merge.KINDS)}, or is damaged"
    refused = {
        "g.json": "groups must be given for all counts or for none",
        "c.npz": "c.npz: holds CellCounts, but a.json ConfusionCounts",
        "grid.json": f"grid.json: {known}: its class is 'Grid'",
        "other.npz": f"other.npz: {known}: it has no class",
        "deep.json": f"deep.json: {known}: it is neither a JSON object nor npz\n",
        "t.csv": f"t.csv: {known}: it is neither a JSON object nor npz; cmfast confusion --json counts a table",
        "normal.json": "normal.json: holds a matrix that is normalised",
        "odd.json": "odd.json: ",
        "none.json": "none.json: no such file",
    }
    for name, words in refused.items():
        status, out, err = run("merge", "a.json", name, "-o", "all.json")
        assert (status, out) == (2, ""), name
        assert err.count("\n") == 1
        assert words in err, err
        assert not Path("all.json").exists()
    for target in ("a.json", "all.csv"):
        assert run("merge", "a.json", "g.json", "-o", target)[0] == 2
    assert run("merge", "a.json", "a.json", "-o", "a.json", "--force")[0] == 2


@pytest.mark.parametrize("suffix", ["npz", "json"])
def test_merge_makes_counts_that_load_reads(run, suffix):
    Path("t.csv").write_text("y_true,y_pred\na,b\nb,b\n")
    name = f"m.{suffix}"
    _, out, _ = run("confusion", "t.csv", *(("-o", name) if suffix == "npz" else ("--json",)))
    if suffix == "json":
        Path(name).write_text(out)
    for kind in (cmfast.ConfusionCounts, cmfast.Grid):
        with pytest.raises(
            ValueError, match=r"no class, as cmfast confusion writes none: cmfast merge FILE -o counts.npz"
        ):
            kind.load(name)
    assert run("merge", name, "-o", "counts.npz")[0] == 0
    assert cmfast.ConfusionCounts.load("counts.npz") == cmfast.ConfusionCounts.from_labels(["a", "b"], ["b", "b"])


def test_arrays_of_ones_own_are_named(run):
    np.savez("own.npz", m=np.eye(2))
    said = r"it has no class, which save writes, but \['m'\]; numpy.load reads arrays, and functions take a matrix"
    with pytest.raises(ValueError, match=said):
        cmfast.ConfusionCounts.load("own.npz")
