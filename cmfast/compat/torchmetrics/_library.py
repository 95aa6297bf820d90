"""Import torch and torchmetrics before anything that needs them, and say how to install the one that is missing."""

from importlib.util import find_spec

from cmfast._core.libraries import load_library

# pip installs torch with torchmetrics, so that one line suffices where both are missing.
for _name in ("torch", "torchmetrics") if find_spec("torchmetrics") else ("torchmetrics",):
    load_library(_name)
