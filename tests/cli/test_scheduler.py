"""The command in parts, here and on a cluster of two processes: the bytes of one file, whatever was ended before."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from processes import ROOT

import cmfast
from cmfast import cli
from cmfast.cli import _calls, _cluster, _counting
from cmfast.cli.commands._gcm import _parts

distributed = pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

pytestmark = pytest.mark.cluster

RNG = np.random.default_rng(19)
N = 2400
Y = RNG.integers(0, 4, N)
P = np.where(RNG.random(N) < 0.7, Y, RNG.integers(0, 4, N))
SITE = RNG.choice(["a", "b", "c"], N)
X = RNG.normal(size=(N, 3)) + Y[:, None]
X[7, 1] = np.nan
CUTS = [(0, 900), (900, 901), (901, 901), (901, 2400)]  # of which one holds nothing
COLUMNS = ("--true", "y", "--pred", "p", "--by", "s")
POINTS = ("--labels", "y", "--pred", "p", "--features", "x0", "x1", "x2")


@pytest.fixture(scope="module")
def address():
    """Return where a scheduler of two workers listens, which are processes."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options, silence_logs="CRITICAL") as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def command(*argv):
        status = cli.main([*argv])
        out, err = capsys.readouterr()
        return status, out, err

    return command


def table(start=0, stop=N):
    names = ("x0", "x1", "x2", "y", "p", "s")
    return pa.table(dict(zip(names, [column[start:stop] for column in (*X.T, Y, P, SITE)], strict=True)))


def write(kind):
    """Write the samples to one file, and in parts to a folder; return their names."""
    from pyarrow import csv

    for name, cuts in (("one", [(0, N)]), ("parts", CUTS)):
        Path(name).mkdir()
        for k, cut in enumerate(cuts):
            path = f"{name}/part.{8 + k}.{kind}"
            if kind == "csv":
                csv.write_csv(table(*cut), path)
            else:
                parquet.write_table(table(*cut), path)
    Path("parts/_SUCCESS").touch()
    return f"one/part.8.{kind}", "parts"


def write_arrays(kind):
    for name, array in (("X", X), ("y", Y), ("p", P)):
        if kind == "npy":
            np.save(f"{name}.npy", array)
        else:
            import zarr

            zarr.create_array(f"{name}.zarr", data=array, chunks=(250, *array.shape[1:]))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_labels_in_parts_have_the_bytes_of_one_file(run, address, kind):
    one, parts = write(kind)
    for command, *options in (("confusion", "--json"), ("metrics", "--only", "mcc,f1")):
        want = run(command, one, *COLUMNS, *options)
        assert want[0] == 0
        assert run(command, parts, *COLUMNS, *options) == want
        assert run(command, f"{parts}/*.{kind}", *COLUMNS, *options, "--scheduler", address) == want
    assert json.loads(run("confusion", parts, *COLUMNS, "--json")[1])["labels"] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_arrays_are_cut_into_rows(run, address, monkeypatch, kind):
    monkeypatch.setattr(_counting, "MOST_TASK_LABELS", 700)
    monkeypatch.setattr(_parts, "MOST_TASK_BYTES", 700 * 24)
    write_arrays(kind)
    labels = ("--labels", f"y.{kind}", "--pred", f"p.{kind}")
    want = run("confusion", *labels, "--json")
    assert run("confusion", *labels, "--json", "--scheduler", address, "--state", "labels") == want
    assert len(list(Path("labels").iterdir())) == (4 if kind == "npy" else 5)
    gcm = ("gcm", f"X.{kind}", *labels, "--json")
    want = run(*gcm)
    assert "2,400" not in want[1]
    assert json.loads(want[1])["dropped"] == 1
    assert run(*gcm, "--scheduler", address) == want


@pytest.mark.parametrize(
    "options",
    [("--components", "2"), ("--components", "none", "--weights", "row"), ("--grid", "freedman-diaconis")],
    ids=lambda options: options[-1],
)
def test_points_in_parts_have_the_bytes_of_one_file(run, address, options):
    one, parts = write("parquet")
    want = run("gcm", one, *POINTS, *options, "--json")
    assert want[0] == 0
    assert run("gcm", parts, *POINTS, *options, "--json") == want
    assert run("gcm", parts, *POINTS, *options, "--json", "--scheduler", address) == want


@pytest.mark.parametrize(
    ("points", "pred", "options"),
    [
        (X, 0 * P, ("--weights", "bi")),  # of which no class but one is ever predicted
        (np.nan * X, P, ()),
        (np.where(RNG.random((N, 3)) < 0.9, 0, X), P, ("--components", "none", "--grid", "freedman-diaconis")),
        (0 * X, P, ("--components", "none", "--weights", "row")),
    ],
    ids=["weights", "points", "quartiles", "constant"],
)
def test_what_has_no_answer_has_none_in_parts(run, points, pred, options):
    np.save("X.npy", points)
    np.save("y.npy", Y)
    np.save("p.npy", pred)
    for name in "Xyp":
        Path(name).mkdir()
        for k, cut in enumerate(CUTS):
            np.save(f"{name}/{k}.npy", np.load(f"{name}.npy")[slice(*cut)])
    want = run("gcm", "X.npy", "--labels", "y.npy", "--pred", "p.npy", "--json", *options)
    assert want[2]
    assert run("gcm", "X", "--labels", "y", "--pred", "p", "--json", *options) == want


def test_how_far_the_parts_are_is_shown(run, monkeypatch):
    monkeypatch.setattr(_calls, "is_terminal", lambda: True)
    _, parts = write("parquet")
    assert run("confusion", parts, *COLUMNS)[2].startswith("confusion, labels: 100% (4 of 4 parts) ")
    assert run("confusion", parts, *COLUMNS, "--quiet")[2] == ""


@pytest.fixture
def matrices(tmp_path):
    """Return matrices, of which one cannot be normalised, in one file, in a folder, and as zarr."""
    import zarr

    M = RNG.integers(1, 30, (300, 3, 3)).astype(np.float32)
    M[17] = [[1, 0, 0], [1, 1, 0], [np.nan, 0, 1]]
    np.save(tmp_path / "one.npy", M)
    Path(tmp_path, "parts").mkdir()
    for k, cut in enumerate([(0, 40), (40, 40), (40, 41), (41, 300)]):
        np.save(tmp_path / f"parts/{8 + k}.npy", M[slice(*cut)])
    zarr.create_array(tmp_path / "one.zarr", data=M, chunks=(64, 3, 3))
    return ("parts", "one.zarr", "one.npy")


def test_matrices_in_parts_are_normalised_as_in_one_file(run, address, matrices):
    options = ("--block-mb", "0.01", "--json", "--smoothing", "0.5")
    status, out, err = run("normalize", "one.npy", "-o", "want.npy", "--status", "codes.npy", *options)
    assert (status, json.loads(out)["failed"]) == (1, 1)
    for given in matrices:
        where = ("--scheduler", address, "--state", f"{given}.state")
        found = run("normalize", given, "-o", "out.npy", "--status", "status.npy", "--force", *options, *where)
        assert (found[0], found[2]) == (1, err)
        facts, wanted = (json.loads(text) for text in (found[1], out))
        assert [name for name in facts if facts[name] != wanted[name]] in (
            ["input", "output", "seconds"],
            ["output", "seconds"],
        )
        assert Path("out.npy").read_bytes() == Path("want.npy").read_bytes()
        assert Path("status.npy").read_bytes() == Path("codes.npy").read_bytes()
        assert len(list(Path(f"{given}.state").iterdir())) > 2
    assert run("normalize", "parts", "-o", "out.npy", "--force", "--method", "row")[0] == 1
    np.save("parts/9.npy", np.ones((2, 4, 4), np.float32))
    status, _, err = run("normalize", "parts", "-o", "out.npy", "--force")
    assert (status, "9.npy: holds matrices of 4 x 4 float32, but" in err) == (2, True)


def test_matrices_in_parts_are_measured_as_in_one_file(run, address, matrices):
    where = ("--block-mb", "0.02", "--scheduler", address)
    for options in (("--only", "mcc", "f1"), (), ("--only", "mcc", "f1", "--interval")):
        want = run("metrics", "one.npy", "-o", "want.csv", "--force", *options)
        assert want[0] == 1
        for given in matrices:
            found = run("metrics", given, "-o", "out.csv", "--force", *options, *where)
            assert (found[0], found[2]) == (1, want[2])
            assert Path("out.csv").read_bytes() == Path("want.csv").read_bytes()
            if "--interval" not in options:
                assert run("metrics", given, *options, *where) == run("metrics", "one.npy", *options)
    status, _, err = run("metrics", "parts", "--interval")
    assert (status, "of matrices in parts there is a table by --output" in err) == (2, True)
    status, _, err = run("metrics", "parts", "--json")
    assert (status, "of matrices in parts there is a summary" in err) == (2, True)
    np.save("alone.npy", np.eye(3))
    assert run("metrics", "alone.npy", "--scheduler", address) == run("metrics", "alone.npy")


def test_what_is_wrong_in_a_part_is_named_with_its_place(run, address):
    write("csv")
    lines = Path("parts/part.11.csv").read_text().splitlines()
    lines[5] = ",".join([*lines[5].split(",")[:4], "nan", '"a"'])
    Path("parts/part.11.csv").write_text("\n".join(lines))
    for where in ((), ("--scheduler", address)):
        status, out, err = run("confusion", "parts", *COLUMNS, "-o", "out.npz", *where)
        assert (status, out) == (2, "")
        path = Path("parts/part.11.csv").absolute()
        what = "line 6 holds nan, which stands for a missing label; a class must have another name"
        assert err.splitlines()[-1] == f"cmfast: {path}: {what}"
        assert not Path("out.npz").exists()
    with distributed.Client(address, set_as_default=False) as client:
        assert_forgotten(client)
    np.save("X.npy", X)
    np.save("y.npy", np.where(np.arange(N) == 1234, -1, Y))
    np.save("p.npy", P)
    status, out, err = run("gcm", "X.npy", "--labels", "y.npy", "--pred", "p.npy", "--scheduler", address)
    assert (status, out) == (2, "")
    what = "y_true must be in 0..3, got 1 outside (first: -1 at 1234)"
    assert f"X.npy, rows from 0: geometric_confusion_matrix: {what}" in err


def assert_forgotten(client):
    """Assert that the scheduler soon has no tasks."""
    until = time.monotonic() + 30
    while held(client) and time.monotonic() < until:
        time.sleep(0.05)
    assert held(client) == 0


def held(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def test_files_of_other_kinds_are_refused_by_name(run):
    Path("parts").mkdir()
    Path("parts/a.csv").write_text("y_true,y_pred\n1,2\n2,2\n")
    Path("parts/b.csv").write_text("y_true,y_pred\nx,y\ny,y\n")
    status, _, err = run("confusion", "parts")
    assert status == 2
    assert "b.csv: ConfusionCounts: labels must be integers, as before, got strings" in err
    status, _, err = run("confusion", "none/*.csv")
    assert (status, err) == (2, "cmfast: none/*.csv: stands for no files\n")


def test_orders_that_files_declare_hold_for_all(run):
    Path("parts").mkdir()
    for k, labels in enumerate((["low", "high"], ["high", "mid"])):
        kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
        codes = pa.array([["low", "mid", "high", "never"].index(label) for label in labels], pa.int8())
        column = pa.DictionaryArray.from_arrays(codes, ["low", "mid", "high", "never"], ordered=True)
        parquet.write_table(pa.table({"y": column.cast(kind), "p": column.cast(kind)}), f"parts/{k}.parquet")
    found = json.loads(run("confusion", "parts", "--json")[1])
    assert found["labels"] == ["low", "mid", "high"]
    assert found["matrix"] == [[1, 0, 0], [0, 1, 0], [0, 0, 2]]


def test_truths_of_one_file_are_numbers_beside_those_of_another(run):
    Path("parts").mkdir()
    parquet.write_table(pa.table({"y": [True, False], "p": [True, True]}), "parts/0.parquet")
    parquet.write_table(pa.table({"y": [2, 0], "p": [2, 1]}), "parts/1.parquet")
    found = json.loads(run("confusion", "parts", "--json")[1])
    assert (found["labels"], found["matrix"]) == ([0, 1, 2], [[0, 2, 0], [0, 1, 0], [0, 0, 1]])


def test_what_was_counted_is_kept_where_it_is_asked_for_and_adds_up(run, address):
    one, parts = write("parquet")
    want = run("confusion", one, *COLUMNS, "--json")[1]
    assert run("confusion", parts, *COLUMNS, "--scheduler", address, "-o", "out.json")[0] == 0
    assert Path("out.json").read_text() == want
    assert not Path("out.json.parts").exists()
    options = ("--json", "--scheduler", address, "--state", "kept")
    assert run("confusion", parts, *COLUMNS, *options) == (0, want, "")
    kept = {path: path.stat().st_mtime_ns for path in Path("kept").iterdir()}
    assert len(kept) == len(CUTS)
    assert run("merge", *map(str, kept), "-o", "sum.json")[0] == 0
    total = cmfast.ConfusionCounts.load("sum.json")
    assert total.matrix.tolist() == [group["matrix"] for group in json.loads(want)["groups"]]
    status, out, err = run("confusion", parts, *COLUMNS, *options)
    assert (status, out, err) == (0, want, "cmfast: labels of 4 of 4 parts are there already\n")
    parquet.write_table(table(0, 899), "parts/part.8.parquet")  # another file than before
    status, out, err = run("confusion", parts, *COLUMNS, *options)
    assert sum(group["samples"] for group in json.loads(out)["groups"]) == N - 1
    assert err == "cmfast: labels of 3 of 4 parts are there already\n"
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert run("confusion", parts, "--true", "y", "--pred", "p", *options)[2] == ""  # another question


LONG = 12


def long_parts():
    Path("long").mkdir()
    for k in range(LONG):
        rows = np.stack([np.roll(Y, k), P], axis=1).repeat(8, axis=0)
        Path(f"long/{k}.csv").write_text("y,p\n" + "\n".join(f"{a},{b}" for a, b in rows.tolist()) + "\n")


def started(*argv):
    """Start the command on long parts, in a group of processes of its own; return it when something was counted."""
    long_parts()
    command = [sys.executable, "-m", "cmfast", "confusion", "long", "--true", "y", "--pred", "p", *argv]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 120
    while len(states()) < 2 and time.monotonic() < until and process.poll() is None:
        time.sleep(0.005)
    return process


def states():
    return {path: path.stat().st_mtime_ns for path in Path("out.json.parts").glob("*.npz")}


def test_a_run_goes_on_where_another_one_was_killed(run, address):
    with started("-o", "out.json", "--scheduler", "local:2") as process:
        process.kill()
        process.communicate()
    before = states()
    assert 2 <= len(before) < LONG
    assert not Path("out.json").exists()
    options = ("--true", "y", "--pred", "p", "-o", "out.json")
    kept = ("--state", "out.json.parts", "--scheduler", address)
    status, _, err = run("confusion", "long", *options, *kept)
    assert (status, err) == (0, f"cmfast: labels of {len(before)} of {LONG} parts are there already\n")
    after = states()
    assert {path: after[path] for path in before} == before
    assert len(after) == LONG
    found = Path("out.json").read_bytes()
    assert run("confusion", "long", *options, "--force")[:1] == (0,)
    assert Path("out.json").read_bytes() == found
    assert sum(map(sum, json.loads(found)["matrix"])) == 8 * N * LONG


def test_a_worker_that_dies_costs_its_tasks_alone(run, address):
    long_parts()
    options = ("--true", "y", "--pred", "p", "-o", "out.json", "--quiet")
    want = run("confusion", "long", *options)
    found = Path("out.json").read_bytes()

    with distributed.Client(address, set_as_default=False) as client:
        pids = list(client.run(os.getpid).values())
    done = []

    def kill():
        until = time.monotonic() + 120
        while len(states()) < 2 and time.monotonic() < until:
            time.sleep(0.001)
        os.kill(pids[0], signal.SIGKILL)
        done.append(len(states()))

    killer = threading.Thread(target=kill)
    killer.start()
    assert run("confusion", "long", *options, "--force", "--scheduler", address) == want
    killer.join()
    assert 2 <= done[0] < LONG
    assert not alive(pids[0], os.kill)
    assert Path("out.json").read_bytes() == found


def test_an_interrupted_run_leaves_no_output(run):
    with started("-o", "out.json", "--scheduler", "local:2") as process:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it, to workers as well
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (128 + signal.SIGINT, "")
    assert not Path("out.json").exists()
    assert not list(Path().glob(".cmfast*"))
    assert states()
    until = time.monotonic() + 30
    while alive(process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(process.pid)


def alive(number, kill=os.killpg):
    try:
        kill(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def threads():
    """Return where a scheduler of two threads listens, which share the memory of this process."""
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options, processes=False, protocol="tcp://", silence_logs="CRITICAL") as cluster:
        yield cluster.scheduler_address


def test_objects_of_stores(run, threads):
    fsspec = pytest.importorskip("fsspec")
    one, parts = write("parquet")
    want = run("gcm", one, *POINTS, "--json")
    store = fsspec.filesystem("memory")
    store.put(parts, "/bucket/points", recursive=True)
    try:
        assert run("gcm", "memory://bucket/points", *POINTS, "--json") == want
        where = ("--scheduler", threads, "--state", "kept")
        assert run("gcm", "memory://bucket/points/*.parquet", *POINTS, "--json", *where) == want
        assert len(list(Path("kept").glob("cells-*"))) == 3
        assert run("gcm", f"file://{Path(parts).absolute()}", *POINTS, "--json") == want
        store.pipe("/bucket/points/part.9.parquet", b"no table")
        status, _, err = run("gcm", "memory://bucket/points", *POINTS)
        assert status == 2
        assert err.startswith("cmfast: memory:///bucket/points/part.9.parquet: not readable (")
        assert run("gcm", "memory://bucket/none", *POINTS)[2] == "cmfast: memory://bucket/none: stands for no files\n"
    finally:
        store.rm("/bucket", recursive=True)
    write_arrays("zarr")
    labels = ("--labels", "y.zarr", "--pred", "p.zarr")
    want = run("confusion", *labels)
    store.put("y.zarr", "/arrays/y.zarr", recursive=True)
    try:
        for where in ((), ("--scheduler", threads)):
            assert run("confusion", "--labels", "memory://arrays/y.zarr", *labels[2:], *where) == want
    finally:
        store.rm("/arrays", recursive=True)


def test_what_has_to_be_installed_is_said(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    _, parts = write("parquet")
    status, _, err = run("confusion", parts, *COLUMNS, "--scheduler", "local")
    assert (status, 'distributed: pip install "cmfast[cluster]"' in err) == (2, True)
    status, _, err = run("confusion", "s3://bucket/parts", *COLUMNS)
    assert (status, 'fsspec: pip install "cmfast[cluster]"' in err) == (2, True)
    assert run("confusion", parts, *COLUMNS)[0] == 0


def test_what_nobody_can_reach(run, monkeypatch):
    pytest.importorskip("fsspec")
    status, _, err = run("confusion", "nowhere://bucket/parts", *COLUMNS)
    assert status == 2
    assert err.startswith("cmfast: nowhere://bucket/parts: cannot be reached (Protocol not known")
    monkeypatch.setattr(_cluster, "PATIENCE", "1s")
    _, parts = write("parquet")
    status, out, err = run("confusion", parts, *COLUMNS, "-o", "out.json", "--scheduler", "tcp://127.0.0.1:9")
    assert (status, out, err.startswith("cmfast: --scheduler tcp://127.0.0.1:9: ")) == (2, "", True)
    assert err.count("\n") == 1
    assert not Path("out.json").exists()
    status, _, err = run("confusion", parts, *COLUMNS, "--scheduler", "tls://127.0.0.1:9")
    said = "needs certificates, by distributed.comm.tls in the settings of Dask"
    assert (status, err) == (2, f"cmfast: --scheduler tls://127.0.0.1:9: {said}\n")


@pytest.fixture
def address_to_restart():
    """Return where a scheduler listens whose workers are restarted: other tests need theirs."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options, silence_logs="CRITICAL") as cluster:
        yield cluster.scheduler_address


def test_tasks_that_the_scheduler_loses_are_named(run, address, address_to_restart):
    """On a busy machine Dask does not always bring back both of the restarted workers, so nothing waits for them."""
    long_parts()
    options = ("--true", "y", "--pred", "p", "-o", "out.json", "--quiet")

    with distributed.Client(address_to_restart, set_as_default=False) as client:

        def lose():
            until = time.monotonic() + 120
            while len(states()) < 2 and time.monotonic() < until:
                time.sleep(0.001)
            client.restart(wait_for_workers=False)

        loser = threading.Thread(target=lose)
        loser.start()
        status, _, err = run("confusion", "long", *options, "--scheduler", address_to_restart)
        loser.join()
    assert status == 2
    assert err.endswith(
        "cmfast: --scheduler: the scheduler lost the tasks, perhaps it was started anew; run this again\n"
    )
    before = states()
    assert 2 <= len(before) < LONG
    assert run("confusion", "long", *options, "--state", "out.json.parts", "--scheduler", address)[::2] == (0, "")
    assert {path: states()[path] for path in before} == before


BARE = "import sys; sys.modules['cmfast'] = None; from distributed.cli.dask_worker import main; main()"


def workers_named(name, client):
    """Return the addresses of the workers of a name."""
    workers = client.run_on_scheduler(
        lambda dask_scheduler: [(each.address, each.name) for each in dask_scheduler.workers.values()]
    )
    return [address for address, given in workers if given == name]


def test_a_worker_without_cmfast_is_named(run, address):
    _, parts = write("parquet")
    options = ("--no-nanny", "--no-dashboard", "--nthreads", "1", "--name", "bare")
    with (
        distributed.Client(address, set_as_default=False) as client,
        subprocess.Popen([sys.executable, "-c", BARE, address, *options], stderr=subprocess.DEVNULL) as process,
    ):
        try:
            until = time.monotonic() + 120
            while not (bare := workers_named("bare", client)) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            assert len(bare) == 1
            status, out, err = run("confusion", parts, *COLUMNS, "--scheduler", address)
        finally:
            process.terminate()
            process.wait()
    assert (status, out) == (2, "")
    assert err == f"cmfast: --scheduler {address}: cmfast is not installed at {bare[0]}\n"


@pytest.mark.parametrize("given", ["local:0", "here", "10.0.0.1"])
def test_what_is_no_scheduler(run, given):
    status, _, err = run("confusion", "x.csv", "--scheduler", given)
    assert status == 2
    assert "--scheduler" in err
