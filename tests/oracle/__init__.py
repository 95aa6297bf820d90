"""Slow and obviously right: every op in float64 loops, exact sums and fractions. Imports nothing of cmfast.

One module per topic; ``ORACLES`` maps the name of an op to a function that takes what the public function takes (as
NumPy arrays) and returns a tuple of the arrays that it promises, in the promised dtype and shape.
"""

import importlib
import pkgutil

ORACLES = {}
for _topic in pkgutil.iter_modules(__path__):
    if not _topic.name.startswith("_"):
        ORACLES |= importlib.import_module(f"oracle.{_topic.name}").ORACLES
