"""What pages are made of: sections of paragraphs, tables, figures and claims. ``render.py`` makes HTML of them.

All text is plain here, names of users between the marks of ``markup.isolate``; only the renderer escapes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

P = TypeVar("P")
_WHOLE = ("holds", "fails", "undecided")
_VERDICT = re.compile(rf"({'|'.join(_WHOLE)})( where .+)?")
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")


class Code(str):
    """A piece of a paragraph that is shown as one types it."""

    __slots__ = ()


class Verdict(str):
    """A cell of a table that has the colour of its verdict."""

    __slots__ = ()


Paragraph: TypeAlias = str | tuple[str, ...]
"""A text, or its pieces, of which some are Code."""


@dataclass(frozen=True)
class Table:
    """Numbers as text: a heading for every column, the first column names the rows."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    sorts: bool = False
    """Whether a click on a heading sorts it; the page needs the report's script for that."""


@dataclass(frozen=True)
class Picture:
    """A picture as SVG or as PNG, with the numbers that it shows. ``pictures.draw`` makes it."""

    name: str
    """Of its file and of its numbers: words of small letters, with underscores; "" where it has no file of its own."""
    image: str | bytes
    numbers: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    """What is to be seen, for those who cannot see it; an SVG says that itself."""

    def __post_init__(self) -> None:
        if self.name and not _NAME.fullmatch(self.name):
            msg = f"name must be small letters and digits, with underscores, got {self.name!r}"
            raise ValueError(msg)

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}.{'svg' if isinstance(self.image, str) else 'png'}"


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
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Markup:
    """Elements of our own; no text of users may be in it."""

    html: str


@dataclass(frozen=True)
class Figure:
    """Parts in a frame, with a caption."""

    parts: Sequence["Part"]
    caption: Sequence[Paragraph] = ()
    columns: Literal["", "shown", "two", "maps", "claims"] = ""
    """Side by side where there is room: "shown" gives a table a row of its own, "two" does not, "maps" are narrow."""


@dataclass(frozen=True)
class Folded:
    """Parts that are shown when one asks for them."""

    summary: str
    parts: Sequence["Part"]


Part: TypeAlias = Paragraph | Table | Picture | Heading | Markup | Figure | Folded


@dataclass(frozen=True)
class Section:
    """A part of the page with a title."""

    title: str
    parts: Sequence[Part]
    anchor: str = ""
    """By which links find it."""

    def find(self, kind: type[P]) -> list[P]:
        """Return all parts of a kind, in their order."""
        return [part for part in _walk(self.parts) if isinstance(part, kind)]


def _walk(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Figure | Folded):
            yield from _walk(part.parts)


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    lead: str
    cards: Sequence[tuple[str, str]]
    """Large values at the top, with what each is."""
    sections: Sequence[Section]
    foot: Sequence[Part]
    name: str = ""
    """In the tab of the browser; default: the title."""
    notice: str = ""
    """What is read before all else, in a frame."""
    source: str = ""
    """What the page is about, where that has a source."""
    opening: Sequence[Part] = ()
    """Below the cards."""


def classify(verdict: str) -> str:
    """Return the kind of a verdict, by which it is coloured and counted: holds, fails, undecided, or partly."""
    return verdict if verdict in _WHOLE else "partly"


def count_verdicts(verdicts: Iterable[str], words: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return the number of verdicts of each kind, with its word in `words`; of undecided only if there are any."""
    counted = Counter(map(classify, verdicts))
    return [(counted[name], word) for name, word in words.items() if counted[name] or name != "undecided"]


def summarize_verdicts(verdicts: Iterable[str]) -> str:
    """Return the verdicts in a line: "Claims: 1 that holds, 3 that fail, 2 in part."."""
    words = {"holds": "that hold", "fails": "that fail", "partly": "in part", "undecided": "undecided"}
    counted = (
        f"{count} {word}{'s' * (count == 1 and word.startswith('that'))}"
        for count, word in count_verdicts(verdicts, words)
    )
    return f"Claims: {', '.join(counted)}."
