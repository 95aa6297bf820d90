"""Hashes of all results on all cases, by op and target: what a change that only moves things must leave as it was.

``python tests/harness/bits.py`` writes those of this tree and machine to ``tests/data/bits.json``. Rounding is the same
where compilers and linear algebra are the same, so they are compared there only.
"""

import hashlib
import json
import platform
import sys
import warnings
from pathlib import Path
from typing import Any

import cuda_host
import llvmlite.binding
import numba
import numpy as np
import scipy
from backends import BACKENDS, CUDA_HOST, convert, has_kernels, supports
from calls import parts, public
from cases import CASES

from cmfast.kernels.ops import OPS

FILE = Path(__file__).parents[1] / "data" / "bits.json"


def machine() -> dict[str, str]:
    """Return what rounding depends on."""
    found = {module.__name__: module.__version__ for module in (np, numba, scipy)}
    return found | {"python": platform.python_version(), "processor": llvmlite.binding.get_host_cpu_name()}


def targets() -> list[str]:
    """Return the targets that can run here."""
    return ["cpu"] if cuda_host.missing() else ["cpu", "cuda"]


def of_op(op: str, target: str) -> str:
    """Return the hash of every result of `op`, case after case."""
    backend = (BACKENDS if target == "cpu" else CUDA_HOST)[0]
    found = hashlib.sha256()
    for case in CASES[op]:
        if not (supports(backend, case) and has_kernels(backend, op, case)):
            continue
        args = [convert(backend, a) for a in case.args]
        options = {name: convert(backend, value) for name, value in case.options.items()}
        with warnings.catch_warnings(), backend.running():
            warnings.simplefilter("ignore")
            result = parts(op, public(op)(*args, **options))
        for part in result:
            _add(found, part)
    return found.hexdigest()[:16]


def _add(found: Any, part: Any) -> None:
    if isinstance(part, tuple):
        for item in part:
            _add(found, item)
        return
    array = np.asarray(part.get() if hasattr(part, "get") else part)
    array = np.where(np.isnan(array), np.nan, array) if array.dtype.kind == "f" else array  # one NaN is like another
    found.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())


def main() -> int:
    """Write the file."""
    hashes = {target: {op: of_op(op, target) for op in sorted(OPS)} for target in targets()}
    FILE.write_text(json.dumps({"machine": machine(), **hashes}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
