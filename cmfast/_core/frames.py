"""Tables of pandas, polars and Arrow: whose they are, and their columns by name."""

from typing import Any

from cmfast._core import validate
from cmfast._core.adapters import _columns
from cmfast.kernels.loading import find_loaded_module


def library_name(option: str, frame: Any) -> str:
    """Return whose table `frame` is; refuse what is no table, or not computed yet."""
    found = _columns.library_name(frame)
    if found is None:
        wanted = "a DataFrame of pandas or polars, or a Table of Arrow"
        validate.refuse(option, wanted, f"{type(frame).__name__}{_suggest_table(option, frame)}", TypeError)
    return found


def is_table(x: Any) -> bool:
    """Return whether `x` is a table, if only one that is not computed yet."""
    return _columns.column_hint(x) is not None


def _suggest_table(option: str, frame: Any) -> str:
    """Return the end of a message that says how what is nearly a table becomes one."""
    if is_table(frame):
        return f"; give {option}.collect()"
    return f"; give pandas.DataFrame({option})" if isinstance(frame, dict) else ""


def index_levels(series: Any, names: list[str]) -> list[Any] | None:
    """Return the levels of the index of a Series of pandas: those of these names, or all, where it has others.

    None for what is no Series.
    """
    pd = find_loaded_module("pandas")
    if pd is None or not isinstance(series, pd.Series):
        return None
    index = series.index
    known = names if sorted(map(str, index.names)) == sorted(names) else range(index.nlevels)
    return [index.get_level_values(level) for level in known]


def column_names(frame: Any) -> list[Any]:
    """Return the names of the columns of a table."""
    is_arrow = type(frame).__module__.startswith("pyarrow")  # whose `columns` are the arrays
    return list(frame.column_names if is_arrow else frame.columns)


def get_column(frame: Any, option: str, name: Any) -> Any:
    """Return the column `name` of a table."""
    known = column_names(frame)
    if not isinstance(name, str):
        validate.refuse(
            option, "the name of a column", f"{type(name).__name__} {validate.format_value(name)}", TypeError
        )
    if known.count(name) != 1:
        columns = list(map(str, known))
        near = validate.suggest_name(name, columns)
        text = f"{name!r}, which {known.count(name)} of them are called" if name in known else f"{name!r}{near}"
        validate.refuse(option, f"one of the columns {validate.format_value(', '.join(columns), str)}", text)
    return frame[name]
