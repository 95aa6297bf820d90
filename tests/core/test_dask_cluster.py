"""Dask arrays on a cluster of two processes: a worker that dies, labels that are wrong, and what is given up."""

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import cli, conformal, uncertainty

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.cluster

RNG = np.random.default_rng(19)
N = 4000
Y, P = RNG.integers(0, 4, (2, N))
X = RNG.normal(size=(N, 3))
GRID = cmfast.Grid.regular(X, bins=6)


@pytest.fixture(scope="module")
def client():
    """Return a client of two workers, which are processes that are started again when they die."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": "1GiB"}
    with (
        distributed.LocalCluster(**options, silence_logs="CRITICAL") as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def test_workers_are_warmed_up_by_one_line(client):
    found = client.run(cli.main, ["warmup", "overlap", "--jobs", "1", "--quiet"])
    assert len(found) == 2
    assert set(found.values()) == {0}


def lazy(*arrays):
    """Return arrays in twenty chunks."""
    return [da.from_array(x, chunks=(N // 20, *x.shape[1:])) for x in arrays]


def fatal(y, once, where=(13,)):
    """Return an array of which one chunk kills the worker that makes it, the first time."""

    def die(block, block_info=None):
        if block_info[0]["chunk-location"] == where and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    return y.map_blocks(die, meta=y._meta)


def test_a_worker_that_dies_changes_no_bit(client, tmp_path):
    y, p, points = lazy(Y, P, X)
    matrix = cmfast.confusion_matrix(y, p, n_classes=4)
    assert_same_bits(client.compute(matrix).result(), cmfast.confusion_matrix(Y, P, n_classes=4))
    once = tmp_path / "died"
    cells = cmfast.cell_counts(points, fatal(y, once), p, grid=GRID, n_classes=4)
    assert client.compute(cells).result() == cmfast.cell_counts(X, Y, P, grid=GRID, n_classes=4)
    assert once.exists()
    (held,) = client.persist([points])
    for given in (points, held):
        assert client.compute(cmfast.Grid.scott(given)).result() == cmfast.Grid.scott(X)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_whatever_is_counted_of_points_has_the_same_bits_where_a_worker_dies(client, tmp_path):
    weights = RNG.normal(size=N) * 10.0 ** RNG.integers(-30, 30, N)
    y, p, points, w = lazy(Y, P, X, weights)
    cells = cmfast.cell_counts(X, Y, P, grid=GRID, n_classes=4)
    once = tmp_path / "died"
    parts = cmfast.cell_counts(points, fatal(y, once), p, grid=GRID, n_classes=4, n_parts=5)
    assert_same_bits(client.compute(cmfast.gcm(parts, ["bi", "row"])).result(), cmfast.gcm(cells, ["bi", "row"]))
    assert once.exists()
    histogram = client.compute(cmfast.sparse_histogram(points, grid=GRID, weights=w, groups=y, n_groups=4)).result()
    want = cmfast.sparse_histogram(X, grid=GRID, weights=weights, groups=Y, n_groups=4)
    for name in ("cells", "groups", "values"):
        assert_same_bits(getattr(histogram, name), getattr(want, name))
    options = {"n_components": None, "n_classes": 4}
    result = client.compute(cmfast.geometric_confusion_matrix(points, y, p, **options)).result()
    alone = cmfast.geometric_confusion_matrix(X, Y, P, **options)
    assert_same_bits(result.matrix, alone.matrix)
    assert str(result.diagnostics) == str(alone.diagnostics)


def test_wrong_labels_fail_in_our_words(client):
    bad = Y.copy()
    bad[N // 2] = 9
    y, p = lazy(bad, P)
    where = r"got 1 outside \(first: 9 at 0\), in chunk \(10,\), which begins at index \(2000,\)$"
    with pytest.raises(ValueError, match=rf"^confusion_matrix: y_true must be in 0\.\.3, {where}"):
        client.compute(cmfast.confusion_matrix(y, p, n_classes=4)).result()
    M = np.ones((6, 2, 2))
    M[4, 0, 0] = np.nan
    found = cmfast.ipf(da.from_array(M, chunks=(2, 2, 2)), on_failure="raise")
    with pytest.raises(
        cmfast.FailureError, match=r"^ipf: INVALID .*, in chunk \(2,\), which begins at index \(4,\)$"
    ) as e:
        client.compute(found.matrix).result()
    assert e.value.status.tolist() == [cmfast.Status.INVALID, 0]


def test_what_is_given_up_leaves_nothing(client):
    def slow(block):
        time.sleep(0.05)
        return block

    def held():
        return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    before = held()
    y, p = lazy(Y, P)
    future = client.compute(cmfast.confusion_matrix(y.map_blocks(slow, meta=y._meta), p, n_classes=4))
    while held() == before:
        time.sleep(0.01)
    future.cancel()
    until = time.monotonic() + 30
    while held() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert held() <= before
    assert future.cancelled()


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_whatever_is_drawn_or_made_of_chunks_has_the_same_bits_where_a_worker_dies(client, tmp_path):
    M = RNG.integers(1, 60, (40, 3, 3, 3))
    counts = da.from_array(M, chunks=(2, 2, 3, 3))
    once = tmp_path / "died"
    found = uncertainty.interval(fatal(counts, once, (13, 1, 0, 0)), "mcc", n_resamples=50)
    assert_same_bits(client.compute(found.low).result(), uncertainty.interval(M, "mcc", n_resamples=50).low)
    assert once.exists()
    (points,) = lazy(X)
    again = tmp_path / "again"
    axes = cmfast.pca(fatal(points, again, (13, 0)), 2, precision="exact")
    got = client.gather(client.compute(list(axes)))
    assert again.exists()
    for one, other in zip(got, cmfast.pca(X, 2, precision="exact"), strict=True):
        assert_same_bits(one, other)
    probabilities = RNG.dirichlet(np.ones(4), N)
    sets = conformal.prediction_sets(fatal(*lazy(probabilities), tmp_path / "third", (13, 0)), [0.8, 0.9])
    shared = client.compute(conformal.ccm(sets)).result()
    assert_same_bits(shared.G, conformal.ccm(conformal.prediction_sets(probabilities, [0.8, 0.9])).G)
    assert (tmp_path / "third").exists()


def test_groups_of_tables_where_a_worker_dies(client, tmp_path):
    frame = pd.DataFrame({"site": RNG.integers(0, 5, N), "label": Y, "guess": P})
    once = tmp_path / "died"

    def die(part):
        if (part.index == 2000).any() and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    columns = {"y_true": "label", "y_pred": "guess"}
    parts = dd.from_pandas(frame, npartitions=8)
    found = cmfast.by(parts.map_partitions(die, meta=parts._meta), "site", **columns)
    got, want = client.compute(found).result(), cmfast.by(frame, "site", **columns)
    assert once.exists()
    assert (got.groups, got.labels) == (want.groups, want.labels)
    assert_same_bits(got.matrix, want.matrix)


def test_draws_that_are_given_up_leave_nothing(client):
    def find_tasks():
        return set(client.run_on_scheduler(lambda dask_scheduler: list(map(str, dask_scheduler.tasks))))

    before = find_tasks()
    M = da.from_array(RNG.integers(1, 60, (40, 8, 8)), chunks=(1, 8, 8))
    future = client.compute(uncertainty.resample(M, n_resamples=20_000))
    # A scheduler is told of a graph later than of what is given up: it forgets only what it knows.
    while str(future.key) not in find_tasks():
        time.sleep(0.01)
    future.cancel()
    until = time.monotonic() + 60
    while find_tasks() - before and time.monotonic() < until:
        time.sleep(0.05)
    assert not find_tasks() - before
    assert future.cancelled()
