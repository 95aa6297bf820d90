"""Areas of batches of problems: the bits of a loop, and neighbours that bad problems leave alone."""

import warnings

import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast import uncertainty
from cmfast.uncertainty._areas import AVERAGES, SCORES

SHAPE, MODELS, N, C = (2, 3), 2, 48, 3
CASES = {name: (name, {}) for name in SCORES} | {"max_fpr": ("roc_auc", {"max_fpr": 0.3})}
PARTS = ("first", "second", "difference", "low", "high", "p_value", "probability", "standard_error", "n_discordant")


def draw(name, *, seed=0):
    """Return labels (2, 3, n), scores with ties (2, 3, K, n) or (2, 3, K, n, C), weights and clusters."""
    rng = np.random.default_rng(seed)
    several = name in AVERAGES
    y = rng.permuted(np.tile(np.arange(N) % (C if several else 2), (*SHAPE, 1)), axis=-1)
    scores = rng.normal(size=(*SHAPE, MODELS, N, C)) + (np.arange(C) == y[..., np.newaxis, :, np.newaxis])
    scores = np.round(scores, 1) if several else np.round(scores[..., 1], 1)
    patients = rng.integers(0, 15, (*SHAPE, N))
    return (
        y,
        scores,
        {"none": {}, "weights": {"sample_weight": rng.uniform(0.5, 1.0, (*SHAPE, N))}}
        | {"clusters": {"clusters": np.array([f"patient {k}" for k in range(15)])[patients]}},
    )


def take(options, index):
    """Return the options of one problem."""
    return {key: x[index] if isinstance(x, np.ndarray) else x for key, x in options.items()}


@pytest.mark.parametrize("more", ["none", "weights", "clusters"])
@pytest.mark.parametrize("case", CASES)
def test_batches_have_the_bits_of_a_loop(case, more):
    name, options = CASES[case]
    y, scores, choices = draw(name)
    options = options | choices[more]
    covariances = uncertainty.auc_covariance(y, scores, name=name, **options)
    intervals = uncertainty.interval(y, scores[:, :, 0], name, **options)
    compared = uncertainty.compare(y, scores[:, :, 0], scores[:, :, 1], name, **options)
    assert covariances.covariance.shape == (*SHAPE, MODELS, MODELS)
    assert intervals.low.shape == compared.low.shape == SHAPE
    assert compared.axes == {"batch_0": (0, 1), "batch_1": (0, 1, 2)}
    for index in np.ndindex(SHAPE):
        own = take(options, index)
        one = uncertainty.auc_covariance(y[index], scores[index], name=name, **own)
        for part, other in zip(covariances, one, strict=True):
            assert_same_bits(part[index], other)
        for part, other in zip(intervals, uncertainty.interval(y[index], scores[index][0], name, **own), strict=True):
            assert_same_bits(np.asarray(part[index]), np.asarray(other))
        pair = uncertainty.compare(y[index], *scores[index], name, **own)
        for part in PARTS:
            assert_same_bits(np.asarray(getattr(compared, part)[index]), np.asarray(getattr(pair, part)))
        assert compared.verdict(index) == pair.verdict()


def spoil(name):
    """Return a batch of problems, some of them bad or of one class, and what a message says about the first of these.

    The problems at (0, 1), (0, 2), (1, 0) and (1, 1) have no areas; the last of them is of one class.
    """
    y, scores, _ = draw(name, seed=1)
    w = np.ones((*SHAPE, N))
    scores[0, 1, 1, 7] = np.nan
    w[0, 2, 5], w[1, 0, 6] = -1.0, np.inf
    y[1, 1] = 0
    at = "0, 1, 1, 7" + (", 0" if name in AVERAGES else "")
    return (
        y,
        scores,
        w,
        rf"3 of 6 elements without areas \(first: \(0, 1\), .*: 3 INVALID; NaN value at y_score\[{at}\]",
    )


UNDEFINED = pytest.mark.filterwarnings("ignore:.*are NaN", "ignore:.*the smaller class has")  # test_areas.py has these


@UNDEFINED
@pytest.mark.parametrize("case", CASES)
def test_bad_problems_leave_their_neighbours(case):
    name, options = CASES[case]
    y, scores, w, said = spoil(name)
    given = {"name": name, "sample_weight": w, **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = uncertainty.auc_covariance(y, scores, **given)
    assert [each.category for each in caught] == [cmfast.FailureWarning, cmfast.DiagnosticWarning]
    with pytest.warns(cmfast.FailureWarning, match=said):
        uncertainty.auc_covariance(y, scores, **given)
    with pytest.raises(cmfast.FailureError, match=said) as error:
        uncertainty.auc_covariance(y, scores, on_failure="raise", **given)
    assert error.value.status.tolist() == [[0, 5, 5], [5, 0, 0]]
    for part, other in zip(found, uncertainty.auc_covariance(y, scores, on_failure="ignore", **given), strict=True):
        assert_same_bits(part, other)
    for index in np.ndindex(SHAPE):
        if index in ((0, 0), (1, 2)):
            one = uncertainty.auc_covariance(y[index], scores[index], **(given | {"sample_weight": w[index]}))
            for part, other in zip(found, one, strict=True):
                assert_same_bits(part[index], other)
        else:
            assert all(np.isnan(part[index]).all() for part in found)


@UNDEFINED
def test_bad_problems_of_comparisons_are_named():
    y, scores, w, _ = spoil("roc_auc")
    sides = scores[:, :, 0], scores[:, :, 1]
    for name, options in CASES.values():
        if name not in AVERAGES:
            with pytest.warns(cmfast.FailureWarning, match=r"NaN value at y_b\[0, 1, 7\]"):
                found = uncertainty.compare(y, *sides, name, sample_weight=w, **options)
            assert np.isnan(found.difference).tolist() == [[False, True, True], [True, True, False]]
            assert found.verdict((1, 1)) == "undefined"
            assert (found.to_pandas()["batch_1"] == [0, 1, 2] * 2).all()
            assert repr(found).startswith(f"<Comparison: {name} of 6 problems, p")
    with pytest.warns(cmfast.FailureWarning, match=rf"label 3 at y_true\[0, {int(np.argmin(y[0, 0]))}\] is not"):
        uncertainty.interval(np.where(y == 1, 1, 3)[0], sides[0][0], "average_precision")


def test_few_clusters_are_counted_in_each_problem():
    y, scores, _ = draw("roc_auc")
    clusters = np.tile(np.arange(N) // 3, (*SHAPE, 1))  # 16 in each problem
    clusters[1, 2] //= 2
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters in 1 of 6 problems"):
        uncertainty.interval(y, scores[:, :, 0], "roc_auc", clusters=clusters)


@UNDEFINED
@pytest.mark.parametrize("name", SCORES)
def test_batches_of_none_and_problems_without_samples(name):
    y, scores, _ = draw(name)
    for cut in (slice(0), slice(None)):
        some = (y[cut], scores[cut]) if cut.stop == 0 else (y[..., :0], scores.swapaxes(0, 3)[:0].swapaxes(0, 3))
        if cut.stop is None and name in AVERAGES:
            continue  # labels have to tell the classes
        found = uncertainty.auc_covariance(*some, name=name)
        assert found.covariance.shape == (*some[0].shape[:-1], MODELS, MODELS)
        assert np.isnan(found.covariance).all()
        compared = uncertainty.compare(some[0], some[1][:, :, 0], some[1][:, :, 1], name)
        assert compared.difference.shape == some[0].shape[:-1]


@pytest.mark.parametrize("name", ["roc_auc", "average_precision", "roc_auc_ovo_weighted"])
def test_other_libraries(name):
    da = pytest.importorskip("dask.array")
    y, scores, _ = draw(name)
    want = uncertainty.auc_covariance(y, scores, name=name)
    found = uncertainty.auc_covariance(torch.from_numpy(y), torch.from_numpy(scores), name=name)
    assert isinstance(found.covariance, torch.Tensor)
    chunks = (1, 3, *scores.shape[2:])
    lazy = uncertainty.auc_covariance(
        da.from_array(y, chunks=(1, 3, N)), da.from_array(scores, chunks=chunks), name=name
    )
    for part, other, later in zip(want, found, lazy.compute(), strict=True):
        assert_same_bits(part, np.asarray(other))
        assert_same_bits(part, np.asarray(later))
    sides = scores[:, :, 0], scores[:, :, 1]
    later = uncertainty.compare(da.from_array(y), *map(da.from_array, sides), name).compute()
    assert_same_bits(later.p_value, uncertainty.compare(y, *sides, name).p_value)


def test_arrays_of_jax():
    pytest.importorskip("jax")
    from optional import jax  # only now, as its import takes seconds

    y, scores, _ = draw("average_precision")
    given = jax.numpy.asarray(y), jax.numpy.asarray(scores[:, :, 0])
    found = uncertainty.interval(*given, "average_precision")
    assert isinstance(found.low, jax.Array)
    assert_same_bits(np.asarray(found.low), uncertainty.interval(y, scores[:, :, 0], "average_precision").low)


def effective(w):
    """Return Kish's effective size."""
    return w.sum() ** 2 / (w**2).sum()


@pytest.mark.parametrize(("name", "limit"), [("roc_auc", 20), ("average_precision", 20), ("roc_auc_ovr", 8)])
def test_uneven_weights_warn_by_the_effective_size_of_a_class(name, limit):
    rng = np.random.default_rng(3)
    classes = 3 if "ovr" in name else 2
    n = 120
    y = np.arange(n) % classes
    scores = rng.normal(size=(n, classes)) + (np.arange(classes) == y[:, np.newaxis])
    scores = scores if classes == 3 else scores[:, 1]
    own = y == 1
    for share in np.linspace(0.0, 1.0, 21):
        w = np.ones(n)
        w[np.flatnonzero(own)[0]] = 1.0 + 30.0 * share
        size = effective(w[own])
        says = size < min(limit, 0.75 * own.sum())
        calls = {
            "intervals are": lambda w=w: uncertainty.interval(y, scores, name, sample_weight=w, method="logit"),
            "intervals  are": lambda w=w: uncertainty.auc_covariance(y, scores[np.newaxis], name=name, sample_weight=w),
            "intervals and p-values are": lambda w=w: uncertainty.compare(y, scores, -scores, name, sample_weight=w),
        }
        for what, call in calls.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call()
            texts = [str(each.message) for each in caught if "the smaller class has" not in str(each.message)]
            assert len(texts) == says
            if says:
                assert f"an effective size of {size:.3g} samples, below {limit}: {' '.join(what.split())}" in texts[0]


def test_weights_that_are_as_good_as_equal_do_not_warn():
    y, s = np.tile([0, 1], 8), np.tile([3, 1, 2, 4], 4)
    for w in (np.full(16, 2.5), np.linspace(1.0, 2.0, 16), np.repeat([0.0, 1.0], 8)):
        uncertainty.interval(y, s, "roc_auc", sample_weight=w, method="logit")
    uneven = np.where(np.arange(16) < 2, 9.0, 1.0)
    uncertainty.interval(y, s, "roc_auc", sample_weight=uneven, on_failure="ignore")
    batch = np.stack([np.ones(16), uneven, np.full(16, np.nan)])
    with pytest.warns() as caught:
        uncertainty.interval(np.tile(y, (3, 1)), np.tile(s, (3, 1)), "roc_auc", sample_weight=batch, method="logit")
    said = f"effective size of {effective(uneven[::2]):.3g} samples in 1 of 3 problems, below 20"
    texts = [str(each.message) for each in caught]
    assert [said in text for text in texts] == [False, True, False]
    assert "areas of 1 of 3 problems, first 0.25 with 2.91 samples in the smaller class: too few are ranked" in texts[2]
