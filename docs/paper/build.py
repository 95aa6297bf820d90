"""Build the paper: ``python docs/paper/build.py`` writes ``paper.pdf`` next to this file. Needs ``pip install typst``.

``paper.typ`` holds the prose. Each ``{{name}}`` in it is a figure of ``benchmarks/results``, ``reproduced.json``,
the tables of ``rivals.md``,
``scaling_proof.md`` and ``geometry.md``, or a constant of the kernels: `collect_values`
reads them all, and nothing measured is typed into the prose. A name without a figure, and a figure that no sentence
uses, are errors.
"""

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TREE = HERE.parents[1]
sys.path.insert(0, str(TREE))

from cmfast._pages.parts import classify  # noqa: E402
from cmfast.kernels.shared import scaling  # noqa: E402

PROSE = HERE / "paper.typ"
PAPER = HERE / "paper.pdf"
BLUE, ORANGE, GREY, RED = "#2a6fbb", "#e08214", "#9aa4ae", "#b2403a"
DATA = {"digits": "digits", "code": "code", "photo": "photographs", "letters": "letters"}
WORDS = {"holds": "hold", "fails": "fail", "partly": "in part", "undecided": "undecided"}
VERDICTS = {"holds": BLUE, "partly": GREY, "undecided": "#d9dde1", "fails": ORANGE}
ACCURACIES = "0.6", "0.9", "0.99"
CLASSES = 3, 5, 10, 16, 32, 100, 1000
PAGE = 6.3  # inches between the margins


class Sources(NamedTuple):
    """The results that the paper is built of."""

    jobs: dict[str, dict[str, Any]]  # of the newest quick run of each topic, by name
    full: dict[str, dict[str, Any]]  # of the full run
    machine: dict[str, Any]
    reproduced: dict[str, Any]
    rivals: list[list[str]]  # the first table of rivals.md
    proof: list[list[list[str]]]  # the tables of scaling_proof.md, their rows as cells of text
    geometry: list[list[str]]


def read_sources(tree: Path = TREE) -> Sources:
    """Read the results in a tree."""
    results = tree / "benchmarks" / "results"
    jobs: dict[str, dict[str, Any]] = {}
    for path in sorted(results.glob("*-quick-*.json")):
        jobs |= {job["job"]: job for job in _read(path)["jobs"]}
    whole = _read(next(path for path in sorted(results.glob("*.json")) if "-quick-" not in path.name))
    machine = _read(next(results.glob("*-quick-scaling.json")))["machine"]
    docs = tree / "docs"
    return Sources(
        jobs,
        {job["job"]: job for job in whole["jobs"]},
        machine,
        _read(docs / "reproduced.json"),
        _tables(docs / "rivals.md")[0],
        _tables(docs / "scaling_proof.md"),
        _tables(docs / "geometry.md")[0],
    )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _tables(path: Path) -> list[list[list[str]]]:
    """Return the tables of a page in Markdown, without their heads."""
    found: list[list[list[str]]] = []
    inside = False
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            inside = False
        elif set(line) <= set("|-: "):
            found.append([])
            inside = True
        elif inside:
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def count(number: float) -> str:
    """Return a whole number with separators."""
    return f"{number:,.0f}"


def ratio(number: float) -> str:
    """Return a ratio to two digits."""
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{number:.2g}"


def seconds(number: float) -> str:
    """Return a time to two digits, with its unit."""
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if number * scale >= 1 or unit == "µs":
            break
    return f"{ratio(number * scale)} {unit}"


def power(number: float) -> str:
    """Return a number for a formula, as a power of ten where it is one."""
    mantissa, exponent = f"{number:.0e}".split("e")
    return f"10^({int(exponent)})" if mantissa == "1" else f"{mantissa} dot 10^({int(exponent)})"


def collect_values(sources: Sources) -> dict[str, str]:
    """Return the text of every figure in the prose, by its name."""
    values: dict[str, str] = {}
    values |= _machine(sources)
    values |= _constants()
    values |= _hard_matrices(sources.proof)
    values |= _rivals(sources.rivals)
    values |= _speed(sources)
    values |= _geometry(sources)
    values |= _claims(sources.reproduced)
    return values


def _machine(sources: Sources) -> dict[str, str]:
    machine = sources.machine
    kept = ("numpy", "numba", "POT", "ipfn", "scikit-learn", "polars")
    return {
        "machine.cpu": machine["cpu"],
        "machine.cores": str(machine["cores"]),
        "machine.python": machine["python"],
        "machine.versions": _sentence(
            ["NumPy" if name == "numpy" else "Numba" if name == "numba" else name for name in kept],
            [machine["versions"][name] for name in kept],
        ),
    }


def _sentence(names: list[str], values: list[str] | None = None) -> str:
    """Join names, each with a value if there are any, as in a sentence."""
    parts = [f"{name} {value}" for name, value in zip(names, values, strict=True)] if values else names
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _constants() -> dict[str, str]:
    return {
        "safe": f"{scaling.SAFE_WIDTH}",
        "last": power(scaling.last_width(1e-9)),
        "sweeps.paired": str(scaling.PAIRED_SWEEPS),
        "sweeps.patient": str(scaling.PATIENT_SWEEPS),
        "columns.eliminated": str(scaling.MOST_ELIMINATED_COLUMNS),
        "cell.error": power(scaling.MOST_CELL_ERROR),
        "totals": power(scaling.TOTALS_RTOL),
    }


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


def _hard_matrices(proof: list[list[list[str]]]) -> dict[str, str]:
    """Return the figures of the hard matrices: columns are family, number, statuses, worst line, most passes, wrong."""
    first, second, *_ = proof
    passes = {row[0]: _whole(row[4]) for row in first}
    hardest = max(passes, key=lambda name: passes[name])
    statuses = ("CONVERGED", "LIMIT_ONLY", "ZERO_LINE", "INFEASIBLE")
    rows = [
        f"[{row[0]}], "
        + ", ".join(f"[{_of_status(row[2], status)}]" for status in statuses)
        + f", [{row[4]}], [{row[5]}]"
        for row in first
    ]
    return {
        "hard.matrices": count(sum(_whole(row[1]) for row in first)),
        "hard.families": str(len(first)),
        "hard.wrong": str(sum(_whole(row[5]) for row in first)),
        "hard.worst": power(max(float(row[3]) for row in first)),
        "hard.passes": str(passes[hardest]),
        "hard.passes_family": hardest,
        "hard.rows": ",\n  ".join(rows) + ",",
        "spread.tables": count(sum(_whole(row[1]) for row in second)),
        "spread.wrong": str(sum(_whole(row[5]) + _whole(row[6]) for row in second)),
        "spread.undetermined": count(sum(_of(row[2], "UNDETERMINED") for row in second)),
        "spread.worst": power(max(float(row[4]) for row in second)),
    }


def _of(statuses: str, status: str) -> int:
    """Return the number of a status in a text such as "9 CONVERGED, 2 LIMIT_ONLY"."""
    return sum(_whole(part.split()[0]) for part in statuses.split(", ") if part.split()[1] == status)


def _of_status(statuses: str, status: str) -> str:
    return count(found) if (found := _of(statuses, status)) else "\N{EN DASH}"


def _rivals(found: list[list[str]]) -> dict[str, str]:
    """Return the figures of the comparison of tools: tool, version, words, cases, right, unsure, wrong."""
    (ours, *others) = found
    silent = {row[0]: _whole(row[6].strip("*")) for row in others}
    return {
        "rivals.tools": str(len({row[0].partition(",")[0] for row in found})),
        "rivals.cases": ours[3],
        "rivals.right": ours[4],
        "rivals.unsure": ours[5],
        "rivals.wrong": ours[6],
        "rivals.others": str(len(others)),
        "rivals.silent": str(sum(each > 0 for each in silent.values())),
        "rivals.never_silent": _sentence([tool for tool, each in silent.items() if not each] or ["none"]),
    }


def _by(job: dict[str, Any], rival: str) -> float:
    return next(each["ratio"] for each in job["rivals"] if each["name"] == rival)


def find_by_classes(jobs: dict[str, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the jobs that bi-normalise at accuracy .6, by the number of classes."""
    return {C: jobs["bi 0.6" if C == 10 else f"bi {C} 0.6 0.001"] for C in CLASSES}


def find_faster(sources: Sources) -> list[tuple[str, str, float]]:
    """Return every job, rival and ratio of the quick run in which a rival is faster than cmfast."""
    return [
        (f"{job['job']} ({job['size']})", rival["name"], rival["ratio"])
        for job in sources.jobs.values()
        for rival in job["rivals"]
        if rival["ratio"] < 1
    ]


def _speed(sources: Sources) -> dict[str, str]:
    jobs, full = sources.jobs, sources.full
    by_accuracy = [jobs[f"bi {accuracy}"] for accuracy in ACCURACIES]
    rows = []
    for accuracy, job in zip(ACCURACIES, by_accuracy, strict=True):
        passes = re.search(r"([\d.]+) passes", job["note"])
        assert passes
        cells = [ratio(_by(job, name)) for name in ("Numba loop", "NumPy batched", "POT", "ipfn")]
        rows.append(
            ", ".join(f"[{cell}]" for cell in (accuracy, seconds(job["seconds"]), passes[1], *cells)),
        )
    classes = find_by_classes(jobs)
    fastest = {C: min(job["rivals"], key=lambda rival: rival["ratio"]) for C, job in classes.items()}
    closest = min(fastest, key=lambda C: fastest[C]["ratio"])
    small = [jobs[name] for name in ("one ipf", "one bi_normalize", "one accuracy", "one confusion_matrix")]
    faster = find_faster(sources)
    gcm, large = jobs["gcm"], full["gcm 1e7"]
    return {
        "speed.rows": ",\n  ".join(rows) + ",",
        "speed.matrices": count(_whole(by_accuracy[0]["size"].split()[0])),
        "speed.spread": ratio(
            max(job["seconds"] for job in by_accuracy) / min(job["seconds"] for job in by_accuracy),
        ),
        "speed.sweeps_growth": ratio(
            _by(by_accuracy[2], "Numba loop")
            * by_accuracy[2]["seconds"]
            / (_by(by_accuracy[0], "Numba loop") * by_accuracy[0]["seconds"])
        ),
        "speed.limit": ratio(max(job["times_limit"] for job in by_accuracy)),
        "speed.limit_least": ratio(min(job["times_limit"] for job in by_accuracy)),
        "classes.closest": str(closest),
        "classes.closest_rival": fastest[closest]["name"],
        "classes.closest_ratio": ratio(fastest[closest]["ratio"]),
        "classes.few": str(min(CLASSES)),
        "classes.few_ratio": ratio(fastest[min(CLASSES)]["ratio"]),
        "classes.most": count(max(CLASSES)),
        "classes.most_rival": fastest[max(CLASSES)]["name"],
        "classes.most_ratio": ratio(fastest[max(CLASSES)]["ratio"]),
        "classes.passes": _range(
            float(_found(r"([\d.]+) passes", classes[C]["note"])) for C in (closest, max(CLASSES))
        ),
        "zeros.limits": _limits(jobs["bi 10 0.99 0"]),
        "zeros.time": seconds(jobs["bi 10 0.99 0"]["seconds"]),
        "zeros.stopped": _sentence(
            [rival["name"] for rival in jobs["bi 10 0.99 0"]["rivals"] if "stopped early" in rival["note"]] or ["none"]
        ),
        "small.least": seconds(min(job["seconds"] for job in small)),
        "small.most": seconds(max(job["seconds"] for job in small)),
        "faster.number": str(len(faster)),
        "faster.of": str(sum(len(job["rivals"]) for job in jobs.values())),
        "faster.rows": ",\n  ".join(f"[{_plain(job)}], [{name}], [{value:.2g}]" for job, name, value in faster) + ",",
        "gcm.points": count(_whole(gcm["size"].split()[0])),
        "gcm.axes": _found(r"m=(\d+)", gcm["size"]),
        "gcm.time": seconds(gcm["seconds"]),
        "gcm.polars": ratio(_by(gcm, "polars, packed key")),
        "gcm.sparse": ratio(_by(gcm, "scipy.sparse")),
        "gcm.large_points": count(_whole(large["size"].split()[0])),
        "gcm.large_time": seconds(large["seconds"]),
        "gcm.large_polars": ratio(_by(large, "polars, packed key")),
        "gcm.raw_ratio": ratio(_by(full["gcm raw"], "scikit-learn + polars")),
        "gcm.raw_columns": _found(r"n=(\d+)", full["gcm raw"]["size"]),
        "gcm.raw_axes": _found(r"PCA to (\d+) axes", full["gcm raw"]["size"]),
    }


def _range(numbers: Iterable[float]) -> str:
    """Return the least and the largest number, rounded, or one of them if they are equal."""
    least, *_, most = sorted(round(number) for number in numbers)
    return f"{least}" if least == most else f"{least} to {most}"


def _limits(job: dict[str, Any]) -> str:
    return _found(r"([\d,]+) exact limits", job["note"])


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        msg = f"{text!r} has no {pattern!r}"
        raise ValueError(msg)
    return match[1]


def _plain(text: str) -> str:
    """Escape what Typst would read as markup."""
    return re.sub(r"([\\#$*_`<>@\[\]~])", r"\\\1", text)


def _text(text: str) -> str:
    """Return a sentence without its full stop, with minus signs."""
    return re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", _plain(text).removesuffix("."))


def _share(text: str) -> str:
    """Return a percentage with a space that does not break."""
    return text.replace("%", "\N{NO-BREAK SPACE}%")


def _geometry(sources: Sources) -> dict[str, str]:
    """Return the figures of the width table: axes, width, cells, alone, unmixed, overlap, guaranteed, permuted."""
    at = {(row[0], row[1]): row for row in sources.geometry}
    few, many = at["2", "1"], at["10", "1"]
    return {
        "cells.few_alone": _share(few[3]),
        "cells.few_overlap": few[5],
        "cells.few_permuted": few[7],
        "cells.many": many[2],
        "cells.many_unmixed": _share(many[4]),
        "cells.many_overlap": many[5],
        "cells.many_guaranteed": many[6],
        "cells.many_permuted": many[7],
        "cells.wide_overlap": at["10", "2"][5],
    }


def _claims(reproduced: dict[str, Any]) -> dict[str, str]:
    values: dict[str, str] = {}
    totals = dict.fromkeys(WORDS, 0)
    references = []
    for name, paper in reproduced.items():
        counted = _count(paper)
        totals = {key: totals[key] + counted[key] for key in WORDS}
        references.append(f"#source[{_plain(paper['source'])}.] <{name}>")
    values["claims.sources"] = "\n".join(references)
    settings = reproduced["normalization"]["settings"]
    values["claims.data"] = _sentence(list(settings["data"].values()))
    values["claims.levels"] = _sentence([f"{level:g}" for level in settings["levels"]])
    values["claims.level"] = _share(f"{settings['interval']:.0%}")
    values["claims.papers"] = str(len(reproduced))
    values["claims.all"] = str(sum(totals.values()))
    values |= {f"claims.{key}": str(number) for key, number in totals.items()}
    for key, (paper, start) in QUOTED.items():
        claim = next(each for each in reproduced[paper]["claims"] if each["text"].startswith(start))
        values[f"claim.{key}"] = f"“{_text(claim['text'])}” {quote_verdict(claim['verdict'])}: {_found_text(claim)}"
    return values


def _count(paper: dict[str, Any]) -> Counter[str]:
    return Counter(classify(claim["verdict"]) for claim in paper["claims"])


def quote_verdict(text: str) -> str:
    """Return a verdict such as "undecided where photo at 10 and 3, holds elsewhere" as the predicate of a sentence."""
    clauses = []
    for part in re.split(r", (?=holds|fails|undecided)", text):
        verdict, _, where = part.partition(" where ")
        if re.search(r"\w at \d", where):
            places = [_name_place(*place.split(" at ")) for place in where.split("; ")]
            where = _sentence([f"for {place}" for place in places])
        elif where:
            where = f"where {where}"
        clauses.append(f"{'is ' * verdict.startswith('undecided')}{verdict} {where}".strip())
    return _text(", and ".join(clauses))


def _name_place(name: str, levels: str) -> str:
    """Return a data set and its levels of heterogeneity in words."""
    return f"{DATA[name]} at level{'s' if ' and ' in levels else ''} {levels}"


def _found_text(claim: dict[str, Any]) -> str:
    text = claim["found"]
    seeds = claim["seeds"]
    place = r"(\w+) at ([\d.]+) (\S+ \([^()]*\))"
    ends = re.fullmatch(rf"above zero where it holds: of (\d+) places from {place} to {place}", text)
    if ends:
        number, first, its_level, low, last, other_level, high = ends.groups()
        text = (
            f"of {number} differences, positive where the claim holds, the least is {low} for "
            f"{_name_place(first, its_level)}, the largest {high} for {_name_place(last, other_level)}"
        )
    return _text(text) + (f" ({len(seeds)} seeds)" if len(seeds) > 1 else "") + "."


# The claims that the prose quotes: the paper, and how the claim begins.
QUOTED = {
    "idempotent": ("normalization", "Bi-normalising twice"),
    "linear": ("normalization", "The iteration of a positive matrix"),
    "overlap": ("normalization", "The overlap is 1 if and only if"),
    "permuted": ("normalization", "The geometric matrix of bi is closest to the normalisation bi, and no longer"),
    "balanced": ("normalization", "Bi-normalisation consistently has the highest overlap"),
    "volume": ("contingency", "The size of the grid matters for pictures alone"),
    "coverage": ("conformal", "It is at most 1 - alpha"),
    "sampling": ("uncertainty", "The results are the uncertainty"),
    "kappa": ("glossary", "Unweighted kappa is approximately"),
}


def fill(prose: str, values: dict[str, str]) -> str:
    """Return the prose with its figures; names without one, and figures without a name, are errors."""
    names = set(re.findall(r"\{\{([^{}]+)\}\}", prose))
    if missing := names - values.keys():
        msg = f"no result gives {', '.join(sorted(missing))}"
        raise ValueError(msg)
    if unused := values.keys() - names:
        msg = f"no sentence uses {', '.join(sorted(unused))}"
        raise ValueError(msg)
    return re.sub(r"\{\{([^{}]+)\}\}", lambda match: values[match[1]], prose)


def draw_figures(sources: Sources, folder: Path) -> None:
    """Draw the figures of the paper as SVG files."""
    import matplotlib as mpl  # noqa: TID251

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: TID251

    drawn: dict[str, tuple[float, Callable]] = {
        "speed": (2.5, _draw_speed),
        "geometry": (2.3, _draw_geometry),
        "claims": (1.7, _draw_claims),
    }
    style = {"svg.hashsalt": "cmfast", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    for name, (height, draw) in drawn.items():
        with mpl.rc_context(style):
            figure = plt.figure(figsize=(PAGE, height), layout="constrained")
            draw(figure, sources)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            plt.close(figure)


def _draw_speed(figure: Any, sources: Sources) -> None:
    left, right = figure.subplots(1, 2)
    names = ("cmfast", "Numba loop", "NumPy batched", "POT", "ipfn")
    colors = (BLUE, ORANGE, RED, GREY, "#5b6670")
    for shift, (name, color) in enumerate(zip(names, colors, strict=True)):
        times = [
            job["seconds"] / _whole(job["size"].split()[0]) * (1 if name == "cmfast" else _by(job, name))
            for job in (sources.jobs[f"bi {accuracy}"] for accuracy in ACCURACIES)
        ]
        left.bar([k + 0.16 * (shift - 2) for k in range(3)], times, 0.15, color=color, label=name)
    left.set(yscale="log", ylabel="seconds for a 10 x 10 matrix", xlabel="accuracy of the classifier")
    left.set_xticks(range(3), ACCURACIES)
    left.legend(frameon=False, fontsize=6.5, ncols=2, loc="upper left")
    left.set_ylim(top=left.get_ylim()[1] * 60)
    classes = find_by_classes(sources.jobs)
    for name, color in zip(names[1:], colors[1:], strict=True):
        right.plot(list(classes), [_by(job, name) for job in classes.values()], "o-", color=color, ms=3, lw=1)
    right.axhline(1, color=BLUE, lw=1)
    right.set(xscale="log", yscale="log", xlabel="classes, accuracy 0.6", ylabel="times the time of cmfast")


def _draw_geometry(figure: Any, sources: Sources) -> None:
    axes = figure.subplots(1, 2, sharey=True)
    for ax, width in zip(axes, ("1", "2"), strict=True):
        rows = [row for row in sources.geometry if row[1] == width]
        at = [int(row[0]) for row in rows]
        for column, name, color, style in (
            (5, "overlap", BLUE, "o-"),
            (6, "guaranteed", ORANGE, "s--"),
            (7, "labels permuted", GREY, "^:"),
        ):
            ax.plot(at, [float(row[column]) for row in rows], style, color=color, label=name, ms=4, lw=1.2)
        times = "Scott's width" if width == "1" else f"{width} times Scott's width"
        ax.set(xlabel=f"axes, {times}", xticks=at, ylim=(0, 1.02))
    axes[0].set_ylabel("overlap with bi(M)")
    axes[0].legend(frameon=False, loc="upper left", fontsize=7)


def _draw_claims(figure: Any, sources: Sources) -> None:
    ax = figure.subplots()
    names = list(sources.reproduced)
    done = dict.fromkeys(names, 0)
    for key, color in VERDICTS.items():
        numbers = [_count(sources.reproduced[name])[key] for name in names]
        bars = ax.barh(names, numbers, left=[done[name] for name in names], color=color, label=WORDS[key])
        ax.bar_label(bars, [number or "" for number in numbers], label_type="center", fontsize=7)
        done = {name: done[name] + number for name, number in zip(names, numbers, strict=True)}
    ax.invert_yaxis()
    ax.set_xlabel("claims")
    ax.legend(frameon=False, ncols=4, loc="lower right", bbox_to_anchor=(1, 1), fontsize=7)


def build(out: Path = PAPER, tree: Path = TREE) -> None:
    """Write the paper as PDF, or as one picture for each page if the name ends in ``{p}.png``."""
    import typst

    sources = read_sources(tree)
    text = fill(PROSE.read_text(encoding="utf-8"), collect_values(sources))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw_figures(sources, folder)
        (folder / "paper.typ").write_text(text, encoding="utf-8")
        typst.compile(str(folder / "paper.typ"), output=str(out), format=out.suffix.removeprefix("."))


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:]))
