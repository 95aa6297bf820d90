"""How Sphinx makes the site of this folder: ``python -m sphinx -W docs site``."""

import inspect
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ.setdefault("CMFAST_QUIET", "1")  # a page shows what a function prints, not what was compiled meanwhile

import site_pages  # noqa: E402
import thumbnails  # noqa: E402

import cmfast  # noqa: E402

project, author = "cmfast", "The cmfast developers"
copyright = author
version = release = cmfast.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "site_directives",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["backends/*", "gallery/*", "sg_execution_times.rst", "**/sg_execution_times.rst"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
copybutton_selector = "div:not(.printed) > div.highlight > pre"

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the docstrings, where shapes do
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of a class has them whole

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "filename_pattern": r"/(plot_|models_)",
    "gallery_dirs": "pictures",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 60,
    "remove_config_comments": True,
    "show_signature": False,
    "within_subsection_order": "site_pages.find_place_in_gallery",
}

html_theme = "pydata_sphinx_theme"
html_title = "cmfast"
html_show_sourcelink = html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"install": [], "getting_started": [], "changelog": [], "contributing": []}
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navigation_with_keys": True,
    "show_toc_level": 2,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def skipped(app: Any, what: str, name: str, member: object, skip: bool, options: Any) -> bool | None:
    """Leave out fields and properties, which the docstring of their class describes."""
    del app, name, skip, options
    return True if what == "class" and not inspect.isroutine(member) else None


def link_to_pictures(app: Any, name: str, source: list[str]) -> None:
    """Link to the pages of the gallery where a page names its programs."""
    del app, name
    source[0] = site_pages.link_to_pictures(source[0])


def setup(app: Any) -> None:
    """Write the pages that are made of the code before Sphinx looks which there are."""
    site_pages.write(HERE)
    thumbnails.write()
    app.connect("autodoc-skip-member", skipped)
    app.connect("source-read", link_to_pictures)
