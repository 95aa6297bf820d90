"""What the texts of a csv file stand for: what pandas reads of it, or a refusal; never one class that became two."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import assert_exits_with_error

import cmfast
from cmfast import cli
from cmfast._files import tables


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def command(text, *argv):
        Path("t.csv").write_text(text)
        status = cli.main([argv[0] if argv else "confusion", "t.csv", *argv[1:], "--quiet"])
        return (status, *capsys.readouterr())

    return command


def table(truth, guess):
    return "y_true,y_pred\n" + "".join(f"{t},{p}\n" for t, p in zip(truth.split(), guess.split(), strict=True))


@pytest.mark.parametrize("rows", [2, 1 << 18])
@pytest.mark.parametrize(
    ("truth", "guess"),
    [
        ("0 1 2 1", "0.0 1.0 2.0 0.0"),
        ("0 1 0 1", "False True True true"),
        ("0.0 1.0 0 1", "FALSE TRUE TRUE TRUE"),
        ("True False TRUE", "true false False"),
        ("01 2 1 -0", "1 +2 1e0 0"),
        ("1 1 10 2", "10 1.00 1e1 .2e1"),
        ("a 1 01 1.0", "a 01 1 1"),
    ],
)
def test_equal_numbers_are_one_class_as_in_pandas(run, monkeypatch, truth, guess, rows):
    monkeypatch.setattr(tables, "TABLE_BLOCK_ROWS", rows)
    text = table(truth, guess)
    status, out, err = run(text, "confusion", "--json")
    assert (status, err) == (0, "")
    frame = pd.read_csv(io.StringIO(text))
    want = cmfast.ConfusionCounts.from_labels(*(_labels(frame[name]) for name in frame))
    found = json.loads(out)
    assert found["labels"] == list(want.labels)
    np.testing.assert_array_equal(found["matrix"], want.matrix)


def _labels(column):
    return column.astype(int) if column.dtype.kind == "f" else column


@pytest.mark.parametrize(
    ("truth", "guess", "words"),
    [
        ("a b a", "a NA nan", "line 3 holds NA, which stands for a missing label"),
        ("a nan", "a b", "line 3 holds nan"),
        ("0 1 None", "0 1 1", "line 4 holds None"),
        ("True False", "<NA> False", "line 2 holds <NA>"),
        ("0 1", "0 0.25", "line 3 holds 0.25, which is no class label"),
        ("0 1", "inf 1", "line 2 holds inf, which is no class label"),
        ("cat dog", "0 1", "the truth holds strings, but the prediction integers, and no label is in both"),
        ("0 1", "cat dog", "the truth holds integers, but the prediction strings"),
        ("x 1 1", "1 1.0 1", "and 1 and 1.0 would be two classes; write them alike"),
        ("x True 1", "1 1 1", "True and 1 would be two classes"),
    ],
)
def test_what_is_no_label_is_refused_by_its_line(run, truth, guess, words):
    assert_exits_with_error(run(table(truth, guess)), words)
    assert_exits_with_error(run(table(truth, guess), "metrics"), words)


def test_text_beside_numbers_that_are_written_alike_is_text(run):
    found = json.loads(run(table("1 2 other", "1 1 2"), "confusion", "--json")[1])
    assert found["labels"] == ["1", "2", "other"]
    assert json.loads(run(table("None some", "some None"), "confusion", "--json")[1])["labels"] == ["None", "some"]


def test_groups_of_numbers_are_numbers(run):
    rows = "y_true,y_pred,fold,site,flag\n1,1,1,NA,True\n2,2,1.0,b,true\n2,1,10.5,b,False\n1,2,2,NA,False\n"
    found = json.loads(run(rows, "confusion", "--by", "fold", "--json")[1])["groups"]
    assert [(one["group"], one["samples"]) for one in found] == [(1, 2), (2, 1), (10.5, 1)]
    found = json.loads(run(rows, "confusion", "--by", "flag", "--by", "site", "--json")[1])["groups"]
    assert [one["group"] for one in found] == [[False, "NA"], [False, "b"], [True, "NA"], [True, "b"]]
    assert_exits_with_error(run("y_true,y_pred,g\n1,1,2\n2,2,nan\n", "confusion", "--by", "g"), "line 3 holds nan")


@pytest.mark.parametrize("command", ["confusion", "metrics"])
def test_labels_that_have_nothing_in_common_warn(run, command):
    status, _, err = run(table("cat dog", "Cat Dog"), command)
    assert status == 0
    assert err.count("no label in common, of 2 and 2") == 1
    assert run(table("cat dog", "dog bird"), command)[2] == ""
    assert run(table("cat", "dog"), command)[2] == ""  # one that is wrong


def test_a_matrix_that_was_written_as_csv_is_read_back(run, tmp_path):
    """The file of ``confusion -o m.csv`` goes where its matrix does, with the labels."""
    written = tmp_path / "m.csv"
    rows = "y_true,y_pred\nb,b\nb,a\na,a\na,a\n"
    assert run(rows, "confusion", "-o", str(written))[0] == 0
    assert written.read_text().splitlines() == ["true \\ predicted,a,b", "a,2,0", "b,1,1"]
    found = json.loads(run(written.read_text(), "metrics", "--only", "recall", "--json")[1])
    assert found["labels"] == ["a", "b"]
    assert found["metrics"]["recall"] == [1.0, 0.5]
    out = tmp_path / "n.npy"
    assert run(written.read_text(), "normalize", "--method", "row", "-o", str(out))[0] == 0
    np.testing.assert_array_equal(np.load(out), [[1.0, 0.0], [0.5, 0.5]])
    shares = "true \\ predicted,0,1\n0,0.5,0.5\n1,0.0,1.0\n"
    assert_exits_with_error(run(shares, "metrics"), "holds a matrix that is normalised")
    for rows in ("0,1,1\n", "1,0,1\n0,1,1\n"):
        text = "has other classes in its rows than in its columns, or another order"
        assert_exits_with_error(run(f"true \\ predicted,0,1\n{rows}", "metrics"), text)
