"""Counts of Dask arrays: integers added up over the chunks, so any chunks give the bits of NumPy on any scheduler."""

import math
import warnings

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import conformal, metrics, uncertainty

pytestmark = pytest.mark.exhaustive

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(19)
N = 1000
Y, P, G = (RNG.integers(0, size, N) for size in (4, 4, 3))
W = RNG.integers(-5, 2**31 - 1, N)
X = RNG.normal(size=(N, 3))
GRID = cmfast.Grid.regular(X, bins=6)
CHUNKS = [(300,), (N,), ((1,) * 5 + (N - 5,),), ((0, 500, 0, 500),)]
TOO_LARGE = "its weights add up to more than fits"
NAMES = np.array(["ant", "bee", "cow", "dog"])


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(*arrays, chunks=(300,)):
    """Return arrays in chunks along their first axis."""
    return [da.from_array(x, chunks=(*chunks, *x.shape[1:])) for x in arrays]


def assert_same_parts(found, want):
    """Compare what is lazy with what NumPy's arrays give: shapes, types, and bits of all arrays."""
    parts = found if isinstance(found, tuple) else (found,)
    wanted = want if isinstance(want, tuple) else (want,)
    for part, other in zip(parts, wanted, strict=True):
        assert isinstance(part, da.Array)
        assert (part.shape, part.dtype) == (other.shape, other.dtype)
        assert_same_bits(part.compute(), other)


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_chunks_of_labels_do_not_matter(chunks):
    y, p, g, w = lazy(Y, P, G, W, chunks=chunks)
    matrix = cmfast.confusion_matrix
    assert_same_parts(matrix(y, p, n_classes=4), matrix(Y, P, n_classes=4))
    assert_same_parts(matrix(y, p, labels=[2, 0]), matrix(Y, P, labels=[2, 0]))
    assert_same_parts(matrix(y, p, n_classes=4, ignore_index=1), matrix(Y, P, n_classes=4, ignore_index=1))
    grouped = {"n_classes": 4, "n_groups": 3}
    found = matrix(y, p, sample_weight=w, groups=g, **grouped)
    assert_same_parts(found, matrix(Y, P, sample_weight=W, groups=G, **grouped))
    found = matrix(y, p, sample_weight=w.astype(np.int32), groups=g, **grouped)
    assert_same_parts(found, matrix(Y, P, sample_weight=W.astype(np.int32), groups=G, **grouped))
    assert_same_parts(matrix(y, p, n_classes=4, normalize="bi"), matrix(Y, P, n_classes=4, normalize="bi"))
    assert_same_parts(metrics.label_margins(y, p, n_classes=4), metrics.label_margins(Y, P, n_classes=4))
    found = metrics.label_margins(y, p, groups=g, sample_weight=w.astype(np.int32), **grouped)
    assert_same_parts(found, metrics.label_margins(Y, P, groups=G, sample_weight=W.astype(np.int32), **grouped))
    found = metrics.from_labels(y, p, ["mcc", "recall", "gerrity"], n_classes=4, average_over=[1, 3])
    for name, value in metrics.from_labels(
        Y, P, ["mcc", "recall", "gerrity"], n_classes=4, average_over=[1, 3]
    ).items():
        assert_same_parts(found[name], value)


@pytest.mark.parametrize("sample_axes", [1, 2, None])
def test_maps_and_batches(sample_axes):
    y, p = Y.reshape(10, 10, 10), P.reshape(10, 10, 10)
    maps = [da.from_array(x, chunks=(3, (0, 4, 6), 5)) for x in (y, p)]
    options = {"n_classes": 4, "sample_axes": sample_axes}
    assert_same_parts(cmfast.confusion_matrix(*maps, **options), cmfast.confusion_matrix(y, p, **options))
    assert_same_parts(metrics.label_margins(*maps, **options), metrics.label_margins(y, p, **options))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_paired_counts_and_histograms_of_scores(chunks):
    y, a, b, g, c, scores = (Y, P, (P + G) % 4, G, RNG.integers(0, 50, N), RNG.random(N))
    lazily = lazy(y, a, b, g, c, scores, chunks=chunks)
    pairs = uncertainty.paired_counts
    assert pairs(*lazily[:3]).compute() == pairs(y, a, b)
    assert pairs(*lazily[:3], n_classes=5, clusters=lazily[4]).compute() == pairs(y, a, b, n_classes=5, clusters=c)
    found = pairs(*lazily[:3], labels=[3, 0, 1], groups=lazily[3], clusters=lazily[4])
    assert found.compute() == pairs(y, a, b, labels=[3, 0, 1], groups=g, clusters=c)
    names = [NAMES[x] for x in (y, a, b)]
    assert pairs(*lazy(*names, chunks=chunks)).compute() == pairs(*names)
    found, want = conformal.score_histogram(lazily[5], bins=64), conformal.score_histogram(scores, bins=64)
    assert found.compute() == want
    assert_same_bits(found.threshold([0.1, 0.5]).compute(), want.threshold([0.1, 0.5]))
    maps = scores.reshape(10, 100)
    found = conformal.score_histogram(da.from_array(maps, chunks=(3, 40)), bins=9)
    assert found.compute() == conformal.score_histogram(maps, bins=9)


def test_one_truth_of_many_predictions_text_and_unknown_sizes():
    y, p = Y[:10], P.reshape(100, 10)
    found = cmfast.confusion_matrix(da.from_array(y, chunks=4), da.from_array(p, chunks=(30, 5)), n_classes=4)
    assert_same_parts(found, cmfast.confusion_matrix(y, p, n_classes=4))
    text = lazy(NAMES[Y], NAMES[P])
    assert_same_parts(cmfast.confusion_matrix(*text, labels=NAMES), cmfast.confusion_matrix(Y, P, n_classes=4))
    y, p = lazy(Y, P)
    some = y != 2
    found = cmfast.confusion_matrix(y[some], p[some], n_classes=4)
    assert_same_bits(found.compute(), cmfast.confusion_matrix(Y[Y != 2], P[Y != 2], n_classes=4))


@pytest.mark.parametrize("chunks", [*CHUNKS, (10,)], ids=str)
def test_chunks_of_points_do_not_matter(chunks):
    points, y, p = lazy(X, Y, P, chunks=chunks)
    cells = cmfast.cell_counts(points, y, p, grid=GRID, n_classes=4)
    want = cmfast.cell_counts(X, Y, P, grid=GRID, n_classes=4)
    assert cells.compute() == want
    assert_same_bits(dask.delayed(cmfast.gcm)(cells, "bi").compute(), cmfast.gcm(want, "bi"))
    again = cmfast.cell_counts(points, y, p, grid=GRID, n_classes=4)
    assert again.key == cells.key


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.processes)])
def test_schedulers(scheduler):
    y, p, points = lazy(Y, P, X)
    matrix = cmfast.confusion_matrix(y, p, n_classes=4)
    cells = cmfast.cell_counts(points, y, p, grid=GRID, n_classes=4)
    batch = Y.reshape(-1, 2, 2)
    result = cmfast.ipf(da.from_array(batch, chunks=(50, 2, 2)), on_failure="ignore")
    chosen = cmfast.gcm(cmfast.cell_counts(points, y, p, grid=cmfast.Grid.scott(points), n_classes=4), "row")
    with dask.config.set(scheduler=scheduler, num_workers=2):
        matrix, result = dask.compute(matrix, result)
        cells, chosen = cells.compute(), chosen.compute()
    assert_same_bits(chosen, cmfast.gcm(cmfast.cell_counts(X, Y, P, grid=cmfast.Grid.scott(X)), "row"))
    assert_same_bits(matrix, cmfast.confusion_matrix(Y, P, n_classes=4))
    assert cells == cmfast.cell_counts(X, Y, P, grid=GRID, n_classes=4)
    for part, other in zip(result, cmfast.ipf(batch, on_failure="ignore"), strict=True):
        assert_same_bits(part, other)


def test_sums_beyond_int64_are_zero_and_reported():
    y, p, w = lazy(Y, P, np.full(N, 2**61))
    found = cmfast.confusion_matrix(y, p, n_classes=4, sample_weight=w)
    with pytest.warns(cmfast.FailureWarning, match=f"^confusion_matrix: .*: INVALID; {TOO_LARGE}$"):
        got = found.compute()
    want = cmfast.confusion_matrix(Y, P, n_classes=4, sample_weight=np.full(N, 2**61), on_failure="ignore")
    assert_same_bits(got, want)
    with pytest.warns(cmfast.FailureWarning, match=f"^confusion_matrix: .*: INVALID; {TOO_LARGE}$"):
        cmfast.confusion_matrix(Y, P, n_classes=4, sample_weight=np.full(N, 2**61))
    found = cmfast.confusion_matrix(y, p, n_classes=4, sample_weight=w, on_failure="raise")
    with pytest.raises(cmfast.FailureError, match=r"^confusion_matrix: "):
        found.compute()


@pytest.mark.parametrize(("value", "cause"), [(1e308, TOO_LARGE), (np.nan, "sample_weight is NaN or infinite")])
def test_sums_that_are_not_finite_have_a_cause(value, cause):
    weight = np.ones(N)
    weight[Y == 2] = value
    y, p, w, groups = lazy(Y, P, weight, (Y == 2).astype(int))
    lazy_matrix = cmfast.confusion_matrix(y, p, n_classes=4, sample_weight=w, groups=groups, n_groups=2)
    with pytest.warns(cmfast.FailureWarning, match=rf"^confusion_matrix: .*\(first: 1\): 1 INVALID; {cause}$"):
        found = lazy_matrix.compute()
    assert np.isnan(found[1]).all()
    assert found[0].sum() == (Y != 2).sum()


@pytest.mark.parametrize(("dtype", "widest"), [(np.float64, 9), (np.float32, 9), (np.float64, 300)])
def test_sums_of_floats_are_rounded_once(dtype, widest):
    weight = (RNG.normal(size=N) * 10.0 ** RNG.integers(-widest, widest, N)).astype(dtype)
    want = [[math.fsum(weight[(i == Y) & (j == P)]) for j in range(4)] for i in range(4)]
    for chunks in CHUNKS:
        y, p, w = lazy(Y, P, weight, chunks=chunks)
        found = cmfast.confusion_matrix(y, p, n_classes=4, sample_weight=w)
        assert found.dtype == np.float64
        assert found.compute().tolist() == want
    plain = cmfast.confusion_matrix(Y, P, n_classes=4, sample_weight=weight)
    np.testing.assert_allclose(want, plain, rtol=1e-9)
    y, p, g, w = lazy(Y, P, G, weight)
    options = {"n_classes": 4, "n_groups": 3}
    found = cmfast.confusion_matrix(y, p, groups=g, sample_weight=w, **options).compute()
    np.testing.assert_allclose(found, cmfast.confusion_matrix(Y, P, groups=G, sample_weight=weight, **options), 1e-9)


@pytest.mark.parametrize("top", [5e-324, 1e-310, 1e300])
def test_weights_of_any_size(top):
    y, p, w = lazy(Y, P, np.full(N, top))
    found = cmfast.confusion_matrix(y, p, n_classes=4, sample_weight=w).compute()
    assert_same_bits(found, cmfast.confusion_matrix(Y, P, n_classes=4) * top)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.7e308])
def test_bad_weights_spoil_their_matrix(value):
    weight = np.ones(N)
    weight[Y == G] = value
    y, p, g, w = lazy(Y, P, np.minimum(G, 1), weight)
    options = {"n_classes": 4, "n_groups": 3, "on_failure": "ignore"}
    want = cmfast.confusion_matrix(Y, P, groups=np.minimum(G, 1), sample_weight=weight, **options)
    found = cmfast.confusion_matrix(y, p, groups=g, sample_weight=w, **options)
    assert_same_bits(found.compute(), want)
    assert np.isnan(want[:2]).all()
    with pytest.warns(cmfast.FailureWarning, match=r"^confusion_matrix: 2 of 3 matrices not computed \(first: 0, 1\)"):
        cmfast.confusion_matrix(y, p, groups=g, sample_weight=w, n_classes=4, n_groups=3).compute()


def test_a_chunk_says_nothing_of_the_whole():
    """Whether labels are rows of one sample, or texts have nothing in common, is not seen in a chunk."""
    y, p = (da.from_array(x.reshape(100, 10), chunks=(100, 1)) for x in (Y, P))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cmfast.confusion_matrix(y, p, n_classes=4).compute()
    assert_same_bits(found, cmfast.confusion_matrix(Y.reshape(100, 10), P.reshape(100, 10), n_classes=4))


def test_bad_labels_and_points_name_their_chunk():
    bad = Y.copy()
    bad[700] = 9
    y, p, points = lazy(bad, P, X)
    where = r"got 1 outside \(first: 9 at 100\), in chunk \(2,\), which begins at index \(600,\)$"
    with pytest.raises(ValueError, match=rf"^confusion_matrix: y_true must be in 0\.\.3, {where}"):
        cmfast.confusion_matrix(y, p, n_classes=4).compute()
    with pytest.raises(ValueError, match=r"^metrics\.from_labels: .* 1 pairs outside, in chunk \(2,\)"):
        metrics.from_labels(y, p, "mcc", n_classes=4).compute()
    with pytest.raises(ValueError, match=rf"^cell_counts: y_true must be in 0\.\.3, {where}"):
        cmfast.cell_counts(points, y, p, grid=GRID, n_classes=4).compute()
    lost = X.copy()
    lost[700] = np.nan
    points, y, p = lazy(lost, Y, P)
    cells = cmfast.cell_counts(points, y, p, grid=GRID, n_classes=4)
    with pytest.warns(cmfast.FailureWarning, match=r"^cell_counts: 1 of 300 points left out .*, in chunk \(2,\)"):
        assert cells.compute().n_dropped == 1


def test_nothing_is_computed_early():
    def fail(block):
        pytest.fail("a block was computed")
        return block

    y, p, points = (x.map_blocks(fail, meta=x._meta) for x in lazy(Y, P, X))
    cmfast.confusion_matrix(y, p, n_classes=4, normalize="row")
    metrics.from_labels(y, p, n_classes=4)
    cells = cmfast.cell_counts(points, y, p, grid=GRID, n_classes=4)
    with pytest.raises(pytest.fail.Exception, match="a block was computed"):
        cells.compute()


Y_, P_, X_ = lazy(Y, P, X)
TEXTS_, OBJECTS_ = lazy(NAMES[Y], NAMES[Y].astype(object))
OF_TEXT = {
    "confusion_matrix": cmfast.confusion_matrix,
    "metrics.from_labels": metrics.from_labels,
    "metrics.label_margins": metrics.label_margins,
}


@pytest.mark.parametrize(("array", "dtype"), [(TEXTS_, NAMES.dtype), (OBJECTS_, "object")], ids=str)
@pytest.mark.parametrize("name", OF_TEXT)
def test_text_is_refused_with_the_option_that_it_needs(name, array, dtype):
    count = OF_TEXT[name]
    with pytest.raises(ValueError, match=rf"^{name}: labels must be given with .*y_true has dtype {dtype}\)"):
        count(array, array)
    with pytest.raises(
        TypeError, match=f"^{name}: y_true must be integers .*, got dtype {dtype}; for text pass labels="
    ):
        count(array, array, n_classes=4)
    with pytest.raises(
        TypeError, match=f"^{name}: y_pred must be integers .*, got dtype {dtype}; for text pass labels="
    ):
        count(Y_, array, n_classes=4)
    count(array, array, labels=NAMES)


def test_text_that_no_option_takes_is_refused_by_its_dtype():
    with pytest.raises(TypeError, match=r"^cell_counts: y_pred must be integers, got dtype object$"):
        cmfast.cell_counts(X_, Y_, OBJECTS_, grid=GRID, n_classes=4)
    with pytest.raises(TypeError, match=r"^geometric_confusion_matrix: y_true must be integers, got dtype object$"):
        cmfast.geometric_confusion_matrix(X_, OBJECTS_, Y_, n_classes=4, n_components=None, grid=GRID)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (lambda: cmfast.confusion_matrix(Y_, P_), "confusion_matrix: n_classes must be given with Dask arrays, whose"),
        (lambda: metrics.from_labels(Y_, P_), r"metrics\.from_labels: n_classes must be given with Dask arrays"),
        (lambda: cmfast.cell_counts(X_, Y_, P_, grid=GRID), "cell_counts: n_classes must be given with Dask arrays"),
        (lambda: cmfast.confusion_matrix(Y_, P_, n_classes=4, groups=Y_), "confusion_matrix: n_groups must be given"),
        (lambda: cmfast.confusion_matrix(Y_, P, n_classes=4), "confusion_matrix: arrays must come from one library"),
        (lambda: cmfast.confusion_matrix(Y_, P_[:9], n_classes=4),
         "confusion_matrix: y_pred must be of 1000 samples as y_true, got 9"),
        (lambda: cmfast.confusion_matrix(Y_, P_[:1], n_classes=4), "confusion_matrix: y_pred must be of 1000 samples"),
        (lambda: cmfast.confusion_matrix(Y_, P_, n_classes=4, sparse=True), "confusion_matrix: sparse must be False"),
        (lambda: metrics.label_margins(Y_, P_, n_classes=4, sample_weight=Y_),
         r"metrics\.label_margins: sample_weight must be integers of at most 32 bits with Dask"),
        (lambda: cmfast.confusion_matrix(Y_ / 2, P_, n_classes=4), "confusion_matrix: y_true must be integers, bool"),
        (lambda: cmfast.confusion_matrix(Y_, P_, n_classes=4, sample_axes=0), "confusion_matrix: sample_axes must be"),
        (lambda: cmfast.cell_counts(X_.rechunk((300, 2)), Y_, P_, grid=GRID, n_classes=4),
         r"cell_counts: X must be in one chunk along the last axis; give X\.rechunk\({-1: -1}\)"),
        (lambda: cmfast.cell_counts(X_, Y_[:-1], P_, grid=GRID, n_classes=4), "cell_counts: y_true must be of 1000"),
        (lambda: uncertainty.paired_counts(Y_, P_, Y_[:9]), r"uncertainty\.paired_counts: y_b must be of 1000 samples"),
        (lambda: uncertainty.paired_counts(Y_, P_, Y_, groups={"a": Y_}),
         r"uncertainty\.paired_counts: groups must be one column with Dask arrays"),
        (lambda: conformal.score_histogram(Y_, bins=0), r"conformal\.score_histogram: bins must be"),
        (lambda: cmfast.sparse_histogram(X_, grid=GRID, groups=Y_), "sparse_histogram: n_groups must be given"),
        (lambda: cmfast.sparse_histogram(X_, grid=GRID, weights=W), "sparse_histogram: arrays must come from one lib"),
        (lambda: cmfast.sparse_histogram(X_, grid=GRID, weights=Y_[:9]), "sparse_histogram: weights must be of 1000"),
        (lambda: cmfast.sparse_histogram(X_, grid=3), "sparse_histogram: grid must be a cmfast.Grid"),
    ],
)  # fmt: skip
def test_what_is_refused(of, text):
    with pytest.raises((TypeError, ValueError), match=f"^{text}"):
        of()
