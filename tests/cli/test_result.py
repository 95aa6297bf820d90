"""What a command hands back is written, printed and turned into an exit status; a command is a file and a line."""

import argparse
import json
import sys
import textwrap
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from cmfast import cli
from cmfast.cli import _main, commands
from cmfast.cli._result import Result, deliver
from cmfast.cli._writing import Content

ARRAYS = {"first": np.arange(6.0).reshape(2, 3), "second": np.array(["a", "é"])}
COLUMNS = [("name", ["a,b", "é"]), ("value", np.array([1.5, np.nan]))]
METADATA = {"total": np.int64(3), "worst": np.inf}


def give(tmp_path, name, content, *, as_json=False, failed=False):
    """Deliver a result; return the exit status."""
    target = None if name is None else tmp_path / name
    args = argparse.Namespace(target=target, force=False, json=as_json)
    lines = (f"line {k}" for k in range(2))
    return deliver(args, Result(METADATA, lines, content, failed))


def test_arrays_are_written_as_numpy_reads_them(tmp_path, capsys):
    content = Content(ARRAYS, metadata=METADATA)
    assert give(tmp_path, "out.npy", content) == give(tmp_path, "out.npz", content) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), ARRAYS["first"])
    with np.load(tmp_path / "out.npz") as archive:
        assert {name: archive[name].tolist() for name in archive} == {k: v.tolist() for k, v in ARRAYS.items()}
    give(tmp_path, "out.json", content)
    assert json.loads((tmp_path / "out.json").read_text()) == {"total": 3, "worst": "Infinity"}


def test_columns_are_written_as_their_readers_read_them(tmp_path):
    content = Content(columns=COLUMNS, metadata=METADATA)
    for name in ("out.csv", "out.parquet", "out.json"):
        assert give(tmp_path, name, content) == 0
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == 'name,value\n"a,b",1.5\né,\n'
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert frame["name"].tolist() == ["a,b", "é"]
    rows = [{"name": "a,b", "value": 1.5}, {"name": "é", "value": None}]
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"] == rows


@pytest.mark.parametrize("failed", [False, True])
def test_people_get_lines_and_programs_metadata(tmp_path, capsys, monkeypatch, failed):
    assert give(tmp_path, None, None, failed=failed) == failed
    assert capsys.readouterr() == ("line 0\nline 1\n", "")
    monkeypatch.setattr(sys.stdout, "takes", lambda text: True, raising=False)
    assert give(tmp_path, "out.html", Content(data=b"<html>"), as_json=True, failed=failed) == failed
    assert json.loads(capsys.readouterr().out) == {"total": 3, "worst": "Infinity"}
    assert (tmp_path / "out.html").read_bytes() == b"<html>"


HELLO = '''
"""``cmfast hello``: greet."""

from cmfast.cli._options import add_common, add_output, check_output
from cmfast.cli._result import Result
from cmfast.cli._writing import Content


def add_options(parser):
    """Add the options of the command."""
    parser.add_argument("name", metavar="NAME")
    add_common(parser, "--seed")
    add_output(parser, "csv, Parquet or JSON file")


def run(args):
    """Greet."""
    args.target = check_output(args, (".csv", ".json"))
    found = {"name": args.name, "seed": args.seed}
    return Result(found, [f"hello {args.name}"], Content(columns=[("name", [args.name])]))
'''


@pytest.fixture
def hello(monkeypatch, tmp_path):
    """Add a command: a module, and a line of the table."""
    module = ModuleType("cmfast.cli.commands._hello")
    exec(compile(textwrap.dedent(HELLO), "_hello.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(commands.COMMANDS, "hello", commands.Command("start", "greet somebody", "NAME"))
    monkeypatch.chdir(tmp_path)
    assert _main.COMMANDS is commands.COMMANDS


def test_a_new_command_is_a_module_and_a_line(hello, capsys, tmp_path):
    assert cli.main([]) == cli.main(["--help"]) == cli.main(["hello", "--help"]) == 0
    out = capsys.readouterr().out
    assert out.count("greet somebody") == 2
    assert "Greet somebody." in out
    assert cli.main(["hello", "you", "-o", "out.csv"]) == 0
    assert capsys.readouterr() == ("hello you\n", "")
    assert (tmp_path / "out.csv").read_text() == "name\nyou\n"
    assert cli.main(["hello", "you", "--json", "--seed", "3"]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "you", "seed": 3}
    for argv, said in (
        (["hello", "you", "-o", "out.csv"], "out.csv: exists already, give --force to replace it"),
        (["hello", "you", "-o", "out.txt"], "--output must end in .csv, .json, got out.txt"),
        (["hello", "you", "--seed", "x"], "argument --seed: must be an integer of at least 0, got 'x'"),
    ):
        assert cli.main(argv) == 2
        assert capsys.readouterr().err.startswith(f"cmfast: {said}")
