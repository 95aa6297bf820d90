"""Geometry: same bits however the points come, grids, files, errors, diagnostics."""

import copy
import io
import itertools
import os
import pickle
import re
import warnings
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast

WEIGHTS = ["all", "row", "col"]


def points(n, m, n_classes, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    p = np.where(rng.random(n) < 0.7, y, rng.integers(0, n_classes, n))
    return rng.normal(size=(n, m)) + spread * np.sin(np.arange(m) + y[:, None]), y, p


def parts(cells):
    return cells.cells, cells.labels, cells.predictions, cells.counts


@pytest.mark.exhaustive
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
    cells = cmfast.cell_counts([[0.0], [1.0], [2.0]], [0, 0, 0], [0, 1, 1], grid=cmfast.Grid([0.0], [1.0]))
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


@pytest.mark.exhaustive
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

    def full(file, arrays):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cmfast._files.output.write_npz", full)
    with pytest.raises(OSError, match="No space left"):
        cells.save(tmp_path / "cells.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["cells.npz"]
    assert (tmp_path / "cells.npz").read_bytes() == before


def archive(path, parts_, method=zipfile.ZIP_STORED):
    """Write an npz file whose entries are bytes or arrays, with right checksums."""
    with zipfile.ZipFile(path, "w", method) as file:
        for name, value in parts_.items():
            buffer = io.BytesIO(value if isinstance(value, bytes) else b"")
            if not isinstance(value, bytes):
                np.save(buffer, value)
            file.writestr(name if "." in name else f"{name}.npy", buffer.getvalue())


@pytest.fixture(params=["radix", "ranks"])
def saved(request, tmp_path):
    """Return counts, the file that they were saved to, and the arrays in it."""
    m, scale = (2, 1.0) if request.param == "radix" else (9, 1e9)
    X, y, p = points(6, m, 3, 13)
    cells = cmfast.cell_counts(X * scale, y, p, grid=cmfast.Grid([0.1] * m, [0.3] * m))
    assert (cells._table is None) == (request.param == "radix")
    path = tmp_path / "cells.npz"
    cells.save(path)
    with np.load(path) as file:
        return cells, path, dict(file)


def assert_refused(path, text=""):
    with pytest.raises(ValueError, match=r"^CellCounts\.load: ") as caught:
        cmfast.CellCounts.load(path)
    assert type(caught.value) is ValueError
    assert str(path) in str(caught.value)
    assert re.search(text, str(caught.value)), str(caught.value)


def test_contradictions_in_a_file_are_refused(saved):
    _, path, good = saved
    m, keys, counts = len(good["width"]), good["keys"], good["counts"]
    last = np.iinfo(np.int64).max
    damage = {
        "class": [np.frombuffer(text, np.uint8) for text in (b'"Grid"', b"CellCounts", b"[" * 9999, b"", b"\xff")],
        "format": [np.int64(99), np.float64(1), np.array([1]), np.array("1")],
        "origin": [np.full(m, np.nan), np.zeros(m + 1), np.zeros((1, m)), np.zeros(m, np.float32), np.zeros(m, ">f8")],
        "width": [np.zeros(m), -good["width"], np.full(m, np.inf), np.full(m, 1e-320), np.zeros(0)],
        "n_classes": [np.int64(2), np.int64(-1), np.int64(2**40), np.int64(last), np.int64(0)],
        "n_dropped": [np.int64(-1), np.int64(2**61), np.float64(0)],
        "low": [good["low"] * 0 - 2**60, good["low"] * 0 + last, good["low"][:1], good["low"].astype(np.int32)],
        "extent": [good["extent"] * 0, -good["extent"], good["extent"] * 0 + last, good["extent"] * 0 + 1],
        "keys": [keys[::-1], keys * 0, keys - last, -keys, keys[:-1], np.append(keys[:-1], last), keys.astype("u8")],
        "counts": [-counts, counts * 0, counts * 0 + last, counts * 0 + 2**60, counts[:-1], counts.astype(np.float64)],
    }
    if "table" in good:
        table = good["table"]
        damage["table"] = [table[::-1], table[:1], table[:, 1:], table * 0, table.astype("f8"), table + 1, table[0]]
    else:
        damage["table"] = [np.zeros((1, m), np.int64), np.zeros((0, m), np.int8)]
    for name, values in damage.items():
        for value in values:
            archive(path, {**good, name: value})
            assert_refused(path)
    for name in good:
        archive(path, {key: value for key, value in good.items() if key != name})
        assert_refused(path)


def npy(header, data=b"", version=b"\1\0"):
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


def test_foreign_and_hostile_files_are_refused(saved):
    _, path, good = saved
    header = "{'descr': '<i8', 'fortran_order': False, 'shape': (%s,), }\n"
    entries = {
        "a pickle": npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", b"cos\nsystem\n(S'true'\ntR."),
        "a shape of exabytes": npy((header % 2**60).encode(), b"12345678"),
        "a shape beyond int64": npy((header % 2**64).encode(), b"12345678"),
        "a shape below zero": npy((header % -1).encode(), b"12345678"),
        "no dtype": npy(b"{'descr': 'x', 'fortran_order': False, 'shape': (1,), }\n"),
        "nested brackets": npy(b"(" * 60_000),
        "an expression": npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (9**9**9,), }\n"),
        "no header": b"\x93NUMPY",
        "another version": npy((header % 1).encode(), b"12345678", b"\7\0"),
        "nothing": b"",
        "text": b"1, 2, 3",
    }
    for entry in entries.values():
        archive(path, {**good, "keys": entry})
        assert_refused(path, "keys")
    archive(path, {**good, "more": np.zeros(3)})
    assert_refused(path, "it has 'more'")
    archive(path, {**good, "readme.txt": b"hello"})
    assert_refused(path, "not all of it are arrays")
    archive(path, {**good, "counts": np.zeros(10**7, np.int64)}, zipfile.ZIP_DEFLATED)
    assert_refused(path, "is compressed")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("keys.npy", b"")
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("keys.npy", b"")
    assert_refused(path, "one name")
    for data in (b"no zip at all", b"", b"PK\x05\x06" + bytes(18), b"PK\x03\x04", pickle.dumps(5), npy(b"{}")):
        path.write_bytes(data)
        assert_refused(path)


def outcome(path):
    """Return what loading says, or the counts."""
    try:
        return cmfast.CellCounts.load(path)
    except ValueError as error:
        return error


def assert_refused_or_the_same(path, cells):
    found = outcome(path)
    if isinstance(found, cmfast.CellCounts):
        assert_same_bits(parts(found), parts(cells))
        assert (found.grid, found.n_classes, found.n_dropped) == (cells.grid, cells.n_classes, cells.n_dropped)
        return
    assert type(found) is ValueError
    assert str(found).startswith(f"CellCounts.load: path {path} holds no CellCounts, or is damaged: ")


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_damaged_bytes_are_found_or_harmless(saved, step):
    cells, path, _ = saved
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in range(0, len(whole), step):
        for value in (whole[place] ^ (1 << int(rng.integers(8))), int(rng.integers(256))):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            assert_refused_or_the_same(path, cells)
    for length in range(0, len(whole), 3 * step):
        path.write_bytes(whole[:length])
        assert_refused(path)
    for _ in range(1000 // step):
        a, b, c = np.sort(rng.integers(0, len(whole), 3))
        path.write_bytes(whole[:a] + whole[b:c] + whole[a:])
        assert_refused_or_the_same(path, cells)


def test_what_is_no_path_is_refused(saved):
    cells, path, _ = saved
    for bad in (5, None, ["x"]):
        with pytest.raises(TypeError, match=r"^CellCounts\.load: path must be a str or path, or a file of bytes, got"):
            cmfast.CellCounts.load(bad)
        with pytest.raises(TypeError, match=r"^CellCounts\.save: path must be a str or path, or a file of bytes, got"):
            cells.save(bad)
    with pytest.raises(ValueError, match=r"^CellCounts\.load: path must be without NUL"):
        cmfast.CellCounts.load("a\0b")
    with pytest.raises(FileNotFoundError):
        cmfast.CellCounts.load(path.parent / "none.npz")
    with pytest.raises(IsADirectoryError):
        cmfast.CellCounts.load(path.parent)


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
    assert "fewer axes, as n_components=2 or 3, or wider cells, as grid=cmfast.Grid.scott(" in str(caught[0].message)
    assert result.diagnostics.guaranteed > 0.8
    found = result.diagnostics
    cells = f"500 points in {found.n_cells} cells on 10 axes, {found.singleton_fraction:.0%} alone in theirs; take"
    assert cells in found.explain()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        assert_same_bits(cmfast.geometric_confusion_matrix(X, y, p, weights="row").matrix, result.matrix)


def test_says_what_to_change_where_cells_are_full_or_few():
    y = np.repeat([0, 1], 500)
    X = np.random.default_rng(0).normal(size=(1000, 1)) + 100 * y[:, None]
    with pytest.warns(cmfast.DiagnosticWarning) as caught:
        cmfast.geometric_confusion_matrix(X, y, y, weights="row", grid=cmfast.Grid([0.0], [0.5]), n_components=None)
    text = str(caught[0].message)
    alone = "on 1 axis, 0% alone in theirs: the classes are separated there; to make them overlap anyway take wider"
    assert alone in text
    assert "occupied cells (take more axes by n_components=, or narrower cells by grid=)" in text


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


@pytest.mark.exhaustive
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
    monkeypatch.setattr("cmfast.geometry._cell_accumulator.MOST_PART_POINTS", 700)
    monkeypatch.setattr("cmfast.geometry._pca.MOST_PROJECTED", 10_000)
    for a, b in zip(everything(), want, strict=True):
        assert_same_bits(a, b)
    y[2_999] = -1
    with pytest.raises(ValueError, match=r"y_true must be at least 0, got 1 outside \(first: -1 at 2999\)"):
        cmfast.geometric_confusion_matrix(X, y, p, **options)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_tensors_that_are_too_many_for_memory_give_the_same(monkeypatch):
    X, y, p = points(3_000, 6, 4, 8)
    options = {"weights": "row", "n_components": 3}
    want = cmfast.geometric_confusion_matrix(X, y, p, **options)
    monkeypatch.setattr("cmfast.geometry._cell_accumulator.MOST_PART_POINTS", 700)
    monkeypatch.setattr("cmfast.geometry._pca.MOST_PROJECTED", 10_000)
    got = cmfast.geometric_confusion_matrix(*map(torch.from_numpy, (X, y, p)), **options)
    for mine, yours in zip((got.matrix, *parts(got.cells)), (want.matrix, *parts(want.cells)), strict=True):
        assert isinstance(mine, torch.Tensor)
        assert_same_bits(mine.numpy(), yours)
    curves = [cmfast.width_curve(*three, **options).overlaps for three in ((X, y, p), map(torch.from_numpy, (X, y, p)))]
    assert_same_bits(*curves)


OPTIONS = {
    "a name": ("a", TypeError, "n_classes must be an integer, got str 'a'"),
    "a fraction": (2.5, TypeError, "n_classes must be an integer, got float 2.5"),
    "below zero": (-1, ValueError, "n_classes must be at least 0, got -1"),
    "too many": (2**40, OverflowError, "n_classes must be at most 1073741823, got 1099511627776"),
    "far too many": (10**400, OverflowError, "n_classes must be at most 1073741823, got an integer of 1329 bits"),
    "too few": (2, ValueError, "y_true must be in 0..1, got 3 outside (first: 2 at 5, 3 at 400, 2 at 2999)"),
}


@pytest.mark.parametrize("part", [700, 1 << 25])
@pytest.mark.parametrize("option", OPTIONS)
def test_classes_are_checked_before_they_are_used(option, part, monkeypatch):
    monkeypatch.setattr("cmfast.geometry._cell_accumulator.MOST_PART_POINTS", part)
    n_classes, error, text = OPTIONS[option]
    rng = np.random.default_rng(0)
    X, (y, p) = rng.normal(size=(3_000, 2)), rng.integers(0, 2, (2, 3_000))
    y[[5, 400, 2_999]] = 2, 3, 2
    grid = cmfast.Grid([0.0] * 2, [1.0] * 2)
    for name, call in {
        "geometric_confusion_matrix": lambda: cmfast.geometric_confusion_matrix(X, y, p, n_classes=n_classes),
        "width_curve": lambda: cmfast.width_curve(X, y, p, n_classes=n_classes),
        "cell_counts": lambda: cmfast.cell_counts(X, y, p, grid=grid, n_classes=n_classes),
    }.items():
        with pytest.raises(error, match=f"^{re.escape(f'{name}: {text}')}"):
            call()
    p[[3, 2_998]] = -7, -8
    text = "y_pred must be at least 0, got 2 outside (first: -7 at 3, -8 at 2998)"
    with pytest.raises(ValueError, match=re.escape(text)):
        cmfast.geometric_confusion_matrix(X, y, p)


def test_more_classes_than_have_a_confusion_matrix():
    grid, none = cmfast.Grid([0.0], [1.0]), np.empty(0, np.int64)
    X = np.empty((0, 1))
    with pytest.raises(OverflowError, match=r"^cell_counts: n_classes must be at most 1073741823, got 1099511627776"):
        cmfast.cell_counts(X, none, none, grid=grid, n_classes=2**40)
    with pytest.raises(
        OverflowError, match=r"^cell_counts: grid and y_true, y_pred ask .*: 1 cells times 2\*\*82 pairs of classes"
    ):
        cmfast.cell_counts([[0.0]], [2**40], [0], grid=grid)
    with pytest.raises(OverflowError, match=r"^sparse_histogram: grid and groups ask .*: 1 cells times 2\*\*63 pairs"):
        cmfast.sparse_histogram([[0.0]], groups=[2**62], grid=grid)
    for n_groups in (2**62 + 1, 2**70):
        with pytest.raises(OverflowError, match=r"^sparse_histogram: n_groups must be at most 2\*\*62, got"):
            cmfast.sparse_histogram(X, groups=none, grid=grid, n_groups=n_groups)
    assert cmfast.sparse_histogram(X, groups=none, grid=grid, n_groups=2**62).groups.shape == (0,)
    with pytest.raises(OverflowError, match=r"^CellAccumulator: n_classes must be at most 1073741823"):
        cmfast.CellAccumulator(grid, 2**30)
    many = cmfast.cell_counts(X, none, none, grid=grid, n_classes=2**30 - 1)
    for name, call in {
        "CellCounts.confusion_matrix": many.confusion_matrix,
        "CellCounts.label_histogram": many.label_histogram,
        "gcm": lambda: cmfast.gcm(many, "row"),
    }.items():
        with pytest.raises(
            MemoryError, match=rf"^{name}: no memory for the confusion matrix of n_classes=1073741823, "
        ):
            call()


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
    *lines, verdict = str(curve).splitlines()
    assert verdict == curve.explain()
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


# No points, and few.


NO_POINTS = {"none": (np.empty((0, 2)), [], []), "none with a cell": (np.full((3, 2), np.nan), [0, 1, 1], [1, 0, 1])}
NAN_WITHOUT_POINTS = (
    "null_sd",
    *("singleton_fraction", "pure_fraction", "unmixed_fraction"),
    *("overlap", "guaranteed", "null_overlap", "position", "pattern", "pattern_null"),
)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning", "ignore::cmfast.FailureWarning")
@pytest.mark.parametrize("weights", ["bi", "row", ["all", "row"], [], [np.ones((2, 2)), "col"]], ids=str)
@pytest.mark.parametrize("n_components", [None, 1, 10])
@pytest.mark.parametrize("n_classes", [None, 2])
@pytest.mark.parametrize("which", NO_POINTS)
def test_no_points_are_an_answer(which, n_classes, n_components, weights):
    X, y, p = NO_POINTS[which]
    y, p = np.array(y, np.int64), np.array(p, np.int64)
    C = n_classes if n_classes is not None else 2 * (len(X) > 0)
    if C == 0 and any(not isinstance(w, str) for w in weights):
        weights = [w if isinstance(w, str) else w[:0, :0] for w in weights]
    grid = cmfast.Grid([0.0] * (n_components or 2), [1.0] * (n_components or 2))
    if n_components == 10:
        grid = cmfast.Grid([0.0] * 2, [1.0] * 2)
    options = {"weights": weights, "n_classes": n_classes, "n_components": n_components, "grid": grid}
    matrix, cells, d = cmfast.geometric_confusion_matrix(X, y, p, **options)
    lead = (len(weights),) if isinstance(weights, list) else ()
    assert_same_bits(matrix, np.zeros((*lead, C, C)))
    assert (d.n_points, d.n_dropped, d.n_cells, d.largest_cell, d.pair_work) == (0, len(X), 0, 0, 0)
    for name in NAN_WITHOUT_POINTS:
        assert np.isnan(getattr(d, name)).all(), name
    assert_same_bits(d.normalized, np.zeros((*lead, C, C)))
    assert "0 points" in str(d)
    assert (cells.confusion_matrix() == 0).all()
    assert_same_bits(cmfast.gcm(cells, weights), matrix)
    curve = cmfast.width_curve(X, y, p, factors=(1, 2), origins=3, **options)
    assert curve.overlaps.shape == (2, 3, *lead)
    assert np.isnan(curve.overlaps).all()
    assert np.isnan(curve.origin_spread).all()
    assert len(str(curve).splitlines()) == 2 + 2 * (len(weights) if lead else 1)


@pytest.mark.parametrize("which", NO_POINTS)
def test_no_points_have_no_rule(which):
    X, y, p = NO_POINTS[which]
    y, p = np.array(y, np.int64), np.array(p, np.int64)
    for rule in ("scott", "freedman_diaconis"):
        for call in (cmfast.geometric_confusion_matrix, cmfast.width_curve):
            for n_components in (None, 1):
                with pytest.raises(ValueError, match=r"X must be points with at least one finite row, got (no|3) rows"):
                    call(X, y, p, grid=rule, n_components=n_components, on_failure="ignore")


@pytest.mark.parametrize("n_groups", [None, 0, 2])
def test_histograms_of_no_points(n_groups):
    X, none = np.empty((0, 2)), np.empty(0, np.int64)
    grid = cmfast.Grid([0.0] * 2, [1.0] * 2)
    a = cmfast.sparse_histogram(X, grid=grid, groups=none, n_groups=n_groups)
    b = cmfast.sparse_histogram([[0.5, 0.5]], grid=grid, groups=[1])
    assert (len(a), a.cells.shape, a.groups.shape, a.values.dtype) == (0, (0, 2), (0,), np.int64)
    assert_same_bits(cmfast.min_overlap(a, b), np.zeros((n_groups or 0, 2), np.int64))
    assert_same_bits(cmfast.min_overlap(b, a), np.zeros((2, n_groups or 0), np.int64))
    weighted = cmfast.sparse_histogram(X, grid=grid, weights=np.empty(0, np.float32))
    assert (weighted.values.shape, weighted.values.dtype) == ((0,), np.float32)
    cells = cmfast.cell_counts(X, none, none, grid=grid, n_classes=2)
    some = cmfast.cell_counts([[0.5, 0.5]], [0], [1], grid=grid, n_classes=2)
    assert (cells.bins, len(cells.labels), len(cells.predictions)) == ((0, 0), 0, 0)
    assert_same_bits(parts(cells + some), parts(some))
    assert_same_bits(parts(some + cells), parts(some))
    for weights in (None, "row", "bi"):
        assert len(cells.label_histogram(weights)) == len(cells.prediction_histogram(weights)) == 0


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("rule", ["scott", "freedman_diaconis", cmfast.Grid([0.0], [1.0])], ids=str)
def test_one_point_and_one_class(rule):
    for X, number in (([[3.5]], 1), ([[0.5], [0.6], [0.7], [0.8]], 4)):
        y = [0] * number
        G, cells, d = cmfast.geometric_confusion_matrix(X, y, y, weights=["all", "bi"], grid=rule, n_components=None)
        np.testing.assert_allclose(G, [[[1.0]], [[1.0]]], rtol=1e-15)
        assert cells.confusion_matrix().tolist() == [[number]]
        np.testing.assert_allclose([d.overlap, d.guaranteed, d.null_overlap], np.ones((3, 2)), rtol=1e-15)


# Coordinates and widths at the ends of float64. Warnings of NumPy are errors in this suite.


ENDS = [2.0**1022, 2.0**900, 2.0**500, 2.0**-500, 2.0**-900, 2.0**-960, 2.0**-1000]


@pytest.mark.parametrize("scale", ENDS)
@pytest.mark.parametrize("rule", ["scott", "freedman_diaconis", "regular", "occupancy"])
def test_rules_scale_with_the_points(rule, scale):
    """A power of two changes no digit, wherever the squares of the coordinates would be."""
    X = np.random.default_rng(0).random((500, 3)) - 0.5
    options = {"regular": {"bins": (3, 7, 11)}, "occupancy": {"points_per_cell": 4.0}}.get(rule, {})
    near, far = (getattr(cmfast.Grid, rule)(x, **options) for x in (X, X * scale))
    assert_same_bits((far.origin, far.width), (near.origin * scale, near.width * scale))


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("scale", ENDS)
def test_principal_axes_scale_with_the_points(scale):
    X, y, p = points(400, 4, 3, 31)
    X /= 2 * np.abs(X).max()
    X[7] = np.nan
    near, far = (cmfast.pca(x, 3, on_failure="ignore") for x in (X, X * scale))
    for name in ("components", "explained_variance_ratio"):
        np.testing.assert_allclose(getattr(far, name), getattr(near, name), rtol=1e-10)
    np.testing.assert_allclose(far.transform(X * scale) / scale, near.transform(X), atol=1e-10)
    options = {"weights": WEIGHTS, "n_components": 3, "on_failure": "ignore"}
    one, other = (cmfast.geometric_confusion_matrix(x, y, p, **options) for x in (X, X * scale))
    np.testing.assert_allclose(other.matrix, one.matrix, rtol=1e-12)
    assert other.cells.n_points == 399


def test_projected_beyond_float64():
    X = np.full((3, 4), 1.7e308)
    X[0], X[1] = -1.7e308, 0.0
    axes = cmfast.pca(X, 1)
    np.testing.assert_allclose(axes.components, [[0.5] * 4], rtol=1e-15)
    found = axes.transform(X)[:, 0] - axes.transform(np.zeros((1, 4)))[0, 0]
    assert found.tolist() == [-np.inf, 0.0, np.inf], "the points lie at 3.4e308 from the middle"
    np.testing.assert_allclose(axes.transform(X / 4)[:, 0], [-8.5e307, 0.0, 8.5e307], rtol=1e-15)


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-310, 1e-154, 1e154, 8e307])
@pytest.mark.parametrize("kind", ["steps", "positive", "alone"])
@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_every_rule_covers_its_points(kind, scale):
    rng = np.random.default_rng(1)
    X = {"steps": rng.integers(-1, 2, (60, 2)) * scale, "positive": rng.random((60, 2)) * scale, "alone": [[scale] * 2]}
    X = np.array(X[kind], np.float64)
    for grid in (
        cmfast.Grid.scott(X),
        cmfast.Grid.freedman_diaconis(X),
        *(cmfast.Grid.regular(X, bins=bins) for bins in (1, 3, 10**6)),
        *(cmfast.Grid.occupancy(X, points) for points in (1.0000001, 3, 1e3, 1e300, 1.7e308)),
    ):
        assert np.isfinite([grid.origin, grid.width, grid.inverse]).all()
        assert np.isfinite(grid.log_cell_volume)
        assert cmfast.sparse_histogram(X, grid=grid, on_failure="raise").values.sum() == len(X)


def test_regular_holds_the_largest_value():
    rng = np.random.default_rng(2)
    for _ in range(200):
        X = (rng.random((20, 1)) - rng.random()) * 10.0 ** rng.integers(-320, 308)
        bins = int(10 ** rng.uniform(0, 12))
        cells = cmfast.sparse_histogram(X, grid=cmfast.Grid.regular(X, bins=bins)).cells
        assert cells.min() == 0
        assert cells.max() < bins


@pytest.mark.parametrize("bins", [2**53 + 1, 2**1000, 10**400])
def test_more_bins_than_can_be_told_apart(bins):
    with pytest.raises(ValueError, match=r"^Grid\.regular: bins must be at most 2\*\*53, got"):
        cmfast.Grid.regular([[0.0], [1.0]], bins=bins)


def test_what_leaves_float64_is_refused():
    wide, X = cmfast.Grid([0.0], [1e200]), [[-1e308], [1e308]]
    for call, text in (
        (lambda: wide.scaled(1e200), "^Grid.scaled: factor must be such that widths stay above 0 and finite"),
        (lambda: wide.scaled(1e-320).scaled(1e-300), "^Grid.scaled: factor must be such that widths"),
        (lambda: wide.shifted(1e200), "^Grid.shifted: fraction must be such that the origin stays finite"),
        (lambda: wide.shifted(-1e200), "^Grid.shifted: fraction must be such that the origin stays finite"),
        (lambda: cmfast.Grid.scott(X), "X must be columns with a range below 1.8e308"),
        (lambda: cmfast.Grid.scott([[0.0], [1.7e308]], n=1), r"columns with widths below 1\.8e308 by this rule, got 2"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    ends = np.array([-1.7e308, 0.0, 1.7e308])
    for origin in ends:
        for width in (1e-307, 1.0, 1e154, 2.0**1023):
            grid = cmfast.Grid([origin], [width])
            cells = cmfast.cell_counts(ends[:, None], [0] * 3, [0] * 3, grid=grid, on_failure="ignore")
            assert cells.n_points + cells.n_dropped == 3
            with np.errstate(over="ignore"):
                near = ends[np.isfinite(ends - origin)]
            away = [Fraction(x) - Fraction(origin) for x in near]
            want = {distance // Fraction(width) for distance in away}
            assert set(cells.cells[:, 0].tolist()) == {k for k in want if abs(k) < 2**53}


# Nonsense.


NO_AXES = {
    "none": None,
    "a number": 5,
    "a name": "ab",
    "Nones": [None],
    "booleans": [True],
    "a table": [[1.0]],
    "complex": [1j],
    "names": ["1"],
    "ragged": [1, [2]],
    "a dict": {1.0: 1},
    "a set": {1.0},
    "masked": np.ma.array([1.0], mask=[1]),
    "a generator": (x for x in [1.0]),
    "beyond float64": [10**400],
    "extended": np.array([1.0], np.longdouble),
    "gradients": torch.tensor([1.0], requires_grad=True),
    "bytes": b"ab",
    "NaN": [np.nan],
    "infinite": [-np.inf],
}


@pytest.mark.parametrize("which", NO_AXES)
def test_axes_that_are_none(which):
    for name, pair in (("origin", (NO_AXES[which], [1.0])), ("width", ([1.0], NO_AXES[which]))):
        with pytest.raises((TypeError, ValueError), match=rf"^Grid: {name} (must be|is a|requires)"):
            cmfast.Grid(*pair)


def test_axes_of_any_library():
    want = cmfast.Grid([0.0, 1.0], [2.0, 3.0])
    for one in (np.array, torch.tensor, tuple, lambda x: np.array(x, ">f4"), lambda x: np.array(x, np.uint8)):
        assert cmfast.Grid(one([0, 1]), one([2, 3])) == want


def test_a_grid_never_changes():
    given = np.array([0.0, 0.0]), np.array([1.0, 2.0])
    grid = cmfast.Grid(*given)
    before = hash(grid)
    given[0][:] = given[1][:] = 5.0
    for name in ("origin", "width", "inverse"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(grid, name)[0] = 5.0
        with pytest.raises(ValueError, match="WRITEABLE"):
            getattr(grid, name).setflags(write=True)
        with pytest.raises(AttributeError, match=f"Grid: {name} cannot be set"):
            setattr(grid, name, 5.0)
        with pytest.raises(AttributeError, match=f"Grid: {name} cannot be deleted"):
            delattr(grid, name)
    assert hash(grid) == before
    for other in (copy.copy(grid), copy.deepcopy(grid), pickle.loads(pickle.dumps(grid))):
        assert other == grid
        assert hash(other) == before
        assert_same_bits((other.origin, other.width, other.inverse), (grid.origin, grid.width, grid.inverse))
    assert grid != cmfast.Grid([0.0], [1.0])
    assert grid != 1
    assert cmfast.Grid([-0.0], [1.0]) != cmfast.Grid([0.0], [1.0]), "of bits"


@pytest.mark.exhaustive
@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 2), (16, 5), (130, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_projected_rows_have_the_same_bits_wherever_they_stand(rng, n, m, dtype):
    X = (rng.normal(size=(205, n)) * 100).astype(dtype)
    axes = cmfast.pca(X, min(m, n))
    whole = axes.transform(X)
    want = (X.astype(np.float64) - axes.mean) @ axes.components.T
    np.testing.assert_allclose(whole, want, rtol=1e-12, atol=1e-11)
    for size in (1, 2, 3, 4, 5, 64):
        parts = [axes.transform(X[first : first + size]) for first in range(0, len(X), size)]
        assert_same_bits(np.concatenate(parts), whole)
    assert_same_bits(axes.transform(np.asfortranarray(X)), whole)
    assert_same_bits(axes.transform(X[::-1])[::-1], whole)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("ordinary", np.int16), *itertools.product(["ordinary", "far", "not finite"], [np.float32, np.float64])],
)
def test_axes_have_the_same_bits_for_any_layout(rng, kind, dtype):
    X = (rng.normal(size=(3000, 7)) * 100).astype(dtype)
    if kind == "far":
        X = X * dtype(1e30 if dtype == np.float32 else 1e300)
    elif kind == "not finite":
        X[[3, 2000], 1] = np.nan, np.inf
    layouts = {
        "Fortran": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "reversed": X[::-1].copy()[::-1],
    }
    axes = cmfast.pca(X, 3, on_failure="ignore")
    for name, other in layouts.items():
        assert cmfast.pca(other, 3, on_failure="ignore") == axes, name


def test_projections_are_equal_by_bits():
    X, _, _ = points(50, 3, 2, 40)
    axes = cmfast.pca(X, 2)
    for same in (cmfast.pca(X, 2), copy.deepcopy(axes), pickle.loads(pickle.dumps(axes))):
        assert same == axes
        assert (same != axes) is False
        assert_same_bits(same.transform(X), axes.transform(X))
    for other in (cmfast.pca(X, 1), cmfast.pca(X * 2, 2), tuple(axes), None):
        assert other != axes
        assert (other == axes) is False
    assert axes in [cmfast.pca(X, 1), cmfast.pca(X, 2)]
    tensors = cmfast.pca(torch.from_numpy(X), 2)
    assert tensors == cmfast.pca(torch.from_numpy(X), 2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(axes)


@pytest.mark.parametrize(
    "fields",
    [
        (1.0, 2.0, 3.0),
        (np.zeros(3), np.zeros((1, 2)), None),
        (np.zeros((2, 2)), np.zeros((1, 2)), None),
        (np.zeros(2), np.zeros(2), None),
        (["a", "b"], np.zeros((1, 2)), None),
        (np.zeros(2), np.zeros((0, 2)), None),
    ],
)
def test_projections_that_are_none(fields):
    match = r"^Projection\.transform: (mean|components)( and components)? must"
    with pytest.raises((TypeError, ValueError), match=match):
        cmfast.Projection(*fields).transform(np.zeros((4, 2)))


@pytest.mark.parametrize("bins", [np.array(3), np.array([3, 3]), (3, 3), [3, 3], range(3, 4), 3])
def test_bins_of_any_kind(bins):
    X = np.random.default_rng(0).random((50, 2))[:, : np.size(bins) if np.ndim(bins) else 2]
    assert cmfast.Grid.regular(X, bins=bins) == cmfast.Grid.regular(X, bins=[3] * X.shape[1])


@pytest.mark.parametrize("bins", [b"ab", "ab", np.array([3.0, 3.0]), np.array(3.0), {3: 1, 4: 2}])
def test_bins_that_are_none(bins):
    with pytest.raises(TypeError, match=r"^Grid\.regular: bins must be an integer, got"):
        cmfast.Grid.regular(np.zeros((9, 2)), bins=bins)


@pytest.mark.parametrize("grid", [None, 5, [0.0, 1.0], cmfast.Grid, cmfast.Grid([0.0], [1.0]).scaled])
def test_what_is_neither_grid_nor_rule(grid):
    X, y, p = points(50, 2, 2, 41)
    for function in (cmfast.geometric_confusion_matrix, cmfast.width_curve):
        wanted = rf"^{function.__name__}: grid must be a cmfast\.Grid or one of 'scott', 'freedman_diaconis', got"
        with pytest.raises(TypeError, match=wanted):
            function(X, y, p, grid=grid)
    for call in (
        lambda: cmfast.cell_counts(X, y, p, grid=grid),
        lambda: cmfast.sparse_histogram(X, grid=grid),
        lambda: cmfast.CellAccumulator(grid, 2),
    ):
        with pytest.raises(TypeError, match=r"^\w+: grid must be a cmfast\.Grid, got"):
            call()


@pytest.mark.parametrize("factors", [1.5, None, "12", b"12", {1.0}, {1.0: 2}, np.array(2.0), [True], [None], ["1"]])
def test_factors_that_are_none(factors):
    X, y, p = points(50, 2, 2, 42)
    with pytest.raises(TypeError, match=r"^width_curve: factors must be a (sequence of numbers|number), got"):
        cmfast.width_curve(X, y, p, factors=factors)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_factors_of_any_kind():
    X, y, p = points(200, 2, 2, 42)
    want = cmfast.width_curve(X, y, p, weights="row", factors=[1.0, 2.0], origins=1).overlaps
    for factors in ((1, 2), np.array([1.0, 2.0]), range(1, 3), iter([1, 2]), torch.tensor([1.0, 2.0]).numpy()):
        assert_same_bits(cmfast.width_curve(X, y, p, weights="row", factors=factors, origins=1).overlaps, want)


def test_overlaps_beyond_float64():
    X, grid = [[0.5], [5.5], [0.5], [0.5]], cmfast.Grid([0.0], [1.0])
    options = {"groups": [0, 0, 1, 2], "weights": [1.7e308, 1.7e308, 1e300, np.nan], "on_failure": "ignore"}
    h = cmfast.sparse_histogram(X, grid=grid, **options)
    with pytest.warns(cmfast.FailureWarning, match=r"6 of 9 overlaps not computed .*: 5 INVALID, 1 RANGE"):
        found = cmfast.min_overlap(h, h)
    np.testing.assert_array_equal(found, [[np.nan, 1e300, np.nan], [1e300, 1e300, np.nan], [np.nan] * 3])


def test_more_groups_than_have_overlaps():
    h = cmfast.sparse_histogram([[0.5]], grid=cmfast.Grid([0.0], [1.0]), groups=[0], n_groups=2**30)
    with pytest.raises(MemoryError, match=r"^min_overlap: no memory for the overlaps of a, 1073741824 groups, with b"):
        cmfast.min_overlap(h, h)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_counts_are_not_saved_in_the_place_of_a_device(tmp_path):
    """Root may replace one, and had a regular file named /dev/null."""
    cells = cmfast.cell_counts([[0.0]], [0], [0], grid=cmfast.Grid([0.0], [1.0]))
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ValueError, match=r"^CellCounts\.save: path must be the name of a file, got"):
            cells.save(path)
    assert not (tmp_path / "pipe").is_file()


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_axes_of_no_points_are_refused(make):
    with pytest.raises(ValueError, match=r"^pca: X must be of at least one point, got shape \(0, 3\)$"):
        cmfast.pca(make(np.empty((0, 3))), 2)
    with pytest.warns(cmfast.FailureWarning, match="1 of 1|left out"):
        assert np.isnan(np.asarray(cmfast.pca(make(np.full((1, 3), np.nan)), 2).components)).all()


@pytest.mark.parametrize("empty", [[], ()])
def test_empty_lists_are_labels_of_no_points(empty):
    """As of `confusion_matrix`; NumPy would make float64 of them."""
    X, grid, none = np.empty((0, 2)), cmfast.Grid([0.0, 0.0], [1.0, 1.0]), np.empty(0, np.int64)
    for n_classes in (None, 2):
        options = {"grid": grid, "n_classes": n_classes}
        want = cmfast.cell_counts(X, none, none, **options)
        assert cmfast.cell_counts(X, empty, empty, **options) == want
        assert cmfast.cell_counts(X, empty, none, **options) == want
    with pytest.warns(cmfast.DiagnosticWarning, match="only 0 occupied cells"):
        found = cmfast.geometric_confusion_matrix(X, empty, empty, grid=grid, n_classes=2, on_failure="ignore")
    assert found.matrix.shape == (2, 2)
    assert len(cmfast.sparse_histogram(X, grid=grid, groups=empty, weights=empty)) == 0
    accumulator = cmfast.CellAccumulator(grid, n_classes=2)
    accumulator.update(X, empty, empty)
    assert accumulator.counts() == cmfast.cell_counts(X, none, none, grid=grid, n_classes=2)
