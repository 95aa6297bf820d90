"""Save and load states as bytes, npz files and JSON; everything read is validated and pickles are refused.

An ``.npz`` holds little-endian arrays, neither compressed nor pickled: ``class`` and ``format`` (version), then the
parts of the class. A part of bytes (``|u1``) is JSON in UTF-8. In JSON a state is one object: arrays are dtype, shape
and nested lists, with "NaN", "Infinity" and "-Infinity" as strings, and ``digest`` is the SHA-256 of the rest.
"""

import io
import json
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self, TypeAlias, TypeVar, cast

import numpy as np

from cmfast._core import validate
from cmfast._core.usual_options import explain_options_of_methods
from cmfast._files import archive, output
from cmfast._files.archive import DamagedError, Parts, demand

File: TypeAlias = str | PathLike[str] | BinaryIO
Method = TypeVar("Method")

FORMAT = 1
TEXT = (("|u1",), 1)  # dtype and dimensions of a part that is JSON
MOST_NAMED_PARTS = 5  # arrays of another file that a message names
HEAD: Parts = {"class": TEXT, "format": (("<i8",), 0)}


class _ClassOnlyMethod(classmethod):  # type: ignore[type-arg]
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method bound to the class; raise AttributeError on an instance."""
        if instance is not None:
            kind, name = type(instance).__name__, self.__func__.__name__
            msg = f"{name} is called on the class, with all parts: {kind}.{name}([a, b]), which is a + b"
            raise AttributeError(msg)
        return super().__get__(instance, owner)


def class_only(method: Method) -> Method:
    """Make a class method raise when called on an instance, which it would otherwise silently ignore."""
    made: Any = _ClassOnlyMethod(cast(Any, method).__func__)
    return cast(Method, made)


@explain_options_of_methods
class State:
    """Base class of objects that can be saved and loaded; `_STORED` lists the parts with dtypes and dimensions."""

    __slots__ = ()
    _STORED: ClassVar[Parts]
    _OPTIONAL: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Explain unknown options of the methods of every subclass."""
        super().__init_subclass__(**options)
        explain_options_of_methods(cls)

    def _get_parts(self) -> dict[str, Any]:
        """Return the parts by name: host arrays, numbers, and JSON-like Python values; None for an absent part."""
        raise NotImplementedError

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Return an object made of these parts, of the promised dtypes and dimensions; raise DamagedError otherwise."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Return the state as bytes, to be read by :meth:`from_bytes` on any machine.

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
        output.write_npz(file, _encode_parts(self))
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a state from the bytes that :meth:`to_bytes` returned.

        Parameters
        ----------
        data : bytes
            May be untrusted: no code in them is run, and everything that the algorithms rely on is validated.

        Raises
        ------
        TypeError, ValueError
            Not bytes; bytes of another class or format; damaged bytes.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            validate.refuse("data", "bytes", type(data).__name__, TypeError)
        with _explain_damage("data", cls):
            found: Self = read_state(io.BytesIO(data), cls)
        return found

    def save(self, path: File) -> None:
        """Save the state to a file, without pickle; :meth:`load` reads it.

        Parameters
        ----------
        path : str, path or binary file
            A name that ends in ``.json`` selects JSON, any other ``.npz``. No suffix is added, and an existing file is
            replaced atomically. An object with a ``write`` method receives the bytes of ``.npz``.

        Raises
        ------
        OSError
            The file cannot be written.
        ValueError
            The path is a folder or a device.
        TypeError
            `path` is neither a path nor a file for bytes.

        Notes
        -----
        The arrays are little-endian, so the file can be read on any machine. Synchronises the device.

        Examples
        --------
        >>> import cmfast, os, tempfile
        >>> cells = cmfast.cell_counts(
        ...     [[0.1], [3.0]], [0, 1], [0, 1], grid=cmfast.Grid([0.0], [1.0])
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cells.save(os.path.join(folder, "cells.npz"))
        ...     cmfast.CellCounts.load(os.path.join(folder, "cells.npz")) == cells
        True
        """
        if hasattr(path, "write"):
            _check_binary(path)
            _write(path, self.to_bytes())
            return
        target = Path(_check_path(path)).resolve()
        if target.exists() and not target.is_file():  # replacing a device by a file must not happen
            validate.refuse("path", "the name of a file", f"a folder or device, {str(path)!r}")
        with output.replace_file(target) as file:  # open: numpy.savez would append .npz to a name
            if target.suffix.lower() == ".json":
                file.write(self.to_json().encode())
            else:
                output.write_npz(file, _encode_parts(self))

    @classmethod
    def load(cls, path: File) -> Self:
        """Load a state that :meth:`save` wrote.

        Parameters
        ----------
        path : str, path or binary file
            The file, ``.npz`` or JSON, recognised by its first byte. May be untrusted: no code in it is run, and
            everything that the algorithms rely on is validated. An object with a ``read`` method is read to its end.

        Returns
        -------
        same class
            With NumPy arrays, even if arrays of another library were saved.

        Raises
        ------
        OSError
            The file cannot be read.
        TypeError
            `path` is neither a path nor a file of bytes.
        ValueError
            The file is of another class or format, or damaged.
        """
        found: Self = load_any(path, cls)
        return found

    def to_json(self) -> str:
        """Return the state as JSON with all digits of every number; :meth:`from_json` reads it.

        A digest of the content detects changed digits when the text is read.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.Grid.from_json(cmfast.Grid([0.0], [0.1]).to_json())
        Grid(origin=[0.0], width=[0.1])
        """
        facts = _make_json_dict(self)
        facts["digest"] = compute_digest(facts)
        lines = (f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in facts.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a state from JSON that :meth:`to_json` returned; errors are those of :meth:`from_bytes`.

        Parameters
        ----------
        text : str or bytes
            May be untrusted.
        """
        if not isinstance(text, str | bytes | bytearray):
            validate.refuse("text", "JSON in a str or bytes", type(text).__name__, TypeError)
        with _explain_damage("text", cls):
            found: Self = read_json(text, cls)
        return found


def load_any(path: File, *classes: type[State]) -> Any:
    """Load a state of any of `classes` from a path or binary file."""
    opened: Any = path
    if hasattr(opened, "read"):
        _check_binary(opened)
        data = opened.read()
        if not isinstance(data, bytes):
            validate.refuse("path", "a path, or a file of bytes", f"one of {type(data).__name__}", TypeError)
        with _explain_damage("path", *classes):
            return read_state(io.BytesIO(data), *classes)
    name = _check_path(path)
    with open(name, "rb") as file, _explain_damage(f"path {name}", *classes):  # noqa: PTH123  (the name may be bytes)
        return read_state(file, *classes)


def read_state(file: BinaryIO, *classes: type[State]) -> Any:
    """Read a state of any of `classes` from an open file, JSON or npz."""
    from zipfile import is_zipfile

    if file.read(1) == b"{":
        file.seek(0)
        return _parse_json_dict(_parse_json(file.read()), classes)
    demand(is_zipfile(file), "it is neither a JSON object nor npz")
    names = archive.list_names(file)
    if "class" not in names and len(set(names)) == len(names):
        raise DamagedError(f"it has no class{_explain_missing_class(names)}")  # noqa: EM102
    head = archive.read_npz(file, HEAD, others=True)
    one = _find_class(_parse_json(head["class"].tobytes()), int(head["format"]), classes)
    found = archive.read_npz(file, {**HEAD, **one._STORED}, optional=one._OPTIONAL)
    texts = {name for name, kind in one._STORED.items() if kind == TEXT}
    return one._restore(
        {k: _parse_json(found[k].tobytes()) if k in texts else found[k] for k in found if k not in HEAD}
    )


def _explain_missing_class(names: Collection[str]) -> str:
    """Return the end of a message on a file without a class: what wrote its parts `names`, and what reads them."""
    if {"matrix", "labels"} <= set(names) or {"labels", "normalize"} <= set(names):
        return ", as cmfast confusion writes none: cmfast merge FILE -o counts.npz writes counts of it that load reads"
    some = validate.format_value(list(names)[:MOST_NAMED_PARTS])
    return f", which save writes, but {some}; numpy.load reads arrays, and functions take a matrix as it is"


def read_json(text: str | bytes | bytearray, *classes: type[State]) -> Any:
    """Read a state of any of `classes` from JSON text."""
    return _parse_json_dict(_parse_json(text), classes)


def describe_damage(error: DamagedError, classes: tuple[type[State], ...]) -> str:
    """Return the text of the error for a file or text that is not a valid state of any of `classes`."""
    return f"holds no {' or '.join(one.__name__ for one in classes)}, or is damaged: {error}"


def _find_class(name: Any, number: Any, classes: tuple[type[State], ...]) -> type[State]:
    """Return the class of a state by its name, after checking the format version."""
    known = {one.__name__: one for one in classes}
    demand(
        isinstance(name, str) and name in known, f"its class is {validate.format_value(name)}, not {' or '.join(known)}"
    )
    demand(
        type(number) is int and number == FORMAT,
        f"it has format {validate.format_value(number)}, this version reads {FORMAT}",
    )
    return known[name]


def _encode_parts(state: State) -> dict[str, np.ndarray]:
    """Return the parts of a state as little-endian arrays, by name."""
    found: dict[str, Any] = {"class": type(state).__name__, "format": FORMAT, **state._get_parts()}
    kinds = {**HEAD, **state._STORED}
    return {name: _encode_part(value, *kinds[name]) for name, value in found.items() if value is not None}


def _encode_part(value: Any, types: tuple[str, ...], ndim: int) -> np.ndarray:
    """Return a part as a little-endian array; JSON parts as bytes."""
    if types == TEXT[0] and ndim == TEXT[1]:
        return np.frombuffer(json.dumps(value, allow_nan=False).encode(), np.uint8)
    array = np.asarray(value)
    return array.astype(np.dtype(types[0]) if len(types) == 1 else array.dtype.newbyteorder("<"), copy=False)


def _make_json_dict(state: State) -> dict[str, Any]:
    """Return the parts of a state as a dict that JSON can represent."""
    facts: dict[str, Any] = {"class": type(state).__name__, "format": FORMAT}
    for name, value in state._get_parts().items():
        if value is None or state._STORED[name] == TEXT:
            facts |= {} if value is None else {name: value}
            continue
        array = encode_array(_encode_part(value, *state._STORED[name]))
        facts[name] = array if array["shape"] else array["values"]
    return facts


def encode_array(array: np.ndarray) -> dict[str, Any]:
    """Return an array as a JSON-like dict of dtype, shape and values."""
    values = array.tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        values = _spell_nonfinite(values)
    return {"dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "values": values}


def _spell_nonfinite(values: Any) -> Any:
    """Replace NaN and infinities in nested lists by strings."""
    if isinstance(values, list):
        return [_spell_nonfinite(value) for value in values]
    return values if math.isfinite(values) else json.dumps(values)


def _parse_json(text: str | bytes | bytearray) -> Any:
    """Parse untrusted JSON; raise DamagedError if it is invalid."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedError(str(error) or type(error).__name__) from None


def _refuse_constant(text: str) -> None:
    """Raise DamagedError for a bare NaN or Infinity in JSON."""
    demand(holds=False, why=f"it has a bare {text}")


def compute_digest(facts: dict[str, Any]) -> str:
    """Return the SHA-256 of a JSON-like dict in canonical form."""
    from hashlib import sha256

    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def _parse_json_dict(facts: Any, classes: tuple[type[State], ...]) -> Any:
    """Return the state described by a dict from JSON, after validating digest, class and parts."""
    demand(isinstance(facts, dict), "it is no object")
    facts = dict(facts)
    known = facts.pop("digest", None)  # absent in hand-written files and in those of older versions
    changed = "its digest is of another content; drop the digest of what was changed on purpose"
    demand(known is None or known == compute_digest(facts), changed)
    if "class" not in facts and {"labels", "normalize"} <= set(facts):
        raise DamagedError(f"it has no class{_explain_missing_class(facts)}")  # noqa: EM102
    one = _find_class(facts.pop("class", None), facts.pop("format", None), classes)
    for name in facts:
        demand(name in one._STORED, f"it has {validate.format_value(name)}")
    for name in one._STORED:
        demand(name in facts or name in one._OPTIONAL, f"it has no {name}")
    texts = {name for name, kind in one._STORED.items() if kind == TEXT}
    return one._restore({k: v if k in texts else decode_array(k, v, *one._STORED[k]) for k, v in facts.items()})


def decode_array(name: str, value: Any, types: tuple[str, ...], ndim: int) -> np.ndarray:
    """Return the array described by a JSON-like dict; raise DamagedError unless dtype and dimensions match."""
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
    except ValueError as error:  # more elements than addresses
        raise DamagedError(f"its {name}: {error}") from None  # noqa: EM102


@contextmanager
def _explain_damage(where: str, *classes: type[State]) -> Iterator[None]:
    """Turn DamagedError into ValueError that names the expected classes."""
    try:
        yield
    except DamagedError as error:
        validate.fail(f"{where} {describe_damage(error, classes)}")


def _check_path(path: Any) -> str:
    """Validate that `path` is a path and return it as a str."""
    if not isinstance(path, str | bytes | PathLike):
        validate.refuse("path", "a str or path, or a file of bytes", type(path).__name__, TypeError)
    return validate.path_name("path", path)


def _check_binary(file: Any) -> None:
    """Raise TypeError for a file opened in text mode."""
    if isinstance(file, io.TextIOBase):
        validate.refuse("path", "a path, or a file of bytes", "one of text", TypeError)


def _write(file: Any, data: bytes) -> None:
    """Write all of `data` to a file whose ``write`` may accept only a part at a time."""
    rest = memoryview(data)
    while rest:
        written = file.write(rest)
        rest = rest[len(rest) if written is None else written :]
