"""Which cmfast this is: its version and a digest of its sources, which every task of a cluster carries.

A worker of another version may count, draw or merge otherwise, and the sum of both would be wrong without a word.
"""

import hashlib
import os
import socket
from functools import cache
from pathlib import Path

from cmfast._core import validate
from cmfast._version import __version__

SOURCES = (".py", ".cu", ".cuh")


@cache
def version_and_digest() -> str:
    """Return the version, and the SHA-256 of all sources, shortened; of an archive the version alone."""
    root = Path(__file__).parents[1]
    found = hashlib.sha256()
    names = []
    for folder, _, files in os.walk(root, followlinks=True):  # kernels are behind a link in a checkout
        names += [Path(folder, file) for file in files if file.endswith(SOURCES)]
    for path in sorted(names):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        for part in (str(path.relative_to(root)).replace(os.sep, "/").encode(), content):
            found.update(len(part).to_bytes(8, "little") + part)
    return f"{__version__} ({found.hexdigest()[:12]})" if names else __version__


def explain_mismatch(made_by: str) -> str:
    """Return why this process must not do a task that was made by `made_by`; "" if it may."""
    here = version_and_digest()
    if here == made_by:
        return ""
    where = f"process {os.getpid()} on {socket.gethostname()}"
    return f"{where} has cmfast {here}, but the task was made by cmfast {made_by}; install one version on all machines"


def require_same_version(made_by: str) -> None:
    """Refuse a task that another cmfast made."""
    text = explain_mismatch(made_by)
    if text:
        validate.fail(text, RuntimeError)
