"""What a paper's reproduction is made of: claims with a verdict, and sections of tables and pictures with numbers."""

import io
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cmfast._core import drawing

Progress = Callable[[str, str], Callable[[int, int], object]]
"""Makes the progress bar of a stage from its label and its unit."""

_WHOLE = ("holds", "fails", "undecided")
_VERDICT = re.compile(rf"({'|'.join(_WHOLE)})( where .+)?")
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")


def kind(verdict: str) -> str:
    """Return how a verdict is coloured and counted: holds, fails, undecided, or partly."""
    return verdict if verdict in _WHOLE else "partly"


def tally(verdicts: Iterable[str], words: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return how many verdicts there are of each kind, with its word in `words`; of undecided only if there are."""
    counted = Counter(map(kind, verdicts))
    return [(counted[name], word) for name, word in words.items() if counted[name] or name != "undecided"]


def mean_and_error(values: Any) -> tuple[float, float]:
    """Return the mean over seeds and its standard error; what is not defined is left out."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return float(known.mean()) if len(known) else np.nan, np.nan
    return float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known)))


def summed_up(verdicts: Iterable[str]) -> str:
    """Return the verdicts in a line: "Claims: 1 that holds, 3 that fail, 2 in part."."""
    words = {"holds": "that hold", "fails": "that fail", "partly": "in part", "undecided": "undecided"}
    counted = (
        f"{count} {word}{'s' * (count == 1 and word.startswith('that'))}" for count, word in tally(verdicts, words)
    )
    return f"Claims: {', '.join(counted)}."


@dataclass(frozen=True)
class Claim:
    """What a paper says, and what came out."""

    text: str
    """The claim, in a sentence."""
    where: str
    """Its place in the paper."""
    verdict: str
    """"holds", "fails" or "undecided", or one of them with "where ..." behind it."""
    found: str
    """What came out, in a sentence with its figures."""
    figures: dict[str, Any] = field(default_factory=dict)
    """The numbers behind it."""
    seeds: Sequence[int] = ()
    """Of the draws that it stands on."""

    def __post_init__(self) -> None:
        if not _VERDICT.fullmatch(self.verdict):
            msg = f"verdict must be holds, fails, undecided, or one of them with where, got {self.verdict!r}"
            raise ValueError(msg)


@dataclass(frozen=True)
class Table:
    """Numbers as text: a heading for every column, the first column names the rows."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A picture as SVG, or as PNG where matplotlib draws it, with the numbers that it shows."""

    name: str
    """Of its file and of its numbers: words of small letters, with underscores."""
    image: str | bytes
    numbers: dict[str, Any]
    says: str = ""
    """What is to be seen, for those who cannot see it; an SVG says that itself."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            msg = f"name must be small letters and digits, with underscores, got {self.name!r}"
            raise ValueError(msg)

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}.{'svg' if isinstance(self.image, str) else 'png'}"


@dataclass(frozen=True)
class Section:
    """A part of the page: what is said first, what is shown, what is said of that."""

    title: str
    shown: Sequence[Table | Picture]
    before: Sequence[str] = ()
    after: Sequence[str] = ()


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
            f"{less} It cannot decide {len(unclear)} of {len(self.claims)} claims{some}: {places}. Run cmfast "
            f"reproduce {self.name} without --quick for those."
        )

    def pictures(self) -> list[Picture]:
        """Return the pictures, in their order; every name occurs once."""
        found = [part for section in self.sections for part in section.shown if isinstance(part, Picture)]
        names = [picture.name for picture in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            msg = f"pictures of one name: {', '.join(twice)}"
            raise ValueError(msg)
        return found


def png(figure: Any, dpi: int = 90) -> bytes:
    """Return a figure of matplotlib as PNG, the same bytes in every run, and close it."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    drawing.pyplot().close(figure)
    return out.getvalue()


@contextmanager
def timed(timings: dict[str, float], stage: str) -> Iterator[None]:
    """Add the seconds of a block to the timings."""
    started = time.perf_counter()
    yield
    timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - started
