"""The command ``cmfast metrics``."""

import json

import numpy as np
import pytest

from cmfast import cli, metrics

M = np.array([[420, 15, 15], [10, 280, 10], [30, 20, 200]])


@pytest.fixture
def csv(tmp_path):
    """Return a table of the labels of M."""
    i, j = np.nonzero(M)
    rows = [f"{a},{b}" for a, b, n in zip(i, j, M[i, j], strict=True) for _ in range(n)]
    path = tmp_path / "labels.csv"
    path.write_text("truth,guess\n" + "\n".join(rows) + "\n")
    return path


def test_labels_give_a_report(csv, capsys):
    assert cli.main(["metrics", str(csv), "--quiet", "--header"]) == 0
    assert capsys.readouterr().out.rstrip() == str(metrics.report(M))


def test_json_is_what_compute_gives(csv, capsys):
    assert cli.main(["metrics", str(csv), "--quiet", "--header", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labels"] == [0, 1, 2]
    assert found["metrics"] == {k: float(v) for k, v in metrics.compute(M, metrics.SCALARS, undefined="nan").items()}


def test_chosen_metrics_of_a_batch(tmp_path, capsys):
    np.save(tmp_path / "M.npy", np.stack([M, np.diag([1, 2, 3]), np.zeros((3, 3), int)]))
    assert cli.main(["metrics", str(tmp_path / "M.npy"), "--only", "mcc", "recall"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["mean", "least", "largest", "undefined"]
    assert lines[1] == ["mcc", f"{(metrics.mcc(M) + 1) / 2:.4f}", "0.8449", "1.0000", "1"]
    assert lines[4][:2] == ["recall", "2"]


def test_bad_matrices_give_status_one(tmp_path, capsys):
    np.save(tmp_path / "M.npy", np.stack([M, -M]))
    assert cli.main(["metrics", str(tmp_path / "M.npy"), "--only", "mcc"]) == 1
    assert "1 of 2 matrices not evaluated" in capsys.readouterr().err


def test_wrong_usage_is_one_line(csv, capsys):
    assert cli.main(["metrics", str(csv), "--quiet", "--header", "--only", "nonsense"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
