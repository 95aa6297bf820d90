"""The mistakes that judge the tests: each can still be made, and what it cannot affect alone is not compiled again."""

import ast
import hashlib
import json

import mutations
import pytest
from mutation_data import MUTATIONS, Mutation
from processes import ROOT

pytestmark = pytest.mark.house

NAMES = [one.name for one in MUTATIONS]


def test_there_are_forty_with_names_of_their_own():
    assert len(MUTATIONS) == len(set(NAMES)) == 40


def test_each_can_be_made():
    """Its text stands once in its file, something else takes its place, and Python can still read that."""
    for one in MUTATIONS:
        text = (ROOT / one.file).read_text(encoding="utf-8")
        assert text.count(one.old) == 1, f"{one.name}: {one.file} has {one.old!r} {text.count(one.old)} times, not once"
        changed = text.replace(one.old, one.new)
        assert changed.count("\n") == text.count("\n"), f"{one.name}: functions move, whose places name compiled files"
        if one.file.endswith(".py"):
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text)), f"{one.name} changes nothing"


def test_each_names_tests_that_there_are():
    for one in MUTATIONS:
        assert (ROOT / "tests" / one.topic).is_dir(), f"{one.name}: there is no tests/{one.topic}"
        assert one.stages, one.name
        for path, *_ in one.stages:
            assert (ROOT / path).exists(), f"{one.name}: there is no {path}"


def test_a_mistake_affects_what_imports_it_directly_or_not():
    found = mutations.affected_modules("kernels/cpu/zeros/_connected_components.py")
    assert found >= {f"cmfast.kernels.cpu.zeros.{name}" for name in ("_connected_components", "_classify", "support")}
    assert not any("geometry" in name or "counting" in name for name in found)
    assert "cmfast.kernels.cpu.scaling._tile_newton" in mutations.affected_modules("kernels/shared/scaling.py")
    assert "cmfast.kernels.cpu.counting" in mutations.affected_modules("kernels/cpu/_core/jit.py")
    assert mutations.affected_modules("cmfast/_core/failures.py") == set()


def index(folder, module, digest, n_data=1):
    """Write the files of a compiled function as the cache has them."""
    name = f"file.Class.f[x]-{module}-12.py311"
    payload = b"pickle " + digest.encode() + b" of signatures"
    (folder / f"{name}.nbi").write_bytes(hashlib.sha256(payload).digest() + payload)
    for k in range(n_data):
        (folder / f"{name}.{k + 1}.nbc").write_bytes(b"code of " + module.encode())
    return name


def test_compiled_files_of_other_modules_are_taken_over(tmp_path):
    source, target = tmp_path / "old", tmp_path / "new"
    source.mkdir()
    before, digest = "a" * 64, "b" * 64
    kept = index(source, "cmfast.kernels.cpu.counting", before, n_data=2)
    edited = index(source, "cmfast.kernels.cpu.comparison", before)
    of_a_test = index(source, "0123456789abcdef", before)
    damaged = index(source, "cmfast.kernels.cpu.normalizing", "c" * 64)
    assert mutations.link_compiled(source, target, {"cmfast.kernels.cpu.comparison"}, before, digest) == 1
    assert sorted(path.name for path in target.iterdir()) == [f"{kept}.1.nbc", f"{kept}.2.nbc", f"{kept}.nbi"]
    for name in (edited, of_a_test, damaged):
        assert not (target / f"{name}.nbi").exists()
    content = (target / f"{kept}.nbi").read_bytes()
    assert content[32:] == b"pickle " + digest.encode() + b" of signatures"
    assert content[:32] == hashlib.sha256(content[32:]).digest()
    assert (target / f"{kept}.1.nbc").read_bytes() == b"code of cmfast.kernels.cpu.counting"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "1 failed\nFAILED tests/x.py::test_f[a b-c] - AssertionError: f(x): got 1, expected 2\n",
            ("tests/x.py::test_f[a b-c]", "AssertionError: f(x): got 1, expected 2"),
        ),
        ("ERROR tests/x.py - ImportError: no\n", ("tests/x.py", "ImportError: no")),
        ("FAILED tests/x.py::test_f\n", ("tests/x.py::test_f", "")),
        ("nothing of the kind", ("pytest, exit status 2", "nothing of the kind")),
    ],
)
def test_the_first_failure_is_read(text, found):
    assert mutations.first_failure(2, text) == found


def test_of_a_topic_first():
    one = next(each for each in MUTATIONS if each.topic == "zeros")
    conformance = ("--short", "tests/contract/test_conformance.py")
    assert mutations.stages_of(one, "short") == (("--short", "tests/zeros"), conformance, mutations.SHORT)
    first, second, everything = mutations.stages_of(one, "whole")
    assert everything == mutations.WHOLE
    assert (first[-1], second[-1]) == ("tests/zeros", conformance[1])
    assert mutations.stages_of(one, "targeted") == one.stages


def test_a_name_that_there_is_not_is_refused():
    with pytest.raises(LookupError, match="there is no mutation nonsense; there are: balancing-"):
        mutations.select_mutations(["nonsense"])


@pytest.mark.slow
def test_a_handful_is_found(tmp_path):
    """One in a kernel that another module calls, one in the layer, and one in a source of CUDA."""
    names = ["zeros-first-block", "layer-warning-lost", "cuda-overflow-unchecked"]
    file = tmp_path / "outcomes.json"
    assert mutations.main(["--only", *names, "--work", str(tmp_path / "work"), "--json", str(file)]) == 0
    found = {one["name"]: one for one in json.loads(file.read_text())}
    assert set(found) == set(names)
    for one in found.values():
        assert one["found"]
        assert "AssertionError: " in one["line"]
    assert "support(float64 (" in found["zeros-first-block"]["line"]


@pytest.mark.slow
def test_a_mistake_that_changes_nothing_is_not_found(tmp_path, monkeypatch):
    old = "elif s == 0.0 or t == 0.0:"
    stages = (("tests/contract/test_conformance.py", "-k", "[overlap-numpy]"),)
    texts = ("harmless", "kernels/cpu/comparison.py", old, "elif 0.0 == s or t == 0.0:", "nothing", "nothing")
    harmless = Mutation(*texts, "comparison", stages)
    monkeypatch.setattr(mutations, "MUTATIONS", (harmless,))
    assert mutations.main(["--work", str(tmp_path)]) == 1
