"""``python docs/extras.py``: print what each extra adds, in packages, megabytes and seconds of import.

Sizes are of the files that this environment has installed, of the packages that an extra needs and cmfast alone does
not. Seconds are of importing what a user of the extra imports, after cmfast, in a process of its own: the smallest CPU
time of five. ``docs/stability.md`` has the table.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement

IMPORTS = {
    "compat": "sklearn.metrics, torchmetrics",
    "demo": "sklearn.datasets, tqdm",
    "cluster": "dask.array, distributed, fsspec",
    "dask": "dask.array",
    "maps": "h5py, hictkpy",
    "io": "pyarrow.parquet, tqdm, zarr",
    "plot": "matplotlib.pyplot",
}
TIME = "import time; import cmfast; t = time.process_time(); import {}; print(time.process_time() - t)"
ALONE = "import time; t = time.process_time(); import cmfast; print(time.process_time() - t)"


def iterate_needs(package: str, extra: str) -> Iterator[Requirement]:
    """Yield what a package needs here, with an extra or without (""); empty if it is not installed."""
    for line in metadata.requires(package) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def find_packages(package: str, extras: set[str]) -> set[str]:
    """Return the names of all packages that a package needs, with these extras and without any."""
    seen: set[tuple[str, str]] = set()
    waiting = [(package, extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        name = re.sub(r"[-_.]+", "-", name).lower()
        if (name, extra) not in seen:
            seen.add((name, extra))
            try:
                needs = [*iterate_needs(name, extra)]
            except metadata.PackageNotFoundError:
                sys.exit(f"{name} is not installed: the sizes are those of an environment with all extras")
            waiting += [(each.name, own) for each in needs for own in ("", *each.extras)]
    return {name for name, _ in seen} - {package}


def measure_size(packages: set[str]) -> float:
    """Return the megabytes of the files of packages."""
    files = (file for name in packages for file in metadata.files(name) or ())
    return sum(path.stat().st_size for path in {file.locate() for file in files} if path.is_file()) / 1e6  # type: ignore[attr-defined]


def measure_seconds(program: str) -> float:
    """Return the smallest CPU time that a program prints, of five."""
    command = [sys.executable, "-c", program]
    return min(float(subprocess.run(command, capture_output=True, check=True, text=True).stdout) for _ in range(5))


def main() -> None:
    """Print the table."""
    core = find_packages("cmfast", set())
    print("| extra | packages | MB | seconds of import |\n|---|---|---|---|")
    print(
        f"| none: {', '.join(sorted(core))} | {len(core)} | {measure_size(core):.0f} | {measure_seconds(ALONE):.1f} |"
    )
    for extra, modules in IMPORTS.items():
        more = find_packages("cmfast", {extra}) - core
        seconds = measure_seconds(TIME.format(modules))
        print(f"| `{extra}` | {len(more)} | {measure_size(more):.0f} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
