"""The command ``cmfast resample``."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import assert_exits_with_error

from cmfast import cli
from cmfast.uncertainty import resample

M = np.random.default_rng(3).integers(1, 30, (7, 3, 3))


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", M)
    np.save("one.npy", M[0])
    np.save("nested.npy", M[:6].reshape(2, 3, 3, 3).astype(np.float32))
    pd.DataFrame({"cells": M.reshape(7, 9).tolist()}).to_parquet("table.parquet")
    labels = np.arange(3)
    table = pd.DataFrame({"y_true": np.repeat(labels, 3), "y_pred": np.tile(labels, 3)})
    table.loc[table.index.repeat(M[0].ravel())].to_csv("labels.csv", index=False)
    return tmp_path


def run(capsys, *options):
    """Return the exit status and what was printed."""
    status = cli.main(["resample", *options, "--quiet"])
    out, err = capsys.readouterr()
    return status, out, err


def drawn(capsys, name, *options):
    """Return what was drawn from a file."""
    status, _, err = run(capsys, name, "-o", "out.npy", "--force", *options)
    assert (status, err) == (0, "")
    return np.load("out.npy")


@pytest.mark.parametrize("block_mb", ["256", "0.001"])
def test_replicates_are_those_of_the_function_in_blocks_or_at_once(block_mb, files, capsys):
    small = ("--resamples", "20", "--block-mb", block_mb)
    for name, given in (("in.npy", M), ("one.npy", M[0]), ("nested.npy", np.load("nested.npy"))):
        found = drawn(capsys, name, *small)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, resample(given, n_resamples=20))
    np.testing.assert_array_equal(
        drawn(capsys, "in.npy", *small, "--scheme", "row_multinomial", "--seed", "5"),
        resample(M, n_resamples=20, scheme="row_multinomial", rng=5),
    )
    np.testing.assert_array_equal(drawn(capsys, "in.npy", *small, "--n", "50"), resample(M, n_resamples=20, n=50))


def test_tables_and_counts(files, capsys):
    wanted = resample(M, n_resamples=4)
    np.testing.assert_array_equal(
        drawn(capsys, "table.parquet", "--cells", "cells", "--resamples", "4"), wanted.reshape(7, 4, 3, 3)
    )
    assert cli.main(["confusion", "labels.csv", "--json"]) == 0
    (files / "counts.json").write_text(capsys.readouterr().out)
    np.testing.assert_array_equal(drawn(capsys, "counts.json", "--resamples", "4"), wanted[0])


def test_what_is_printed(files, capsys):
    status, out, _ = run(capsys, "in.npy", "-o", "out.npy", "--resamples", "20")
    assert (status, out) == (0, "out.npy: 20 resamples of 7 matrices 3 x 3, multinomial, seed 0\n")
    status, out, _ = run(capsys, "one.npy", "-o", "more.npy", "--json", "--n", "9")
    facts = {
        "output": "more.npy",
        "shape": [1000, 3, 3],
        "resamples": 1000,
        "scheme": "multinomial",
        "n": 9,
        "seed": 0,
    }
    assert (status, json.loads(out)) == (0, {**facts, "failed": 0})


@pytest.mark.parametrize("block_mb", ["256", "0.001"])
def test_a_matrix_that_cannot_be_drawn_from_is_told_and_spoils_no_other(block_mb, files, capsys):
    bad = M.astype(float)
    bad[2, 0, 0] = 0.5
    np.save("bad.npy", bad)
    options = ("-o", "out.npy", "--resamples", "20", "--block-mb", block_mb)
    status, _, err = run(capsys, "bad.npy", *options)
    assert status == 1
    assert len(err.splitlines()) == 1
    assert "uncertainty.resample: 1 of 7 matrices not resampled" in err
    assert "(first: 2)" in err
    assert "--n, the number of samples in a resample" in err
    found, fine = np.load("out.npy"), np.arange(7) != 2
    np.testing.assert_array_equal(found[fine], resample(M, n_resamples=20)[fine])
    assert not found[2].any()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("in.npy", "-o", "out.csv"), "--output is written as npy, so its name should not end in .csv"),
        (("in.npy", "-o", "in.npy", "--force"), "is the input itself"),
        (("in.npy", "-o", "one.npy"), "one.npy: exists already, give --force"),
        (("in.npy", "-o", "out.npy", "--n", "9", "--scheme", "row_multinomial"), "--n does not belong to --scheme"),
        (("in.npy", "-o", "out.npy", "--resamples", "0"), "must be an integer of at least 1"),
        (("gone.npy", "-o", "out.npy"), "gone.npy: no such file"),
        (("flat.npy", "-o", "out.npy"), "flat.npy: must hold square matrices (..., C, C), but its shape is (2, 3)"),
        (("counts.json", "-o", "out.npy", "--cells", "a"), "--cells belongs to a table"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(options, said, files, capsys):
    np.save("flat.npy", np.ones((2, 3)))
    assert_exits_with_error(run(capsys, *options), said)
    assert not (files / "out.npy").exists()
