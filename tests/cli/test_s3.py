"""An S3 server of this machine (moto): points are read twice at most, whoever computes, and missing names are named."""

import io
import logging
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cmfast import cli

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

RNG = np.random.default_rng(29)
N, OBJECTS = 2000, 20
Y = RNG.integers(0, 4, N)
P = np.where(RNG.random(N) < 0.7, Y, RNG.integers(0, 4, N))
X = RNG.normal(size=(N, 3)) + Y[:, None]
POINTS = ("--labels", "y", "--pred", "p", "--features", "x0", "x1", "x2", "--json")


@pytest.fixture(scope="module")
def requests():
    """Start the server, and return the list of requests that it logs."""
    if find_spec("moto") is None and not os.environ.get("CMFAST_REQUIRE_ENGINES"):
        pytest.skip("no moto here (.ci/run engines installs it)")
    from moto.server import ThreadedMotoServer

    logged = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())
    log = logging.getLogger("werkzeug")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    with pytest.MonkeyPatch.context() as patch:
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        server.start()
        host, port = server.get_host_and_port()
        for name, value in (("ACCESS_KEY_ID", "x"), ("SECRET_ACCESS_KEY", "x"), ("DEFAULT_REGION", "us-east-1")):
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        yield logged
        server.stop()
    log.removeHandler(handler)


@pytest.fixture(scope="module")
def bucket(requests):
    """Return a bucket that has the points in twenty objects, and as arrays of zarr."""
    import fsspec
    import pyarrow as pa
    import zarr
    from pyarrow import parquet

    store = fsspec.filesystem("s3")
    store.mkdir("bucket")
    table = pa.table({f"x{k}": X[:, k] for k in range(3)} | {"y": Y, "p": P})
    step = N // OBJECTS
    for k in range(OBJECTS):
        file = io.BytesIO()
        parquet.write_table(table.slice(k * step, step), file)
        store.pipe(f"bucket/points/{k}.parquet", file.getvalue())
    for name, array in (("X", X), ("y", Y), ("p", P)):
        zarr.create_array(f"s3://bucket/{name}.zarr", data=array, chunks=(500, *array.shape[1:]))
    store.invalidate_cache()
    return "s3://bucket"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def command(*argv):
        status = cli.main([*argv])
        out, err = capsys.readouterr()
        return status, out, err

    return command


def count(requests, *parts):
    return sum("GET /bucket/" in line and any(part in line for part in parts) for line in requests)


@pytest.mark.parametrize("scheduler", [(), ("--scheduler", "local:2")], ids=["here", "workers"])
@pytest.mark.parametrize(("options", "most"), [((), 2), (("--components", "none"), 1)], ids=["axes", "points"])
def test_objects_are_read_twice_at_most(requests, bucket, run, scheduler, options, most):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({f"x{k}": X[:, k] for k in range(3)} | {"y": Y, "p": P}), "one.parquet")
    want = run("gcm", "one.parquet", *POINTS, *options)
    assert want[0] == 0
    requests.clear()
    assert run("gcm", f"{bucket}/points", *POINTS, *options, *scheduler) == want
    assert count(requests, ".parquet") == most * OBJECTS


def test_chunks_of_arrays_are_read_twice_at_most(requests, bucket, run):
    for name, array in (("X", X), ("y", Y), ("p", P)):
        np.save(f"{name}.npy", array)
    want = run("gcm", "X.npy", "--labels", "y.npy", "--pred", "p.npy", "--json")
    requests.clear()
    labels = ("--labels", f"{bucket}/y.zarr", "--pred", f"{bucket}/p.zarr")
    assert run("gcm", f"{bucket}/X.zarr", *labels, "--json") == want
    assert count(requests, "X.zarr/c/") == 2 * (N // 500)
    assert count(requests, "y.zarr/c/", "p.zarr/c/") <= 4 * (N // 500)


def test_names_that_are_missing_are_named(bucket, run):
    status, _, err = run("gcm", "s3://nothing/points", *POINTS)
    assert (status, err.startswith("cmfast: s3://nothing/points: there is no bucket 'nothing'")) == (2, True)
    assert run("gcm", f"{bucket}/none", *POINTS)[2] == f"cmfast: {bucket}/none: stands for no files\n"
    assert not list(Path().iterdir())
