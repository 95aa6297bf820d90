"""What a paper's reproduction is made of: claims with a verdict, and sections of tables and pictures with numbers."""

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


def illustrate(
    title: str, shown: Sequence[Part], before: Sequence[Paragraph] = (), after: Sequence[Paragraph] = ()
) -> Section:
    """Return a section of one figure: what is said first, what is shown side by side, what is said of that."""
    return Section(title, [*before, Figure(shown, after, "shown")])


@dataclass
class Reproduction:
    """A paper, computed again."""

    name: str
    """As the command calls it."""
    title: str
    source: str
    """Authors, title, year, where it is to be had."""
    lead: str
    """What the paper is about and what came out, in a few sentences."""
    claims: Sequence[Claim]
    sections: Sequence[Section]
    settings: dict[str, Any]
    """Everything that can change a result, seeds too."""
    asked: Sequence[str] = ()
    """Options of its own that the command was given, as they are typed."""
    numbers: dict[str, Any] = field(default_factory=dict)
    """What is in no picture and behind no claim."""
    pages: dict[str, str] = field(default_factory=dict)
    """Further pages, by the names of their files."""
    reduced: str = ""
    """What a quick run has less of, in words: "6 seeds in place of 30"."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by stage: all that differs between two runs."""
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    """What is written into ``matrices.npz``."""
    cards: Sequence[tuple[str, str]] = ()
    """Large values at the top of the page, with what each is; default: how many claims hold."""
    opening: Sequence[Part] = ()
    """Below the cards."""
    making: Sequence[Paragraph] = ()
    """How it was made, beyond command, times and versions."""

    @property
    def command(self) -> str:
        """What one types to make it."""
        return f"cmfast reproduce {self.name}"

    def to_dict(self, files: list[str]) -> dict[str, Any]:
        """Return what ``results.json`` holds; `files` are the names of all that is written."""
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
        """Return the first line of a quick run: what it has less of, and which claims it cannot decide; else ""."""
        if not self.settings.get("quick"):
            return ""
        less = f"This is a quick run: {self.reduced}." if self.reduced else "This is a quick run."
        unclear = [claim for claim in self.claims if "undecided" in claim.verdict]
        if not unclear:
            return f"{less} It leaves no claim undecided; its figures scatter more than those of the full run."
        where = Counter(claim.where for claim in unclear)
        places = "; ".join(f"{place} ({n} claims)" if n > 1 else place for place, n in where.items())
        partly = sum(claim.verdict != "undecided" for claim in unclear)
        some = f" ({partly} only in part)" if partly else ""
        return (
            f"{less} It cannot decide {len(unclear)} of {len(self.claims)} claims{some}: {places}. Run "
            f"{self.command} without --quick for those."
        )

    def pictures(self) -> list[Picture]:
        """Return the pictures that are files, too, in their order; every name occurs once."""
        found = [picture for section in self.sections for picture in section.find(Picture) if picture.name]
        names = [picture.name for picture in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            msg = f"pictures of one name: {', '.join(twice)}"
            raise ValueError(msg)
        return found


@contextmanager
def timed(timings: dict[str, float], stage: str) -> Iterator[None]:
    """Add the seconds of a block to the timings."""
    started = time.perf_counter()
    yield
    timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - started


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra run on one thread: such small products are slower on several, and their bits depend on it."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
