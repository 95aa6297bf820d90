"""Dask arrays: nothing is computed early, any chunks give the bits of NumPy, and messages say which chunk it was."""

import warnings
from collections.abc import Mapping
from functools import partial

import numpy as np
import pytest
from callables import ENTRIES, call
from checks import assert_same_bits

import cmfast
from cmfast import conformal, metrics, uncertainty

pytestmark = pytest.mark.exhaustive

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

COUNTS = np.random.default_rng(0).integers(1, 50, (7, 2, 3, 3))
M = COUNTS.astype(np.float64)
CHUNKS = [(7, 2), (1, 1), ((3, 1, 3), 2), ((0, 5, 0, 2), (2, 0))]
# What is counted over samples, or computed on the host.
OTHERWISE = {
    "confusion_matrix", "contingency.learning_path", "metrics.multilabel", "metrics.threshold_matrices", "metrics.roc",
    "metrics.precision_recall", "metrics.roc_auc", "metrics.average_precision", "metrics.least_cost",
    "conformal.scores", "conformal.prediction_sets", "conformal.score_histogram", "ipf_nd", "ipf_cells", "rake",
    "RakeResult.estimate", "balance", "support_nd", "round_to_margins", "uncertainty.auc_covariance",
    "uncertainty.compare_groups",
}  # fmt: skip
BATCHES = [
    name for name, entry in ENTRIES.items() if entry.batch and name not in OTHERWISE and "Display" not in name
]  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(x, chunks=(2,)):
    """Return an array in chunks along its first axes."""
    return da.from_array(x, chunks=(*chunks, *x.shape[len(chunks) :]))


def never(x):
    """Return an array like `x` whose values nobody gets."""

    def fail(block):
        pytest.fail("a block was computed")
        return block

    return lazy(x).map_blocks(fail, dtype=x.dtype, meta=np.empty((0,) * x.ndim, x.dtype))


def leaves(found):
    """Return the arrays of a result in a list."""
    if isinstance(found, Mapping | tuple | list):
        return [leaf for part in (found.values() if isinstance(found, Mapping) else found) for leaf in leaves(part)]
    return [found] if hasattr(found, "shape") else []


def assert_as_numpy(function, arrays, chunks=(2,)):
    """Compare everything about a result with what NumPy's arrays give."""
    want = function(**arrays)
    some = {name: lazy(x, chunks if x.ndim > 2 else chunks[: x.ndim - 1]) for name, x in arrays.items()}
    found = function(**some)
    assert all(isinstance(leaf, da.Array) for leaf in leaves(found))
    for leaf, other in zip(leaves(found), leaves(want), strict=True):
        assert leaf.shape == other.shape
        assert leaf.dtype == other.dtype
        assert leaf._meta.ndim == other.ndim
    (got,) = dask.compute(found)
    assert type(got) is type(want)
    for leaf, other in zip(leaves(got), leaves(want), strict=True):
        assert_same_bits(leaf, other)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("name", BATCHES)
def test_every_function_of_batches_gives_the_bits_of_numpy(name):
    entry = ENTRIES[name]
    stacked = {*entry.batch, *(("bands", "tops") if name == "metrics.from_sums" else ())}
    arrays = {a: np.stack([entry.arrays[a] * k for k in (1, 2, 3, 2, 1)]) for a in stacked}
    assert_as_numpy(lambda **some: call(entry, **some), arrays, (2,))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize(
    ("function", "options"),
    [
        (cmfast.ipf, ()),
        (cmfast.support, ()),
        (cmfast.normalize, ("col",)),
        (cmfast.importance_weights, ("bi",)),
        (metrics.compute, ()),
        (partial(metrics.compute, average_over=[2, 0]), (["recall", "mcc"],)),
        (partial(metrics.kappa, weights=[[0, 1, 2], [1, 0, 1], [4, 2, 0]]), ()),
        (partial(metrics.most_confused, by="rate"), ()),
        (metrics.collapse, (["a", "b", "a"],)),
        (uncertainty.standard_error, ()),
        (partial(uncertainty.resample, n_resamples=9, rng=3), ()),
        (partial(uncertainty.resample, n_resamples=9, scheme="expected_rounded"), ()),
        (partial(uncertainty.interval, n_resamples=40, on_failure="ignore"), (["mcc", "recall"],)),
        (partial(uncertainty.interval, n_resamples=40, method="posterior", on_failure="ignore"), ("mcc",)),
        (partial(uncertainty.interval, n_resamples=40, of="bi"), ()),
        (partial(uncertainty.posterior, n_resamples=40), ("f1_macro",)),
    ],
    ids=lambda x: getattr(x, "__name__", None) or getattr(x, "func", type).__name__,
)
def test_chunks_do_not_matter(function, options, chunks):
    def of(M):
        return function(M, *options)

    assert_as_numpy(of, {"M": M}, chunks)
    assert_as_numpy(of, {"M": COUNTS.astype(np.float32)}, chunks)


def test_targets_of_weights_have_chunks_of_their_own():
    target = M[:1, 1] / 7
    found = cmfast.importance_weights(lazy(M, (3, 1)), target=da.from_array(target, chunks=(1, 3, 3)))
    assert_same_bits(found.compute(), cmfast.importance_weights(M, target=target))


def test_one_matrix_and_arrays_of_several_chunks():
    assert_as_numpy(lambda M: cmfast.ipf(M), {"M": M[0, 0]}, ())  # noqa: PLW0108 (it is positional)
    assert_as_numpy(lambda M: metrics.accuracy(M), {"M": M[0, 0]}, ())  # noqa: PLW0108
    want = cmfast.overlap(M, M[:1, 1])
    found = cmfast.overlap(lazy(M, (3, 1)), da.from_array(M[:1, 1], chunks=(1, 3, 3)))
    assert_same_bits(found.compute(), want)
    rows = M.sum(-1)
    found = cmfast.ipf(lazy(M, (3, 1)), da.from_array(rows, chunks=(2, 2, 3)), lazy(M.sum(-2), (7, 1)))
    assert_same_bits(found.matrix.compute(), cmfast.ipf(M, rows, M.sum(-2)).matrix)


@pytest.mark.parametrize("chunks", [(5, 40), (1, 7), ((2, 0, 3), (1, 39))], ids=str)
@pytest.mark.parametrize("rule", [{"method": "aps"}, {"method": "raps", "lam": 0.01}, {"method": "lac"}], ids=str)
def test_conformal_scores(rule, chunks):
    rng = np.random.default_rng(8)
    P, y, u = rng.dirichlet(np.ones(4), (5, 40)), rng.integers(0, 4, (5, 40)), rng.random((5, 40))
    scores = conformal.scores
    lazy_P, lazy_y, lazy_u = (lazy(x, chunks) for x in (P, y, u))
    pairs = [(scores(lazy_P, **rule), scores(P, **rule)), (scores(lazy_P, lazy_y, **rule), scores(P, y, **rule))]
    if rule["method"] != "lac":
        pairs.append((scores(lazy_P, lazy_y, u=lazy_u, **rule), scores(P, y, u=u, **rule)))
        pairs.append((scores(lazy_P, rng=3, **rule), scores(P, rng=3, **rule)))
    for found, want in pairs:
        assert (found.shape, found.dtype, found._meta.ndim) == (want.shape, want.dtype, want.ndim)
        assert_same_bits(found.compute(), want)


@pytest.mark.filterwarnings("ignore:.*uneven weights leave:cmfast.DiagnosticWarning")
@pytest.mark.parametrize("chunks", [(5,), (2,), ((0, 1, 4),)], ids=str)
@pytest.mark.parametrize("name", ["threshold_matrices", "roc", "precision_recall", "roc_auc", "average_precision"])
def test_scores_and_their_thresholds(name, chunks):
    rng = np.random.default_rng(9)
    score, y, w = rng.random((5, 30)).round(1), rng.integers(0, 2, (5, 30)), rng.integers(1, 5, (5, 30))
    function = getattr(metrics, name)
    for row in (slice(None), 0):
        given = {"y_true": y[row], "y_score": score[row], "sample_weight": w[row]}
        some = {key: da.from_array(x, chunks=(*(chunks if x.ndim > 1 else ()), 30)) for key, x in given.items()}
        found, want = function(**some), function(**given)
        for leaf, other in zip(leaves(found), leaves(want), strict=True):
            assert (leaf.shape, leaf.dtype) == (other.shape, other.dtype)
            assert_same_bits(leaf.compute(), other)
    models = np.stack([score, score[::-1]], 1)
    given = {"y_true": y, "y_score": models, "sample_weight": w}
    some = {key: da.from_array(x, chunks=(*chunks, *x.shape[1:])) for key, x in given.items()}
    found, want = uncertainty.auc_covariance(**some), uncertainty.auc_covariance(**given)
    for leaf, other in zip(
        leaves((found, found.interval(method="logit"))), leaves((want, want.interval(method="logit"))), strict=True
    ):
        assert (leaf.shape, leaf.dtype) == (other.shape, other.dtype)
        assert_same_bits(leaf.compute(), other)
    found = uncertainty.interval(some["y_true"], da.from_array(score, chunks=(*chunks, 30)), "roc_auc")
    for leaf, other in zip(leaves(found), leaves(uncertainty.interval(y, score, "roc_auc")), strict=True):
        assert_same_bits(leaf.compute(), other)
    cost = [[0, 1], [3, 0]]
    found, want = metrics.least_cost(lazy(y), lazy(score), cost), metrics.least_cost(y, score, cost)
    for leaf, other in zip(leaves(found), leaves(want), strict=True):
        assert_same_bits(leaf.compute(), other)


@pytest.mark.parametrize("chunks", [(40, 3), (7, 3), ((0, 39, 1), 3)], ids=str)
def test_tables_of_several_labels(chunks):
    rng = np.random.default_rng(10)
    y, p, w = *rng.integers(0, 2, (2, 40, 3)), rng.integers(1, 4, 40)
    some = [da.from_array(x, chunks=chunks[: x.ndim]) for x in (y, p, w)]
    for options, weight in (
        ({}, None),
        ({"sample_weight": w}, {"sample_weight": some[2]}),
        ({"samplewise": True}, None),
    ):
        found = metrics.multilabel_tables(*some[:2], **(weight or options))
        want = metrics.multilabel_tables(y, p, **options)
        assert (found.shape, found.dtype) == (want.shape, want.dtype)
        assert_same_bits(found.compute(), want)
    with pytest.raises(ValueError, match=r"^metrics\.multilabel_tables: sample_weight must be None with samplewise"):
        metrics.multilabel_tables(*some[:2], sample_weight=some[2], samplewise=True)


def test_clusters_are_in_one_chunk():
    several = {"n_resamples": 40, "clusters": True, "on_failure": "ignore"}
    for chunks in CHUNKS:
        stacked = {"M": np.stack([COUNTS, COUNTS + 1, COUNTS + 5], 2)}
        assert_as_numpy(lambda M: uncertainty.interval(M, "mcc", **several), stacked, chunks)
        assert_as_numpy(lambda M: uncertainty.interval(M, of="row", **several), stacked, chunks)
    assert_as_numpy(lambda M: uncertainty.standard_error(M, "accuracy", clusters=True), {"M": np.stack([M, M + 1], 2)})
    with pytest.raises(ValueError, match=r"M must be in one chunk along the last 3 axes; give M\.rechunk\({-3: -1, -2"):
        uncertainty.standard_error(lazy(M, (3, 1)), "accuracy", clusters=True)


def test_batches_of_unknown_size():
    some = lazy(M, (2, 2))
    some = some[some[:, 0, 0, 0] > 20]
    assert np.isnan(some.shape[0])
    assert_same_bits(metrics.mcc(some).compute(), metrics.mcc(M[M[:, 0, 0, 0] > 20]))


def test_nothing_is_computed_early():
    cells = never(M)
    cmfast.bi_normalize(cells)
    result = cmfast.ipf(cells)
    assert repr(result) == result._repr_html_().replace("&lt;", "<").replace("&gt;", ">")
    assert repr(result) == "<ScalingResult: lazy, dask.compute gives it>"
    metrics.defined(cells, "mcc")
    with pytest.raises(pytest.fail.Exception, match="a block was computed"):
        metrics.compute(cells)["mcc"].compute()
    with pytest.raises(TypeError, match=r"^ScalingResult\.explain: a lazy dask\.array\.core\.Array has no values yet"):
        result.explain()


def test_results_that_are_lazy_are_computed_as_arrays_are():
    result = cmfast.ipf(lazy(M)).compute(scheduler="sync")
    assert_same_bits(result.matrix, cmfast.ipf(M).matrix)
    with pytest.raises(AttributeError, match="'ScalingResult' object has no attribute 'compute'"):
        _ = result.compute
    found = uncertainty.interval(lazy(M), ["mcc", "recall"], method="normal", on_failure="ignore")
    shown = "<Intervals: 2 metrics, 95% by normal"
    assert (repr(found), repr(found.compute())) == (f"{shown}; lazy, dask.compute gives it>", f"{shown}>")
    want = uncertainty.interval(M, ["mcc", "recall"], method="normal", on_failure="ignore")
    assert_same_bits(found.compute()["recall"].low, want["recall"].low)


def test_the_same_call_is_the_same_task():
    first, second = cmfast.ipf(lazy(M)), cmfast.ipf(lazy(M))
    assert first.matrix.name == second.matrix.name != cmfast.ipf(lazy(M), tol=1e-6).matrix.name
    assert first.matrix.name.startswith("ipf-")
    assert first.matrix.name != cmfast.ras(lazy(M)).row_scale.name


def test_blocks_take_one_thread(monkeypatch):
    asked = []
    monkeypatch.setattr("cmfast.comparison.validate.num_threads", lambda n: asked.append(n) or n)
    cmfast.overlap(lazy(M, (7,)), lazy(M, (7,))).compute()
    cmfast.overlap(lazy(M, (7,)), lazy(M, (7,)), num_threads=2).compute()
    assert asked == [None, 1, 2, 2]


def test_bad_matrices_are_reported_by_the_task():
    bad = M.copy()
    bad[4, 1, 0, 0] = np.nan
    cells = lazy(bad, (2, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = cmfast.bi_normalize(cells)
        metrics.mcc(cells, on_failure="ignore").compute()
    with pytest.warns(cmfast.FailureWarning) as caught:
        got = result.compute()
    where = "in chunk (2, 1), which begins at index (4, 1)"
    text = f"bi_normalize: INVALID (element (0, 0) of 2): NaN value at M[0, 0], {where}"
    assert [str(w.message) for w in caught] == [text]
    assert_same_bits(got, cmfast.bi_normalize(bad, on_failure="ignore"))
    text = r"^ipf: INVALID \(element .*, in chunk \(2, 1\), which begins at index \(4, 1\)$"
    with pytest.raises(cmfast.FailureError, match=text):
        cmfast.ipf(cells, on_failure="raise").matrix.compute()


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (lambda: cmfast.bi_normalize(da.ones((4, 3, 3), chunks=(4, 2, 3))),
         r"bi_normalize: M must be in one chunk along the last 2 axes; give M\.rechunk\({-2: -1, -1: -1}\), got"),
        (lambda: cmfast.bi_normalize(da.ones((4, 3, 2))), r"bi_normalize: M must be square, .*, got shape \(4, 3, 2\)"),
        (lambda: metrics.mcc(da.ones(3)), r"metrics\.mcc: M must be of shape \(\.\.\., C, C\), got shape \(3,\)"),
        (lambda: metrics.mcc(da.ones((3, 3)).astype(complex)), r"metrics\.mcc: M must be real numbers"),
        (lambda: cmfast.overlap(lazy(M), M), r"overlap: .* A from dask, B from numpy; .*\.from_array\(B\)$"),
        (lambda: cmfast.overlap(M, lazy(M)), r"overlap: .* B from dask; .* as by dask\.array\.from_array\(A\)$"),
        (lambda: cmfast.ras(lazy(M), [1.0] * 3, [1.0] * 3),
         r"ras: arrays must come from one library, .*, row_sums from a Python list, .*\.from_array\(row_sums\)$"),
        (lambda: cmfast.overlap(lazy(M), lazy(M[:3])), "overlap: batch shapes do not broadcast, got A:"),
        (lambda: cmfast.ipf(lazy(M), start=(lazy(M[..., 0]),) * 2), "ipf: start must be without Dask arrays, got some"),
        (lambda: cmfast.ras(lazy(M), progress=True), "ras: progress must be None with Dask arrays, which have"),
        (lambda: conformal.scores(lazy(M[0, 0]), rng=np.random.default_rng(0)),
         r"conformal\.scores: rng must be a seed with Dask arrays"),
        (lambda: conformal.scores(lazy(M[0, 0]).rechunk((3, 1))),
         r"conformal\.scores: P must be in one chunk along the last axis; give P\.rechunk\({-1: -1}\)"),
        (lambda: metrics.roc_auc(lazy(COUNTS[0, 0] % 2), lazy(M[0, 0]), pos_label=1),
         r"metrics\.roc_auc: pos_label must be None with Dask arrays; pass \(y_true == label\)"),
        (lambda: metrics.threshold_matrices(da.ones(9, dtype=int), da.ones(9), drop_ties=True),
         r"metrics\.threshold_matrices: drop_ties must be False with Dask arrays"),
        (lambda: metrics.roc_auc(da.ones(9, dtype=int, chunks=3), da.ones(9, chunks=3)),
         r"metrics\.roc_auc: y_true must be in one chunk along the last axis; give y_true\.rechunk\({-1: -1}\)"),
        (lambda: metrics.mcc(lazy(M), undefined="no"), "metrics.mcc: undefined must be"),
        (lambda: metrics.compute(lazy(M), ["no"]), "metrics.compute: "),
        (lambda: uncertainty.resample(lazy(M)[lazy(M)[:, 0, 0, 0] > 20], n_resamples=2),
         r"uncertainty\.resample: M must be of known size; call M\.compute_chunk_sizes\(\)"),
        (lambda: uncertainty.interval(lazy(M), "mcc", strata=lazy(M)), "uncertainty.interval: strata must be without"),
        (lambda: metrics.mcc(da.ones((4, 3), chunks=2)[da.ones(4, chunks=2) > 0]),
         r"metrics\.mcc: M must be of known size; call M\.compute_chunk_sizes\(\)"),
    ],
)  # fmt: skip
def test_what_is_refused(of, text):
    with pytest.raises((TypeError, ValueError), match=f"^{text}"):
        of()


def test_draws_of_a_generator_are_made_once():
    M = COUNTS[:, 0]
    found = uncertainty.resample(lazy(M), n_resamples=3, rng=np.random.default_rng(6))
    assert_same_bits(found.compute(), uncertainty.resample(M, n_resamples=3, rng=np.random.default_rng(6)))
    uncertainty.interval(never(M), "mcc")
    uncertainty.posterior(never(M), "mcc")


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_draws_on_every_scheduler(scheduler):
    M = lazy(COUNTS, (3, 1))
    (found, drawn) = dask.compute(
        uncertainty.interval(M, ["mcc", "recall"], n_resamples=60, on_failure="ignore"),
        uncertainty.resample(M, n_resamples=60),
        scheduler=scheduler,
    )
    want = uncertainty.interval(COUNTS, ["mcc", "recall"], n_resamples=60, on_failure="ignore")
    assert (found.method, found.confidence_level, found.n_resamples) == (
        want.method,
        want.confidence_level,
        want.n_resamples,
    )
    for one, other in zip(leaves(found), leaves(want), strict=True):
        assert_same_bits(one, other)
    assert_same_bits(drawn, uncertainty.resample(COUNTS, n_resamples=60))


def test_few_clusters_are_doubted_once_and_few_samples_where_they_are():
    M = np.stack([COUNTS, COUNTS], 2)
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters") as caught:
        found = uncertainty.interval(lazy(M, (2, 1)), "mcc", clusters=True, n_resamples=9)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.low.compute()
    of_one_mistake = COUNTS[:, 0] * 0 + 20 * np.eye(3, dtype=int) + np.eye(3, k=2, dtype=int)
    few = uncertainty.interval(lazy(of_one_mistake, (4,)), "accuracy", n_resamples=9)
    with pytest.warns(cmfast.DiagnosticWarning) as caught:
        few.low.compute()
    assert len(caught) == 2
