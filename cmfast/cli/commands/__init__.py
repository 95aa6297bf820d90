"""Registry of the commands: a summary and an example of each; a module per command, none imports another.

A module defines ``add_options(parser)`` and ``run(args)``, which returns a ``Result``.
"""

from importlib import import_module
from types import ModuleType
from typing import NamedTuple


class Command(NamedTuple):
    """Topic and one-line summary of a command, and an example on files that ``cmfast example`` writes."""

    topic: str
    summary: str
    example: str


COMMANDS = {
    "example": Command("start", "write small files to try the other commands on", "t.csv"),
    "report": Command("start", "write a page on one or two models", "t.csv --true label --pred new --pred old"),
    "demo": Command("start", "run a complete example on real data", "--out cmfast-demo"),
    "metrics": Command("labels", "compute metrics, with intervals", "t.csv --true label --pred new --interval"),
    "compare": Command("labels", "test which of two models is better", "t.csv --true label --pred new --pred old"),
    "confusion": Command("labels", "count a confusion matrix", "t.csv --true label --pred new"),
    "merge": Command("labels", "merge saved counts", "monday.json tuesday.json -o both.json"),
    "normalize": Command(
        "matrices", "normalise a file of confusion matrices", "matrices.npy -o bi.npy --smoothing 0.5"
    ),
    "resample": Command("matrices", "bootstrap a file of confusion matrices", "matrices.npy -o resamples.npy"),
    "ipf": Command(
        "tables",
        "scale a table to margins over any axes",
        "table.npy --margin 0,1:rows.npy --margin 2:depth.npy -o out.npy",
    ),
    "rake": Command(
        "tables", "weight respondents to known totals", "survey.csv --targets totals.csv --weights w -o weights.csv"
    ),
    "balance": Command("tables", "give all rows of a contact map the same sum", "map.npz -o weights.csv"),
    "gcm": Command("models", "compare embeddings with what is confused", "X.npy --labels y.npy --pred p.npy"),
    "conformal": Command(
        "models",
        "compute sets of classes that hold the true one",
        "new.npy --calibration known.npy --calibration-labels y.npy --alpha 0.1",
    ),
    "reproduce": Command("cmfast", "recompute the claims of the source papers", "glossary --quick"),
    "info": Command("cmfast", "print versions, threads and cache, for a bug report", ""),
    "warmup": Command("cmfast", "compile all kernels now instead of on first use", ""),
}


def load(name: str) -> ModuleType:
    """Import the module of a command; the modules of other commands are not imported."""
    return import_module(f"{__name__}._{name}")
