"""The command ``cmfast ipf``."""

import json

import numpy as np
import pandas as pd
import pytest
from cases.margins import margins_of, table
from commands import assert_exits_with_error

import cmfast
from cmfast import cli

AXES = ((0, 1), (1, 2))
M = table((3, 4, 2), 1)
TARGETS = margins_of(M * table((3, 4, 2), 2, sd=0.5), AXES)
MARGINS = ("--margin", "0,1:rows.npy", "--margin", "1,2:rest.npy")
NAMES = ("region", "age", "sex")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", M)
    np.save("rows.npy", TARGETS[0])
    np.save("rest.npy", TARGETS[1])
    long = pd.DataFrame(np.argwhere(M > 0), columns=NAMES).astype(str).assign(cell=M.ravel())
    long.to_parquet("table.parquet")
    long.to_csv("table.csv", index=False)
    for of, target in zip(AXES, TARGETS, strict=True):
        names = [NAMES[axis] for axis in of]
        rows = pd.DataFrame(np.argwhere(target > 0), columns=names).assign(target=target.ravel())
        rows.to_csv(f"{'-'.join(names)}.csv", index=False)
    return tmp_path


def run(capsys, *options):
    """Return the exit status and what was printed."""
    status = cli.main(["ipf", *options, "--quiet"])
    out, err = capsys.readouterr()
    return status, out, err


def wanted(**options):
    return cmfast.ipf_nd(M, list(zip(AXES, TARGETS, strict=True)), **options)


def test_an_array_is_scaled_as_the_function_does(files, capsys):
    status, out, err = run(capsys, "table.npy", *MARGINS, "-o", "out.npy")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "3 x 4 x 2, 2 margins: CONVERGED"
    assert out.splitlines()[2].startswith("  0,1:rows.npy: 12 lines, off by ")
    np.testing.assert_array_equal(np.load("out.npy"), wanted().table)
    status, out, _ = run(capsys, "table.npy", *MARGINS, "-o", "smooth.npy", "--smoothing", "0.5", "--json")
    facts = json.loads(out)
    assert (status, facts["status"], facts["shape"]) == (0, "CONVERGED", [3, 4, 2])
    assert max(one["residual"] for one in facts["margins"]) <= facts["residual"] * (1 + 1e-9)
    np.testing.assert_array_equal(np.load("smooth.npy"), wanted(smoothing=0.5).table)


def test_axes_in_any_order_and_narrow_types(files, capsys):
    np.save("turned.npy", TARGETS[0].T.astype(np.float32))
    np.save("small.npy", M.astype(np.float32))
    status, _, _ = run(capsys, "small.npy", "--margin", "1,0:turned.npy", "-o", "out.npy")
    found = np.load("out.npy")
    assert (status, found.dtype) == (0, np.float32)
    np.testing.assert_allclose(found.sum(2), TARGETS[0], rtol=1e-5)


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_cells_that_are_rows(name, out, files, capsys):
    margins = ("--margin", "region-age.csv", "--margin", "age-sex.csv", "--value", "cell")
    status, said, err = run(capsys, name, *margins, "-o", out)
    assert (status, err) == (0, "")
    assert said.splitlines()[0] == "24 cells, 2 margins: CONVERGED"
    found = pd.read_csv(out) if out.endswith("csv") else pd.read_parquet(out)
    assert list(found) == ["region", "age", "sex", "cell"]
    np.testing.assert_allclose(found["cell"], wanted().table.ravel(), rtol=1e-6)


def test_margins_may_name_their_numbers_as_the_cells(files, capsys):
    for name in ("region-age", "age-sex"):
        pd.read_csv(f"{name}.csv").rename(columns={"target": "cell"}).to_csv(f"{name}-cell.csv", index=False)
    margins = ("--margin", "region-age-cell.csv", "--margin", "age-sex-cell.csv", "--value", "cell")
    status, _, err = run(capsys, "table.csv", *margins, "-o", "out.csv")
    assert (status, err) == (0, "")
    np.testing.assert_allclose(pd.read_csv("out.csv")["cell"], wanted().table.ravel(), rtol=1e-6)


def test_rows_that_contradict_each_other_are_named_by_their_columns(files, capsys):
    more = pd.read_csv("age-sex.csv")
    more.assign(target=2 * more["target"]).to_csv("more.csv", index=False)
    status, _, err = run(capsys, "table.csv", "--margin", "region-age.csv", "--margin", "more.csv", "--value", "cell")
    assert status == 1
    assert "targets of region, age and targets of age, sex disagree on " in err


def test_what_has_no_answer_names_the_margin_and_writes_nothing(files, capsys):
    np.save("more.npy", TARGETS[1] * 1.5)
    status, out, err = run(capsys, "table.npy", *MARGINS[:2], "--margin", "1,2:more.npy", "-o", "out.npy")
    assert (status, out) == (1, "3 x 4 x 2, 2 margins: TOTALS\n")
    assert "--margin 0,1:rows.npy and --margin 1,2:more.npy disagree on the axes (1,) that they share" in err
    assert "margins[" not in err
    assert not (files / "out.npy").exists()
    text = (files / "age-sex.csv").read_text().replace("0,0,", "0,0,1")
    (files / "wrong.csv").write_text(text)
    options = ("--margin", "region-age.csv", "--margin", "wrong.csv", "--value", "cell", "-o", "out.csv")
    status, out, err = run(capsys, "table.csv", *options)
    assert (status, out) == (1, "24 cells, 2 margins: TOTALS\n")
    assert not (files / "out.csv").exists()


def test_margins_that_contradict_each_other_are_missed_by_importance(files, capsys):
    np.save("more.npy", TARGETS[1] * 1.5)
    margins = (*MARGINS[:2], "--margin", "1,2:more.npy")
    _, _, err = run(capsys, "table.npy", *margins)
    assert "--importance allows margins to be missed" in err
    pairs = [(AXES[0], TARGETS[0]), (AXES[1], TARGETS[1] * 1.5)]
    for given, p in ((("inf,20",), [np.inf, 20.0]), (("inf", "20"), [np.inf, 20.0]), (("7",), [7.0, 7.0])):
        options = [word for one in given for word in ("--importance", one)]
        status, _, err = run(capsys, "table.npy", *margins, *options, "-o", "out.npy", "--force")
        assert (status, err) == (0, "")
        found = np.load("out.npy")
        np.testing.assert_array_equal(found, cmfast.ipf_nd(M, pairs, importance=p).table)


def test_rows_that_contradict_each_other_are_missed_by_importance(files, capsys):
    more = pd.read_csv("age-sex.csv", dtype={"age": str, "sex": str})
    regions = pd.DataFrame({"region": ["0", "1", "2"], "target": TARGETS[0].sum(1)})  # of one file, another target
    pd.concat([more.assign(target=1.5 * more["target"]), regions]).to_csv("more.csv", index=False)
    margins = ("--margin", "region-age.csv", "--margin", "more.csv", "--value", "cell")
    status, out, err = run(capsys, "table.csv", *margins, "--importance", "inf,20", "-o", "out.csv")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "24 cells, 3 margins: CONVERGED"
    pairs = [(AXES[0], TARGETS[0]), (AXES[1], TARGETS[1] * 1.5)]
    known = cmfast.ipf_nd(M, pairs, importance=[np.inf, 20.0]).table
    np.testing.assert_allclose(pd.read_csv("out.csv")["cell"], known.ravel(), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("table.npy", *MARGINS, "--importance", "1,2,3"), "one number for all, or one for each of 2 --margin, got 3"),
        (("table.npy", *MARGINS, "--importance", "1,0"), "must be a number above 0 or inf, or some between commas"),
        (("table.npy", "--margin", "rows.npy"), "must be axes and a file, as 0,1:rows.npy, got 'rows.npy'"),
        (("table.npy", "--margin", "0,1:gone.npy"), "gone.npy: no such file"),
        (("table.npy", "--margin", "0,2:rows.npy"), "rows.npy: must have shape (3, 2), as axes 0, 2 of table.npy have"),
        (("table.npy", "--margin", "3:rows.npy"), "--margin 3:rows.npy: table.npy has axes 0 to 2"),
        (("table.npy", "--margin", "1,1:rows.npy"), "each to be named once"),
        (("table.npy", *MARGINS, "--value", "cell"), "--value belongs to a table with a row per cell"),
        (("table.npy", *MARGINS, "-o", "out.csv"), "--output must end in .npy"),
        (("table.npy", *MARGINS, "-o", "rows.npy"), "is the input itself"),
        (("table.csv", "--margin", "region-age.csv"), "--value names the column of the cells"),
        (("table.csv", "--margin", "region-age.csv", "--value", "no"), "no"),
        (("table.csv", *["--margin", "age-sex.csv"] * 2, "--value", "cell"), "two files have the same columns"),
        (("table.csv", "--margin", "age-sex.csv", "--value", "cell", "--smoothing", "1"), "belongs to npy"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(options, said, files, capsys):
    assert_exits_with_error(run(capsys, *options), said)
