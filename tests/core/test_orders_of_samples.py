"""Series and data frames of the same samples in two orders are refused wherever samples are matched by position."""

import warnings

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import conformal, uncertainty

RNG = np.random.default_rng(3)
N = 40
INDEX = pd.Index(RNG.permutation(1000)[:N])
ONE = pd.Series(RNG.integers(0, 2, N), INDEX)
SCORE = pd.Series(RNG.random(N), INDEX)
SITE = pd.Series(np.array(["east", "west"])[RNG.integers(0, 2, N)], INDEX)
WEIGHT = pd.Series(RNG.random(N) + 1.0, INDEX)
PATIENT = pd.Series(np.repeat(np.arange(N // 2), 2), INDEX)
LABELS = [pd.DataFrame(RNG.integers(0, 2, (N, 3)), INDEX, ["a", "b", "c"]) for _ in range(3)]
ROWS = pd.DataFrame(RNG.dirichlet([1, 1, 1], N), INDEX)
CLASS = pd.Series(RNG.integers(0, 3, N), INDEX)
AREA = {"y_true": ONE, "y_score": SCORE, "sample_weight": WEIGHT, "clusters": PATIENT}
MODELS = {"y_true": ONE, "y_a": SCORE, "y_b": SCORE**2, "sample_weight": WEIGHT, "clusters": PATIENT}
OF_GROUPS = {"y_true": ONE, "y_score": SCORE, "groups": SITE, "sample_weight": WEIGHT, "clusters": PATIENT}
COUNTED = {"y_true": CLASS, "y_pred": CLASS, "groups": SITE, "sample_weight": WEIGHT, "clusters": PATIENT}
TAGS = dict(zip(["y_true", "y_pred"], LABELS[:2], strict=True))
QUICK = {"n_resamples": 20}


def _compare_indicators(y_true, y_a, y_b, clusters):
    uncertainty.compare(y_true, y_a, y_b, "f1_macro", multilabel=True, clusters=clusters, **QUICK)


def _bound_indicators(y_true, y_pred, clusters):
    uncertainty.interval(y_true, y_pred, "f1_macro", multilabel=True, clusters=clusters, **QUICK)


def _compare_groups_of_indicators(y_true, y_pred, groups, clusters):
    options = {"multilabel": True, "clusters": clusters, **QUICK}
    uncertainty.compare_groups(y_true, y_pred, groups, "f1_macro", **options)


def _estimate_covariance(y_true, y_score, other, sample_weight, clusters):
    models = {"new": y_score, "old": other}
    uncertainty.auc_covariance(y_true, models, sample_weight=sample_weight, clusters=clusters)


def _compare_groups_by_dict(y_true, y_score, groups, site, **options):
    uncertainty.compare_groups(y_true, y_score, {"k": groups, "site": site}, "roc_auc", **options)


def _make_sets(P, u, groups):
    conformal.prediction_sets(P, {"east": [0.5], "west": [0.6]}, u=u, groups=groups)


CALLS = {
    "interval of an area": (lambda y_true, y_score, **o: uncertainty.interval(y_true, y_score, "roc_auc", **o), AREA),
    "interval of average precision": (
        lambda y_true, y_score, **o: uncertainty.interval(y_true, y_score, "average_precision", **o), AREA,
    ),
    "interval of an average": (
        lambda y_true, y_score, **o: uncertainty.interval(y_true, y_score, "roc_auc_ovr", **o),
        AREA | {"y_true": CLASS, "y_score": ROWS},
    ),
    "compare areas": (lambda y_true, y_a, y_b, **o: uncertainty.compare(y_true, y_a, y_b, "roc_auc", **o), MODELS),
    "compare areas without clusters": (
        lambda y_true, y_a, y_b: uncertainty.compare(y_true, y_a, y_b, "roc_auc"),
        {name: MODELS[name] for name in ("y_true", "y_a", "y_b")},
    ),
    "covariance": (_estimate_covariance, AREA | {"other": SCORE**2}),
    "covariance without clusters": (
        lambda y_true, y_score, other: uncertainty.auc_covariance(y_true, {"new": y_score, "old": other}),
        {"y_true": ONE, "y_score": SCORE, "other": SCORE**2},
    ),
    "covariance of rows": (
        lambda y_true, clusters: uncertainty.auc_covariance(y_true, [list(SCORE), list(SCORE**2)], clusters=clusters),
        {"y_true": ONE, "clusters": PATIENT},
    ),
    "groups of areas": (
        lambda y_true, y_score, groups, **o: uncertainty.compare_groups(y_true, y_score, groups, "roc_auc", **o),
        OF_GROUPS,
    ),
    "groups of areas by a dict": (_compare_groups_by_dict, OF_GROUPS | {"site": SITE}),
    "groups of counts": (
        lambda y_true, y_pred, groups, **o: uncertainty.compare_groups(y_true, y_pred, groups, "accuracy", **o),
        COUNTED,
    ),
    "interval of indicators": (_bound_indicators, TAGS | {"clusters": PATIENT}),
    "compare indicators": (
        _compare_indicators,
        dict(zip(["y_true", "y_a", "y_b"], LABELS, strict=True)) | {"clusters": PATIENT},
    ),
    "groups of indicators": (_compare_groups_of_indicators, TAGS | {"groups": SITE, "clusters": PATIENT}),
    "thresholds of named groups": (
        lambda s, y, groups: conformal.threshold(s, 0.2, y=y, groups=groups), {"s": SCORE, "y": CLASS, "groups": SITE},
    ),
    "thresholds of groups": (
        lambda s, y, groups: conformal.threshold(s, 0.2, y=y, groups=groups), {"s": SCORE, "y": ONE, "groups": CLASS},
    ),
    "sets of named groups": (_make_sets, {"P": ROWS, "u": SCORE, "groups": SITE}),
    "sets of groups": (
        lambda P, u, groups: conformal.prediction_sets(P, [[0.5, 0.6]], u=u, groups=groups),
        {"P": ROWS, "u": SCORE, "groups": ONE},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "given"), CALLS.values(), ids=CALLS)
def test_samples_in_two_orders_are_refused(call, given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)  # of few samples
        call(**given)
        call(**{name: x.reset_index(drop=True) for name, x in given.items()})
        arrays = {name: x.to_numpy() for name, x in given.items()}
        for turned in given:
            other = given[turned].sample(frac=1.0, random_state=5)
            with pytest.raises(ValueError, match=r"one index in two orders; give .*reindex"):
                call(**(given | {turned: other}))
            call(**(arrays | {turned: other}))  # arrays are matched by position
            for kept in given.keys() - {turned}:  # also where all others are arrays
                with pytest.raises(ValueError, match="one index in two orders"):
                    call(**(arrays | {turned: other, kept: given[kept]}))


def test_groups_of_other_samples_are_refused_and_doubted():
    def compare(groups):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "intervals of")
            uncertainty.compare_groups(ONE, SCORE, groups, "roc_auc")

    most = SITE.set_axis([*INDEX[:-1], -1])
    with pytest.raises(ValueError, match="y_true and groups must be of the same samples"):
        compare(most)
    with pytest.raises(ValueError, match=r"y_true and groups\['site'\] must be of the same samples"):
        compare({"site": most})
    with pytest.warns(cmfast.DiagnosticWarning, match="y_true and groups are matched by position, but their indexes"):
        compare(SITE.set_axis(INDEX + 1000))
