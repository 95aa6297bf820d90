"""Write ``rivals.md``: what other tools say of tables, records and maps, beside the answer that is known.

``python docs/rivals.py`` asks every tool that is installed here, and R where it is; what it found replaces the columns
of these tools in ``rivals.json``. So tools that want other versions of NumPy are asked from environments of their own.
``python docs/rivals.py --page`` then writes the page of that file.
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import resource
import warnings
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
from rivals_cases import CASES, Case
from rivals_tools import DONE, GAVE_UP, REFUSED, TOOLS, UNSAID, _columns

HERE = Path(__file__).parent
PAGE, KEPT = HERE / "rivals.md", HERE / "rivals.json"
SECONDS, PATIENCE, MEMORY = 60, 300, 8 << 30  # of the processor, by the clock, bytes
RIGHT = 1e-4  # of a cell, above which an answer is wrong
FEW = 9  # cells of what is kept as it was found
NO_END = "no end"
EXAMPLES = (
    ("no such matrix", "ipfn", "Two rows live in one column: no matrix has these zeros and these sums."),
    ("NaN", "humanleague", "A NaN."),
    ("decoupled", "sinkhorn_knopp", "Nearly decomposable, as good classifiers are: small cells move last."),
    ("plain", "scikit-learn", "Nothing special; `SpectralBiclustering` does this to sparse input."),
)
NOT_HERE = (
    ("mipfp 3.2, surveysd, icarus, pewmethods", "R packages that Debian does not have; their sources were read"),
    ("hictk", "a C++ program; what pip has of it, hictkpy, cannot balance"),
    (
        "Juicer",
        "a Java program; stops without a vector where its Knight-Ruiz does not converge (aidenlab/juicer#176, #201)",
    ),
    ("AequilibraE, POT, sinkhorn_knopp and scikit-learn beyond matrices", "take two margins, the last two sums of one"),
)
APART = (
    (
        "ActivitySim/populationsim#173, #179",
        "zones or settings of several files that do not fit each other: a run ends late with `Lengths must match`",
        "`cmfast rake --by` names the zone before it computes: `has no row for ..`, `is there twice`",
    ),
)


def error(case: Case, found: np.ndarray) -> float:
    """Return how far the worst cell is from the answer, as the factor between them less one."""
    if case.kind == "map":
        found = np.where(np.isnan(found), 0.0, found) if not np.isnan(found).all() else found
        sums = found.sum(1)
        found = found / sums[sums > 0].mean()
    if case.bounds is not None:
        return _missed(case, found)
    assert case.answer is not None
    if not np.isfinite(found).all() or (found < 0).any():
        return math.inf
    there = case.answer > 0
    with np.errstate(divide="ignore", over="ignore"):
        off = np.expm1(np.abs(np.log(found[there] / case.answer[there]))).max()
    return float(max(off, found[~there].max(initial=0.0) / case.answer[there].mean()))


def _missed(case: Case, w: np.ndarray) -> float:
    """Return by how much weights miss totals, or leave their bounds."""
    columns, totals = _columns(case)
    low, high = case.bounds or (0.0, math.inf)
    ratio = w / case.seed
    off = [np.abs(columns.T @ w / totals - 1).max(), (ratio - high).max(), (low - ratio).max()]
    return float(max(off)) if np.isfinite(w).all() else math.inf


def has_answer(case: Case) -> bool:
    """Whether there is any."""
    return not case.why


def told(case: Case, tool: str) -> dict[str, Any] | None:
    """Return what a tool says of a case, and how far it is off; None if it takes no such cases."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outcome = TOOLS[tool].run(case)
    except Exception as wrong:  # noqa: BLE001  # of whatever library
        return {"said": REFUSED, "words": f"{type(wrong).__name__}: {str(wrong).strip()}"[:160]}
    if outcome is None:
        return None
    said, found = outcome
    kept: dict[str, Any] = {"said": said}
    if found is not None and said != REFUSED:
        if has_answer(case):
            kept["off"] = float(f"{error(case, np.asarray(found, np.float64)):.1e}")
        if found.ndim == 2 and found.size <= FEW:
            kept["found"] = [[float(f"{v:.6g}") for v in row] for row in found]
    return kept


def asked(case: Case, tool: str) -> dict[str, Any] | None:
    """Ask in a process of its own, which may take only so long and so much."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        theirs.send(told(case, tool))

    process = context.Process(target=work)
    process.start()
    theirs.close()
    found: dict[str, Any] | None = {"said": NO_END}
    if ours.poll(PATIENCE):
        with contextlib.suppress(EOFError):  # it has died
            found = ours.recv()
    process.kill()
    process.join()
    return found


def verdict(case: Case, one: dict[str, Any]) -> str:
    """Return "right", "wrong" (and said nothing of it), or "unsure": it did not claim to be right."""
    said = one["said"]
    if not has_answer(case):
        return {REFUSED: "right", GAVE_UP: "unsure", NO_END: "unsure"}.get(said, "wrong")
    if said not in {DONE, UNSAID}:
        return "unsure"
    return "right" if one["off"] <= RIGHT else "wrong"


def shown(case: Case, one: dict[str, Any] | None) -> str:
    """Return a cell of the page."""
    if one is None:
        return ""
    judged, said = verdict(case, one), one["said"]
    off = "" if "off" not in one else _off(one["off"])
    if judged == "right":
        return f"right, {off}" if off else "right: refuses"
    if judged == "wrong":
        how = "says success" if said == DONE else "says nothing"
        return f"**{off or 'no answer'}, {how}**"
    if said in {REFUSED, NO_END}:
        return "refuses" if said == REFUSED else "no end in a minute"
    return f"gives up{', ' + off if off else ''}"


def _off(off: float) -> str:
    if not off < math.inf:
        return "no numbers"
    return f"{off:.0e}" if off < 1 else f"factor {off + 1:.0f}" if off < 1e4 else f"factor {off + 1:.0e}"


def matrix(P: Any) -> str:
    """Return a matrix as text."""
    return "\n".join("    " + "  ".join(f"{cell:10.3g}" for cell in row) for row in P)


def sums(P: np.ndarray) -> str:
    """Return the sums of rows and columns in words."""
    return f"rows {', '.join(f'{s:.4g}' for s in P.sum(1))}; columns {', '.join(f'{s:.4g}' for s in P.sum(0))}"


def example(kept: dict[str, Any], name: str, tool: str, remark: str) -> str:
    """Return a case in full: the matrix, what a tool makes of it, and what cmfast does."""
    import cmfast

    case, one = CASES[name], kept[tool]["cases"][name]
    lines = [f"### {tool}", "", remark, "", matrix(case.seed), ""]
    lines += [f"**{tool}** {kept[tool]['version']}: {_claim(tool, one)}.", ""]
    found = np.array(one["found"])
    lines += [matrix(found), "", f"Sums: {sums(found)}.", ""]
    result = cmfast.ipf(case.seed, *(t for _, t in case.targets), on_failure="ignore")
    if result.status == cmfast.Status.CONVERGED:
        lines += ["**cmfast**: CONVERGED.", "", matrix(result.matrix), "", f"Sums: {sums(result.matrix)}."]
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cmfast.ipf(case.seed, *(t for _, t in case.targets))
        lines += [f"**cmfast**: {caught[0].message}."]
    return "\n".join(lines)


def _claim(tool: str, one: dict[str, Any]) -> str:
    return {DONE: f"success ({TOOLS[tool].claims})", UNSAID: "returned without a word"}.get(one["said"], one["said"])


PARTS = (
    (
        "Matrices and tables",
        "table",
        (
            "cmfast",
            "ipfn",
            "ipfn, by default",
            "humanleague",
            "R loglin",
            "AequilibraE",
            "POT",
            "sinkhorn_knopp",
            "scikit-learn",
        ),
    ),
    (
        "Records",
        "records",
        ("cmfast", "balance", "samplics", "weightipy", "R survey, rake", "R survey, calibrate", "PopulationSim"),
    ),
    ("Symmetric maps", "map", ("cmfast", "cooler", "iced", "sinkhorn_knopp", "scikit-learn")),
)
HEAD = """# What your IPF did not tell you

Iterative proportional fitting is in many tools. This page gives sixteen of them tables, surveys and maps with a known
answer, some of them hard and some without any solution, and compares what they return and what they report. Every tool
but one returns a wrong answer without a warning at least once; some do in most cases that they accept. cmfast is right
in all cases but one, where it says that it did not converge.

![Bars for each tool: cases in which its answer was right, unsure, or wrong without a warning](rivals.png)

`python docs/rivals.py` writes this page from the results of the releases named below. Every answer is known in
advance: it is planted, or a linear program proves that none exists. Each tool gets a tolerance of 1e-9 and 10,000
iterations if it has such options (ipfn 1,000, and once more with its defaults), and a minute and 8 GB for each case.
The criterion is the worst cell, not the margins: *right* is a largest relative error of 1e-4, or an error message if
no answer exists. **Bold** marks silent errors: a wrong answer without a warning, or with a report of success. Empty
cells: the tool does not take such cases.
"""


def page(kept: dict[str, Any]) -> str:
    """Return the page."""
    parts = [HEAD, _tally(kept)]
    for title, kind, tools in PARTS:
        cases = [case for case in CASES.values() if case.kind == kind]
        columns = [tool for tool in tools if tool in kept]
        lines = [f"## {title}", "", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        for case in cases:
            cells = [shown(case, kept[tool]["cases"].get(case.name)) for tool in columns]
            lines.append(f"| {case.name} | {' | '.join(cells)} |")
        lines += ["", "| case | what it is | complaint |", "|---|---|---|"]
        for case in cases:
            why = f"; no answer exists: {case.why}" if case.why else ""
            lines.append(f"| {case.name} | {case.about}{why} | {case.source} |")
        parts.append("\n".join(lines) + "\n")
    parts.append("## Four of them in full\n\n" + "\n\n".join(example(kept, *one) for one in EXAMPLES) + "\n")
    left = "\n".join(f"| {name} | {reason} |" for name, reason in NOT_HERE)
    words = "\n".join(f"| {complaint} | {theirs} | {ours} |" for complaint, theirs, ours in APART)
    head = "| complaint | there | here |\n|---|---|---|"
    parts.append(f"## Complaints about usability\n\n{head}\n{words}\n")
    parts.append(f"## Tools that were not tried\n\n| tool | why |\n|---|---|\n{left}\n")
    return "\n".join(parts)


def _tally(kept: dict[str, Any]) -> str:
    lines = ["| tool | version | reports success by | cases | right | unsure | wrong without a warning |"]
    lines.append("|---|---|---|---|---|---|---|")
    for tool in TOOLS:
        if tool not in kept:
            continue
        found = [verdict(CASES[name], one) for name, one in kept[tool]["cases"].items()]
        counts = " | ".join(f"{found.count(word)}" for word in ("right", "unsure"))
        wrong = found.count("wrong")
        told = f"**{wrong}**" if wrong else "0"
        lines.append(f"| {tool} | {kept[tool]['version']} | {TOOLS[tool].claims} | {len(found)} | {counts} | {told} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Ask, keep, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page of what is kept")
    parser.add_argument("tools", nargs="*", help="only these")
    args = parser.parse_args()
    if args.page:
        PAGE.write_text(page(json.loads(KEPT.read_text())))
        return
    for tool, how in TOOLS.items():
        if args.tools and tool not in args.tools:
            continue
        try:
            release = how.version()
        except (ImportError, PackageNotFoundError):
            continue
        cases = {}
        for name, case in CASES.items():
            one = asked(case, tool)
            if one is not None:
                cases[name] = one
                print(f"{tool}: {name}: {shown(case, one)}  {one.get('words', '')}", flush=True)
        kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        kept[tool] = {"version": release, "cases": cases}
        KEPT.write_text(json.dumps({name: kept[name] for name in TOOLS if name in kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
