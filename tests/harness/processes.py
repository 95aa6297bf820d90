"""Run code in a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(*args: str, cwd: Path, path: Path | None = ROOT, limit: float = 300, **environment: str) -> str:
    """Return what ``python args`` prints, with `path` as the only PYTHONPATH; fail if it does."""
    env = {**os.environ, **environment}
    env.pop("PYTHONPATH", None)
    if path is not None:
        env["PYTHONPATH"] = str(path)
    command = [sys.executable, *args]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
