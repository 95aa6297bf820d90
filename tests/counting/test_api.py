"""What the oracle cannot say of confusion_matrix: errors, scikit-learn, many samples, laws."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse
from cases import CASES
from checks import assert_same_bits
from optional import torch
from sklearn import metrics

import cmfast
from cmfast.kernels.cpu import counting


@pytest.mark.parametrize("kind", ["int64", "int8", "bool", "U4"])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scikit_learn(rng, kind, weighted):
    t, p = rng.integers(0, 2, 500).astype(kind), rng.integers(0, 2, 500).astype(kind)
    w = rng.integers(0, 9, 500) / 8 if weighted else None
    got = cmfast.confusion_matrix(t, p, sample_weight=w)
    np.testing.assert_array_equal(got, metrics.confusion_matrix(t, p, sample_weight=w))
    labels = np.unique(t)[::-1]
    got = cmfast.confusion_matrix(t, p, labels=labels, sample_weight=w)
    np.testing.assert_array_equal(got, metrics.confusion_matrix(t, p, labels=labels, sample_weight=w))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES["confusion_matrix"], ids=str)
@pytest.mark.filterwarnings("ignore:.*none of labels=:cmfast.DiagnosticWarning")
def test_few_samples_are_counted_as_many_are(case, monkeypatch):
    few = cmfast.confusion_matrix(*case.args, **case.options, on_failure="ignore")
    monkeypatch.setattr(counting, "MOST_NUMPY_SAMPLES", -1)
    assert_same_bits(few, cmfast.confusion_matrix(*case.args, **case.options, on_failure="ignore"))


@pytest.mark.parametrize("n", [10, counting.MOST_NUMPY_SAMPLES + 1])
def test_negative_bytes_are_no_class(n):
    t = np.zeros(n, np.int8)
    t[7] = -1  # as an unsigned byte it would be class 255
    with pytest.raises(ValueError, match=r"y_true must be in 0..299, got 1 outside \(first: -1 at 7\)"):
        cmfast.confusion_matrix(t, np.zeros(n, np.int8), n_classes=300)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["int64", "int16", "int8", "uint8"])
def test_many_samples_in_pieces(rng, dtype):
    n = 5 * counting.SAMPLES_PER_PIECE + 17
    t, p = rng.integers(0, 7, n).astype(dtype), rng.integers(0, 7, n).astype(dtype)
    want = np.bincount(t.astype(int) * 7 + p, minlength=49).reshape(7, 7)
    np.testing.assert_array_equal(cmfast.confusion_matrix(t, p, n_classes=7), want)
    np.testing.assert_array_equal(cmfast.confusion_matrix(t, p), want)
    g = rng.integers(0, 3, n)
    got = cmfast.confusion_matrix(t, p, n_classes=7, groups=g)
    np.testing.assert_array_equal(got.sum(axis=0), want)
    np.testing.assert_array_equal(got[1], cmfast.confusion_matrix(t[g == 1], p[g == 1], n_classes=7))


def test_weighted_bits_do_not_depend_on_threads_batch_or_layout(rng):
    n = 3 * counting.SAMPLES_PER_PIECE + 5
    t, p, w = rng.integers(0, 3, n), rng.integers(0, 3, n), rng.random(n)
    alone = cmfast.confusion_matrix(t, p, n_classes=3, sample_weight=w, num_threads=1)
    np.testing.assert_allclose(alone.sum(), w.sum(), rtol=1e-13)
    assert_same_bits(alone, cmfast.confusion_matrix(t, p, n_classes=3, sample_weight=w, num_threads=5))
    assert_same_bits(alone, cmfast.confusion_matrix(t.astype(np.int16), p, n_classes=3, sample_weight=w))
    rows = [np.broadcast_to(x, (counting.LEAST_SHARED_ROWS + 1, n)) for x in (t, p, w)]
    beside = cmfast.confusion_matrix(rows[0], rows[1], n_classes=3, sample_weight=rows[2])
    assert_same_bits(alone, beside[counting.LEAST_SHARED_ROWS])


@pytest.mark.exhaustive
def test_label_beyond_the_guess_in_a_late_piece(rng):
    t = np.zeros(2 * counting.SAMPLES_PER_PIECE, np.int64)
    p = t.copy()
    p[-2] = 5000
    assert cmfast.confusion_matrix(t, p).tolist() == [[t.size - 1, 1], [0, 0]]


def test_lists_without_labels():
    assert cmfast.confusion_matrix([], []).shape == (0, 0)
    np.testing.assert_array_equal(cmfast.confusion_matrix([], (), n_classes=2), np.zeros((2, 2), np.int64))
    assert_same_bits(cmfast.confusion_matrix([], [], labels=["a", "b"]), np.zeros((2, 2), np.int64))
    assert cmfast.confusion_matrix([], [], n_classes=2, groups=[]).shape == (0, 2, 2)
    assert cmfast.metrics.from_labels([], [], "accuracy", n_classes=2, groups=()).shape == (0,)
    with pytest.raises(TypeError, match="y_true must be integers, bool or strings, got dtype float64"):
        cmfast.confusion_matrix(np.empty(0), np.empty(0))


def test_merge_is_addition(rng):
    t, p = rng.integers(0, 5, 1001), rng.integers(0, 5, 1001)
    parts = [cmfast.confusion_matrix(t[k : k + 77], p[k : k + 77], n_classes=5) for k in range(0, 1001, 77)]
    np.testing.assert_array_equal(sum(parts), cmfast.confusion_matrix(t, p, n_classes=5))


def test_ten_thousand_classes_take_one_table(rng):
    t, p = rng.integers(0, 10_000, 1000), rng.integers(0, 10_000, 1000)
    M = cmfast.confusion_matrix(t, p, n_classes=10_000)
    assert M.shape == (10_000, 10_000)
    assert M.sum() == 1000
    assert M[t, p].all()


@pytest.mark.parametrize(
    ("y_true", "y_pred", "options", "error", "text"),
    [
        (
            [0, 3, 1],
            [0, 1, -1],
            {"n_classes": 3},
            ValueError,
            r"y_true must be in 0..2, got 1 outside \(first: 3 at 1\)",
        ),
        (
            [0, 2, 1],
            [0, 1, -1],
            {"n_classes": 3},
            ValueError,
            r"y_pred must be in 0..2, got 1 outside \(first: -1 at 2\)",
        ),
        ([[0, 9], [8, 7]], [[0, 0], [0, 0]], {"n_classes": 3}, ValueError, r"3 outside \(first: 9 at \(0, 1\), 8 at"),
        ([0, 1], [0, 1], {"groups": [0, 2], "n_groups": 2}, ValueError, r"groups must be in 0..1, got 1 outside"),
        ([0, 1], [0, 1], {"groups": [0, -2]}, ValueError, r"groups must be at least 0, got 1 outside \(first: -2 at 1"),
        ([0, 1], [0, 1], {"n_groups": 2}, ValueError, "n_groups must be None without groups"),
        ([0, 1], [0, 1, 1], {}, ValueError, r"y_pred must be 2 samples as y_true, got shape \(3,\)"),
        (0, 1, {}, ValueError, r"y_true must be of shape \(..., n\), got shape \(\)"),
        ([[0], [1]], [[0], [1], [1]], {}, ValueError, "do not broadcast"),
        ([0.0, 1.0], [0, 1], {}, TypeError, "y_true must be integers, bool or strings, got dtype float64"),
        (["a", "b"], [0, 1], {}, TypeError, "y_pred must be strings as y_true, got integers"),
        (["a", "b"], ["a", "b"], {"n_classes": 2}, TypeError, "y_true must be integers where n_classes is given"),
        (["a", "b"], ["a", "b"], {"labels": [0, 1]}, TypeError, "labels must be strings as y_true"),
        ([0, 1], [0, 1], {"labels": [0, 1, 0]}, ValueError, "labels must be unique"),
        ([0, 1], [0, 1], {"labels": []}, ValueError, "at least one label"),
        (
            [0, 1],
            [0, 1],
            {"labels": [0, 1], "n_classes": 2},
            ValueError,
            "labels must be None where n_classes is given",
        ),
        ([0, 1], [0, 1], {"n_classes": -1}, ValueError, "n_classes must be at least 0"),
        ([0, 1], [0, 1], {"n_classes": 0}, ValueError, "n_classes must be at least 1 for labels, got 0"),
        ([0, 1], [0, 1], {"n_classes": 2.0}, TypeError, "n_classes must be an integer"),
        ([0, 1], [0, 1], {"sample_weight": ["a", "b"]}, TypeError, "sample_weight must be real numbers"),
        ([0, 1], [0, 1], {"sample_weight": [1.0]}, ValueError, "sample_weight must be 2 samples as y_true"),
        ([0, 1], [0, 1], {"groups": [0.0, 1.0]}, TypeError, "groups must be integers"),
        ([0, 1], [0, 1], {"normalize": "rows"}, ValueError, "normalize must be one of"),
        ([0, 1], [0, 1], {"normalize": True}, TypeError, "normalize must be one of"),
    ],
)
def test_errors(y_true, y_pred, options, error, text):
    with pytest.raises(error, match=text):
        cmfast.confusion_matrix(y_true, y_pred, **options)


@pytest.mark.parametrize("method", ["all", "row", "true", "col", "pred", "bi"])
def test_normalize_is_normalize(rng, method):
    t, p, g = rng.integers(0, 4, 200), rng.integers(0, 4, 200), rng.integers(0, 3, 200)
    M = cmfast.confusion_matrix(t, p, groups=g)
    assert_same_bits(cmfast.confusion_matrix(t, p, groups=g, normalize=method), cmfast.normalize(M, method))
    if method in ("true", "pred", "all"):
        want = metrics.confusion_matrix(t, p, normalize=method)
        np.testing.assert_allclose(cmfast.confusion_matrix(t, p, normalize=method), want, rtol=1e-15)


def test_normalize_reports_a_bad_weight_once():
    weight = np.array([[1.0, np.nan], [1.0, 2.0]])
    labels = np.array([[0, 1], [0, 1]])
    with pytest.warns(cmfast.FailureWarning, match="INVALID") as caught:
        M = cmfast.confusion_matrix(labels, labels, n_classes=2, sample_weight=weight, normalize="row")
    assert len(caught) == 1
    assert np.isnan(M[0]).all()
    assert M[1].tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("groups", [None, [0, 1, 1, 0]])
def test_no_rows_are_an_answer(groups):
    found = cmfast.confusion_matrix(np.zeros((0, 4), int), [0, 1, 1, 0], n_classes=2, groups=groups)
    assert found.shape == (0, 2, 2) if groups is None else (0, 2, 2, 2)


@pytest.mark.parametrize(
    ("shape", "options", "said"),
    [
        ((3,), {}, r"INVALID; NaN value at sample_weight\[2\]"),
        ((3,), {"sparse": True}, r"INVALID; NaN value at sample_weight\[2\]"),
        ((2, 3), {}, r"1 of 2 matrices.*: 1\): 1 INVALID; NaN value at sample_weight\[..., 2\]"),
        ((2, 2, 3), {"sample_axes": 2}, r"1 of 2 matrices.*: 1\): 1 INVALID; NaN value at sample_weight\[..., 1, 2\]"),
        ((6,), {"groups": [0, 1, 1, 0, 0, 1]}, r"2 of 2 matrices.*; NaN value at sample_weight\[3\]"),
    ],
)
def test_a_bad_weight_is_named(shape, options, said):
    y, weight = np.zeros(shape, int), np.ones(shape)
    weight.flat[-1] = np.nan
    given = {"sample_weight": weight}
    if "groups" in options:
        weight[3] = np.nan
        given["groups"] = np.array(options["groups"])
    options = {name: value for name, value in options.items() if name != "groups"}
    for make in (np.asarray,) if "sparse" in options else (np.asarray, torch.tensor):
        arrays = {name: make(array) for name, array in given.items()}
        with pytest.warns(cmfast.FailureWarning, match=rf"^confusion_matrix: .*{said}$"):
            cmfast.confusion_matrix(make(y), make(y), n_classes=2, **arrays, **options)


def test_weights_that_are_too_many_are_told():
    for weight in ([1e308, 1e308], [2**62, 2**62]):
        with pytest.warns(cmfast.FailureWarning, match="INVALID; its weights add up to more than fits$"):
            cmfast.confusion_matrix([0, 0], [0, 0], sample_weight=weight)


def test_integer_weights_are_added_as_integers():
    M = cmfast.confusion_matrix([0, 0, 1], [0, 0, 1], sample_weight=[2**53, 1, 7])
    assert M.dtype == np.int64
    assert M.tolist() == [[2**53 + 1, 0], [0, 7]]
    assert cmfast.confusion_matrix([0, 1], [0, 1], sample_weight=np.ones(2, np.float32)).dtype == np.float64
    with pytest.warns(cmfast.FailureWarning, match="INVALID"):
        assert not cmfast.confusion_matrix([0, 0], [0, 0], sample_weight=[2**62, 2**62]).any()


def test_a_truth_that_is_ignored_counts_nowhere(rng):
    y, p = rng.integers(0, 4, (2, 3, 500))
    y[rng.random(y.shape) < 0.1] = 255
    want = [metrics.confusion_matrix(t[t != 255], q[t != 255], labels=range(4)) for t, q in zip(y, p, strict=True)]
    assert np.array_equal(cmfast.confusion_matrix(y, p, n_classes=4, ignore_index=255), want)
    assert np.array_equal(cmfast.confusion_matrix(torch.tensor(y), torch.tensor(p), ignore_index=255), want)
    with pytest.raises(ValueError, match=r"y_true must be in 0\.\.3, got .* outside \(first: 255 at"):
        cmfast.confusion_matrix(y, p, n_classes=4, ignore_index=-1)
    with pytest.raises(TypeError, match="ignore_index must be text, as y_true, got an integer, 0"):
        cmfast.confusion_matrix(["a"], ["a"], ignore_index=0)
    y[0, 7] = 9
    with pytest.raises(ValueError, match=r"1 outside \(first: 9 at \(0, 7\)\)"):
        cmfast.confusion_matrix(y, p, n_classes=4, ignore_index=255)


def test_maps_of_labels(rng):
    y, p = rng.integers(0, 3, (2, 5, 8, 9))
    images = cmfast.confusion_matrix(y, p, sample_axes=2)
    assert np.array_equal(images, cmfast.confusion_matrix(y.reshape(5, 72), p.reshape(5, 72)))
    assert np.array_equal(cmfast.confusion_matrix(y, p, sample_axes=None), images.sum(0))
    assert np.array_equal(cmfast.confusion_matrix(torch.tensor(y), torch.tensor(p), sample_axes=None), images.sum(0))
    words = np.array(["a", "b", "c"])
    assert np.array_equal(cmfast.confusion_matrix(words[y], words[p], sample_axes=None), images.sum(0))
    with pytest.raises(ValueError, match=r"y_pred must be samples of shape \(8, 9\) as y_true, got shape \(5, 9, 8\)"):
        cmfast.confusion_matrix(y, p.swapaxes(1, 2), sample_axes=2)
    with pytest.raises(ValueError, match="y_true must be of at least 4 axes"):
        cmfast.confusion_matrix(y, p, sample_axes=4)


def test_floats_that_are_whole_numbers_may_be_labels():
    M = cmfast.confusion_matrix([0.0, 2.0, 2.0], [0, 2, 0], whole_floats=True)
    assert M.tolist() == [[1, 0], [1, 1]]
    assert isinstance(cmfast.confusion_matrix(torch.ones(2), torch.ones(2), whole_floats=True), torch.Tensor)
    for value, shown in ((0.5, "0.5 at 1"), (np.nan, "nan at 1"), (np.inf, "inf at 1"), (2.0**63, "9.2.* at 1")):
        with pytest.raises(ValueError, match=f"y_pred must be whole numbers, got {shown}, 1 such in all"):
            cmfast.confusion_matrix([0.0, 1.0], [0.0, value], whole_floats=True)
    with pytest.raises(TypeError, match="y_true must be integers"):
        cmfast.confusion_matrix([0.0, 1.0], [0.0, 1.0])


def test_dates_are_labels():
    days = np.array(["2024-03-01", "2024-03-02", "2024-03-01"], "M8[D]")
    hours = np.array(["2024-03-01T00", "2024-03-01T00", "2024-03-02T00"], "M8[h]")
    assert cmfast.confusion_matrix(days, hours).tolist() == [[1, 1], [1, 0]]
    assert cmfast.confusion_matrix(days, hours, labels=days[1:]).tolist() == [[0, 1], [1, 1]]
    with pytest.raises(ValueError, match="y_pred must be without missing values, got 1 missing"):
        cmfast.confusion_matrix(days, np.array(["NaT", "2024-03-01", "2024-03-01"], "M8[D]"))
    with pytest.raises(TypeError, match="y_true must be integers, bool or strings"):
        cmfast.confusion_matrix(days, [0, 1, 2])


SOME = [{}, {"labels": [5, 0, 77]}]
OF_SPARSE = [
    *product(["int64", "uint8", "uint64"], [*SOME, {"ignore_index": 3}, {"n_classes": 9}]),
    *product(["U3"], SOME),
    ("far apart", {}),
]


@pytest.mark.parametrize(("kind", "options"), OF_SPARSE, ids=str)
def test_a_sparse_matrix_has_the_same_integers(kind, options, rng):
    y, p = rng.integers(0, 9, (2, 700))
    if kind == "far apart":
        y, p = y * 2**59, p * 2**59
    elif kind == "U3":
        options = {name: np.array(value).astype(str) for name, value in options.items()}
    if kind != "far apart":
        y, p = y.astype(kind), p.astype(kind)
    for weight in (None, rng.integers(0, 2**60, 700) // 2**10, rng.random(700)):
        found = cmfast.confusion_matrix(y, p, sample_weight=weight, sparse=True, **options)
        want = cmfast.confusion_matrix(y, p, sample_weight=weight, **options)
        assert found.format == "csr"
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found.toarray(), want, rtol=1e-13 if want.dtype.kind == "f" else 0)
        if weight is None:
            for name in ("mcc", "f1_macro", "kappa_quadratic", "gerrity", "recall"):
                assert_same_bits(cmfast.metrics.compute(found, name), cmfast.metrics.compute(want, name))


@pytest.mark.exhaustive
def test_a_sparse_matrix_of_a_million_classes(rng):
    y = rng.integers(0, 10**6, 100_000)
    p = np.where(rng.random(100_000) < 0.5, y, rng.integers(0, 10**6, 100_000))
    M = cmfast.confusion_matrix(torch.tensor(y), torch.tensor(p), n_classes=10**6, sparse=True)
    assert M.shape == (10**6, 10**6)
    assert M.sum() == 100_000
    found = cmfast.metrics.compute(M, ["mcc", "f1_macro"], undefined="present")
    assert found == cmfast.metrics.from_labels(y, p, ["mcc", "f1_macro"], n_classes=10**6)


def test_what_a_sparse_matrix_is_not_made_of():
    for wrong in ({"groups": [0, 1]}, {"normalize": "row"}):
        with pytest.raises(ValueError, match="sparse must be False with groups or normalize"):
            cmfast.confusion_matrix([0, 1], [0, 1], sparse=True, **wrong)
    with pytest.raises(ValueError, match=r"y_true must be of shape \(n,\) for a sparse matrix"):
        cmfast.confusion_matrix([[0, 1]], [[0, 1]], sparse=True)
    with pytest.raises(ValueError, match=r"y_pred must be in 0..1, got 1 outside \(first: 5 at 1\)"):
        cmfast.confusion_matrix([0, 1], [0, 5], n_classes=2, sparse=True)
    with pytest.warns(cmfast.FailureWarning, match="INVALID"):
        cmfast.confusion_matrix([0, 1], [0, 1], sample_weight=[1.0, np.nan], sparse=True)
    with pytest.warns(cmfast.FailureWarning, match="INVALID"):
        cmfast.metrics.mcc(scipy.sparse.csr_array(np.array([[3, -1], [1, 2]])))


@pytest.mark.parametrize("low", [0, -700, 10**12])
@pytest.mark.parametrize("has_gap", [False, True])
def test_many_labels_with_and_without_gaps(rng, low, has_gap):
    for n, size in ((20_000, 900), (1_200_000, 900), (20_000, 2000), (300_000, 2000)):
        y, p = rng.integers(low, low + size, (2, n))
        if has_gap:
            y, p = (np.where(x == low + 7, low, x) for x in (y, p))
        y[-1] = low + size + 3 * has_gap  # occurs once, and last
        w = rng.integers(0, 3, n)
        classes, codes = np.unique(np.stack([y, p]), return_inverse=True)
        cells = (codes[0] * len(classes) + codes[1]).ravel()
        for weight in (None, w):
            expected = np.zeros((len(classes), len(classes)), np.int64)
            np.add.at(expected.reshape(-1), cells, 1 if weight is None else weight)
            assert_same_bits(cmfast.confusion_matrix(y, p, sample_weight=weight), expected)
        batch = cmfast.confusion_matrix(np.stack([y, p]), np.stack([p, y]))
        for table in (batch[0], batch[1].T):
            assert_same_bits(table, np.bincount(cells, minlength=len(classes) ** 2).reshape(2 * [len(classes)]))
