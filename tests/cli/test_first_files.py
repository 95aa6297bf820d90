"""Files that people have at hand first: of a spreadsheet or of pandas. The right answer, or what to do instead."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import assert_exits_with_error

ROWS = "label,new\ncat,cat\ncat,dog\ndog,dog\ncat,cat\ndog,cat\nfox,fox\n"
COUNTS = [[2, 1, 0], [1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(("encoding", "name"), [("utf-16", "utf-16"), ("utf-16-be", "utf-16"), ("latin1", "latin1")])
def test_a_text_of_another_encoding_says_how_to_convert_it(run, encoding, name):
    text = ROWS.replace("dog", "hünd")
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    Path("t.csv").write_bytes((mark + text).encode(encoding))
    cure = f'is no UTF-8 text; save it in Excel as "CSV UTF-8", or convert it by iconv -f {name} -t utf-8'
    assert_exits_with_error(run("metrics", "t.csv"), cure)
    assert_exits_with_error(run("confusion", "t.csv", "--true", "label"), cure)
    Path("t.csv").write_bytes(Path("t.csv").read_bytes().decode(name).encode())  # as iconv does
    assert json.loads(run("confusion", "t.csv", "--json")[1])["labels"] == ["cat", "fox", "hünd"]


@pytest.mark.parametrize("suffix", ["xlsx", "xls", "ods"])
@pytest.mark.parametrize("command", ["metrics", "confusion", "compare", "report"])
def test_a_spreadsheet_is_to_be_saved_as_csv(run, command, suffix):
    Path(f"t.{suffix}").write_bytes(b"PK\x03\x04")
    assert_exits_with_error(
        run(command, f"t.{suffix}"), f"t.{suffix}: unknown kind of file '.{suffix}'; save the sheet"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y_true;y_pred\n1;0,93\n0;0,1\n", "line 2 holds 0,93, a number with a decimal comma, which is no class label"),
        ("y_true;y_pred\n1;1\n0;0,1\n", "line 3 holds 0,1, a number with a decimal comma"),
        ("y_true,y_pred\n1,0.93\n0,0.1\n", "line 2 holds 0.93, which is no class label; give a column of labels"),
    ],
)
def test_probabilities_are_no_labels(run, text, said):
    Path("t.csv").write_text(text)
    assert_exits_with_error(run("metrics", "t.csv"), said)
    assert_exits_with_error(run("metrics", "t.csv"), "(argmax makes labels of probabilities)")


def test_names_with_commas_are_labels(run):
    Path("t.csv").write_text("y_true;y_pred\n1,2;1,2\n3;1,2\n3;3\n")
    assert json.loads(run("confusion", "t.csv", "--json")[1])["labels"] == ["1,2", "3"]


def test_a_file_without_names_of_columns_says_so(run):
    Path("t.csv").write_text(ROWS.partition("\n")[2])
    said = "has no column 'label' (has: cat, cat); if its first line names no columns, give --no-header and numbers"
    assert_exits_with_error(run("metrics", "t.csv", "--true", "label", "--pred", "new"), said)
    argv = ("confusion", "t.csv", "--no-header", "--true", "0", "--pred", "1", "--json")
    assert json.loads(run(*argv)[1])["matrix"] == COUNTS


def test_a_mistyped_column_gets_a_proposal(run):
    Path("t.csv").write_text(ROWS.replace("\n", ",north\n").replace("new,north", "new,site"))
    said = "has no column {!r} (has: label, new, site); did you mean {!r}?"
    assert_exits_with_error(run("metrics", "t.csv", "--pred", "new", "--by", "sites"), said.format("sites", "site"))
    Path("report.html").write_text("mine")
    for option, wrong, right in (("--true", "labl", "label"), ("--pred", "news", "new"), ("--by", "sites", "site")):
        given = {"--true": "label", "--pred": "new"} | {option: wrong}
        words = [word for pair in given.items() for word in pair]
        assert_exits_with_error(run("report", "t.csv", *words), said.format(wrong, right))
    words = ("report", "t.csv", "--true", "label", "--pred", "new")
    assert_exits_with_error(run(*words), "report.html: exists already, give --force")
    assert Path("report.html").read_text() == "mine"


@pytest.mark.parametrize("corner", ["", "true", "label", "true \\ predicted"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_a_matrix_with_labels_is_read_under_any_name_of_its_index(run, corner, separator):
    names = ["cat", "dog", "fox"]
    rows = [[corner, *names], *([name, *row] for name, row in zip(names, COUNTS, strict=True))]
    Path("m.csv").write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))
    found = json.loads(run("metrics", "m.csv", "--only", "recall", "--json")[1])
    assert found["labels"] == names
    assert found["metrics"]["recall"] == [2 / 3, 1 / 2, 1.0]
    assert run("normalize", "m.csv", "--method", "row", "-o", "n.npy")[0] == 0
    np.testing.assert_allclose(np.load("n.npy"), np.array(COUNTS) / [[3], [2], [1]])
    assert (
        json.loads(run("merge", "m.csv", "m.csv", "--json")[1])["matrix"]["values"] == (2 * np.array(COUNTS)).tolist()
    )
    for command in ("confusion", "compare", "report"):
        assert_exits_with_error(run(command, "m.csv"), "is a matrix with labels, which cmfast metrics, normalize and")


def test_a_matrix_that_pandas_writes_is_read(run):
    pd = pytest.importorskip("pandas")
    truth, guess = (pd.Series(column) for column in zip(*(row.split(",") for row in ROWS.split()[1:]), strict=True))
    pd.crosstab(truth, guess).to_csv("m.csv")
    assert json.loads(run("merge", "m.csv", "--json")[1])["matrix"]["values"] == COUNTS
    pd.crosstab(truth, guess, margins=True).to_csv("m.csv")
    for words in (("metrics", "m.csv"), ("normalize", "m.csv", "-o", "n.npy"), ("merge", "m.csv")):
        assert_exits_with_error(run(*words), "has sums in its last row and column, 'All'; remove them")


@pytest.mark.parametrize(
    "text",
    [
        ",y_true,y_pred\n0,a,a\n1,b,a\n",  # a table with its index
        ",y_true,y_pred\ny_true,1,2\nx,2,2\n",
        ",y_true,y_pred\ny_true,1,2\n",
        ",y_true,y_pred\ny_true,1,2\ny_pred,1,2\nmore,1,1\n",
        ",y_true,y_pred\ny_true,1,2\ny_pred,-1,2\n",
    ],
)
def test_tables_that_resemble_a_matrix_hold_labels(run, text):
    Path("t.csv").write_text(text)
    n = len(text.splitlines()) - 1
    assert np.sum(json.loads(run("confusion", "t.csv", "--json")[1])["matrix"]) == n
    right = sum(row.split(",")[1] == row.split(",")[2] for row in text.splitlines()[1:])
    assert json.loads(run("metrics", "t.csv", "--only", "accuracy", "--json")[1])["metrics"]["accuracy"] == right / n


def test_a_metric_of_scores_is_none_of_the_command(run):
    Path("t.csv").write_text(ROWS)
    said = "--only: roc_auc is a metric of scores, and no command reads scores for it; in Python metrics.roc_auc("
    for words in (("metrics", "t.csv"), ("compare", "t.csv", "--true", "label", "--pred", "new", "--pred", "label")):
        assert_exits_with_error(run(*words, "--only", "roc_auc"), said)
