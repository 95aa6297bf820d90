"""``cmfast reproduce``: the papers that the library stands on, computed again, with what they do not say.

A paper is a folder of its name, with ``reproduce(*, quick, progress, **options) -> Reproduction``. It imports what is
heavy only when it is called. The demo, a command of its own, is made of the same parts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DISTRIBUTIONS = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "PIL": "pillow"}


@dataclass(frozen=True)
class Paper:
    """What can be reproduced, in a line; what it takes beside NumPy; options of its own."""

    summary: str
    needs: tuple[str, ...] = ()
    """Modules of other libraries."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the name of the keyword, what the parser is told of the option; a default is None."""


_FILE = {"type": Path, "metavar": "FILE"}
_NETWORK = "perceptron or cnn: the paper's two, by torch, of pictures alone; of colours it takes an hour without a GPU"

PAPERS = {
    "glossary": Paper("every table of a glossary of confusion matrices in infrastructure inspection", ("matplotlib",)),
    "conformal": Paper("correlations of conformal sets, in one place and with clients", ("sklearn", "matplotlib")),
    "uncertainty": Paper("a notebook on normalised matrices of four teams: tables, widths, and who is better"),
    "contingency": Paper("nine figures: metrics as surfaces, trainings as paths in them", ("sklearn", "matplotlib")),
    "normalization": Paper(
        "both experiments on four data sets, or yours, by paired intervals",
        ("sklearn", "PIL"),
        {
            "images": {**_FILE, "help": "in place of its data: npy (n, height, width[, colours]) or (n, features)"},
            "embeddings": {**_FILE, "help": "in place of its data: npy (n, features) of a network's last layer"},
            "labels": {**_FILE, "help": "npy (n,) of the classes of those, whole numbers or text"},
            "pred": {**_FILE, "help": "npy (n,) of answers behind the embeddings: then nothing is trained"},
            "network": {"metavar": "NAME", "help": _NETWORK},
            "repeats": {"type": int, "metavar": "N", "help": "repetitions, default 30"},
        },
    ),
}


def missing(name: str) -> list[str]:
    """Return the names of the distributions that a paper needs and does not find."""
    return name_missing(PAPERS[name].needs)


def name_missing(modules: Iterable[str]) -> list[str]:
    """Return the distributions of those modules that are not installed."""
    return [DISTRIBUTIONS[module] for module in modules if find_spec(module) is None]


def run(name: str, out: Path, *, quick: bool, **options: Any) -> dict[str, Any]:
    """Reproduce a paper, write its files into the folder `out`, and return what ``results.json`` holds."""
    from cmfast._core.progress import Bar
    from cmfast._files.output import remove_folder_on_error
    from cmfast._reproduce import _files

    with remove_folder_on_error(out):
        folder = _files.prepared(out)
        made = import_module(f"cmfast._reproduce.{name}").reproduce(quick=quick, progress=Bar, **options)
        return _files.write(made, folder)
