"""The benchmark of torchmetrics' classes runs, checks values, and reports what is slower."""

import json

import pytest

pytest.importorskip("torchmetrics")
from benchmarks import torchmetrics_classes


def test_smoke(tmp_path, capsys):
    out = tmp_path / "rows.json"
    torchmetrics_classes.main(["--smoke", "--json", str(out)])
    rows = json.loads(out.read_text(encoding="utf-8"))
    assert len(rows) == 3 * (4 * 11 + 10)
    assert {row["n"] for row in rows} == {20}
    assert "slower than torchmetrics: " in capsys.readouterr().out


def test_a_slower_metric_is_listed():
    row = torchmetrics_classes.Row("binary", "Recall", "compute", 32, 4e-6, 2e-6)
    assert row.ratio == 0.5
    assert list(torchmetrics_classes.summarize([row]))[-1] == (
        "  binary Recall compute 32 rows: 0.50 x, 4.0 us instead of 2.0"
    )


def test_check_compares_values():
    mine, other = torchmetrics_classes.make_metrics("multiclass 3", "collection")
    batch = torchmetrics_classes.draw_rows("multiclass 3", 20, "scores")
    mine.update(*batch)
    other.update(*batch)
    torchmetrics_classes.check(mine, other)
    mine.update(*torchmetrics_classes.draw_rows("multiclass 3", 21, "labels"))
    with pytest.raises(AssertionError):
        torchmetrics_classes.check(mine, other)
