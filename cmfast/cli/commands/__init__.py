"""The commands: what each does, in a line, and an example. Its module has its name; none imports another.

A module has ``add_options(parser)``, and ``run(args)``, which returns a ``Result``.
"""

from importlib import import_module
from types import ModuleType
from typing import NamedTuple


class Command(NamedTuple):
    """What a command does, in a line, and how it is called."""

    summary: str
    example: str


COMMANDS = {
    "demo": Command("the whole story on real data: a report, numbers and matrices", "--out cmfast-demo"),
    "report": Command(
        "a page on one model or two: matrices, metrics, differences, groups, all with intervals",
        "t.parquet --true label --pred new --pred old --by site -o report.html",
    ),
    "confusion": Command("count a confusion matrix from a table of labels", "t.csv --true label --pred new"),
    "metrics": Command(
        "metrics of a table of labels, or of a file of matrices", "t.csv --true label --pred new --interval"
    ),
    "compare": Command(
        "two classifiers on the same samples: differences, how sure they are, which is higher",
        "t.csv --true label --pred new --pred old",
    ),
    "normalize": Command(
        "normalise a file of confusion matrices", "matrices.npy -o bi.npy --method bi --smoothing 0.5"
    ),
    "resample": Command("draw a file of confusion matrices again", "matrices.npy -o replicates.npy --replicates 2000"),
    "ipf": Command(
        "a table scaled to margins over any of its axes",
        "table.npy --margin 0,1:rows.npy --margin 2:depth.npy -o out.npy",
    ),
    "rake": Command(
        "weights of records that add up to known totals",
        "microdata.parquet --targets totals.csv --weights w -o weights.parquet",
    ),
    "balance": Command(
        "weights of the bins of a contact map, with which all rows have the same sum",
        "map.mcool::resolutions/10000 -o map.mcool",
    ),
    "merge": Command("add up counts of parts", "monday.json tuesday.json -o both.json"),
    "gcm": Command("geometric confusion matrix of embeddings", "X.npy --labels y.npy --pred p.npy"),
    "conformal": Command(
        "conformal sets of a file of probabilities, and which classes share them",
        "new.npy --calibration known.npy --calibration-labels y.npy --alpha 0.1",
    ),
    "reproduce": Command(
        "the papers that the library stands on, computed again: what holds, what fails", "glossary --quick"
    ),
    "info": Command("versions, threads, cache folder, GPU: what a bug report needs", ""),
    "warmup": Command("compile now what first calls would compile", ""),
}


def load(name: str) -> ModuleType:
    """Import the module of a command, which the others do without."""
    return import_module(f"{__name__}._{name}")
