"""Text for pages: escaped, and names of the user isolated, so that their direction reorders nothing around them.

Names stand in sentences between the marks of Unicode's first-strong isolate (UAX 9), which ``escape_prose`` turns into
``<bdi>``; attributes, titles and SVG, where no element can be, keep the marks. Only this module calls ``html.escape``.
"""

import re
from html import escape

ISOLATE, POP = "\u2068", "\u2069"  # first-strong isolate, and the end of the last isolate
_STARTS = "\u2066\u2067\u2068"
_EMBEDDINGS = "\u202a\u202b\u202d\u202e"
_POP_EMBEDDING = "\u202c"
_CONTROLS = re.compile(f"[{_STARTS}{POP}{_EMBEDDINGS}{_POP_EMBEDDING}]")
_PARAGRAPHS = re.compile("[\n\r\x1c-\x1e\x85\u2029]+")  # they end every isolate (bidi class B)
_ISOLATES = re.compile(f"([{_STARTS}{POP}])")


def isolate(name: object) -> str:
    """Return a name between marks of isolation, in one paragraph and with the bidi controls of its own balanced."""
    return f"{ISOLATE}{balance_controls(_PARAGRAPHS.sub(' ', str(name)))}{POP}"


def balance_controls(text: str) -> str:
    """Return a text with an end for each isolate and embedding that it begins, and without ends of others."""
    if not _CONTROLS.search(text):
        return text
    out: list[str] = []
    ends: list[str] = []  # of what is open
    for character in text:
        if character in _STARTS:
            ends.append(POP)
        elif character in _EMBEDDINGS:
            ends.append(_POP_EMBEDDING)
        elif character == POP:
            if POP not in ends:
                continue
            while ends[-1] != POP:  # the end of an isolate is that of embeddings within, too
                out.append(ends.pop())
            ends.pop()
        elif character == _POP_EMBEDDING:
            if not ends or ends[-1] == POP:
                continue
            ends.pop()
        out.append(character)
    return "".join([*out, *reversed(ends)])


def remove_isolates(text: str) -> str:
    """Return a text without the marks of ``isolate``, as data that is not shown."""
    return text.replace(ISOLATE, "").replace(POP, "")


def shorten(name: str, longest: int) -> str:
    """Return a name of at most `longest` characters, the last of them an ellipsis where it was cut; marks stay."""
    marks = name.startswith(ISOLATE)
    if len(name) - 2 * marks <= longest:
        return name
    return balance_controls(f"{name[: longest - 1 + marks]}…")


def escape_prose(text: str) -> str:
    """Return a text as HTML; each part that ``isolate`` made is a ``<bdi>``, and isolates within it stay characters."""
    text = balance_controls(text)
    if ISOLATE not in text:
        return escape(text)
    out: list[str] = []
    starts: list[str] = []  # of the isolates that are open
    for piece in _ISOLATES.split(text):
        if piece and piece in _STARTS:
            starts.append(piece)
            out.append("<bdi>" if starts == [ISOLATE] else piece)
        elif piece == POP and starts:
            out.append("</bdi>" if starts == [ISOLATE] else piece)
            starts.pop()
        else:
            out.append(escape(piece))
    return "".join(out)


def escape_name(name: object) -> str:
    """Return a name of the user as HTML, in a ``<bdi>``."""
    return escape_prose(isolate(name))


def escape_attribute(text: str) -> str:
    """Return a text for places that take no elements: values of attributes, titles, texts of SVG; marks stay."""
    return escape(text)
