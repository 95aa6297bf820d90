"""Read saved counts: state files, or the JSON of ``cmfast confusion``."""

import json
import zipfile
from pathlib import Path
from typing import Any

import cmfast
from cmfast._files import archive, matrices, states, tables
from cmfast._files.archive import DamagedError
from cmfast._files.output import FileError, describe_os_error
from cmfast._files.states import State

COUNTS = (".json", ".npz")  # suffixes of counts that were saved
KINDS = (("booleans", bool), ("integers", int), ("floats", float))


def are_counts(source: object) -> bool:
    """Whether a source has the suffix of saved counts, or is a csv file that ``cmfast confusion`` wrote."""
    if getattr(source, "suffix", "").lower() in COUNTS:
        return True
    if not isinstance(source, Path) or source.suffix.lower() != ".csv" or not source.is_file():
        return False
    return matrices.is_counted_table(source)


def read_counts(path: Path, *classes: type[State]) -> Any:
    """Read counts of any of `classes` from a file; JSON of the command becomes ConfusionCounts."""
    try:
        facts = _facts(path)
        if facts is not None:
            classes = (cmfast.ConfusionCounts,)
            return states.read_json(json.dumps(facts), *classes)
        with path.open("rb") as file:
            return states.read_state(file, *classes)
    except (DamagedError, ValueError) as error:
        what = states.describe_damage(error, classes) if isinstance(error, DamagedError) else str(error)
        is_table = path.suffix.lower() in (*tables.TEXTS, *tables.PARQUET)
        raise FileError(path, what + ("; cmfast confusion --json counts a table" if is_table else "")) from error
    except OSError as error:
        raise FileError(path, describe_os_error(error)) from error


def _facts(path: Path) -> dict[str, Any] | None:
    """Convert JSON of ``cmfast confusion`` to that of ConfusionCounts; return None for anything else."""
    if path.suffix.lower() == ".csv" and (counted := matrices.read_counted_table(path)) is not None:
        labels, M = counted
        if M.dtype.kind != "i":
            raise FileError(path, "holds a matrix that is normalised, which does not add up")
        are_integers = all(label.removeprefix("-").isdecimal() for label in labels)
        known = [int(label) for label in labels] if are_integers else labels
        head = {"class": "ConfusionCounts", "format": states.FORMAT, "classes": _axis(known)}
        return head | {"matrix": _array(M.tolist())}
    if path.suffix.lower() == ".npz":
        return _read_arrays(path)
    if path.suffix.lower() != ".json":
        return None
    try:
        facts = json.loads(path.read_bytes())
    except (ValueError, RecursionError):  # the reader reports the error
        return None
    if not isinstance(facts, dict) or "class" in facts or not {"labels", "normalize"} <= set(facts):
        return None
    if facts["normalize"] is not None:
        raise FileError(path, "holds a matrix that is normalised, which does not add up")
    if not isinstance(facts["labels"], list):
        raise ValueError("holds no labels and counts of them")  # noqa: EM101
    head = {"class": "ConfusionCounts", "format": states.FORMAT, "classes": _axis(facts["labels"])}
    return head | (_group_parts(facts) if "groups" in facts else {"matrix": _array(facts.get("matrix"))})


def _read_arrays(path: Path) -> dict[str, Any] | None:
    """Convert an npz file of ``cmfast confusion`` to JSON of ConfusionCounts; return None for anything else.

    It holds no names of the columns of groups.
    """
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            return None
        names = archive.list_names(file)
        if "class" in names or not {"matrix", "labels"} <= set(names):
            return None
        groups = [name for name in names if name.startswith("groups")]
        labels = ((archive.TEXT, "<i8", "<u8", "|b1"), 1)
        matrix = (("<i8", "<f8"), 2 + bool(groups))
        found = archive.read_npz(file, {"matrix": matrix, **dict.fromkeys(["labels", *groups], labels)})
    if found["matrix"].dtype.kind != "i":
        raise FileError(path, "holds a matrix that is normalised, which does not add up")
    head = {"class": "ConfusionCounts", "format": states.FORMAT, "classes": _axis(found["labels"].tolist())}
    M = found["matrix"].tolist()
    if not groups:
        return head | {"matrix": _array(M)}
    keys = list(zip(*(found[name].tolist() for name in groups), strict=True))
    by = [name.replace("groups", "group") for name in groups]
    return head | _group_parts(
        {"by": by, "groups": [{"group": list(key), "matrix": one} for key, one in zip(keys, M, strict=True)]}
    )


def _group_parts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of matrices with groups."""
    try:
        names = facts["by"] if isinstance(facts["by"], list) else [facts["by"]]
        values = [one["group"] if isinstance(facts["by"], list) else [one["group"]] for one in facts["groups"]]
        columns = [sorted(set(column)) for column in zip(*values, strict=True)]
        places = [{value: k for k, value in enumerate(column)} for column in columns]
        rows = [[known[value] for known, value in zip(places, row, strict=True)] for row in values]
        matrices = [one["matrix"] for one in facts["groups"]]
        axes = [{"name": name, **_axis(column)} for name, column in zip(names, columns, strict=True)]
    except (KeyError, TypeError, ValueError):
        raise ValueError("holds no groups and counts of them") from None  # noqa: EM101
    return {"columns": axes, "groups": _array(rows), "matrices": _array(matrices)}


def _axis(labels: list[Any]) -> dict[str, Any]:
    """Return a JSON-like axis of labels."""
    kinds = (*KINDS, ("strings", str))
    kind = next((name for name, kind in kinds if all(isinstance(label, kind) for label in labels)), None)
    is_sorted = kind is None or labels == sorted(labels)  # another order was given, as by --order
    return {"from": "found" if is_sorted else "labels", "kind": kind or "strings", "labels": labels}


def _array(values: Any) -> dict[str, Any]:
    """Return nested lists of integers as a JSON-like array."""
    shape, one = [], values
    while isinstance(one, list):
        shape.append(len(one))
        one = one[0] if one else None
    return {"dtype": "<i8", "shape": shape, "values": values}
