"""Names of two models in results that compare them: those of the columns or Series that a call is given."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

from cmfast._core import axis_names, frames
from cmfast._core.results_by_name import ResultsByName

F = TypeVar("F", bound=Callable[..., Any])

UNNAMED = ("the first", "the second")
LIBRARIES = ("pandas", "polars", "xarray", "narwhals")  # whose columns have names


def accept_names_of_models(function: F) -> F:
    """Decorate a function that compares two models, so that its result knows the names of both, if they have some."""

    @wraps(function)
    def wrapper(*given: Any, **options: Any) -> Any:
        """Call `function`, and name the models in its result."""
        models = _find_names(given, options)
        found = function(*given, **options)
        return found if models is None else name_models(found, models)

    return wrapper  # type: ignore[return-value]


def name_models(found: Any, models: Sequence[str]) -> Any:
    """Return a named tuple, or results by name, that know the names of two models; any other result as it is."""
    if isinstance(found, ResultsByName):
        return replace(found, _found={name: name_models(one, models) for name, one in found.items()})
    if not hasattr(type(found), "_fields"):  # lazy results
        return found
    return axis_names.name_axes(found, {}, "", {"models": tuple(models)})


def get_models(result: object, name: Callable[[object], str] = str) -> tuple[str, str]:
    """Return the names of the two models of a result, rendered by `name`; "the first" and "the second" without."""
    models = axis_names.get_settings(result).get("models")
    return UNNAMED if models is None else (name(models[0]), name(models[1]))


def has_models(result: object) -> bool:
    """Whether a result knows the names of its two models."""
    return "models" in axis_names.get_settings(result)


def describe_order(result: object, name: Callable[[object], str] = str) -> str:
    """Return which model a difference subtracts from which: ``first minus second``, or their names."""
    first, second = (text.removeprefix("the ") if not has_models(result) else text for text in get_models(result, name))
    return f"{first} minus {second}"


def list_columns(result: object) -> dict[str, str]:
    """Return the columns of a table of results that hold the names of both models; {} without names."""
    return dict(zip(("first_name", "second_name"), get_models(result), strict=True)) if has_models(result) else {}


def _find_names(given: tuple[Any, ...], options: dict[str, Any]) -> tuple[str, str] | None:
    """Return the names of the two models of a call, given as columns of a table or as Series; None without them."""
    is_table = bool(given) and frames.holds_columns(given[0]) and not frames.is_column(given[0])
    if is_table and len(given) > 3 and all(isinstance(name, str) for name in given[1:4]):
        names = given[2:4]  # after the table and the column of the truth
    elif "y_a" in options and "y_b" in options:
        names = tuple(side if is_table else get_name_of_column(side) for side in (options["y_a"], options["y_b"]))
    else:
        names = () if is_table else tuple(map(get_name_of_column, given[1:3]))
    if len(names) < 2 or not all(isinstance(name, str) and name for name in names) or names[0] == names[1]:
        return None
    return names


def get_name_of_column(column: Any) -> Any:
    """Return the name of a Series; None for anything else."""
    is_column = type(column).__module__.partition(".")[0] in LIBRARIES
    return getattr(column, "name", None) if is_column else None
