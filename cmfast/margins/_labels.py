"""Names of axes, margin entries and cells in messages: indices, or columns and categories of a data frame."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from cmfast._core import bad_values, wording
from cmfast._files.survey_totals import describe_key


class AxisLabels(NamedTuple):
    """Column names, categories and margin names of a data frame; empty for arrays."""

    columns: tuple[str, ...] = ()
    labels: tuple[Sequence[Any], ...] = ()
    margins: tuple[str, ...] = ()

    def place(self, axes: Sequence[int], at: Sequence[int]) -> str:
        """Return the name of a position on some axes."""
        if not self.columns:
            return bad_values.format_index(at)
        key = tuple(str(self.labels[axis][k]) for axis, k in zip(axes, at, strict=True))
        return describe_key(tuple(self.columns[axis] for axis in axes), key) or "the total"

    def margin(self, name: str, margin: int, axes: Sequence[int]) -> str:
        """Return the name of a margin of the argument `name`."""
        of = ", ".join(map(str, (self.columns[axis] for axis in axes))) if self.columns else ""
        return f"{self.margins[margin] if self.margins else wording.element(name, margin)}{' of ' if of else ''}{of}"

    def line(self, margin: int, axes: Sequence[int], at: Sequence[int]) -> str:
        """Return the name of a margin entry."""
        where = self.place(axes, at)
        return where if self.columns else f"line {where} of {wording.element('margins', margin)}"

    def shared(self, kept: str, common: Sequence[int], at: Sequence[int]) -> str:
        """Return the name of the position that two margins share; `kept` names axes in messages."""
        if not common:
            return "total"
        if self.columns:
            return self.place(common, at)
        return f"{kept} {tuple(common)} that they share, at {bad_values.format_index(at)}"
