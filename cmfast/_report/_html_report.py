"""Result type of ``cmfast.report``."""

import os
from pathlib import Path
from typing import Any

from cmfast._core import validate
from cmfast._core.markup import escape_attribute, isolate
from cmfast._core.result_repr import add_compute
from cmfast._core.usual_options import explain_options_of_methods
from cmfast._files.output import FileError, check_target, convert_to_plain, replace_file

SUFFIXES = (".html", ".htm")


@explain_options_of_methods
@add_compute
class HtmlReport:
    """A report as one self-contained HTML page. Returned by :func:`cmfast.report`.

    Attributes
    ----------
    html : str
        The page.
    """

    def __init__(self, html: str, facts: dict[str, Any]) -> None:
        self.html = html
        self._facts = facts

    def save(self, path: str | os.PathLike[str], *, force: bool = True) -> Path:
        """Write the page to a file, atomically, and return its path.

        Parameters
        ----------
        path : str or path-like
            The file, whose name ends in .html or .htm, or has no extension; its folder must exist.
        force : bool
            Whether to replace a file that exists.

        Raises
        ------
        TypeError, ValueError, OSError
            `path` is not a path, or has another extension; a file that cannot be written, or exists.
        """
        validate.flag("force", force)
        if not isinstance(path, str | os.PathLike):
            validate.refuse("path", "a str or path-like", type(path).__name__, TypeError)
        suffix = Path(path).suffix.lower()
        if suffix not in ("", *SUFFIXES):
            cure = f"save it as {str(Path(path).with_suffix('.html'))!r}"
            cure += ", open that in a browser and print it as PDF" if suffix == ".pdf" else ""
            validate.refuse("path", "a file of HTML, .html or .htm", f"{str(path)!r}; {cure}")
        try:
            target = check_target(Path(path), force=force)
        except FileError as error:
            raise OSError(str(error)) from None
        with replace_file(target, force=force) as file:
            file.write(self.html.encode())
        return target

    def to_dict(self) -> dict[str, Any]:
        """Return all values of the page as dicts, lists, strings and Python numbers; None for undefined values."""
        facts: dict[str, Any] = convert_to_plain(self._facts)
        return facts

    def __repr__(self) -> str:
        names = ", ".join(one["name"] for one in self._facts["models"])
        size = f"{len(self.html.encode()) / 1000:,.0f} kB"
        return f"<HtmlReport: {names}, {len(self._facts['labels'])} classes, {size}>"

    def _repr_html_(self) -> str:
        """Show the page in a notebook inside an iframe, which isolates its style."""
        return (
            f'<iframe title="{escape_attribute(isolate(self._facts["title"]))}" '
            f'srcdoc="{escape_attribute(self.html)}" sandbox="allow-scripts" '
            'style="width:100%;height:80vh;border:1px solid #8888"></iframe>'
        )
