"""Text labels as integer codes plus the distinct texts, which takes 8 bytes per label however long the texts are."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from typing import Any, NoReturn

import numpy as np

from cmfast.kernels.loading import load

_BLOCK = 1 << 20  # bytes of the array converted to Python objects at a time
_LEAST_HASHED = 1 << 12  # texts from which a kernel encodes them; a dict needs no compiled code
_HASHED_TEXTS = 1 << 14  # texts of any length joined at a time
_LEAST_SHARED = 1 << 11  # texts from which addresses of objects are compared; for fewer a dict is as fast
_EXAMINED_TEXTS = 1 << 8  # at least, whose addresses show whether labels share objects
_SHARED_TEXTS = 1 << 16  # texts whose addresses are compared at a time
_LABELS_PER_OBJECT = 4  # at least, so that comparing addresses takes less time than a dict
_SLOT_BITS = 14
# A multiplicative hash, by the golden ratio and by two odd numbers of SplitMix64; its highest bits are the slot.
_MULTIPLIERS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)))
_SHIFT = np.uint64(64 - _SLOT_BITS)
MISSING = " missing (first: "  # in all messages about missing values
_MOST_AXES = 64  # NumPy's limit; also stops at a list that contains itself


@dataclass(frozen=True, eq=False, slots=True)
class Coded:
    """An array of text as codes (positions in its distinct texts), or an integer column stored as such codes.

    NumPy's text arrays give every label the width of the longest one; codes take eight bytes per label.

    Attributes
    ----------
    codes : array of int, shape (...)
        Position of each label in `names`.
    names : list of str, of bytes, of bool or of int
        Distinct values; not all need to occur.
    dtype : dtype
        The dtype that NumPy would use, for messages.
    ordered : bool
        Whether the order of `names` is meaningful.
    """

    codes: np.ndarray
    names: list[Any]
    dtype: np.dtype[Any]
    ordered: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the array holds text and not integers."""
        return self.dtype.kind in "US"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.codes.shape

    def take(self, codes: np.ndarray) -> "Coded":
        """Return this array indexed by `codes`, reusing `codes` as they are if no text occurs twice."""
        if len(self.names) < len(self.codes):
            return Coded(self.codes[codes], self.names, self.dtype)
        return Coded(codes, [self.names[k] for k in self.codes.tolist()], self.dtype)


def encode_categories(values: list[Any], codes: np.ndarray, *, ordered: bool) -> Coded | None:
    """Return a categorical column of texts or integers as :class:`Coded`; None for values of other or mixed types."""
    names = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = set(map(type, names))
    if len(kinds) != 1 or not kinds <= {str, bytes, bool, int}:
        return None
    dtype = _dtype(names) if kinds <= {str, bytes} else np.array(names).dtype
    if dtype.kind not in "USbiu":  # integers that no dtype holds together
        return None
    known = {name: k for k, name in enumerate(dict.fromkeys(names))}
    if len(known) < len(names):
        codes = np.array([known[name] for name in names], np.int64)[codes]
    return Coded(codes, list(known), dtype, ordered)


class _Positions(dict[Any, int]):
    """Dict from value to position, in order of first occurrence."""

    def __missing__(self, value: Any) -> int:
        self[value] = position = len(self)
        return position


def encode(x: np.ndarray, plain: Callable[[Any], Any] | None = None) -> Coded:
    """Encode a text array of any dtype; `plain` converts subclass instances to exact ``str`` or ``bytes``."""
    found = encode_many(x)
    if found is not None:
        return found
    positions = _Positions()
    codes = np.empty(x.size, np.int64)
    step = max(1, _BLOCK // max(1, x.itemsize))
    flat = x.reshape(-1) if x.dtype.kind == "T" else x.flat  # reshape would copy strided arrays of fixed-width text
    for start in range(0, x.size, step):
        block = flat[start : start + step].tolist()
        values = block if plain is None else map(plain, block)
        codes[start : start + len(block)] = np.fromiter(map(positions.__getitem__, values), np.int64, len(block))
    dtype = x.dtype if x.dtype.kind in "US" else _dtype(positions)
    return Coded(codes.reshape(x.shape), list(positions), dtype)


def encode_many(x: Any) -> Coded | None:
    """Encode an array or list of many texts by their bytes; None for few, for other values, or with NUL characters."""
    fixed = isinstance(x, np.ndarray) and x.dtype.kind in "US"
    size = x.size if isinstance(x, np.ndarray) else len(x)
    if size >= _LEAST_SHARED and not (isinstance(x, np.ndarray) and x.dtype.kind != "O"):
        found = _encode_shared_objects(x, size)
        if found is not None:
            return found
    if size < _LEAST_HASHED or (fixed and not x.itemsize):
        return None
    kernels = load("cmfast.kernels.cpu._core.texts")
    table, names, codes = kernels.TextCodes(), list[Any](), np.empty(size, np.int32)
    is_whole = isinstance(x, np.ndarray) and (x.flags.c_contiguous or x.dtype.kind == "T")
    flat: Any = x.reshape(-1) if is_whole else x.flat if isinstance(x, np.ndarray) else x
    step = max(1, _BLOCK // x.itemsize) if fixed else _HASHED_TEXTS
    try:
        for start in range(0, size, step):
            block = flat[start : start + step]
            if fixed:
                codes[start : start + step], new = table.encode_rows(block)
                names += block[new].tolist()
            else:
                texts = block.tolist() if isinstance(block, np.ndarray) else block
                codes[start : start + step], new = table.encode_bytes(_join(texts, kernels.WORD_BYTES), len(texts))
                names += [_convert_to_plain(texts[k]) for k in new.tolist()]
    except (kernels.HashingError, TypeError):  # a value that is not text cannot be joined
        return None
    dtype = x.dtype if fixed else np.dtype((type(names[0]), min(max(map(len, names)), 2**20)))
    return Coded(codes.reshape(x.shape) if isinstance(x, np.ndarray) else codes, names, dtype)


def _encode_shared_objects(x: Any, size: int) -> Coded | None:
    """Encode an object array or list of texts by the addresses of the objects, if many labels share one object.

    None for other values, or many objects. To compare addresses takes a quarter of the time of a dict of texts.
    """
    flat = x.reshape(-1) if isinstance(x, np.ndarray) else x
    text = next((kind for kind in (str, bytes) if isinstance(flat[0], kind)), None)
    some = flat[:: size // _EXAMINED_TEXTS]
    some = some.tolist() if isinstance(some, np.ndarray) else some
    if text is None or 2 * len(set(map(id, some))) > len(some):
        return None
    positions, codes = _Positions(), np.empty(size, np.int32)
    for start in range(0, size, _SHARED_TEXTS):
        block = flat[start : start + _SHARED_TEXTS]
        objects = block if isinstance(block, np.ndarray) else np.fromiter(block, object, len(block))
        if not _write_shared_codes(objects, text, positions, codes[start : start + _SHARED_TEXTS]):
            return None
    dtype = np.dtype((text, min(max(map(len, positions)), 2**20)))
    return Coded(codes.reshape(x.shape) if isinstance(x, np.ndarray) else codes, list(positions), dtype)


def _write_shared_codes(objects: np.ndarray, text: type, positions: _Positions, codes: np.ndarray) -> bool:
    """Write the codes of texts by hash tables of addresses; return False for other values, or many objects.

    The first label of a slot represents it. Labels of other objects in that slot are left for the next table.
    """
    addresses = np.asarray(_Addresses(objects))
    pending: Any = np.arange(len(objects), dtype=np.int32)
    indices = np.empty(0, np.int32)  # of the first label of each object
    for multiplier in _MULTIPLIERS:
        left = addresses if len(pending) == len(objects) else addresses[pending]
        slots = ((left * multiplier) >> _SHIFT).view(np.int64)
        table, order = np.empty(1 << _SLOT_BITS, np.int32), np.arange(len(left), dtype=np.int32)
        table[slots[::-1]] = order[::-1]  # the last one written is the first label
        first = table[slots]
        distinct = (first == order).nonzero()[0]
        table[slots[distinct]] = np.arange(len(indices), len(indices) + len(distinct))
        indices = np.concatenate([indices, pending[distinct]])
        if _LABELS_PER_OBJECT * len(indices) > len(objects):
            return False
        codes[slice(None) if left is addresses else pending] = table[slots]
        pending = pending[left[first] != left]
        if not len(pending):
            return _write_positions(objects, indices, text, positions, codes)
    return False


def _write_positions(
    objects: np.ndarray, indices: np.ndarray, text: type, positions: _Positions, codes: np.ndarray
) -> bool:
    """Replace codes, which are places in `indices`, by positions of the texts; return False for other values."""
    order = indices.argsort()
    values = objects[indices[order]].tolist()
    kinds = set(map(type, values))
    if not all(issubclass(kind, text) for kind in kinds):
        return False
    plain = values if kinds == {text} else map(_convert_to_plain, values)
    table = np.empty(len(indices), np.int32)
    table[order] = list(map(positions.__getitem__, plain))
    if not np.array_equal(table, np.arange(len(table))):
        codes[:] = table[codes]
    return True


class _Addresses:
    """The addresses of the objects of an array, as unsigned integers, by NumPy's array interface."""

    def __init__(self, objects: np.ndarray) -> None:
        self._objects = objects  # which must outlive the addresses
        typestr = f"{'<' if sys.byteorder == 'little' else '>'}u{objects.itemsize}"
        self.__array_interface__ = objects.__array_interface__ | {"typestr": typestr, "descr": [("", typestr)]}


def encode_slices(
    parts: list[tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], list[Any]]]],
) -> tuple[list[Any], np.ndarray] | None:
    """Return distinct texts and the code of each text ``data[ends[k]:ends[k + 1]]``; None for few texts.

    Each part has `data` (uint8), `ends`, and a function that returns the texts at some indices as Python objects.
    """
    size = sum(len(ends) - 1 for _, ends, _ in parts)
    if size < _LEAST_HASHED:
        return None
    kernels = load("cmfast.kernels.cpu._core.texts")
    table, names, codes, first = kernels.TextCodes(), list[Any](), np.empty(size, np.int32), 0
    try:
        for data, ends, take in parts:
            for start in range(0, len(ends) - 1, _HASHED_TEXTS):
                some, new = table.encode_slices(data, ends[start : start + _HASHED_TEXTS + 1])
                codes[first : first + len(some)] = some
                first += len(some)
                if len(new):
                    names += take(new + start)
    except kernels.HashingError:
        return None
    return names, codes


def _join(texts: Sequence[Any], padding: int) -> bytes:
    """Join texts, each followed by a zero byte, and add zero bytes; raise TypeError for other values."""
    if isinstance(texts[0], bytes):
        return b"\0".join(texts) + bytes(1 + padding)
    return "\0".join(texts).encode("utf-8", "surrogatepass") + bytes(1 + padding)


def _convert_to_plain(text: str | bytes) -> str | bytes:
    """Return a text of a subclass as exact ``str`` or ``bytes``."""
    return str.__str__(text) if isinstance(text, str) else bytes.__bytes__(text)


def _dtype(names: Iterable[Any]) -> np.dtype[Any]:
    """Return the NumPy text dtype of the longest name."""
    longest, letter = 0, "U"
    for name in names:
        if isinstance(name, str | bytes):  # the caller refuses the na_object of a StringDType
            longest, letter = max(longest, len(name)), "U" if isinstance(name, str) else "S"
    return np.dtype(f"{letter}{min(longest, 2**20)}")


def match_labels(labels: Sequence[Any], *arrays: Coded) -> list[np.ndarray]:
    """Convert arrays to positions in `labels`, -1 for texts not among them."""
    index = {name: k for k, name in enumerate(labels)}
    return [np.array([index.get(name, -1) for name in y.names], np.int64)[y.codes] for y in arrays]


def list_occurring(y: Coded) -> set[Any]:
    """Return the set of texts that occur."""
    occurs = np.zeros(len(y.names), np.bool_)
    occurs[y.codes] = True
    return {y.names[k] for k in np.flatnonzero(occurs)}


def leaf_types(x: Sequence[Any]) -> tuple[set[type], int]:
    """Return the types of the elements of nested lists, and their depth."""
    depth = 0
    while True:
        kinds = set(map(type, _flatten_levels(x, depth)))
        if not kinds or depth == _MOST_AXES or not all(issubclass(kind, list | tuple) for kind in kinds):
            return kinds, depth
        depth += 1


def _flatten_levels(x: Iterable[Any], depth: int) -> Iterable[Any]:
    """Flatten nested iterables by `depth` levels."""
    for _ in range(depth):
        x = chain.from_iterable(x)
    return x


def is_text(kinds: set[type]) -> bool:
    """Whether any of these types is text (str or bytes), so that NumPy would convert the rest to text."""
    return any(issubclass(kind, str | bytes) for kind in kinds)


def is_missing(kinds: set[type]) -> bool:
    """Whether any of these types marks missing values: NoneType, NAType, NaTType."""
    return any(kind is type(None) or kind.__name__ in {"NAType", "NaTType"} for kind in kinds)


def are_integers(kinds: set[type]) -> bool:
    """Whether all of these types are integers or bools."""
    return bool(kinds) and all(issubclass(kind, int | np.integer | np.bool_) for kind in kinds)


def encode_objects(name: str, x: np.ndarray) -> Coded | np.ndarray:
    """Encode an array of Python objects, all texts of one type or all integers; raise for anything else.

    An empty array counts as text: a column of labels after every row was filtered out.
    """
    found = encode_many(x)
    if found is not None:
        return found
    kinds = set(map(type, x.flat))
    if are_integers(kinds):
        return _convert_integers(name, x, kinds)
    for text, plain in ((str, str.__str__), (bytes, bytes.__bytes__)):
        if all(issubclass(kind, text) for kind in kinds):
            return encode(x, None if kinds == {text} else plain)
    numbers = all(issubclass(kind, int | float | np.number | np.bool_) for kind in kinds)
    if not numbers:
        _refuse_missing_objects(name, x)
    if is_text(kinds):
        _refuse_mixed(name, x)
    what = ", ".join(sorted(kind.__name__ for kind in kinds))
    cure = f"; give {name}.astype(float)" if numbers else _suggest_attribute(name, kinds)
    msg = f"{name} must be an array of numbers, got Python objects ({what}){cure}"
    raise TypeError(msg)


def _convert_integers(name: str, x: np.ndarray, kinds: set[type]) -> np.ndarray:
    """Convert an array of Python ints to bool, int64 or uint64, exactly."""
    if all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return x.astype(np.bool_)
    try:
        return x.astype(np.int64)
    except OverflowError:
        return convert_to_uint64(name, x)


def _suggest_attribute(name: str, kinds: set[type]) -> str:
    """Return advice for objects that hold a matrix (use ``.matrix``), for models, or for dates; "" for others."""
    if all(issubclass(kind, date) for kind in kinds):
        return f"; give dates as text: list(map(str, {name}))"
    if len(kinds) == 1 and all(hasattr(kind, "predict") for kind in kinds):
        return "; give what it predicts, as model.predict(X)"
    if len(kinds) > 1 or not all(hasattr(kind, "matrix") for kind in kinds):
        return ""
    return f"; give {name}.matrix"


def _refuse_missing_objects(name: str, x: np.ndarray) -> None:
    """Raise ValueError if an object array holds None, NA, NaT or NaN."""
    bad = [k for k, value in enumerate(x.flat) if is_missing({type(value)}) or _is_nan(value)]
    if bad:
        refuse_missing(name, len(bad), np.unravel_index(bad[0], x.shape), x.flat[bad[0]])


def _is_nan(value: Any) -> bool:
    """Whether a value is a float NaN."""
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _refuse_mixed(name: str, x: np.ndarray) -> NoReturn:
    """Raise TypeError that lists the types in an object array, with the first value of each."""
    first: dict[str, str] = {}
    for k, value in enumerate(x.flat):
        first.setdefault(type(value).__name__, f"{value!r:.40} at {format_index(np.unravel_index(k, x.shape))}")
    what = " and ".join(f"{kind} ({value})" for kind, value in first.items())
    msg = f"{name} must be values of one type, got {what}; make all of them text, or all of them numbers"
    raise TypeError(msg)


def refuse_missing(name: str, number: int, index: Iterable[Any], value: object) -> NoReturn:
    """Raise ValueError because `number` values are missing, the first at `index`."""
    cure = "fill them in, or leave them out of all arrays"
    msg = f"{name} must be without missing values, got {describe_missing(number, index, value)}; {cure}"
    raise ValueError(msg)


def describe_missing(number: int, index: Iterable[Any], value: object) -> str:
    """Return how many values are missing and the index of the first, for messages."""
    return f"{number}{MISSING}{value} at {format_index(index)})"


def format_index(index: Iterable[Any]) -> str:
    """Format an index as text."""
    found = tuple(int(k) for k in index)
    return str(found[0]) if len(found) == 1 else str(found)


def refuse_ragged(name: str, x: Any) -> NoReturn:
    """Raise TypeError for lists of unequal length, or for a named tuple of several arrays."""
    if hasattr(x, "_fields"):
        msg = f"{name} must be an array, got a {type(x).__name__} of several: give one of them, as its .{x._fields[0]}"
        raise TypeError(msg)
    msg = f"{name} must be an array of numbers, got a {type(x).__name__} with rows of different lengths"
    raise TypeError(msg)


def convert_to_uint64(name: str, x: Any) -> np.ndarray:
    """Convert Python ints that exceed int64 to uint64; raise TypeError if uint64 cannot hold them."""
    values = [int(value) for value in np.array(x, object).flat]
    low, high = min(values), max(values)
    if low < 0 or high >= 2**64:
        bits = max(low.bit_length(), high.bit_length())
        given = f"{low} and {high}" if bits <= 64 else f"one of {bits} bits"
        msg = f"{name} must be integers that int64 or uint64 holds together, got {given}"
        raise TypeError(msg)
    return np.array(x, np.uint64)
