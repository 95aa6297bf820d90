"""Bits are compared with another tree on the same machine: what differs is named, with a reason or as a fault."""

import json
import os
import shutil
import subprocess
import sys

import bits
import pytest
from processes import ROOT

from cmfast.kernels.ops import OPS

BEFORE = {"cpu": {"overlap": {"one": ["in", "a"], "two": ["in", "b"]}, "ipf": {"one": ["in", "c"]}}}


def changed(op, case, value):
    """Return hashes like those of the base but for one case."""
    found = json.loads(json.dumps(BEFORE))
    found["cpu"][op][case] = value
    return found


def test_equal_hashes_are_no_difference():
    assert bits.compare(BEFORE, BEFORE, {}) == ([], [], 3)


def test_a_difference_names_op_case_and_both_hashes():
    found = bits.compare(changed("overlap", "two", ["in", "z"]), BEFORE, {}, "abc")
    assert found.wrong == ["overlap on cpu, case two: got z, abc gave b (1 of 2 cases differ)"]
    assert not found.notes


@pytest.mark.parametrize("key", ["overlap", "overlap on cpu"])
def test_a_difference_with_a_reason_is_a_note(key):
    found = bits.compare(changed("overlap", "two", ["in", "z"]), BEFORE, {key: "sums in pairs"})
    assert not found.wrong
    assert found.notes == ["overlap on cpu, case two: got z, base gave b (1 of 2 cases differ); meant: sums in pairs"]


def test_a_reason_for_another_target_or_op_excuses_nothing():
    found = bits.compare(changed("overlap", "two", ["in", "z"]), BEFORE, {"overlap on cuda": "other sums", "ipf": "x"})
    assert len(found.wrong) == 1
    assert found.notes == [
        "overlap on cuda has a reason to differ and does not, here: other sums",
        "ipf has a reason to differ and does not, here: x",
    ]


def test_a_case_with_other_inputs_is_not_compared():
    found = bits.compare(changed("ipf", "one", ["other", "z"]), BEFORE, {})
    assert found == ([], ["ipf on cpu: no case with the same inputs in base"], 2)


def test_a_missing_commit_is_said(tmp_path, monkeypatch, capsys):
    whole, shallow = tmp_path / "whole", tmp_path / "shallow"
    who = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "init", "--quiet", str(whole)], check=True)
    subprocess.run(["git", "-C", str(whole), *who, "commit", "--quiet", "--allow-empty", "-m", "Begin"], check=True)
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", whole.as_uri(), str(shallow)], check=True)
    monkeypatch.setenv("CMFAST_BASE", "0123456789")
    monkeypatch.delenv("CMFAST_REQUIRE_BASE", raising=False)
    assert bits.compare_with_base(None, shallow, []) == 0
    assert capsys.readouterr().out.startswith(f"bits: skipped: {shallow} has no commit 0123456789; a shallow clone")
    assert bits.compare_with_base(None, whole, []) == 1
    assert capsys.readouterr().out.startswith(f"bits: failed: {whole} has no commit 0123456789")
    monkeypatch.setenv("CMFAST_REQUIRE_BASE", "1")
    assert bits.compare_with_base(None, shallow, []) == 1


def test_reasons_are_of_ops():
    kept = json.loads(bits.BASE_FILE.read_text())
    assert set(kept) == {"base", "changed"}
    assert len(kept["base"]) == 40
    for key, reason in kept["changed"].items():
        op, _, target = key.partition(" on ")
        assert op in OPS
        assert target in ("", "cpu", "cuda")
        assert reason


@pytest.mark.slow
def test_one_ulp_since_the_base_is_found(tmp_path):
    """In a copy of the tree, committed and then changed."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("cmfast", "kernels", "tests"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-C", str(copy), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=base"]):
        subprocess.run([*git, *command], check=True)
    ask = ["tests/harness/bits.py", "--against", "HEAD", "--targets", "cpu", "--ops", "overlap", "l1_distance"]
    paths = {"PYTHONPATH": f"{copy}:{copy}/tests:{copy}/tests/harness"}
    same = subprocess_of(ask, copy, paths)
    assert same[0] == 0, same
    assert "cases have the bits of HEAD" in same[1]
    source = copy / "cmfast" / "comparison.py"
    text = source.read_text()
    source.write_text(
        f"{text}\n\n_exact = overlap\n\n\ndef overlap(*args, **options):\n"
        "    return _exact(*args, **options) * (1 + 2.0**-52)\n"
    )
    status, out = subprocess_of(ask, copy, paths)
    assert status == 1
    assert "overlap on cpu, case " in out
    assert "l1_distance on cpu" not in out


def subprocess_of(command, cwd, environment):
    """Return the exit status of a script and what it prints."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_part_that_was_added_is_no_difference():
    before = changed("ipf", "one", ["in", "aa+bb"])
    assert not bits.compare(changed("ipf", "one", ["in", "aa+bb+cc"]), before, {}).wrong
    assert bits.compare(changed("ipf", "one", ["in", "aa+bc+cc"]), before, {}).wrong
    assert bits.compare(changed("ipf", "one", ["in", "ValueError: aa"]), before, {}).wrong
