"""Escape text for HTML pages and isolate user-supplied names, so that their direction reorders nothing around them.

In prose names are enclosed in Unicode first-strong isolates (UAX 9), which ``escape_prose`` turns into ``<bdi>``;
attributes, titles and SVG cannot hold elements and keep the characters. Only this module calls ``html.escape``.
"""

import re

ISOLATE, POP = "\u2068", "\u2069"  # first-strong isolate, and the end of the last isolate
_STARTS = "\u2066\u2067\u2068"
_EMBEDDINGS = "\u202a\u202b\u202d\u202e"
_POP_EMBEDDING = "\u202c"
_CONTROLS = re.compile(f"[{_STARTS}{POP}{_EMBEDDINGS}{_POP_EMBEDDING}]")
_PARAGRAPHS = re.compile("[\n\r\x1c-\x1e\x85\u2029]+")  # paragraph separators (bidi class B), which end every isolate
_ISOLATES = re.compile(f"([{_STARTS}{POP}])")


def isolate(name: object) -> str:
    """Enclose a name in isolate characters, as one paragraph and with its own bidi controls balanced."""
    return f"{ISOLATE}{balance_controls(_PARAGRAPHS.sub(' ', str(name)))}{POP}"


def balance_controls(text: str) -> str:
    """Balance bidi controls: close every open isolate and embedding, drop unmatched closing characters."""
    if not _CONTROLS.search(text):
        return text
    out: list[str] = []
    ends: list[str] = []  # closing characters of the open isolates and embeddings
    for character in text:
        if character in _STARTS:
            ends.append(POP)
        elif character in _EMBEDDINGS:
            ends.append(_POP_EMBEDDING)
        elif character == POP:
            if POP not in ends:
                continue
            while ends[-1] != POP:  # the end of an isolate also ends the embeddings inside
                out.append(ends.pop())
            ends.pop()
        elif character == _POP_EMBEDDING:
            if not ends or ends[-1] == POP:
                continue
            ends.pop()
        out.append(character)
    return "".join([*out, *reversed(ends)])


def remove_isolates(text: str) -> str:
    """Remove the isolate characters of ``isolate`` from a text that is data and not shown."""
    return text.replace(ISOLATE, "").replace(POP, "")


def shorten(name: str, longest: int) -> str:
    """Shorten a name to `longest` characters, the last one an ellipsis; isolate characters stay and do not count."""
    marks = name.startswith(ISOLATE)
    if len(name) - 2 * marks <= longest:
        return name
    return balance_controls(f"{name[: longest - 1 + marks]}…")


def escape_prose(text: str) -> str:
    """Escape a text as HTML; each isolated name becomes a ``<bdi>``, nested isolates stay characters."""
    text = balance_controls(text)
    if ISOLATE not in text:
        return _escape(text)
    out: list[str] = []
    starts: list[str] = []  # the open isolates
    for piece in _ISOLATES.split(text):
        if piece and piece in _STARTS:
            starts.append(piece)
            out.append("<bdi>" if starts == [ISOLATE] else piece)
        elif piece == POP and starts:
            out.append("</bdi>" if starts == [ISOLATE] else piece)
            starts.pop()
        else:
            out.append(_escape(piece))
    return "".join(out)


def escape_name(name: object) -> str:
    """Escape a user-supplied name as HTML inside a ``<bdi>``."""
    return escape_prose(isolate(name))


def escape_attribute(text: str) -> str:
    """Escape a text for attribute values, titles and SVG, which hold no elements; isolate characters stay."""
    return _escape(text)


def _escape(text: str) -> str:
    """Escape the characters that HTML interprets."""
    from html import escape

    return escape(text)
