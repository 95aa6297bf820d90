"""Install a wheel in fresh environments, as users do in unusual ones, and call it: ``installs.py WHEEL``.

Every Python from 3.11 that is found; then with one of them: without a compiler, offline, without a home that can be
written to, as another user, by uv, under a path with spaces and letters beyond ASCII. Exits with 1 if one fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

NOBODY = 65534  # Linux's user without rights
OLDEST = (3, 11)

# Counts by hand; scaled by hand: the one matrix with unit sums and the cross ratio 3 * 2 / (1 * 1).
PROGRAM = """
import sys
import cmfast
counts = cmfast.confusion_matrix(["a", "b", "b", "c"], ["a", "b", "c", "c"])
assert counts.tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 1]], counts
scaled = cmfast.bi_normalize([[3, 1], [1, 2]])
share = 6**0.5 / (1 + 6**0.5)
assert abs(scaled - [[share, 1 - share], [1 - share, share]]).max() < 1e-9, scaled
assert cmfast.metrics.accuracy(counts) == 0.75
print("cmfast", cmfast.__version__, "on Python", sys.version.split()[0])
"""


def find_pythons() -> Iterator[str]:
    """Yield one interpreter for each release of Python from 3.11, on the path or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    names = [f"python3.{minor}" for minor in range(OLDEST[1], OLDEST[1] + 9)]
    candidates = [sys.executable, *filter(None, map(shutil.which, names))]
    candidates += sorted(str(path) for path in pyenv.glob("3.*/bin/python3"))
    seen = set()
    for each in candidates:
        code = "import sys; print(*sys.version_info[:2], 't' in sys.abiflags)"
        found = subprocess.run([each, "-c", code], capture_output=True, text=True, check=False).stdout.split()
        if found and (int(found[0]), int(found[1])) >= OLDEST and tuple(found) not in seen:
            seen.add(tuple(found))
            yield each


def run(*command: object, **options: object) -> str:
    """Run a command; return what it printed, or raise with it."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=600, **options
    )
    if done.returncode:
        msg = f"{command[0]} exited with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        raise RuntimeError(msg)
    return done.stdout.strip()


def make_environment(folder: Path, python: str = sys.executable) -> Path:
    """Make a virtual environment; return its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def call(python: Path, scratch: Path, **options: object) -> str:
    """Run the program far from the sources, with caches in `scratch`."""
    env = {"PATH": os.environ["PATH"], "HOME": str(scratch), "XDG_CACHE_HOME": str(scratch / "cache")}
    return run(python, "-c", PROGRAM, **({"cwd": "/", "env": env} | options))


def install(wheel: Path, python: Path, **options: object) -> None:
    """Install the wheel and what it needs by pip."""
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", wheel, **options)


def install_for_python(wheel: Path, scratch: Path, python: str) -> str:
    """Install by pip in a fresh environment of one interpreter."""
    made = make_environment(scratch / "venv", python)
    install(wheel, made)
    return call(made, scratch)


def install_without_compiler(wheel: Path, scratch: Path) -> str:
    """Install and call where the path holds nothing but the environment."""
    made = make_environment(scratch / "venv")
    only = {"PATH": str(made.parent), "HOME": str(scratch)}
    assert shutil.which("cc", path=only["PATH"]) is None
    install(wheel, made, env=os.environ | only)
    return call(made, scratch, env=only)


def install_offline(wheel: Path, scratch: Path) -> str:
    """Install from a folder of wheels and call in a network namespace of its own, which reaches nothing."""
    made, folder = make_environment(scratch / "venv"), scratch / "wheels"
    run(made, "-m", "pip", "download", "--quiet", "--dest", folder, wheel)
    alone = ["unshare", "--net", *(["--map-root-user"] if os.getuid() else [])]
    probe = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
    reached = subprocess.run([*alone, made, "-c", probe], capture_output=True, text=True, check=False)
    assert "unreachable" in reached.stderr, reached
    run(*alone, made, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", folder, wheel)
    env = {"HOME": str(scratch), "PATH": os.environ["PATH"]}
    return run(*alone, made, "-c", PROGRAM, cwd="/", env=env)


def call_without_home(wheel: Path, scratch: Path) -> str:
    """Call as a user who can write nowhere but to the folder for temporary files, and whose home does not exist."""
    python, env = copy_interpreter(scratch)
    made = make_environment(scratch / "venv", python)
    install(wheel, made)
    return call(made, scratch, env=env | {"HOME": str(scratch / "missing")}, **other_user())


def install_as_another_user(wheel: Path, scratch: Path) -> str:
    """Install and call as a user without rights, in a folder of its own."""
    python, env = copy_interpreter(scratch)
    own = scratch / "own"
    own.mkdir()
    given = shutil.copy(wheel, own)
    if os.getuid() == 0:
        os.chown(own, NOBODY, NOBODY)
    env |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    env |= {"HOME": str(own), "PIP_NO_CACHE_DIR": "1"}
    options = {"cwd": own, "env": env} | other_user()
    run(python, "-m", "venv", own / "venv", **options)
    made = own / "venv" / "bin" / "python"
    install(given, made, **options)
    assert run(made, "-c", "import os; print(os.getuid())", **options) != "0"
    return call(made, own, **options)


def install_with_uv(wheel: Path, scratch: Path) -> str:
    """Install by uv."""
    tools = make_environment(scratch / "tools")
    run(tools, "-m", "pip", "install", "--quiet", "uv")
    uv = tools.parent / "uv"
    run(uv, "venv", "--quiet", "--python", sys.executable, scratch / "venv")
    made = scratch / "venv" / "bin" / "python"
    run(uv, "pip", "install", "--quiet", "--python", made, wheel)
    return call(made, scratch)


def install_under_unusual_path(wheel: Path, scratch: Path) -> str:
    """Install and cache under a path with spaces and letters beyond ASCII."""
    folder = scratch / "où ça \N{SNOWMAN}"
    folder.mkdir()
    return install_for_python(wheel, folder, sys.executable)


def other_user() -> dict[str, object]:
    """Return the options of a process without rights: those of this one, unless it is root's."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}


def copy_interpreter(scratch: Path) -> tuple[str, dict[str, str]]:
    """Copy this Python to a folder that every user may read, for it may lie in a closed home.

    Return the interpreter and its environment, which names the copy's libraries.
    """
    base = scratch / "python"
    shutil.copytree(sys.base_prefix, base, symlinks=True, ignore=shutil.ignore_patterns("test", "*.a"))
    return str(base / "bin" / "python3"), {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(base / "lib")}


CASES: dict[str, Callable[[Path, Path], str]] = {
    "no compiler": install_without_compiler,
    "offline": install_offline,
    "no home": call_without_home,
    "another user": install_as_another_user,
    "uv": install_with_uv,
    "unusual path": install_under_unusual_path,
}


def main(wheel: Path) -> int:
    """Try every interpreter and every case, print a line for each; return the number that failed."""
    cases = [(python, partial(install_for_python, python=python)) for python in find_pythons()]
    failed = 0
    for name, case in (*cases, *CASES.items()):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            try:
                print(f"{name}: {case(wheel, Path(folder))}", flush=True)
            except (RuntimeError, AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"{name}: FAILED: {error}", flush=True)
    print(f"{len(cases) + len(CASES) - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()) > 0)
