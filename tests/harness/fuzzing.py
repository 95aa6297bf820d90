"""Calls of all public functions with arguments drawn by Hypothesis, and the properties that results must have.

A call either is refused in words of ours that name the function and the argument, or gives the bits that the same call
with clean contiguous copies of its arrays gives. It changes nothing that it was given and says nothing else.
"""

import contextlib
import inspect
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from backends import BACKENDS
from callables import ENTRIES, ONLY_BI, STATES, Entry, call, get_message_name, options, right, wrong
from checks import host, library
from hypothesis import strategies as st
from optional import torch

import cmfast

# What a call may raise, and for two kinds of arguments also what Python raises.
REFUSALS = (TypeError, ValueError, OverflowError, MemoryError, cmfast.FailureError)
OF_PATHS = (*(f"{name}.{way}" for name in STATES for way in ("save", "load")), "CellAccumulator")
OF_INDICES = (
    "Support.explain",
    "MarginsResult.explain",
    "MarginsSupport.explain",
    "RakeResult.explain",
    "BalanceResult.explain",
    "RoundedTable.explain",
    "TargetEstimate.explain",
    "Comparison.parting",
    "Comparison.verdict",
    "GroupComparison.verdict",
    "Margins.plot",
    "MarginsResult.plot",
    "MarginsSupport.plot",
    "RoundedTable.plot",
    "Support.plot",
    "conformal.CcmCounts.plot",
    "conformal.CoverageCounts.plot",
)

# What NumPy, Numba and Python say in their own words.
RAW = re.compile(
    r"numpy\.|numba|nopython|ufunc|dtype\('|<class|object at 0x|Traceback|has no attribute|not subscriptable|"
    r"not iterable|not callable|unhashable|unsupported operand|not supported between|truth value|"
    r"cannot be interpreted|could not be broadcast|cannot reshape|cannot unpack|cannot convert|could not convert|"
    r"could not be interpreted|setting an array element|inhomogeneous|with shape \(|Unable to allocate|"
    r"Maximum allowed|array is too big|out of bounds|out of range|too large to|invalid literal|"
    r"division by zero|math domain|math range|must be real number, not|expected .* argument|positional argument|"
    r"unexpected keyword|not enough values|too many values|index \d+|_ArrayMemoryError|Exceeds the limit|"
    r"buffer|slice indices|zero-size array|axis \d+ is out|mismatch|safe casting|Cannot cast|same_kind"
)

SIZE = 4 << 30
"""Bytes beyond those in use that a call may ask for, so that what is too large is so on every machine."""

Array = np.ndarray


@dataclass(frozen=True)
class Given:
    """An argument as it is given, and the array that it stands for; None: it stands for none."""

    value: Any
    clean: Array | None
    how: str

    def __repr__(self) -> str:
        values = repr(self.clean if self.clean is not None else self.value).replace("\n", "")
        return f"<{self.how} {values}>"


def shown(value: Any) -> str:
    """Return how a message may show `value`."""
    try:
        return " ".join(repr(value).split())
    except ValueError:  # an integer of thousands of digits
        return f"an integer of {value.bit_length()} bits"


@dataclass(frozen=True, repr=False)
class Call:
    """One call: every array, and the options that are not left out."""

    name: str
    arrays: dict[str, Given]
    options: dict[str, Any] = field(default_factory=dict)
    inner: str = "numpy"
    """How arrays are given that are inside of other arguments."""

    def __repr__(self) -> str:
        what = {**self.arrays, **self.options}
        return f"{self.name}({', '.join(f'{name}={shown(value)}' for name, value in what.items())}; {self.inner})"

    @property
    def entry(self) -> Entry:
        """Of the table of callables."""
        return ENTRIES[self.name]

    @property
    def comparable(self) -> bool:
        """Whether every array stands for one of NumPy's."""
        return all(given.clean is not None or given.value is None for given in self.arrays.values())


# Arrays

TYPES = (
    "?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8",
    "g", "F", "D", "M8[s]", "m8[D]", "U", "S", "T", "O", "i4,f8",
)  # fmt: skip
NUMBERS = TYPES[:12]
TEXTS = ("U", "S", "T", "O")


def _strange(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Return values of a type of numbers that are seldom thought of."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        return (np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, info.smallest_subnormal, info.tiny, info.max, -info.max, 0.1)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return (info.min, info.max, 0, 1, 2, info.max - 1, *(() if dtype.kind == "u" else (-1,)))
    return (False, True) if dtype.kind == "b" else ()


def _cast(array: Array, code: str) -> Array:
    if code == "T":
        return array.astype(np.dtypes.StringDType())
    if code == "i4,f8":
        return np.zeros(array.shape, code)
    with np.errstate(all="ignore"):
        return array.astype({"U": "U4", "S": "S4"}.get(code, code))


def _shared(a: Array) -> Array:
    """Return the first row of `a` again and again, all in one place."""
    return np.broadcast_to(a[:1], a.shape) if a.ndim else a


def _unaligned(a: Array) -> Array:
    if a.dtype.hasobject or a.dtype.kind == "T":
        return a.copy()
    room = np.zeros(a.nbytes + 1, np.uint8)
    view = room[1:].view(a.dtype) if a.nbytes else np.empty(0, a.dtype)
    view = view.reshape(a.shape)
    view[...] = a
    return view


LAYOUTS: dict[str, tuple[Callable[[Array], Any], Callable[[Array], bool]]] = {
    backend.name: (backend.make, backend.accepts) for backend in BACKENDS if backend.target == "cpu"
}
LAYOUTS |= {
    "shared": (_shared, lambda a: a.size > 0),
    "unaligned": (_unaligned, lambda a: True),
    "scalar": (lambda a: a[()] if a.ndim == 0 else a.copy(), lambda a: a.ndim == 0),
}
LIBRARIES = ("numpy", "torch", "array_api_strict")
OF_NUMPY = [name for name in LAYOUTS if not name.startswith(("torch", "array-api", "jax"))]
WITH_ITS_VALUES = [name for name in OF_NUMPY if name != "shared"]


def arrange(array: Array, how: str) -> Given:
    """Return `array` in the layout `how`, or unchanged if it cannot have that layout."""
    make, accepts = LAYOUTS[how]
    object_like = array.dtype.hasobject or array.dtype.kind == "T"
    if not accepts(array) or (object_like and how == "memory-map") or (how == "byteswapped" and object_like):
        make, how = np.copy, "numpy"
    value = make(array)
    clean = np.array(value, order="C") if how == "shared" else array.copy()
    return Given(value, clean, how)


ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400,
    0.0, -0.0, 0.5, 1e-320, 1e308, np.nan, np.inf, -np.inf, 1j, Decimal("0.5"), Fraction(1, 2),
    "", "nonsense", "row", "\x1b[31m", "a\nb", "\udc80", b"", b"row", np.str_("row"),
    (), [], {}, set(), [1], [0.5, np.nan], [None], ["row"], ["a", 1], [[1, 2], [3]], [[]], [[[0]]], (1, 2, 3), {"a": 1},
    range(3), slice(1), object(), object, len, ..., NotImplemented, Exception("x"), memoryview(b"12"), bytearray(b"12"),
    np.float32(0.5), np.int64(3), np.bool_(True), np.datetime64("NaT"), np.array(2), np.array(0.5), np.array([1, 2]),
    np.array([[0.5, np.nan]]), np.zeros((0, 2)), np.array(["a", "b"]), np.array([None, 1], object),
    np.array([1, 2], "M8[s]"), torch.tensor(2), torch.ones(2, 2), torch.ones(2, requires_grad=True),
)  # fmt: skip

# Large valid values of these options make results or run times large.
SMALL = {"origins", "max_iter", "levels", "n_resamples", "size", "k"}


def _too_long(option: str, value: Any) -> bool:
    """Return whether `value` is valid for `option`, but takes too long."""
    if option not in SMALL:
        return False
    try:
        return int(value) > 1000
    except (TypeError, ValueError, OverflowError):
        return False


def _options(entry: Entry) -> list[str]:
    some = inspect.signature(entry.of(np.asarray)).parameters.values()
    more = ONLY_BI if any(p.kind == p.VAR_KEYWORD for p in some) else ()
    # True shows progress on stderr; that is what it is for.
    return [option for option in (*options(entry), *more) if option not in entry.free]


LENGTHS = (0, 1, 2, 3, 5)


@st.composite
def calls(draw: Any, name: str) -> Call:
    """Return a call of `name`: half of them with one fault or two, most others with something unusual."""
    entry = ENTRIES[name]
    fault = draw(st.sampled_from(("none", "none", "none", "array", "option", "option", "both")))
    inner = draw(st.sampled_from(WITH_ITS_VALUES))
    arrays = dict(entry.arrays)
    made: dict[str, Given] = {}
    if arrays:
        made = draw(_arrays(entry, arrays, faulty=fault in ("array", "both")))
    names = _options(entry)
    chosen: dict[str, Any] = {}
    if names:
        for option in draw(st.lists(st.sampled_from(names), max_size=3, unique=True)):
            chosen[option] = draw(st.sampled_from(right(entry, option)))
        if fault in ("option", "both"):
            option = draw(st.sampled_from(names))
            values = (*wrong(entry, option), *ODD)
            value = draw(st.sampled_from(values))
            if not _too_long(option, value) and not (option == "progress" and value is True):
                chosen[option] = value
    return Call(name, made, chosen, inner)


@st.composite
def _arrays(draw: Any, entry: Entry, arrays: dict[str, Array], *, faulty: bool) -> dict[str, Given]:
    new = dict(arrays)
    if draw(st.booleans()):  # the same axes of all of them are longer or shorter
        lengths = {
            n: draw(st.sampled_from((n, *LENGTHS))) for n in sorted({n for a in arrays.values() for n in a.shape})
        }
        new = {k: np.resize(a, [lengths[n] for n in a.shape]) for k, a in new.items()}
    if entry.batch and draw(st.integers(0, 3)) == 0:
        rows = draw(st.sampled_from((0, 1, 3)))
        new = {k: np.resize(a, (rows, *a.shape)) if k in entry.batch else a for k, a in new.items()}
    names = list(new)
    types = draw(st.sampled_from(("kept", "kept", "kept", "kept", "all", "all", "each", "each", "text")))
    code = draw(st.sampled_from(NUMBERS))
    if types == "text":
        code = draw(st.sampled_from(TEXTS))
        new |= {k: _cast(new[k], code) for k in ("y_true", "y_pred") if k in new}
        types = "kept"
    for k in names:
        if types == "each":
            code = draw(st.sampled_from(NUMBERS))
        if types != "kept" and (types == "each" or not (new[k].dtype.kind in "iu" and code[0] == "f")):
            new[k] = _cast(new[k], code)
    if draw(st.integers(0, 2)) == 0:
        k = draw(st.sampled_from(names))
        new[k] = draw(_insert_strange_values(new[k]))
    layouts = {0: ("torch", "torch-transposed"), 1: ("array-api-strict",)}.get(draw(st.integers(0, 6)), tuple(OF_NUMPY))
    made = {k: arrange(a, draw(st.sampled_from(layouts))) for k, a in new.items()}
    for k in entry.optional:
        if draw(st.booleans()):
            made[k] = Given(None, None, "left out")
    if faulty:
        k = draw(st.sampled_from(names))
        made[k] = draw(_wrong(new[k]))
    return made


@st.composite
def _insert_strange_values(draw: Any, array: Array) -> Array:
    some = _strange(array.dtype)
    if not some or not array.size:
        return array
    array = array.copy()
    if draw(st.booleans()):
        array[...] = draw(st.sampled_from(some))
    for _ in range(draw(st.integers(0, 2))):
        array.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(some))
    return array


@st.composite
def _wrong(draw: Any, array: Array) -> Given:
    """Return what is probably no such array: of another type, shape or kind."""
    what = draw(st.sampled_from(("type", "shape", "kind", "library")))
    how = draw(st.sampled_from(OF_NUMPY))
    if what == "type":
        return arrange(_cast(array, draw(st.sampled_from(TYPES))), how)
    if what == "shape":
        change = draw(st.sampled_from(("drop", "add", "end", "longer", "none", "any")))
        if change == "drop" and array.size and array.ndim:
            array = array[0]
        elif change == "add":
            array = array[None]
        elif change == "end":
            array = array[..., None]
        elif change == "longer" and array.ndim:
            array = np.resize(array, (*array.shape[:-1], array.shape[-1] + 1))
        elif change == "none":
            array = np.resize(array, ())
        elif change == "any":
            array = np.resize(array, draw(st.lists(st.sampled_from(LENGTHS), max_size=4)))
        return arrange(np.asarray(array), how)
    if what == "library" and array.dtype.kind in "buif":
        return arrange(array, draw(st.sampled_from(("torch", "array-api-strict"))))
    return Given(draw(st.sampled_from(ODD)), None, "odd")


# What came of a call


@dataclass
class Outcome:
    """What one call did."""

    result: Any = None
    error: Exception | None = None
    warned: list[warnings.WarningMessage] = field(default_factory=list)
    printed: str = ""
    state: Any = None
    """Of the object whose method it was."""


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Refuse to allocate much, on Linux: memory that is promised without being there would take for ever."""
    if sys.platform != "linux":
        yield
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - many times
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = used + SIZE if hard == resource.RLIM_INFINITY else min(used + SIZE, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run(what: Call, values: dict[str, Any], make: Callable[[Array], Any]) -> Outcome:
    """Make the call with `values` for its arrays."""
    out = Outcome()
    bound: list[Any] = []

    def function(made: Callable[[Array], Any]) -> Any:
        found = what.entry.of(made)
        bound.append(getattr(found, "__self__", None))
        return found

    entry = Entry(**{**vars(what.entry), "of": function})
    text = io.StringIO()
    with warnings.catch_warnings(record=True) as out.warned:
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text), little_memory():
            try:
                out.result = call(entry, make, **values, **what.options)
            except Exception as error:  # noqa: BLE001 - the caller checks every error
                out.error = error
    if what.name == "config" and out.result is not None:
        with out.result:  # one that is dropped without a block warns
            pass
    out.printed = text.getvalue()
    if bound and isinstance(bound[-1], cmfast.CellAccumulator):
        out.state = (bound[-1].n_points, bound[-1].n_dropped, bound[-1].counts())
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    return out


def arrays_in(value: Any) -> Iterator[Any]:
    """Yield every array in an argument or a result."""
    for _, leaf in leaves(value):
        if isinstance(leaf, np.ndarray | torch.Tensor) or library(leaf) == "array_api_strict":
            yield leaf


def leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all that is in a result, and where."""
    if isinstance(value, cmfast.CellAccumulator):
        yield from leaves((value.n_points, value.n_dropped, value.counts()), where)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{where}[{key!r}]")
    elif isinstance(value, tuple | list):
        for k, item in enumerate(value):
            yield from leaves(item, f"{where}[{k}]")
    elif type(value).__module__.partition(".")[0] == "cmfast" and not isinstance(value, int):
        names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
        for name in names:
            yield from leaves(getattr(value, name, None), f"{where}.{name}")
    else:
        yield where, value


def bits(leaf: Any) -> Any:
    """Return a comparable form of a result that is independent of its library."""
    if (
        hasattr(leaf, "dtype")
        and library(leaf) in ("numpy", "torch", "array_api_strict")
        and not isinstance(leaf, np.dtype)
    ):
        array = host(leaf)
        held = list(map(bits, array.ravel())) if array.dtype.hasobject else array.tobytes()
        return array.dtype.str, array.shape, held
    if isinstance(leaf, str | bytes | int | float | complex | None):
        return type(leaf).__name__, repr(leaf)
    return type(leaf).__name__  # a figure, a table


def _memory(array: Any) -> Array:
    return array.detach().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)


def _snapshot(array: Any) -> Any:
    array = _memory(array)
    base = array.base if isinstance(array.base, np.ndarray) else array
    parts = [x.tolist() if x.dtype.hasobject or x.dtype.kind == "T" else x.tobytes() for x in (array, base)]
    flags = array.shape, array.strides, array.dtype.str, array.flags.writeable
    return repr(parts), flags


def spoken(what: Call, error: Exception) -> list[str]:
    """Return what is wrong with how a call was refused."""
    kind, text = type(error), str(error)
    if kind not in REFUSALS:
        if isinstance(error, OSError) and what.name.startswith(OF_PATHS):
            return []
        if not (kind is IndexError and what.name in OF_INDICES):
            return [f"raw {kind.__name__}: {text}"]
    front = f"{get_message_name(what.name)}: "
    found = []
    if not text.startswith(front):
        found.append(f"another name in front: {text}")
    rest = text.removeprefix(front)
    named = {*what.entry.arrays, *_options(what.entry), *what.entry.free}
    if kind is not cmfast.FailureError and not any(re.search(rf"\b{name}\b", rest) for name in named):
        found.append(f"no argument named: {text}")
    if "\n" in text or "\r" in text or "\x1b" in text:
        found.append(f"more than a line: {text!r}")
    values = map(shown, [*what.options.values(), *(one.value for one in what.arrays.values())])
    for value in sorted(values, key=len, reverse=True):
        rest = rest.replace(value, "...")  # said of an object, if not by us
    if raw := RAW.search(rest):
        found.append(f"raw text {raw[0]!r}: {text}")
    return found


def faults(what: Call) -> list[str]:
    """Make a call, and the same with clean copies of its arrays; return all that must not be."""
    values = {name: one.value for name, one in what.arrays.items()}
    before = {
        name: [_snapshot(a) for a in arrays_in(value)] for name, value in [*values.items(), *what.options.items()]
    }
    inside: list[Any] = []

    def make(array: Array) -> Any:
        inside.append(arrange(array, what.inner).value)
        return inside[-1]

    got = run(what, values, make)
    found = []
    for name, value in [*values.items(), *what.options.items()]:
        if [_snapshot(a) for a in arrays_in(value)] != before[name]:
            found.append(f"{name} was changed")
    if got.printed:
        found.append(f"printed {got.printed!r}")
    ours = (cmfast.FailureWarning, cmfast.DiagnosticWarning)
    found += [f"warned {w.category.__name__}: {w.message}" for w in got.warned if w.category not in ours]
    for w in got.warned:
        if w.category in ours:
            text = str(w.message)
            if not text.startswith(f"{get_message_name(what.name)}: ") or "\n" in text or RAW.search(text):
                found.append(f"warned in other words: {text}")
    results = [_memory(a) for a in arrays_in(got.result)]
    inputs = [*values.values(), *(v for v in what.options.values() if not isinstance(v, cmfast.Grid)), inside]
    own = [_memory(a) for a in arrays_in(inputs)]
    if any(np.may_share_memory(a, b) for a in results for b in own):
        found.append("the result is in the memory of an argument")
    if got.error is not None:
        found += spoken(what, got.error)
        if what.name == "CellAccumulator.update" and (got.state[:2] != (0, 0) or len(got.state[2])):
            found.append("what raised has counted points")
    if what.comparable:
        found += _differences(what, got)
    return found


def _differences(what: Call, got: Outcome) -> list[str]:
    """Return how a call differs from that with clean copies."""
    clean = run(what, {name: None if one.value is None else one.clean for name, one in what.arrays.items()}, np.array)
    if got.error is not None or clean.error is not None:
        mixed = any(one.how.startswith(("torch", "array-api")) for one in what.arrays.values())
        texts = [_text(what, one.error) for one in (got, clean)]
        if texts[0] == texts[1] or (mixed and "one library" in (texts[0] or "")):
            return []
        return [f"clean copies gave {texts[1]}, these {texts[0]}"]
    pairs = [[(where, bits(leaf)) for where, leaf in leaves((one.result, one.state))] for one in (got, clean)]
    return [] if pairs[0] == pairs[1] else [f"clean copies gave other bits: {_first(*pairs)}"]


def _text(what: Call, error: Exception | None) -> str | None:
    if error is None:
        return None
    text = "" if isinstance(error, OSError) and what.name.startswith(OF_PATHS) else str(error)
    return f"{type(error).__name__}: {re.sub(r'dtype >', 'dtype <', text)}"  # of text, which is not converted


def _first(one: list[Any], other: list[Any]) -> str:
    if len(one) != len(other):
        return f"{len(one)} parts, not {len(other)}"
    return next(f"{a} and {b}" for a, b in zip(one, other, strict=True) if a != b)
