"""What mypy and pyright say of a user's file: an error in every line that is marked, and in no other."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import ROOT

from cmfast.metrics import MetricName
from cmfast.metrics._catalogue import FORMS

FILE = Path(__file__).with_name("expected_errors.py")
MARKED = {n for n, line in enumerate(FILE.read_text().splitlines(), 1) if line.endswith("  # error")}
# What that file does not import, but cmfast and torch do: to analyse these sources takes mypy a quarter of its time.
UNNAMED = (
    *("dask", "distributed", "fsspec", "h5py", "jax", "jaxlib", "llvmlite"),
    *("matplotlib", "numba", "sklearn", "sympy", "torchmetrics", "zarr"),
)


def run(*command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_there_is_something_to_refuse():
    assert len(MARKED) > 15


def test_names_are_those_of_the_table():
    assert set(FORMS) <= set(MetricName.__args__)


@pytest.mark.exhaustive
def test_mypy_refuses_what_is_marked(tmp_path):
    for name in ("mypy", "xarray"):
        pytest.importorskip(name)
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        "[mypy]\nstrict = True\n[mypy-pandas.*,pyarrow.*,scipy.*]\nignore_missing_imports = True\n"
        f"[mypy-{','.join(f'{name}.*' for name in UNNAMED)}]\nfollow_imports = skip\n"
    )
    out = run("mypy", "--config-file", str(settings), "--cache-dir", str(tmp_path / "cache"), str(FILE))
    found = {int(line) for line in re.findall(rf"{FILE.name}:(\d+): error", out)}
    assert found == MARKED, out


@pytest.mark.exhaustive
def test_pyright_refuses_what_is_marked(tmp_path):
    for name in ("pyright", "xarray"):
        pytest.importorskip(name)
    shutil.copy(FILE, tmp_path)
    settings = tmp_path / "pyrightconfig.json"
    settings.write_text(json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}))
    out = run("pyright", "--pythonpath", sys.executable, "--outputjson", "--project", str(settings))
    said = [one for one in json.loads(out)["generalDiagnostics"] if one["severity"] == "error"]
    found = {one["range"]["start"]["line"] + 1 for one in said}
    assert found == MARKED, "\n".join(f"{one['range']['start']['line'] + 1}: {one['message']}" for one in said)
