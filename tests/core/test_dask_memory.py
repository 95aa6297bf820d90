"""Cells that no worker holds, as the system limits its memory: on a local cluster."""

import re
import resource
import sys
from pathlib import Path

import numpy as np
import processes
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


def points(block, rows=ROWS):
    """Return the coordinates of a chunk, label and prediction behind them: nearly every point is alone in its cell."""
    rng = np.random.default_rng(int(block[0]))
    X = rng.random((rows, 3)) * 500
    return np.column_stack([X, rng.integers(0, 4, (rows, 2))])


def limit(room=ROOM):
    """Leave this process so much memory more than it has."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    used = 1024 * int(re.search(r"VmData:\s*(\d+) kB", status)[1])
    resource.setrlimit(resource.RLIMIT_DATA, (used + room, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def spilled(dask_worker):
    """Return how many bytes of results went to disk."""
    return dask_worker.data.cumulative_metrics["disk-write", "bytes"]


@pytest.fixture
def client():
    """Return a client of two workers that have compiled what they need, and may not take much more."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 200 * MIB}
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


def make_rows(n, rows=ROWS):
    """Return the rows of n chunks, made when they are counted."""
    return da.arange(n, chunks=1).map_blocks(
        points, rows=rows, chunks=((rows,) * n, (5,)), new_axis=1, dtype=np.float64, meta=np.empty((0, 0))
    )


def test_cells_that_no_worker_holds(client):
    rows = make_rows(CHUNKS)
    cells = cmfast.CellCounts.merge(counted(points([k])) for k in range(CHUNKS))
    assert cells.counts.nbytes + cells._keys.nbytes > ROOM
    found = client.compute(cmfast.gcm(counted(rows, n_parts=PARTS), ["bi", "row"])).result()
    assert_same_bits(found, cmfast.gcm(cells, ["bi", "row"]))
    assert min(client.run(spilled).values()) > HELD


PROGRAM = """
import sys
sys.path += {path}
import dask
from test_dask_memory import MIB, counted, limit, make_rows
dask.compute(counted(make_rows(2), n_parts={n_parts}), scheduler="synchronous")  # loads what a task needs
limit(40 * MIB)  # for chunks of one, whose counts take a hundred together
try:
    dask.compute(counted(make_rows(400, 15_000), n_parts={n_parts}), scheduler="synchronous")
except MemoryError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("n_parts", "advice"),
    [(None, r"give n_parts= \(it divides the cells among tasks\)"), (2, "give more than n_parts=2")],
)
def test_an_error_of_memory_names_the_option(n_parts, advice):
    found = processes.python("-c", PROGRAM.format(path=sys.path, n_parts=n_parts), cwd=Path(__file__).parent)
    assert re.match(rf"^cell_counts: memory does not hold \d+ counts while they are merged; {advice}$", found)
