"""Pages of reports as tests read them: elements, texts, and what their script is given."""

import json
import zlib
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np

VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """Elements of a page: every one ends where it should."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.scripts = [], [], [], {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        """Note an element without an end, as in SVG."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """Check that it is the last that began."""
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        """Note texts, and what scripts hold."""
        if self.open and self.open[-1][0] == "script":
            name = self.open[-1][1].get("id", "code")
            self.scripts[name] = self.scripts.get(name, "") + data
        elif self.open and self.open[-1][0] != "style":
            self.text.append(data)


def read_page_data(page):
    """Return what the script of a page reads."""
    return json.loads(Page(page.html).scripts["data"])


def unpack_counts(part, C):
    """Return the counts of a model as the script finds them."""
    kind = {"u1": "u1", "u2": "<u2", "u4": "<u4", "f4": "<f4"}[part["kind"]]
    return np.frombuffer(zlib.decompress(b64decode(part["cells"])), kind).reshape(C, C)
