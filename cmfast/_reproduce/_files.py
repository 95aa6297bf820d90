"""Write the files of a reproduction: page, numbers, one file per picture; all or none."""

import io
import json
import re
from pathlib import Path
from typing import Any

from cmfast._files.output import FileError, Outputs, convert_to_plain, make_folder, to_json, write_npz
from cmfast._pages.parts import Picture
from cmfast._pages.render import read_source
from cmfast._reproduce import _page
from cmfast._reproduce._reproduction import Reproduction

REPORT, MATRICES, RESULTS = "report.html", "matrices.npz", "results.json"
SUFFIXES = (".html", ".npz", ".json", ".svg", ".png")  # of the files that are written, and so may be removed


def prepare_folder(out: Path) -> Path:
    """Create the output folder before the computation starts.

    Files of an earlier reproduction may be replaced; a folder with any other file is refused.
    """
    make_folder(out)
    earlier = _find_earlier_files(out)
    if others := sorted(path.name for path in out.iterdir() if path.name not in earlier):
        raise FileError(out / others[0], "is not of an earlier reproduction, choose another folder")
    return out


def _find_earlier_files(folder: Path) -> set[str]:
    """Return the names of the files in a folder that an earlier reproduction has written.

    ``results.json`` may come from anyone: it chooses among the folder's own files of the kinds that are written, and
    names no path. Links are never of a reproduction.
    """
    there = {path.name for path in folder.iterdir() if path.suffix in SUFFIXES and _is_own_file(path)}
    if RESULTS not in there:
        return set()
    try:
        names = json.loads((folder / RESULTS).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()
    return there.intersection(name for name in names if isinstance(name, str)) if isinstance(names, list) else set()


def _is_own_file(path: Path) -> bool:
    """Whether a path is a regular file and no link."""
    return path.is_file() and not path.is_symlink()


def write_reproduction(made: Reproduction, folder: Path) -> dict[str, Any]:
    """Write the page, ``results.json``, arrays and one file per picture; return the content of ``results.json``."""
    content = {REPORT: _page.compose_page(made).encode()}
    content |= {name: page.encode() for name, page in made.pages.items()}
    content |= {picture.file: _make_standalone(picture) for picture in made.pictures()}
    if made.arrays:
        archive = io.BytesIO()
        write_npz(archive, made.arrays, compressed=True)
        content[MATRICES] = archive.getvalue()
    files = [*content, RESULTS]
    numbers: dict[str, Any] = convert_to_plain(made.to_dict(files))
    content[RESULTS] = to_json(numbers).encode()
    stale = _find_earlier_files(folder).difference(files)
    with Outputs() as outputs:
        for name, data in content.items():
            with outputs.replace_file(folder / name) as file:
                file.write(data)
    for name in stale:
        (folder / name).unlink(missing_ok=True)
    return numbers


def _make_standalone(picture: Picture) -> bytes:
    """Return a picture as file content, with the colours and the font of the page inlined."""
    if isinstance(picture.image, bytes):
        return picture.image
    root = read_source("cmfast._pages", "page.css").split("}")[0]
    colours = dict(re.findall(r"--(\w+):(#\w+)", root))
    text = re.sub(r"var\(--(\w+)\)", lambda found: colours[found[1]], picture.image)
    return text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1).encode()
