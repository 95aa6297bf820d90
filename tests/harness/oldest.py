"""``python tests/harness/oldest.py``: constraints for pip that ask for the oldest release of all that tests need."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
names = ("dask", "demo", "io", "plot", "test")
for line in [*project["dependencies"], *(line for name in names for line in extras[name])]:
    name, bound, version = line.partition(";")[0].partition(">=")
    if bound:
        name, _, _ = name.partition("[")  # a constraint names no extras
        sys.stdout.write(f"{name}=={version}\n")
