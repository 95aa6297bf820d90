"""A topic has one name and one place in every layer, imports point down, and what prose names is there."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from house import files, imports, modules, names, texts, tree, words
from processes import ROOT

from cmfast.kernels.cuda._core.module import list_kernels
from cmfast.kernels.ops import OPS

pytestmark = pytest.mark.house

MODULES = modules()
TOPICS = sorted({op.topic for op in OPS.values()})
ANY = "|".join([*TOPICS, "confusion_counts", "contingency"])  # two that have no kernels

# From the roof to the ground: what stands in one line may import its neighbours and what is below.
FLOORS = [
    r"cmfast\.(cli|compat|nn|_reproduce|_warmup|_build_machine_code|__main__)\b",
    r"cmfast$",
    r"cmfast\._report\b",
    r"cmfast\.(display|results)\b",
    rf"cmfast\.({ANY})\b",
    r"cmfast\.(_core|_files|_pages)\b",
    rf"cmfast\.kernels\.(cpu|cuda)\.({ANY})\b",
    r"cmfast\.kernels\.cpu\.solver\b",
    r"cmfast\.kernels(\.(cpu|cuda)(\._core\b|$)|\.(shared|loading|ops|status)\b|$)|cmfast\._(version|kernels_folder)$",
]
UPWARDS = {"cmfast._core.caller": {"cmfast"}}  # asks by which names users know what was called, where something is said
FOR_TYPES_ALONE = {  # imports at run time when they are first asked for
    "cmfast": {
        "cmfast._report",
        "cmfast.agreement",
        "cmfast.conformal",
        "cmfast.contingency",
        "cmfast.detection",
        "cmfast.display",
        "cmfast.geometry",
        "cmfast.margins",
        "cmfast.results",
        "cmfast.uncertainty",
    },
    "cmfast.confusion_counts._counts": {
        "cmfast.display",
        "cmfast.display._class_order",
        "cmfast.results",
    },
    "cmfast.results": {"cmfast._report"},
}


@pytest.mark.parametrize("op", OPS)
def test_every_op_stands_in_its_topic_in_every_layer(op):
    topic, file = OPS[op].topic, OPS[op].module.replace(".", "/")
    assert f"cmfast.{topic}" in MODULES
    assert not {target for target in OPS[op].targets if not (ROOT / "kernels" / target / f"{file}.py").is_file()}
    wanted = [f"tests/oracle/{topic}.py", f"tests/cases/{topic}.py", f"tests/{topic}/test_api.py"]
    assert not [place for place in (*wanted, f"benchmarks/{topic}.py") if not (ROOT / place).is_file()]


def test_every_cuda_kernel_stands_in_the_topic_that_launches_it():
    launched = 0
    for name in MODULES:
        if re.match(rf"cmfast\.kernels\.cuda\.({ANY})\b", name):
            for kernel in getattr(import_module(name), "KERNELS", ()):
                assert kernel.topic.partition("/")[0] == name.split(".")[3], kernel
                launched += 1
    assert launched == len(list_kernels())


@cache
def imported():
    """Return what every module imports at run time, but for what may point upwards."""
    return {name: imports(name, MODULES) - UPWARDS.get(name, set()) for name in MODULES}


def floor(name):
    """Return on which floor a module stands."""
    return next(level for level, pattern in enumerate(FLOORS) if re.match(pattern, name))


def test_imports_point_down():
    assert not {(name, other) for name in MODULES for other in imported()[name] if floor(other) < floor(name)}


@pytest.mark.parametrize(("target", "other"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_no_target_imports_the_other(target, other):
    inside = rf"cmfast\.kernels\.{target}\b"
    found = {(name, each) for name in MODULES if re.match(inside, name) for each in imported()[name]}
    assert not {pair for pair in found if pair[1].startswith(f"cmfast.kernels.{other}")}


def circle(graph):
    """Return modules that import each other in a circle, in its order; none where there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_modules_import_each_other_in_a_circle():
    assert circle(imported()) == []
    assert circle({"a": {"b"}, "b": {"a"}, "c": {"a"}})


# Which topics of kernels stand on which others; all others can be read, moved and dropped alone.
STANDS_ON = {
    "scaling": {"zeros"},  # what zeros allow decides what is scaled
    "metrics": {"counting"},
    "geometry": {"counting"},
    "uncertainty": {"metrics"},
}


def test_topics_of_kernels_stand_on_few_others_and_in_no_circle():
    found = {}
    for name in MODULES:
        inside = re.match(rf"cmfast\.kernels\.(?:cpu|cuda)\.({ANY})\b", name)
        for other in imported()[name] if inside else ():
            below = re.match(rf"cmfast\.kernels\.(?:cpu|cuda)\.({ANY})\b", other)
            if below and below[1] != inside[1]:
                found.setdefault(inside[1], set()).add(below[1])
    assert found == STANDS_ON
    assert circle(found) == []


def test_imports_for_type_checkers_alone_are_listed():
    found = {name: imports(name, MODULES, types=True) for name in MODULES}
    assert {name: others for name, others in found.items() if others} == FOR_TYPES_ALONE


PEERS = {"sklearn", "torchmetrics"}  # modules in `cmfast/compat/` are named after them; dotted names are theirs
FOLDERS = {"cmfast", "kernels", "tests", "benchmarks", "docs", "examples"}
WRITTEN = (".json", ".npz", ".npy", ".html")  # what programs write


@cache
def places():
    """Return the files and folders of the repository."""
    return {str(place) for path in files() for place in (path, *path.parents)}


@cache
def names_by_module():
    """Return what is named in every module, by the last part of its name; in a folder also the modules below."""
    found = {folder: set() for folder in FOLDERS}
    for path in files(".py"):
        found.setdefault(path.parent.name if path.stem == "__init__" else path.stem, set()).update(names(path))
        if path.parts[0] in FOLDERS:
            found[path.parts[0]] |= {*path.parts, path.stem}
    found["cmfast"] |= {"kernels", *found["kernels"]}
    return found


@cache
def every_name():
    """Return all that has a name in Python or C++."""
    sources = [(ROOT / path).read_text(encoding="utf-8") for path in files(".cu", ".cuh", ".h", ".cpp")]
    of_cuda = {name for text in sources for name in re.findall(r"\w+", text)}
    return of_cuda.union(names_by_module(), *names_by_module().values())


@cache
def is_there(word):
    """Return whether a word is no path and no dotted or private name of this repository, or is there."""
    if "<" in word:  # stands for several
        return True
    place, *test = word.split("::")
    if place.split("/")[0] in FOLDERS and "/" in place:
        return place.rstrip("/") in places() and (not test or names(Path(place)).issuperset(test))
    if re.fullmatch(r"[\w./-]+\.(py|cuh?|h|cpp|md|cfg|toml|svg|png)", place):
        return any(f"/{file}".endswith(f"/{place}") for file in places())
    first, *others = word.split(".")
    if not re.fullmatch(r"\w+(\.\w+)*", word) or word.endswith(WRITTEN):
        return True
    if others and first in names_by_module() and first not in PEERS:
        return others[0] in names_by_module()[first] and every_name().issuperset(others)
    return not first.startswith(("_", "cmfast")) or every_name().issuperset([first, *others])


def test_what_prose_names_is_there():
    gone = {}
    for path in files(".py", ".md"):
        if path.parts[:2] == ("docs", "backends") and path.suffix == ".md":
            continue  # pages that speak of the names of other projects
        if found := [word for text in texts(path) for word in words(text) if not is_there(word)]:
            gone[str(path)] = found
    assert not gone


@pytest.mark.parametrize("word", ["kernels/gone.py", "gone.cu", "_gone", "_gone.run", "cmfast.gone", "ops.gone"])
def test_what_is_gone_is_found(word):
    assert not is_there(word)


def test_only_markup_escapes_html():
    """Of names that are escaped elsewhere nobody knows whether they are isolated."""
    escaping, found = {"html", "xml.sax.saxutils"}, set()
    for name, path in MODULES.items():
        for node in ast.walk(tree(path)):
            imported = [node.module] if isinstance(node, ast.ImportFrom) else []
            imported += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            found |= {name for module in imported if module in escaping}
    assert found == {"cmfast._core.markup"}
