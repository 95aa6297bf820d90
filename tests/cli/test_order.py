"""The order of classes from the command line: metrics of ordered classes are those of the order that was given."""

import json

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as skm

import cmfast
from cmfast import cli

RNG = np.random.default_rng(3)
ORDER = ["low", "mid", "high", "very high"]
TRUTH = RNG.choice(ORDER, 200)
GUESS = np.where(RNG.random(200) < 0.7, TRUTH, RNG.choice(ORDER, 200))
OTHER = np.where(RNG.random(200) < 0.5, TRUTH, RNG.choice(ORDER, 200))
KAPPA = skm.cohen_kappa_score(TRUTH, GUESS, weights="linear", labels=ORDER)


@pytest.fixture
def csv(tmp_path):
    """Return a table of labels."""
    path = tmp_path / "labels.csv"
    frame = pd.DataFrame({"y": TRUTH, "a": GUESS, "b": OTHER, "site": np.arange(200) % 2})
    frame.to_csv(path, index=False)
    return path


def said(argv, capsys):
    assert cli.main([*map(str, argv), "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def test_metrics_and_matrices_are_in_the_order_that_is_given(csv, capsys, recwarn):
    columns = ["--true", "y", "--pred", "a", "--order", *ORDER]
    found = said(["metrics", csv, *columns, "--only", "kappa_linear"], capsys)
    assert found["labels"] == ORDER
    assert found["metrics"]["kappa_linear"] == pytest.approx(KAPPA, rel=1e-12)
    M = said(["confusion", csv, *columns], capsys)
    assert M["labels"] == ORDER
    assert M["matrix"] == skm.confusion_matrix(TRUTH, GUESS, labels=ORDER).tolist()
    compared = said(["compare", csv, "--true", "y", "--pred", "a", "--pred", "b", "--order", *ORDER, "--only",
                     "kappa_linear", "--resamples", "200"], capsys)  # fmt: skip
    assert KAPPA in [pytest.approx(x, rel=1e-9) for x in numbers(compared)]
    assert not [w for w in recwarn if "order of the classes" in str(w.message)]


def numbers(facts):
    """Yield all numbers in JSON."""
    if isinstance(facts, dict | list):
        for one in facts.values() if isinstance(facts, dict) else facts:
            yield from numbers(one)
    elif isinstance(facts, float):
        yield facts


def test_counts_that_were_saved_and_groups_are_put_in_order(csv, tmp_path, capsys):
    counts = cmfast.ConfusionCounts.from_labels(TRUTH, GUESS)
    counts.save(tmp_path / "counts.json")
    found = said(["metrics", tmp_path / "counts.json", "--only", "kappa_linear", "--order", *ORDER], capsys)
    assert found["metrics"]["kappa_linear"] == pytest.approx(KAPPA, rel=1e-12)
    out = tmp_path / "groups.csv"
    argv = [
        "metrics",
        csv,
        "--true",
        "y",
        "--pred",
        "a",
        "--by",
        "site",
        "--only",
        "kappa_linear",
        "-o",
        out,
        "--quiet",
    ]
    assert cli.main([*map(str, argv), "--order", *ORDER]) == 0
    frame = pd.read_csv(out)
    wanted = [skm.cohen_kappa_score(TRUTH[k::2], GUESS[k::2], weights="linear", labels=ORDER) for k in (0, 1)]
    assert frame["kappa_linear"].tolist() == pytest.approx(wanted)


def test_an_order_that_is_none_is_refused(csv, capsys):
    argv = ["metrics", str(csv), "--true", "y", "--pred", "a", "--quiet"]
    for order, wanted in ((["low", "mid", "high"], "lacks 'very high'"), (["low", "low"], "'low' is there twice")):
        assert cli.main([*argv, "--order", *order]) == 2
        assert wanted in capsys.readouterr().err


@pytest.mark.parametrize("command", ["metrics", "compare"])
def test_a_metric_that_was_named_warns_where_nobody_gave_the_order(csv, tmp_path, command, capsys):
    columns = ["--true", "y", "--pred", "a", *(["--pred", "b", "--resamples", "100"] if command == "compare" else [])]
    for path, only, warns in (
        (csv, "kappa_linear", True),
        (csv, "mcc", False),
        (tmp_path / "o.parquet", "kappa_linear", False),
    ):
        if path.suffix == ".parquet":
            kind = pd.CategoricalDtype(ORDER, ordered=True)
            pd.DataFrame({"y": TRUTH, "a": GUESS, "b": OTHER}).astype(kind).to_parquet(path)
        cli.main([command, str(path), *columns, "--only", only, "--json", "--quiet"])
        assert ("order of the classes" in capsys.readouterr().err) == warns
