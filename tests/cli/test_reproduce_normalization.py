"""The experiments of the normalisation paper: halves that share nothing, verdicts that follow planted numbers."""

import json

import numpy as np
import pytest

from cmfast._files.output import plain
from cmfast._reproduce import normalization
from cmfast._reproduce.normalization import claims, data, paired, recovery, training
from cmfast.cli import main

SMALL = training.Settings(repeats=2, levels=(10.0, 0.1), epochs=1, most_epochs=2, components=(3,))


def silent(label, unit):
    """Make a progress bar that shows nothing."""
    return lambda done, total: None


@pytest.fixture
def few(monkeypatch):
    """Return two small pools."""
    monkeypatch.setattr(data, "MOST", 40)
    letters = data.letters()
    digits = data.digits()
    some = np.flatnonzero(digits.block < 160)
    cut = data.Pool("digits", "few digits", digits.X[some], digits.y[some], digits.block[some], digits.classes)
    return [letters, cut]


def test_two_runs_are_identical(few):
    first, second = (normalization.of_pools(few, False, SMALL, silent) for _ in range(2))
    assert plain([first.numbers, [vars(c) for c in first.claims]]) == plain(
        [second.numbers, [vars(c) for c in second.claims]]
    )
    assert [p.image for p in first.pictures()] == [p.image for p in second.pictures()]
    assert set(first.numbers["experiment_1"]) == {"letters", "digits"}
    assert len(first.claims) >= 12


@pytest.mark.slow
def test_the_quick_one_takes_all_data(tmp_path):
    assert main(["reproduce", "normalization", "--quick", "-o", str(tmp_path / "out")]) == 0
    numbers = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(numbers["numbers"]["experiment_1"]) == set(data.SOURCES)
    assert numbers["settings"]["repeats"] == normalization.QUICK


@pytest.mark.parametrize("name", data.SOURCES)
def test_halves_share_no_block_and_are_balanced(name, rng):
    pool = data.SOURCES[name]()
    halves = data.halves(pool, rng)
    assert not set(pool.block[halves.train]) & set(pool.block[halves.test])
    for half in halves:
        assert len(set(np.bincount(pool.y[half], minlength=10))) == 1
        assert len(half) > 1500


def test_verdicts_follow_planted_numbers():
    up, down, none = (paired.interval(np.array(v), 0.95) for v in ([2, 2.1, 1.9], [-1, -1.1, -0.9], [-1, 0, 1.5]))
    assert [each["side"] for each in (up, down, none)] == ["higher", "lower", "open"]
    up = {**up, "side": "higher", "low": 0.1}
    assert claims.verdict({"a": up})[0] == "holds"
    assert claims.verdict({"a": up, "b": none})[0] == "holds where a"
    assert claims.verdict({"a": up, "b": down})[0] == "fails where b"
    assert claims.verdict({"a": down})[0] == "fails"
    assert claims.verdict({"a": none})[0].startswith("holds where it is decided, and that is nowhere")
    assert paired.interval(np.array([1.0]), 0.95)["side"] == "open"


def test_alike_weights_lose_no_sample():
    share, variance = recovery.weighed(np.array([[3, 1], [2, 2]]), np.full((2, 2), 0.5))
    assert (share, variance) == (1, 0)
    share, _ = recovery.weighed(np.array([[1, 0], [0, 1]]), np.array([[1.0, 1.0], [1.0, 0.0]]))
    assert share == 0.5
