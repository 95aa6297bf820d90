"""Problems, judges, the processes of peers and the report, with peers that need no environment of their own."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import _peers, apart

PROBLEMS = {problem.job.name: problem for problem in apart.problems(small=True)}
HOUSEHOLDS = apart.households(small=True)


def test_smoke_finds_peers_that_are_right_and_peers_that_are_not(tmp_path, capsys):
    assert apart.main(["--smoke", "--json", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert [row["job"] for row in found["jobs"]] == list(PROBLEMS)
    notes = {(row["job"], one["name"]): one["note"] for row in found["jobs"] for one in row["rivals"]}
    assert not found["missing"]
    assert len(notes) == 6
    for (job, name), note in notes.items():
        assert ("wrong: " in note or "not the least: " in note) == (name == "untouched"), (job, name, note)
    for row in found["jobs"]:
        assert not row["failed"]
        for one in row["rivals"]:
            assert one["ratio"] == pytest.approx(one["seconds_for_all_items"] / row["seconds"])
            assert one["facts"]["numpy"] == np.__version__
    out = capsys.readouterr().out
    assert out.count("  sweeps ") == 2
    assert "says converged; weights to " in out


def test_failures_are_printed(capsys, monkeypatch):
    monkeypatch.setattr(apart, "OWN", {"nobody": apart.Peer("", (), lambda problem: problem.kind == "map")})
    assert apart.main(["--smoke"]) == 1
    assert "nobody failed: KeyError: 'nobody'" in capsys.readouterr().out


def test_peers_are_known_to_the_program():
    assert all(callable(getattr(_peers, name)) for name in apart.PEERS | apart.OWN)
    taken = {name: [key for key, one in PROBLEMS.items() if peer.takes(one)] for name, peer in apart.PEERS.items()}
    alike, other, households, contacts = PROBLEMS
    assert taken == {
        "balance": [alike, other],
        "samplics": [alike, other],
        "weightipy": [alike],
        "populationsim": [households],
        "populationsim_numba": [households],
        "cooler": [contacts],
    }


def test_an_existing_environment_is_used(tmp_path):
    python = tmp_path / "balance" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    python.parent.mkdir(parents=True)
    python.touch()
    assert apart.environment(apart.PEERS["balance"], tmp_path) == python
    assert apart.environment(apart.OWN["sweeps"], tmp_path) == Path(sys.executable)


def test_weights_are_checked_here():
    records = PROBLEMS["rake 5x5 sd 0.5"]
    answer = records.arrays["answer"]
    assert records.judge(answer) == "weights to 0e+00"
    assert records.judge(answer * np.where(np.arange(len(answer)) == 3, 1.001, 1.0)).startswith("wrong: ")
    assert records.judge(np.where(np.arange(len(answer)) == 3, np.nan, answer)).startswith("wrong: ")


def test_optima_are_checked_here():
    problem = PROBLEMS["rake households"]
    best = np.concatenate([one.weights for one in problem.job.run(None)])
    assert problem.judge(best).startswith("objective ")
    low, high = (np.concatenate([region.options["bounds"][k] for region in HOUSEHOLDS]) for k in (0, 1))
    q = np.concatenate([region.options["weights"] for region in HOUSEHOLDS])
    within = np.clip(best * np.exp(np.random.default_rng(0).normal(0.0, 0.1, len(best))), q * low, q * high)
    assert problem.judge(within).startswith("not the least: ")
    assert problem.judge(np.where(np.arange(len(best)) == 3, q * high * 1.01, best)).startswith("wrong: 1e-02 outside")
    last = np.arange(len(best)) == len(best) - 1
    assert problem.judge(np.where(last, np.nan, best)).startswith("wrong: ")


def test_the_objective_is_the_distance_of_weights_and_of_totals():
    columns, q = np.array([[1.0, 2.0], [1.0, 0.0]]), np.array([3.0, 5.0])
    region = apart.Region(columns, np.array([10.0, 4.0]), {"weights": q, "importance": np.array([7.0, 2.0])})
    w = np.array([4.0, 5.0])
    missed = 9 * np.log(9 / 10) - 9 + 10, 8 * np.log(8 / 4) - 8 + 4
    assert apart.objective(region, w) == pytest.approx(4 * np.log(4 / 3) - 4 + 3 + 7 * missed[0] + 2 * missed[1])


def test_maps_are_checked_here():
    problem = PROBLEMS["balance"]
    weights = problem.job.run(None).weights
    assert problem.judge(weights).startswith("sums to ")
    assert problem.judge(weights * 1.1).startswith("wrong: ")
    assert problem.judge(np.full_like(weights, np.nan)).startswith("wrong: ")


def test_the_survey_of_a_checkout(tmp_path):
    here = tmp_path / "examples/example_survey_weighting"
    tables = {
        "data/seed_households.csv": """
            hhID,SUBREGCluster,HHweight,HHSize
            11,2,10,1
            12,1,0.5,2
            13,2,30,2
            14,2,0,1
            """,
        "data/seed_persons.csv": "hhID,PAge,PComm\n11,0,auto\n12,0,\n13,0,auto\n13,0,walk\n13,1,auto\n",
        "configs/controls.csv": """
            target,seed_table,importance,control_field,expression
            num_hh,households,1000000000,HH,households.HHweight > 0
            two,households,5000,TWO,households.HHSize == 2
            drives,persons,1000,DRIVES,(persons.PAge == 0) & (persons.PComm == 'auto')
            young,persons,1000,YOUNG,persons.PAge == 0
            """,
        "data/control_totals_subcluster.csv": "SUBREGCluster,DRIVES,HH,TWO,YOUNG\n2,35,80,55,90\n1,0,2,2,2\n",
    }
    for name, text in tables.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("\n".join(line.strip() for line in text.strip().splitlines()) + "\n")
    one, two = apart.survey(tmp_path)
    np.testing.assert_array_equal(one.columns, [[1, 1, 0, 1]])
    np.testing.assert_array_equal(two.columns, [[1, 0, 1, 1], [1, 1, 1, 2]])
    np.testing.assert_array_equal(two.totals, [80, 55, 35, 90])
    np.testing.assert_array_equal(two.options["importance"], [1e9, 5e3, 1e3, 1e3])
    np.testing.assert_array_equal(two.options["weights"], [10, 30])
    np.testing.assert_allclose(two.options["bounds"], [[1, 1], [8, 8]])  # half and four times twice the weights
    np.testing.assert_allclose(one.options["bounds"], [[2], [16]])  # at least a household, not half of a half times 4
