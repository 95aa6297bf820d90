"""Directives of the site: indexes with a picture of each page, and programs followed by what they printed and drew."""

import contextlib
import doctest
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import page_commands
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
RECORDED = HERE / "howto" / "printed"  # by programs that need more than a build of the site has
DRAWN = "_drawn"  # the folder of figures, below this one


class Pages(SphinxDirective):
    """Show a card for each page, and add it to the navigation: ``page | short title | sentence`` on each line.

    With ``:doors:`` the cards lead to pages, or places on them, that are in the navigation elsewhere.
    """

    has_content = True
    option_spec = {"doors": directives.flag}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        """Return the cards, and a hidden table of contents."""
        entries = [[part.strip() for part in line.split("|")] for line in self.content if line.strip()]
        lines = ["::::{grid} 2 2 3 3", ":gutter: 3", ""]
        for page, title, sentence in entries:
            name, _, place = page.partition("#")
            target, kind = (f"{name}.html#{place}", "url") if place else (name, "doc")
            lines += [f":::{{grid-item-card}} {title}", f":img-top: /thumbnails/{name.replace('/', '-')}.png"]
            lines += [f":img-alt: {title}", f":link: {target}", f":link-type: {kind}", "", sentence, ":::", ""]
        lines += ["::::", ""]
        if "doors" not in self.options:
            contents = [f"{title} <{page}>" for page, title, _ in entries]
            lines += ["```{toctree}", ":hidden:", "", *contents, "```"]
        parent = nodes.Element()
        self.state.nested_parse(StringList(lines, self.get_source_info()[0]), self.content_offset, parent)
        return parent.children


class RunExample(SphinxDirective):
    """Show a program of ``examples``, run it, and show what it prints.

    ``:start:`` are options of Python that start it. A program that needs what a build of the site lacks
    (``:needs:``) is followed by what it printed in ``.ci/run engines``, which compares that.
    """

    required_arguments = 1
    option_spec = {"needs": directives.unchanged, "start": directives.unchanged}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        """Return the source and the output."""
        path = EXAMPLES / self.arguments[0]
        self.env.note_dependency(str(path))
        source = path.read_text(encoding="utf-8")
        shown: list[nodes.Node] = [nodes.literal_block(source, source, language="python")]
        if needs := self.options.get("needs"):
            recorded = RECORDED / f"{path.stem}.txt"
            self.env.note_dependency(str(recorded))
            words = f"It prints (not run for this page, but by a test that has {needs} and compares the output):"
            return [*shown, *_printed(recorded.read_text(encoding="utf-8"), words)]
        return [*shown, *_printed(_run(path, self.options.get("start", "").split()))]


def _run(path: Path, start: list[str]) -> str:
    """Return what a program prints, in an empty folder and a process of its own."""
    paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, *start, str(path)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": paths, "MPLBACKEND": "agg"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode or not ran.stdout:
        problem = f"{path} failed, or printed nothing:\n{ran.stdout}{ran.stderr}"
        raise ExtensionError(problem)
    return ran.stdout


def _printed(text: str, words: str = "It prints:") -> list[nodes.Node]:
    block = nodes.literal_block(text, text, language="none", classes=["printed"])
    return [nodes.paragraph(words, words, classes=["prints"]), block]


def draw_figures(app: Sphinx, document: nodes.document) -> None:
    """Put the figures that the examples of a page draw below them; what they print is in the page, and tested."""
    page = app.env.current_document.docname
    blocks = [block for block in document.findall(nodes.literal_block) if block.astext().startswith(">>>")]
    for block in blocks:  # without what only doctest reads: an empty last line, and the repr of a figure
        block.rawsource = block.astext().rstrip().replace("\n<...>", "")
        block[:] = [nodes.Text(block.rawsource)]
    if not any(".plot(" in block.astext() for block in blocks):
        return
    text = Path(app.env.doc2path(page)).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for _ in page_commands.run_commands(text):  # they write files that the examples read
            pass
        _draw(page, blocks)


def _draw(page: str, blocks: list[nodes.literal_block]) -> None:
    """Run the examples of a page in order, and put each figure below the block that draws it."""
    from matplotlib import pyplot as plt  # noqa: TID251

    plt.close("all")
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        for example in doctest.DocTestParser().get_examples(block.astext()):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example.source, page, "single"), names)
        for figure in map(plt.figure, plt.get_fignums()):
            name = f"{DRAWN}/{page.replace('/', '-')}-{number}-{figure.number}.png"
            (HERE / DRAWN).mkdir(exist_ok=True)
            figure.savefig(HERE / name, dpi=80, bbox_inches="tight", metadata={"Software": None})
            image = nodes.image(uri=f"/{name}", alt="The figure that this example draws", classes=["drawn"])
            block.parent.insert(block.parent.index(block) + 1, image)
        plt.close("all")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register all of it."""
    app.add_directive("pages", Pages)
    app.add_directive("run-example", RunExample)
    app.connect("doctree-read", draw_figures, priority=100)
    return {"parallel_read_safe": False}
