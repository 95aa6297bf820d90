"""What the sources say of themselves: which modules there are, what each imports, and which names they give."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from processes import ROOT

SOURCES = ("cmfast", "kernels", "tests", "benchmarks", "docs", "examples", ".ci")


def files(*endings: str) -> list[Path]:
    """Return the repository's files with one of these endings (or all), relative to its top; no link is followed."""
    found = [Path(name) for name in ROOT.iterdir() if name.is_file()]
    found += [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    return [path.relative_to(ROOT) for path in found if not endings or path.suffix in endings]


def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def modules() -> dict[str, Path]:
    """Return the modules of cmfast by the names that they are imported under."""
    found = {}
    for path in files(".py"):
        if path.parts[0] in ("cmfast", "kernels"):
            parts = ("cmfast",) * (path.parts[0] == "kernels") + path.with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, known: dict[str, Path], *, types: bool = False) -> set[str]:
    """Return which modules of `known` one of them imports at run time; with `types` those for type checkers alone."""
    return {_module(full, known) for full in _imports(known[name])[types]} & set(known) - {name}


@cache
def _imports(path: Path) -> tuple[set[str], set[str]]:
    """Return what a file imports at run time, and what for type checkers alone."""
    nodes = list(ast.walk(tree(path)))
    for_types = [node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    hidden = {id(node) for block in for_types for node in ast.walk(block)}
    found: tuple[set[str], set[str]] = set(), set()
    for node in nodes:
        found[id(node) in hidden].update(_imported(node))
    return found


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert not node.level, "imports name the whole path"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _module(full: str, known: dict[str, Path]) -> str:
    """Return the module that `full` is, or is in."""
    return full if full in known else full.rpartition(".")[0]


def _walk_statements(top: ast.Module) -> Iterator[ast.AST]:
    """Yield the statements of a module at any depth, as `ast.walk`, but not their expressions, which hold no other."""
    level: list[ast.AST] = [top]
    for node in level:
        found = [x for x in ast.iter_child_nodes(node) if isinstance(x, ast.stmt | ast.excepthandler | ast.match_case)]
        level += found
        yield from found


def texts(path: Path) -> Iterator[str]:
    """Yield the docstrings of a Python file and its comments, if any quotes; or a page of Markdown without its code."""
    if path.suffix == ".md":
        yield "".join((ROOT / path).read_text(encoding="utf-8").split("```")[::2])
        return
    yield from _read_module(path)[1]
    with tokenize.open(ROOT / path) as file:
        source = file.read()
    if re.search(r"#.*`", source):  # a comment may quote something; to find comments takes longer than to parse
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        yield from (token.string for token in tokens if token.type == tokenize.COMMENT)


def words(text: str) -> Iterator[str]:
    """Yield the words in backticks."""
    for quoted in re.findall(r"`+([^`\n]+)`+", text):
        yield from quoted.split()


def names(path: Path) -> set[str]:
    """Return every name that a Python file gives to anything."""
    return set(_read_module(path)[0])


@cache
def _read_module(path: Path) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names that a Python file gives to anything, and its docstrings; it is parsed once, for both."""
    top = tree(path)
    found = {path.stem, path.parent.name}
    for node in ast.walk(top):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.Attribute():
                found.add(node.attr)
            case ast.arg():
                found.add(node.arg)
            case ast.ImportFrom(module=str(module), names=[ast.alias(name="*")]):
                found |= names(Path(module.replace(".", "/") + ".py"))
            case ast.alias():
                found.add(node.asname or node.name)
    expressions = (node.value for node in _walk_statements(top) if isinstance(node, ast.Expr))
    values = (node.value for node in expressions if isinstance(node, ast.Constant))
    return frozenset(found), tuple(value for value in values if isinstance(value, str))
