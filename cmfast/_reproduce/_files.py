"""The files of a reproduction: a page, all numbers, every picture by itself; all of them or none."""

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


def prepared(out: Path) -> Path:
    """Make the folder, before minutes of work are spent on results that have no place.

    An earlier reproduction is replaced; a folder that holds anything else is not touched.
    """
    make_folder(out)
    earlier = _written(out)
    if others := sorted(path.name for path in out.iterdir() if path.name not in earlier):
        raise FileError(out / others[0], "is not of an earlier reproduction, choose another folder")
    return out


def _written(folder: Path) -> list[str]:
    """Return the names of the files that an earlier reproduction has written."""
    try:
        names = json.loads((folder / RESULTS).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def write(made: Reproduction, folder: Path) -> dict[str, Any]:
    """Write the page, ``results.json``, arrays and a file for each picture; return what ``results.json`` holds."""
    content = {REPORT: _page.whole(made).encode()}
    content |= {name: page.encode() for name, page in made.pages.items()}
    content |= {picture.file: _alone(picture) for picture in made.pictures()}
    if made.arrays:
        archive = io.BytesIO()
        write_npz(archive, made.arrays, compressed=True)
        content[MATRICES] = archive.getvalue()
    files = [*content, RESULTS]
    numbers: dict[str, Any] = convert_to_plain(made.to_dict(files))
    content[RESULTS] = to_json(numbers).encode()
    stale = set(_written(folder)).difference(files)
    with Outputs() as outputs:
        for name, data in content.items():
            with outputs.replace_file(folder / name) as file:
                file.write(data)
    for name in stale:
        (folder / name).unlink(missing_ok=True)
    return numbers


def _alone(picture: Picture) -> bytes:
    """Return a picture as a file, in which the page's colours and type are its own."""
    if isinstance(picture.image, bytes):
        return picture.image
    root = read_source("cmfast._pages", "page.css").split("}")[0]
    colours = dict(re.findall(r"--(\w+):(#\w+)", root))
    text = re.sub(r"var\(--(\w+)\)", lambda found: colours[found[1]], picture.image)
    return text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1).encode()
