"""``python -m benchmarks.apart``: rivals that are not installed here, or want an older NumPy, each in a process apart.

Every peer is installed from PyPI into a fresh environment, or found in ``--environments FOLDER``, where environments
are kept by the names of peers. It gets the problems that it takes as files and is timed there, without imports and
conversions (`_peers.py`); its weights are judged here, by weights that are known or by what is least at the optimum.
``--populationsim CHECKOUT`` adds the survey of PopulationSim's own examples, from a checkout of its repository.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import kl_div

from benchmarks.__main__ import lines, machine, measure
from benchmarks._job import Job
from benchmarks.balancing import balanced, contacts, off
from benchmarks.margins import MOST_ERROR, Records, Region, households, planted, raked, softened

PROGRAM = Path(__file__).with_name("_peers.py")
PATIENCE = 600  # seconds for a peer to answer
MOST_CELLS = 10**7  # of the table of all combinations of categories, which `balance` makes
MOST_LOSS = 1e-6  # of an objective above ours, of those that are at the optimum too
LEAST_EVEN = 0.1  # of a sum of a map, off by which it is not balanced
EXPANSION, WEIGHTS = (0.5, 4.0), (1, 20_000)  # bounds in settings.yaml of the example
EARLIER = (  # by its balancer in Python, before this was written; its repository publishes none
    "PopulationSim 0.10.0 found 971, 942, 1,832, 1,835 iterations; objective 825,987; 56,940; 1,445,070; 821,393"
)


@dataclass(frozen=True)
class Problem:
    """A job, what peers get of it, and ``judge(weights)``, which says how good theirs are."""

    job: Job
    kind: Literal["records", "households", "map"]
    arrays: dict[str, Any]
    judge: Callable[[np.ndarray], str]
    remark: str = ""


class Peer(NamedTuple):
    """A package of PyPI, or none, what else pip is asked for, and which problems it can do at all."""

    package: str
    constraints: tuple[str, ...]
    takes: Callable[[Problem], bool]


def _records(problem: Problem) -> bool:
    return problem.kind == "records"


def _households(problem: Problem) -> bool:
    return problem.kind == "households"


def _few(problem: Problem) -> bool:
    return _records(problem) and math.prod(map(len, problem.arrays["totals"])) <= MOST_CELLS


def _alike(problem: Problem) -> bool:
    return _records(problem) and np.ptp(problem.arrays["weights"]) == 0


PEERS = {
    "balance": Peer("balance", ("numpy<2",), _few),
    "samplics": Peer("samplics", (), _records),
    "weightipy": Peer("weightipy", (), _alike),
    "populationsim": Peer("populationsim", ("numpy<2",), _households),
    "populationsim_numba": Peer("populationsim", ("numpy<2",), _households),
    "cooler": Peer("cooler", (), lambda problem: problem.kind == "map"),
}
# Run in our own environment by --smoke: a peer that solves the problem, and one that does not.
OWN = {
    "sweeps": Peer("", (), _records),
    "untouched": Peer("", (), lambda _: True),
}


def problems(*, small: bool = False, checkout: Path | None = None) -> Iterator[Problem]:
    """Yield the problems, one at a time, as they are large."""
    n = 500 if small else 100_000
    alike = planted(n, 5, 5, 0.5, spread=0.0)
    yield _make_records_problem("rake 5x5 sd 0.5, weights alike", alike)
    for attributes, levels, sd in ((5, 5, 0.5),) if small else ((5, 5, 0.5), (5, 5, 2.0), (25, 10, 0.3)):
        yield _make_records_problem(f"rake {attributes}x{levels} sd {sd:g}", planted(n, attributes, levels, sd))
    yield _make_regions_problem("rake households", households(small=small))
    if checkout:
        yield replace(_make_regions_problem("PopulationSim's survey", survey(checkout)), remark=f"earlier, {EARLIER}")
    yield _make_map_problem(*contacts(300, 10) if small else contacts(20_000, 80))


def _make_records_problem(name: str, records: Records) -> Problem:
    def judge(weights: np.ndarray) -> str:
        error = np.abs(weights / records.answer - 1).max()
        return f"weights to {error:.0e}" if error <= MOST_ERROR else f"wrong: weights are off by {error:.0e}"

    return Problem(raked(name, records), "records", records._asdict(), judge)


def _make_regions_problem(name: str, regions: list[Region]) -> Problem:
    job = softened(name, regions)
    ours = [one.weights for one in job.run(None)]
    least = [objective(region, weights) for region, weights in zip(regions, ours, strict=True)]
    arrays: dict[str, Any] = {"n_regions": len(regions)}
    for k, (A, totals, given) in enumerate(regions):
        low, high = given["bounds"]
        arrays |= {f"columns{k}": A, f"totals{k}": totals, f"low{k}": low, f"high{k}": high}
        arrays |= {f"weights{k}": given["weights"], f"importance{k}": given["importance"]}

    def judge(weights: np.ndarray) -> str:
        parts = np.split(weights, np.cumsum([len(one) for one in ours])[:-1])
        found = [objective(region, part) for region, part in zip(regions, parts, strict=True)]
        loss = np.max(np.divide(found, least) - 1)
        outside = np.max([_outside(region, part) for region, part in zip(regions, parts, strict=True)])
        factor = np.exp(np.abs(np.log(weights / np.concatenate(ours))).max())
        note = f"objective {_listed(found)} for our {_listed(least)}, weights off by factors up to {factor:.3g}"
        if not outside <= MOST_ERROR:
            return f"wrong: {outside:.0e} outside the bounds, {note}"
        return note if loss <= MOST_LOSS else f"not the least: {note}"

    return Problem(job, "households", arrays, judge)


def _make_map_problem(i: np.ndarray, j: np.ndarray, counts: np.ndarray, n: int) -> Problem:
    def judge(weights: np.ndarray) -> str:
        error = off(weights, i, j, counts)
        return f"sums to {error:.0e}" if error <= LEAST_EVEN else f"wrong: sums are off by {error:.0e}"

    return Problem(balanced(i, j, counts, n), "map", {"i": i, "j": j, "counts": counts, "n": n}, judge)


def objective(region: Region, weights: np.ndarray) -> float:
    """Return what is least: the distance of the weights, and of the totals by their importance."""
    A, totals, given = region
    missed = kl_div(weights @ A, totals)
    return float(kl_div(weights, given["weights"]).sum() + (given["importance"] * missed).sum())


def _outside(region: Region, weights: np.ndarray) -> float:
    low, high = region.options["bounds"]
    ratio = weights / region.options["weights"]
    return float(np.maximum(low / ratio, ratio / high).max() - 1)


def _listed(values: list[float]) -> str:
    return "; ".join(f"{value:,.0f}" for value in values)


def survey(checkout: Path) -> list[Region]:
    """Return the regions of the survey in the examples of PopulationSim, as its setup makes them."""
    import pandas as pd

    here = checkout / "examples/example_survey_weighting"
    seeds = pd.read_csv(here / "data/seed_households.csv")
    persons = pd.read_csv(here / "data/seed_persons.csv", dtype={"PComm": str})
    controls = pd.read_csv(here / "configs/controls.csv")
    targets = pd.read_csv(here / "data/control_totals_subcluster.csv").set_index("SUBREGCluster").sort_index()
    columns = []
    for control in controls.itertuples():
        holds = eval(control.expression, {"households": seeds, "persons": persons, "np": np})  # as its setup does
        if control.seed_table == "persons":
            holds = seeds["hhID"].map(holds.groupby(persons["hhID"]).sum()).fillna(0)
        columns.append(holds.to_numpy(np.float64))
    A, importance = np.stack(columns, 1), controls["importance"].to_numpy(np.float64)
    regions = []
    for number in targets.index:
        inside = ((seeds["SUBREGCluster"] == number) & (seeds["HHweight"] > 0)).to_numpy()
        q = seeds["HHweight"].to_numpy(np.float64)[inside]
        totals = targets.loc[number, controls["control_field"]].to_numpy(np.float64)
        low, high = (q * factor * totals[0] / q.sum() for factor in EXPANSION)
        bounds = np.maximum(low, WEIGHTS[0]) / q, np.clip(np.round(high), *WEIGHTS) / q
        options = {"weights": q, "method": "truncated", "importance": importance, "bounds": bounds}
        regions.append(Region(A[inside], totals, options))
    return regions


def environment(peer: Peer, folder: Path) -> Path:
    """Return the Python of a peer's environment, which is made where it is not there."""
    if not peer.package:
        return Path(sys.executable)
    home = folder / peer.package
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", peer.package, *peer.constraints], check=True)
    return python


def ask(
    name: str, package: str, python: Path, arrays: dict[str, Any], *, seconds: float
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return weights and facts of a peer, run on the arrays of a problem in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, **arrays)
        command = [python, "-I", PROGRAM, name, package, given, found, str(seconds)]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if ran.returncode:
            raise RuntimeError(next(iter(ran.stderr.strip().splitlines()[-1:]), f"exit status {ran.returncode}"))
        with np.load(found) as file:
            return file["weights"], json.loads(str(file["facts"]))


def _cpu_seconds(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(5):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return median(times)


def compared(problem: Problem, pythons: dict[str, Path], *, seconds: float) -> dict[str, Any]:
    """Measure our job as ``python -m benchmarks`` does, then each peer that takes it; what failed is kept by name."""
    row = measure(replace(problem.job, rivals=[]), seconds=seconds)
    row |= {"cpu_seconds": _cpu_seconds(lambda: problem.job.run(None)), "remark": problem.remark, "failed": {}}
    for name, python in pythons.items():
        peer = (PEERS | OWN)[name]
        if not peer.takes(problem):
            continue
        try:
            weights, facts = ask(name, peer.package, python, problem.arrays, seconds=seconds)
            row["rivals"].append(_line(name, weights, facts, problem, row))
        except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:  # weights may be too few
            row["failed"][name] = str(error)
    return row


def _line(
    name: str, weights: np.ndarray, facts: dict[str, Any], problem: Problem, ours: dict[str, Any]
) -> dict[str, Any]:
    wall, cpu = median(facts["wall"]), median(facts["cpu"])
    parts = [problem.judge(weights), f"CPU time {cpu / ours['cpu_seconds']:,.1f} x ours"]
    if "says" in facts:
        parts.insert(0, f"says {facts['says']}")
    if "iterations" in facts:
        parts.insert(0, f"{', '.join(f'{count:,}' for count in facts['iterations'])} iterations")
    return {
        "name": f"{name} {facts['version']}".strip(),
        "items": problem.job.items,
        "seconds_for_all_items": wall,
        "ratio": wall / ours["seconds"],
        "cpu_seconds": cpu,
        "repetitions": len(facts["wall"]),
        "note": "; ".join(parts),
        "extra_bytes": None,
        "facts": facts,
    }


def main(argv: list[str] | None = None) -> int:
    """Run the requested peers; return 0, or 1 if a peer failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.apart", description=__doc__)
    parser.add_argument("--peer", choices=PEERS, action="append", help="these alone (may be repeated)")
    parser.add_argument("--environments", type=Path, metavar="FOLDER", help="where environments are kept, or are made")
    parser.add_argument("--populationsim", type=Path, metavar="CHECKOUT", help="add the survey of its examples")
    parser.add_argument("--smoke", action="store_true", help="tiny problems, and peers that need no environment")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    options = parser.parse_args(argv)
    peers = OWN if options.smoke else {name: PEERS[name] for name in options.peer or PEERS}

    rows, missing = [], {}
    with tempfile.TemporaryDirectory() as scratch:
        pythons = {}
        for name, peer in peers.items():
            try:
                pythons[name] = environment(peer, (options.environments or Path(scratch)).absolute())
            except subprocess.CalledProcessError as error:
                missing[name] = f"pip could not install {peer.package} ({error.returncode})"
                print(f"{name}: {missing[name]}", file=sys.stderr)
        for problem in problems(small=options.smoke, checkout=options.populationsim):
            if not any(peers[name].takes(problem) for name in pythons):
                continue
            row = compared(problem, pythons, seconds=0.05 if options.smoke else 1.0)
            rows.append(row)
            print(*lines(row), sep="\n")
            for text in (row["remark"], *(f"{name} failed: {why}" for name, why in row["failed"].items())):
                if text:
                    print(f"  {text}")
            print(flush=True)
    if options.json:
        found = {"machine": machine(), "jobs": rows, "missing": missing}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(bool(missing) or any(row["failed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
