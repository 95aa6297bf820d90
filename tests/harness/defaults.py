"""The defaults of all public functions by option: ``python tests/harness/defaults.py`` writes them to a file.

A default is a promise: changing it changes results of calls that leave the option out, and no test of values sees it.
"""

import inspect
import json
import sys
from pathlib import Path

from callables import ENTRIES, find_public

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


def main() -> int:
    """Write the file."""
    FILE.write_text(json.dumps(find_defaults(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
