"""Read data frames of pandas, polars and Arrow: library, column names, columns and index levels."""

from pathlib import PurePath
from typing import Any

import numpy as np

from cmfast._core import validate
from cmfast._core.adapters import _columns
from cmfast._core.lazy import is_dask_frame
from cmfast.kernels.loading import find_loaded_module

collect_table = _columns.collect_table
unwrap_narwhals = _columns.unwrap_narwhals


def library_name(option: str, frame: Any) -> str:
    """Return the library of the table `frame`; raise TypeError for anything else, lazy tables included."""
    found = _columns.library_name(frame)
    if found is None:
        wanted = "a DataFrame of pandas or polars, or a Table of Arrow"
        validate.refuse(option, wanted, f"{type(frame).__name__}{_suggest_table(option, frame)}", TypeError)
    return found


def read_table(option: str, frame: Any) -> Any:
    """Return `frame`, collected as by :func:`collect_table`; raise TypeError for anything but a table."""
    frame = collect_table(frame)
    library_name(option, frame)
    return frame


def collect_tables(x: Any) -> Any:
    """Return :func:`collect_table` of an argument, or of the members of a list, tuple or dict."""
    if isinstance(x, dict):
        return {key: collect_table(value) for key, value in x.items()}
    return [collect_table(value) for value in x] if isinstance(x, list | tuple) else collect_table(x)


def is_table(x: Any) -> bool:
    """Whether `x` is a table of pandas, polars or Arrow, lazy ones included."""
    return _columns.column_hint(x) is not None


def is_lazy_table(x: Any) -> bool:
    """Whether `x` is a LazyFrame of polars or a DataFrame of Dask."""
    return is_dask_frame(x) or (is_table(x) and _columns.library_name(x) is None)


def holds_columns(x: Any) -> bool:
    """Whether `x` is a table, a lazy one, or an object that exports a stream of Arrow."""
    x = unwrap_narwhals(x)
    return is_table(x) or is_dask_frame(x) or hasattr(type(x), "__arrow_c_stream__")


def is_column(x: Any) -> bool:
    """Whether `x` is one column, a Series or an array of Arrow, which may export a stream of Arrow like a table."""
    return type(x).__name__ in ("Series", "Array", "ChunkedArray", "DataArray")


def is_square_table_of_numbers(x: Any) -> bool:
    """Whether `x` is a DataFrame of pandas with as many rows as columns, named alike, as counts are."""
    pd = find_loaded_module("pandas")
    if pd is None or not isinstance(x, pd.DataFrame) or list(x.index) != list(x.columns):
        return False
    return all(getattr(dtype, "kind", "O") in "biuf" for dtype in x.dtypes)


def _suggest_table(option: str, frame: Any) -> str:
    """Return the end of a message: how to turn a dict or a lazy table into a table."""
    if is_table(frame):
        return f"; give {option}.collect()"
    if isinstance(frame, dict):
        return f"; give pandas.DataFrame({option})"
    if isinstance(frame, str | PurePath):
        return f"; pandas.read_csv({option}) reads a file of csv"
    if type(frame).__name__ in ("DataFrameGroupBy", "GroupBy"):
        return "; give the table itself, which is grouped here"
    return "; pandas.DataFrame makes a table of arrays: DataFrame({'a': a, 'b': b})" if hasattr(frame, "ndim") else ""


def index_levels(series: Any, names: list[str]) -> list[Any] | None:
    """Return the index levels of a pandas Series: the levels called `names`, or all levels if the names differ.

    None for anything but a Series.
    """
    pd = find_loaded_module("pandas")
    if pd is None or not isinstance(series, pd.Series):
        return None
    index = series.index
    known = names if sorted(map(str, index.names)) == sorted(names) else range(index.nlevels)
    return [index.get_level_values(level) for level in known]


def list_index_names(x: Any) -> list[Any] | None:
    """Return the names of the index levels of a Series of pandas; None for anything else."""
    pd = find_loaded_module("pandas")
    return list(x.index.names) if pd is not None and isinstance(x, pd.Series) else None


def read_index(values: Any, coords: Any) -> tuple[Any, Any]:
    """Return values and coordinates, an index of pandas as a table of its levels; a Series loses its own index."""
    pd = find_loaded_module("pandas")
    if pd is None or not isinstance(coords, pd.Index):
        return values, coords
    if isinstance(values, pd.Series):
        _refuse_permuted_index(pd, values, coords)
        values = values.reset_index(drop=True)
    return values, coords.to_frame(index=False)


def _refuse_permuted_index(pd: Any, values: Any, coords: Any) -> None:
    """Refuse an index of pandas as coordinates if the Series of values has the same index in another order.

    The unnamed index 0, ..., n-1 of a Series says nothing of its order; levels are compared by their names.
    """
    own, cure = values.index, "values"
    is_default = own.name is None and own.equals(pd.RangeIndex(len(own)))
    if own.nlevels > 1 and list(own.names) != list(coords.names) and set(own.names) == set(coords.names):
        own, cure = own.reorder_levels(coords.names), "values.reorder_levels(coords.names)"
    if is_default or len(own) != len(coords) or own.equals(coords) or not (own.is_unique and coords.is_unique):
        return
    if own.nlevels == coords.nlevels and coords.isin(own).all():
        validate.fail(
            "coords and values must have the same index, as they are matched by position, got one index in two orders; "
            f"give {cure}.reindex(coords), or arrays if their order is meant"
        )


def column_names(frame: Any) -> list[Any]:
    """Return the column names of a table."""
    is_arrow = type(frame).__module__.startswith("pyarrow")  # where `columns` are the arrays themselves
    return list(frame.column_names if is_arrow else frame.columns)


def get_column(frame: Any, option: str, name: Any) -> Any:
    """Return column `name` of a table; raise ValueError if no column, or several, have this name."""
    known = column_names(frame)
    if not isinstance(name, str):
        given = "nothing" if name is None else f"{type(name).__name__} {validate.format_value(name)}"
        validate.refuse(option, "the name of a column", given, TypeError)
    if known.count(name) != 1:
        columns = list(map(str, known))
        near = validate.suggest_name(name, columns)
        text = f"{name!r}, which {known.count(name)} of them are called" if name in known else f"{name!r}{near}"
        validate.refuse(option, f"one of the columns {validate.format_value(', '.join(columns), str)}", text)
    return frame[name]


def find_missing(column: Any) -> np.ndarray:
    """Return the rows of a column of a table that have no value, or NaN."""
    pd, pl = map(find_loaded_module, ("pandas", "polars"))
    if pd is not None and isinstance(column, pd.Series):
        missing = column.isna().to_numpy()
    elif pl is not None and isinstance(column, pl.Series):
        missing = (column.fill_nan(None) if column.dtype.is_float() else column).is_null().to_numpy()
    else:
        missing = column.is_null(nan_is_null=True).to_numpy()
    return np.flatnonzero(missing)


def is_numeric(column: Any) -> bool:
    """Whether a column of a table holds numbers."""
    pa = find_loaded_module("pyarrow")
    if pa is not None and isinstance(column, pa.ChunkedArray | pa.Array):
        kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal
        return any(is_kind(column.type) for is_kind in kinds)
    dtype = column.dtype
    return dtype.is_numeric() or str(dtype) == "Boolean" if hasattr(dtype, "is_numeric") else dtype.kind in "biuf"


def select_columns(table: Any, names: list[str]) -> Any:
    """Return a table with some columns of `table`."""
    return table.select(names) if _columns.library_name(table) == "pyarrow" else table[names]


def describe_missing(gaps: dict[str, np.ndarray]) -> str:
    """Return a text that says how many rows of each column have no value, and which is the first."""
    return " and ".join(f"{len(rows)} in column {name!r} (first: row {rows[0]})" for name, rows in gaps.items())


def suggest_without_missing(table: Any, names: list[str], used: list[str], labels: list[str]) -> str:
    """Return a call that makes a table without the rows in which a column of `names` has no value.

    Columns of `labels` that are floats but otherwise whole numbers, as gaps make them, become integers. `used` are all
    columns that are needed.
    """
    library = _columns.library_name(table)
    if library == "pyarrow":
        return f"table.select({used}).drop_null()"
    floats = [name for name in labels if _is_whole_but_for_gaps(table[name])]
    whole = ", ".join(f"{name!r}: int" for name in floats)
    if library == "pandas":
        return f"table.dropna(subset={names})" + (f".astype({{{whole}}})" if floats else "")
    is_nan = any(table[name].dtype.is_float() for name in names)
    call = f"table{'.fill_nan(None)' if is_nan else ''}.drop_nulls({names})"
    return call + (f".cast({{{whole}}})" if floats else "")


def _is_whole_but_for_gaps(column: Any) -> bool:
    """Whether a column of pandas or polars has floats that are all whole, or missing."""
    is_pandas = hasattr(column, "dropna")
    if not (isinstance(column.dtype, np.dtype) and column.dtype.kind == "f" if is_pandas else column.dtype.is_float()):
        return False
    values = column.to_numpy()
    values = values[np.isfinite(values)]
    return bool((values == np.floor(values)).all())
