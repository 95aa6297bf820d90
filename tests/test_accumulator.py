"""Streams of points: the counts of all at once, in memory and in files."""

import hashlib

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import _accumulator
from cmfast.kernels.cpu import _partition, _pool

MIB = 1 << 20


def points(n, m=3, seed=0):
    rng = np.random.default_rng(seed)
    y, p = rng.integers(0, 4, (2, n))
    return rng.normal(size=(n, m)) + y[:, None], y, p


def parts(cells):
    return cells.cells, cells.labels, cells.predictions, cells.counts


def assert_same_counts(found, want):
    for a, b in zip(parts(found), parts(want), strict=True):
        assert_same_bits(a, b)
    assert (found.n_points, found.n_dropped, found.bins) == (want.n_points, want.n_dropped, want.bins)


def stream(grid, X, y, p, cuts, **options):
    accumulator = cmfast.CellAccumulator(grid, 4, **options)
    for start, stop in zip([0, *cuts], [*cuts, len(X)], strict=True):
        accumulator.update(X[start:stop], y[start:stop], p[start:stop], on_failure="ignore")
    return accumulator


@pytest.mark.parametrize("seed", range(4))
def test_parts_are_the_whole(seed):
    rng = np.random.default_rng(seed)
    X, y, p = points(5_000, seed=seed)
    X[rng.integers(0, len(X), 3)] = np.nan
    grid = cmfast.Grid([0.1] * 3, [0.3] * 3)
    cuts = np.sort(rng.integers(0, len(X), rng.integers(0, 40))).tolist()
    whole = cmfast.cell_counts(X, y, p, grid=grid, n_classes=4, on_failure="ignore")
    accumulator = stream(grid, X, y, p, cuts)
    assert (accumulator.n_points, accumulator.n_dropped) == (whole.n_points, whole.n_dropped)
    assert_same_counts(accumulator.counts(), whole)
    assert_same_counts(accumulator.update(X, y, p, on_failure="ignore").counts(), whole + whole)


@pytest.mark.parametrize("order", ["as it comes", "growing"])
def test_parts_on_disk_are_the_whole(order, tmp_path, monkeypatch):
    monkeypatch.setattr(_accumulator, "BLOCK", 5_000)
    X, y, p = points(200_000)
    if order == "growing":  # every part has a wider range than those before: keys change
        X = X[np.argsort(np.abs(X[:, 1]))]
    X[7] = np.inf
    grid = cmfast.Grid([0.1] * 3, [0.05] * 3)
    whole = cmfast.cell_counts(X, y, p, grid=grid, n_classes=4, on_failure="ignore")
    assert 16 * len(whole) > 2 * MIB, "more than the memory given"
    accumulator = stream(grid, X, y, p, range(10_000, 200_000, 10_000), max_bytes=MIB, directory=tmp_path)
    assert "on disk" in repr(accumulator)
    assert list(tmp_path.iterdir()) == [], "the files have no name, so nothing can be left of them"
    found = accumulator.counts()
    assert_same_counts(found, whole)
    assert_same_bits(found.confusion_matrix(), whole.confusion_matrix())
    assert_same_bits(cmfast.gcm(found, "row"), cmfast.gcm(whole, "row"))
    assert_same_counts(
        accumulator.update(X[:100], y[:100], p[:100], on_failure="ignore").counts() + 0,
        whole + (cmfast.cell_counts(X[:100], y[:100], p[:100], grid=grid, n_classes=4, on_failure="ignore")),
    )


def test_ranked_cells_stay_in_memory(monkeypatch, tmp_path):
    X, y, p = points(60_000, m=9)
    grid = cmfast.Grid([0.0] * 9, [1e-6] * 9)
    whole = cmfast.cell_counts(X, y, p, grid=grid, n_classes=4)
    accumulator = stream(grid, X, y, p, [20_000, 40_000], max_bytes=MIB, directory=tmp_path)
    assert "on disk" not in repr(accumulator)
    assert_same_counts(accumulator.counts(), whole)


def test_nothing_counted_is_empty_counts():
    accumulator = cmfast.CellAccumulator(cmfast.Grid([0.0], [1.0]), 3)
    assert len(accumulator.counts()) == 0
    assert accumulator.counts().confusion_matrix().tolist() == [[0] * 3] * 3


def test_merge_takes_any_number():
    X, y, p = points(1_000)
    grid = cmfast.Grid([0.0] * 3, [0.4] * 3)
    whole = cmfast.cell_counts(X, y, p, grid=grid, n_classes=4)
    pieces = (cmfast.cell_counts(X[i::7], y[i::7], p[i::7], grid=grid, n_classes=4) for i in range(7))
    assert_same_counts(cmfast.CellCounts.merge(pieces), whole)
    with pytest.raises(ValueError, match="parts must be at least one"):
        cmfast.CellCounts.merge([])


def test_refuses_what_does_not_belong():
    grid = cmfast.Grid([0.0], [1.0])
    accumulator = cmfast.CellAccumulator(grid, 3)
    with pytest.raises(TypeError, match="CellAccumulator: grid must be"):
        cmfast.CellAccumulator([0.0], 3)
    with pytest.raises(ValueError, match="max_bytes must be"):
        cmfast.CellAccumulator(grid, 3, max_bytes=1000)
    with pytest.raises(TypeError, match=r"add: cells must be CellCounts"):
        accumulator.add([1])
    with pytest.raises(ValueError, match=r"add: n_classes must be"):
        accumulator.add(cmfast.cell_counts([[0.0]], [0], [0], grid=grid, n_classes=2))
    with pytest.raises(ValueError, match=r"add: grid must be"):
        accumulator.add(cmfast.cell_counts([[0.0]], [0], [0], grid=grid.scaled(2), n_classes=3))
    with pytest.raises(ValueError, match=r"update: y_true must be in 0\.\.2"):
        accumulator.update([[0.0]], [3], [0])
    assert len(accumulator.counts()) == 0, "what was refused is not counted"


def hash_of(cells, threads):
    """Hash everything that is made from counts."""
    digest = hashlib.sha256()
    G = cmfast.gcm(cells, ["all", "row", "col", "bi"], smoothing=0.01, num_threads=threads)
    for array in (*parts(cells), cells.confusion_matrix(), G):
        digest.update(array.tobytes())
    return digest.hexdigest()


def in_pairs(some, rng):
    """Merge two parts at random until one is left."""
    some = list(some)
    while len(some) > 1:
        i, j = rng.choice(len(some), 2, replace=False)
        merged = some[i] + some[j]
        some = [part for k, part in enumerate(some) if k not in {i, j}] + [merged]
    return some[0]


SEEN = set()  # over numbers of threads
TREES = {
    "one by one": lambda some, rng: sum(some),
    "balanced": lambda some, rng: cmfast.CellCounts.merge(some),
    "at random": in_pairs,
}


@pytest.mark.parametrize("threads", [1, 2, 5, 8])
def test_one_hash_for_threads_chunks_and_trees(threads, monkeypatch):
    monkeypatch.setattr(_pool, "INLINE_SECONDS", 0.0)
    monkeypatch.setattr(_pool, "PIECE_SECONDS", 1e-6)
    monkeypatch.setattr(_partition, "FEWEST", 100)
    monkeypatch.setattr(_partition, "BUCKET", 100)
    monkeypatch.setattr(_partition, "ROWS", 512)
    X, y, p = points(20_000, seed=3)
    grid = cmfast.Grid.scott(X, num_threads=threads)
    options = {"grid": grid, "n_classes": 4, "num_threads": threads}
    found = {hash_of(cmfast.cell_counts(X, y, p, **options), threads)}
    rng = np.random.default_rng(0)
    for _ in range(10):
        which = rng.integers(0, rng.integers(2, 9), len(X))
        some = [
            cmfast.cell_counts(X[which == k], y[which == k], p[which == k], **options) for k in range(which.max() + 1)
        ]
        found |= {hash_of(tree(some, rng), threads) for tree in TREES.values()}
    assert len(found) == 1
    SEEN.update(found)
    assert len(SEEN) == 1, "the same for every number of threads"
