"""The command ``cmfast metrics``."""

import json
import sys
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from processes import python

import cmfast
from cmfast import cli, metrics
from cmfast._files.output import to_json

M = np.array([[420, 15, 15], [10, 280, 10], [30, 20, 200]])


@pytest.fixture
def csv(tmp_path):
    """Return a table of the labels of M."""
    i, j = np.nonzero(M)
    rows = [f"{a},{b}" for a, b, n in zip(i, j, M[i, j], strict=True) for _ in range(n)]
    path = tmp_path / "labels.csv"
    path.write_text("truth,guess\n" + "\n".join(rows) + "\n")
    return path


def test_labels_give_a_report(csv, capsys):
    assert cli.main(["metrics", str(csv), "--quiet", "--header"]) == 0
    assert capsys.readouterr().out.rstrip() == str(metrics.classification_report(M))


def test_json_is_what_compute_gives(csv, capsys):
    assert cli.main(["metrics", str(csv), "--quiet", "--header", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labels"] == [0, 1, 2]
    assert found["metrics"] == {k: float(v) for k, v in metrics.compute(M, metrics.SCALARS).items()}
    assert found["undefined"] == "present"


def test_json_has_numbers_without_an_end(tmp_path, capsys):
    batch = np.array([[[3, 0], [1, 2]], [[0, 2], [3, 0]], [[4, 0], [0, 0]]])
    np.save(tmp_path / "M.npy", batch)
    names = ["positive_likelihood_ratio", "negative_likelihood_ratio"]
    options = ["metrics", str(tmp_path / "M.npy"), "--undefined", "nan", "--only", *names, "--json"]
    assert cli.main([*options, "-o", str(tmp_path / "rows.json")]) == 0

    def refuse(text):
        raise AssertionError(text)  # NaN and Infinity are no JSON

    found = json.loads(capsys.readouterr().out, parse_constant=refuse)["metrics"]
    rows = json.loads((tmp_path / "rows.json").read_text(), parse_constant=refuse)["rows"]
    wanted = metrics.compute(batch, names, undefined="nan")
    assert "Infinity" in str(found)
    assert None in found[names[0]][2]
    for name, values in wanted.items():
        np.testing.assert_array_equal(np.array(found[name], float), values)  # float("Infinity") is infinity
        per_class = [[row[f"{name} {k}"] for k in range(2)] for row in rows]
        np.testing.assert_array_equal(np.array(per_class, float), values)


def test_json_reads_back_whatever_the_number():
    facts = {"a": [1.5, np.inf, -np.inf, np.nan], "b": np.array([[np.inf], [0.1]]), "c": np.float32(np.inf), "d": "x"}
    found = json.loads(to_json(facts))
    assert found == {"a": [1.5, "Infinity", "-Infinity", None], "b": [["Infinity"], [0.1]], "c": "Infinity", "d": "x"}
    np.testing.assert_array_equal(np.array(found["a"], float), facts["a"])


def test_chosen_metrics_of_a_batch(tmp_path, capsys):
    np.save(tmp_path / "M.npy", np.stack([M, np.diag([1, 2, 3]), np.zeros((3, 3), int)]))
    assert cli.main(["metrics", str(tmp_path / "M.npy"), "--only", "mcc", "recall"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["0/0:", "present", "mean", "least", "largest", "undefined"]
    assert lines[1] == ["mcc", f"{(metrics.mcc(M) + 1) / 3:.4f}", "0.0000", "1.0000", "0"]
    assert lines[4][:2] == ["recall", "2"]


@pytest.fixture(params=["csv", "parquet", "npy"])
def grouped(request, tmp_path):
    """Return a table of truth, prediction and group in one of the formats, how to ask for the group, the matrices."""
    rng = np.random.default_rng(2)
    rows = np.stack([rng.integers(0, 3, 500), rng.integers(0, 3, 500), rng.integers(7, 11, 500)], 1)
    rows[rows[:, 2] == 8, :2] %= 2  # class 2 is absent there
    path = tmp_path / f"labels.{request.param}"
    if request.param == "npy":
        np.save(path, rows)
    elif request.param == "csv":
        # The group may stand anywhere: the first two of the others are truth and prediction.
        lines = [f"{group},{truth},{guess}" for truth, guess, group in rows.tolist()]
        path.write_text("site,truth,guess\n" + "\n".join(lines) + "\n")
    else:
        pd.DataFrame(rows, columns=["truth", "guess", "site"]).to_parquet(path)
    matrices = cmfast.confusion_matrix(rows[:, 0], rows[:, 1], n_classes=3, groups=rows[:, 2] - 7, n_groups=4)
    return [str(path), "--quiet", "--by", "2" if request.param == "npy" else "site"], matrices


def test_groups_as_json(grouped, capsys):
    arguments, matrices = grouped
    assert cli.main(["metrics", *arguments, "--json", "--only", "mcc", "recall"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labels"] == [0, 1, 2]
    assert [(entry["group"], entry["samples"]) for entry in found["groups"]] == [
        (7 + g, matrix.sum()) for g, matrix in enumerate(matrices)
    ]
    for entry, matrix in zip(found["groups"], matrices, strict=True):
        want = metrics.compute(matrix, ["mcc", "recall"])
        assert entry["metrics"]["mcc"] == want["mcc"]
        assert entry["metrics"]["recall"] == want["recall"].tolist()


def test_groups_as_tables(grouped, capsys):
    arguments, matrices = grouped
    assert cli.main(["metrics", *arguments]) == 0
    parts = capsys.readouterr().out.split("\n\n" + arguments[-1])
    assert parts[1].split("\n", 1)[1].rstrip() == str(metrics.classification_report(matrices[1])).rstrip()
    assert cli.main(["metrics", *arguments, "--only", "accuracy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:]] == [
        [str(7 + g), f"{metrics.accuracy(matrix):.4f}"] for g, matrix in enumerate(matrices)
    ]


@pytest.mark.parametrize(
    ("by", "text"),
    [("truth", "cannot be --by and --true"), ("nothing", "has no column 'nothing'"), ("1", "a column for each")],
)
def test_groups_need_a_column_of_their_own(csv, capsys, by, text):
    if by == "truth":
        csv.write_text("truth,guess,site\n1,1,2\n")
    assert cli.main(["metrics", str(csv), "--quiet", "--header", "--true", "truth", "--pred", "guess", "--by", by]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_of_many_matrices_in_blocks(tmp_path, capsys, rng, suffix, order):
    many = rng.integers(0, 9, size=(7, 30, 3, 3))
    many[2, 4], many[5, 6, 1, 0] = 0, -1
    np.save(tmp_path / "M.npy", np.asarray(many, order=order))
    want = metrics.compute(many, ["mcc", "recall"], on_failure="ignore")
    mcc, texts = want["mcc"], []
    for k, mb in enumerate(("0.0005", "64")):
        table = tmp_path / f"{k}.{suffix}"
        arguments = ["metrics", str(tmp_path / "M.npy"), "--only", "mcc", "recall", "--block-mb", mb]
        assert cli.main([*arguments, "-o", str(table)]) == 1
        told = capsys.readouterr()
        assert "210 rows, 6 columns" in told.out
        assert "1 of 210 matrices not evaluated (first: (5, 6)): 1 INVALID" in told.err
        found = pd.read_csv(table) if suffix == "csv" else pd.read_parquet(table)
        assert list(found) == ["matrix", "samples", "mcc", "recall 0", "recall 1", "recall 2"]
        assert found["samples"].tolist() == many.sum((-2, -1)).ravel().tolist()
        np.testing.assert_array_equal(found["mcc"], mcc.ravel())
        np.testing.assert_array_equal(found[["recall 0", "recall 1", "recall 2"]], want["recall"].reshape(-1, 3))
        assert cli.main(arguments) == 1
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1], "what all come to does not depend on the blocks"
    row = next(line for line in texts[0].splitlines() if line.startswith("mcc"))
    assert row.split()[1:] == [f"{f(mcc):.4f}" for f in (np.nanmean, np.nanmin, np.nanmax)] + [str(np.isnan(mcc).sum())]


LIMITED = """
import resource, sys
from cmfast.cli import main
assert main(["metrics", "some.npy", "-o", "some.parquet", "--force", "--threads", "1"]) == 0
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 160 * 2**20, -1))
sys.exit(main(["metrics", "many.npy", "-o", "many.parquet", "--threads", "1", "--block-mb", sys.argv[1]]))
"""


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize(("mb", "said"), [("2", None), ("1024", "memory")])
def test_files_of_many_matrices_within_a_limit_of_memory(tmp_path, mb, said):
    matrix = np.array([[5, 1, 0], [2, 6, 1], [0, 0, 3]], np.uint8)
    for name, n in (("some", 4), ("many", 450_000)):  # answers of 400 bytes a matrix
        np.save(tmp_path / f"{name}.npy", np.full((n, 3, 3), matrix))
    with nullcontext() if said is None else pytest.raises(AssertionError, match=said):
        _ = python("-c", LIMITED, mb, cwd=tmp_path)
    assert (tmp_path / "many.parquet").exists() == (said is None), "whole or not at all"


def test_bad_matrices_give_status_one(tmp_path, capsys):
    np.save(tmp_path / "M.npy", np.stack([M, -M]))
    assert cli.main(["metrics", str(tmp_path / "M.npy"), "--only", "mcc"]) == 1
    assert "1 of 2 matrices not evaluated" in capsys.readouterr().err


def test_wrong_usage_is_one_line(csv, capsys):
    assert cli.main(["metrics", str(csv), "--quiet", "--header", "--only", "nonsense"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_intervals_of_labels(csv, capsys):
    options = ["metrics", str(csv), "--quiet", "--header", "--only", "mcc", "recall", "--interval"]
    assert cli.main(options) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = cmfast.uncertainty.interval(M, ["mcc", "recall"])
    assert lines[0] == ["95%", "intervals", "by", "bca,", "10,000", "resamples;", "0/0:", "present"]
    assert lines[1] == ["estimate", "low", "high"]
    assert lines[2] == ["mcc", *(f"{float(x):.4f}" for x in found["mcc"][:3])]
    assert lines[5] == ["recall", "2", *(f"{x[2]:.4f}" for x in found["recall"][:3])]
    assert cli.main([*options, "--json", "--method", "wilson"]) == 2
    assert "another method for mcc" in capsys.readouterr().err
    assert (
        cli.main([*options[:5], "recall", "--interval", "--json", "--method", "wilson", "--confidence-level", ".9"])
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    wanted = cmfast.uncertainty.interval(M, "recall", method="wilson", confidence_level=0.9)
    assert said["ends"]["recall"]["low"] == wanted.low.tolist()
    assert said["interval"] == {"method": "wilson", "confidence_level": 0.9, "resamples": 0}


@pytest.mark.parametrize("option", [("--method", "bca"), ("--confidence-level", ".9"), ("--cluster", "site")])
def test_options_of_intervals_need_intervals(csv, capsys, option):
    assert cli.main(["metrics", str(csv), "--quiet", "--header", "--only", "mcc", *option]) == 2
    assert capsys.readouterr().err == f"cmfast: {option[0]} belongs to --interval\n"


@pytest.mark.parametrize("between", [";", ",", "\t"])
@pytest.mark.parametrize("C", [2, 3, 5])
def test_a_square_table_of_numbers_is_a_matrix(tmp_path, capsys, between, C):
    counts = np.arange(1, C * C + 1).reshape(C, C)
    path = tmp_path / "m.csv"
    path.write_text("".join(between.join(map(str, row)) + "\n" for row in counts.tolist()))
    assert cli.main(["metrics", str(path), "--quiet", "--only", "accuracy", "recall", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labels"] == list(range(C))
    assert found["metrics"]["accuracy"] == np.trace(counts) / counts.sum()
    assert found["metrics"]["recall"] == (np.diag(counts) / counts.sum(1)).tolist()
    assert cli.main(["normalize", str(path), "--method", "row", "--quiet", "-o", str(tmp_path / "n.npy")]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "n.npy"), counts / counts.sum(1, keepdims=True), rtol=1e-15)


@pytest.mark.parametrize(
    ("text", "recall"),
    [
        ("0;1\n1;1\n0;0\n", [0.5, 1]),  # more samples than columns
        ("-1;1\n1;1\n", [0, 1]),  # no counts
        ("y_true;y_pred\n0;1\n1;1\n", [0, 1]),
        ("y_true;y_pred\na;b\nb;b\n", [0, 1]),
    ],
)
def test_other_tables_of_two_columns_hold_labels(tmp_path, capsys, text, recall):
    (tmp_path / "t.csv").write_text(text)
    assert cli.main(["metrics", str(tmp_path / "t.csv"), "--quiet", "--only", "recall", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["recall"] == recall


def test_a_square_table_holds_labels_if_an_option_says_so(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("3;1\n1;4\n")
    for options in (["--no-header"], ["--true", "0", "--pred", "1"]):
        assert cli.main(["metrics", str(tmp_path / "t.csv"), "--quiet", "--only", "recall", "--json", *options]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["labels"] == [1, 3, 4]
        assert found["metrics"]["recall"] == [0, 0, 0]
    (tmp_path / "rows.csv").write_text("3;1;2;4\n" * 4)  # each row may be a matrix
    assert cli.main(["metrics", str(tmp_path / "rows.csv"), "--quiet"]) == 2
    assert "has 4 columns; give --true and --pred" in capsys.readouterr().err


def test_intervals_of_clusters(tmp_path, capsys):
    rng = np.random.default_rng(8)
    y, p, patient, site = (rng.integers(0, k, 400) for k in (2, 2, 20, 2))
    rows = "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in zip(y, p, patient, site, strict=True))
    path = tmp_path / "patients.csv"
    path.write_text("y_true,y_pred,patient,site\n" + rows)
    options = ["metrics", str(path), "--quiet", "--only", "mcc", "recall", "--interval", "--cluster", "patient"]
    assert cli.main([*options, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["interval"]["clusters"] == 20
    M = cmfast.confusion_matrix(y, p, groups=patient)
    found = cmfast.uncertainty.interval(M, ["mcc", "recall"], clusters=True)
    assert said["metrics"]["mcc"] == cmfast.metrics.mcc(M.sum(0))
    assert said["ends"]["mcc"]["low"] == found["mcc"].low
    np.testing.assert_array_equal(said["ends"]["recall"]["high"], found["recall"].high)
    assert cli.main([*options, "--by", "site"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("95% intervals by bca, 10,000 resamples, of 40 clusters;")
    own = cmfast.confusion_matrix(y[site == 1], p[site == 1], groups=patient[site == 1])
    inside = cmfast.uncertainty.interval(own, "mcc", clusters=True)
    assert f"{inside.low:.4f}" in text.partition("site = 1")[2]
    assert cli.main([*options[:5], "mcc", "--cluster", "patient"]) == 2
    assert "--cluster belongs to --interval" in capsys.readouterr().err


def test_intervals_of_groups_and_in_files(tmp_path, capsys):
    stack = np.stack([M, M.T])
    np.save(tmp_path / "M.npy", stack)
    found = cmfast.uncertainty.interval(stack, "mcc", method="normal")
    options = ["metrics", str(tmp_path / "M.npy"), "--only", "mcc", "--interval", "--method", "normal"]
    assert cli.main(options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "matrix 0"
    assert lines[-1].split() == ["mcc", *(f"{x[1]:.4f}" for x in found[:3])]
    assert cli.main([*options, "--output", str(tmp_path / "out.csv")]) == 0
    frame = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(frame["mcc low"], found.low)
    assert cli.main(["metrics", str(tmp_path / "M.npy"), "--method", "normal"]) == 2


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), ("no", "yes")])
def test_binary_metrics_are_of_the_label_that_is_positive(labels, tmp_path, capsys):
    low, high = labels
    pairs = [(low, low), (high, high), (high, low), (low, high), (high, high)]
    path = tmp_path / "two.csv"
    path.write_text("y_true,y_pred\n" + "".join(f"{y},{p}\n" for y, p in pairs))
    assert cli.main(["metrics", str(path), "--quiet", "--json", "--only", "precision_binary"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["precision_binary"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("stored", [False, True])
def test_of_two_other_integers_none_is_known_to_be_positive(stored, tmp_path, capsys):
    y, p = [1, 2, 2, 1, 1], [1, 2, 1, 1, 2]
    path = tmp_path / ("two.json" if stored else "two.csv")
    if stored:
        cmfast.ConfusionCounts.from_labels(y, p).save(path)
    else:
        path.write_text("y_true,y_pred\n" + "".join(f"{a},{b}\n" for a, b in zip(y, p, strict=True)))
    assert cli.main(["metrics", str(path), "--only", "f1_binary"]) == 2
    said = capsys.readouterr().err
    assert "--only f1_binary: of the labels 1 and 2 none is known to be the positive one" in said
    assert cli.main(["metrics", str(path), "--quiet", "--json", "--only", "f1"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["f1"] == pytest.approx([2 / 3, 1 / 2])


@pytest.mark.parametrize("output", ["o.csv", "o.json"])
def test_no_matrices_are_a_table_without_rows(tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    np.save("none.npy", np.zeros((0, 3, 3), int))
    assert cli.main(["metrics", "none.npy", "--only", "accuracy,f1", "--json", "-o", output]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == {"accuracy": [], "f1": []}
    text = (tmp_path / output).read_text()
    assert text == "matrix,samples,accuracy,f1 0,f1 1,f1 2\n" if output == "o.csv" else json.loads(text)["rows"] == []
