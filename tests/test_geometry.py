"""Geometry: same bits however the points come, grids, files, errors, diagnostics."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from checks import assert_same_bits

import cmfast

WEIGHTS = ["all", "row", "col"]


def points(n, m, n_classes, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    p = np.where(rng.random(n) < 0.7, y, rng.integers(0, n_classes, n))
    return rng.normal(size=(n, m)) + spread * np.sin(np.arange(m) + y[:, None]), y, p


def parts(cells):
    return cells.cells, cells.labels, cells.predictions, cells.counts


@pytest.mark.parametrize(
    ("n", "m", "dtype"), [(200_000, 4, np.float32), (60_000, 10, np.float64), (30_000, 3, np.int16)]
)
def test_same_bits_for_any_number_of_threads(n, m, dtype):
    X, y, p = points(n, m, 12, 1)
    X = (X * 100).astype(dtype) if dtype is np.int16 else X.astype(dtype)
    w = np.random.default_rng(2).normal(size=n)

    def everything(threads):
        options = {"num_threads": threads}
        grid = cmfast.Grid.scott(X, **options)
        cells = cmfast.cell_counts(X, y, p, grid=grid, **options)
        h = cmfast.sparse_histogram(X, grid=grid, weights=w, groups=y, **options)
        G = cmfast.gcm(cells, [*WEIGHTS, np.arange(144.0).reshape(12, 12)], **options)
        return grid.origin, grid.width, *parts(cells), h.cells, h.groups, h.values, G

    first = everything(1)
    for threads in (2, 5, 8):
        assert_same_bits(first, everything(threads))


@pytest.mark.parametrize(("m", "scale"), [(3, 1.0), (9, 1e9)])
def test_same_bits_for_any_parts_merged_in_any_tree(m, scale):
    X, y, p = points(400, m, 5, 3)
    X *= scale
    grid = cmfast.Grid([0.0] * m, [0.7] * m)
    whole = cmfast.cell_counts(X, y, p, grid=grid, n_classes=5)
    rng = np.random.default_rng(4)
    for _ in range(8):
        order = rng.permutation(len(X))
        heap = [
            cmfast.cell_counts(X[i], y[i], p[i], grid=grid, n_classes=5)
            for i in np.split(order, np.sort(rng.integers(0, len(X), 6)))
        ]
        while len(heap) > 1:
            a, b = (heap.pop(rng.integers(len(heap))) for _ in range(2))
            heap.append(a + b)
        assert_same_bits(parts(heap[0]), parts(whole))
        assert heap[0].bins == whole.bins
        assert_same_bits(cmfast.gcm(heap[0], WEIGHTS), cmfast.gcm(whole, WEIGHTS))
    assert len(sum([whole])) == len(whole)


def test_the_matrix_is_the_one_of_the_labels():
    X, y, p = points(500, 3, 6, 5)
    cells = cmfast.cell_counts(X, y, p, grid=cmfast.Grid.scott(X))
    assert_same_bits(cells.confusion_matrix(), cmfast.confusion_matrix(y, p, n_classes=6))


def test_a_name_is_its_table_bit_by_bit():
    X, y, p = points(2000, 3, 6, 6)
    cells = cmfast.cell_counts(X, y, p, grid=cmfast.Grid.scott(X))
    M = cells.confusion_matrix()
    for name, options in (("all", {}), ("row", {}), ("col", {}), ("bi", {"smoothing": 0.5})):
        table = cmfast.importance_weights(M, name, **options)
        assert_same_bits(cmfast.gcm(cells, name, **options), cmfast.gcm(cells, table))


def test_weights_that_do_not_exist_name_smoothing():
    cells = cmfast.cell_counts([[0.0], [1.0], [2.0]], [0, 0, 1], [0, 1, 1], grid=cmfast.Grid([0.0], [1.0]))
    with pytest.warns(cmfast.FailureWarning, match="smoothing="):
        G = cmfast.gcm(cells, ["row", "bi"])
    assert np.isfinite(G[0]).all()
    assert np.isnan(G[1]).all()
    assert np.isfinite(cmfast.gcm(cells, "bi", smoothing=0.1)).all()
    with pytest.raises(cmfast.FailureError, match="smoothing="):
        _ = cmfast.gcm(cells, "bi", on_failure="raise")


def test_min_overlap_of_the_histograms_is_the_gcm():
    X, y, p = points(3000, 3, 4, 7)
    cells = cmfast.cell_counts(X, y, p, grid=cmfast.Grid.scott(X))
    counts = cmfast.min_overlap(cells.label_histogram(), cells.prediction_histogram())
    np.testing.assert_array_equal(counts, cmfast.gcm(cells, np.ones((4, 4))))
    rows = cmfast.min_overlap(cells.label_histogram("row"), cells.prediction_histogram("row"))
    np.testing.assert_allclose(rows, cmfast.gcm(cells, "row"), rtol=1e-14)


@pytest.mark.parametrize("bins", [3, (4, 2, 7)])
def test_agrees_with_histogramdd(bins):
    X, _, _ = points(1000, 3, 4, 8)
    grid = cmfast.Grid.regular(X, bins=bins)
    h = cmfast.sparse_histogram(X, grid=grid)
    many = (bins,) * 3 if isinstance(bins, int) else bins
    edges = [grid.origin[d] + grid.width[d] * np.arange(many[d] + 1) for d in range(3)]
    want, _ = np.histogramdd(X, edges)
    got = np.zeros(many)
    got[tuple(h.cells.T)] = h.values
    np.testing.assert_array_equal(got, want)


def test_scott_is_the_rule():
    X, _, _ = points(5000, 4, 3, 9)
    grid = cmfast.Grid.scott(X)
    np.testing.assert_allclose(grid.width, 3.5 * X.std(axis=0) * 5000 ** (-1 / 6), rtol=1e-6)
    np.testing.assert_array_equal(grid.origin, X.min(axis=0))
    assert grid == cmfast.Grid.scott(X[::-1])
    assert cmfast.Grid.scott(X, n=10).width[0] > grid.width[0]
    quartiles = np.quantile(X, [0.25, 0.75], axis=0)
    wanted = 2 * (quartiles[1] - quartiles[0]) * 5000 ** (-1 / 6)
    np.testing.assert_allclose(cmfast.Grid.freedman_diaconis(X).width, wanted, rtol=1e-6)


def test_scott_resolves_what_lies_beside_an_outlier():
    x = np.concatenate([np.zeros(9999), [1e12]])[:, None]
    np.testing.assert_allclose(cmfast.Grid.scott(x).width, 3.5 * x.std() * 10_000 ** (-1 / 3), rtol=1e-3)


def test_constant_axis_and_flat_quartiles():
    X = np.zeros((100, 2))
    X[:5, 0] = np.arange(5)
    assert cmfast.Grid.scott(X).width[1] == 1.0
    with pytest.warns(cmfast.DiagnosticWarning, match="axis 0"):
        grid = cmfast.Grid.freedman_diaconis(X)
    assert grid == cmfast.Grid.scott(X)


def test_occupancy_gives_the_points_per_cell():
    X, _, _ = points(50_000, 3, 3, 10)
    grid = cmfast.Grid.occupancy(X, 20)
    n = cmfast.sparse_histogram(X, grid=grid).values
    assert (n * n).sum() / n.sum() == pytest.approx(20, rel=0.05)


def test_grid_refuses_what_is_no_grid():
    for origin, width, text in (
        ([0.0], [0.0], "above 0"),
        ([0.0], [-1.0], "above 0"),
        ([0.0], [1e-320], "reciprocal"),
        ([np.nan], [1.0], "finite"),
        ([0.0, 1.0], [1.0], "as long as origin"),
        ([], [], "at least one axis"),
    ):
        with pytest.raises(ValueError, match=text):
            _ = cmfast.Grid(origin, width)
    grid = cmfast.Grid([0.0], [1.0])
    with pytest.raises(AttributeError):
        grid.width = 3
    assert pickle.loads(pickle.dumps(grid)) == grid
    assert {grid: 1}[cmfast.Grid([0.0], [1.0])] == 1
    assert grid.scaled(2) != grid
    assert grid.shifted(0.5).origin[0] == -0.5
    with pytest.raises(ValueError, match="finite row"):
        _ = cmfast.Grid.scott(np.empty((0, 2)))


@pytest.mark.parametrize("bins", [2.5, None, "abc", [1, 2.0, 3], {4}])
def test_bins_are_numbers(rng, bins):
    with pytest.raises(TypeError, match=r"Grid.regular: bins must be an integer"):
        cmfast.Grid.regular(rng.random((9, 3)), bins=bins)


@pytest.mark.parametrize(("fraction", "error"), [("half", TypeError), (None, TypeError), (np.nan, ValueError)])
def test_a_shift_is_a_number(fraction, error):
    with pytest.raises(error, match=r"Grid.shifted: fraction must be"):
        cmfast.Grid([0.0], [1.0]).shifted(fraction)


def test_labels_outside_are_counted_and_named():
    grid = cmfast.Grid([0.0], [1.0])
    with pytest.raises(ValueError, match=r"y_pred must be in 0\.\.1, got 2 outside \(first: 2 at 0, -1 at 2\)"):
        _ = cmfast.cell_counts([[0.0]] * 3, [0, 1, 1], [2, 1, -1], grid=grid, n_classes=2)
    with pytest.raises(ValueError, match="y_true must be at least 0"):
        _ = cmfast.cell_counts([[0.0]], [-3], [0], grid=grid)
    with pytest.raises(TypeError, match="integers"):
        _ = cmfast.cell_counts([[0.0]], [0.0], [0], grid=grid)
    with pytest.raises(ValueError, match="1 axes"):
        _ = cmfast.cell_counts([[0.0, 1.0]], [0], [0], grid=grid)
    with pytest.raises(ValueError, match="one entry per point"):
        _ = cmfast.cell_counts([[0.0]], [0, 1], [0], grid=grid)


def test_a_bad_row_moves_no_other_point():
    X, y, p = points(5000, 3, 4, 11)
    bad = np.insert(X, 17, [np.nan, 1e300, 0.0], axis=0)
    with pytest.warns(cmfast.FailureWarning, match="1 of 5001 points left out") as caught:
        result = cmfast.geometric_confusion_matrix(
            bad, np.insert(y, 17, 3), np.insert(p, 17, 0), weights=WEIGHTS, n_components=None
        )
    assert len([w for w in caught if w.category is cmfast.FailureWarning]) == 1
    assert result.diagnostics.n_dropped == 1
    clean = cmfast.cell_counts(X, y, p, grid=cmfast.Grid.scott(X))
    assert_same_bits(parts(result.cells), parts(clean))


def test_unequal_counts_do_not_merge():
    a, b = (cmfast.cell_counts([[0.0]], [0], [0], grid=cmfast.Grid([0.0], [h])) for h in (1.0, 2.0))
    with pytest.raises(ValueError, match="grid"):
        _ = a + b
    c = cmfast.cell_counts([[0.0]], [0], [0], grid=a.grid, n_classes=3)
    with pytest.raises(ValueError, match="n_classes"):
        _ = a + c


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_a_file_holds_the_counts(tmp_path, scale):
    X, y, p = points(200, 9, 4, 12)
    cells = cmfast.cell_counts(X * scale, y, p, grid=cmfast.Grid([0.1] * 9, [0.3] * 9))
    cells.save(tmp_path / "cells.npz")
    loaded = cmfast.CellCounts.load(tmp_path / "cells.npz")
    assert_same_bits(parts(loaded), parts(cells))
    assert (loaded.grid, loaded.n_classes, loaded.bins) == (cells.grid, cells.n_classes, cells.bins)
    copy = pickle.loads(pickle.dumps(cells))
    assert_same_bits(parts(copy + loaded), parts(cells + cells))


def test_saving_that_fails_leaves_the_older_file(tmp_path, monkeypatch):
    cells = cmfast.cell_counts([[0.1], [3.0]], [0, 1], [0, 1], grid=cmfast.Grid([0.0], [1.0]))
    cells.save(tmp_path / "cells.npz")
    before = (tmp_path / "cells.npz").read_bytes()

    def full(file, **_):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        cells.save(tmp_path / "cells.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["cells.npz"]
    assert (tmp_path / "cells.npz").read_bytes() == before


def test_a_damaged_file_is_refused(tmp_path):
    X, y, p = points(50, 2, 3, 13)
    path = tmp_path / "cells.npz"
    cmfast.cell_counts(X, y, p, grid=cmfast.Grid.scott(X)).save(path)
    with np.load(path) as file:
        good = dict(file)
    damage = {
        "format": np.int64(99),
        "keys": good["keys"][::-1],
        "counts": -good["counts"],
        "n_classes": np.int64(2),
        "extent": np.array([1, 1]),
        "width": np.zeros(2),
        "low": np.array([0]),
    }
    for name, value in damage.items():
        np.savez(path, **{**good, name: value})
        with pytest.raises(ValueError, match=r"CellCounts\.load"):
            _ = cmfast.CellCounts.load(path)
    np.savez(path, **{k: v for k, v in good.items() if k != "keys"})
    with pytest.raises(ValueError, match="damaged"):
        _ = cmfast.CellCounts.load(path)
    path.write_bytes(b"no zip at all")
    with pytest.raises(ValueError, match="not a file of cell counts"):
        _ = cmfast.CellCounts.load(path)


def test_the_null_is_that_of_permuted_labels():
    X, y, p = points(3000, 2, 4, 14, spread=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        found = cmfast.geometric_confusion_matrix(X, y, p, weights=["all", "row"], n_components=None)
        rng = np.random.default_rng(15)
        overlaps = []
        for _ in range(40):
            i = rng.permutation(len(y))
            shuffled = cmfast.geometric_confusion_matrix(
                X, y[i], p[i], weights=["all", "row"], n_components=None, grid=found.cells.grid
            )
            overlaps.append(shuffled.diagnostics.overlap)
    d = found.diagnostics
    np.testing.assert_allclose(d.null_overlap, np.mean(overlaps, axis=0), atol=0.01)
    assert (np.std(overlaps, axis=0) < 3 * d.null_sd).all()
    assert (d.null_sd < 5 * np.std(overlaps, axis=0)).all()


def test_diagnostics_are_of_the_cells():
    X, y, p = points(4000, 3, 4, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        matrix, cells, d = cmfast.geometric_confusion_matrix(X, y, p, weights="row", n_components=2)
    assert d.n_points == 4000
    sizes, number = d.occupancy
    assert (sizes * number).sum() == 4000
    assert number.sum() == d.n_cells == len(np.unique(cells.cells, axis=0))
    assert d.largest_cell == sizes.max()
    assert d.guaranteed <= d.overlap <= 1
    assert (d.normalized <= matrix).all()
    assert (matrix <= d.upper).all()
    np.testing.assert_allclose(d.normalized, cmfast.normalize(cells.confusion_matrix(), "row"), rtol=1e-14)
    assert 0 <= d.position <= 1
    assert "overlap" in str(d)


@pytest.mark.parametrize("n", [1, 300])
def test_points_that_are_all_alone(n):
    X, y, p = points(n, 10, 3, 21)
    grid = cmfast.Grid([0.0] * 10, [1e-3] * 10)
    with pytest.warns(cmfast.DiagnosticWarning, match="not above that of permuted labels"):
        _, cells, d = cmfast.geometric_confusion_matrix(X, y, p, weights="row", n_components=None, grid=grid)
    assert d.n_cells == len(cells) == n
    assert d.singleton_fraction == d.guaranteed == d.overlap == d.null_overlap == 1
    assert d.null_sd == 0


@pytest.mark.parametrize("weights", [np.full((3, 3), 1e308), np.diag([1e308, 1.0, 2.0]) + 1])
def test_weights_too_large_for_their_sums(weights):
    X, y, p = points(300, 2, 3, 22)
    cells = cmfast.cell_counts(X, y, p, grid=cmfast.Grid.scott(X))
    with pytest.warns(cmfast.FailureWarning, match="too large"):
        assert np.isnan(cmfast.gcm(cells, weights)).all()


def test_weightings_that_are_none_are_refused():
    X, y, p = points(30, 2, 3, 23)
    cells = cmfast.cell_counts(X, y, p, grid=cmfast.Grid.scott(X))
    with pytest.raises(TypeError, match="gcm: weights must be an array, got None"):
        cmfast.gcm(cells, None)
    with pytest.raises(TypeError, match="got cells from numpy, weights from torch"):
        cmfast.gcm(cells, torch.ones(3, 3))
    with pytest.raises(TypeError, match="weights must be one name or one table, got a list"):
        cells.label_histogram(["row", "col"])
    with pytest.raises(ValueError, match=r"^gcm: smoothing must be finite and above 0, got -1"):
        cmfast.gcm(cells, "row", smoothing=-1)


def test_says_once_why_the_agreement_says_little():
    X, y, p = points(500, 10, 4, 17)
    with pytest.warns(cmfast.DiagnosticWarning, match="by construction") as caught:
        result = cmfast.geometric_confusion_matrix(X, y, p, weights="row")
    assert len(caught) == 1
    assert result.diagnostics.guaranteed > 0.8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        assert_same_bits(cmfast.geometric_confusion_matrix(X, y, p, weights="row").matrix, result.matrix)


@pytest.mark.parametrize("seed", [0, np.random.default_rng(3)])
def test_rng_seeds_the_null_alone(seed):
    X, y, p = points(2000, 2, 3, 18)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        a, b = (cmfast.geometric_confusion_matrix(X, y, p, weights="all", rng=r) for r in (seed, 7))
    assert_same_bits(a.matrix, b.matrix)
    assert a.diagnostics.null_overlap != b.diagnostics.null_overlap


def test_axes_of_rounding_are_left_out():
    X, y, p = points(1000, 2, 3, 19)
    wide = X @ np.random.default_rng(20).normal(size=(2, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        cells = cmfast.geometric_confusion_matrix(wide, y, p, weights="row").cells
    assert cells.grid.n_axes == 2


def test_progress_ends_with_all_points(rng):
    X, y = rng.random((50_000, 3)), rng.integers(0, 3, 50_000)
    grid = cmfast.Grid.scott(X)
    for call in (
        lambda report: cmfast.cell_counts(X, y, y, grid=grid, progress=report),
        lambda report: cmfast.sparse_histogram(X, grid=grid, progress=report),
        lambda report: cmfast.geometric_confusion_matrix(X, y, y[::-1], weights="row", progress=report),
    ):
        seen = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
            call(lambda done, total, seen=seen: seen.append((done, total)))
        assert seen[-1] == (50_000, 50_000)
        assert all(0 <= done <= total == 50_000 for done, total in seen)


def test_points_that_are_too_many_for_memory_give_the_same(monkeypatch):
    X, y, p = points(3_000, 6, 4, 8)
    X[[100, 2_500]] = np.nan
    options = {"weights": WEIGHTS, "n_components": 3, "on_failure": "ignore"}

    def everything():
        result = cmfast.geometric_confusion_matrix(X, y, p, **options)
        return *parts(result.cells), result.matrix, result.diagnostics.null_overlap, result.cells.n_dropped

    want = everything()
    monkeypatch.setattr("cmfast._accumulator.PART", 700)
    monkeypatch.setattr("cmfast._projection.MOST_PROJECTED", 10_000)
    for a, b in zip(everything(), want, strict=True):
        assert_same_bits(a, b)
    y[2_999] = -1
    with pytest.raises(ValueError, match=r"y_true must be in 0\.\.3, got 1 outside \(first: -1 at 2999\)"):
        cmfast.geometric_confusion_matrix(X, y, p, **options)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("weights", ["row", ["all", "col"]])
def test_width_curve_is_the_function_at_every_grid(weights):
    X, y, p = points(2_000, 5, 4, 9)
    curve = cmfast.width_curve(X, y, p, factors=(1, 2), origins=3, weights=weights, n_components=3)
    grid = cmfast.Grid.scott(cmfast.pca(X, 3).transform(X))
    for f, factor in enumerate((1, 2)):
        at = [
            cmfast.geometric_confusion_matrix(
                X, y, p, weights=weights, n_components=3, grid=grid.scaled(factor).shifted(k / 3)
            ).diagnostics
            for k in range(3)
        ]
        overlaps = np.array([d.overlap for d in at])
        assert_same_bits(curve.overlaps[f], overlaps)
        assert_same_bits(np.asarray(curve.origin_spread[f]), np.asarray(overlaps.max(axis=0) - overlaps.min(axis=0)))
        assert curve.diagnostics[f].n_cells == at[0].n_cells
        np.testing.assert_array_equal(curve.diagnostics[f].guaranteed, at[0].guaranteed)
    lines = str(curve).splitlines()
    assert len(lines) == 1 + 2 * np.size(weights)
    assert len(set(map(len, lines))) == 1, "columns stand under their heads"


def test_width_curve_refuses_what_is_no_width():
    X, y, p = points(100, 2, 2, 9)
    with pytest.raises(ValueError, match="width_curve: factors must be"):
        cmfast.width_curve(X, y, p, factors=(1, 0))
    with pytest.raises(ValueError, match="factors must be at least one number"):
        cmfast.width_curve(X, y, p, factors=())
    with pytest.raises(ValueError, match="origins must be"):
        cmfast.width_curve(X, y, p, origins=0)
