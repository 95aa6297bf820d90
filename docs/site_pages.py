"""Pages of the site that are made of the code and of what was measured: the reference, and the benchmarks."""

import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import cmfast
from cmfast.metrics import METRICS

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results"

# What a table of `cmfast` begins with.
NOTES = {
    "Scaling": "For confusion matrices: ``bi_normalize`` removes class frequencies, ``normalize`` divides by sums.\n"
    "For known sums: ``ipf`` returns the scaled matrix, ``ras`` only the factors.",
    "Surveys, tables and maps": "For records, tables with any number of axes, and symmetric maps.",
}
# What users import, and what stands above its table.
MODULES = {
    "cmfast.metrics": "Every metric of confusion matrices, of one or of millions. ``METRICS`` has a record of each;\n"
    "``SCALARS``, ``PER_CLASS`` and ``BINARY`` are names, by what they give; ``MetricName`` is the type of a name.",
    "cmfast.uncertainty": "How far off a metric could be, and which of two classifiers is better.",
    "cmfast.agreement": "How far several raters agree beyond chance.",
    "cmfast.detection": "Match boxes of images, and count confusions with a background class.",
    "cmfast.conformal": "Conformal sets and the conformal correlation matrix.",
    "cmfast.contingency": "Metrics as surfaces over the contingency space.",
    "cmfast.display": "Pictures, by matplotlib.",
    "cmfast.results": "The classes of results, made by functions: for annotations and ``isinstance``.",
    "cmfast.nn": "Bi-normalisation as a layer, and metrics as losses; needs torch.",
    "cmfast.compat.sklearn": "scikit-learn's metrics, computed by cmfast.",
    "cmfast.compat.torchmetrics": "torchmetrics' classes, computed by cmfast.",
}
PARTS = {  # of `cmfast` itself
    "Counting": ("confusion_matrix", "ConfusionCounts", "by"),
    "Scaling": (
        "bi_normalize",
        "ipf",
        "ras",
        "normalize",
        "importance_weights",
        "estimate_for_target",
    ),
    "Surveys, tables and maps": (
        "ipf_nd",
        "ipf_cells",
        "rake",
        "balance",
        "round_to_margins",
    ),
    "Zeros": ("support", "support_nd"),
    "Comparison": ("overlap", "l1_distance", "kl_divergence"),
    "Geometry": [name for name in import_module("cmfast.geometry").__all__ if name in cmfast.__all__],
    "A page on your own models": ("report",),
    "Settings": ("config",),
    "What went wrong": ("Status", "FailureWarning", "FailureError", "DiagnosticWarning"),
}


# The programs of the gallery in the order of their index, from first steps to special topics.
GALLERY = (
    "models_tutorial",
    "plot_bi_normalisation",
    "plot_triple",
    "plot_orders",
    "plot_intervals",
    "plot_paired",
    "plot_difference",
    "plot_checkpoints",
    "plot_thousand",
    "plot_geometry",
    "plot_conformal",
    "plot_surface",
)


def find_place_in_gallery(name: str) -> int:
    """Return the place of a program in the index of the gallery."""
    return GALLERY.index(Path(name).stem)


def _table(title: str, names: list[str], note: str = "") -> list[str]:
    entries = [f"   {name}" for name in names]
    return [
        title,
        "-" * len(title),
        "",
        *([note, ""] if note else []),
        ".. autosummary::",
        "   :toctree: generated",
        "",
        *entries,
        "",
    ]


def package() -> str:
    """Return the page of `cmfast` itself; every public name is on it or on one of a module."""
    listed = {name for names in PARTS.values() for name in names}
    modules = {path.rpartition(".")[2] for path in MODULES}
    others = sorted(set(cmfast.__all__) - listed - modules - {"__version__"})
    lines = ["cmfast", "======", "", ".. currentmodule:: cmfast", ""]
    for title, names in PARTS.items():
        lines += _table(title, list(names), note=NOTES.get(title, ""))
    if others:
        lines += _table("Others", others)
    return "\n".join(lines)


def _is_of(thing: object, path: str) -> bool:
    """Return whether this is the page for it: some things are other modules'."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)) or not thing.__module__.startswith("cmfast."):
        return False
    collects = path in ("cmfast.display", "cmfast.results")
    return collects or not any(thing.__module__.startswith(f"{other}.") for other in MODULES if other != path)


def module(path: str, purpose: str) -> str:
    """Return the page of a module."""
    found = import_module(path)
    names = [name for name in found.__all__ if _is_of(getattr(found, name), path)]
    lines = [path, "=" * len(path), "", purpose, "", f".. currentmodule:: {path}", ""]
    if path != "cmfast.metrics":
        return "\n".join([*lines, *_table("Contents", names)])
    metrics = {name for metric in METRICS for name in (metric.name, *metric.aliases)}
    tables = _table("Several at once", [name for name in names if name not in metrics])
    return "\n".join([*lines, *tables, *_table("One", [name for name in names if name in metrics])])


def benchmarks() -> str:
    """Return the page of the newest figures of each topic."""
    lines = [
        "# Compared with rivals",
        "",
        "Made of `benchmarks/results`, which `python -m benchmarks --quick` writes. Every result is checked before",
        "it is timed; ours, the limit and the rivals are measured in turn in one run. A rival that is slow is given a",
        "part of the work, and its time is scaled up. The limit is what moves the same bytes and computes nothing.",
        "`python -m benchmarks.apart` does the same with `balance` and PopulationSim, which want an older NumPy, and",
        "with `samplics`, `weightipy` and cooler: pip installs each into an environment of its own, where it is timed.",
        "",
    ]
    for path in sorted(RESULTS.glob("*-quick-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        topic = path.stem.rpartition("-quick-")[2]
        lines += [f"## {topic.capitalize()}", "", _machine(found["machine"]), ""]
        lines += ["| job | time | times the limit | rivals: how many times our time |", "|---|---|---|---|"]
        lines += [_job(job) for job in found["jobs"]]
        lines.append("")
    return "\n".join(lines)


def _machine(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"{found['cores']} cores of an {found['cpu']}, Python {found['python']}, {versions}."


def _job(job: dict[str, Any]) -> str:
    ratios = "; ".join(f"{rival['name']} {_short(rival['ratio'])}" for rival in job["rivals"])
    limit = f"{_short(job['times_limit'])} ({job['limit']})" if job["times_limit"] else ""
    return f"| {job['job']}: {job['size']} | {_seconds(job['seconds'])} | {limit} | {ratios} |"


def _short(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}"


def _seconds(seconds: float) -> str:
    scale, unit = (1, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "us")
    return f"{seconds * scale:.3g} {unit}"


def link_to_pictures(text: str) -> str:
    """Return the source of a page with links to programs of the gallery as links to the pages that they make."""
    text = re.sub(r"\]\(gallery/(\w+)\.py\)", r"](pictures/\1.rst)", text)
    return text.replace("](gallery/)", "](pictures/index.rst)")


def write(folder: Path) -> None:
    """Write all of them below a folder."""
    pages = {"reference/cmfast.rst": package(), "benchmarks.md": benchmarks()}
    pages |= {f"reference/{path}.rst": module(path, purpose) for path, purpose in MODULES.items()}
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # what did not change is not made anew
            path.write_text(text, encoding="utf-8")
