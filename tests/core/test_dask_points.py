"""Points in Dask arrays: grids, axes, histograms, geometric matrices; any chunks give the same bits."""

import numpy as np
import pytest
from checks import assert_same_bits, assert_same_fields

import cmfast

pytestmark = pytest.mark.exhaustive

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(7)
N = 1000
Y = RNG.integers(0, 4, N)
P = np.where(RNG.random(N) < 0.7, Y, RNG.integers(0, 4, N))
X = (RNG.normal(size=(N, 3)) + Y[:, None]) * [1.0, 40.0, 1e-3]
RANKED = cmfast.Grid([0.0] * 3, [1e-9] * 3)  # keys have no room for its cells
TABLE = 10.0 ** RNG.uniform(-30, 30, (4, 4))  # integers of more than one word
CHUNKS = [(300,), (N,), ((1,) * 5 + (N - 5,),), ((0, 500, 0, 500),)]


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(*arrays, chunks=(300,)):
    """Return arrays in chunks along their first axis."""
    return [da.from_array(x, chunks=(*chunks, *x.shape[1:])) for x in arrays]


def never(*arrays):
    """Return arrays like these whose values nobody gets."""

    def fail(block):
        pytest.fail("a block was computed")
        return block

    return [x.map_blocks(fail, meta=x._meta) for x in lazy(*arrays)]


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_points_on_their_axes(chunks):
    axes, (points,) = cmfast.pca(X, 2), lazy(X, chunks=chunks)
    assert_same_bits(axes.transform(points).compute(), axes.transform(X))
    found = axes.transform(*never(X))
    assert (found.shape, found.dtype) == ((N, 2), np.float64)
    with pytest.raises(ValueError, match=r"^Projection\.transform: X must be in one chunk along the last axis"):
        axes.transform(points.rechunk((N, 2)))


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_axes_of_points_and_points_on_them(chunks):
    (points,) = lazy(X, chunks=chunks)
    want, found = cmfast.pca(X, 2, precision="exact"), cmfast.pca(points, 2)
    assert repr(found) == "<Projection: lazy, dask.compute gives it>"
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in want]
    assert dask.compute(found)[0] == want
    on_axes = found.transform(points)
    assert (on_axes.shape, on_axes.dtype, on_axes._meta.ndim) == ((N, 2), np.float64, 2)
    assert_same_bits(on_axes.compute(), want.transform(X))
    assert_same_bits(dask.compute(found)[0].transform(points).compute(), want.transform(X))
    y, p = lazy(Y, P, chunks=chunks)
    options = {"n_components": None, "n_classes": 4}
    result = cmfast.geometric_confusion_matrix(on_axes, y, p, **options).compute()
    assert_same_result(result, cmfast.geometric_confusion_matrix(want.transform(X), Y, P, **options))


def test_axes_of_points_that_are_lost():
    bad = X.copy()
    bad[700, 1] = np.nan
    found = cmfast.pca(*lazy(bad), 2, precision="exact")
    with pytest.warns(cmfast.FailureWarning, match=r"^pca: 1 of 1000 points left out: a coordinate is not") as caught:
        (got,) = dask.compute(found)
    assert len(caught) == 1
    with pytest.warns(cmfast.FailureWarning):
        assert got == cmfast.pca(bad, 2, precision="exact")


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_grids_and_what_follows_from_them(chunks):
    points, y, p = lazy(X, Y, P, chunks=chunks)
    grid = cmfast.Grid.scott(points)
    want = cmfast.Grid.scott(X)
    assert grid.compute() == want
    assert cmfast.Grid.scott(points, 50).compute() == cmfast.Grid.scott(X, 50)
    assert cmfast.Grid.regular(points, bins=[2, 3, 4]).compute() == cmfast.Grid.regular(X, bins=[2, 3, 4])
    cells = cmfast.cell_counts(points, y, p, grid=grid, n_classes=4)
    counted = cmfast.cell_counts(X, Y, P, grid=want)
    assert cells.compute() == counted
    assert_same_bits(cmfast.gcm(cells, ["bi", "row"]).compute(), cmfast.gcm(counted, ["bi", "row"]))
    found = cmfast.diagnose(cells, "row").compute()
    assert str(found) == str(cmfast.diagnose(counted, "row"))
    of_labels, of_predictions = cells.label_histogram(), cells.prediction_histogram("row")
    overlap = cmfast.min_overlap(of_labels, of_predictions).compute()
    assert_same_bits(overlap, cmfast.min_overlap(counted.label_histogram(), counted.prediction_histogram("row")))


def assert_same_result(found, want):
    """Compare everything that one call for embedded points gives."""
    assert_same_bits(found.matrix, want.matrix)
    assert found.cells == want.cells
    assert str(found.diagnostics) == str(want.diagnostics)
    assert_same_bits(found.diagnostics.normalized, want.diagnostics.normalized)
    assert_same_bits(np.float64(found.diagnostics.null_sd), np.float64(want.diagnostics.null_sd))


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("grid", ["scott", cmfast.Grid([0.0] * 3, [1.0, 30.0, 1e-3])], ids=["scott", "given"])
def test_geometric_matrices_in_one_call(chunks, grid):
    options = {"weights": "row", "n_components": None, "n_classes": 4, "rng": 3}
    found = cmfast.geometric_confusion_matrix(*lazy(X, Y, P, chunks=chunks), grid=grid, **options)
    assert_same_result(found.compute(), cmfast.geometric_confusion_matrix(X, Y, P, grid=grid, **options))


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_geometric_matrices_of_points_that_are_lost_and_weights_that_do_not_exist():
    lost, y, p = X.copy(), np.where(Y == 3, 2, Y), np.where(P == 3, 2, P)
    lost[[5, 700], 1] = np.nan, np.inf
    for points in (X, lost):
        options = {"n_components": None, "n_classes": 4}
        with pytest.warns(cmfast.FailureWarning) as wanted:
            want = cmfast.geometric_confusion_matrix(points, y, p, **options)
        found = cmfast.geometric_confusion_matrix(*lazy(points, y, p), **options)
        with pytest.warns(cmfast.FailureWarning) as caught:
            got = found.compute()
        assert [str(w.message) for w in caught] == [str(w.message) for w in wanted]
        assert_same_result(got, want)
    with pytest.raises(cmfast.FailureError, match=r"^geometric_confusion_matrix: "):
        cmfast.geometric_confusion_matrix(*lazy(lost, Y, P), **options, on_failure="raise").compute()


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("n_parts", [1, 3, 7])
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_cells_in_parts_that_nobody_holds_together(chunks, n_parts):
    points, y, p = lazy(X, Y, P, chunks=chunks)
    for of, grid in ((cmfast.Grid.scott(points), cmfast.Grid.scott(X)), (RANKED, RANKED)):
        parts = cmfast.cell_counts(points, y, p, grid=of, n_classes=4, n_parts=n_parts)
        counted = cmfast.cell_counts(X, Y, P, grid=grid, n_classes=4)
        assert [part.compute() for part in parts] == counted.deal(n_parts)
        for weights in ("all", ["bi", "row"], [TABLE, "col"]):
            assert_same_bits(cmfast.gcm(parts, weights).compute(), cmfast.gcm(counted, weights))
        assert_same_fields(
            cmfast.diagnose(parts, ["bi", "row"], rng=4).compute(), cmfast.diagnose(counted, ["bi", "row"], rng=4)
        )


def test_parts_that_do_not_belong_together_are_refused():
    points, y, p = lazy(X, Y, P)
    options = {"grid": cmfast.Grid.scott(points), "n_classes": 4, "n_parts": 3}
    parts = cmfast.cell_counts(points, y, p, **options)
    with pytest.raises(ValueError, match=r"^gcm: cells\[\d\] must be part \d of 3, as CellCounts\.deal\(3\) gives it"):
        cmfast.gcm(parts[::-1], "row").compute()
    others = cmfast.cell_counts(points, y, p, **options | {"n_classes": 5})
    with pytest.raises(ValueError, match=r"^gcm: n_classes must be the same in all parts, 4, got 5"):
        cmfast.gcm([*parts[:2], others[2]], "row").compute()


def test_the_same_call_is_the_same_task():
    (points,) = lazy(X)
    assert cmfast.Grid.scott(points).key == cmfast.Grid.scott(points).key != cmfast.Grid.scott(points, 7).key
    assert cmfast.Grid.scott(points).key.startswith("Grid.scott-")


def test_no_chunk_is_held_from_one_pass_to_the_next():
    """A chunk that two passes need is made twice, the second time when the first pass is over."""
    made = []

    def note(block, block_info=None):
        made.append(block_info[0]["chunk-location"][0])
        return block

    (points,) = lazy(X)
    cmfast.Grid.scott(points.map_blocks(note, meta=points._meta)).compute()
    assert sorted(made[:4]) == sorted(made[4:]) == [0, 1, 2, 3]


def test_bad_points_are_reported_once():
    lost = X.copy()
    lost[[5, 700], 1] = np.nan, np.inf
    (points,) = lazy(lost)
    with pytest.warns(cmfast.FailureWarning, match=r"^Grid\.scott: 2 of 1000 rows left out: not finite$"):
        found = cmfast.Grid.scott(points).compute()
    assert found == cmfast.Grid.scott(lost, on_failure="ignore")
    with pytest.raises(cmfast.FailureError, match=r"^Grid\.regular: 2 of 1000 rows left out"):
        cmfast.Grid.regular(points, bins=2, on_failure="raise").compute()
    with pytest.raises(ValueError, match=r"^Grid\.scott: X must be points with at least one finite row, got 1000 rows"):
        cmfast.Grid.scott(points * np.nan).compute()


def test_nothing_is_computed_early():
    points, y, p = never(X, Y, P)
    grid = cmfast.Grid.scott(points)
    cells = cmfast.cell_counts(points, y, p, grid=grid, n_classes=4)
    cmfast.diagnose(cells)
    cmfast.gcm(cmfast.cell_counts(points, y, p, grid=grid, n_classes=4, n_parts=3), "bi")
    cmfast.geometric_confusion_matrix(points, y, p, n_components=None, n_classes=4)
    cmfast.pca(points, 2, precision="exact").transform(points)
    with pytest.raises(pytest.fail.Exception, match="a block was computed"):
        cmfast.gcm(cells, "bi").compute()


X_, Y_, P_ = lazy(X, Y, P)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (lambda: cmfast.Grid.scott(X_[:, 0]), r"Grid\.scott: X must be of shape \(N, m\) .*, got shape \(1000,\)"),
        (lambda: cmfast.Grid.scott(X_.rechunk((300, 2))), r"Grid\.scott: X must be in one chunk along the last axis"),
        (lambda: cmfast.Grid.regular(X_.astype(complex), bins=2), r"Grid\.regular: X must be real numbers"),
        (lambda: cmfast.pca(X_, 2, precision="float64"), 'pca: precision must be "exact" with Dask arrays'),
        (lambda: cmfast.pca(X_, 4, precision="exact"), "pca: n_components must be at most 3, the columns of X"),
        (lambda: cmfast.pca(X_.rechunk((300, 2)), 2, precision="exact"), r"pca: X must be in one chunk along the last"),
        (lambda: cmfast.pca(X_, 2, precision="exact").transform(X), "Projection.transform: "),
        (lambda: cmfast.Grid.scott(X_, on_failure="no"), r"Grid\.scott: on_failure must be"),
        (lambda: cmfast.Grid.freedman_diaconis(X_), r"Grid\.freedman_diaconis: X is a lazy dask\.array\.core\.Array"),
        (lambda: cmfast.geometric_confusion_matrix(X_, Y_, P_, n_components=None),
         "geometric_confusion_matrix: n_classes must be given with Dask arrays"),
        (lambda: cmfast.geometric_confusion_matrix(X_, Y_, P_, n_classes=4),
         "geometric_confusion_matrix: n_components must be None with Dask arrays, .* got 10"),
        (lambda: cmfast.geometric_confusion_matrix(X_, Y_, P_, n_classes=4, n_components=None, grid="x"),
         "geometric_confusion_matrix: grid must be"),
        (lambda: cmfast.cell_counts(X_, Y_, P_, grid=RANKED, n_classes=4, n_parts=0),
         "cell_counts: n_parts must be"),
        (lambda: cmfast.cell_counts(X_, Y_, P_ / 2, grid=cmfast.Grid.scott(X_), n_classes=4),
         "cell_counts: y_pred must be integers, got dtype float64"),
    ],
)  # fmt: skip
def test_what_is_refused(of, text):
    with pytest.raises((TypeError, ValueError), match=f"^{text}"):
        of()
