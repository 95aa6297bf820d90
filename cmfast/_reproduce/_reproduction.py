"""Result type of a reproduction: claims with verdicts, sections of tables and pictures, numbers; timing helpers."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cmfast._pages.parts import Claim, Figure, Paragraph, Part, Picture, Section

Progress = Callable[[str, str], Callable[[int, int], object]]
"""Makes the progress bar of a stage from its label and its unit."""


def make_figure_section(
    title: str, shown: Sequence[Part], before: Sequence[Paragraph] = (), after: Sequence[Paragraph] = ()
) -> Section:
    """Return a section of one figure: text before, parts side by side, text after."""
    return Section(title, [*before, Figure(shown, after, "shown")])


@dataclass
class Reproduction:
    """A recomputed paper: claims, sections, settings and numbers."""

    name: str
    """Name in the command."""
    title: str
    source: str
    """Authors, title, year and where to find it."""
    lead: str
    """Summary of the paper and of the result, in a few sentences."""
    claims: Sequence[Claim]
    sections: Sequence[Section]
    settings: dict[str, Any]
    """All settings that affect results, including seeds."""
    asked: Sequence[str] = ()
    """Options of the paper as typed on the command line."""
    numbers: dict[str, Any] = field(default_factory=dict)
    """Numbers that belong to no picture and no claim."""
    pages: dict[str, str] = field(default_factory=dict)
    """Further pages by file name."""
    reduced: str = ""
    """Reductions of a quick run, such as "6 seeds instead of 30"."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by stage; the only values that differ between runs."""
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    """Arrays written into ``matrices.npz``."""
    cards: Sequence[tuple[str, str]] = ()
    """Large values at the top of the page with labels; default: the number of claims that hold."""
    opening: Sequence[Part] = ()
    """Parts below the cards."""
    making: Sequence[Paragraph] = ()
    """Notes on the computation, besides command, times and versions."""

    @property
    def command(self) -> str:
        """Command line that reproduces the paper, without the options of this run."""
        return f"cmfast reproduce {self.name}"

    def to_dict(self, files: list[str]) -> dict[str, Any]:
        """Return the content of ``results.json``; `files` are the names of all written files."""
        return {
            "reproduction": self.name,
            "title": self.title,
            "source": self.source,
            "settings": self.settings,
            "claims": [{**vars(claim), "seeds": list(claim.seeds)} for claim in self.claims],
            "figures": {picture.name: picture.numbers for picture in self.pictures()},
            "numbers": self.numbers,
            "quick_limits": self.describe_quick_limits(),
            "files": files,
            "timings": self.timings,
        }

    def describe_quick_limits(self) -> str:
        """Return the notice of a quick run: its reductions and undecided claims; empty for a full run."""
        if not self.settings.get("quick"):
            return ""
        less = f"This is a quick run: {self.reduced}." if self.reduced else "This is a quick run."
        unclear = [claim for claim in self.claims if "undecided" in claim.verdict]
        if not unclear:
            return f"{less} It leaves no claim undecided; its numbers vary more than those of the full run."
        where = Counter(claim.where for claim in unclear)
        places = "; ".join(f"{place} ({n} claims)" if n > 1 else place for place, n in where.items())
        partly = sum(claim.verdict != "undecided" for claim in unclear)
        some = f" ({partly} only in part)" if partly else ""
        return (
            f"{less} It cannot decide {len(unclear)} of {len(self.claims)} claims{some}: {places}. Run "
            f"{self.command} without --quick for those."
        )

    def pictures(self) -> list[Picture]:
        """Return the pictures that are written to files, in order; refuse duplicate names."""
        found = [picture for section in self.sections for picture in section.find(Picture) if picture.name]
        names = [picture.name for picture in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            msg = f"pictures of one name: {', '.join(twice)}"
            raise ValueError(msg)
        return found


@contextmanager
def measure_time(timings: dict[str, float], stage: str) -> Iterator[None]:
    """Add the seconds of a block to `timings`."""
    started = time.perf_counter()
    yield
    timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - started


@contextmanager
def limit_to_one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread: small products are faster so, and bits do not depend on the machine."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
