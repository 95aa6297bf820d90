"""Parts of pages: sections of paragraphs, tables, pictures and claims, which ``render.py`` turns into HTML.

All text is plain, with user names between the marks of ``markup.isolate``; only the renderer escapes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

P = TypeVar("P")
_PLAIN_VERDICTS = ("holds", "fails", "undecided")
_VERDICT = re.compile(rf"({'|'.join(_PLAIN_VERDICTS)})( where .+)?")
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")


class Code(str):
    """A piece of a paragraph that is shown as code."""

    __slots__ = ()


class Verdict(str):
    """A table cell that is coloured by its verdict."""

    __slots__ = ()


Paragraph: TypeAlias = str | tuple[str, ...]
"""A text, or its pieces, some of them Code."""


@dataclass(frozen=True)
class Table:
    """Table of texts: a heading for every column; the first column names the rows."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    sorts: bool = False
    """Whether a click on a heading sorts the table; needs the script of the report."""


@dataclass(frozen=True)
class Picture:
    """A picture as SVG or PNG with the numbers that it shows; made by ``pictures.make_picture``."""

    name: str
    """Name of its file and of its numbers, in snake case; "" without a separate file."""
    image: str | bytes
    numbers: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    """Alternative text of a PNG; an SVG has its own label."""

    def __post_init__(self) -> None:
        if self.name and not _NAME.fullmatch(self.name):
            msg = f"name must be lower case letters, digits and underscores, got {self.name!r}"
            raise ValueError(msg)

    @property
    def file(self) -> str:
        """File name of the picture."""
        return f"{self.name}.{'svg' if isinstance(self.image, str) else 'png'}"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper and the reproduced result."""

    text: str
    """The claim, in a sentence."""
    where: str
    """Place in the paper."""
    verdict: str
    """"holds", "fails" or "undecided", optionally followed by "where ..."."""
    found: str
    """The result, in a sentence with its values."""
    figures: dict[str, Any] = field(default_factory=dict)
    """Values behind the result."""
    seeds: Sequence[int] = ()
    """Seeds of the random numbers."""

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
    """Trusted HTML; it must not contain user text."""

    html: str


@dataclass(frozen=True)
class Figure:
    """Parts in a frame, with a caption."""

    parts: Sequence["Part"]
    caption: Sequence[Paragraph] = ()
    columns: Literal["", "shown", "two", "maps", "claims"] = ""
    """Layout of the parts: "shown" puts tables in separate rows, "two" does not, "maps" are narrow columns."""


@dataclass(frozen=True)
class Folded:
    """Parts that are collapsed until opened."""

    summary: str
    parts: Sequence["Part"]


Part: TypeAlias = Paragraph | Table | Picture | Heading | Markup | Figure | Folded


@dataclass(frozen=True)
class Section:
    """A titled section of a page."""

    title: str
    parts: Sequence[Part]
    anchor: str = ""
    """Target of links."""

    def find(self, kind: type[P]) -> list[P]:
        """Return all parts of type `kind`, in order, at any depth."""
        return [part for part in _walk(self.parts) if isinstance(part, kind)]


def _walk(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield all parts, including those inside figures and folded parts."""
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
    """Large values at the top, with their labels."""
    sections: Sequence[Section]
    foot: Sequence[Part]
    name: str = ""
    """Title of the browser tab; default: the title."""
    notice: str = ""
    """Framed notice at the top."""
    source: str = ""
    """Source of the topic of the page."""
    opening: Sequence[Part] = ()
    """Parts below the cards."""


def classify(verdict: str) -> str:
    """Return the kind of a verdict for colours and counts: holds, fails, undecided, or partly."""
    return verdict if verdict in _PLAIN_VERDICTS else "partly"


def count_verdicts(verdicts: Iterable[str], words: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return the number of verdicts of each kind, with its word in `words`; undecided only if there are any."""
    counted = Counter(map(classify, verdicts))
    return [(counted[name], word) for name, word in words.items() if counted[name] or name != "undecided"]


def summarize_verdicts(verdicts: Iterable[str]) -> str:
    """Return the verdicts in one line, such as "Claims: 1 that holds, 3 that fail, 2 in part."."""
    words = {"holds": "that hold", "fails": "that fail", "partly": "in part", "undecided": "undecided"}
    counted = (
        f"{count} {word}{'s' * (count == 1 and word.startswith('that'))}"
        for count, word in count_verdicts(verdicts, words)
    )
    return f"Claims: {', '.join(counted)}."
