"""What is fuzzed: for each kind of file every reader of cmfast that takes it, and what may come of reading it."""

import gc
import io
import json
import re
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fuzz.arcs import is_main_thread
from fuzz.mutators import unzipped

import cmfast
from cmfast import cli
from cmfast._files import contact_maps, matrices, points, survey_records, survey_totals, tables
from cmfast._files.output import FileError
from cmfast.cli import _saved_counts
from cmfast.cli.commands import _merge

SECONDS = 2.0  # of processor time that a reader may take for an input
AGAIN = 0.1  # seconds until a signal that nothing came of is sent again
STATES = ("CellCounts", "ConfusionCounts", "Grid", "Projection", "conformal.CcmCounts", "conformal.CoverageCounts")
STATES += ("conformal.ScoreHistogram", "uncertainty.PairedCounts")
CLASSES = {name: attrgetter(name)(cmfast) for name in STATES}
# Text of Python and NumPy that says nothing to the person who named the file.
RAW = re.compile(
    r"zip\(\)|NoneType|is not subscriptable|not iterable|unhashable|list index|out of range|cannot reshape|could not "
    r"be broadcast|not supported between|invalid literal|has no attribute|to unpack|positional argument|KeyError|"
    r"maximum recursion|Maximum allowed dimension|too large to convert|JSON compliant|codec can't"
)
QUOTES = ("not readable (", "damaged npy file (", "is no zarr array (", "damaged zarr array (", "is no matrix of scipy")
QUOTES += ("holds what is no number (", "or is damaged: ")  # messages that quote another library, or JSON


class Reader(NamedTuple):
    """One reader: `call` reads bytes, or the path where they are; what it returns is whole, or `check` raises."""

    name: str
    call: Callable[[Any], Any]
    check: Callable[[Any], None] = lambda found: None
    refusal: str = ""
    """How the text of a ValueError begins; "": a FileError that names the file."""


class Target(NamedTuple):
    """A kind of input, and what reads it."""

    name: str
    kind: str
    """How it is changed: see ``mutators.KINDS``."""
    suffix: str
    """Of the file; "" where readers take the bytes."""
    readers: tuple[Reader, ...]
    needs: tuple[str, ...] = ()
    """Libraries."""
    crashes: str = ""
    """Why the process may crash: the reader is a library of others, in C++."""
    may_ask_for_memory: bool = False
    """Whether a library of others takes as much as a damaged file says; else MemoryError is a fault."""

    @property
    def missing(self) -> list[str]:
        """The libraries that are not here."""
        return [name for name in self.needs if find_spec(name) is None]


class Fault(NamedTuple):
    """What no input may do."""

    reader: str
    what: str
    where: str = ""

    @property
    def signature(self) -> tuple[str, str, str]:
        """The same for inputs of which one cause is to be expected."""
        return (self.reader, re.sub(r"\d+|'[^']*'|\"[^\"]*\"", "#", self.what)[:60], self.where)


class Late(BaseException):
    """A reader takes too long; nothing that catches Exception catches it."""


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raise Late after so many seconds of processor time; None: never. Time of other processes does not count.

    Python drops exceptions that are raised in callbacks of the garbage collector and in ``__del__``: no collection
    starts meanwhile, and the signal comes again until an exception arrives.
    """
    if seconds is None or not is_main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def late(number: int, frame: object) -> None:
        raise Late

    collects = gc.isenabled()
    gc.disable()
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        if collects:
            gc.enable()


def _where(error: BaseException) -> str:
    frames = [one for one in traceback.extract_tb(error.__traceback__) if _is_ours(one)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""


def _refused(reader: Reader, error: BaseException, path: Path | None) -> str:
    """Return what is wrong with an error, "" of one that is documented."""
    text = str(error)
    if reader.refusal:
        if not isinstance(error, ValueError | OverflowError | TypeError) or not re.match(reader.refusal, text):
            return f"raw {type(error).__name__}: {text[:300]}"
    elif not isinstance(error, FileError):
        return f"raw {type(error).__name__}: {text[:300]}"
    elif path is not None and f"{path.stem}." not in text:
        return f"no file is named: {text[:300]}"
    raw = RAW.search(text)
    if raw and not any(quote in text for quote in QUOTES):
        return f"raw text {raw[0]!r}: {text[:300]}"
    cause = error.__cause__
    if isinstance(cause, AttributeError | AssertionError | NameError) and _innermost_is_ours(cause):
        return f"caused by {type(cause).__name__}: {text[:300]}"
    return ""


def _innermost_is_ours(error: BaseException) -> bool:
    return _is_ours(traceback.extract_tb(error.__traceback__)[-1])


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return Path(frame.filename).is_relative_to(Path(cmfast.__file__).parent)  # a clone may have that name, too


def read(
    reader: Reader,
    given: Any,
    path: Path | None,
    seconds: float | None = None,
    *,
    may_ask_for_memory: bool = False,
    is_retry: bool = False,
) -> tuple[str, Fault | None]:
    """Return the outcome of one reader in a word or two, and the fault, if there is one.

    A reader that takes too long is called once more before that is a fault.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with limited(seconds):
                found = reader.call(given)
        except MemoryError:
            wrong = Fault(reader.name, "takes more memory than an input of its size may")
            return "memory", None if may_ask_for_memory else wrong
        except Late as error:
            if not is_retry:  # the first call of a reader may import and compile
                return read(reader, given, path, seconds, may_ask_for_memory=may_ask_for_memory, is_retry=True)
            return "late", Fault(reader.name, f"takes over {seconds} s", _where(error))
        except Exception as error:  # noqa: BLE001
            said = _refused(reader, error, path)
            outcome = re.sub(r"\d+|'[^']*'|\"[^\"]*\"|\S*/\S*", "", str(error))[:60]
            return outcome, Fault(reader.name, said, _where(error)) if said else None
        try:
            reader.check(found)
        except MemoryError:
            return "memory", Fault(reader.name, "what was read takes more memory than an input of its size may")
        except Exception as error:  # noqa: BLE001
            what = f"what was read is not whole, {type(error).__name__}: {str(error)[:300]}"
            return "not whole", Fault(reader.name, what, _where(error))
    ours = (cmfast.FailureWarning, cmfast.DiagnosticWarning)
    # zarr's own, of metadata of two versions in one folder, names the file and says which one it reads.
    others = [one for one in caught if not (issubclass(one.category, ours) or one.category.__module__[:4] == "zarr")]
    if others:
        return "warned", Fault(
            reader.name, f"warned {others[0].category.__name__}: {others[0].message}", Path(others[0].filename).name
        )
    return "read", None


def faults(target: Target, data: bytes, folder: Path, seconds: float | None = None) -> tuple[list[str], list[Fault]]:
    """Return what came of `data` in every reader, and the faults."""
    path: Path | None = None
    given: Any = data
    if target.suffix:
        given = path = folder / f"input{target.suffix}"
        place(path, data)
    may = target.may_ask_for_memory
    each = [read(reader, given, path, seconds, may_ask_for_memory=may) for reader in target.readers]
    return [outcome for outcome, _ in each], [fault for _, fault in each if fault is not None]


def place(path: Path, data: bytes) -> None:
    """Write an input where readers find it; of a zarr array the archive holds the files of its folder."""
    if path.suffix != points.ZARR:
        path.write_bytes(data)
        return
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for name, content in unzipped(data) or []:
        parts = [part for part in name.split("/") if part]
        if parts and all(re.fullmatch(r"[\w.]{1,80}", part) and part.strip(".") for part in parts):
            inside = path.joinpath(*parts)
            if not inside.exists() and all(not one.is_file() for one in inside.parents):
                inside.parent.mkdir(parents=True, exist_ok=True)
                inside.write_bytes(content)


# States


def check_state(state: Any) -> None:
    """Assert that a state keeps its promises, is written and read as the same, and says what it is."""
    kind = type(state)
    written = state.to_bytes()
    assert kind.from_bytes(written) == state, "from_bytes(to_bytes()) is another"
    again = kind.from_json(state.to_json())
    same = again == state or again.to_json() == state.to_json()  # JSON has one NaN, of which float64 has many
    assert same, "from_json(to_json()) is another"
    assert kind.from_bytes(written).to_bytes() == written, "to_bytes() gives other bytes after reading"
    repr(state)
    for name in ("explain", "_repr_html_"):
        getattr(state, name, str)()
    INVARIANTS[kind.__name__](state)


def _check_confusion(state: Any) -> None:
    C = len(state.labels)
    assert len(set(state.labels)) == C, "a label is there twice"
    M = state._held.whole()
    assert M.shape == ((C, C) if state.groups is None else (len(state.groups), C, C)), "its shape is another"
    assert M.dtype in (np.int64, np.float64), "its dtype is another"
    assert M.dtype != np.int64 or not M.size or M.min() >= 0, "a count is negative"
    try:
        twice = state + state
    except OverflowError:
        return
    assert np.array_equal(twice._held.whole(), 2 * M, equal_nan=M.dtype.kind == "f"), "the sum with itself is another"


def _check_cells(state: Any) -> None:
    assert state.counts.dtype == np.int64, "its dtype is another"
    assert not len(state) or state.counts.min() > 0, "a count is not above 0"
    assert state.n_dropped >= 0, "n_dropped is negative"
    assert state.cells.shape == (len(state), state.grid.n_axes), "its cells have another shape"
    for ids in (state.labels, state.predictions):
        assert not len(state) or (ids.min() >= 0 and ids.max() < state.n_classes), "a class is none"


def _check_paired(state: Any) -> None:
    held = state._held
    assert (held.counts > 0).all(), "a count is not above 0"
    unit, *sides = held.decode()
    assert not len(unit) or unit.max() < held.n_units, "a unit is none"
    assert all(not len(side) or side.max() < len(held.axis.labels) for side in sides), "a class is none"


def _check_not_negative(*names: str) -> Callable[[Any], None]:
    def check(state: Any) -> None:
        for name in names:
            array = np.asarray(getattr(state, name))
            assert array.dtype == np.int64, f"{name} has another dtype"
            assert not array.size or array.min() >= 0, f"{name} is negative"

    return check


def _check_grid(state: Any) -> None:
    assert np.isfinite(state.origin).all(), "its origin is not finite"
    assert (state.width > 0).all(), "its width is not above 0"
    assert len(state.origin) == len(state.width) > 0, "its axes differ in number"


def _check_axes(state: Any) -> None:
    m, n = state.components.shape
    assert (state.mean.shape, state.explained_variance_ratio.shape) == ((n,), (m,)), "its arrays do not fit"


INVARIANTS: dict[str, Callable[[Any], None]] = {
    "CellCounts": _check_cells,
    "ConfusionCounts": _check_confusion,
    "Grid": _check_grid,
    "Projection": _check_axes,
    "CcmCounts": _check_not_negative("n", "G"),
    "CoverageCounts": _check_not_negative("V", "n"),
    "ScoreHistogram": _check_not_negative("counts"),
    "PairedCounts": _check_paired,
}


def _of_states(how: str, argument: str) -> Iterator[Reader]:
    for name, kind in CLASSES.items():
        text = rf"{name}\.{{}}: {{}} holds no {kind.__name__}, or is damaged: "
        yield Reader(f"{name}.{how}", getattr(kind, how), check_state, text.format(how, argument))
        yield Reader(
            f"{name}.load", lambda data, kind=kind: kind.load(io.BytesIO(data)), refusal=text.format("load", "path")
        )


def _load_state_dict(data: bytes) -> Any:
    try:
        facts = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return None
    counts = cmfast.ConfusionCounts()
    counts.load_state_dict({name: part for name, part in facts.items() if name not in ("class", "format", "digest")})
    return counts


def _check_loaded(counts: Any) -> None:
    if counts is not None:
        check_state(counts)


# Tables


def _quietly(done: int, total: int) -> None:
    """Show nothing."""


def _columns(*wanted: str | None, suffix: str = "") -> Callable[[Path], list[list[tables.Column]]]:
    def call(path: Path) -> list[list[tables.Column]]:
        if suffix:
            path = Path(shutil.copy(path, path.with_suffix(suffix)))
        return list(tables.iter_columns(path, wanted, header=None, tick=_quietly))

    return call


def _read_names(path: Path) -> list[str]:
    return tables.read_column_names(path, ("y_true", None), header=None)


def _check_names(names: list[str]) -> None:
    """Assert that columns have names of text."""
    assert all(isinstance(name, str) for name in names)


def check_columns(blocks: list[list[tables.Column]]) -> None:
    """Assert that every code stands for a label, of which no two are the same."""
    for block in blocks:
        assert len({len(column.codes) for column in block}) == 1, "columns differ in length"
        for column in block:
            assert len(set(column.labels)) == len(column.labels), "a label is there twice"
            inside = not len(column.codes) or (column.codes.min() >= 0 and column.codes.max() < len(column.labels))
            assert inside, "a code stands for no label"
            assert column.lines is None or len(column.lines) == len(column.labels), "lines differ in number"


def _matrices(path: Path) -> np.ndarray:
    return np.array(matrices.open_matrices(path, None, tick=_quietly))


def _counted(path: Path) -> np.ndarray:
    found = matrices.read_counted_table(path)
    return np.empty((0, 0)) if found is None else found[1]


def _check_array(array: np.ndarray) -> None:
    assert not array.dtype.hasobject, "it holds Python objects"
    _ = array.nbytes


def _points(path: Path) -> Any:
    return points.open_points(path, "y_true", "y_pred", None, tick=_quietly)


def _labels(path: Path) -> Any:
    return points.open_labels(path, "y_true", "y_pred")


def _rows(path: Path) -> Any:
    return points.open_rows(path, "y_pred", None, tick=_quietly)


def _check_points(found: Any) -> None:
    X, y, p = found
    assert X.dtype in (np.float32, np.float64), "its dtype is another"
    assert (y.dtype, p.dtype) == (np.int64, np.int64), "labels have another dtype"
    assert len(X) == len(y) == len(p), "its arrays differ in length"


def _check_labels(found: Any) -> None:
    assert found[0].dtype == found[1].dtype == np.int64, "labels have another dtype"
    assert found[0].shape == found[1].shape, "labels differ in number"


def _check_rows(found: Any) -> None:
    names, X, labels = found
    assert names is None or len(X) == len(labels), "rows and labels differ in number"


def _array(path: Path) -> Any:
    array = points.open_array(path, tick=_quietly)
    shape, dtype, _ = points.read_layout(path)
    assert (array.shape, array.dtype) == (shape, dtype), "layout and open_array differ"
    return np.array(array)


def _files_of_labels(path: Path) -> Any:
    points.count_labels([path, path], 10)
    return list(points.iter_labels([path, path], tick=_quietly))


KNOWN = survey_totals.Totals(
    [survey_totals.Target("", ("sex",), {("f",): {"": 3.0}, ("m",): {"": 2.0}}, {}),
     survey_totals.Target("age", (), {(): {"": 100.0}}, {})], [""],
)  # fmt: skip


def _records(path: Path) -> Any:
    found = survey_records.read_records(path, KNOWN, "weight", None, _quietly)
    return found, survey_records.make_design_matrix(
        found, KNOWN, survey_records.match_totals(path, KNOWN, found, by_area=False)
    )


def _check_records(both: Any) -> None:
    found, A = both
    n = found.codes.shape[1]
    assert found.weights.shape == (n,), "weights differ in number"
    assert A.shape[0] == n, "the design has other rows"
    for codes, names in zip(found.codes, found.categories, strict=True):
        assert codes.min() >= 0, "a code stands for no category"
        assert codes.max() < len(names), "a code stands for no category"


def _totals(by: str | None) -> Callable[[Path], Any]:
    return lambda path: survey_totals.read_totals(path, by)


def _check_totals(known: Any) -> None:
    for target in known.targets:
        for key in target.totals:
            assert len(key) == len(target.columns), "a key has another length than its columns"
            assert not np.isinf(survey_totals.collect_areas(target, key, known.areas)).any(), "a total is infinite"


def _map(path: Path) -> Any:
    resolution = 1000 if path.suffix == ".hic" else None
    return contact_maps.read_map(path, "/", resolution, _quietly)


def _check_map(found: Any) -> None:
    arrays = found.rows, found.columns, found.values
    assert all(isinstance(x, np.ndarray) and x.ndim == 1 for x in arrays), "its pixels are no columns"
    assert len(found.rows) == len(found.columns) == len(found.values), "its columns differ in length"
    assert all(x.dtype.kind in "iu" for x in arrays[:2]), "its places are no integers"
    assert found.values.dtype.kind in "iufb", "its values are no numbers"


def _weighted(path: Path) -> bool:
    return contact_maps.has_weights(path, "/", "weight")


def _command(*argv: str) -> Callable[[Path], tuple[int, str, str]]:
    def call(path: Path) -> tuple[int, str, str]:
        streams = sys.stdout, sys.stderr
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace", newline="\n") for _ in range(2))
        sys.stdout, sys.stderr = out, err
        try:
            status = cli.main([argv[0], str(path), *argv[1:], "--json"])
        finally:
            sys.stdout, sys.stderr = streams
        for stream in (out, err):
            stream.flush()
        return status, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()

    return call


def _check_command(found: tuple[int, str, str]) -> None:
    """Assert what the command promises: JSON, or one line that complains of the file."""
    status, out, err = found
    complaints = [
        line for line in err.split("\n") if line.startswith("cmfast: ") and not line.startswith("cmfast: warning: ")
    ]
    complaints = [line for line in complaints if "compiling" not in line]
    assert status in (0, 1, 2), f"its status is {status}"
    assert all(line.isprintable() for line in err.split("\n")), "it writes what a terminal may act on"
    if status == 2:
        assert len(complaints) == 1, f"it complains in {len(complaints)} lines"
        assert not out, "it complains and prints"
        assert "input." in complaints[0] or "not enough memory" in complaints[0], (
            f"it names no file: {complaints[0][:200]}"
        )
        raw = RAW.search(complaints[0])
        assert not raw or any(quote in complaints[0] for quote in QUOTES), f"raw text: {complaints[0][:200]}"
    else:
        assert not complaints, f"it complains and goes on: {complaints[0][:200]}"
        json.loads(out)


def _counts(path: Path) -> Any:
    return _saved_counts.read_counts(path, *_merge.KINDS)


COLUMNS = (
    Reader("tables.iter_columns", _columns(None, None), check_columns),
    Reader("tables.iter_columns by", _columns("y_true", "y_pred", "by"), check_columns),
    Reader("tables.read_column_names", _read_names, _check_names),
)
TABLES = (
    *COLUMNS,
    Reader("matrices.open_matrices", _matrices, _check_array),
    Reader("matrices.read_counted_table", _counted, _check_array),
    Reader("records.read_records", _records, _check_records),
    Reader("tidy_totals.read_totals", _totals(None), _check_totals),
    Reader("tidy_totals.read_totals by", _totals("area"), _check_totals),
    Reader("maps.read", _map, _check_map),
)
COMMANDS = (
    Reader("cmfast confusion", _command("confusion"), _check_command),
    Reader("cmfast confusion --by", _command("confusion", "--by", "by"), _check_command),
)
ARROW = (
    *TABLES,
    Reader("points.open_points", _points, _check_points),
    Reader("points.open_labels", _labels, _check_labels),
    Reader("points.open_rows", _rows, _check_rows),
    COMMANDS[1],
)
ARRAYS = (
    Reader("points.open_array", _array, _check_array),
    Reader("points.iter_labels", _files_of_labels, check_columns),
    Reader("matrices.open_matrices", _matrices, _check_array),
)
STATE_DICT = Reader(
    "ConfusionCounts.load_state_dict",
    _load_state_dict,
    _check_loaded,
    r"ConfusionCounts\.load_state_dict: (state_dict |matri(x|ces) must be )",
)
TARGETS = {
    target.name: target
    for target in (
        Target("state.npz", "zip", "", tuple(_of_states("from_bytes", "data"))),
        Target("state.json", "json", "", (*_of_states("from_json", "text"), STATE_DICT)),
        Target("counts.json", "json", ".json", (Reader("read_counts", _counts, check_state),)),
        Target("counts.npz", "zip", ".npz", (Reader("read_counts", _counts, check_state),)),
        Target(
            "table.csv",
            "csv",
            ".csv",
            (*TABLES, Reader("tables.iter_columns tsv", _columns(None, None, suffix=".tsv"), check_columns), *COMMANDS),
        ),
        Target("table.parquet", "bytes", ".parquet", ARROW, ("pyarrow",)),
        # Arrow takes as much memory for a batch, and NumPy for a header, as the file says that it has bytes.
        Target("table.arrow", "bytes", ".arrow", ARROW, ("pyarrow",), may_ask_for_memory=True),
        Target("array.npy", "npy", ".npy", (*ARRAYS, *COLUMNS), may_ask_for_memory=True),
        Target("array.zarr", "zip", ".zarr", ARRAYS, ("zarr",)),
        Target(
            "map.cool",
            "bytes",
            ".cool",
            (Reader("maps.read", _map, _check_map), Reader("maps.has_weights", _weighted)),
            ("h5py",),
        ),
        Target(
            "map.hic",
            "bytes",
            ".hic",
            (Reader("maps.read", _map, _check_map),),
            ("hictkpy",),
            "hictk divides by what a damaged file says",
            may_ask_for_memory=True,
        ),
        Target("map.csv", "csv", ".csv", (Reader("maps.read", _map, _check_map),)),
        Target("map.npz", "zip", ".npz", (Reader("maps.read", _map, _check_map),), may_ask_for_memory=True),
    )
}
