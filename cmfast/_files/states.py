"""States as bytes, files and JSON: one form for every class, of which nothing is believed when it is read.

The form is the ``.npz`` of NumPy: arrays in little-endian bytes, neither compressed nor pickled. ``class`` says whose
it is and ``format`` which version; the other parts are the class's own. A part of bytes (``|u1``) is JSON in UTF-8. As
JSON the form is one object: there such a part stands as it is, a number as a number, and an array as its dtype, shape
and values in nested lists, with "NaN", "Infinity" and "-Infinity" as strings. Its ``digest`` is the SHA-256 of all the
rest, as an archive has checksums: where there is one, it is checked.
"""

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self, TypeAlias, TypeVar, cast

import numpy as np

from cmfast._core import validate
from cmfast._files import archive, output
from cmfast._files.archive import DamagedError, Parts, demand

File: TypeAlias = str | PathLike[str] | BinaryIO
Method = TypeVar("Method")

FORMAT = 1
TEXT = (("|u1",), 1)  # a part that is JSON
HEAD: Parts = {"class": TEXT, "format": (("<i8",), 0)}


class _OfClass(classmethod):  # type: ignore[type-arg]
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method of the class; on an instance say how it is called."""
        if instance is not None:
            kind, name = type(instance).__name__, self.__func__.__name__
            msg = f"{name} is called on the class, with all parts: {kind}.{name}([a, b]), which is a + b"
            raise AttributeError(msg)
        return super().__get__(instance, owner)


def of_class(method: Method) -> Method:
    """Let a class method be one that no instance has: called on one, it would leave that one out."""
    made: Any = _OfClass(cast(Any, method).__func__)
    return cast(Method, made)


class State:
    """What can be written and read again by any process on any machine; a class says which parts it has, of what."""

    __slots__ = ()
    _STORED: ClassVar[Parts]
    _OPTIONAL: ClassVar[tuple[str, ...]] = ()

    def _get_parts(self) -> dict[str, Any]:
        """Return the parts: arrays on the host, numbers, and what is JSON as Python has it; None for none."""
        raise NotImplementedError

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Return what has these parts, in types and dimensions as promised; raise DamagedError for all else."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Return the state as bytes, which :meth:`from_bytes` reads on any machine.

        Returns
        -------
        bytes
            The content of the file that :meth:`save` writes: ``.npz`` without pickle. Synchronises the device.

        Examples
        --------
        >>> import cmfast
        >>> grid = cmfast.Grid([0.0], [1.0])
        >>> cmfast.Grid.from_bytes(grid.to_bytes()) == grid
        True
        """
        file = io.BytesIO()
        output.write_npz(file, _arrays(self))
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what :meth:`to_bytes` returned.

        Parameters
        ----------
        data : bytes
            They need not be trusted: nothing in them is run, and whatever the algorithms rely on is checked.

        Raises
        ------
        TypeError, ValueError
            No bytes; bytes of something else, of another format, or damaged.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            validate.refuse("data", "bytes", type(data).__name__, TypeError)
        with _whole("data", cls):
            found: Self = read(io.BytesIO(data), cls)
        return found

    def save(self, path: File) -> None:
        """Write the state to a file, without pickle; :meth:`load` reads it.

        Parameters
        ----------
        path : str, path or binary file
            A name that ends in ``.json`` gets JSON, all others ``.npz``. It is taken as it is: no suffix is added, and
            a file that exists is replaced when the new one is whole. What has ``write`` gets the bytes of ``.npz``.

        Raises
        ------
        OSError
            The file cannot be written.
        ValueError
            A folder or a device has that name.
        TypeError
            `path` is neither a path nor a file for bytes.

        Notes
        -----
        The arrays are little-endian, so the file can be read on any machine. Synchronises the device.

        Examples
        --------
        >>> import cmfast, os, tempfile
        >>> cells = cmfast.cell_counts([[0.1], [3.0]], [0, 1], [0, 1], grid=cmfast.Grid([0.0], [1.0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cells.save(os.path.join(folder, "cells.npz"))
        ...     cmfast.CellCounts.load(os.path.join(folder, "cells.npz")) == cells
        True
        """
        if hasattr(path, "write"):
            _check_binary(path)
            _write(path, self.to_bytes())
            return
        target = Path(_name(path)).resolve()
        if target.exists() and not target.is_file():  # whoever may replace a device would have a file in its place
            validate.refuse("path", "the name of a file", f"a folder or device, {str(path)!r}")
        with output.replacing(target) as file:  # open: numpy.savez would append .npz to a name
            if target.suffix.lower() == ".json":
                file.write(self.to_json().encode())
            else:
                output.write_npz(file, _arrays(self))

    @classmethod
    def load(cls, path: File) -> Self:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : str, path or binary file
            The file, ``.npz`` or JSON, as its first byte tells. It need not be trusted: nothing in it is run, and
            whatever the algorithms rely on is checked. What has ``read`` is read to its end.

        Returns
        -------
        same class
            Its arrays are NumPy's, whatever library was saved.

        Raises
        ------
        OSError
            The file cannot be read.
        TypeError
            `path` is neither a path nor a file of bytes.
        ValueError
            The file is no such file, of another format, or damaged.
        """
        found: Self = load_any(path, cls)
        return found

    def to_json(self) -> str:
        """Return the state as JSON, which :meth:`from_json` reads; every number keeps all its digits.

        It has a digest of its content: a digit that changes on the way is found when it is read.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid.from_json(cmfast.Grid([0.0], [0.1]).to_json())
        Grid(origin=[0.0], width=[0.1])
        """
        facts = _facts(self)
        facts["digest"] = digest(facts)
        lines = (f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in facts.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` returned; errors are those of :meth:`from_bytes`.

        Parameters
        ----------
        text : str or bytes
            It need not be trusted.
        """
        if not isinstance(text, str | bytes | bytearray):
            validate.refuse("text", "JSON in a str or bytes", type(text).__name__, TypeError)
        with _whole("text", cls):
            found: Self = read_json(text, cls)
        return found


def load_any(path: File, *classes: type[State]) -> Any:
    """Return the state in a file, of whichever of `classes` it is."""
    opened: Any = path
    if hasattr(opened, "read"):
        _check_binary(opened)
        data = opened.read()
        if not isinstance(data, bytes):
            validate.refuse("path", "a path, or a file of bytes", f"one of {type(data).__name__}", TypeError)
        with _whole("path", *classes):
            return read(io.BytesIO(data), *classes)
    name = _name(path)
    with open(name, "rb") as file, _whole(f"path {name}", *classes):  # noqa: PTH123  (a name that need not be a Path)
        return read(file, *classes)


def read(file: BinaryIO, *classes: type[State]) -> Any:
    """Return the state in an open file, JSON or an archive, of whichever of `classes` it is."""
    if file.read(1) == b"{":
        file.seek(0)
        return _of_facts(_parsed(file.read()), classes)
    demand(zipfile.is_zipfile(file), "it is neither a JSON object nor npz")
    head = archive.read(file, HEAD, others=True)
    one = _class_of(_parsed(head["class"].tobytes()), int(head["format"]), classes)
    found = archive.read(file, {**HEAD, **one._STORED}, optional=one._OPTIONAL)
    texts = {name for name, kind in one._STORED.items() if kind == TEXT}
    return one._restore({k: _parsed(found[k].tobytes()) if k in texts else found[k] for k in found if k not in HEAD})


def read_json(text: str | bytes | bytearray, *classes: type[State]) -> Any:
    """Return the state that a text is, of whichever of `classes` it is."""
    return _of_facts(_parsed(text), classes)


def describe_damage(error: DamagedError, classes: tuple[type[State], ...]) -> str:
    """Return what is wrong with a file or a text that should be a state of one of `classes`."""
    return f"holds no {' or '.join(one.__name__ for one in classes)}, or is damaged: {error}"


def _class_of(name: Any, number: Any, classes: tuple[type[State], ...]) -> type[State]:
    """Return which of `classes` a state is of, in a format that is read here."""
    known = {one.__name__: one for one in classes}
    demand(
        isinstance(name, str) and name in known, f"its class is {validate.format_value(name)}, not {' or '.join(known)}"
    )
    demand(
        type(number) is int and number == FORMAT,
        f"it has format {validate.format_value(number)}, this version reads {FORMAT}",
    )
    return known[name]


def _arrays(state: State) -> dict[str, np.ndarray]:
    """Return the parts of a state as arrays in little-endian bytes."""
    found: dict[str, Any] = {"class": type(state).__name__, "format": FORMAT, **state._get_parts()}
    kinds = {**HEAD, **state._STORED}
    return {name: _array(value, *kinds[name]) for name, value in found.items() if value is not None}


def _array(value: Any, types: tuple[str, ...], ndim: int) -> np.ndarray:
    if types == TEXT[0] and ndim == TEXT[1]:
        return np.frombuffer(json.dumps(value, allow_nan=False).encode(), np.uint8)
    array = np.asarray(value)
    return array.astype(np.dtype(types[0]) if len(types) == 1 else array.dtype.newbyteorder("<"), copy=False)


def _facts(state: State) -> dict[str, Any]:
    """Return the parts of a state as JSON has them."""
    facts: dict[str, Any] = {"class": type(state).__name__, "format": FORMAT}
    for name, value in state._get_parts().items():
        if value is None or state._STORED[name] == TEXT:
            facts |= {} if value is None else {name: value}
            continue
        array = array_facts(_array(value, *state._STORED[name]))
        facts[name] = array if array["shape"] else array["values"]
    return facts


def array_facts(array: np.ndarray) -> dict[str, Any]:
    """Return an array as JSON has it."""
    values = array.tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        values = _spelt(values)
    return {"dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "values": values}


def _spelt(values: Any) -> Any:
    if isinstance(values, list):
        return [_spelt(value) for value in values]
    return values if math.isfinite(values) else json.dumps(values)


def _parsed(text: str | bytes | bytearray) -> Any:
    """Return what JSON says, which may come from anybody."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedError(str(error) or type(error).__name__) from None


def _refuse_constant(text: str) -> None:
    demand(holds=False, why=f"it has a bare {text}")


def digest(facts: dict[str, Any]) -> str:
    """Return the SHA-256 of what JSON says, however it is laid out."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _of_facts(facts: Any, classes: tuple[type[State], ...]) -> Any:
    """Return the state that JSON describes."""
    demand(isinstance(facts, dict), "it is no object")
    facts = dict(facts)
    known = facts.pop("digest", None)  # written by hand, or by a version before there was one
    changed = "its digest is of another content; drop the digest of what was changed on purpose"
    demand(known is None or known == digest(facts), changed)
    one = _class_of(facts.pop("class", None), facts.pop("format", None), classes)
    for name in facts:
        demand(name in one._STORED, f"it has {validate.format_value(name)}")
    for name in one._STORED:
        demand(name in facts or name in one._OPTIONAL, f"it has no {name}")
    texts = {name for name, kind in one._STORED.items() if kind == TEXT}
    return one._restore({k: v if k in texts else array_of_facts(k, v, *one._STORED[k]) for k, v in facts.items()})


def array_of_facts(name: str, value: Any, types: tuple[str, ...], ndim: int) -> np.ndarray:
    """Return an array that JSON describes."""
    if not ndim:
        value = {"dtype": types[0], "shape": [], "values": value}
    demand(isinstance(value, dict) and set(value) == {"dtype", "shape", "values"}, f"its {name} is no array")
    dtype, shape, flat = value["dtype"], value["shape"], [value["values"]]
    sized = isinstance(shape, list) and len(shape) == ndim and all(type(n) is int and n >= 0 for n in shape)
    demand(dtype in types and sized, f"its {name} has another dtype or number of axes")
    for n in shape:
        demand(all(isinstance(part, list) and len(part) == n for part in flat), f"its {name} has not its shape {shape}")
        flat = [each for part in flat for each in part]
    if np.dtype(dtype).kind == "f":
        flat = [float(x) if x in ("NaN", "Infinity", "-Infinity") else x for x in flat]
        demand(all(type(x) in (int, float) for x in flat), f"its {name} holds what is no number")
    else:
        demand(all(type(x) is int for x in flat), f"its {name} holds what is no integer")
    try:
        return np.array(flat, np.dtype(dtype).newbyteorder("=")).reshape(shape)
    except OverflowError:
        raise DamagedError(f"its {name} holds what {dtype} cannot") from None  # noqa: EM102
    except ValueError as error:  # more cells than there are addresses
        raise DamagedError(f"its {name}: {error}") from None  # noqa: EM102


@contextmanager
def _whole(where: str, *classes: type[State]) -> Iterator[None]:
    """Name the classes that were to be read from what is damaged or something else."""
    try:
        yield
    except DamagedError as error:
        validate.fail(f"{where} {describe_damage(error, classes)}")


def _name(path: Any) -> str:
    if not isinstance(path, str | bytes | PathLike):
        validate.refuse("path", "a str or path, or a file of bytes", type(path).__name__, TypeError)
    return validate.path_name("path", path)


def _check_binary(file: Any) -> None:
    if isinstance(file, io.TextIOBase):
        validate.refuse("path", "a path, or a file of bytes", "one of text", TypeError)


def _write(file: Any, data: bytes) -> None:
    """Write all of `data`, of which a file without a buffer may take a part at a time."""
    rest = memoryview(data)
    while rest:
        written = file.write(rest)
        rest = rest[len(rest) if written is None else written :]
