"""Objects of stores: read twice at most, in ranges of what is used; failing reads are repeated, then named."""

import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cmfast import cli
from cmfast._files import stores
from cmfast.cli import _counting
from cmfast.cli.commands._gcm import _parts

fsspec = pytest.importorskip("fsspec")
pa = pytest.importorskip("pyarrow")
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402
from pyarrow import csv, feather, parquet  # noqa: E402

pytestmark = pytest.mark.exhaustive

RNG = np.random.default_rng(23)
N = 3000
Y = RNG.integers(0, 4, N)
P = np.where(RNG.random(N) < 0.7, Y, RNG.integers(0, 4, N))
X = RNG.normal(size=(N, 3)) + Y[:, None]
POINTS = ("--labels", "y", "--pred", "p", "--features", "x0", "x1", "x2", "--json")


class Counted(MemoryFileSystem):
    """A store in memory that records which bytes are read of it, and fails as it is told."""

    protocol = "counted"
    store, pseudo_dirs = {}, [""]
    reads = []  # noqa: RUF012
    faults = []  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("counted://", "memory://"))

    def cat_file(self, path, start=None, end=None, **kwargs):
        """Return a range, unless the next fault is to be shown."""
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, Exception):
                raise fault
            if callable(fault):
                fault()
        data = super().cat_file(path, start=start, end=end, **kwargs)
        self.reads.append((path, len(data)))
        return data

    def get_file(self, *args, **kwargs):
        """Refuse to copy a whole object without a time limit."""
        pytest.fail("an object was copied past the counter")


@pytest.fixture
def store(tmp_path, monkeypatch):
    fsspec.register_implementation("counted", Counted, clobber=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stores, "FIRST_WAIT", 0.001)
    Counted.store.clear()
    Counted.reads.clear()
    Counted.faults.clear()
    Counted.pseudo_dirs[:] = [""]
    return fsspec.filesystem("counted")


@pytest.fixture
def run(capsys):
    def command(*argv):
        status = cli.main([*argv])
        out, err = capsys.readouterr()
        return status, out, err

    return command


def table(rows=slice(None), extra=0):
    columns = {f"x{k}": X[rows, k] for k in range(3)} | {"y": Y[rows], "p": P[rows]}
    unused = RNG.normal(size=(len(Y[rows]), extra))
    return pa.table(columns | {f"unused{k}": unused[:, k] for k in range(extra)})


def put_tables(store, number=20):
    """Write the table to one file, and in parts to the store."""
    parquet.write_table(table(), "one.parquet")
    for k in range(number):
        parquet.write_table(table(slice(N * k // number, N * (k + 1) // number)), "part.parquet")
        store.pipe(f"/bucket/points/{k}.parquet", Path("part.parquet").read_bytes())
    return "one.parquet", "counted://bucket/points"


def count_reads():
    """Return the most reads of an object, and how many times its size was read at most."""
    names = {name for name, _ in Counted.reads}
    sizes = {name: len(Counted.store[name].getbuffer()) for name in names}
    times = [sum(one == name for one, _ in Counted.reads) for name in names]
    volumes = [sum(n for one, n in Counted.reads if one == name) / sizes[name] for name in names]
    return max(times), max(volumes)


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ((), 2),
        (("--components", "none"), 1),
        (("--grid", "freedman-diaconis"), 2),
        (("--components", "none", "--grid", "freedman-diaconis"), 2),
    ],
    ids=["axes", "points", "quartiles", "quartiles of points"],
)
def test_points_of_a_store_are_read_twice_at_most(store, run, options, most):
    one, parts = put_tables(store)
    want = run("gcm", one, *POINTS, *options)
    assert want[0] == 0
    assert run("gcm", parts, *POINTS, *options) == want
    assert len(Counted.reads) == 20 * most
    assert count_reads() == (most, most)


@pytest.mark.parametrize(
    ("suffix", "command", "most"),
    [
        ("csv", ("confusion", "--true", "y", "--pred", "p", "--json"), 1),
        ("arrow", ("confusion", "--true", "y", "--pred", "p", "--json"), 1),
        ("arrow", ("gcm", *POINTS), 2),
    ],
)
def test_other_tables_are_read_as_often(store, run, suffix, command, most):
    write = {"csv": csv.write_csv, "arrow": partial(feather.write_feather, compression="uncompressed")}[suffix]
    write(table(), f"one.{suffix}")
    for k in range(3):
        write(table(slice(N * k // 3, N * (k + 1) // 3)), f"part.{suffix}")
        store.pipe(f"/bucket/parts/{k}.{suffix}", Path(f"part.{suffix}").read_bytes())
    name, *options = command
    assert run(name, "counted://bucket/parts", *options) == run(name, f"one.{suffix}", *options)
    assert count_reads() == (most, most)


def test_points_are_read_again_where_they_do_not_fit_on_disk(store, run, monkeypatch):
    one, parts = put_tables(store, 3)
    monkeypatch.setattr(_parts, "hold_arrays", lambda arrays: None)
    assert run("gcm", parts, *POINTS) == run("gcm", one, *POINTS)
    assert count_reads()[0] > 2


def test_a_run_that_goes_on_reads_only_what_is_missing(store, run):
    _, parts = put_tables(store, 3)
    options = (*POINTS, "--quiet", "--state", "kept")
    want = run("gcm", parts, *options)
    Counted.reads.clear()
    assert run("gcm", parts, *options) == want
    assert not Counted.reads
    next(Path("kept").glob("cells-*")).unlink()
    assert run("gcm", parts, *options) == want
    assert len(Counted.reads) == 1


def test_only_columns_that_are_used_are_read(store, run, monkeypatch):
    monkeypatch.setattr(stores, "SMALL_BYTES", 0)
    parquet.write_table(table(extra=40), "wide.parquet", row_group_size=N // 2)
    store.pipe("/bucket/wide.parquet", Path("wide.parquet").read_bytes())
    want = run("confusion", "wide.parquet", "--true", "y", "--pred", "p", "--json")
    Counted.reads.clear()
    assert run("confusion", "counted://bucket/wide.parquet", "--true", "y", "--pred", "p", "--json") == want
    times, volume = count_reads()
    assert times <= 5  # twice the end, and once each of two groups of rows
    assert volume < 0.2


def count_chunks():
    """Return how many times each chunk of zarr arrays was read."""
    chunks = [name for name, _ in Counted.reads if "/c/" in name]
    return [chunks.count(name) for name in set(chunks)]


def put_arrays(store, kind):
    for name, array in (("X", X), ("y", Y), ("p", P)):
        if kind == "zarr":
            zarr = pytest.importorskip("zarr")
            zarr.create_array(f"{name}.zarr", data=array, chunks=(250, *array.shape[1:]))
        else:
            np.save(f"{name}.npy", np.asfortranarray(array) if kind == "fortran" else array)
        suffix = "zarr" if kind == "zarr" else "npy"
        store.put(f"{name}.{suffix}", f"/arrays/{name}.{suffix}", recursive=suffix == "zarr")
    return suffix


@pytest.mark.parametrize("kind", ["npy", "fortran", "zarr"])
def test_arrays_of_a_store_are_read_by_rows(store, run, monkeypatch, kind):
    monkeypatch.setattr(_counting, "MOST_TASK_LABELS", 700)
    monkeypatch.setattr(_parts, "MOST_TASK_BYTES", 700 * 24)
    monkeypatch.setattr(stores, "SMALL_BYTES", 0)
    suffix = put_arrays(store, kind)
    labels, remote = (("--labels", f"{at}y.{suffix}", "--pred", f"{at}p.{suffix}") for at in ("", "counted://arrays/"))
    want = run("confusion", *labels, "--json")
    assert run("confusion", *remote, "--json", "--state", "labels") == want
    assert len(list(Path("labels").iterdir())) == (6 if kind == "zarr" else 5)
    if kind == "zarr":
        assert max(count_chunks()) == 1
    else:
        assert count_reads()[1] < 3  # with the header for every part, which is a large share of a short file
    for options in ((), ("--components", "none")):
        Counted.reads.clear()
        want = run("gcm", f"X.{suffix}", *labels, *options, "--json")
        assert want[0] == 0
        assert run("gcm", f"counted://arrays/X.{suffix}", *remote, *options, "--json") == want
        assert kind != "zarr" or max(count_chunks()) == (1 if options else 2)


def test_matrices_of_a_store_are_read_by_rows(store, run):
    M = RNG.integers(1, 30, (300, 3, 3)).astype(np.float32)
    np.save("M.npy", M)
    store.put("M.npy", "/bucket/M.npy")
    options = ("--block-mb", "0.01", "--force")
    assert run("normalize", "M.npy", "-o", "want.npy", *options)[0] == 0
    assert run("normalize", "counted://bucket/M.npy", "-o", "out.npy", "--state", "kept", *options)[0] == 0
    assert Path("out.npy").read_bytes() == Path("want.npy").read_bytes()
    assert len(list(Path("kept").iterdir())) > 2


def test_reads_that_fail_are_repeated(store, run):
    one, parts = put_tables(store, 2)
    Counted.faults += [OSError("reset by peer"), TimeoutError(), RuntimeError("503 Slow Down"), None, ConnectionError()]
    assert run("gcm", parts, *POINTS) == run("gcm", one, *POINTS)
    assert not Counted.faults


def test_a_read_that_comes_short_is_repeated(store, run, monkeypatch):
    one, parts = put_tables(store, 1)
    read = MemoryFileSystem.cat_file
    lost = [1, 1, 0]

    def come_short(self, path, start=None, end=None, **kwargs):
        data = read(self, path, start=start, end=end, **kwargs)
        return data[:-1] if lost and lost.pop(0) else data

    monkeypatch.setattr(MemoryFileSystem, "cat_file", come_short)
    assert run("gcm", parts, *POINTS) == run("gcm", one, *POINTS)
    assert not lost


def test_a_read_that_stalls_is_repeated(store, run, monkeypatch):
    one, parts = put_tables(store, 1)
    want = run("gcm", one, *POINTS)
    monkeypatch.setattr(stores, "PATIENCE", 0.5)
    Counted.faults.append(lambda: time.sleep(2))
    assert run("gcm", parts, *POINTS) == want
    Counted.faults += [lambda: time.sleep(2)] * stores.ATTEMPTS
    status, _, err = run("gcm", parts, *POINTS)
    assert status == 2
    said = "reading from byte 0 failed 4 times, at last with: no answer within 1 s"
    assert err == f"cmfast: counted:///bucket/points/0.parquet: {said}\n"


def test_a_read_that_fails_again_and_again_is_named(store, run):
    _, parts = put_tables(store, 2)
    Counted.faults += [OSError("reset by peer")] * stores.ATTEMPTS
    status, out, err = run("gcm", parts, *POINTS)
    assert (status, out) == (2, "")
    said = "reading from byte 0 failed 4 times, at last with: reset by peer"
    assert err == f"cmfast: counted:///bucket/points/0.parquet: {said}\n"
    Counted.faults += [PermissionError(13, "Permission denied")]
    status, _, err = run("gcm", parts, *POINTS)
    assert (status, err) == (2, "cmfast: counted:///bucket/points/0.parquet: permission denied\n")
    assert not Counted.faults


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"no array", "is no npy file"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "damaged npy file (EOF: reading array header"),
        (b"\x93NUMPY\x01\x00\x04\x00{1: ", "damaged npy file"),
    ],
)
def test_damaged_arrays_are_named(store, run, data, what):
    store.pipe("/arrays/y.npy", data)
    status, _, err = run("confusion", "--labels", "counted://arrays/y.npy", "--pred", "counted://arrays/y.npy")
    assert (status, err.startswith(f"cmfast: counted:///arrays/y.npy: {what}")) == (2, True), err
    np.save("cut.npy", Y)
    store.pipe("/arrays/y.npy", Path("cut.npy").read_bytes()[:-8])
    _, _, err = run("confusion", "--labels", "counted://arrays/y.npy", "--pred", "counted://arrays/y.npy")
    assert "the file is shorter than its header says" in err
    np.save("objects.npy", np.array([{}], object))
    store.pipe("/arrays/y.npy", Path("objects.npy").read_bytes())
    _, _, err = run("confusion", "--labels", "counted://arrays/y.npy", "--pred", "counted://arrays/y.npy")
    assert "holds Python objects" in err


def test_a_missing_bucket_is_named(store, run, monkeypatch):
    put_tables(store, 1)
    monkeypatch.setattr(stores, "BUCKETS", ("counted",))
    status, _, err = run("gcm", "counted://nothing/points", *POINTS)
    assert status == 2
    assert err == "cmfast: counted://nothing/points: there is no bucket 'nothing', or it cannot be seen from here\n"
