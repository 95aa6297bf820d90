"""Render results: a one-line repr for consoles and an HTML table for notebooks, from the same parts."""

from collections.abc import Mapping
from copy import copy
from typing import Any, TypeVar

import numpy as np

from cmfast._core import plotting, validate
from cmfast._core.adapters import adapter
from cmfast._core.lazy import are_lazy, dask
from cmfast._core.markup import escape_prose, isolate
from cmfast._core.usual_names import make_missing_of_result_error
from cmfast._core.usual_options import explain_options_of_methods
from cmfast.kernels.status import Status

C = TypeVar("C", bound=type)
MOST_SHOWN_CLASSES = 20  # classes up to which a matrix is shown in full
ARRAY_FIELDS = ("matrix", "table", "weights", "draws")  # first fields of results that are arrays for NumPy


def add_repr(cls: C) -> C:
    """Class decorator that adds a one-line repr and an HTML repr, made of ``_parts()`` and ``explain()``.

    A class whose texts hold user-supplied names also has ``_explain(name)`` or ``_named_parts(name)``, which render
    each name by the function `name`: the HTML repr isolates them.
    """

    def __repr__(self: Any) -> str:  # noqa: N807
        if is_lazy_result(self):
            return f"<{cls.__name__}: lazy, dask.compute gives it>"
        parts = ", ".join(f"{name} {text}" for name, text in self._parts().items())
        return f"<{cls.__name__}: {parts}>"

    def _repr_html_(self: Any) -> str:
        """Return the result as HTML for notebooks; only its text if it is lazy."""
        if is_lazy_result(self):
            return escape_prose(repr(self))
        said = self._explain(isolate) if hasattr(cls, "_explain") else self.explain()
        parts = self._named_parts(isolate) if hasattr(cls, "_named_parts") else self._parts()
        return render_html(cls.__name__, parts, said, getattr(self, "matrix", None))

    for function in (__repr__, _repr_html_):
        if (
            function.__name__ not in vars(cls) or function is __repr__
        ):  # named tuples have a __repr__ that shows all fields
            setattr(cls, function.__name__, function)
    return add_array(add_compute(explain_options_of_methods(cls)))


def add_repr_of_display(cls: C) -> C:
    """Class decorator that adds a one-line repr, made of ``_describe()``, and an HTML repr with the picture."""

    def __repr__(self: Any) -> str:  # noqa: N807
        return f"<{cls.__name__}: {self._describe()}>"

    def _repr_html_(self: Any) -> str:
        """Return the picture with a caption; only text where a notebook shows the drawn figure itself.

        Notebooks show the figures that are open in pyplot after a cell, and close them. Without matplotlib the text
        says so.
        """
        text = f"<p>{escape_prose(repr(self))}</p>"
        figure = self.figure_.figure if hasattr(self, "figure_") else None  # of a subfigure the whole
        if figure is not None and plotting.is_open(figure):
            return text
        try:
            figure = copy(self).plot().figure_ if figure is None else figure
        except ImportError as error:  # matplotlib is optional
            return f"{text}<p>{escape_prose(str(error))}</p>"
        picture = plotting.encode_figure(figure)
        image = f'<img alt="{cls.__name__}" src="data:image/png;base64,{picture}">'
        return f"<figure>{image}<figcaption>{escape_prose(self._describe())}</figcaption></figure>"

    for function in (__repr__, _repr_html_):
        setattr(cls, function.__name__, function)
    return add_compute(explain_options_of_methods(cls))


def add_compute(cls: C) -> C:
    """Class decorator that gives lazy results, and only these, Dask's method ``compute()``.

    An attribute that a result does not have raises AttributeError that says which one to use.
    """

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        if name == "compute" and is_lazy_result(self):
            return lambda **options: dask().da.compute(self, **options)[0]
        if any(name in vars(base) for base in type(self).__mro__):
            return object.__getattribute__(self, name)  # raises the AttributeError of the attribute itself
        raise make_missing_of_result_error(self, name)

    type.__setattr__(cls, "__getattr__", __getattr__)
    return cls


def add_array(cls: C) -> C:
    """Class decorator that gives ``numpy.asarray(result)`` the first field of a named tuple that holds a whole result.

    NumPy would stack all fields.
    """
    field, *_ = getattr(cls, "_fields", ("",))
    if field not in ARRAY_FIELDS:
        return cls

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: N807
        if self[0] is None:
            validate.fail(f"the result has no {field}, which numpy.asarray would return", TypeError)
        return copy_to_numpy(field, self[0], dtype, copy=copy)

    type.__setattr__(cls, "__array__", __array__)
    return cls


def copy_to_numpy(name: str, array: Any, dtype: Any, *, copy: bool | None) -> np.ndarray:
    """Return the attribute `name` as an array of NumPy; raise TypeError if it is on a device."""
    if not adapter(array).is_on_host(array):
        device = adapter(array).device(array)
        validate.fail(f"the {name} is on {device}, which NumPy cannot read; copy .{name} to the host", TypeError)
    return np.array(adapter(array).to_host(array), dtype, copy=copy)


def is_lazy_result(result: object) -> bool:
    """Whether any array of a result is a Dask array."""
    if isinstance(result, Mapping):
        return any(map(is_lazy_result, result.values()))
    return are_lazy(*(result if isinstance(result, tuple) else getattr(result, "__dict__", {}).values()))


def render_html(name: str, parts: dict[str, str], said: str, matrix: Any = None) -> str:
    """Render a result as HTML: a table of its parts, its matrix if small enough, and the text `said`."""
    rows = "".join(
        f"<tr><th>{escape_prose(part)}</th><td>{escape_prose(text)}</td></tr>" for part, text in parts.items()
    )
    head = f"<table><caption>{name}</caption><tbody>{rows}</tbody></table>"
    words = escape_prose(said).replace("\n", "<br>")
    return f"{head}{_render_matrix(matrix)}<p>{words}</p>"


def _render_matrix(M: Any) -> str:
    """Render one matrix as an HTML table; "" for a batch or more than MOST_SHOWN_CLASSES classes."""
    if M is None or len(M.shape) != 2 or max(M.shape, default=0) > MOST_SHOWN_CLASSES:
        return ""
    rows = adapter(M).to_host(M).tolist()
    body = "".join("<tr>" + "".join(f"<td>{x:.4g}</td>" for x in row) + "</tr>" for row in rows)
    return f"<table><tbody>{body}</tbody></table>"


def format_shape(array: Any, core: int = 2) -> str:
    """Describe the shape of a batch: the core axes, then the batch axes."""
    sizes = tuple(array.shape)
    one = " x ".join(map(str, sizes[len(sizes) - core :])) or "1"
    batch = " x ".join(map(str, sizes[: len(sizes) - core]))
    return f"{one}, a batch of {batch}" if batch else one


def explain_statuses(status: Any, index: int | tuple[int, ...] | None, meaning: Mapping[Status, str], none: str) -> str:
    """Explain status codes in words: of the batch element `index`, else a line per status that occurs, else `none`."""
    codes = adapter(status).to_host(status)

    def describe_code(code: Any) -> str:
        """Return the name and the meaning of a status code."""
        found = Status(int(code))
        return f"{found.name}: {meaning[found]}"

    if index is not None:
        return describe_code(codes[validate.batch_index(index, codes.shape)])
    if codes.ndim == 0:
        return describe_code(codes)
    found, number = np.unique(codes, return_counts=True)
    return "\n".join(f"{n:,} {describe_code(code)}" for n, code in zip(number.tolist(), found, strict=True)) or none


def format_statuses(codes: Any) -> str:
    """Return the names of status codes, each with its count for a batch."""
    found, number = np.unique(adapter(codes).to_host(codes), return_counts=True)
    names = [Status(int(code)).name for code in found]
    if not np.ndim(adapter(codes).to_host(codes)):
        return names[0]
    return ", ".join(f"{n:,} {name}" for n, name in zip(number.tolist(), names, strict=True)) or "none"


def format_largest(values: Any, form: str = ".2g") -> str:
    """Format a number, or the largest non-NaN value of an array."""
    host = adapter(values).to_host(values)
    if not host.ndim:
        return format(host.item(), form)
    known = host[~np.isnan(host)] if host.dtype.kind == "f" else host.ravel()
    return f"at most {format(known.max().item(), form)}" if known.size else "none"


def format_values(values: Any, form: str = ".3g") -> str:
    """Format up to six numbers, or their count if there are more."""
    host = np.atleast_1d(adapter(values).to_host(values)).ravel()
    return ", ".join(format(x, form) for x in host.tolist()) if host.size <= 6 else f"{host.size:,} numbers"


def format_least_p(p_values: Any) -> str:
    """Return a text with the number of groups and the smallest of their p-values."""
    return (
        f"{np.size(p_values):,} groups, the least p is {format_values(np.min(p_values))}"
        if np.size(p_values)
        else "no groups"
    )
