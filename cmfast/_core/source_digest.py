"""Identify this cmfast by its version and a digest of its sources; every task of a cluster carries both.

A worker with another version may count, draw or merge differently, and the merged result would be silently wrong.
"""

import os
from functools import cache
from pathlib import Path

from cmfast._core import validate
from cmfast._version import __version__

SOURCES = (".py", ".cu", ".cuh")


@cache
def version_and_digest() -> str:
    """Return the version and a shortened SHA-256 of all sources; from a zip archive, the version alone."""
    from hashlib import sha256

    root = Path(__file__).parents[1]
    found = sha256()
    names = []
    for folder, _, files in os.walk(root, followlinks=True):  # in a checkout cmfast/kernels is a link
        names += [Path(folder, file) for file in files if file.endswith(SOURCES)]
    for path in sorted(names):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        for part in (str(path.relative_to(root)).replace(os.sep, "/").encode(), content):
            found.update(len(part).to_bytes(8, "little") + part)
    return f"{__version__} ({found.hexdigest()[:12]})" if names else __version__


def explain_mismatch(made_by: str) -> str:
    """Return why this process must not run a task made by cmfast `made_by`; "" if the versions agree."""
    here = version_and_digest()
    if here == made_by:
        return ""
    import socket

    where = f"process {os.getpid()} on {socket.gethostname()}"
    return f"{where} has cmfast {here}, but the task was made by cmfast {made_by}; install one version on all machines"


def require_same_version(made_by: str) -> None:
    """Raise RuntimeError if a task was made by another version of cmfast."""
    text = explain_mismatch(made_by)
    if text:
        validate.fail(text, RuntimeError)
