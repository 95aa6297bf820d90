"""Named, seeded inputs per op, ugly ones first. One module per topic; ``CASES`` maps the name of an op to its cases."""

import importlib
import pkgutil

from cases._case import Case as Case

CASES: dict[str, list[Case]] = {}
for _topic in pkgutil.iter_modules(__path__):
    if not _topic.name.startswith("_"):
        CASES |= importlib.import_module(f"cases.{_topic.name}").CASES
