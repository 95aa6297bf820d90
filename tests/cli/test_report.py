"""The command ``cmfast report``."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import assert_exits_with_error

import cmfast
from cmfast import cli

RNG = np.random.default_rng(0)
Y = RNG.choice(["cat", "dog", "eel"], 300)
FRAME = pd.DataFrame({
    "y": Y, "a": np.where(RNG.random(300) < 0.9, Y, "cat"), "b": np.where(RNG.random(300) < 0.75, Y, "dog"),
    "site": RNG.choice([9, 10], 300), "run": RNG.choice(["u", "v"], 300),
})  # fmt: skip
X, P = RNG.normal(size=(300, 2)), RNG.dirichlet(np.ones(3), 300)
FEW = ["--resamples", "50"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("t.csv", index=False)
    FRAME.to_parquet("t.parquet")
    np.save("X.npy", X)
    np.save("P.npy", P)

    def command(*argv):
        status = cli.main(["report", *argv, "--quiet"])
        return status, *capsys.readouterr()

    return command


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_the_page_is_that_of_the_function(run, tmp_path, name):
    more = ["--by", "site", "--by", "run", "--embeddings", "X.npy", "--scores", "P.npy", "--seed", "3", "--title", "T"]
    status, out, err = run(name, "--true", "y", "--pred", "a", "--pred", "b", *more, *FEW, "-o", "r.html", "--json")
    assert (status, err) == (0, "")
    wanted = cmfast.report(
        FRAME.y, {"a": FRAME.a, "b": FRAME.b}, groups={"site": FRAME.site, "run": FRAME.run}, embeddings=X, scores=P,
        title="T", rng=3, n_resamples=50,
    )  # fmt: skip
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == wanted.html
    assert json.loads(out) == json.loads(json.dumps(wanted.to_dict()))


def test_one_model(run, tmp_path):
    status, out, _ = run("t.csv", "--true", "y", "--pred", "a", *FEW, "-o", "r.html")
    assert status == 0
    assert out.startswith("r.html: HtmlReport: a, 3 classes, ")
    assert "<title>\u2068Confusion report: t.csv\u2069</title>" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_numbers_of_a_csv_are_integers(run, tmp_path):
    FRAME.replace({"cat": "01", "dog": "2", "eel": "10"}).to_csv("n.csv", index=False)
    status, out, _ = run("n.csv", "--true", "y", "--pred", "a", *FEW, "-o", "r.html", "--json")
    assert status == 0
    assert json.loads(out)["labels"] == ["1", "2", "10"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["t.csv", "--true", "y", "--pred", "a", "-o", "r.txt"], "--output must end in .html, .htm, got r.txt"),
        (["t.csv", "--true", "y", "--pred", "a", "-o", "t.csv"], "--output must end in .html"),
        (["t.csv", "--true", "y", "--pred", "a", "--pred", "a", "-o", "r.html"], "--pred must be given once, or twice"),
        (["t.csv", "--true", "y", "--pred", "c", "-o", "r.html"], "c"),
        (["t.csv", "--true", "y", "--pred", "a", "--embeddings", "y.npy", "-o", "r.html"], "y.npy: no such file"),
        (
            ["t.csv", "--true", "y", "--pred", "a", "--scores", "X.npy", "-o", "r.html"],
            "scores must be of shape (300",
        ),
    ],
)
def test_what_is_refused(run, argv, text):
    assert_exits_with_error(run(*argv), text)
