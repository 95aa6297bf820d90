"""What axes, lines and cells of tables are called: by numbers, or by the columns and categories of a long table."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from cmfast._core import bad_values, wording
from cmfast._files.survey_totals import describe_key


class Words(NamedTuple):
    """The names of the axes of a table, of the places on each, and of margins; none where numbers are all there is."""

    columns: tuple[str, ...] = ()
    labels: tuple[Sequence[Any], ...] = ()
    margins: tuple[str, ...] = ()

    def place(self, axes: Sequence[int], at: Sequence[int]) -> str:
        """Return what a place on some axes is called."""
        if not self.columns:
            return bad_values.format_index(at)
        key = tuple(str(self.labels[axis][k]) for axis, k in zip(axes, at, strict=True))
        return describe_key(tuple(self.columns[axis] for axis in axes), key) or "the total"

    def margin(self, name: str, margin: int, axes: Sequence[int]) -> str:
        """Return what a margin is called, of the argument `name`."""
        of = ", ".join(map(str, (self.columns[axis] for axis in axes))) if self.columns else ""
        return f"{self.margins[margin] if self.margins else wording.element(name, margin)}{' of ' if of else ''}{of}"

    def line(self, margin: int, axes: Sequence[int], at: Sequence[int]) -> str:
        """Return what a line of a margin is called."""
        where = self.place(axes, at)
        return where if self.columns else f"line {where} of {wording.element('margins', margin)}"

    def shared(self, kept: str, common: Sequence[int], at: Sequence[int]) -> str:
        """Return what two margins share, which are those of an argument that calls axes `kept`."""
        if not common:
            return "total"
        if self.columns:
            return self.place(common, at)
        return f"{kept} {tuple(common)} that they share, at {bad_values.format_index(at)}"
