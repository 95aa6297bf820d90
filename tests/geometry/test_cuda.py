"""Cells and what is computed from them: the CUDA kernels give the bits of the CPU."""

from collections import Counter
from itertools import product

import device
import numpy as np
import pytest
from cases.geometry import CELL_SIZES, key_cells_of_sizes

import cmfast
from cmfast._core import dispatch
from cmfast._core.adapters import read_only
from cmfast.geometry import _cell_accumulator
from cmfast.geometry._width_rules import measure_columns
from cmfast.kernels.cuda._core import module, sorting
from cmfast.kernels.cuda.geometry import _entries, _keys, _run_length
from cmfast.kernels.cuda.geometry import counts as counts_of_cells
from cmfast.kernels.shared import geometry_weights

pytestmark = [pytest.mark.cuda_host, *device.marks]

GRID = cmfast.Grid([0.1, -0.3, 0.0], [0.7, 0.9, 1.1])


def points(n, classes, seed=0, m=3):
    rng = np.random.default_rng(seed)
    y, p = rng.integers(0, classes, (2, n))
    return rng.normal(size=(n, m)) * 2 + y[:, None] % 3, y, p


def there(*arrays):
    return [device.asarray(a) for a in arrays]


def assert_same(one, other):
    """Compare counts of cells bit for bit; `one` is NumPy's."""
    assert (one.n_classes, one.n_dropped, one._ranges) == (other.n_classes, other.n_dropped, other._ranges)
    assert (one._table is None) == (other._table is None)
    for name in ("_keys", "counts", "cells", *([] if one._table is None else ["_table"])):
        mine, yours = getattr(one, name), getattr(other, name).get()
        assert (mine.dtype, mine.tobytes()) == (yours.dtype, yours.tobytes()), name


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("n", "classes", "m"), [(3000, 5, 3), (2500, 100, 3), (1100, 3, 300)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_counts_have_the_bits_of_the_cpu(n, classes, m, dtype, seed):
    """In several tiles, with classes for which shared memory has no room, with more axes than threads."""
    X, y, p = points(n, classes, seed, m)
    X = X.astype(dtype)
    X[[0, n // 2, n - 1], [0, 1, 2]] = np.nan, np.inf, 1e30
    grid = GRID if m == 3 else cmfast.Grid(np.zeros(m), np.full(m, 9.0))
    with device.schedule(seed), pytest.warns(cmfast.FailureWarning) as caught:
        on_cuda = cmfast.cell_counts(*there(X, y, p), grid=grid)
    with pytest.warns(cmfast.FailureWarning) as wanted:
        on_cpu = cmfast.cell_counts(X, y, p, grid=grid)
    assert_same(on_cpu, on_cuda)
    assert str(caught[0].message) == str(wanted[0].message)
    assert on_cpu.confusion_matrix().tobytes() == on_cuda.confusion_matrix().get().tobytes()


@pytest.mark.parametrize(("width", "sorts"), [(2.0, 0), (0.01, 1)])
def test_few_keys_are_counted_without_a_sort(monkeypatch, width, sorts):
    """With cells without a point between others, and points without a cell: the same keys and counts."""
    X, y, p = points(9000, 2, m=2)
    X[::2] += 40
    X[[0, 5], [0, 1]] = np.nan
    seen, sort = [], sorting.sort_keys
    monkeypatch.setattr(sorting, "sort_keys", lambda keys, n_keys: (seen.append(n_keys), sort(keys, n_keys))[1])
    options = {"grid": cmfast.Grid([0.0, 0.0], [width, width]), "on_failure": "ignore"}
    assert_same(cmfast.cell_counts(X, y, p, **options), cmfast.cell_counts(*there(X, y, p), **options))
    assert len(seen) == sorts


@pytest.mark.parametrize("dtype", ["u1", "i1", "u4", "i8", "u8", "?"])
def test_ids_that_are_no_class_read_as_on_the_cpu(dtype):
    X = np.zeros((3, 1))
    options = {"grid": cmfast.Grid([0.0], [1.0])}
    least, most = (0, 1) if dtype == "?" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for label in (1, least, most, most // 2):
        y, p = np.array([0, label, 1], dtype), np.zeros(3, np.uint8)
        for limit in (None, 1):
            said = []
            for make in (np.asarray, device.asarray):
                try:
                    found = cmfast.cell_counts(*map(make, (X, y, p)), n_classes=limit, **options)
                    said.append((found.n_classes, len(found)))
                except (ValueError, OverflowError, MemoryError) as error:
                    said.append((type(error), str(error)))
            assert said[0] == said[1]


@pytest.mark.parametrize("last", [2**31 - 3, 2**31 - 2, 2**31 - 1, 2**31, 2**32])
def test_keys_as_narrow_as_they_can_be_have_the_bits_of_the_cpu(last):
    """The largest of 32 bits is that of a point without a cell."""
    X = np.array([[0.5], [last + 0.5], [np.nan], [7.5], [last + 0.5], [last - 0.5], [np.inf]])
    for weights in (None, np.arange(7), np.arange(7.0)):
        options = {"grid": cmfast.Grid([0.0], [1.0]), "on_failure": "ignore"}
        given = None if weights is None else device.asarray(weights)
        on_cpu = cmfast.sparse_histogram(X, weights=weights, **options)
        on_cuda = cmfast.sparse_histogram(device.asarray(X), weights=given, **options)
        assert (on_cpu.n_dropped, on_cuda.n_dropped) == (2, 2)
        for name in ("_keys", "values", "cells"):
            one, other = getattr(on_cpu, name), getattr(on_cuda, name).get()
            assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())


@pytest.mark.parametrize("scale", [1.0, 1e9], ids=["radix", "ranked"])
def test_parts_merged_in_any_order_have_the_bits_of_all(scale):
    X, y, p = points(900, 4, 1)
    X = np.concatenate([X * scale] * 3, axis=1)
    grid = cmfast.Grid([0.0] * 9, [1.5] * 9)
    whole = cmfast.cell_counts(X, y, p, grid=grid)
    parts = [
        cmfast.cell_counts(*there(X[i::4], y[i::4], p[i::4]), grid=grid, n_classes=whole.n_classes) for i in range(4)
    ]
    assert_same(whole, sum(parts))
    assert_same(whole, cmfast.CellCounts.merge(parts[::-1]))


def test_a_stream_has_room_for_the_cells_before_it():
    X, y, p = points(600, 4, 2)
    found = cmfast.CellAccumulator(GRID, 4)
    for i in range(3):
        found.add(cmfast.cell_counts(*there(X[i::3], y[i::3], p[i::3]), grid=GRID, n_classes=4))
    assert_same(cmfast.cell_counts(X, y, p, grid=GRID, n_classes=4), found.counts())


@pytest.mark.parametrize("dtype", ["u1", "i2", "i8", "u8", "?"])
def test_sums_of_integers_have_the_bits_of_the_cpu(dtype):
    X, y, _ = points(400, 3, 3)
    w = np.random.default_rng(4).integers(0, 2**40 if dtype in ("i8", "u8") else 100, 400).astype(dtype)
    on_cpu = cmfast.sparse_histogram(X, grid=GRID, weights=w, groups=y)
    X, w, y = there(X, w, y)
    on_cuda = cmfast.sparse_histogram(X, grid=GRID, weights=w, groups=y)
    assert on_cpu.values.tobytes() == on_cuda.values.get().tobytes()
    assert on_cpu.cells.tobytes() == on_cuda.cells.get().tobytes()


def test_errors_of_values_read_as_on_the_cpu():
    X, y, p = points(40, 3)
    y[[3, 7]] = -1, 99
    w = np.full(40, 2**61)
    for call in (
        lambda X, y, p, w: cmfast.cell_counts(X, y, p, grid=GRID),
        lambda X, y, p, w: cmfast.cell_counts(X, p, y, grid=GRID, n_classes=3),
        lambda X, y, p, w: cmfast.sparse_histogram(X, grid=GRID, groups=y, n_groups=9),
        lambda X, y, p, w: cmfast.sparse_histogram(X, grid=cmfast.Grid([-50.0] * 3, [100.0] * 3), weights=w),
    ):
        with pytest.raises((ValueError, OverflowError)) as on_cpu:
            call(X, y, p, w)
        with pytest.raises((ValueError, OverflowError)) as on_cuda:
            call(*there(X, y, p, w))
        assert str(on_cuda.value) == str(on_cpu.value)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("n", "classes", "width"), [(3000, 5, 1.0), (2500, 90, 1.0), (2500, 60, 50.0)])
def test_geometric_matrices_have_the_bits_of_the_cpu(n, classes, width, seed):
    """With matrices in shared memory and too large for it, small and large cells, weights of two words and in limbs."""
    X, y, p = points(n, classes, seed)
    rng = np.random.default_rng(seed)
    tables = [rng.random((classes, classes)), *(10.0 ** rng.uniform(-e, e, (classes, classes)) for e in (6, 9, 30))]
    options = {"grid": cmfast.Grid([-25.0] * 3, [width] * 3), "n_classes": classes}
    on_cpu = cmfast.gcm(cmfast.cell_counts(X, y, p, **options), ["row", *tables])
    with device.schedule(seed):
        on_cuda = cmfast.gcm(cmfast.cell_counts(*there(X, y, p), **options), ["row", *there(*tables)])
    assert on_cpu[1:].tobytes() == on_cuda.get()[1:].tobytes()
    np.testing.assert_allclose(on_cpu[0], on_cuda.get()[0], rtol=1e-15)  # its weights are quotients of the device


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("scale", [1.0, 1e-40, 1e14, 1e17])
@pytest.mark.parametrize("rows", [2000, 1, 0])
def test_extremes_that_are_known_give_the_ranges_of_a_pass(monkeypatch, dtype, scale, rows):
    """Also with points that are not finite; a pass is needed where some finite points have no cell."""
    X, y, p = points(2000, 5, 4)
    X = (X * scale).astype(dtype)
    origin = np.nextafter(X[0].astype(np.float64), 0)
    X[[3, 9, 1999], [0, 1, 2]] = np.nan, np.inf, -np.inf
    X[5] = -0.0
    if rows < 2000:
        X[rows:] = np.nan
    spread = measure_columns(read_only(X), None)
    grid = cmfast.Grid(origin, np.array([0.7, 0.9, 1.1]) * min(scale, 1.0))
    given = {"origin": grid.origin, "inverse": grid.inverse, "n_classes": 5}
    passes, find = [], _keys._queue_index_ranges
    monkeypatch.setattr(_keys, "_queue_index_ranges", lambda points: (passes.append(1), find(points))[1])
    arrays = there(X, y, p)
    want, got = (dispatch.call("cell_counts", *arrays, **given, spread=known) for known in (None, spread))
    assert want[3:] == got[3:]
    assert [a.get().tobytes() for a in want[:2]] == [a.get().tobytes() for a in got[:2]]
    assert len(passes) == 1 + (rows == 0 or (rows > 1 and scale == 1e17))


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("at_a_time", [300, 1 << 25])
def test_the_points_of_a_grid_by_rule_are_passed_over_once_less(monkeypatch, at_a_time):
    X, y, p = points(700, 4, 9)
    monkeypatch.setattr(_cell_accumulator, "MOST_PART_POINTS", at_a_time)
    options = {"n_components": None, "on_failure": "ignore"}
    want = cmfast.geometric_confusion_matrix(X, y, p, **options)
    monkeypatch.setattr(_keys, "_RANGES", None)
    found = cmfast.geometric_confusion_matrix(*there(X, y, p), **options)
    assert_same(want.cells, found.cells)
    grids = there(X, y, p), {"factors": [0.5, 2.0], "origins": 2, **options}
    assert np.isfinite(cmfast.width_curve(*grids[0], **grids[1]).overlaps).all()


def sum_minima_slowly(keys, counts, q, half):
    """Add up the smaller height of every label and prediction, cell by cell, in integers without limits."""
    out, mask = {}, (1 << half) - 1
    for cell in np.unique(keys >> 2 * half):
        L, P = {}, {}
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            if key >> 2 * half == cell:
                i, j = key >> half & mask, key & mask
                L[i] = L.get(i, 0) + int(q[i, j]) * count
                P[j] = P.get(j, 0) + int(q[i, j]) * count
        for i, j in product(L, P):
            out[i, j] = out.get((i, j), 0) + min(L[i], P[j])
    return out


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("C", "sizes"),
    CELL_SIZES,
    ids=str,
)
def test_minima_of_cells_of_every_size(C, sizes, seed):
    """Cells for threads and for a block, within tiles of keys, across their ends, and longer than one."""
    keys, counts, (one, two), half = key_cells_of_sizes(C, sizes, seed)
    words = two.view(np.uint64).astype(object)
    for q, exact in ((one, one), (two, words[..., 0] + (words[..., 1] << 64))):
        want = np.zeros((C, C), object)
        for pair, x in sum_minima_slowly(keys, counts, exact, half).items():
            want[pair] = x
        with device.schedule(seed):
            got = _entries.sum_cell_minima(*there(keys, counts, q), half).get().view(np.uint64).astype(object)
        assert np.array_equal(got if q is one else got[..., 0] + (got[..., 1] << 64), want)


@pytest.mark.parametrize("room", [module.SHARED, 1116])
@pytest.mark.parametrize(
    ("C", "sizes"),
    CELL_SIZES,
    ids=str,
)
def test_shapes_of_cells_of_every_size(monkeypatch, C, sizes, room):
    """Also where predictions are looked for some at a time."""
    monkeypatch.setattr(counts_of_cells, "SHARED", room)
    keys, counts, _, half = key_cells_of_sizes(C, sizes, 2)
    cells, mask = {}, (1 << half) - 1
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        cells.setdefault(key >> 2 * half, []).append((key >> half & mask, key & mask, count))
    points = {cell: sum(count for *_, count in some) for cell, some in cells.items()}
    both = {cell: [len({one[side] for one in some}) for side in (0, 1)] for cell, some in cells.items()}
    pure = sum(points[cell] for cell in cells if len(cells[cell]) == 1)
    unmixed = sum(points[cell] for cell in cells if min(both[cell]) == 1)
    pairs = sum(a * b for a, b in both.values() if min(a, b) > 1)
    for seed in (0, 1, 2):
        with device.schedule(seed):
            found = dispatch.call("cell_shapes", *there(keys, counts), n_classes=C)
        sizes_found, number, totals = (part.get().tolist() for part in found)
        assert dict(zip(sizes_found, number, strict=True)) == Counter(points.values())
        assert totals == [len(cells), pure, unmixed, pairs]


@pytest.mark.parametrize("largest", [2**10, 2**24, 2**40])
def test_classes_of_many_points_take_two_words(monkeypatch, largest):
    """Weights of rows differ as numbers of points do: beyond four million of a class in one cell one word is short."""
    keys, counts, _, half = key_cells_of_sizes(6, [1, 30, 36, 7] * 3, 0)
    counts %= 999
    counts[::5] += largest
    M = np.zeros((6, 6), np.int64)
    np.add.at(M, (keys >> half & 7, keys & 7), counts)
    W = np.repeat(1.0 / M.sum(axis=1)[:, None], 6, axis=1)
    form = geometry_weights.choose_format(geometry_weights._summarize_weights(W, M))
    assert (form.width > 0) == (largest > 2**22)
    assert 63 <= form.bits <= 128
    want = dispatch.call("gcm", *map(read_only, (keys, counts, M, W)))
    monkeypatch.setattr(_run_length, "argsort", None)
    found = dispatch.call("gcm", *there(keys, counts, M, W))
    for one, other in zip(want, found, strict=True):
        assert one.tobytes() == device.host(other).tobytes()


def extremes(C):
    """Tables of weights: equal ones, no weights, sums too small for a normal number and too large for any."""
    rng = np.random.default_rng(C)
    ones, some = np.ones((C, C)), rng.random((C, C))
    zeros = ones * 0.0
    zeros[0] = -0.0
    return {
        "equal": ones * 0.3,
        "zero": ones * 0.0,
        "minus-zero": ones * -0.0,
        "zeros-of-both-signs": zeros,
        "some-zero": np.where(some < 0.5, 0.0, some),
        "denormal": some * 1e-310,
        "least": rng.integers(0, 3, (C, C)) * 5e-324,
        "two-words": 10.0 ** rng.uniform(-6, 6, (C, C)),
        "denormal-words": 10.0 ** rng.uniform(-323, -310, (C, C)),
        "denormal-limbs": 10.0 ** rng.uniform(-323, -280, (C, C)),
        "limbs": 10.0 ** rng.uniform(-323, 290, (C, C)),
        "large": some * 1e300,
        "too-large": ones * 1e308,
        "negative": some - 0.5,
        "nan": np.where(some < 0.1, np.nan, some),
        "infinite": np.where(some < 0.1, np.inf, some),
        "integers": rng.integers(0, 9, (C, C)),
        "float32": some.astype(np.float32),
    }


@pytest.mark.parametrize("name", extremes(6))
def test_weights_of_every_kind_have_the_bits_of_the_cpu(name):
    X, y, p = points(900, 6, 3)
    table, found = extremes(6)[name], []
    for make in (np.asarray, device.asarray):
        cells = cmfast.cell_counts(*map(make, (X, y, p)), grid=GRID)
        options = {"on_failure": "ignore"}
        M = cells.confusion_matrix()
        out = dispatch.call("gcm", cells._keys, cells.counts, M, make(table), make(extremes(6)["equal"]))
        sides = [getattr(cells, f"{side}_histogram")(make(table), **options) for side in ("label", "prediction")]
        found.append([*out, *(side.values for side in sides)])
    for one, other in zip(*found, strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, device.host(other).tobytes())


@pytest.mark.parametrize("width", [0.7, 1e-7])
def test_matrices_of_parts_have_the_bits_of_the_whole(width):
    X, y, p = points(900, 5)
    weights = ["row", *(10.0 ** np.random.default_rng(3).uniform(-e, e, (5, 5)) for e in (30, 6))]
    grid = cmfast.Grid(GRID.origin, GRID.width * width)
    cells = cmfast.cell_counts(X, y, p, grid=grid)
    parts = cmfast.cell_counts(*there(X, y, p), grid=grid).deal(3)
    assert [len(part) for part in parts] == [len(part) for part in cells.deal(3)]
    found = cmfast.gcm(parts, [weights[0], *there(*weights[1:])])
    assert found.get().tobytes() == cmfast.gcm(cells, weights).tobytes()


def test_columns_of_integers_are_added_up_side_by_side():
    X, y, _ = points(900, 5)
    weights = np.random.default_rng(4).integers(-(2**50), 2**50, (900, 3))
    options = {"origin": GRID.origin, "inverse": GRID.inverse, "n_groups": 5}
    found = dispatch.call("sparse_histogram", *there(X, weights, y), **options)
    want = dispatch.call("sparse_histogram", *map(read_only, (X, weights, y)), **options)
    for k in (0, 1):
        assert found[k].get().tobytes() == want[k].tobytes()
    alone = dispatch.call("sparse_histogram", *map(read_only, (X, weights[:, 1], y)), **options)
    assert want[1][:, 1].tolist() == alone[1].tolist()


def test_how_often_the_host_waits():
    """For numbers alone: which classes and cells there are, how many triples; how wide the integers must be; sizes."""
    X, y, p = there(*points(2000, 5))
    before = device.copied()
    with device.waits(2):
        cells = cmfast.cell_counts(X, y, p, grid=GRID)
    assert device.copied() - before < 100
    for weights in ("row", ["row", "col", "all"]):
        with device.waits(1):
            cmfast.gcm(cells, weights)
    with device.waits(2):
        dispatch.call("cell_shapes", cells._keys, cells.counts, n_classes=5)


def test_no_table_leaves_the_device():
    X, y, p = points(900, 50, 3)
    cells = cmfast.cell_counts(*there(X, y, p), grid=GRID, n_classes=50)
    M, tables = cells.confusion_matrix(), there(*extremes(50).values())
    before = device.copied()
    dispatch.call("gcm", cells._keys, cells.counts, M, *tables)
    dispatch.call("marginal_histogram", cells._keys, cells.counts, M, tables[8], n_classes=50, axis=0)
    assert device.copied() - before < 100 * len(tables)


@pytest.mark.parametrize("axis", ["label", "prediction"])
@pytest.mark.parametrize("exponent", [0, 30])
def test_histograms_of_classes_have_the_bits_of_the_cpu(axis, exponent):
    X, y, p = points(1500, 7, 5)
    rng = np.random.default_rng(6)
    table = 10.0 ** rng.uniform(-exponent, exponent, (7, 7)) * rng.random((7, 7))
    on_cpu, on_cuda = (cmfast.cell_counts(*some, grid=GRID) for some in ((X, y, p), there(X, y, p)))
    for weights, theirs in ((None, None), (table, device.asarray(table))):
        one = getattr(on_cpu, f"{axis}_histogram")(weights)
        other = getattr(on_cuda, f"{axis}_histogram")(theirs)
        for name in ("cells", "groups", "values"):
            assert getattr(one, name).tobytes() == getattr(other, name).get().tobytes()


def test_overlaps_of_counts_have_the_bits_of_the_cpu():
    X, y, p = points(1500, 70, 7)
    found = []
    for make in (np.asarray, device.asarray):
        a, b = (cmfast.sparse_histogram(make(X), grid=GRID, groups=make(g)) for g in (y, p % 50))
        found.append(cmfast.min_overlap(a, b))
    assert found[0].tobytes() == found[1].get().tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_grids_have_the_bits_of_the_cpu(dtype):
    X = (points(2500, 3, 8)[0] * 100).astype(dtype)
    for rule in ("scott", "freedman_diaconis"):
        assert getattr(cmfast.Grid, rule)(X) == getattr(cmfast.Grid, rule)(device.asarray(X))
    assert cmfast.Grid.regular(X, bins=7) == cmfast.Grid.regular(device.asarray(X), bins=7)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("n_components", [None, 2])
def test_from_embeddings_to_diagnostics(n_components):
    X, y, p = points(1500, 4, 9)
    X[7, 1] = np.nan
    options = {"weights": ["all", "row"], "n_components": n_components, "on_failure": "ignore"}
    on_cpu = cmfast.geometric_confusion_matrix(X, y, p, **options)
    on_cuda = cmfast.geometric_confusion_matrix(*there(X, y, p), **options)
    assert on_cuda.cells.n_dropped == 1
    if n_components is None:  # a projection may move a point on an edge
        assert_same(on_cpu.cells, on_cuda.cells)
    np.testing.assert_allclose(on_cuda.matrix.get(), on_cpu.matrix, rtol=1e-2)
    np.testing.assert_allclose(on_cuda.diagnostics.overlap, on_cpu.diagnostics.overlap, rtol=1e-2)
    assert "in unmixed cells" in str(on_cuda.diagnostics)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("n_classes", [None, 2])
@pytest.mark.parametrize("weights", ["row", ["all", "col"], []], ids=str)
def test_no_points_are_an_answer(weights, n_classes):
    """As on the CPU: zeros, and what the diagnostics cannot say is NaN."""
    X, y = there(np.empty((0, 2)), np.empty(0, np.int64))
    grid = cmfast.Grid([0.0] * 2, [1.0] * 2)
    options = {"weights": weights, "n_classes": n_classes, "n_components": None, "grid": grid}
    matrix, cells, d = cmfast.geometric_confusion_matrix(X, y, y, **options)
    lead, C = (len(weights),) if isinstance(weights, list) else (), n_classes or 0
    assert matrix.get().tolist() == np.zeros((*lead, C, C)).tolist()
    assert (d.n_points, d.n_cells) == (0, 0)
    for name in ("singleton_fraction", "overlap", "guaranteed", "null_overlap", "position", "pattern"):
        assert np.isnan(getattr(d, name)).all(), name
    assert not cells.confusion_matrix().get().any()
    assert np.isnan(cmfast.width_curve(X, y, y, origins=2, **options).overlaps).all()


@pytest.mark.parametrize("scale", [2.0**1020, 2.0**500, 2.0**-500, 2.0**-960, 2.0**-1000])
def test_columns_at_the_ends_of_float64(scale):
    """Where squares of coordinates leave float64, and where the reciprocals of ranges do."""
    X = (np.random.default_rng(0).random((700, 3)) - 0.5) * [1.0, 2.0, 3.0] * scale
    X[5] = np.nan
    (X_there,) = there(X)
    options = {"on_failure": "ignore"}
    assert cmfast.Grid.scott(X_there, **options) == cmfast.Grid.scott(X, **options)
    here, on_device = (cmfast.pca(x, 2, **options) for x in (X, X_there))
    for mine, yours in zip(here, on_device, strict=True):
        np.testing.assert_allclose(yours.get() / np.abs(mine).max(), mine / np.abs(mine).max(), atol=1e-10)
    np.testing.assert_allclose(on_device.transform(X_there).get() / scale, here.transform(X) / scale, atol=1e-10)


def test_projected_beyond_float64():
    """Infinite where the result is, and only there."""
    X = np.full((3, 4), 1.7e308)
    X[0], X[1] = -1.7e308, 0.0
    (X_there,) = there(X)
    axes = cmfast.pca(X_there, 1)
    assert axes.transform(X_there).get()[:, 0].tolist() == [-np.inf, 0.0, np.inf]
    np.testing.assert_allclose(axes.transform(X_there / 4).get()[:, 0], [-8.5e307, 0.0, 8.5e307], rtol=1e-15)


def test_overlaps_beyond_float64():
    """RANGE for them alone, as on the CPU."""
    (X, groups, weights) = there(
        np.array([[0.5], [5.5], [0.5], [0.5]]), np.array([0, 0, 1, 2]), np.array([1.7e308, 1.7e308, 1e300, np.nan])
    )
    h = cmfast.sparse_histogram(X, grid=cmfast.Grid([0.0], [1.0]), groups=groups, weights=weights, on_failure="ignore")
    with pytest.warns(cmfast.FailureWarning, match=r"6 of 9 overlaps not computed .*: 5 INVALID, 1 RANGE"):
        found = cmfast.min_overlap(h, h).get()
    np.testing.assert_array_equal(found, [[np.nan, 1e300, np.nan], [1e300, 1e300, np.nan], [np.nan] * 3])


@pytest.mark.parametrize("size", [2**16, 2**33, 2**50])
def test_counts_of_more_than_32_bits_are_added_up(size):
    """In shared memory they are two halves."""
    rng = np.random.default_rng(3)
    keys, counts = rng.integers(0, 16, 3000), rng.integers(0, size, 3000)
    want = np.zeros(16, np.int64)
    np.add.at(want, keys, counts)
    got = dispatch.call("pair_counts", *there(keys, counts), n_classes=4)
    assert got.get().ravel().tolist() == want.tolist()


def test_axes_of_a_stream_on_a_device():
    X = np.random.default_rng(0).normal(size=(90, 4)) * [4, 3, 2, 1]
    X[7, 1] = np.nan
    here, on_device = cmfast.PcaAccumulator(), cmfast.PcaAccumulator()
    for part in np.split(X, 3):
        here.update(part, on_failure="ignore")
        on_device.update(device.asarray(part), on_failure="ignore")
    assert (on_device.n_points, on_device.n_dropped) == (89, 1)
    for one, other in zip(here.projection(2), on_device.projection(2), strict=True):
        assert isinstance(other, type(device.asarray(X)))
        np.testing.assert_allclose(other.get(), one, rtol=1e-9, atol=1e-12)
    both = cmfast.PcaAccumulator().add(here).add(on_device)
    assert both.n_points == 178
