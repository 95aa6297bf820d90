"""Registry of the commands: a summary and an example of each; a module per command, none imports another.

A module defines ``add_options(parser)`` and ``run(args)``, which returns a ``Result``.
"""

from importlib import import_module
from types import ModuleType
from typing import NamedTuple


class Command(NamedTuple):
    """One-line summary and example of a command."""

    summary: str
    example: str


COMMANDS = {
    "demo": Command("run a complete example on real data: report, numbers and matrices", "--out cmfast-demo"),
    "report": Command(
        "write an HTML report on one or two models: matrices, metrics, differences, groups, intervals",
        "t.parquet --true label --pred new --pred old --by site -o report.html",
    ),
    "confusion": Command("count a confusion matrix from a table of labels", "t.csv --true label --pred new"),
    "metrics": Command(
        "compute metrics of a table of labels or a file of matrices", "t.csv --true label --pred new --interval"
    ),
    "compare": Command(
        "compare two classifiers on the same samples: differences, intervals, tests",
        "t.csv --true label --pred new --pred old",
    ),
    "normalize": Command(
        "normalise a file of confusion matrices", "matrices.npy -o bi.npy --method bi --smoothing 0.5"
    ),
    "resample": Command("bootstrap a file of confusion matrices", "matrices.npy -o replicates.npy --resamples 2000"),
    "ipf": Command(
        "scale a table to margins over any of its axes",
        "table.npy --margin 0,1:rows.npy --margin 2:depth.npy -o out.npy",
    ),
    "rake": Command(
        "weight survey respondents so that they add up to known totals (raking)",
        "microdata.parquet --targets totals.csv --weights w -o weights.parquet",
    ),
    "balance": Command(
        "balance a contact map: weights that give all rows the same sum",
        "map.mcool::resolutions/10000 -o map.mcool",
    ),
    "merge": Command("merge saved counts", "monday.json tuesday.json -o both.json"),
    "gcm": Command("compute the geometric confusion matrix of embeddings", "X.npy --labels y.npy --pred p.npy"),
    "conformal": Command(
        "compute conformal prediction sets of probabilities, and which classes share them",
        "new.npy --calibration known.npy --calibration-labels y.npy --alpha 0.1",
    ),
    "reproduce": Command("recompute the claims of the underlying papers: which hold, which fail", "glossary --quick"),
    "info": Command("print versions, threads, cache folder and GPU for a bug report", ""),
    "warmup": Command("compile all kernels now instead of on first use", ""),
}


def load(name: str) -> ModuleType:
    """Import the module of a command; the modules of other commands are not imported."""
    return import_module(f"{__name__}._{name}")
