"""What several tests of the command share."""

import pytest

from cmfast import cli


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in an empty folder: its exit status, and what it prints on each stream."""
    monkeypatch.chdir(tmp_path)

    def command(*argv):
        status = cli.main([*argv, "--quiet"])
        return (status, *capsys.readouterr())

    return command
