"""What the command proposes where something is missing: the columns that there are, and a command that succeeds."""

import shlex

import pytest
from commands import assert_exits_with_error

from cmfast import cli


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def command(*argv):
        status = cli.main(argv)
        return (status, *capsys.readouterr())

    return command


PROPOSALS = {
    "report": (["report", "t.csv"], ["--pred", "new"]),
    "report, numbered": (["report", "t.csv", "--true", "1"], ["--pred", "new"]),
    "metrics": (["metrics", "t.csv"], ["--pred", "new"]),
    "compare": (["compare", "t.csv"], ["--pred", "new", "--pred", "an old one"]),
    "compare, one": (["compare", "t.csv", "--pred", "an old one"], ["--pred", "new"]),
    "compare, names without a meaning": (["compare", "w.csv", "--header"], ["--true", "a", "--pred=-b", "--pred", "2"]),
}


@pytest.mark.parametrize(("words", "more"), PROPOSALS.values(), ids=PROPOSALS)
def test_without_columns_the_columns_are_listed_and_a_command_is_proposed(run, tmp_path, words, more):
    (tmp_path / "t.csv").write_text("new,label,an old one,site\na,a,b,x\nb,b,b,y\n")
    (tmp_path / "w.csv").write_text("a,-b,c,c\nx,x,x,y\ny,y,x,y\n")
    proposed = f"cmfast {shlex.join([*words, *more])}"
    assert_exits_with_error(run(*words), f"; for example: {proposed}")
    assert_exits_with_error(run(*words), "(has: ")
    status, _, err = run(*shlex.split(proposed)[1:])
    assert status == 0, err


def test_a_first_line_that_may_be_a_header_gets_a_proposal(run, tmp_path):
    (tmp_path / "w.csv").write_text("a,b,c\nx,x,y\ny,y,y\n")
    assert_exits_with_error(run("compare", "w.csv"), "(a,b,c) names the columns")
    assert_exits_with_error(run("compare", "w.csv"), "for example: cmfast compare w.csv --header")
    assert_exits_with_error(run("compare", "w.csv", "--pred", "b"), "give --true and --pred twice")


def test_compare_finds_the_truth_by_a_usual_name(run, tmp_path):
    (tmp_path / "t.csv").write_text("new,label,old\na,a,b\nb,b,b\n")
    assert run("compare", "t.csv", "--pred", "new", "--pred", "old") == run(
        "compare", "t.csv", "--true", "label", "--pred", "new", "--pred", "old"
    )


def test_a_report_finds_columns_as_metrics_does(run, tmp_path):
    (tmp_path / "t.csv").write_text("label,model\na,a\nb,b\nb,a\n")
    (tmp_path / "usual.csv").write_text("site,y_pred,y_true\nx,a,a\nx,b,b\ny,a,b\n")
    for name, model in (("t", "model"), ("usual", "y_pred")):
        status, out, err = run("report", f"{name}.csv", "-o", f"{name}.html", "--resamples", "20")
        assert (status, f"HtmlReport: {model}," in out) == (0, True), err
    assert_exits_with_error(run("report", "none.csv"), "none.csv: no such file")


def test_an_example_may_be_written_twice_and_an_output_names_the_command_that_replaces_it(run, tmp_path):
    for _ in range(2):
        assert run("example", "y.npy", "p.npy")[0] == 0
    (tmp_path / "p.npy").write_text("my own")
    assert_exits_with_error(run("example", "p.npy"), "for example: cmfast example p.npy --force")
    assert (tmp_path / "p.npy").read_text() == "my own"
    (tmp_path / "my t.csv").write_text("label,new\na,a\nb,b\n")
    words = ["confusion", "my t.csv", "-o", "c.csv"]
    assert run(*words)[0] == 0
    assert_exits_with_error(run(*words), f"give --force to replace it; for example: cmfast {shlex.join(words)} --force")
    assert run(*words, "--force")[0] == 0


@pytest.mark.parametrize(("word", "same"), [("true", "row"), ("pred", "col")])
def test_normalisations_have_the_names_of_the_functions(run, tmp_path, word, same):
    (tmp_path / "t.csv").write_text("label,new\na,a\na,b\nb,b\n")
    assert run("confusion", "t.csv", "--normalize", word) == run("confusion", "t.csv", "--normalize", same)
    assert run("example", "matrices.npy")[0] == 0
    for name in (word, same):
        assert run("normalize", "matrices.npy", "-o", f"{name}.npy", "--method", name)[0] == 0
    assert (tmp_path / f"{word}.npy").read_bytes() == (tmp_path / f"{same}.npy").read_bytes()
