"""Results of one kind by name: a mapping with a one-line repr, a table and a forest plot."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from cmfast._core import axis_names, plotting, result_repr
from cmfast._core.libraries import load_pandas
from cmfast._core.markup import escape_prose, isolate

MOST_SHOWN_ROWS = 100  # of the table that a notebook shows
MOST_NAMED = 4  # results up to which a repr names each
ResultT = TypeVar("ResultT")


@dataclass(eq=False, repr=False)  # a dataclass, so that dask.compute finds the arrays in it
class ResultsByName(Mapping[str, ResultT], Generic[ResultT]):
    """Results by name, each with ``explain``, ``to_pandas`` and ``_rows``: dicts of names, estimate, low and high.

    A subclass whose results have other rows overrides ``_list_cells``, ``_heads`` and ``plot``.
    """

    _found: Mapping[str, ResultT]
    _column: ClassVar[str] = "metric"  # heading of the names in a table
    _heads: ClassVar[tuple[str, ...]] = ("index", "estimate", "low", "high")  # of the other columns
    _are_named: ClassVar[bool] = False  # whether each result has its name in its text and in its table

    def __getitem__(self, name: str) -> ResultT:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def _count_names(self) -> str:
        """Return the number of names as a text."""
        return f"{len(self)} {self._column}{'s' * (len(self) != 1)}"

    def _describe_each(self, describe: Callable[[ResultT], str]) -> str:
        """Return each name with the text of its result, or the number of names if there are many."""
        if not 0 < len(self) <= MOST_NAMED:
            return self._count_names()
        return ", ".join(f"{name} {describe(one)}" for name, one in self.items())

    def _describe(self) -> str:
        """Return what the repr shows; by default the number of names."""
        return self._count_names()

    def __repr__(self) -> str:
        lazy = "; lazy, dask.compute gives it" if result_repr.is_lazy_result(self) else ""
        return f"<{type(self).__name__}: {self._describe()}{lazy}>"

    def _write_caption(self) -> str:
        """Return the caption of the HTML table, with names from the user isolated."""
        return repr(self)[1:-1]

    def _repr_html_(self) -> str:
        """Return the results as HTML for notebooks: a table with a row per value, or the text if they are lazy."""
        if result_repr.is_lazy_result(self):
            return escape_prose(repr(self)[1:-1])
        rows = self._list_cells()
        heads = "".join(f"<th>{escape_prose(head)}</th>" for head in (self._column, *self._heads))
        lines = []
        for first, *cells in rows[:MOST_SHOWN_ROWS]:
            rest = "".join(f"<td>{escape_prose(_format_cell(cell))}</td>" for cell in cells)
            lines.append(f"<tr><th>{escape_prose(first)}</th>{rest}</tr>")
        caption = escape_prose(self._write_caption())
        table = f"<table><caption>{caption}</caption><tbody><tr>{heads}</tr>{''.join(lines)}</tbody></table>"
        left_out = len(rows) > MOST_SHOWN_ROWS
        more = f"<p>the first {MOST_SHOWN_ROWS} of {len(rows):,} rows; to_pandas() returns all</p>"
        return table + more * left_out

    def _list_cells(self) -> list[list[Any]]:
        """Return the rows of the HTML table: texts, in which names from the user are isolated, and numbers."""
        return [
            [row[axis_names.METRIC], isolate(row[axis_names.ENTRY]), *(row[key] for key in ("estimate", "low", "high"))]
            for row in self._rows()
        ]

    def _rows(self) -> list[dict[str, Any]]:
        """Return a dict per value: metric, names and index of the entry, and the fields of its result."""
        return [{axis_names.METRIC: name, **row} for name, one in self._found.items() for row in one._rows()]  # type: ignore[attr-defined]

    def explain(self) -> str:
        """Return the texts of all results, a line each."""
        texts = {name: one.explain() for name, one in self.items()}  # type: ignore[attr-defined]
        if not self._are_named:
            texts = {name: f"{name}: {text.removeprefix(f'{name}: ')}" for name, text in texts.items()}
        return "\n".join(texts.values()) or f"no {self._column}s"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per value."""
        pd = load_pandas()
        frames = [one.to_pandas() for one in self._found.values()]  # type: ignore[attr-defined]
        if not self._are_named:
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


def _format_cell(cell: Any) -> str:
    """Return the text of a cell of a table."""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def draw_forest(ax: Any, rows: list[dict[str, Any]]) -> Any:
    """Draw a forest plot of rows with metric, names of the entry, estimate, low and high; return its axes."""
    ax = plotting.make_forest_axes(ax, len(rows))
    low, high, estimate = ([row[key] for row in rows] for key in ("low", "high", "estimate"))
    plotting.draw_forest(ax, list(map(_name_row, rows)), estimate, low, high)
    return ax


def _name_row(row: dict[str, Any]) -> str:
    """Return the tick label of a row: ``metric [entry]``, or the one of both that it has."""
    metric, entry = row[axis_names.METRIC], row[axis_names.ENTRY]
    return f"{metric} [{entry}]" if metric and entry else metric or entry
