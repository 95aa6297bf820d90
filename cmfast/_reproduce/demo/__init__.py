"""``cmfast demo``: the whole story on real data, from training to a report."""

from pathlib import Path
from typing import Any

from cmfast._reproduce import name_missing


def missing() -> list[str]:
    """Return the names of the distributions that the demo needs and does not find."""
    return name_missing(["sklearn"])


def run(out: Path, seed: int) -> dict[str, Any]:
    """Run the demo, write its files into the folder `out`, and return what ``results.json`` holds."""
    from cmfast._core.progress import Bar
    from cmfast._files.output import removing_empty
    from cmfast._reproduce.demo import experiment, report

    with removing_empty(out):
        folder = report.prepare(out)
        return report.write(folder, experiment.run(seed, experiment.Settings(), Bar))


def table(numbers: dict[str, Any], out: Path) -> str:
    """Return the results as lines for the terminal."""
    from cmfast._reproduce.demo import report

    return report.table(numbers, out)
