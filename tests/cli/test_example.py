"""Files that ``cmfast example`` writes: the examples of all other commands run on them."""

import json
import re
import shlex

import numpy as np
import pytest
from commands import assert_exits_with_error

from cmfast import cli
from cmfast.cli.commands import COMMANDS, _example

LONG = {"demo", "reproduce", "warmup"}  # other tests run them


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def _run(*argv):
        status = cli.main(list(argv))
        return status, *capsys.readouterr()

    return _run


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in LONG])
def test_the_example_of_each_command_runs(run, name):
    words = shlex.split(COMMANDS[name].example)
    files = [file for file in _example.FILES if re.search(rf"(^|[\s:]){re.escape(file)}\b", COMMANDS[name].example)]
    if files and name != "example":
        assert run("example", *files)[0] == 0
    status, out, err = run(name, *words, *(["--resamples", "50"] if name in ("report", "compare") else []))
    assert (status, bool(out)) == (0, True), err


def test_a_file_is_the_same_each_time_and_is_not_replaced(run, tmp_path):
    assert run("example", *_example.FILES)[0] == 0
    before = {name: (tmp_path / name).read_bytes() for name in _example.FILES if not name.endswith(".npz")}
    assert run("example", "t.csv")[0] == 0
    (tmp_path / "t.csv").write_text("mine")
    assert_exits_with_error(run("example", "t.csv"), "t.csv: exists already, give --force")
    status, out, _ = run("example", "--force", "--json", *_example.FILES)
    assert (status, json.loads(out)) == (0, {"files": list(_example.FILES)})
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert np.load(tmp_path / "matrices.npy").shape == (5, 4, 4)


def test_an_unknown_example_is_refused(run, tmp_path):
    assert_exits_with_error(run("example", "t.tsv"), "there is no example t.tsv; did you mean 't.csv'")
    assert_exits_with_error(run("example", "t.csv", "other"), "there is no example other")
    assert not list(tmp_path.iterdir())
