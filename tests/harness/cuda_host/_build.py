"""From a CUDA source to a shared library, kept by the hash of everything it is made from."""

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

MOST_THREADS = 1024  # of a block of any GPU

HERE = Path(__file__).parent
HEADER = HERE / "cuda_host.h"
INTERFACE = HERE / "engine.h"
ENGINE = HERE / "engine.cpp"

# What a process looks for: nothing special; what fused multiply-adds change; accesses out of bounds; these, and which
# lines run; races. A sanitizer must be preloaded. Of what debuggers may know reports need lines alone.
MODE = os.environ.get("CUDA_HOST_MODE", "")
_ADDRESS = ("-O1", "-g1", "-fsanitize=address,alignment", "-fno-sanitize-recover=alignment")
_MODES = {
    "": ("-O1",),
    "fused": ("-O1", "-fexpensive-optimizations", "-mfma", "-ffp-contract=fast"),
    "address": _ADDRESS,
    "coverage": (*_ADDRESS, "--coverage"),
    "thread": ("-O1", "-g1", "-fsanitize=thread", "-DCUDA_HOST_RACES"),
}
_SANITIZERS = {"address": "libasan.so", "coverage": "libasan.so", "thread": "libtsan.so"}
UNFUSED = "-ffp-contract=off"
_FLAGS = (
    "-std=c++20", "-fPIC", "-pthread",
    UNFUSED,  # the same bits on every machine
    "-fvisibility=hidden", "-fno-gnu-unique",  # or two libraries in one process share their fibers
    "-Wall", "-Werror", "-Wno-unknown-pragmas", "-Wno-attributes", "-Wno-unused-function",
)  # fmt: skip


def missing() -> str | None:
    """Return why kernels cannot be run here, or None; an error where CMFAST_REQUIRE_CUDA_HOST=1 says that they must."""
    reason = None
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        reason = f"the CUDA sources run on x86-64 Linux hosts only, this is {sys.platform} on {platform.machine()}"
    elif shutil.which("g++") is None:
        reason = "the CUDA sources need g++ to run on the host, and there is none"
    if reason and os.environ.get("CMFAST_REQUIRE_CUDA_HOST") == "1":
        raise RuntimeError(reason)
    return reason


def environment(mode: str) -> dict[str, str]:
    """Return the environment of a process in which kernels are built and run in `mode`."""
    env = {**os.environ, "CUDA_HOST_MODE": mode, "OPENBLAS_NUM_THREADS": "1"}
    if mode in _SANITIZERS:
        found = subprocess.run(
            ["g++", f"-print-file-name={_SANITIZERS[mode]}"], capture_output=True, text=True, check=True
        )
        env |= {"LD_PRELOAD": found.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}  # Python leaks at its end
    return env


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"cmfast-cuda-host-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        msg = f"{folder} belongs to somebody else"
        raise PermissionError(msg)
    return folder


def _run(arguments: list[str], cwd: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # that is for the kernels
    done = subprocess.run(["g++", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        msg = f"g++ {' '.join(arguments)}\n{done.stderr}"
        raise RuntimeError(msg)


def _made(text: str, suffix: str, source: str, *options: str, more: tuple[str, ...] = ()) -> Path:
    """Return the file that g++ makes from `source` (in C++) with `options`; made once per `text` and `more` options."""
    flags = (*_FLAGS, *_MODES[MODE], *more)
    key = hashlib.sha256("\0".join((text, source, *flags, _version())).encode()).hexdigest()[:20]
    file = _folder() / f"{key}{suffix}"
    if not file.exists():
        with _scratch(file) as folder:
            (folder / f"{key}.cpp").write_text(source)
            _run([*flags, f"-I{HERE}", f"{key}.cpp", *options, "-o", file.name], folder)
            (folder / file.name).rename(file)
    return file


@contextlib.contextmanager
def _scratch(file: Path) -> Iterator[Path]:
    """Give a folder of its own to make `file` in, so that two processes do not write one file."""
    if MODE == "coverage":  # counts are written next to the compiler's notes, which must be kept
        notes = file.with_suffix(".gcov")
        notes.mkdir()
        yield notes
        return
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        yield Path(folder)


def covered() -> dict[str, dict[int, int]]:
    """Return how often each line of each source has run, in processes that are over, in the mode ``coverage``."""
    counts: dict[str, dict[int, int]] = {}
    for data in sorted(_folder().glob("*.gcov/*.gcda")):
        command = ["gcov", "--json-format", "--stdout", data.name]
        done = subprocess.run(command, cwd=data.parent, capture_output=True, text=True, check=True)
        for file in json.loads(done.stdout)["files"]:
            lines = counts.setdefault(file["file"], {})
            for line in file["lines"]:
                lines[line["line_number"]] = lines.get(line["line_number"], 0) + line["count"]
    return counts


@cache
def _version() -> str:
    return subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout


@cache
def _engine() -> Path:
    text = INTERFACE.read_text() + ENGINE.read_text()
    # Sanitizers are told what happens; how is not theirs to see: fibers share what the engine knows of them. What it
    # takes is most of the time of a kernel with many barriers.
    plain = ("-O2", "-fno-sanitize=all", "-fno-profile-arcs", "-fno-test-coverage")
    return _made(text, ".o", f'#include "{ENGINE}"\n', "-c", *plain, "-fgnu-unique")


_BOUNDED = re.compile(
    r"^(template <[^>]*>\n)?(__global__ void __launch_bounds__\(([^,)]*)[^)]*\)\s+(\w+)\()", re.MULTILINE
)


def _add_bound(found: re.Match[str]) -> str:
    """Return the beginning of a kernel after a constant for its first launch bound."""
    template, kernel, most, name = found.groups(default="")
    return f"{template.strip()} constexpr unsigned {name}_bound = {most}; {template}{kernel}"


def library(code: str, exports: dict[str, str], options: tuple[str, ...] = ()) -> Path:
    """Return the shared library of the kernels in `code`; `exports` maps C names to kernels and their instances."""
    bounded, names = _BOUNDED.sub(_add_bound, code), {found[4] for found in _BOUNDED.finditer(code)}
    lines = [f'#include "{HEADER.name}"', bounded, f'#line 1 "{HEADER.name}"']
    for c_name, kernel in exports.items():
        name, arguments, rest = kernel.partition("<")
        most = f"({name}_bound{arguments}{rest})" if name in names else f"{MOST_THREADS}u"
        lines.append(f"CUDA_HOST_EXPORT({c_name}, {most}, {kernel})")
    text = HEADER.read_text() + INTERFACE.read_text() + ENGINE.read_text()
    more = (UNFUSED,) if "-fmad=false" in options and MODE == "fused" else ()
    return _made(text, ".so", "\n".join(lines) + "\n", "-shared", str(_engine()), more=more)
