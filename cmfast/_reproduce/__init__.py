"""Papers recomputed by ``cmfast reproduce``, with errata and extensions.

A paper is a package with ``reproduce(*, quick, progress, **options) -> Reproduction``. Heavy imports happen inside
functions. The demo, a separate command, uses the same parts.
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
    """A reproducible paper: summary, required modules, command options."""

    summary: str
    needs: tuple[str, ...] = ()
    """Required modules of other libraries."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments of the parser by keyword of the option; the default of an option is None."""


_FILE = {"type": Path, "metavar": "FILE"}
_NETWORK = "perceptron or cnn: the paper's two, by torch, of pictures alone; of colours it takes an hour without a GPU"

PAPERS = {
    "glossary": Paper("every table of a glossary of confusion matrices in infrastructure inspection", ("matplotlib",)),
    "conformal": Paper("correlations of conformal sets, in central and federated training", ("sklearn", "matplotlib")),
    "uncertainty": Paper("a notebook on normalised matrices of four teams: tables, widths, and who is better"),
    "contingency": Paper("nine figures: metrics as surfaces, training runs as paths", ("sklearn", "matplotlib")),
    "normalization": Paper(
        "both experiments on four data sets, or yours, by paired intervals",
        ("sklearn", "PIL"),
        {
            "images": {**_FILE, "help": "instead of its data: npy (n, height, width[, colours]) or (n, features)"},
            "embeddings": {**_FILE, "help": "instead of its data: npy (n, features) of a network's last layer"},
            "labels": {**_FILE, "help": "npy (n,) of their classes, integers or text"},
            "pred": {**_FILE, "help": "npy (n,) of predictions for the embeddings; then nothing is trained"},
            "network": {"metavar": "NAME", "help": _NETWORK},
            "repeats": {"type": int, "metavar": "N", "help": "repetitions, default 30"},
        },
    ),
}


def list_missing(name: str) -> list[str]:
    """Return the distributions that a paper needs and that are not installed."""
    return find_missing_distributions(PAPERS[name].needs)


def find_missing_distributions(modules: Iterable[str]) -> list[str]:
    """Return the distributions of the given modules that are not installed."""
    return [DISTRIBUTIONS[module] for module in modules if find_spec(module) is None]


def run(name: str, out: Path, *, quick: bool, **options: Any) -> dict[str, Any]:
    """Reproduce a paper, write its files into the folder `out`, and return the content of ``results.json``."""
    from cmfast._core.progress import Bar
    from cmfast._files.output import remove_folder_on_error
    from cmfast._reproduce import _files

    with remove_folder_on_error(out):
        folder = _files.prepare_folder(out)
        made = import_module(f"cmfast._reproduce.{name}").reproduce(quick=quick, progress=Bar, **options)
        return _files.write_reproduction(made, folder)
