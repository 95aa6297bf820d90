"""Write the files of the demo, and print its table. All numbers are from ``results.json``."""

from pathlib import Path
from typing import Any

from cmfast._core.annotations import NORMALIZATIONS
from cmfast._core.progress import Bar
from cmfast._files.output import FileError, convert_to_plain, make_folder, remove_folder_on_error
from cmfast._pages.values import format_seconds
from cmfast._reproduce import _files
from cmfast._reproduce.demo import experiment, page, sentences

FILES = (_files.MATRICES, _files.RESULTS, _files.REPORT)


def run(out: Path, seed: int) -> dict[str, Any]:
    """Run the demo, write its files into the folder `out`, and return the content of ``results.json``."""
    with remove_folder_on_error(out):
        folder = prepare(out)
        return write(folder, experiment.run(seed, experiment.DemoSettings(), Bar))


def prepare(out: Path) -> Path:
    """Create the output folder before the computation starts.

    Files of an earlier demo may be replaced; other files of the same name are refused.
    """
    make_folder(out)
    there = [out / name for name in FILES if (out / name).exists()]
    if 0 < len(there) < len(FILES):
        raise FileError(there[0], "exists already and is not of an earlier demo, choose another --out")
    return out


def write(out: Path, results: experiment.Results) -> dict[str, Any]:
    """Write ``matrices.npz``, ``results.json`` and ``report.html``; return the numbers."""
    numbers: dict[str, Any] = convert_to_plain({**results.numbers, "timings": results.timings})
    return _files.write_reproduction(page.compose(numbers, results.matrices), out)


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
    for name in NORMALIZATIONS:
        o, k, m = overlap[name], kl[name], matched[name]
        lines.append(
            f"{name:<6}  {o['mean']:.3f} ± {o['sd']:.3f}  {o['best_in']:>2}/{repeats:<4}"
            f"  {k['mean']:6.3f} ± {k['sd']:.3f}  "
            f"{m['overlap']['mean']:7.3f}   {m['guaranteed']['mean']:10.3f}   {m['null']['mean']:15.3f}"
        )
    speed = f"{format_seconds(t['bootstrap_bi_normalising'])} ({t['bootstrap_matrices_per_second']:,.0f}/s)"
    lines += [
        "",
        sentences.verdict(numbers),
        f"Bootstrap: {b['resamples']:,} matrices bi-normalised in {speed}: {sentences.statuses(numbers)}",
        "",
        f"{out / 'report.html'}   {out / 'results.json'}   {out / 'matrices.npz'}",
    ]
    return "\n".join(lines)
