"""What is shipped: the whole package, nothing else, and it works where nothing can be written."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from processes import ROOT, python

pytestmark = pytest.mark.processes

SAMPLE = "import numpy as np, cmfast; print(cmfast.__file__, int(cmfast.normalize(np.eye(2), 'row').sum()))"


def sources():
    """Return the files that a wheel must have, as they are named in it."""
    files = {
        f"cmfast/{path.relative_to(ROOT / 'cmfast')}"
        for path in (ROOT / "cmfast").rglob("*")
        if path.is_file() and "kernels" not in path.relative_to(ROOT / "cmfast").parts
    }
    files |= {f"cmfast/kernels/{path.relative_to(ROOT / 'kernels')}" for path in (ROOT / "kernels").rglob("*.*")}
    return {name for name in files if "__pycache__" not in name}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build an sdist, and from that alone a wheel; return both."""
    pytest.importorskip("build")
    pytest.importorskip("setuptools", minversion="77")
    out = tmp_path_factory.mktemp("dist")
    copy = tmp_path_factory.mktemp("source") / "cmfast"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says which files belong to it")
    for name in listed.stdout.splitlines():
        source, target = ROOT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.exists():
            target.write_bytes(source.read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def unpacked(built, tmp_path_factory):
    """Return a folder with the wheel's files."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(built[1]) as wheel:
        wheel.extractall(folder)
    return folder


def test_wheel_has_every_source_and_nothing_else(built):
    with zipfile.ZipFile(built[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == sources()


def test_wheel_is_pure_and_has_the_licence(built):
    assert built[1].name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(built[1]) as wheel:
        names = [name.partition(".dist-info/")[2] for name in wheel.namelist()]
        assert "licenses/LICENSE" in names
        entry = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
        assert b"cmfast = cmfast.cli:main" in wheel.read(entry)


def test_sdist_has_the_sources(built):
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "setup.cfg", "LICENSE", "README.md"} <= names
    missing = {name.replace("cmfast/kernels/", "kernels/") for name in sources()} - names
    assert not missing


def test_installed_from_the_wheel(unpacked, tmp_path):
    path, total = python("-c", SAMPLE, cwd=tmp_path, path=unpacked).split()
    assert Path(path).is_relative_to(unpacked)
    assert total == "2"


def test_read_only_installation_without_a_place_for_the_cache(unpacked, tmp_path):
    """Root may write anywhere, so files stand where folders would have to be made."""
    nowhere = tmp_path / "file"
    nowhere.touch()
    names = ("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME")
    out = python("-B", "-c", SAMPLE, cwd=tmp_path, path=unpacked, **{name: str(nowhere) for name in names})
    assert out.split()[1] == "2"


def test_using_it_leaves_nothing_beside_the_sources(unpacked, tmp_path, monkeypatch):
    """What is written there survives an uninstallation, and is in the way of the next installation."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    before = set(unpacked.rglob("*"))
    python("-B", "-c", SAMPLE, cwd=tmp_path, path=unpacked, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert set(unpacked.rglob("*")) == before
    assert list((tmp_path / "cache").rglob("*.nbc"))


def test_not_installed_at_all(tmp_path):
    path, total = python("-c", SAMPLE, cwd=tmp_path, path=ROOT).split()
    assert Path(path).is_relative_to(ROOT)
    assert total == "2"


def test_the_version_is_in_one_place(built):
    import cmfast

    assert built[1].name.startswith(f"cmfast-{cmfast.__version__}-")


def test_a_checkout_without_symbolic_links_works(tmp_path):
    """Git writes a link as a file with its target where the system or ``core.symlinks`` has none."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "cmfast", tmp_path / "cmfast", symlinks=True, ignore=ignored)
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=ignored)
    link = tmp_path / "cmfast" / "kernels"
    link.unlink()
    link.write_text("../kernels")
    program = (
        "import cmfast, cmfast.kernels; print(cmfast.kernels.__path__[0], cmfast.normalize([[3, 1], [1, 3]], 'row'))"
    )
    said = python("-c", program, cwd=tmp_path, path=tmp_path)
    assert said.startswith(str(tmp_path / "kernels"))
    assert "0.75" in said
