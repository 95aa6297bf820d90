"""The table of times in the README has the figures of benchmarks/results, each to two digits."""

import json
import math
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
# By row: its job, and the rivals in the order of the row's times and ratios. The file of geometry has full jobs, too.
ROWS = [
    ("count", "quick-counting", ["scikit-learn"], ["numpy.bincount", "Numba loop"]),
    ("bi 0.6", "quick-scaling", ["POT", "ipfn"], ["Numba loop", "NumPy batched"]),
    ("bi 0.9", "quick-scaling", ["POT", "ipfn"], ["Numba loop", "NumPy batched"]),
    ("bi 0.99", "quick-scaling", ["POT", "ipfn"], ["Numba loop", "NumPy batched"]),
    ("gcm", "quick-geometry", ["polars, 10 columns"], ["polars, packed key"]),
    ("gcm 1e7", "quick-geometry", ["polars, 10 columns"], ["polars, packed key"]),
    ("metrics 10", "quick-metrics", ["PyCM", "scikit-learn"], ["Numba loop", "NumPy expressions"]),
    ("labels 100000", "quick-metrics", ["scikit-learn"], ["numpy.bincount", "Numba loop"]),
    ("resample", "quick-uncertainty", ["its loop in NumPy"], ["NumPy at once"]),
]
UNITS = {"ms": 1e-3, "s": 1.0}


def read_table(page: str) -> list[list[str]]:
    """Return the cells of the rows below the head that begins with "job" and "cmfast"."""
    _, _, rest = page.partition("| job | cmfast |")
    rows = rest.splitlines()[2:]
    end = next(k for k, row in enumerate(rows) if not row.startswith("|"))
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[:end]]


def read_times(cell: str) -> list[float]:
    """Return the times in a cell, in seconds."""
    return [
        float(number.replace(",", "")) * UNITS[unit] for number, unit in re.findall(r"([\d,]*\.?\d+) (ms|s)\b", cell)
    ]


def read_ratios(cell: str) -> list[float]:
    """Return the ratios in a cell."""
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d(?:\.\d+)?|\d*\.?\d+", cell)]


def read_job(name: str, file: str) -> dict:
    """Return a job of the results."""
    jobs = json.loads((RESULTS / f"amd-epyc-2-cores-{file}.json").read_text(encoding="utf-8"))["jobs"]
    return next(job for job in jobs if job["job"] == name)


def is_rounded(shown: float, measured: float) -> bool:
    """Return whether a figure is the measured one to two digits or more."""
    step = 10.0 ** (math.floor(math.log10(measured)) - 1)
    return abs(shown - measured) <= step * (0.5 + 1e-9)


def find_wrong(rows: list[list[str]]) -> list[str]:
    """Return every figure in the rows that is not of the results."""
    wrong = []
    for (name, file, *rivals), (_, ours, *cells) in zip(ROWS, rows, strict=True):
        job = read_job(name, file)
        found = {rival["name"]: rival["ratio"] for rival in job["rivals"]}
        wanted = [("time", read_times(ours), [job["seconds"]])]
        for names, times, ratios in zip(rivals, cells[::2], cells[1::2], strict=True):
            wanted.append(("times", read_times(times), [found[each] * job["seconds"] for each in names]))
            wanted.append(("ratios", read_ratios(ratios), [found[each] for each in names]))
        wrong += [
            f"{name}: {what} {shown}, measured {measured}"
            for what, shown, measured in wanted
            if len(shown) != len(measured) or not all(map(is_rounded, shown, measured))
        ]
    return wrong


ROWS_OF_PAGE = read_table((ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_table_has_the_figures_of_the_results():
    assert find_wrong(ROWS_OF_PAGE) == []


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_any_other_figure_is_found(row):
    """Each time and ratio of a row in turn, a tenth more."""
    numbers = re.compile(r"[\d,]*\.?\d+(?= (?:ms|s)\b)")
    for cell in range(1, 6):
        pattern = re.compile(r"\d[\d,]*\d(?:\.\d+)?|\d*\.?\d+") if cell in (3, 5) else numbers
        for match in pattern.finditer(ROWS_OF_PAGE[row][cell]):
            rows = [list(each) for each in ROWS_OF_PAGE]
            other = f"{float(match[0].replace(',', '')) * 1.1:.3f}"
            text = rows[row][cell]
            rows[row][cell] = text[: match.start()] + other + text[match.end() :]
            assert len(find_wrong(rows)) == 1, (cell, match[0])


def test_the_small_calls_are_those_of_the_results():
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"small call takes (.+?) to (.+?) us, .*? loop without checks takes (.+?) to (.+?)\. ", text)
    path = RESULTS / "amd-epyc-2-cores-quick-latency.json"
    jobs = [job for job in json.loads(path.read_text(encoding="utf-8"))["jobs"] if job["job"].startswith("one ")]
    calls = [1e6 * job["seconds"] for job in jobs if any(one["name"] == "Numba loop" for one in job["rivals"])]
    loops = [
        1e6 * job["seconds"] * one["ratio"] for job in jobs for one in job["rivals"] if one["name"] == "Numba loop"
    ]
    measured = [min(calls), max(calls), min(loops), max(loops)]
    assert [float(part) for part in said.groups()] == [round(value, 1) for value in measured]


def test_the_ratios_of_the_full_run_are_those_of_the_results():
    """Of a job that the file has twice, both ends are on the page."""
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"an earlier full run has (.+?) The popular rival", text)[1]
    jobs = json.loads((RESULTS / "amd-epyc-2-cores.json").read_text(encoding="utf-8"))["jobs"]
    measured = []
    for name, rival in [
        ("count", "scikit-learn"), *((f"bi {accuracy}", "POT") for accuracy in (0.6, 0.9, 0.99)),
        ("resample", "its loop in NumPy"),
    ]:  # fmt: skip
        found = [one["ratio"] for job in jobs if job["job"] == name for one in job["rivals"] if one["name"] == rival]
        measured += sorted({min(found), max(found)})
    shown = read_ratios(said)
    assert len(shown) == len(measured)
    assert all(map(is_rounded, shown, measured))
