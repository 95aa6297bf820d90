"""The reference of the site leaves nothing out."""

import ast
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest
import site_pages

import cmfast

pytestmark = pytest.mark.torch  # which cmfast.nn needs

TOPICS = [one.name for one in pkgutil.iter_modules(cmfast.__path__) if not one.name.startswith("_")]


@pytest.mark.parametrize("topic", sorted({*TOPICS} - {"cli", "compat", "kernels"}))
def test_every_topic_is_in_the_reference(topic: str) -> None:
    path = f"cmfast.{topic}"
    if path in site_pages.MODULES:
        assert "autosummary" in site_pages.module(path, "")
    else:
        pages = site_pages.package() + site_pages.module("cmfast.results", "")
        assert set(import_module(path).__all__) <= set(pages.split())


def test_every_public_name_has_a_page() -> None:
    lines = site_pages.package().split()
    modules = {path.rpartition(".")[2] for path in site_pages.MODULES}
    assert set(cmfast.__all__) - modules - {"__version__"} <= set(lines)
    assert {"precision", "compute", "classification_report"} <= set(site_pages.module("cmfast.metrics", "").split())


def test_a_display_has_one_page() -> None:
    pages = [site_pages.module(path, "").split() for path in site_pages.MODULES]
    assert sum("CcmDisplay" in page for page in pages) == 1


def test_figures_of_every_topic_are_shown() -> None:
    page = site_pages.benchmarks()
    assert page.count("\n## ") == len(list(site_pages.RESULTS.glob("*-quick-*.json"))) > 0
    assert "bi 0.9" in page


def test_links_of_pages_are_files_of_the_tree_and_on_the_site_pages():
    docs = Path(site_pages.__file__).parent
    names: list[str] = []
    for path in (*docs.glob("*.md"), *docs.glob("howto/*.md"), *docs.parent.glob("*.md")):
        text = path.read_text()
        targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
        assert not [target for target in targets if not (path.parent / target).exists()], path
        names += (
            re.findall(r"\]\(pictures/([\w.]+)\)", site_pages.link_to_pictures(text)) if path.parent == docs else []
        )
    assert {"index.rst", "models_tutorial.rst"} <= set(names)
    assert all((docs / "gallery" / name).with_suffix(".py").exists() for name in names if name != "index.rst")


def test_every_program_of_the_gallery_has_a_place_and_a_sentence_in_its_index():
    programs = (Path(site_pages.__file__).parent / "gallery").glob("*.py")
    docstrings = {path.stem: ast.get_docstring(ast.parse(path.read_text())) or "" for path in programs}
    assert sorted(docstrings) == sorted(site_pages.GALLERY)
    for name, text in docstrings.items():
        sentence = text.split("\n\n")[1]
        assert sentence.count(".") == 1, name
        assert len(sentence.replace("\n", " ")) < 120, name
