"""The command ``cmfast compare``."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import assert_exits_with_error

from cmfast import cli, uncertainty

RNG = np.random.default_rng(0)
Y = RNG.choice(["cat", "dog", "eel"], 400)
FRAME = pd.DataFrame({
    "y": Y, "a": np.where(RNG.random(400) < 0.9, Y, "cat"), "b": np.where(RNG.random(400) < 0.75, Y, "dog"),
    "site": RNG.choice([9, 10], 400), "run": RNG.choice(["u", "v"], 400), "patient": RNG.integers(0, 60, 400),
})  # fmt: skip
COLUMNS = ["--true", "y", "--pred", "a", "--pred", "b"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(copy=FRAME.a).to_csv("t.csv", index=False)
    FRAME.to_parquet("t.parquet")
    FRAME.replace({"cat": "01", "dog": "2", "eel": "10"}).to_csv("n.csv", index=False)

    def command(*argv):
        status = cli.main(["compare", *argv, "--quiet"])
        return status, *capsys.readouterr()

    return command


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "n.csv"])
@pytest.mark.parametrize("clusters", [False, True])
def test_json_is_what_compare_gives(run, name, clusters):
    more = ["--cluster", "patient"] if clusters else []
    status, out, err = run(
        name, *COLUMNS, *more, "--only", "mcc", "recall", "--json", "--resamples", "500", "--seed", "3"
    )
    assert (status, err) == (0, "")
    facts = json.loads(out)
    assert facts["labels"] == ([1, 2, 10] if name == "n.csv" else ["cat", "dog", "eel"])
    T = uncertainty.paired_counts(FRAME.y, FRAME.a, FRAME.b, clusters=FRAME.patient if clusters else None)
    wanted = uncertainty.compare(T, ["mcc", "recall"], n_resamples=500, rng=3)
    for metric, one in wanted.items():
        for field in ("first", "difference", "low", "high", "p_value", "n_undefined"):
            np.testing.assert_array_equal(facts["metrics"][metric][field], getattr(one, field))
    assert facts["samples"] == 400
    assert facts["clusters"] == (60 if clusters else None)
    assert ("p_value" in facts["mcnemar"]) == (not clusters)
    assert facts["verdict"].startswith("a has a higher mcc than b (95 % between ")


def test_groups(run):
    by = ["--by", "site", "--by", "run"]
    status, out, _ = run("t.csv", *COLUMNS, *by, "--cluster", "patient", "--json", "--resamples", "100")
    facts = json.loads(out)
    assert status == 0
    assert facts["by"] == ["site", "run"]
    assert [one["group"] for one in facts["groups"]] == [[9, "u"], [9, "v"], [10, "u"], [10, "v"]]
    T = uncertainty.paired_counts(
        FRAME.y, FRAME.a, FRAME.b, groups={"site": FRAME.site, "run": FRAME.run}, clusters=FRAME.patient
    )
    wanted = uncertainty.compare(T, "f1_macro", n_resamples=100)
    assert [one["metrics"]["f1_macro"]["low"] for one in facts["groups"]] == wanted.low.tolist()
    status, out, _ = run("t.csv", *COLUMNS, "--by", "site", "--only", "recall", "--resamples", "100")
    assert "\nsite = 10\n" in out
    assert "recall eel" in out
    assert "Undefined or one per class: only a is correct in" in out


def test_a_table_and_a_sentence(run):
    status, out, err = run("t.csv", *COLUMNS)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["accuracy", "balanced_accuracy", "f1_macro", "mcc"]
    assert lines[5].startswith("a has a higher accuracy than b (95 % between +0.")
    swapped = run("t.csv", "--true", "y", "--pred", "b", "--pred", "a")[1].splitlines()[5]
    assert swapped.startswith("a has a higher accuracy than b (95 % between -0.")
    same = run("t.csv", "--true", "y", "--pred", "a", "--pred", "copy", "--confidence-level", "0.9")[1].splitlines()[5]
    said = "No difference in accuracy that could not be chance (90 % between +0.0000 and +0.0000, p 1): "
    assert same == said + "only a is correct in 0 samples, only copy in 0."


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--true", "y", "--pred", "a"], "give --pred twice, once for each model (has: "),
        (["--true", "y", "--pred", "a", "--pred", "b", "--pred", "c"], "--pred must be given twice"),
        (["--true", "y", "--pred", "a", "--pred", "a"], "--pred: both are a"),
        (["--pred", "a", "--pred", "y"], "give --true (has: "),
        ([*COLUMNS, "--only", "mmc"], "there is no metric 'mmc'; did you mean 'mcc'?"),
        ([*COLUMNS, "--confidence-level", "95"], "must be a number between 0 and 1"),
        ([*COLUMNS, "--confidence-level", "x"], "must be a number between 0 and 1"),
        ([*COLUMNS, "--resamples", "1"], "must be at least 2"),
        (["--true", "y", "--pred", "a", "--pred", "none"], "none"),
    ],
)
def test_what_is_refused(run, argv, text):
    assert_exits_with_error(run("t.csv", *argv), text)


def test_a_table_without_rows(run, tmp_path):
    FRAME[:0].to_csv(tmp_path / "e.csv", index=False)
    assert_exits_with_error(run("e.csv", *COLUMNS), "holds no samples")


def test_every_metric_whose_interval_contradicts_the_test_is_marked(run):
    """Five samples differ, all in favour of one: intervals leave out 0, and no p is below 0.0625."""
    y = np.repeat([0, 1], 100)
    pd.DataFrame({"y": y, "a": y, "b": np.where(np.arange(200) < 5, 1, y)}).to_csv("five.csv", index=False)
    said = "* the interval and the test contradict each other; the test decides"
    _, out, _ = run("five.csv", *COLUMNS, "--only", "accuracy", "mcc", "recall")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines if line.endswith(" *")] == ["accuracy", "mcc", "recall"]
    assert said in lines
    _, out, _ = run("five.csv", *COLUMNS, "--test", "interval")
    assert "*" not in out
