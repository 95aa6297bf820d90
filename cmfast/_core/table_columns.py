"""Let functions of labels accept a table and the names of its columns: ``f(table, y_true="label", y_pred="guess")``."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cmfast._core import caller, frames, lazy, validate
from cmfast._core.adapters import _text_codes
from cmfast._core.usual_options import refuse_wrong_call

R = TypeVar("R")

FIRST = "the first argument"
NUMBERS = ("y_score", "sample_weight", "X")  # parameters that take numbers, not labels
_used: ContextVar[tuple[Any, Mapping[str, Any]] | None] = ContextVar("cmfast_used", default=None)


def accept_table(
    sides: tuple[str, ...],
    others: tuple[str, ...] = (),
    *,
    several: tuple[str, ...] = (),
    blocks: tuple[str, ...] = (),
    merge: Callable[[list[Any]], Any] | None = None,
    lazily: str = "",
    of_class: bool = False,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a function of labels so that it also accepts a table, and the names of the columns of the labels.

    `sides` are its first parameters, and `others` its options that may name a column, too; `several` and `blocks` are
    as for :func:`read_columns`. With `merge`, a Dask DataFrame gives a Delayed of the merged results of its
    partitions; without, it is refused with the advice `lazily`. `of_class` says that the function is a class method.
    """
    skipped = int(of_class)

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        """Return the function that reads columns before it calls `function`."""
        usual, second, truth = len(sides) + skipped, 1 + skipped, sides[0]

        @wraps(function)
        def wrapper(*given: Any, **options: Any) -> R:
            """Read the columns of a table, if one is given, and call `function` with them."""
            reading: Any = nullcontext()
            if len(given) < usual or isinstance(given[second], str) or truth in options:  # else arrays by position
                found = find_columns(given[skipped:], options, sides, others, several)
                if found is not None:
                    columns, frame, _ = found
                    if lazy.is_dask_frame(frame):
                        target = getattr(given[0], function.__name__) if of_class else lazy.find_importable(wrapper)
                        out: R = _count_lazily(target, merge, lazily, frame, columns, options)
                        return out
                    arrays, reading = read_call(found, options, sides, several, blocks)
                    given = (*given[:skipped], *arrays)
            try:
                with reading:
                    return function(*given, **options)
            except TypeError:
                named = given[second:]
                is_table = 0 <= len(given) - second < len(sides) and frames.holds_columns(given[skipped])
                if is_table and named and all(isinstance(name, str) for name in named):
                    refuse_absent_sides(dict(zip(sides, [*named, *[None] * len(sides)], strict=False)), sides)
                if is_table and not named:
                    wanted = f"{' and '.join(f'{side}=' for side in sides)}, the names of its columns"
                    cure = "; counts need no counting: metrics.compute(table, names) takes them"
                    is_counted = frames.is_square_table_of_numbers(given[skipped])
                    validate.fail(f"a table needs {wanted}{cure if is_counted else ''}", TypeError)
                refuse_wrong_call(function, given, options)
                raise

        return wrapper

    return decorate


class TableCall(NamedTuple):
    """A call with a table: the names of its columns by parameter, the table, and its other positional arguments."""

    columns: dict[str, Any]
    table: Any
    rest: tuple[Any, ...]


def find_columns(
    given: tuple[Any, ...],
    options: dict[str, Any],
    sides: tuple[str, ...],
    others: tuple[str, ...] = (),
    several: tuple[str, ...] = (),
) -> TableCall | None:
    """Return the column names that a call gives by keyword or by position, the table and the other arguments, or None.

    `sides` are its arrays and `others` its options that may name columns; those of `several` may name several. The
    names are removed from `options`.
    """
    if not given:
        return None
    n = len(sides) + 1
    if sides[0] in options or any(isinstance(options.get(side), str) for side in sides):
        columns, rest = {side: options.pop(side, None) for side in sides}, given[1:]
    elif len(given) < n or not frames.holds_columns(given[0]):
        return None
    else:
        columns, rest = dict(zip(sides, given[1:n], strict=True)), given[n:]
        if not all(isinstance(name, str) or (side in several and _are_names(name)) for side, name in columns.items()):
            return None
    columns |= {name: options.pop(name) for name in others if options.get(name) is not None}
    return TableCall(columns, frames.unwrap_narwhals(given[0]), rest)


def _are_names(value: Any) -> bool:
    """Whether a value is a list, or a dict, of names of columns."""
    names = list(value.values()) if isinstance(value, Mapping) else value
    return isinstance(names, list | tuple) and bool(names) and all(isinstance(name, str) for name in names)


def read_call(
    call: TableCall,
    options: dict[str, Any],
    sides: tuple[str, ...],
    several: tuple[str, ...] = (),
    blocks: tuple[str, ...] = (),
) -> tuple[tuple[Any, ...], AbstractContextManager[None]]:
    """Return the positional arguments of a call with a table, with columns instead of their names.

    Columns of options are written to `options`. In the context that is returned too, errors name all columns with
    missing values.
    """
    table = frames.read_table(FIRST, call.table)
    refuse_absent_sides(call.columns, sides)
    arrays = read_columns(table, call.columns, several, blocks)
    given = (*(arrays.pop(side) for side in sides), *call.rest)
    options.update(arrays)
    return given, name_missing_columns(table, call.columns)


def read_columns(
    table: Any, columns: Mapping[str, Any], several: tuple[str, ...] = (), blocks: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the columns of a table by parameter.

    A list or dict of names gives a dict of columns for parameters of `several`, and a table of these columns, a row of
    numbers for each sample, for those of `blocks`. Parameters of both have a dict of columns for one name, too, and
    lists in a dict give such tables.
    """
    return {name: _read_column(table, name, value, several, blocks) for name, value in columns.items()}


def _read_column(table: Any, name: str, value: Any, several: tuple[str, ...], blocks: tuple[str, ...]) -> Any:
    """Return the column, or the columns, that the parameter `name` names."""
    is_block = name in blocks
    if is_block and name in several and isinstance(value, list | tuple):
        nested = next((one for one in value if isinstance(one, list | Mapping)), None)
        if nested is not None:
            wanted = "a list of names of columns, or a dict of such lists by model, as {'a': [...], 'b': [...]}"
            validate.refuse(name, wanted, f"a list with a {type(nested).__name__}", TypeError)
    if name in several and (isinstance(value, list | tuple) or (is_block and isinstance(value, str))):
        value = {column: column for column in ([value] if isinstance(value, str) else value)}
    if name in several and isinstance(value, Mapping):
        return {
            key: _read_column(table, f"{name}[{key!r}]", column, (), (f"{name}[{key!r}]",) * is_block)
            for key, column in value.items()
        }
    if is_block and isinstance(value, list | tuple) and len(value) > 1:
        for k, column in enumerate(value):
            frames.get_column(table, f"{name}[{k}]", column)
        return frames.select_columns(table, list(value))
    if is_block and isinstance(value, list | tuple) and value:
        value = value[0]
    return frames.get_column(table, name, value)


def refuse_absent_sides(columns: dict[str, Any], sides: tuple[str, ...]) -> None:
    """Raise TypeError if some columns of labels are named and others are not, with the call that names all."""
    absent = [side for side in sides if columns.get(side) is None]
    if absent:
        call = ", ".join(f"{side}={'...' if side in absent else repr(columns[side])}" for side in sides)
        call = f"{caller.name()}(table, {call})"
        validate.refuse(absent[0], "the name of a column", f"nothing; name it, as in {call}", TypeError)


def refuse_table_without_columns(sides: tuple[str, ...], names: Any) -> None:
    """Raise TypeError for a table whose columns of labels and scores are not named, with the call that names them."""
    call = ", ".join(f"{side}=..." for side in sides)
    call = f"{caller.name()}(table, {validate.format_value(names)}, {call})"
    validate.refuse(sides[0], "the name of a column", f"nothing; name the columns, as in {call}", TypeError)


@contextmanager
def remember_columns(table: Any, columns: Mapping[str, Any]) -> Iterator[None]:
    """In this block, let :func:`describe_gaps` know the table and the names of the columns that are used of it."""
    token = _used.set((table, columns))
    try:
        yield
    finally:
        _used.reset(token)


def describe_gaps() -> str:
    """Return which columns of the current call have missing values, and a call without them, or "" if none is known."""
    used = _used.get()
    gaps = {} if used is None or caller.is_task() else _find_gaps(*used)
    if used is None or not gaps:
        return ""
    call = _suggest_without_gaps(*used, gaps)
    return f"; the table has missing values, {frames.describe_missing(gaps)}; {call} leaves these rows out"


def _list_used(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameter of each column that is used."""
    return {name: parameter for parameter, value in columns.items() for name in _list_names(value)}


def _find_gaps(table: Any, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the rows without a value of each column that is used and has some."""
    gaps = {
        name: frames.find_missing(frames.get_column(table, used, name)) for name, used in _list_used(columns).items()
    }
    return {name: rows for name, rows in gaps.items() if len(rows)}


def _suggest_without_gaps(table: Any, columns: Mapping[str, Any], gaps: Mapping[str, np.ndarray]) -> str:
    """Return a call that makes a table without the rows that have gaps."""
    used = _list_used(columns)
    labels = [name for name in gaps if used[name] not in NUMBERS]
    return frames.suggest_without_missing(table, list(gaps), list(used), labels)


@contextmanager
def name_missing_columns(table: Any, columns: Mapping[str, Any]) -> Iterator[None]:
    """In this block, turn an error about missing values into one that names all columns of `table` that have some.

    `columns` are the names of the columns that are used, one or several for each parameter.
    """
    try:
        with remember_columns(table, columns):
            yield
    except (TypeError, ValueError) as error:
        if _text_codes.MISSING not in str(error) and not str(error).endswith(" missing"):
            raise
        gaps = _find_gaps(table, columns)
        if not gaps:
            raise
        used = _list_used(columns)
        parameters = " and ".join(dict.fromkeys(used[name] for name in gaps))
        call = _suggest_without_gaps(table, columns, gaps)
        wanted = f"{parameters} must be without missing values, got {frames.describe_missing(gaps)}"
        validate.fail(f"{wanted}; {call} leaves these rows out", type(error))


def _list_names(columns: Any) -> list[str]:
    """Return the names of columns that a parameter was given: one, or those in lists and dicts."""
    if isinstance(columns, str):
        return [columns]
    several = columns.values() if isinstance(columns, Mapping) else columns if isinstance(columns, list | tuple) else ()
    return [name for one in several for name in _list_names(one)]


def _count_lazily(
    function: Callable[..., Any],
    merge: Callable[[list[Any]], Any] | None,
    advice: str,
    frame: Any,
    columns: dict[str, Any],
    options: dict[str, Any],
) -> Any:
    """Return a Delayed of the merged results of the partitions of a Dask DataFrame."""
    if merge is None:
        validate.refuse(FIRST, "a table in memory", f"a DataFrame of Dask; {advice}", TypeError)
    function(frame._meta, **columns, **options)  # raises any error that every partition would raise
    check_lazy_weight(frame, columns.get("sample_weight"))
    return lazy.dask().merge_partitions(_count_partition, merge, frame, function, columns, options)


def check_lazy_weight(frame: Any, column: str | None) -> None:
    """Refuse a column of weights of a Dask DataFrame that are not integers."""
    if column is not None and frame._meta[column].dtype.kind not in "biu":
        wanted = "a column of integers in a DataFrame of Dask, as sums of others depend on the partitions"
        validate.refuse("sample_weight", wanted, f"dtype {frame._meta[column].dtype}", TypeError)


def _count_partition(
    part: Any, k: int, function: Callable[..., Any], columns: dict[str, Any], options: dict[str, Any]
) -> Any:
    """Count partition `k` of a Dask DataFrame."""
    with caller.set_task(caller.name(), f", in partition {k}", is_part=True):
        return function(part, **columns, **options)
