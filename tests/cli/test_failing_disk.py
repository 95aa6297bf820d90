"""Every write of every command made to fail once: a line that names the file, whole outputs or the earlier ones."""

import io
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import failing_disk
import numpy as np
import pytest
from failing_disk import Job

import cmfast
from cmfast import cli
from cmfast._files import partial_files

TARGETS = "t,p,target\na,,60\nb,,40\nc,,50\n,a,50\n,b,50\n,c,50\n"
TABLE = ["t.csv", "--true", "t", "--pred", "p"]
FEW = ["--resamples", "40"]
COMMANDS = {  # outputs are what follows -o and --status
    "confusion to npy": ["confusion", *TABLE, "-o", "out.npy"],
    "confusion to npz": ["confusion", *TABLE, "-o", "out.npz"],
    "confusion to csv": ["confusion", *TABLE, "-o", "out.csv"],
    "confusion to json": ["confusion", *TABLE, "-o", "out.json"],
    "confusion in parts": ["confusion", "parts", *TABLE[1:], "-o", "out.json"],
    "confusion in parts that are kept": ["confusion", "parts", *TABLE[1:], "-o", "out.json", "--state", "kept"],
    "normalize": ["normalize", "M.npy", "-o", "out.npy"],
    "normalize of a table": ["normalize", "M.csv", "-o", "out.npy"],
    "normalize in blocks": ["normalize", "M.npy", "-o", "out.npy", "--block-mb", "0.001"],
    "normalize with codes": ["normalize", "M.npy", "-o", "out.npy", "--status", "codes.npy"],
    "resample": ["resample", "M.npy", "-o", "out.npy", *FEW],
    "metrics to csv": ["metrics", "M.npy", "-o", "out.csv"],
    "metrics to Parquet": ["metrics", "M.npy", "-o", "out.parquet", "--block-mb", "0.001", "--only", "accuracy"],
    "metrics of groups to csv": ["metrics", *TABLE, "--by", "g", "-o", "out.csv"],
    "metrics of groups to Parquet": ["metrics", *TABLE, "--by", "g", "-o", "out.parquet"],
    "metrics of groups to JSON": ["metrics", *TABLE, "--by", "g", "-o", "out.json"],
    "metrics of more groups than memory holds": ["metrics", *TABLE, "--by", "k", "-o", "out.csv", "--group-mb", ".01"],
    "ipf": ["ipf", "M.npy", "--margin", "0,1:rows.npy", "--margin", "2:depth.npy", "-o", "out.npy"],
    "rake to csv": ["rake", "t.csv", "--targets", "targets.csv", "-o", "out.csv"],
    "rake to Parquet": ["rake", "t.csv", "--targets", "targets.csv", "-o", "out.parquet"],
    "rake to JSON": ["rake", "t.csv", "--targets", "targets.csv", "-o", "out.json"],
    "balance to csv": ["balance", "map.npz", "-o", "out.csv"],
    "balance to Parquet": ["balance", "map.npz", "-o", "out.parquet"],
    "balance to JSON": ["balance", "map.npz", "-o", "out.json"],
    "merge to json": ["merge", "a.json", "b.json", "-o", "out.json"],
    "merge to npz": ["merge", "a.json", "b.json", "-o", "out.npz"],
    "gcm to npz": ["gcm", "X.npy", "--labels", "y.npy", "--pred", "q.npy", "-o", "out.npz"],
    "gcm to json": ["gcm", "X.npy", "--labels", "y.npy", "--pred", "q.npy", "-o", "out.json"],
    "conformal to npz": ["conformal", "P.npy", "--labels", "y.npy", "--calibration", "P.npy", "-o", "out.npz"],
    "conformal to json": ["conformal", "P.npy", "--labels", "y.npy", "--calibration", "P.npy", "-o", "out.json"],
    "report": ["report", *TABLE, "-o", "out.html", *FEW],
}
SHORT = ("confusion to npy", "normalize with codes", "merge to npz")
KEPT = ("out.json.parts", "kept")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make the inputs in a folder that is the current one, beside one for temporary files."""
    for name in ("work", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    rng = np.random.default_rng(0)
    t, p = rng.integers(0, 3, (2, 150))
    t[:], p[:] = np.sort(np.repeat([0, 1, 2], 50)), np.where(rng.random(150) < 0.7, np.repeat([0, 1, 2], 50), p)
    rows = [f"{'abc'[i]},{'abc'[j]},{'xy'[k % 2]},{k}\n" for k, (i, j) in enumerate(zip(t, p, strict=True))]
    Path("t.csv").write_text("t,p,g,k\n" + "".join(rows))
    Path("parts").mkdir()
    for k in range(3):
        Path("parts", f"{k}.csv").write_text("t,p,g,k\n" + "".join(rows[k::3]))
    Path("targets.csv").write_text(TARGETS)
    M = rng.integers(1, 50, (40, 3, 3))
    np.save("M.npy", M)
    np.savetxt("M.csv", M.reshape(-1, 9), "%d", delimiter=",")
    np.save("rows.npy", M.sum(2) * 2)
    np.save("depth.npy", M.sum((0, 1)) * 2)
    np.save("X.npy", rng.normal(size=(150, 2)))
    np.save("y.npy", t)
    np.save("q.npy", p)
    np.save("P.npy", rng.dirichlet(np.ones(3), 150))
    from scipy import sparse

    counts = rng.integers(1, 99, (40, 40))
    sparse.save_npz("map.npz", sparse.csr_array(np.triu(counts)))
    for k, name in enumerate("ab"):
        cmfast.ConfusionCounts.from_labels(t[k::2], p[k::2]).save(f"{name}.json")
    return tmp_path


def called(argv):
    """Call the command; return what it complains about, None if it did not."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = cli.main(argv)
    if status == 0:
        return None
    lines = err.getvalue().removesuffix("\n").split("\n")
    complaint = "\n".join(line for line in lines if not line.startswith("cmfast: warning: "))
    return complaint if status == 2 and not out.getvalue() else f"status {status}, {complaint!r}\n{out.getvalue()}"


def job(argv):
    """Return a command as a job, with what is replaced in place of its outputs."""
    outputs = {argv[k + 1]: b"earlier" for k, word in enumerate(argv) if word in ("-o", "--status")}
    return Job(lambda: called([*argv, "--force", "--quiet"]), outputs, KEPT)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SHORT else pytest.mark.exhaustive) for name in COMMANDS]
)
def test_every_write_fails_once(folder, name):
    number, wrong = failing_disk.faults(job(COMMANDS[name]), folder)
    assert not wrong, "\n".join(wrong)
    assert number >= 14, "open, write, fsync and replace, where nothing was and where something was, once and for good"


@pytest.mark.parametrize("name", COMMANDS)
def test_outputs_that_appear_in_the_meantime_stay(name, folder, monkeypatch):
    argv = COMMANDS[name]
    outputs = [argv[k + 1] for k, word in enumerate(argv) if word in ("-o", "--status")]
    given, create = failing_disk.contents(folder), partial_files.create_part

    def created(target):
        if target.name in outputs:
            target.write_bytes(b"theirs")
        return create(target)

    monkeypatch.setattr(partial_files, "create_part", created)
    said = called([*argv, "--quiet"])
    assert said is not None
    assert "has appeared in the meantime, give --force to replace it" in said
    there = {path: content for path, content in failing_disk.contents(folder).items() if path not in given}
    there = {path: content for path, content in there.items() if not any(word in str(path) for word in KEPT)}
    assert set(there.values()) == {b"theirs"}
    assert len(there) == len(outputs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("earlier", [False, True])
def test_the_map_with_weights_is_written_whole_or_not_at_all(earlier, folder):
    """HDF5 writes by itself, so the kernel refuses: files of all sizes up to that of the output, and each operation."""
    h5py = pytest.importorskip("h5py")
    _write_cool(h5py)
    argv = ["balance", "map.cool", "-o", "map.cool" if earlier else "out.cool"]
    given = failing_disk.contents(folder)
    before = Path("map.cool").read_bytes()
    work = Job(lambda: called([*argv, "--force", "--quiet"]), {argv[-1]: before})
    number, wrong = failing_disk.faults(work, folder)
    assert not wrong, "\n".join(wrong)
    assert number >= 14
    assert work.run() is None
    size = Path(argv[-1]).stat().st_size
    assert len(before) < size < len(before) + 20_000, "HDF5 has written behind what was copied, and cut off the rest"
    Path(argv[-1]).unlink()
    for limit in [0, 1000, *range(len(before), size, 61)]:
        Path("map.cool").write_bytes(before)
        with failing_disk.files_up_to(limit):
            said = work.run()
        assert said is not None, limit
        assert argv[-1] in said, said
        assert "\n" not in said
        assert failing_disk.contents(folder) == given
    assert work.run() is None


def _write_cool(h5py):
    """Write a map of one chromosome as cooler does."""
    n = 40
    i, j = np.triu_indices(n)
    with h5py.File("map.cool", "w") as file:
        file.attrs.update({"format": "HDF5::Cooler", "storage-mode": "symmetric-upper", "nbins": n, "nnz": len(i)})
        file["chroms/name"], file["chroms/length"] = np.array([b"chr1"]), np.array([n * 1000], np.int32)
        file["bins/chrom"] = np.zeros(n, np.int32)
        file["bins/start"] = 1000 * np.arange(n, dtype=np.int32)
        file["bins/end"] = 1000 * np.arange(1, n + 1, dtype=np.int32)
        counts = np.random.default_rng(0).integers(1, 99, len(i)).astype(np.int32)
        file["pixels/bin1_id"], file["pixels/bin2_id"], file["pixels/count"] = i, j, counts
        file["indexes/chrom_offset"] = np.array([0, n])
        file["indexes/bin1_offset"] = np.searchsorted(i, np.arange(n + 1))


@pytest.mark.pictures
def test_the_demo_is_written_whole_or_not_at_all(folder, monkeypatch):
    pytest.importorskip("sklearn")
    from cmfast._reproduce.demo import experiment, page, report

    matrices = {"one": np.eye(3)}
    made = experiment.Results({"seed": 0}, matrices, {})
    monkeypatch.setattr(experiment, "run", lambda *_: made)
    reproduction = page.Demo("demo", "", "", "", (), (), {}, numbers={"seed": 0}, arrays=matrices)
    monkeypatch.setattr(page, "compose", lambda *_: reproduction)
    monkeypatch.setattr(report, "table", lambda *_: "a table")
    work = Job(lambda: called(["demo", "--out", "made"]), dict.fromkeys(report.FILES, b"earlier"), folders=("made",))
    number, wrong = failing_disk.faults(work, folder)
    assert not wrong, "\n".join(wrong)
    assert number >= 40


@pytest.mark.papers
def test_a_reproduction_is_written_whole_or_not_at_all(folder, monkeypatch):
    from cmfast import _reproduce
    from cmfast._reproduce import glossary

    made = glossary.reproduce(quick=True, progress=lambda label, unit: lambda done, total: None, n=500)
    monkeypatch.setattr(glossary, "reproduce", lambda **_: made)
    monkeypatch.setattr(_reproduce, "list_missing", lambda name: [])
    assert called(["reproduce", "glossary", "--quick", "-o", "made"]) is None
    files = {path.name: path.read_bytes() for path in Path("made").iterdir()}
    for path in Path("made").iterdir():
        path.unlink()
    Path("made").rmdir()
    work = Job(
        lambda: called(["reproduce", "glossary", "--quick", "-o", "made"]),
        {name: content if name == "results.json" else b"earlier" for name, content in files.items()},
        folders=("made",),
    )
    number, wrong = failing_disk.faults(work, folder)
    assert not wrong, "\n".join(wrong)
    assert number >= 16 * len(files)
