"""What people type in their first hour: the right answer, or a line that says what to type instead."""

import json
import shlex
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from commands import assert_exits_with_error

import cmfast
from cmfast import cli
from cmfast._core.annotations import NORMALIZATIONS, Empty, Solver
from cmfast.cli import _labels, _main
from cmfast.geometry._prepare_points import RULES

ROWS = [("cat", "dog", "A"), ("cat", "cat", "B"), ("dog", "dog", "A"), ("dog", "cat", "A")]
MATRIX = [[1, 1], [1, 1]]
SKEWED = [[1, 1, 0], [0, 1, 0], [0, 0, 1]]


def write(name, head, rows):
    if name.endswith(".csv"):
        Path(name).write_text("\n".join(",".join(map(str, row)) for row in [head, *rows]) + "\n")
    else:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        arrays = [pa.array(column) for column in zip(*rows, strict=True)]
        parquet.write_table(pa.Table.from_arrays(arrays, names=head), name)


T, P = ["a", "a", "b", "c"], ["a", "b", "b", "c"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    "head",
    [
        ("y_true", "y_pred"),
        ("y_pred", "y_true"),
        ("id", "y_true", "y_pred"),
        ("id", "Prediction", "Label", "score"),
        ("", "truth", "predicted"),
    ],
)
def test_columns_with_usual_names_are_found_wherever_they_stand(run, suffix, head):
    known = {"y_true": T, "y_pred": P, "Label": T, "Prediction": P, "truth": T, "predicted": P}
    columns = [known.get(name, [1, 2, 3, 4]) for name in head]
    write(f"t.{suffix}", head, list(zip(*columns, strict=True)))
    status, out, err = run("confusion", f"t.{suffix}", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["matrix"] == SKEWED
    assert (
        json.loads(run("confusion", f"t.{suffix}", "--header", "--json")[1])["matrix"] == SKEWED
        if suffix == "csv"
        else True
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_are_never_guessed(run, suffix):
    name = f"t.{suffix}"
    write(name, ("when", "who", "what"), [(1, t, p) for t, p in zip(T, P, strict=True)])
    header = ("--header",) if suffix == "csv" else ()
    assert_exits_with_error(
        run("confusion", name, *header), "has 3 columns; give --true and --pred (has: when, who, what)"
    )
    assert_exits_with_error(
        run("confusion", name, "--true", "who"), "has 3 columns; give --pred (has: when, who, what)"
    )
    assert_exits_with_error(run("metrics", name, "--by", "when", "--true", "when"), "cannot be --by and --true")
    assert json.loads(run("confusion", name, "--true", "who", "--pred", "what", "--json")[1])["matrix"] == SKEWED
    # With the group taken away two are left.
    assert [g["samples"] for g in json.loads(run("metrics", name, "--by", "when", "--json")[1])["groups"]] == [4]
    write(name, ("id", "y_true", "y_pred", "site"), [(k, *row) for k, row in enumerate(ROWS)])
    found = json.loads(run("metrics", name, "--by", "site", "--json")[1])
    assert found["labels"] == ["cat", "dog"]
    assert [(g["group"], g["samples"]) for g in found["groups"]] == [("A", 3), ("B", 1)]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_that_may_be_the_truth_are_listed(run, suffix):
    name = f"t.{suffix}"
    write(
        name,
        ("id", "label", "truth", "pred", "site"),
        [(k, t, t, p, "a") for k, (t, p) in enumerate(zip(T, P, strict=True))],
    )
    columns = "(has: id, label, truth, pred, site)"
    said = f"has 5 columns, and label and truth may each be the truth; give --true {columns}"
    for command in ("confusion", "metrics"):
        assert_exits_with_error(run(command, name), said)
        assert_exits_with_error(run(command, name, "--pred", "site"), said)
        assert run(command, name, "--true", "label")[0] == 0


def test_options_that_are_nearly_known(run):
    said = "unrecognized arguments: --truth a; did you mean '--true'? (see cmfast confusion --help)"
    assert_exits_with_error(run("confusion", "t.csv", "--truth", "a"), said)
    assert_exits_with_error(
        run("merge", "t.npz", "--xyzzy"), "unrecognized arguments: --xyzzy (see cmfast merge --help)"
    )


@pytest.mark.parametrize("command", ["confusion", "metrics"])
def test_commands_of_one_model_refuse_two(run, command):
    said = "--pred is given twice; cmfast compare and cmfast report take several models"
    assert_exits_with_error(run(command, "t.csv", "--true", "a", "--pred", "b", "--pred", "c"), said)


def test_a_matrix_is_not_taken_for_labels(run):
    M = np.array([[5, 1, 0], [2, 7, 1], [0, 1, 9]])
    np.save("M.npy", M)
    np.savetxt("M.csv", M, "%d", delimiter=",")
    np.save("wide.npy", np.zeros((2, 50), int))
    for name in ("M.csv", "wide.npy"):
        assert_exits_with_error(run("confusion", name), "columns; give --true and --pred")
    assert_exits_with_error(run("confusion", "M.npy"), "is of shape (3, 3): a matrix")
    for name in ("M.csv", "M.npy"):
        assert json.loads(run("metrics", name, "--only", "accuracy", "--json")[1])["metrics"] == {"accuracy": 21 / 26}
    # Columns are only named of labels.
    assert json.loads(run("metrics", "M.npy", "--true", "0", "--pred", "2", "--json")[1])["labels"] == [0, 1, 2, 5, 9]
    assert_exits_with_error(run("metrics", "M.npy", "--header"), "--header and --no-header belong to csv")
    assert_exits_with_error(run("confusion", "wide.npy", "--no-header"), "--header and --no-header belong to csv")


def test_names_of_metrics(run):
    write("t.csv", ("y_true", "y_pred"), [row[:2] for row in ROWS])
    for given in (("accuracy,mcc",), ("accuracy", "mcc"), ("accuracy,", ",mcc")):
        status, out, _ = run("metrics", "t.csv", "--only", *given)
        assert status == 0
        assert [line.split()[0] for line in out.splitlines()] == ["0/0:", "accuracy", "mcc"]
    for name in ("acuracy", "Accuracy"):
        assert_exits_with_error(
            run("metrics", "t.csv", "--only", name), f"there is no metric {name!r}; did you mean 'accuracy'?"
        )
    assert_exits_with_error(run("metrics", "t.csv", "--only", "xyzzy"), "there is no metric 'xyzzy'")
    assert_exits_with_error(run("metrics", "t.csv", "--only", ","), "give the names of metrics")


def test_options_of_any_size_and_number(run, rng):
    np.save("M.npy", np.ones((3, 2, 2)))
    assert run("normalize", "M.npy", "-o", "out.npy", "--block-mb", "1e308")[0] == 0
    status, out, _ = run(
        "normalize", "M.npy", "-o", "out.npy", "--force", "--max-iter", "9" * 40, "--threads", "9" * 40
    )
    assert status == 0
    assert out.startswith("out.npy: 3 matrices 2 x 2, float64\n")
    assert_exits_with_error(
        run("normalize", "M.npy", "-o", "o.npy", "--max-iter", "9" * 5000), "--max-iter: must be an integer"
    )
    assert_exits_with_error(run("normalize", "M.npy", "-o", "o.npy", "--force", "--status", "./o.npy"), "the same file")


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_weights_that_are_named_twice(run, rng):
    np.save("X.npy", rng.normal(size=(50, 2)))
    np.save("y.npy", np.arange(50) % 3)
    argv = ("gcm", "X.npy", "--labels", "y.npy", "--pred", "y.npy", "--components", "none")
    status, out, _ = run(*argv, "--weights", "bi", "row", "bi")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["bi", "row"]
    assert "-0.000" not in out


def test_class_ids_that_are_none(run, monkeypatch):
    monkeypatch.setattr(_labels, "_memory", lambda: 1 << 20)
    np.save("X.npy", np.ones((3, 2)))
    np.save("y.npy", np.array([0, 1, 10**12]))
    assert_exits_with_error(
        run("gcm", "X.npy", "--labels", "y.npy", "--pred", "y.npy"), "y.npy: holds 1,000,000,000,001 classes"
    )


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [
        ("normalize", "--method", NORMALIZATIONS),
        ("normalize", "--solver", get_args(Solver)),
        ("normalize", "--empty", get_args(Empty)),
        ("confusion", "--normalize", NORMALIZATIONS),
        ("gcm", "--weights", NORMALIZATIONS),
        ("gcm", "--empty", get_args(Empty)),
        ("gcm", "--grid", [name.replace("_", "-") for name in RULES]),
    ],
)
def test_what_the_functions_take_the_command_takes(run, command, option, names):
    status, out, err = run(command, option, "nonsense")
    assert (status, out) == (2, "")
    told = err.partition("choose from ")[2].partition(")")[0]
    assert [name.strip(" '") for name in told.split(",")] == list(names)


@pytest.mark.parametrize(
    ("rows", "labels", "accuracy"),
    [
        ("gold,guess\ncat,cat\ndog,cat\n", ["cat", "dog"], 0.5),
        ("gold,guess\n3,3\n4,3\n", ["3", "4"], 0.5),
        ("cat,dog\ncat,cat\ndog,cat\n", ["cat", "dog"], 1 / 3),
        ("cat\tdog\ncat\tcat\ndog\tcat\n", ["cat", "dog"], 1 / 3),
    ],
)
def test_two_columns_of_text_are_taken(run, tmp_path, rows, labels, accuracy):
    name = "t.tsv" if "\t" in rows else "t.csv"
    (tmp_path / name).write_text(rows)
    found = json.loads(run("metrics", name, "--json")[1])
    assert list(map(str, found["labels"])) == labels
    assert found["metrics"]["accuracy"] == pytest.approx(accuracy)


@pytest.mark.parametrize(
    "rows", ["cat,dog\n", "cat,dog\ncat,cat\n", "cat,dog\nbird,fish\n", "a,b,c\ncat,cat,1\n", "model,site\nx,u\ny,v\n"]
)
def test_two_columns_that_say_nothing_of_their_names_are_refused(run, tmp_path, rows):
    (tmp_path / "t.csv").write_text(rows)
    assert_exits_with_error(run("metrics", "t.csv"), "cannot tell whether the first line")


def test_without_a_command_it_says_what_there_is_on_one_screen(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["cmfast"])
    assert cli.main([]) == cli.main(["--help"]) == cli.main() == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()[: len(out.splitlines()) // 3]
    assert ("\n".join(lines * 3), err) == (out.rstrip(), "")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 79
    listed = [
        line[10:].split()[0] for line in lines if line[10:11].strip() and line[9:10] == " " and line[20:21] == " "
    ]
    assert listed == list(_main.COMMANDS)


@pytest.mark.parametrize("name", _main.COMMANDS)
def test_a_help_begins_with_an_example(capsys, name):
    assert cli.main([name, "--help"]) == 0
    *files, example, empty, usage = capsys.readouterr().out.partition("[-h]")[0].splitlines()
    assert (example, empty) == (f"$ cmfast {name} {_main.COMMANDS[name].example}".rstrip(), "")
    assert usage.startswith(f"usage: cmfast {name} ")
    assert all(line.startswith("$ cmfast example ") for line in files)
    assert _main._parser().parse_args(shlex.split(example)[2:]).command == name


def test_an_unknown_command_and_a_file_get_a_proposal(run, tmp_path):
    (tmp_path / "t.csv").write_text("label,new\na,a\n")
    for words in (["t.csv"], ["t.csv", "--json"], [str(tmp_path / "t.csv")]):
        assert_exits_with_error(run(*words), f"is not a command; cmfast report {words[0]} writes a page")
    assert_exits_with_error(run("metric"), "'metric' is not a command; did you mean 'metrics'?")
    assert_exits_with_error(run("none.csv"), "'none.csv' is not a command, and there is no file of this name")


@pytest.fixture
def example(run, capsys):
    assert cli.main(["example", "t.csv"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("name", ["t.csv", "t.txt", "t.tsv"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_first_line_tells_the_delimiter(run, name, delimiter):
    delimiter = "\t" if name.endswith(".tsv") else delimiter
    rows = [("true", "pred"), *zip(T, P, strict=True)]
    Path(name).write_text("\n".join(map(delimiter.join, rows)))
    status, out, _ = run("metrics", name, "--only", "accuracy", "--json")
    assert status == 0
    assert "0.75" in out
    Path(name).write_text("\n".join(f'"{a};x"{delimiter}"{b};x"' for a, b in rows[1:]))
    assert run("confusion", name, "--no-header", "--json")[0] == 0


def test_help_is_a_command_too(run):
    assert run("help")[:2] == run("--help")[:2]
    status, out, _ = run("help", "report")
    assert status == 0
    assert "usage: cmfast report" in out
    assert_exits_with_error(run("help", "reportt"), "did you mean 'report'?")


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("metrics", "t.csv", "--metric", "mcc"), "--metric mcc; it is called --only"),
        (("metrics", "t.csv", "--metrics=mcc"), "it is called --only"),
        (("metrics", "t.csv", "--sep", ";"), "leave it out, as the first line tells commas, semicolons and tabs apart"),
        (("metrics", "t.csv", "--y-pred", "new"), "it is called --pred"),
        (("metrics", "t.csv", "--groups", "site"), "it is called --by"),
        (("confusion", "t.csv", "--method", "row"), "--method row; it is called --normalize"),
        (("normalize", "m.npy", "-o", "n.npy", "--normalize", "true"), "--normalize true; it is called --method"),
        (("gcm", "X.npy", "--labels", "y.npy", "--pred", "p.npy", "--normalize", "row"), "it is called --weights"),
        (
            ("gcm", "X.npy", "--labels", "y.npy", "--pred", "p.npy", "--weights", "true", "rows"),
            "invalid choice: 'rows'",
        ),
        (("metrics", "t.csv", "--pred", "new,old"), "has no column 'new,old'; give one of them (has: label, new, old"),
        (("metrics", "t.csv", "--pred", "new,odl"), "has no column 'new,odl' (has: label, new, old"),
        (("compare", "t.csv", "--pred", "new", "old"), "repeat --pred for each further column"),
    ],
)
def test_an_option_of_another_name_says_its_own(run, argv, message):
    assert_exits_with_error(run(*argv), message)


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("options", [(), ("--true", "label")])
def test_columns_may_be_named_in_one_text(run, options):
    wanted = run("compare", "t.csv", "--true", "label", "--pred", "new", "--pred", "old", "--json")
    assert run("compare", "t.csv", *options, "--pred", "new,old", "--json") == wanted
    assert run("compare", "t.csv", *options, "--pred", "new, old", "--json") == wanted
    assert wanted[0] == 0
    assert run("report", "t.csv", *options, "--pred", "new,old", "-o", "r.html")[0] == 0


@pytest.mark.usefixtures("example")
def test_arrays_of_counts_are_merged_and_read(run):
    for options in ((), ("--by", "site")):
        columns = ("t.csv", "--true", "label", "--pred", "new", *options)
        assert run("confusion", *columns, "-o", "m.npz", "--force")[0] == 0
        assert run("confusion", *columns, "-o", "m.json", "--force")[0] == 0
        assert run("merge", "m.npz", "m.npz", "-o", "sum.json", "--force")[0] == 0
        counts = cmfast.ConfusionCounts.load("sum.json")
        single = np.load("m.npz")
        assert list(counts.labels) == single["labels"].tolist()
        np.testing.assert_array_equal(counts.matrix, 2 * single["matrix"])
        assert list(counts.groups or ()) == (single["groups"].tolist() if options else [])
        found, wanted = (run("metrics", f"m.{suffix}", "--only", "accuracy", "f1_macro") for suffix in ("npz", "json"))
        assert found[0] == 0
        assert found[1].split()[-3:] == wanted[1].split()[-3:]
    np.savez("ids.npz", matrix=[[3, 1], [0, 2]], labels=[7, 9])
    assert "0.8333" in run("metrics", "ids.npz", "--only", "accuracy")[1]
    for arrays, text in (
        ({"matrix": [[0.5, 0.5], [0, 1]], "labels": [7, 9]}, "normalised, which does not add up"),
        ({"matrix": [[1, 2], [0, 1]], "labels": [7, 8, 9]}, "its matrix has another shape"),
        ({"matrix": [[1, 2], [0, 1]]}, "it has no class"),
        ({"matrix": [[1, 2], [0, 1]], "labels": np.array([0.5, 1])}, "its labels.npy has dtype '<f8'"),
    ):
        np.savez("wrong.npz", **arrays)
        assert_exits_with_error(run("metrics", "wrong.npz"), text)
    np.savez_compressed("wrong.npz", matrix=[[1]], labels=["a"])
    assert_exits_with_error(run("metrics", "wrong.npz"), "is compressed")
    np.savez("wrong.npz", matrix=[[1]], labels=np.array([0x110000], "<u4").view("<U1"))
    assert_exits_with_error(run("metrics", "wrong.npz"), "letters that Unicode does not have")


@pytest.mark.parametrize("suffix", [".npz", ".json", ".csv"])
def test_counts_in_an_order_of_your_own_are_read_again(run, suffix):
    Path("t.csv").write_text("label,new\nwolf,dog\ndog,dog\nfox,wolf\n")
    counts = f"own{suffix}"
    columns = ("--true", "label", "--pred", "new")
    assert run("confusion", "t.csv", *columns, "--order", "wolf", "fox", "dog", "-o", counts)[0] == 0
    status, out, _ = run("metrics", counts, "--only", "accuracy", "--json")
    assert (status, json.loads(out)["metrics"]["accuracy"]) == (0, 1 / 3)
    status, out, _ = run("merge", counts, counts)
    assert status == 0
    assert out.splitlines()[0].split()[-3:] == ["wolf", "fox", "dog"]


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("target", ["there.csv", "nowhere/x.csv"])
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("confusion", "t.csv", "--pred", "odl"), "t.csv: has no column 'odl' (has: label, new, old"),
        (("metrics", "t.csv", "--pred", "new", "--by", "stie"), "t.csv: has no column 'stie'"),
        (("metrics", "none.csv"), "none.csv: no such file"),
        (("rake", "none.csv", "--targets", "t.csv"), "none.csv: no such file"),
    ],
)
def test_a_mistake_in_the_input_comes_before_one_in_the_output(run, tmp_path, argv, message, target):
    (tmp_path / "there.csv").write_text("mine")
    assert_exits_with_error(run(*argv, "-o", target), message)
    assert (tmp_path / "there.csv").read_text() == "mine"


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("command", ["confusion", "metrics"])
def test_a_mistake_in_the_output_is_reported_before_rows_are_read(run, tmp_path, monkeypatch, command):
    from cmfast.cli import _counting

    monkeypatch.setattr(_counting, "count", lambda *_: pytest.fail("rows were read"))
    (tmp_path / "there.csv").write_text("mine")
    for target, message in (("there.csv", "exists already, give --force"), ("nowhere/x.csv", "there is no folder")):
        assert_exits_with_error(run(command, "t.csv", "--true", "label", "--pred", "new", "-o", target), message)
