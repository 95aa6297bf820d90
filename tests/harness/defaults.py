"""The defaults of all public functions by option: ``python tests/harness/defaults.py`` writes them to a file.

A default is a promise: changing it changes results of calls that leave the option out, and no test of values sees it.
``--release 1.0`` writes the whole interface of a release instead, to a file that is never written again.
"""

import argparse
import inspect
import json
import sys
from pathlib import Path

from callables import ENTRIES, find_public
from interface import write_release

FILE = Path(__file__).parents[1] / "data" / "defaults.json"
Defaults = dict[str, str | dict[str, list[str]]]


def find_defaults() -> Defaults:
    """Return the default of each option; by default the names of the functions, where these have different ones."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in ENTRIES:
        for option in inspect.signature(find_public(name)).parameters.values():
            if option.default is not inspect.Parameter.empty:
                found.setdefault(option.name, {}).setdefault(repr(option.default), []).append(name)
    return {
        option: next(iter(functions)) if len(functions) == 1 else {d: sorted(functions[d]) for d in sorted(functions)}
        for option, functions in sorted(found.items())
    }


def main() -> str | None:
    """Write the file, or that of a release; return the reason why not."""
    parser = argparse.ArgumentParser(description="Write the defaults of all options.")
    parser.add_argument("--release", metavar="1.0", help="write the public interface of this release, once")
    if release := parser.parse_args().release:
        try:
            write_release(release)
        except FileExistsError as error:
            return f"{error.filename} exists, and a release keeps what it has promised"
        return None
    FILE.write_text(json.dumps(find_defaults(), indent=1) + "\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
