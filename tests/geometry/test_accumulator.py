"""Streams of points: the counts of all at once, in memory and in files."""

import errno
import hashlib
import sys
import warnings

import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast._files import scratch
from cmfast.geometry import _cell_accumulator, _cells
from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.geometry import _sample_sort

pytestmark = pytest.mark.exhaustive

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


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", ["as it comes", "growing"])
def test_parts_on_disk_are_the_whole(order, tmp_path, monkeypatch):
    monkeypatch.setattr(_cell_accumulator, "MERGED_TRIPLES", 5_000)
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
    for name in ("grid", "n_classes", "n_points", "n_dropped"):
        with pytest.raises(AttributeError):
            setattr(accumulator, name, 5)
    for directory, error in ((5, TypeError), ("/no/such/folder", ValueError), (__file__, ValueError)):
        with pytest.raises(error, match=r"^CellAccumulator: directory must be"):
            cmfast.CellAccumulator(grid, 3, directory=directory)


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
    monkeypatch.setattr(pool, "INLINE_SECONDS", 0.0)
    monkeypatch.setattr(pool, "PIECE_SECONDS", 1e-6)
    monkeypatch.setattr(_sample_sort, "LEAST_PARTITIONED_POINTS", 100)
    monkeypatch.setattr(_sample_sort, "BUCKET", 100)
    monkeypatch.setattr(_sample_sort, "PARTITION_ROWS", 512)
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


def doubled(cells, times):
    for _ in range(times):
        cells = cells + cells
    return cells


def test_counts_that_add_up_to_more_than_can_be_held_are_refused():
    grid = cmfast.Grid([0.0], [1.0])
    one = cmfast.cell_counts([[0.5], [0.6], [np.nan]], [0, 0, 0], [0, 1, 0], grid=grid, on_failure="ignore")
    large = doubled(one, 59)  # of 2**60 points
    assert (large.n_points, large.n_dropped) == (2**60, 2**59)
    assert large.confusion_matrix().tolist() == [[2**59, 2**59], [0, 0]]
    assert large.label_histogram().values.tolist() == [2**60]
    assert cmfast.gcm(large, "all").tolist() == [[0.5, 0.5], [0.0, 0.0]]
    message = r"points are more than the 2\*\*61 - 1 that CellCounts can hold"
    for name, add in {
        "CellCounts": lambda: large + large,
        "CellCounts.merge": lambda: cmfast.CellCounts.merge([large, one, large]),
        "CellAccumulator.add": lambda: cmfast.CellAccumulator(grid, 2).add(large).add(large),
    }.items():
        with pytest.raises(OverflowError, match=rf"^{name}: \d+ {message}"):
            add()
    most = large
    for k in reversed(range(59)):
        most = most + doubled(one, k)
    assert most.n_points == 2**61 - 2, "nothing below the limit is refused"
    with pytest.raises(OverflowError, match=message):
        _ = most + one
    stream = cmfast.CellAccumulator(grid, 2).add(most)
    with pytest.raises(OverflowError, match=rf"^CellAccumulator.update: {2**61} {message}"):
        stream.update([[0.5], [0.5]], [0, 0], [0, 0])
    assert stream.counts().n_points == 2**61 - 2
    none = cmfast.cell_counts([[np.nan]], [0], [0], grid=grid, n_classes=2, on_failure="ignore")
    with pytest.raises(OverflowError, match=r"^CellCounts: 2305843009213693952 points left out are more"):
        doubled(none, 61)


def test_merging_what_is_no_counts_is_refused():
    cells = cmfast.cell_counts([[0.5]], [0], [0], grid=cmfast.Grid([0.0], [1.0]))
    for parts_, text in (
        (5, "parts must be an iterable of CellCounts, got int"),
        ([5], r"parts\[0\] must be CellCounts, got int"),
        ([cells, None], r"parts\[1\] must be CellCounts, got NoneType"),
        ("ab", r"parts\[0\] must be CellCounts, got str"),
    ):
        with pytest.raises(TypeError, match=rf"^CellCounts\.merge: {text}"):
            cmfast.CellCounts.merge(parts_)
    other = cmfast.cell_counts([[0.5]], [0], [0], grid=cmfast.Grid([0.0], [2.0]))
    with pytest.raises(ValueError, match=r"^CellCounts\.merge: grid must be the same in both"):
        cmfast.CellCounts.merge([cells, other])
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = cells + 5


# Updates that fail.


def fail_with(error):
    def fail(*_, **__):
        raise error

    return fail


class Failures:
    """A stream that has parts on disk and in memory, and the points of one more update."""

    def __init__(self, folder):
        X, y, p = points(140_000, seed=5)
        X[[70_000, 130_000]] = np.nan
        grid = cmfast.Grid([0.1] * 3, [0.05] * 3)
        self.stream = stream(grid, X, y, p, range(20_000, 140_000, 20_000), max_bytes=MIB, directory=folder)
        self.more = points(60_000, seed=6)
        self.more[0][3] = np.inf
        self.before = self.stream.n_points, self.stream.n_dropped
        both = [np.concatenate(pair) for pair in zip((X, y, p), self.more, strict=True)]
        options = {"grid": grid, "n_classes": 4, "on_failure": "ignore"}
        self.want = [cmfast.cell_counts(*three, **options) for three in ((X, y, p), both)]
        assert self.stream._held.parts, "in memory"
        assert self.stream._held.spilled, "on disk"

    def update(self, on_failure="ignore"):
        """Count the other points."""
        self.stream.update(*self.more, on_failure=on_failure)

    def assert_untouched_then_retry(self):
        """Check that nothing of them was counted, and that all are when the cause is gone."""
        assert (self.stream.n_points, self.stream.n_dropped) == self.before
        assert_same_counts(self.stream.counts(), self.want[0])
        self.update()
        assert_same_counts(self.stream.counts(), self.want[1])


FAULTS = {
    "merging": (_cells.CellCounts, "_add_counts", MemoryError()),
    "merging parts": (_cells.CellCounts, "merge", MemoryError()),
    "writing": (scratch.Scratch, "append", OSError(errno.ENOSPC, "No space left on device")),
    "mapping": (scratch.Scratch, "mapped", KeyboardInterrupt()),
    "storing": (_cell_accumulator, "_spill", OSError(errno.EIO, "Input/output error")),
}


@pytest.mark.parametrize("where", [*FAULTS, "on_failure", "warning", "labels", "types"])
def test_an_update_that_raised_has_counted_nothing(where, tmp_path, monkeypatch):
    case = Failures(tmp_path)
    if where in FAULTS:
        owner, name, error = FAULTS[where]
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail_with(error))
            with pytest.raises(type(error)):
                case.update()
    elif where == "on_failure":
        with pytest.raises(cmfast.FailureError):
            case.update("raise")
    elif where == "warning":
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(cmfast.FailureWarning):
                case.update("warn")
    elif where == "labels":
        case.more[1][7] = 4
        with pytest.raises(ValueError, match=r"y_true must be in 0\.\.3"):
            case.update()
        case.more[1][7] = points(60_000, seed=6)[1][7]
    else:
        tensors = [torch.from_numpy(array) for array in case.more]
        with pytest.raises(TypeError, match=r"^CellAccumulator\.update: arrays must come from one library"):
            case.stream.update(*tensors, on_failure="ignore")
    case.assert_untouched_then_retry()


def interrupted(call, at):
    """Run `call`; raise KeyboardInterrupt before the line number `at` that these modules run, and say whether it came.

    Not before the last line, ``return self``: what is counted there is counted, and no interpreter stops between.
    """
    files = {module.__file__ for module in (_cell_accumulator, _cells, scratch)}
    seen = 0

    def trace(frame, event, _):
        nonlocal seen
        if frame.f_code.co_filename not in files:
            return None
        if event == "line" and not (frame.f_code.co_name == "_add" and frame.f_locals["self"]._held is not held):
            seen += 1
            if seen == at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    held, before = call.__self__.stream._held, sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # opened, and closed by nobody's `with`
def test_an_update_may_be_interrupted_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(_cell_accumulator, "MERGED_TRIPLES", 30_000)
    case = Failures(tmp_path)
    held, at = case.stream._held, 0
    while interrupted(case.update, at := at + 1):
        assert case.stream._held is held
    assert at > 60, "updates of several parts were stopped in all of them"
    assert_same_counts(case.stream.counts(), case.want[1])


def test_counts_may_be_interrupted_too(tmp_path, monkeypatch):
    case = Failures(tmp_path)
    for name in ("append", "mapped"):
        with monkeypatch.context() as patch:
            patch.setattr(scratch.Scratch, name, fail_with(OSError(errno.ENOSPC, "No space left on device")))
            with pytest.raises(OSError, match="No space"):
                case.stream.counts()
    case.assert_untouched_then_retry()


def test_tensors_stay_tensors_on_disk(tmp_path):
    X, y, p = points(200_000)
    grid = cmfast.Grid([0.1] * 3, [0.05] * 3)
    whole = cmfast.cell_counts(X, y, p, grid=grid, n_classes=4)
    tensors = [torch.from_numpy(array) for array in (X, y, p)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accumulator = stream(grid, *tensors, range(10_000, 200_000, 10_000), max_bytes=MIB, directory=tmp_path)
        assert "on disk" in repr(accumulator)
        found = accumulator.counts()
    for got, want in zip(parts(found), parts(whole), strict=True):
        assert isinstance(got, torch.Tensor)
        assert_same_bits(got.numpy(), want)
    assert isinstance((found + found).confusion_matrix(), torch.Tensor)
    assert_same_bits(cmfast.gcm(found, "row").numpy(), cmfast.gcm(whole, "row"))


@pytest.mark.cuda_host
def test_counts_of_a_device_stay_there(tmp_path):
    cuda_host = pytest.importorskip("on_cuda_host").cuda_host
    if cuda_host.missing() is not None:
        pytest.skip(str(cuda_host.missing()))
    X, y, p = points(60_000)
    grid = cmfast.Grid([0.1] * 3, [0.05] * 3)
    whole = cmfast.cell_counts(X, y, p, grid=grid, n_classes=4)
    on_device = map(cuda_host.asarray, (X, y, p))
    accumulator = stream(grid, *on_device, [20_000, 40_000], max_bytes=MIB, directory=tmp_path)
    assert 2 * 16 * len(whole) > MIB, "more than the memory given"
    assert "on disk" not in repr(accumulator)
    assert_same_bits(accumulator.counts().counts.get(), whole.counts)
