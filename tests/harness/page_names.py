"""A checker of pages: names of the user are text alone, and isolated wherever they are shown."""

import re
import unicodedata
from html.parser import HTMLParser

SENTINEL = "qx7"  # in all hostile names, and nowhere else on a page
NAMES = [
    f"</script><b>{SENTINEL}",
    f"\u05e9\u05dc\u05d5\u05dd {SENTINEL} 12",  # Hebrew, with a number after it
    f"\u0645\u0631\u062d\u0628\u0627 ({SENTINEL})",  # Arabic
    f"{SENTINEL} \u202eoverride",
    f"{SENTINEL} \u2067open isolates \u2068",
    f"{SENTINEL} \u2069\u2069 closes what is not its own",
    f"\"{SENTINEL}\" 'onload=' & <!-- ]]>",
    f"{SENTINEL} two\nlines",
    SENTINEL + " very long" * 30,
    f"\u2068{SENTINEL}\u2069",
    f"{SENTINEL} the second \u202b embedded",
]
START, END = "\u2066\u2067\u2068", "\u2069"
EMBEDDINGS, END_EMBEDDING = "\u202a\u202b\u202d\u202e", "\u202c"
RIGHT_TO_LEFT = {"R", "AL", "AN", "RLE", "LRE", "RLO", "LRO", "PDF"}
VOID = {"meta", "input", "br", "img"}


class Checker(HTMLParser):
    """Elements of a page in order, and complaints about names in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.complaints: list[str] = []
        self.structure: list[tuple[str, tuple[str, ...]]] = []
        self.found = 0
        self._open: list[str] = []
        self.feed(page)
        self.close()
        if self._open:
            self.complaints.append(f"open at the end: {self._open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element, and look at its attributes."""
        if tag == "bdi":
            if "svg" in self._open or {"title", "option"} & set(self._open[-1:]):
                self.complaints.append(f"<bdi> in {self._open}")
        else:
            self.structure.append((tag, tuple(name for name, _ in attrs)))
        for name, value in attrs:
            if name != "srcdoc":
                self._look(value or "", f"{name} of <{tag}>", isolated=False)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element without an end."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Compare it with what is open."""
        if not self._open or self._open.pop() != tag:
            self.complaints.append(f"</{tag}> ends nothing")

    def handle_comment(self, data: str) -> None:
        """Complain: pages have none."""
        self.complaints.append(f"a comment: {data[:60]!r}")

    def handle_data(self, data: str) -> None:
        """Look at a text; what a script reads may not end its element, which parsing has shown."""
        if self._open[-1:] not in (["script"], ["style"]):
            self._look(data, "/".join(self._open[-3:]), isolated="bdi" in self._open)

    def _look(self, text: str, where: str, *, isolated: bool) -> None:
        """Complain about names outside isolates, and about isolates and embeddings that begin or end alone."""
        ends: list[str] = []
        for k, character in enumerate(text):
            if character in START:
                ends.append(END)
            elif character in EMBEDDINGS:
                ends.append(END_EMBEDDING)
            elif character in (END, END_EMBEDDING) and (not ends or ends.pop() != character):
                self.complaints.append(f"an end without a start in {where}: {text[:80]!r}")
                return
            inside = isolated or END in ends or character == END
            name = text.startswith(SENTINEL, k)
            self.found += name
            if not inside and (name or unicodedata.bidirectional(character) in RIGHT_TO_LEFT):
                self.complaints.append(f"not isolated in {where}: {text[max(k - 30, 0) : k + 30]!r}")
                return
            if (isolated or ends) and unicodedata.bidirectional(character) == "B":
                self.complaints.append(f"a paragraph ends within a name in {where}: {text[:80]!r}")
                return
        if ends:
            self.complaints.append(f"a start without an end in {where}: {text[:80]!r}")


def complain(page: str, tame: str = "") -> list[str]:
    """Return what is wrong with names of a page; `tame`: the same page of harmless names, whose elements it has."""
    checker = Checker(page)
    found = checker.complaints
    if tame and checker.structure != Checker(tame).structure:
        found.append("names make elements or attributes")
    if not checker.found:
        found.append("there are no names to look at")
    return found


def remove_isolates(page: str) -> list[str]:
    """Return the page once for each place at which a name is isolated, without that isolation."""
    places = [*re.finditer(r"<bdi>(.*?)</bdi>", page), *re.finditer(r"\u2068([^<>]*?)\u2069(?![^<]*</bdi>)", page)]
    head = page.partition('id="data"')[0]
    return [
        page[: one.start()] + one[1] + page[one.end() :]
        for one in places
        if SENTINEL in one[1] and one.end() < len(head) and one[1][0] not in START  # else isolated by marks of its own
    ]
