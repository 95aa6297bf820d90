"""The tutorial as the notebook that the site offers: a kernel runs it, and shows pictures, the report and progress."""

import json

import pytest
from optional import Missing, load
from processes import ROOT, python

nbclient, sphinx_gallery, ipykernel, ipywidgets = map(load, ("nbclient", "sphinx_gallery", "ipykernel", "ipywidgets"))
pytestmark = [pytest.mark.pictures, pytest.mark.processes]

TUTORIAL = ROOT / "docs" / "gallery" / "models_tutorial.py"
MORE = (
    "cmfast.bi_normalize(np.random.default_rng(0).poisson(9, (20_000, 5, 5)) + 1, progress=True).shape",
    "display.ConfusionDisplay.from_matrix(M[0])",
    "display.ConfusionDisplay.from_matrix(M[0]).plot()",
)
EXECUTE = """
import json
import os
import sys
import nbformat
from nbclient import NotebookClient
from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
from sphinx_gallery.notebook import jupyter_notebook
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

os.environ.pop("MPLBACKEND", None)  # what draws without a screen, in other tests
source, target, *more = sys.argv[1:]
_, blocks = split_code_and_text_blocks(source)
notebook = jupyter_notebook(blocks, dict(DEFAULT_GALLERY_CONF), target)
notebook = nbformat.reads(json.dumps(notebook), as_version=4)
notebook.cells += [nbformat.v4.new_code_cell(cell) for cell in more]
nbformat.write(NotebookClient(notebook, timeout=300).execute(), target)
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Return what each cell shows, by its type; a cell that fails is an error."""
    for library in (nbclient, sphinx_gallery, ipykernel, ipywidgets):
        if isinstance(library, Missing):
            library.skip()
    folder = tmp_path_factory.mktemp("notebook")
    done = folder / "done.ipynb"
    python("-c", EXECUTE, str(TUTORIAL), str(done), *MORE, cwd=folder, limit=600)
    return [shown(cell) for cell in json.loads(done.read_text())["cells"] if cell["cell_type"] == "code"]


def shown(cell: dict) -> dict[str, str]:
    """Return what a cell shows, by its type, as one text for each."""
    found: dict[str, str] = {}
    for output in cell["outputs"]:
        parts = {output["name"]: output["text"]} if output["output_type"] == "stream" else output["data"]
        for kind, text in parts.items():
            found[kind] = found.get(kind, "") + (text if isinstance(text, str) else "".join(map(str, text)))
    return found


def test_every_step_has_a_picture(outputs: list[dict[str, str]]) -> None:
    steps = outputs[: -len(MORE)]
    drawn = [k for k, cell in enumerate(steps) if "image/png" in cell or "<iframe" in cell.get("text/html", "")]
    words = [k for k, cell in enumerate(steps) if "stdout" in cell]
    assert len(steps) == 9
    assert sorted({*drawn, *words}) == list(range(9))
    assert len(drawn) == 8  # the decision is words alone


def test_the_report_is_shown_in_place(outputs: list[dict[str, str]]) -> None:
    report = outputs[-len(MORE) - 1]["text/html"]
    assert report.startswith("<iframe ")
    assert "Random forest or support vectors?" in report


def test_progress_is_a_widget(outputs: list[dict[str, str]]) -> None:
    progress = outputs[-3]
    assert "application/vnd.jupyter.widget-view+json" in progress
    assert "20,000" not in progress.get("stderr", "")
    assert progress["text/plain"].endswith("(20000, 5, 5)")


def test_a_display_is_shown_once_and_with_words(outputs: list[dict[str, str]]) -> None:
    undrawn, drawn = outputs[-2:]
    assert undrawn["text/html"].startswith("<figure><img ")
    assert "<figcaption>10 classes" in undrawn["text/html"]
    assert "image/png" not in undrawn
    assert "image/png" in drawn
    assert "<img" not in drawn["text/html"]
