"""Results of one kind by name: a mapping with a one-line repr, a table and a forest plot."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cmfast._core import axis_names, plotting, result_repr
from cmfast._core.libraries import load_pandas
from cmfast._core.markup import escape_name, escape_prose

MOST_SHOWN_ROWS = 100  # of the table that a notebook shows
ResultT = TypeVar("ResultT")


@dataclass(eq=False, repr=False)  # a dataclass, so that dask.compute finds the arrays in it
class ResultsByName(Mapping[str, ResultT], Generic[ResultT]):
    """Results by name, each with ``explain``, ``to_pandas`` and ``_rows``: dicts of names, estimate, low and high."""

    _found: Mapping[str, ResultT]
    _column = "metric"  # heading of the names in a table

    def __getitem__(self, name: str) -> ResultT:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def _describe(self) -> str:
        """Return what the repr says after the number of names; "" for nothing."""
        return ""

    def __repr__(self) -> str:
        names = f"{len(self)} {self._column}{'s' * (len(self) != 1)}{self._describe()}"
        lazy = "; lazy, dask.compute gives it" if result_repr.is_lazy_result(self) else ""
        return f"<{type(self).__name__}: {names}{lazy}>"

    def _repr_html_(self) -> str:
        """Return the results as HTML for notebooks: a table with a row per value, or the text if they are lazy."""
        caption = escape_prose(repr(self)[1:-1])
        if result_repr.is_lazy_result(self):
            return caption
        heads = "".join(f"<th>{name}</th>" for name in (self._column, "index", "estimate", "low", "high"))
        lines = [
            f"<tr><th>{escape_prose(row[axis_names.METRIC])}</th><td>{escape_name(row[axis_names.ENTRY])}</td>"
            + "".join(f"<td>{row[key]:.4g}</td>" for key in ("estimate", "low", "high"))
            + "</tr>"
            for row in self._rows()[:MOST_SHOWN_ROWS]
        ]
        return f"<table><caption>{caption}</caption><tbody><tr>{heads}</tr>{''.join(lines)}</tbody></table>"

    def _rows(self) -> list[dict[str, Any]]:
        """Return a dict per value: metric, names and index of the entry, and the fields of its result."""
        return [{axis_names.METRIC: name, **row} for name, one in self._found.items() for row in one._rows()]  # type: ignore[attr-defined]

    def explain(self) -> str:
        """Return the texts of all results, a line each."""
        lines = (f"{name}: {one.explain().removeprefix(f'{name}: ')}" for name, one in self.items())  # type: ignore[attr-defined]
        return "\n".join(lines) or f"no {self._column}s"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per value."""
        pd = load_pandas()
        frames = [one.to_pandas() for one in self._found.values()]  # type: ignore[attr-defined]
        for name, frame in zip(self._found, frames, strict=True):
            frame.insert(0, self._column, name)
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a forest plot with a row per value.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        return draw_forest(ax, self._rows())


def draw_forest(ax: Any, rows: list[dict[str, Any]]) -> Any:
    """Draw a forest plot of rows with metric, names of the entry, estimate, low and high; return its axes."""
    ax = plotting.make_forest_axes(ax, len(rows))
    low, high, estimate = ([row[key] for row in rows] for key in ("low", "high", "estimate"))
    names = [f"{row[axis_names.METRIC]} [{row[axis_names.ENTRY]}]".removesuffix(" []").lstrip() for row in rows]
    plotting.draw_forest(ax, names, estimate, low, high)
    return ax
