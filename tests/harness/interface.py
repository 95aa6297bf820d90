"""The public interface as data, and what of a release's interface a later one has lost: docs/stability.md promises it.

``python tests/harness/defaults.py --release 1.0`` freezes the interface of a release in a file, once.
"""

import argparse
import inspect
import json
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, Literal, get_args, get_origin

from callables import RECORDS

from cmfast import metrics
from cmfast._core.annotations import BiOptions
from cmfast.cli._main import _parser

FOLDER = Path(__file__).parents[1] / "data"
# The modules that docs/reference.md lists, and the library that each of them needs.
MODULES = {"cmfast": ""} | {
    f"cmfast.{name}": ""
    for name in ("agreement", "conformal", "contingency", "detection", "display", "metrics", "results", "uncertainty")
}
MODULES |= {"cmfast.nn": "torch", "cmfast.compat.sklearn": "sklearn", "cmfast.compat.torchmetrics": "torchmetrics"}
KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "either",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "rest",
    inspect.Parameter.VAR_KEYWORD: "options",
}
OPERATORS = {
    "__add__", "__radd__", "__iadd__", "__getitem__", "__iter__", "__len__", "__contains__", "__array__", "__enter__",
}  # fmt: skip
WIDER = {"None": "'?'", "'+'": "'*'"}  # numbers of values of an argument -> what also allows none
Entry = dict[str, Any]


def get_file(release: str) -> Path:
    """Return the file with the interface of a release such as "1.0"."""
    return FOLDER / f"api-{release}.json"


def write_release(release: str) -> Path:
    """Write the interface of a release; a file that exists is a promise, and FileExistsError is raised."""
    path = get_file(release)
    lines = []
    for part, entries in find_interface().items():
        rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        lines.append(f" {json.dumps(part)}: {{\n{rows}\n }}")
    with path.open("x", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    return path


def find_interface() -> dict[str, dict[str, Entry]]:
    """Return an entry for each public name by module, and for each command."""
    return {module: find_module(module) for module in MODULES} | {"command": find_commands()}


def find_module(module: str) -> dict[str, Entry]:
    """Return an entry for every public name of a module, and for the public methods of its classes."""
    found: dict[str, Entry] = {}
    space = import_module(module)
    for name in sorted(space.__all__):
        thing = getattr(space, name)
        if inspect.isclass(thing):
            found[name] = _describe_class(thing, is_record=_is_record(module, name))
            found |= {f"{name}.{method}": entry for method, entry in _find_methods(thing)}
        elif inspect.ismodule(thing):
            found[name] = {"kind": "module"}
        elif callable(thing) and get_origin(thing) is None:
            found[name] = {"kind": "function", "parameters": _describe_parameters(thing)}
        else:
            found[name] = {"kind": "value"} | ({"names": names} if (names := _find_names(thing)) else {})
    return found


def _find_names(thing: Any) -> list[str]:
    """Return the names in a Literal, or in a tuple of names or of what has one."""
    some = get_args(thing) if get_origin(thing) is Literal else thing if isinstance(thing, tuple) else ()
    return sorted(getattr(each, "name", each) for each in some)


def _is_record(module: str, name: str) -> bool:
    """Return whether only cmfast makes instances of a class."""
    return bool(RECORDS.intersection((name, f"{module.removeprefix('cmfast.')}.{name}")))


def _find_own(thing: type) -> dict[str, Any]:
    """Return the attributes that cmfast's classes among the bases define, by name."""
    ours = [base for base in reversed(thing.__mro__) if base.__module__.partition(".")[0] == "cmfast"]
    return {name: value for base in ours for name, value in vars(base).items()}


def _is_subclass_of_library(thing: type) -> bool:
    """Return whether a class does as torchmetrics' class of its name, whose arguments cmfast does not decide."""
    return any(base.__module__.startswith("torchmetrics.") for base in thing.__mro__)


def _describe_class(thing: type, *, is_record: bool) -> Entry:
    """Return bases, fields in their order, and other attributes of a class; parameters but of a record."""
    bases = [base.__name__ for base in thing.__mro__[1:] if base.__module__ == "builtins" and base is not object]
    entry: Entry = {"kind": "class", "bases": bases}
    if issubclass(thing, Enum):
        return entry | {"values": {member.name: member.value for member in thing}}
    if _is_subclass_of_library(thing):
        return entry
    own = _find_own(thing)
    fields = getattr(thing, "_fields", None) or tuple(getattr(thing, "__dataclass_fields__", ()))
    entry["fields"] = [name for name in fields if not name.startswith("_")]
    plain = [name for name, value in own.items() if name in OPERATORS or _is_attribute(name, value)]
    entry["attributes"] = sorted({*plain, *_read_attributes(thing)}.difference(fields))
    if not is_record and ("__init__" in own or "__new__" in own):
        entry["parameters"] = _describe_parameters(thing)
    return entry


def _is_attribute(name: str, value: Any) -> bool:
    is_data = isinstance(value, property | cached_property) or inspect.ismemberdescriptor(value)
    return is_data and not name.startswith("_")


def _read_attributes(thing: type) -> Iterator[str]:
    """Yield the names in the section on attributes of a class's docstring."""
    _, _, section = (inspect.getdoc(thing) or "").partition("Attributes\n----------\n")
    for line in section.splitlines():
        if not line.strip() or line.startswith("---"):
            return
        if not line.startswith(" "):
            yield from (name.strip() for name in line.partition(" : ")[0].split(","))


def _find_methods(thing: type) -> Iterator[tuple[str, Entry]]:
    """Yield every public method of a class that cmfast defines, and its entry."""
    if _is_subclass_of_library(thing):
        return
    for name, value in sorted(_find_own(thing).items()):
        is_method = inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)
        if is_method and not name.startswith("_"):
            parameters = _describe_parameters(getattr(thing, name))
            if inspect.isfunction(value):
                del parameters[next(iter(parameters))]  # self
            yield name, {"kind": "method", "parameters": parameters}


def _describe_parameters(function: Any) -> dict[str, Entry]:
    """Return kind, default and names that it allows of each parameter, in order."""
    found: dict[str, Entry] = {}
    for one in inspect.signature(function).parameters.values():
        entry: Entry = {"kind": KINDS[one.kind]}
        if one.default is not one.empty:
            entry["default"] = _write(one.default)
        if choices := _find_choices(one.annotation):
            entry["choices"] = choices
        if one.kind is one.VAR_KEYWORD and BiOptions in get_args(one.annotation):
            entry["choices"] = sorted(BiOptions.__annotations__)
        found[one.name] = entry
    return found


def _find_choices(annotation: Any) -> list[str]:
    """Return the values of the Literal types in an annotation, those of all metrics as one."""
    found = {_write(value) for value in _find_literals(annotation)}
    if found >= (names := {_write(name) for name in get_args(metrics.MetricName)}):
        found = {"MetricName", *found.difference(names)}
    return sorted(found)


def _find_literals(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from _find_literals(part)


def _write(value: Any) -> str:
    """Return a default as text that is the same in every process and on every system."""
    if isinstance(value, PurePath):
        return repr(value.as_posix())
    return value.__qualname__ if inspect.isroutine(value) or inspect.isclass(value) else repr(value)


def find_commands() -> dict[str, Entry]:
    """Return an entry for each command, with its arguments and options."""
    (some,) = (each for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))
    found = {}
    for name, parser in some.choices.items():
        parser.prepare(parser)
        parser.prepare = None
        found[name] = {"kind": "command", "parameters": dict(map(_describe_option, parser._actions))}
    return found


def _describe_option(action: argparse.Action) -> tuple[str, Entry]:
    """Return the name of an option or argument of a command, and its entry."""
    entry: Entry = {"kind": "option" if action.option_strings else "either", "nargs": repr(action.nargs)}
    if action.option_strings:
        entry["names"] = list(action.option_strings)
    if not action.required:
        entry["default"] = _write(action.default)
    if action.choices:
        entry["choices"] = sorted(map(_write, action.choices))
    return next((name for name in action.option_strings if name.startswith("--")), action.dest), entry


def find_losses(kept: dict[str, Entry], found: dict[str, Entry], module: str) -> list[str]:
    """Return what a module, or the command, of a release has, and this one no longer: a message for each."""
    losses = []
    for name, entry in kept.items():
        if name in found:
            losses += [f"{module}.{name}: {text}" for text in _compare(entry, found[name])]
        else:
            losses.append(f"{module}.{name}: it is gone")
    return losses


def _compare(kept: Entry, found: Entry) -> Iterator[str]:
    """Yield what an entry has lost."""
    if kept["kind"] != found["kind"]:
        yield f"it was a {kept['kind']}, and is a {found['kind']}"
        return
    for part in ("bases", "attributes", "names"):
        yield from (f"{each} is gone from its {part}" for each in kept.get(part, []) if each not in found.get(part, []))
    now = found.get("values", {})
    yield from (
        f"{key} was {value}, and is {now.get(key)}"
        for key, value in kept.get("values", {}).items()
        if now.get(key) != value
    )
    yield from _compare_order("fields", kept.get("fields", []), found.get("fields", []))
    if "parameters" in kept:
        yield from _compare_parameters(kept["parameters"], found.get("parameters", {}))


def _compare_order(what: str, kept: list[str], found: list[str]) -> Iterator[str]:
    """Yield which names are gone, or that they are no longer the first, in their order."""
    gone = [each for each in kept if each not in found]
    yield from (f"{each} is gone from its {what}" for each in gone)
    if not gone and found[: len(kept)] != kept:
        yield f"its {what} began with {', '.join(kept)}, and begin with {', '.join(found[: len(kept)])}"


def _compare_parameters(kept: dict[str, Entry], found: dict[str, Entry]) -> Iterator[str]:
    """Yield which calls that were right are wrong, or mean something else."""
    for name, before in kept.items():
        if name not in found:
            yield f"{name} is gone from its parameters"
            continue
        now = found[name]
        if now["kind"] not in (before["kind"], "either"):
            yield f"{name} was {before['kind']}, and is {now['kind']}"
        if "default" in before and before["default"] != now.get("default"):
            yield f"{name} had the default {before['default']}, and has {now.get('default', 'none')}"
        if now.get("nargs") not in (before.get("nargs"), WIDER.get(before.get("nargs"))):
            yield f"{name} took {before.get('nargs')} values, and takes {now.get('nargs')}"
        for part in ("choices", "names"):
            lost = [each for each in before.get(part, []) if each not in now.get(part, [])]
            if lost and (part == "names" or now.get(part)):  # an argument without choices takes any value
                yield f"{name} has lost {', '.join(lost)}"
    order = [
        [name for name, each in some.items() if each["kind"] in ("positional", "either")] for some in (kept, found)
    ]
    if set(order[0]).issubset(order[1]):
        yield from _compare_order("positional parameters", *order)
    for name in found.keys() - kept.keys():
        if "default" not in found[name] and found[name]["kind"] not in ("rest", "options"):
            yield f"{name} is new, and calls without it were right"
