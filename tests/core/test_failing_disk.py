"""Every write of a state made to fail once: the error names the file, what was there stays, a second try succeeds."""

import pytest
from failing_disk import fail_each

import cmfast


@pytest.mark.parametrize("name", ["counts.npz", "counts.json"])
def test_a_state_is_saved_whole_or_not_at_all(tmp_path, monkeypatch, name):
    counts = cmfast.Grid([0.0, 1.0], [1.0, 0.1])
    target = tmp_path / name

    def save():
        try:
            counts.save(target)
        except OSError as error:
            return error.filename
        return None

    def check(name_of, at):
        assert name_of == str(target), at

    assert fail_each(monkeypatch, tmp_path, save, check) >= 4
    assert type(counts).load(target) == counts
    target.write_bytes(b"of an earlier run")
    assert fail_each(monkeypatch, tmp_path, save, check) >= 4
    assert type(counts).load(target) == counts
