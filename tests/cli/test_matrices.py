"""Matrices in files of every kind: ``cmfast normalize`` and ``cmfast metrics`` of each give what they give of npy."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import assert_exits_with_error
from pyarrow import feather, parquet

import cmfast
from cmfast import cli
from cmfast._files import matrices, points

RNG = np.random.default_rng(3)
COUNTS = RNG.integers(1, 50, (40, 3, 3))
FLOATS = COUNTS / 7


def columns(M):
    """Return a column for each cell."""
    return {f"c{k}": M.reshape(len(M), -1)[:, k] for k in range(M[0].size)}


def write_zarr(path, M, **options):
    import zarr

    zarr.create_array(path, data=M, chunks=(7, 2, 3))


def write_csv(path, M, *, header=True, index=False):
    pd.DataFrame(columns(M)).to_csv(path, index=False, header=header)


def tensors(M):
    """Return matrices as Arrow keeps tensors."""
    return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(M))


def tensors_turned(M):
    """Return tensors whose numbers stand column by column."""
    return pa.FixedShapeTensorArray.from_numpy_ndarray(M.transpose(0, 2, 1))


FORMS = {
    "zarr": write_zarr,
    "cells.csv": write_csv,
    "bare.csv": lambda path, M: write_csv(path, M, header=False),
    "cells.parquet": lambda path, M: pd.DataFrame(columns(M)).to_parquet(path),
    "lists.parquet": lambda path, M: parquet.write_table(pa.table({"M": M.reshape(len(M), -1).tolist()}), path),
    "nested.parquet": lambda path, M: parquet.write_table(pa.table({"M": M.tolist()}), path),
    "cells.arrow": lambda path, M: feather.write_feather(pa.table(columns(M)), path, "uncompressed"),
    "tensors.arrow": lambda path, M: feather.write_feather(pa.table({"M": tensors(M)}), path, "uncompressed"),
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in an empty folder, and in small blocks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(matrices, "MATRIX_BLOCK_ROWS", 9)
    monkeypatch.setattr(points, "ZARR_BLOCK_BYTES", 100)


def written(*argv):
    """Run a command that writes its last word; return the bytes."""
    assert cli.main([*argv, "--quiet", "--force"]) == 0
    return Path(argv[-1]).read_bytes()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("M", [COUNTS, FLOATS], ids=["counts", "floats"])
def test_matrices_of_every_form(form, M):
    np.save("M.npy", M)
    FORMS[form](f"M.{form}", M)
    cells = ["--cells", *([f"c{k}" for k in range(9)] if form.startswith("cells") else ["M"])]
    cells = [] if form in {"zarr", "bare.csv"} else cells
    for method in ("bi", "row"):
        wanted = written("normalize", "M.npy", "--method", method, "-o", "wanted.npy")
        assert written("normalize", f"M.{form}", "--method", method, "-o", "found.npy") == wanted
        assert written("normalize", f"M.{form}", *cells, "--method", method, "-o", "found.npy") == wanted
    if form == "bare.csv":  # metrics takes tables without --cells for labels
        return
    wanted = written("metrics", "M.npy", "--only", "mcc", "recall", "-o", "wanted.csv")
    assert written("metrics", f"M.{form}", *cells, "--only", "mcc", "recall", "-o", "found.csv") == wanted


def test_integers_that_turn_into_fractions():
    M = np.concatenate([COUNTS[:20], FLOATS[20:]])
    np.save("M.npy", M)
    write_csv("M.csv", M)
    text = Path("M.csv").read_text().replace(".0,", ",").replace(".0\n", "\n")
    Path("M.csv").write_text(text)
    wanted = written("normalize", "M.npy", "-o", "wanted.npy")
    assert written("normalize", "M.csv", "-o", "found.npy") == wanted


def test_matrices_of_few_rows_and_columns_that_are_not_square():
    M = RNG.integers(1, 9, (20, 2, 3))
    np.save("M.npy", M)
    parquet.write_table(pa.table({"M": M.tolist()}), "M.parquet")
    wanted = written("normalize", "M.npy", "--method", "row", "-o", "wanted.npy")
    assert written("normalize", "M.parquet", "--method", "row", "-o", "found.npy") == wanted


@pytest.mark.parametrize(
    ("name", "argv", "said"),
    [
        ("a.csv", [], "has 3 cells in a row, which is not a square number"),
        ("t.csv", [], "line 2 holds 'x', which is no number"),
        ("e.csv", [], "has no rows"),
        ("n.parquet", [], "row 1 of column 'b': a cell is missing (null)"),
        ("t.parquet", [], "column 'a' must hold numbers, but is string; name the cells with --cells"),
        ("r.parquet", [], "the lists of column 'M' are not all of one length"),
        ("l.parquet", [], "hold matrices of another shape"),
        ("e.parquet", [], "has no rows"),
        ("o.parquet", [], "whose axes are in another order"),
        ("a.csv", ["--cells", "d"], "has no column 'd'"),
        ("M.npy", ["--cells", "d"], "--cells belongs to a table"),
    ],
)
def test_what_holds_no_matrices_is_refused(capsys, name, argv, said):
    Path("a.csv").write_text("a,b,c\n1,2,3\n")
    Path("t.csv").write_text("a,b,c,d\n1,2,x,4\n")
    Path("e.csv").write_text("a,b,c,d\n")
    tables = {
        "n": {"a": [1, 2], "b": [1, None], "c": [1, 2], "d": [1, 2]},
        "t": {"a": ["x"]},
        "r": {"M": [[1, 2], [3]]},
        "l": {"M": [[1] * 4] * 9 + [[1] * 9] * 9},
        "o": {"M": tensors_turned(COUNTS)},
        "e": {"M": pa.array([], pa.list_(pa.int64()))},
    }
    for key, table in tables.items():
        parquet.write_table(pa.table(table), f"{key}.parquet")
    np.save("M.npy", COUNTS)
    status = cli.main(["normalize", name, *argv, "-o", "out.npy", "--quiet"])
    assert_exits_with_error((status, *capsys.readouterr()), said)
    assert not Path("out.npy").exists()


@pytest.mark.parametrize("method", ["bca", "wilson", "posterior"])
def test_intervals_block_by_block_are_those_of_the_whole(capsys, method):
    M = COUNTS.reshape(20, 2, 3, 3).astype(float)
    M[3, 1, 0, 0] = 0.5
    np.save("M.npy", M)
    names = ["accuracy", "recall"]
    argv = ["--only", *names, "--interval", "--method", method, "--confidence-level", "0.9", "--quiet"]
    status = cli.main(["metrics", "M.npy", *argv, "--block-mb", "0.001", "-o", "out.parquet"])
    said = capsys.readouterr().err.splitlines()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = cmfast.uncertainty.interval(M, names, method=method, confidence_level=0.9)
    table = pd.read_parquet("out.parquet")
    for k, end in enumerate(("low", "high"), 1):
        np.testing.assert_array_equal(table[f"accuracy {end}"], found["accuracy"][k].ravel())
        recall = table[[f"recall {c} {end}" for c in range(3)]].to_numpy()
        np.testing.assert_array_equal(recall, found["recall"][k].reshape(-1, 3))
    assert (status, len(table)) == (0, 40)
    doubts = [str(w.message) for w in warned if isinstance(w.message, cmfast.DiagnosticWarning)]
    assert bool(doubts) == (method == "bca")
    typed = [re.sub(r'method="(\w+)"', r"--method \1", text) for text in doubts]
    assert sorted(said[1:]) == sorted(f"cmfast: warning: {text}" for text in typed)
    assert "uncertainty.interval: 1 of 40 matrices without intervals (first: (3, 1)): 1 INVALID" in said[0]


def test_cells_are_no_labels(capsys):
    write_csv("M.csv", COUNTS)
    for argv, said in (
        (["M.csv", "--cells", "c0", "--true", "c1"], "--cells belongs to matrices"),
        (["--cells", "c0"], "give FILE"),
        (["M.csv", "--cells", "c0", "c1"], "not a square number"),
    ):
        status = cli.main(["metrics", *argv, "--quiet"])
        assert_exits_with_error((status, *capsys.readouterr()), said)
