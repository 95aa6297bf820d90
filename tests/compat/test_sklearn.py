"""scikit-learn's functions by cmfast: the same values, warnings, errors and signatures, and none of its arithmetic."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
import sklearn.metrics as theirs
from processes import ROOT, python
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import cross_val_score

import cmfast
from cmfast import metrics
from cmfast._core import dispatch
from cmfast.compat import sklearn as ours
from cmfast.compat.sklearn import _originals

pytestmark = pytest.mark.peers

ORIGINALS = dict(_originals.ORIGINALS)
PER_LABEL = ["f1_score", "jaccard_score", "precision_score", "recall_score", "precision_recall_fscore_support"]
CURVES = ["confusion_matrix_at_thresholds", "det_curve", "precision_recall_curve", "roc_curve"]
AREAS = ["average_precision_score", "roc_auc_score"]


def said(function, *args, **options):
    """Return what a call gives, or refuses, and all that it warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            value = function(*args, **options)
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            value = f"{type(error).__name__}: {error}"
    return value, [(warning.category, str(warning.message)) for warning in found]


def assert_agrees(name, *args, **options):
    """Assert that both give the same and say the same; return it."""
    (got, got_said), (want, want_said) = (said(f, *args, **options) for f in (getattr(ours, name), ORIGINALS[name]))
    assert got_said == want_said, (name, options)
    if isinstance(want, dict):
        assert list(got) == list(want)
        got, want = (
            [each if isinstance(each, float) else [*each.values()] for each in x.values()] for x in (got, want)
        )
        got, want = np.hstack(got), np.hstack(want)
    if isinstance(want, str):
        assert got == want
        return got
    assert isinstance(got, float if isinstance(want, float) else type(want))
    for mine, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        assert (mine is None) == (other is None)
        if other is not None:
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12, err_msg=name)
    return got


@pytest.fixture
def alone(monkeypatch):
    """Take scikit-learn's own functions away, and return the list of ops that run."""
    ran = []
    call = dispatch.call
    monkeypatch.setattr(dispatch, "call", lambda op, *args, **options: ran.append(op) or call(op, *args, **options))

    def gone(*_, **__):
        raise AssertionError

    for name in ORIGINALS:
        monkeypatch.setitem(_originals.ORIGINALS, name, gone)
    return ran


def columns(rng, n=300):
    """Yield pairs of columns of every kind of labels."""
    y = rng.integers(0, 4, n)
    p = np.where(rng.random(n) < 0.7, y, rng.integers(0, 4, n))
    names = np.array(["ant", "bee", "cat", "dog"])
    yield "integers", y, p
    yield "with gaps", y * 7 - 3, p * 7 - 3
    yield "far apart", y * 10**6, p * 10**6
    yield "of two types", y.astype(np.uint8), p
    yield "text", names[y], names[p]
    yield "objects", names[y].astype(object), names[p].astype(object)
    yield "lists", y.tolist(), p.tolist()
    yield "lists of text", names[y].tolist(), names[p].tolist()
    yield "floats", y.astype(float), p.astype(float)
    yield "two classes", y % 2, p % 2
    yield "bool", y % 2 == 1, p % 2 == 1
    yield "signs", 2 * (y % 2) - 1, 2 * (p % 2) - 1
    yield "one class", y * 0, p * 0
    yield "never true", y * 0, p
    yield "many classes", rng.integers(0, 2000, n), rng.integers(0, 2000, n)


@pytest.mark.parametrize("name", sorted(ORIGINALS))
def test_signatures_are_those_of_scikit_learn(name):
    mine, other = (
        inspect.signature(function).parameters.values() for function in (getattr(ours, name), ORIGINALS[name])
    )
    assert [(p.name, p.kind, repr(p.default)) for p in mine] == [(p.name, p.kind, repr(p.default)) for p in other]
    assert name in ours.__all__


def test_every_kind_of_labels_gives_what_scikit_learn_gives(rng):
    for _, y, p in columns(rng):
        for weight in (None, rng.random(len(y)), rng.integers(0, 5, len(y))):
            for name in ("confusion_matrix", "multilabel_confusion_matrix", "hamming_loss", "matthews_corrcoef"):
                assert_agrees(name, y, p, sample_weight=weight)
            for normalize in (True, False):
                assert_agrees("accuracy_score", y, p, sample_weight=weight, normalize=normalize)
                assert_agrees("zero_one_loss", y, p, sample_weight=weight, normalize=normalize)
                assert_agrees("balanced_accuracy_score", y, p, sample_weight=weight, adjusted=normalize)
            for weights in (None, "linear", "quadratic"):
                assert_agrees("cohen_kappa_score", y, p, sample_weight=weight, weights=weights)
            assert_agrees("class_likelihood_ratios", y, p, sample_weight=weight)
            assert_agrees(
                "classification_report", y, p, sample_weight=None if weight is None else weight.round(), digits=4
            )


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "samples", "binary", None])
def test_averages_are_those_of_scikit_learn(average, rng):
    for _, y, p in columns(rng, 60):
        for zero_division in ("warn", 0, 1, np.nan):
            for name in PER_LABEL:
                assert_agrees(name, y, p, average=average, zero_division=zero_division)
            assert_agrees("fbeta_score", y, p, beta=0.5, average=average, sample_weight=rng.random(60))
        assert_agrees("precision_recall_fscore_support", y, p, beta=0, average=average)
        assert_agrees("f1_score", y, p, average=average, pos_label=7)


def test_chosen_labels_are_those_of_scikit_learn(rng):
    y, p = rng.integers(0, 5, (2, 200))
    for labels in ([1], [3, 1], [4, 9, 2], [9], [0, 1, 2, 3, 4], [2, 2], []):
        for weight in (None, rng.random(200), rng.integers(0, 2**50, 200)):
            assert_agrees("confusion_matrix", y, p, labels=labels, sample_weight=weight, normalize="true")
            assert_agrees("multilabel_confusion_matrix", y, p, labels=labels or None, sample_weight=weight)
        assert_agrees("cohen_kappa_score", y, p, labels=labels)
        assert_agrees("classification_report", y, p, labels=labels or None, output_dict=True)
        for average in ("micro", "macro", "weighted", None):
            assert_agrees("f1_score", y, p, labels=labels or None, average=average)


def test_sums_of_integer_weights_are_exact_and_wrap_as_theirs():
    y, weight = [0, 1, 1], np.array([2**53 + 1, 2**62 + 1, 2**62 + 1])
    assert assert_agrees("confusion_matrix", y, y, sample_weight=weight).dtype == np.int64
    assert ours.confusion_matrix([0, 0], [0, 0], labels=[0, 1], sample_weight=[2**53, 1])[0, 0] == 2**53 + 1


@pytest.mark.parametrize("dense", [True, False])
def test_multilabel_is_that_of_scikit_learn(dense, rng):
    T, P = (rng.random((2, 50, 6)) < 0.3).astype(int)
    T[3] = P[3] = 0
    T[:, 5] = 0
    if not dense:
        T, P = csr_array(T), csr_array(P)
    for weight in (None, rng.random(50)):
        for samplewise in (False, True):
            for labels in (None, [4, 1]):
                options = {"sample_weight": weight, "labels": labels, "samplewise": samplewise}
                assert_agrees("multilabel_confusion_matrix", T, P, **options)
        for average in ("micro", "macro", "weighted", "samples", None):
            for name in PER_LABEL:
                assert_agrees(name, T, P, average=average, sample_weight=weight)
        for name in ("accuracy_score", "hamming_loss", "zero_one_loss", "confusion_matrix"):
            assert_agrees(name, T, P, sample_weight=weight)
    assert_agrees("classification_report", T, P)
    assert_agrees("f1_score", T, P, labels=[6], average="macro")
    for name in ("accuracy_score", "multilabel_confusion_matrix", "hamming_loss"):
        assert_agrees(name, T, P, sample_weight=np.ones(51))
        assert_agrees(name, T, P[:-1])


@pytest.mark.parametrize("n", [1, 40])
def test_one_sample_and_one_label_are_no_columns_of_samples(n, rng):
    T, P = rng.integers(0, 2, (2, n, 3))
    weight = rng.integers(1, 4, n)
    for labels in (None, [1]):
        for samplewise in (False, True):
            assert_agrees("multilabel_confusion_matrix", T, P, labels=labels, samplewise=samplewise)
            options = {"sample_weight": weight, "labels": labels, "samplewise": samplewise}
            table = assert_agrees("multilabel_confusion_matrix", T, P, **options)
            assert table.dtype.kind == ("i" if samplewise else "f")
        assert_agrees("classification_report", T, P, labels=labels, output_dict=True, zero_division=0)


def test_a_single_class_is_warned_of_before_weights_are_refused():
    assert_agrees("roc_auc_score", np.zeros(2, int), np.array([0.2, 0.3]), sample_weight=np.zeros(2))


@pytest.mark.parametrize("name", [*CURVES, *AREAS])
def test_curves_and_areas_are_those_of_scikit_learn(name, rng):
    score = rng.random(400)
    hit = rng.random(400) < score
    weight = np.where(rng.random(400) < 0.2, 0, rng.random(400))
    ties = score.round(1)
    named = np.where(hit, "yes", "no")
    extra = [{"drop_intermediate": True}, {"drop_intermediate": False}] if name in CURVES[1:] else [{}]
    extra += [{"max_fpr": 0.3}] if name == "roc_auc_score" else []
    for options in extra:
        for y in (hit, hit.astype(int), hit.astype(int).tolist(), 2 * hit.astype(int) - 1, hit.astype(float)):
            for s in (score, ties, ties.astype(np.float32), (10 * ties).astype(int), ties.tolist()):
                assert_agrees(name, y, s, **options)
                assert_agrees(name, y, s, sample_weight=weight, **options)
        assert_agrees(name, hit & False, score, **options)
        assert_agrees(name, hit | True, score, **options)
        assert_agrees(name, hit, np.where(score > 0.9, np.nan, score), **options)
        assert_agrees(name, hit[:-1], score, **options)
        assert_agrees(name, named, score, **options)
        if name != "roc_auc_score":
            assert_agrees(name, named, score, pos_label="no", **options)


@pytest.mark.parametrize("name", AREAS)
def test_areas_of_several_classes_are_those_of_scikit_learn(name, rng):
    y, score = rng.integers(0, 4, 200), rng.dirichlet(np.ones(4), 200)
    T = (rng.random((200, 4)) < 0.4).astype(int)
    every = [{"multi_class": kind} for kind in ("ovr", "ovo", "raise")] if name == "roc_auc_score" else [{}]
    for average in ("macro", "micro", "weighted", "samples", None):
        for options in every:
            if (average, options.get("multi_class")) != (None, "ovo"):
                assert_agrees(name, y, score, average=average, **options)
                assert_agrees(name, y, score[:, :3], average=average, **options)
        assert_agrees(name, T, score, average=average)
        assert_agrees(name, T, score, average=average, sample_weight=rng.random(200))
    if name == "roc_auc_score":
        assert_agrees(name, y % 3, score, multi_class="ovr", labels=range(4), average="weighted")
        assert_agrees(name, y, score, multi_class="ovr", labels=[3, 2, 1, 0])


@pytest.mark.parametrize("name", sorted(ORIGINALS))
def test_refusals_are_those_of_scikit_learn(name):
    for y, p in [([], []), ([0, 1], [0]), ([0, 1, 2], [0.5, 0.2, 0.1]), (["a", "b"], [0, 1]), ([0, None], [0, 1])]:
        options = {"beta": 1} if name == "fbeta_score" else {}
        assert assert_agrees(name, y, p, **options) is not None
        assert_agrees(name, y, p, **options, sample_weight="heavy")
    assert_agrees(name, [0, 1, 1], [0, 1, 0], **options, sample_weight=[-1, 1, 1])


@pytest.mark.parametrize("name", sorted(ORIGINALS))
def test_values_come_from_ops_of_cmfast_alone(name, alone, rng):
    y = rng.integers(0, 2, 50)
    score = (y + rng.random(50)).round(1) / 2
    options = {"beta": 2} if name == "fbeta_score" else {}
    value = getattr(ours, name)(y, score if name in CURVES + AREAS else (score > 0.4).astype(int), **options)
    assert value is not None
    assert alone


class Threshold(ClassifierMixin, BaseEstimator):
    """Predicts whether the first feature is positive."""

    def fit(self, X, y):
        """Note the classes."""
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        """Return 0 or 1."""
        return (X[:, 0] > 0).astype(int)


class Named(Threshold):
    """Says so in words."""

    def predict(self, X):
        """Return names of classes."""
        return np.array(["ill", "well"])[super().predict(X)]


@pytest.fixture
def patched():
    """Put ours in place for a test."""
    ours.patch()
    yield
    ours.unpatch()


def test_patch_reaches_modules_scorers_and_score_methods(patched, monkeypatch, rng):
    X, ran = rng.normal(size=(60, 2)), []
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    call = dispatch.call
    monkeypatch.setattr(dispatch, "call", lambda *args, **options: ran.append(args[0]) or call(*args, **options))
    for name in ORIGINALS:
        assert getattr(theirs, name) is getattr(ours, name)
    assert theirs.get_scorer("f1_macro")._score_func is ours.f1_score
    Threshold().fit(X, y).score(X, y)
    assert len(ran) == 1
    assert cross_val_score(Threshold(), X, y, scoring="balanced_accuracy").shape == (5,)
    assert len(ran) > 1
    assert pickle.loads(pickle.dumps(theirs.make_scorer(theirs.f1_score)))._score_func is ours.f1_score


def test_unpatch_puts_everything_back():
    before = {key: value for key, value in vars(theirs).items() if callable(value)}
    scorer = theirs.get_scorer("accuracy")._score_func
    ours.patch()
    ours.patch()
    ours.unpatch()
    assert {key: value for key, value in vars(theirs).items() if callable(value)} == before
    assert theirs.get_scorer("accuracy")._score_func is scorer
    ours.unpatch()
    assert theirs.accuracy_score is ORIGINALS["accuracy_score"]


def test_what_is_imported_before_patching_stays():
    code = (
        "from sklearn.metrics import f1_score as before; from cmfast.compat.sklearn import patch; patch();"
        "from sklearn.metrics import f1_score as after; print(before.__module__, after.__module__)"
    )
    assert python("-c", code, cwd=ROOT).split() == [
        "sklearn.metrics._classification",
        "cmfast.compat.sklearn._averages",
    ]


def test_cmfast_does_not_import_scikit_learn():
    assert python("-c", "import sys, cmfast; print('sklearn' in sys.modules)", cwd=ROOT) == "False\n"


@pytest.mark.parametrize("name", [*metrics.SCALARS, "tss", "fbeta_2_macro"])
def test_scorers_by_name_give_the_metric(name, rng):
    X = rng.normal(size=(40, 2))
    y = rng.integers(0, 2, 40)
    weight = rng.integers(1, 4, 40)
    scorer = pickle.loads(pickle.dumps(ours.make_scorer(name)))
    model = Threshold().fit(X, y)
    want = float(metrics.compute(cmfast.confusion_matrix(y, model.predict(X)), name))
    sign = -1 if name.startswith(("fpr", "fnr", "fdr", "false_om", "negative_l", "zero_one")) else 1
    assert scorer(model, X, y) == sign * want
    weighted = cmfast.confusion_matrix(y, model.predict(X), sample_weight=weight)
    assert scorer(model, X, y, sample_weight=weight) == pytest.approx(sign * float(metrics.compute(weighted, name)))


def test_scorers_know_classes_that_a_fold_lacks(rng):
    y, X = np.array([0, 0, 1, 1]), np.array([[-1], [1], [1], [1]])
    model = Threshold().fit(X, y)
    scorer = ours.make_scorer("recall_macro", labels=[0, 1, 2], undefined="zero")
    assert scorer(model, X, y) == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"y_true must be of the labels \[7\], got none of them, but \[0, 1\]"):
        ours.make_scorer("mcc", labels=[7])(model, X, y)


def test_scorers_take_the_positive_class_by_its_label():
    y, X = np.array(["ill", "ill", "well", "well"]), np.array([[-1], [1], [1], [1]])
    model = Named().fit(X, y)
    for label, want in (("ill", 0.5), ("well", 1.0)):
        assert ours.make_scorer("recall_binary", pos_label=label)(model, X, y) == want
        assert ours.make_scorer("recall_binary", pos_label=label, labels=["well", "ill"])(model, X, y) == want
    with pytest.raises(ValueError, match="pos_label=sick is not a valid label"):  # as scikit-learn says it
        ours.make_scorer("recall_binary", pos_label="sick")(model, X, y)
    for fold, label, want in ((slice(1), "ill", 1), (slice(1), "well", 0), (slice(2, 4), "well", 1)):
        assert ours.make_scorer("recall_binary", pos_label=label)(model, X[fold], y[fold]) == want


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (False, True)])
def test_folds_of_one_class(low, high):
    """1 is the positive class, as scikit-learn has it; of other labels it has to be said."""
    X, y = np.zeros((9, 1)), np.array([low] * 9)
    for label in (low, high):
        model = DummyClassifier(strategy="constant", constant=label).fit(X, [low, high] + [label] * 7)
        for truth in (y, np.array([high] * 9), np.array([low, high, high] * 3)):
            want = theirs.f1_score(truth, model.predict(X), zero_division=0)
            assert ours.make_scorer("f1_binary")(model, X, truth) == pytest.approx(want)
    model = DummyClassifier(strategy="constant", constant=2).fit(X, [1, 2] * 4 + [2])
    with pytest.raises(ValueError, match=r"pos_label must be one of the labels \[1, 2\], got None"):
        ours.make_scorer("f1_binary")(model, X, np.array([1, 2, 2] * 3))
    with pytest.raises(ValueError, match="pos_label must be given where 2 is the only label"):
        ours.make_scorer("f1_binary")(model, X, np.array([2] * 9))
    assert ours.make_scorer("f1_binary", pos_label=2)(model, X, np.array([2] * 9)) == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"labels": ["ill", "well"], "pos_label": "sick"}, ValueError, r"of the labels \['ill', 'well'\], got 'sick'"),
        ({"labels": ["ill", "well", "x"], "pos_label": "x"}, ValueError, "two classes, got 'x' with 3 classes"),
        ({"labels": ["ill", "ill"]}, ValueError, "labels must be unique"),
        ({"labels": "ill"}, TypeError, "labels must be a list of labels, at least one, got 'ill'"),
        ({"labels": []}, TypeError, "labels must be a list of labels, at least one"),
    ],
)
def test_scorers_refuse_labels_that_are_none(options, error, message):
    with pytest.raises(error, match=message):
        ours.make_scorer("recall_binary", **options)


@pytest.mark.parametrize("name", ["recall", "nonsense", ["mcc"], "mcc_"])
def test_scorers_refuse_what_is_no_number(name):
    with pytest.raises((TypeError, ValueError), match="name must be"):
        ours.make_scorer(name)
