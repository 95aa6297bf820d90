"""A name has one meaning in all sources: numeric constants and classes; and functions take few parameters."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from callables import public
from house import files, tree

import cmfast.compat.sklearn
from cmfast.kernels.ops import OPS

pytestmark = pytest.mark.house

MOST_PARAMETERS = 8
PATHS = [path for path in files(".py") if path.parts[0] in ("cmfast", "kernels")]
NUMERIC = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Attribute, ast.Load)


def is_number(value: ast.expr) -> bool:
    """Return whether an expression is made of numbers, and perhaps of names of some."""
    nodes = list(ast.walk(value))
    numbers = [type(node.value) in (int, float) for node in nodes if isinstance(node, ast.Constant)]
    return all(isinstance(node, NUMERIC) for node in nodes) and bool(numbers) and all(numbers)


def find_constants(path: Path) -> Iterator[str]:
    """Yield the names in capitals to which a module assigns numbers."""
    for node in tree(path).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name) and name.id.isupper() and is_number(value):
                    yield name.id


def find_classes(path: Path) -> Iterator[str]:
    """Yield the names of the classes of a module."""
    yield from (node.name for node in tree(path).body if isinstance(node, ast.ClassDef))


def find_long_functions(path: Path) -> Iterator[str]:
    """Yield the functions and methods that take more than eight parameters, but for `self`."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef):
            names = [p.arg for p in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if len(names) - (names[:1] in (["self"], ["cls"])) > MOST_PARAMETERS:
                yield node.name


def homes(find) -> dict[str, set[str]]:
    """Return the folders or files that have what `find` yields, by name."""
    found = defaultdict(set)
    for path in PATHS:
        for name in find(path):
            found[name].add(path.as_posix())
    return found


def are_twins(places: set[str]) -> bool:
    """Return whether a class is one of the CPU's and one of CUDA's."""
    return len(places) == 2 and {place.split("/")[1] for place in places} == {"cpu", "cuda"}


def test_a_numeric_constant_has_one_meaning():
    """Give another constant its noun and inequality, or import the one that exists."""
    several = {name: sorted(places) for name, places in homes(find_constants).items() if len(places) > 1}
    assert several == {}


def test_a_class_has_one_meaning():
    found = homes(find_classes).items()
    several = {name: sorted(places) for name, places in found if len(places) > 1 and not are_twins(places)}
    assert several == {}


def find_private_long_functions() -> set[str]:
    """Return the functions above eight parameters that users do not call, among them those that launch kernels."""
    compat = [getattr(cmfast.compat.sklearn, name) for name in cmfast.compat.sklearn.__all__]
    known = [thing for _, thing in public()] + compat
    promised = {(thing.__module__, thing.__name__) for thing in known}
    found = set()
    for path in PATHS:
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        found |= {f"{module}.{name}" for name in find_long_functions(path) if (module, name) not in promised}
    return found


def test_functions_that_users_do_not_call_take_few_parameters():
    """Records that mean something take the place of long lists; take off the list what is short by now."""
    found = find_private_long_functions()
    # Launchers have the arguments of their op.
    assert {name for name in found if not (name.startswith("kernels.") and name.rpartition(".")[2] in OPS)} == set()


@pytest.mark.parametrize(
    ("source", "constants"),
    [
        ("A = 1", ["A"]),
        ("A, B = 1 << 3, 2.0", ["A", "B"]),
        ("A: int = 2**53 - 1", ["A"]),
        ("A = 2 * B", ["A"]),
        ("A = True", []),
        ("A = 'x'", []),
        ("A = B", []),
        ("a = 1", []),
        ("A = (1, 2)", []),
        ("_A = -1.5", ["_A"]),
    ],
)
def test_constants_are_seen(source, constants, monkeypatch):
    monkeypatch.setitem(globals(), "tree", lambda path: ast.parse(source))
    assert list(find_constants(Path("a.py"))) == constants


def test_long_functions_are_seen(monkeypatch):
    body = "class A:\n    def f(self, {0}): ...\n    def g(self, {0}, *, i): ...\ndef h({0}, **kw): ...\n"
    source = ast.parse(body.format(", ".join("abcdefg") + ", x"))
    monkeypatch.setitem(globals(), "tree", lambda path: source)
    assert list(find_long_functions(Path("a.py"))) == ["g"]
