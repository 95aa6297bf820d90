"""Points dealt to buckets: the same runs as one sort of everything, whatever the keys look like."""

import math

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast.geometry import _cell_accumulator
from cmfast.kernels.cpu.geometry import _ranges, _sample_sort

N = 4_000


@pytest.fixture(params=[(64, 16), (1000, 3), (512, 500)], ids=["few", "uneven", "many"])
def small_blocks(request, monkeypatch):
    """Deal blocks of so many points to buckets of so many, as if there were millions."""
    rows, bucket = request.param
    monkeypatch.setattr(_sample_sort, "LEAST_PARTITIONED_POINTS", 1)
    monkeypatch.setattr(_sample_sort, "PARTITION_ROWS", rows)
    monkeypatch.setattr(_sample_sort, "BUCKET", bucket)
    monkeypatch.setattr(_sample_sort, "RUN", 4)


def keys_of(name):
    rng = np.random.default_rng(5)
    return {
        "spread": rng.integers(0, 2**50, N),
        "narrow": rng.integers(0, 50, N),
        "one": np.full(N, 7),
        "skewed": np.where(rng.random(N) < 0.9, 3, rng.integers(0, 2**40, N)),
        "sorted": np.arange(N),
        "falling": np.arange(N)[::-1].copy(),
        "ends": np.where(rng.random(N) < 0.5, 0, 2**62 - 1),
        "without": np.where(rng.random(N) < 0.3, np.iinfo(np.int64).max, rng.integers(0, 1000, N)),
    }[name].astype(np.int64)


@pytest.mark.parametrize("name", ["spread", "narrow", "one", "skewed", "sorted", "falling", "ends", "without"])
@pytest.mark.parametrize("threads", [1, 3])
def test_runs_are_those_of_the_sorted_keys(name, threads, small_blocks, monkeypatch):
    monkeypatch.setattr("cmfast.kernels.cpu._core.pool.INLINE_SECONDS", 0.0)
    keys = keys_of(name)

    def fill(start, stop, out):
        out[:] = keys[start:stop]

    inside = keys[keys < np.iinfo(np.int64).max]
    found, counts = _sample_sort.sort_and_count(fill, N, int(inside.max()) + 1, threads)
    want, number = np.unique(keys, return_counts=True)
    assert_same_bits(found, want)
    assert_same_bits(counts, number)


def test_buckets_split_the_points():
    keys = np.random.default_rng(0).integers(0, 2**50, 1 << 18)

    def fill(start, stop, out):
        out[:] = keys[start:stop]

    table, shift = _sample_sort._choose_buckets(fill, len(keys), 2**50, None)
    sizes = np.bincount(table[keys >> shift])
    assert len(sizes) > 4
    assert sizes.max() < 2 * len(keys) / len(sizes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("m", [1, 7, 8, 9, 17, 24])
def test_cells_are_those_of_the_definition(m, dtype, small_blocks):
    rng = np.random.default_rng(m)
    X = (rng.normal(size=(N, m)) * 3).astype(dtype)
    X[:, 2:] = np.round(X[:, 2:] / 9) * 9  # few cells, so that keys of many axes fit
    y, p = rng.integers(0, 5, (2, N))
    grid = cmfast.Grid(rng.normal(size=m), rng.uniform(0.5, 9.0, m))
    index = np.floor((X.astype(np.float64) - grid.origin) * grid.inverse).astype(np.int64)
    want, counts = np.unique(np.column_stack([index, y, p]), axis=0, return_counts=True)
    cells = cmfast.cell_counts(X, y, p, grid=grid)
    assert_same_bits(np.column_stack([cells.cells, cells.labels, cells.predictions]), want)
    assert_same_bits(cells.counts, counts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("kept", ["all", "most", "none"])
def test_ranked_cells_are_those_of_the_definition(kept, dtype, small_blocks):
    """Keys of 24 axes with a hundred indices each do not fit in 63 bits."""
    rng = np.random.default_rng(4)
    few = np.concatenate([np.round(rng.normal(size=(N // 4, 24)) * 60), np.full((1, 24), -200), np.full((1, 24), 200)])
    X = few[rng.permutation(np.arange(N) % len(few))].astype(dtype)
    if kept != "all" and dtype != np.int16:
        X[:: 7 if kept == "most" else 1, 3] = np.nan
    y, p = rng.integers(0, 5, (2, N))
    grid, w = cmfast.Grid(np.full(24, 0.5), np.linspace(2.0, 5.0, 24)), rng.normal(size=N)
    good = np.isfinite(X).all(axis=1)
    index = np.floor((X[good].astype(np.float64) - grid.origin) * grid.inverse).astype(np.int64)
    want, counts = np.unique(np.column_stack([index, y[good], p[good]]), axis=0, return_counts=True)
    for threads in (1, 3):
        cells = cmfast.cell_counts(X, y, p, grid=grid, n_classes=5, on_failure="ignore", num_threads=threads)
        assert_same_bits(np.column_stack([cells.cells, cells.labels, cells.predictions]), want)
        assert_same_bits(cells.counts, counts)
        found = cmfast.sparse_histogram(X, grid=grid, weights=w, on_failure="ignore", num_threads=threads)
        want_cells, place = np.unique(index, axis=0, return_inverse=True)
        assert_same_bits(found.cells, want_cells)
        sums = [math.fsum(w[good][place.reshape(-1) == k]) for k in range(len(want_cells))]
        np.testing.assert_array_equal(found.values, sums)


@pytest.mark.parametrize("name", ["spread", "narrow", "one", "skewed", "sorted", "falling", "ends", "without"])
@pytest.mark.parametrize("least", [1, 1 << 17])
def test_ranks_are_those_of_the_distinct_values(name, least, small_blocks, monkeypatch):
    monkeypatch.setattr(_sample_sort, "LEAST_PARTITIONED_POINTS", least)
    values = np.minimum(keys_of(name), 2**62)
    rank, some = _sample_sort.rank_densely(values, 3)
    want, places = np.unique(values, return_inverse=True)
    assert_same_bits(values[some], want)
    assert_same_bits(rank, places.astype(np.int64))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
@pytest.mark.parametrize("n_classes", [1, 3, 4, 100])
def test_labels_out_of_range_are_found(n_classes, dtype, small_blocks):
    X, grid = np.random.default_rng(2).normal(size=(N, 2)), cmfast.Grid([0.0, 0.0], [0.5, 0.5])
    good = np.arange(N, dtype=np.int64).astype(dtype) % n_classes
    good[0] = n_classes - 1
    assert cmfast.cell_counts(X, good, good, grid=grid, n_classes=n_classes).n_points == N
    for wrong in {n_classes, np.iinfo(dtype).max, np.iinfo(dtype).min} - {0}:
        y = good.copy()
        y[[1234, N - 1]] = wrong
        for name, labels in (("y_true", (y, good)), ("y_pred", (good, y))):
            wanted = rf"{name} must be in 0..{n_classes - 1}, got 2 outside \(first: {wrong} at 1234, {wrong} at 3999\)"
            if wrong < 2**63:
                with pytest.raises(ValueError, match=wanted):
                    cmfast.cell_counts(X, *labels, grid=grid, n_classes=n_classes)
            else:
                with pytest.raises(ValueError, match=name):
                    cmfast.cell_counts(X, *labels, grid=grid, n_classes=n_classes)


def test_points_without_a_cell_are_counted_and_named(small_blocks):
    X = np.random.default_rng(1).normal(size=(N, 2))
    X[[5, 700, 701, 3999], [0, 1, 0, 1]] = [np.nan, np.inf, -np.inf, 1e300]
    zeros = np.zeros(N, np.int64)
    with pytest.warns(cmfast.FailureWarning, match=r"4 of 4000 points left out \(first: 5, 700, 701\)"):
        cells = cmfast.cell_counts(X, zeros, zeros, grid=cmfast.Grid([0.0, 0.0], [0.5, 0.5]))
    assert cells.n_dropped == 4
    assert cells.n_points == N - 4


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("at_a_time", [300, 1 << 25], ids=["parts", "whole"])
@pytest.mark.parametrize("finite", [True, False])
def test_extremes_that_a_rule_found_are_not_sought_again(at_a_time, finite, monkeypatch):
    """The grid's pass over the columns gives the ranges of the keys, unless some point is left out."""
    rng = np.random.default_rng(3)
    X, y, p = rng.normal(size=(1000, 4)), *rng.integers(0, 3, (2, 1000))
    if not finite:
        X[[5, 700], [0, 3]] = np.nan, np.inf
    options = {"n_components": None, "on_failure": "ignore"}
    want = cmfast.geometric_confusion_matrix(X, y, p, grid=cmfast.Grid.scott(X, on_failure="ignore"), **options)
    passes, find = [], _ranges.column_ranges
    monkeypatch.setattr(_ranges, "column_ranges", lambda X, *args: (passes.append(len(X) > 0), find(X, *args))[1])
    monkeypatch.setattr(_cell_accumulator, "MOST_PART_POINTS", at_a_time)
    found = cmfast.geometric_confusion_matrix(X, y, p, **options)
    assert_same_bits(found.cells.cells, want.cells.cells)
    assert_same_bits(found.cells.counts, want.cells.counts)
    assert_same_bits(found.matrix, want.matrix)
    parts = -(-1000 // min(at_a_time, 1000))
    assert sum(passes) == 1 + (0 if finite else parts)  # the rule's own
