"""The files of the demo, and its table for the terminal. Every number in them is one of ``results.json``."""

from pathlib import Path
from typing import Any

import numpy as np

from cmfast._demo import page, words
from cmfast._demo.experiment import Results
from cmfast._demo.words import METHODS
from cmfast._output import FileError, plain, replacing, to_json


def prepare(out: Path) -> Path:
    """Make the folder, before a minute of work is spent on results that have no place."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError(out, "is a file, give the name of a folder") from None
    except OSError as error:
        raise FileError(out, f"cannot be made ({error.strerror})") from error
    return out


def write(out: Path, results: Results) -> dict[str, Any]:
    """Write ``matrices.npz``, ``results.json`` and ``report.html``; return the numbers."""
    numbers: dict[str, Any] = plain({**results.numbers, "timings": results.timings})
    with replacing(out / "matrices.npz") as file:
        arrays: dict[str, Any] = results.matrices  # a type checker would take one for an option
        np.savez_compressed(file, **arrays)
    with replacing(out / "results.json") as file:
        file.write(to_json(numbers).encode())
    with replacing(out / "report.html") as file:
        file.write(page.whole(numbers, results.matrices).encode())
    return numbers


def table(numbers: dict[str, Any], out: Path) -> str:
    """Return the results as lines for the terminal."""
    overlap, kl = numbers["normalisation"]["overlap"], numbers["normalisation"]["kl"]
    matched, b, t = numbers["geometry"]["matched"], numbers["bootstrap"], numbers["timings"]
    repeats = numbers["settings"]["repeats"]
    lines = [
        f"Digits, {repeats} repetitions, seed {numbers['seed']}; bi of M + {numbers['settings']['smoothing']:g}",
        "",
        "        against the balanced truth               against the geometric matrix",
        "        overlap        best in   KL              overlap   guaranteed   permuted labels",
    ]
    for name in METHODS:
        o, k, m = overlap[name], kl[name], matched[name]
        lines.append(
            f"{name:<6}  {o['mean']:.3f} ± {o['sd']:.3f}  {o['best_in']:>2}/{repeats:<4}"
            f"  {k['mean']:6.3f} ± {k['sd']:.3f}  "
            f"{m['overlap']['mean']:7.3f}   {m['guaranteed']['mean']:10.3f}   {m['null']['mean']:15.3f}"
        )
    speed = f"{words.seconds(t['bootstrap_bi_normalising'])} ({t['bootstrap_matrices_per_second']:,.0f}/s)"
    lines += [
        "",
        words.verdict(numbers),
        f"Bootstrap: {b['resamples']:,} matrices bi-normalised in {speed}: {words.statuses(numbers)}",
        "",
        f"{out / 'report.html'}   {out / 'results.json'}   {out / 'matrices.npz'}",
    ]
    return "\n".join(lines)
