"""Cells that no worker holds, as the system limits its memory: on a local cluster."""

import re
import resource
from pathlib import Path

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.cluster

MIB = 1 << 20
ROWS, CHUNKS, PARTS = 150_000, 40, 16
ROOM = 88 * MIB  # for a worker, beside what it has loaded; all cells together take 91
HELD = 10 * MIB  # of results, before they go to disk
GRID = cmfast.Grid([0.0] * 3, [1.0] * 3)
# Only results are looked at, by their size: what a worker has loaded is not weighed.
MEMORY = {"target": HELD / (200 * MIB), "spill": False, "pause": False, "terminate": False}


def points(block):
    """Return the coordinates of a chunk, label and prediction behind them: nearly every point is alone in its cell."""
    rng = np.random.default_rng(int(block[0]))
    X = rng.random((ROWS, 3)) * 500
    return np.column_stack([X, rng.integers(0, 4, (ROWS, 2))])


def limit():
    """Leave this process so much memory more than it has."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    used = 1024 * int(re.search(r"VmData:\s*(\d+) kB", status)[1])
    resource.setrlimit(resource.RLIMIT_DATA, (used + ROOM, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def spilled(dask_worker):
    """Return how many bytes of results went to disk."""
    return dask_worker.data.cumulative_metrics["disk-write", "bytes"]


@pytest.fixture
def client():
    """Return a client of two workers that have compiled what they need, and may not take much more."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 200 * MIB}
    settings = {f"distributed.worker.memory.{name}": value for name, value in MEMORY.items()}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(**options, silence_logs="CRITICAL") as cluster,
        distributed.Client(cluster) as found,
    ):
        few = da.zeros((4, 5), chunks=(2, 5))
        found.compute(cmfast.gcm(counted(few, n_parts=2), "row")).result()
        found.run(limit)
        yield found


def counted(rows, **options):
    """Return the counts of rows of coordinates, labels and predictions."""
    y, p = (rows[:, k].astype(np.int64) for k in (3, 4))
    return cmfast.cell_counts(rows[:, :3], y, p, grid=GRID, n_classes=4, **options)


def test_cells_that_no_worker_holds(client):
    rows = da.arange(CHUNKS, chunks=1).map_blocks(
        points, chunks=((ROWS,) * CHUNKS, (5,)), new_axis=1, dtype=np.float64, meta=np.empty((0, 0))
    )
    cells = cmfast.CellCounts.merge(counted(points([k])) for k in range(CHUNKS))
    assert cells.counts.nbytes + cells._keys.nbytes > ROOM
    found = client.compute(cmfast.gcm(counted(rows, n_parts=PARTS), ["bi", "row"])).result()
    assert_same_bits(found, cmfast.gcm(cells, ["bi", "row"]))
    assert min(client.run(spilled).values()) > HELD
