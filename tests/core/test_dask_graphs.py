"""Graphs of Dask arrays: tasks of constant size, few tasks per chunk, graphs built by linearly many operations."""

import gc
import sys
import threading
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import cmfast

da = pytest.importorskip("dask.array")
pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks are not installed with the package
dask_graphs = import_module("benchmarks.dask_graphs")

pytestmark = pytest.mark.cluster

NAMES = list(dask_graphs.CALLS)
CALLS = dask_graphs.PLAIN | dask_graphs.CALLS
FEW, MANY = 64, 2048
# Most tasks per chunk: a task per chunk and pass, and a merge of every eight; for arrays block by block, one for each
# array, and one for all if there are several.
PASS = 1 + 1 / 7
MOST_TASKS = {
    "confusion_matrix": PASS,
    "confusion_matrix, integer weights": PASS,
    "confusion_matrix, float weights": 2 * PASS,
    "by": PASS,
    "metrics.label_margins": PASS,
    "metrics.from_labels": PASS,
    "conformal.score_histogram": PASS,
    "uncertainty.paired_counts": PASS,
    "Grid.regular": PASS,
    "Grid.scott": 2 * PASS,
    "pca": 2 * PASS,
    "cell_counts": PASS,
    "sparse_histogram": PASS,
    "sparse_histogram, float weights": 2 * PASS,
    "overlap": 1,
    "bi_normalize": 1,
    "conformal.scores": 1,
}


def count_tasks(name, n):
    """Return how many tasks of a call's graph a scheduler runs."""
    return sum(not dask_graphs.is_link(task) for task in dask_graphs.optimise(CALLS[name](n)).values())


def largest_task(name, n):
    """Return the pickled bytes of the largest task of a call."""
    graph = dask_graphs.optimise(dask_graphs.CALLS[name](n))
    return max(len(distributed.protocol.pickle.dumps(task)) for task in graph.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_task_has_the_same_size_for_any_number_of_chunks(name):
    assert largest_task(name, MANY) <= largest_task(name, FEW) + 64  # the digits of a few integers
    assert largest_task(name, FEW) < 4000


def text_labels(n):
    """Return a matrix of 2,000 named classes."""
    names = [f"class {k}" for k in range(2000)]
    y = da.from_array(np.array(names)[np.arange(n) % 2000], chunks=1)
    return cmfast.confusion_matrix(y, y, labels=names)


def many_axes(n):
    """Return cell counts on a grid of 512 axes."""
    grid = cmfast.Grid([0.0] * 512, [1.0] * 512)
    X = da.ones((n, 512), chunks=(1, 512))
    return cmfast.cell_counts(X, dask_graphs.labels(n), dask_graphs.guesses(n), grid=grid, n_classes=3)


def projected(n):
    """Return points of 512 coordinates on ten axes."""
    axes = cmfast.Projection(np.zeros(512), np.eye(10, 512), np.full(10, 0.1))
    return axes.transform(da.ones((n, 512), chunks=(1, 512)))


@pytest.mark.parametrize("make", [text_labels, many_axes, projected])
def test_large_options_are_in_a_graph_once(make):
    few, many = (
        [len(distributed.protocol.pickle.dumps(task)) for task in dask_graphs.optimise(make(n)).values()]
        for n in (FEW, MANY)
    )
    for sizes in (few, many):
        assert sum(size > 4000 for size in sizes) == 1
    assert sum(many) - sum(few) < 4000 * (MANY - FEW)


def test_large_options_give_the_same_results():
    names = [f"class {k}" for k in range(500)]
    y, p = np.array(names)[np.random.default_rng(0).integers(0, 500, (2, 3000))]
    lazy = cmfast.confusion_matrix(da.from_array(y, chunks=700), da.from_array(p, chunks=700), labels=names)
    np.testing.assert_array_equal(lazy.compute(), cmfast.confusion_matrix(y, p, labels=names))
    X = np.random.default_rng(1).normal(size=(300, 100))
    axes = cmfast.pca(X, 10)
    np.testing.assert_array_equal(axes.transform(da.from_array(X, chunks=(70, 100))).compute(), axes.transform(X))


@pytest.mark.parametrize("name", MOST_TASKS)
def test_a_chunk_has_few_tasks(name):
    small, large = count_tasks(name, 128), count_tasks(name, 1024)
    assert (large - small) / (1024 - 128) <= MOST_TASKS[name] + 0.01


def count_operations(name, n):
    """Return the number of calls of functions while a graph is built and optimised."""
    found = 0

    def note(frame, event, arg):
        nonlocal found
        found += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        dask_graphs.optimise(CALLS[name](n))
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_graphs_are_built_by_linearly_many_operations(name):
    """Twice as many chunks take twice as many operations more: four times as many show a square."""
    count_operations(name, 8)  # imports
    few, more, most = (count_operations(name, n) for n in (64, 128, 256))
    assert most - more < 2.2 * (more - few) + 2000


@pytest.mark.parametrize("name", ["ipf", "support", "uncertainty.interval", "uncertainty.bowker"])
def test_several_arrays_take_fewer_operations_than_plain_maps(name):
    """The graph of all arrays of a call costs less than one of Dask alone with as many tasks."""
    plain = dask_graphs.LIKE[name]
    assert count_tasks(name, 64) == count_tasks(plain, 64)
    count_operations(name, 8)  # imports
    mine, its = (count_operations(each, 256) - count_operations(each, 64) for each in (name, plain))
    assert mine < its


@pytest.mark.parametrize("name", NAMES)
def test_graphs_have_as_many_layers_for_any_number_of_chunks(name):
    few, many = (
        [len(each.__dask_graph__().layers) for each in dask_graphs.list_collections(dask_graphs.CALLS[name](n))]
        for n in (16, 256)
    )
    assert few == many


def test_collection_is_on_again_when_the_last_thread_has_built_its_graph():
    pause = import_module("cmfast._core.adapters._dask").COLLECTION_PAUSE
    thresholds, inside, leave = gc.get_threshold(), threading.Event(), threading.Event()
    assert thresholds[0] > 0

    def build():
        with pause:
            inside.set()
            leave.wait(60)

    def fail():
        with pause, pause:
            other.start()
            inside.wait(60)
            raise ZeroDivisionError

    other = threading.Thread(target=build)
    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.get_threshold()[0] == 0
    gc.disable()  # by whoever
    try:
        leave.set()
        other.join()
        assert (gc.get_threshold(), gc.isenabled()) == (thresholds, False)
    finally:
        gc.enable()
    cell_counts = dask_graphs.CALLS["cell_counts"](4)
    assert gc.get_threshold() == thresholds
    assert cell_counts.compute().counts.sum() == 4
