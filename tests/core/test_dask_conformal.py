"""Prediction sets of Dask arrays, from scores to correlations: lazy, and the bits of NumPy for any chunks."""

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import conformal

pytestmark = pytest.mark.exhaustive

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(12)
P = RNG.dirichlet(np.ones(5), (3, 60)).round(3)
P /= P.sum(-1, keepdims=True)
Y = RNG.integers(0, 5, (3, 60))
CHUNKS = [(3, 60), (1, 7), ((2, 0, 1), (1, 59)), (2, (0, 30, 30))]
ALPHA = [0.1, 0.4]


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(x, chunks):
    return da.from_array(x, chunks=(*chunks[: x.ndim], *x.shape[len(chunks) :]))


def assert_promised(found, want):
    """Compare what a Dask array says and has with an array of NumPy's."""
    assert isinstance(found, da.Array)
    assert (found.shape, found.dtype, found._meta.ndim) == (want.shape, want.dtype, want.ndim)
    assert_same_bits(np.ascontiguousarray(found.compute()), np.ascontiguousarray(want))


def assert_same_sets(found, want):
    assert (found.n_classes, found.empty) == (want.n_classes, want.empty)
    for name in ("packed", "sizes", "mask", "size_counts"):
        assert_promised(getattr(found, name), getattr(want, name))
    (got,) = dask.compute(found)
    assert type(got) is cmfast.results.PredictionSets
    assert_same_bits(np.ascontiguousarray(got.sizes), np.ascontiguousarray(want.sizes))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_sets_and_what_is_counted_of_them(chunks):
    q = conformal.threshold(conformal.scores(P, Y), ALPHA)
    probabilities, y = lazy(P, chunks), lazy(Y, chunks)
    scores = conformal.scores(probabilities, y).rechunk({-1: -1})
    limits = conformal.threshold(scores, ALPHA)
    assert_promised(limits, q)
    want = conformal.prediction_sets(P, q, rng=2)
    for given in (q, limits):
        sets = conformal.prediction_sets(probabilities, given, rng=2)
        assert repr(sets) == "<PredictionSets: lazy, dask.compute gives it>"
        assert_same_sets(sets, want)
    counts, held = conformal.ccm(sets).compute(), conformal.coverage_confusion(sets, y).compute()
    other, also = conformal.ccm(want), conformal.coverage_confusion(want, Y)
    assert type(counts) is conformal.CcmCounts
    for one, two in ((counts.n, other.n), (counts.G, other.G), (held.V, also.V), (held.n, also.n)):
        assert_same_bits(one, two)
    assert_promised(sets.coverage(y), want.coverage(Y))
    for one, two in zip(sets.coverage_by_size(y), want.coverage_by_size(Y), strict=True):
        assert_promised(one, two)
    pairs = [(0, 1), (2, 3)]
    ranked = conformal.rank_clients(conformal.ccm(sets), pairs, order="high").compute()
    assert_same_bits(ranked, conformal.rank_clients(other, pairs, order="high"))


@pytest.mark.parametrize("chunks", [(60,), (7,), ((0, 59, 1),)], ids=str)
def test_rows_alone_with_thresholds_of_classes_and_groups(chunks):
    rows, y, u = P[0], Y[0], RNG.random(60)
    groups = y % 2
    scores = lazy(conformal.scores(rows, y), (60,))
    by_class = conformal.threshold(conformal.scores(rows, y), ALPHA, y=y, n_classes=5)
    by_group = conformal.threshold(conformal.scores(rows, y), ALPHA, groups=groups, n_groups=2)
    assert_promised(conformal.threshold(scores, ALPHA, y=lazy(y, (60,)), n_classes=5), by_class)
    assert_promised(conformal.threshold(scores, ALPHA, groups=lazy(groups, (60,)), n_groups=2), by_group)
    many, number, drawn = lazy(rows, chunks), lazy(groups, chunks), lazy(u, chunks)
    assert_same_sets(
        conformal.prediction_sets(many, by_class, u=drawn, empty="top1"),
        conformal.prediction_sets(rows, by_class, u=u, empty="top1"),
    )
    options = {"method": "raps", "lam": 0.01, "k_reg": 1}
    assert_same_sets(
        conformal.prediction_sets(many, by_group, groups=number, **options),
        conformal.prediction_sets(rows, by_group, groups=groups, **options),
    )
    shared = conformal.prediction_sets(lazy(P, (1, *chunks)), by_class[np.newaxis, :, 0])  # of length 1: repeated
    assert_same_sets(shared, conformal.prediction_sets(P, by_class[np.newaxis, :, 0]))


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.processes)])
def test_schedulers(scheduler):
    sets = conformal.prediction_sets(lazy(P, (1, 20)), [[0.8, 0.9]] * 3)
    want = conformal.prediction_sets(P, [[0.8, 0.9]] * 3)
    got, counts = dask.compute(sets.packed, conformal.ccm(sets), scheduler=scheduler)
    assert_same_bits(np.ascontiguousarray(got), want.packed)
    assert_same_bits(counts.G, conformal.ccm(want).G)


def test_bad_rows_and_labels_name_their_chunk():
    bad, labels = P[0].copy(), Y[0].copy()
    bad[31, 2], labels[44] = np.nan, 9
    sets = conformal.prediction_sets(lazy(bad, (10,)), [0.9])
    where = r", in chunk \(3,\), which begins at index \(30,\)$"
    with pytest.warns(cmfast.FailureWarning, match=rf"^conformal\.prediction_sets: 1 of 10 rows given .*{where}"):
        sets.sizes.compute()
    where = r", in chunk \(0, 4\), which begins at index \(0, 40\)$"
    with pytest.warns(cmfast.FailureWarning, match=rf"^conformal\.coverage_confusion: 1 of 10 rows left .*{where}"):
        conformal.coverage_confusion(conformal.prediction_sets(lazy(P[0], (10,)), [0.9]), lazy(labels, (10,))).compute()


def test_nothing_is_computed_early():
    def fail(block):
        pytest.fail("a block was computed")
        return block

    probabilities, y = (lazy(x, (1, 20)) for x in (P, Y))
    probabilities = probabilities.map_blocks(fail, dtype=P.dtype, meta=probabilities._meta)
    limits = conformal.threshold(conformal.scores(probabilities, y).rechunk({-1: -1}), ALPHA)
    sets = conformal.prediction_sets(probabilities, limits)
    conformal.ccm(sets)
    conformal.coverage_confusion(sets, y)
    sets.coverage(y)
    with pytest.raises(pytest.fail.Exception, match="a block was computed"):
        sets.sizes.compute()
    with pytest.raises(TypeError, match="has no values yet"):
        sets.explain()


S_, P_ = lazy(conformal.scores(P[0], Y[0]), (20,)), lazy(P[0], (20,))


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (lambda: conformal.threshold(S_, 0.1),
         r"conformal\.threshold: s must be in one chunk along the last axis; give s\.rechunk\({-1: -1}\)"),
        (lambda: conformal.threshold(S_, 0.1, y=S_.astype(int)),
         "conformal.threshold: n_classes must be given with Dask"),
        (lambda: conformal.threshold(S_, 2.0), "conformal.threshold: alpha must be"),
        (lambda: conformal.prediction_sets(P_, [[0.5] * 4] * 2), "conformal.prediction_sets: q must be of shape"),
        (lambda: conformal.prediction_sets(P_, [0.5], u=P[0, :, 0]),
         "conformal.prediction_sets: arrays must come from"),
        (lambda: conformal.prediction_sets(P_, [0.5], rng=np.random.default_rng(0)),
         "conformal.prediction_sets: rng must be a seed with Dask arrays"),
        (lambda: conformal.coverage_confusion(conformal.prediction_sets(P_, [0.5]), Y[0]),
         "conformal.coverage_confusion: arrays must come from one library"),
        (lambda: conformal.coverage_confusion(conformal.prediction_sets(P_, [0.5]), S_),
         "conformal.coverage_confusion: y must be integers"),
    ],
)  # fmt: skip
def test_what_is_refused(of, text):
    with pytest.raises((TypeError, ValueError), match=f"^{text}"):
        of()
