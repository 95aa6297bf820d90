"""Ten mistakes that come naturally with each of the main functions: one sentence says what to do instead."""

import copy
import io
import pickle
import re
import warnings
from functools import cache

import numpy as np
import pytest

import cmfast
from cmfast import agreement, conformal, contingency, detection, display, metrics, uncertainty

pd = pytest.importorskip("pandas")

Y, P = [0, 1, 2, 1], [0, 2, 2, 1]
TEXT = ["a", "b", "c", "b"]
SHARES = np.random.default_rng(0).dirichlet(np.ones(3), 4)
M = np.array([[5, 1, 0], [2, 6, 1], [0, 1, 7]])
X = np.random.default_rng(0).standard_normal((4, 2))
FRAME = pd.DataFrame({"site": ["x", "y", "x", "y"], "truth": Y, "guess": P})
BOXES = {"boxes": [[0, 0, 9, 9]], "labels": [0]}
ABC = pd.DataFrame(M, index=list("abc"), columns=list("abc"))

MISTAKES = {
    "confusion_matrix": {
        "probabilities": (lambda f: f(Y, SHARES), r"\.argmax\(-1\) makes labels"),
        "one-hot labels": (
            lambda f: f(np.eye(3, dtype=int)[Y], np.eye(3, dtype=int)[P]),
            r"pass \.argmax\(-1\) of both",
        ),
        "integers beside text": (
            lambda f: f(TEXT, P),
            r"must be strings as y_true, got integers; if these number classes, give np\.array\(names\)\[y_pred\]$",
        ),
        "floats": (lambda f: f(np.array(Y, float), P), "whole_floats=True takes whole numbers"),
        "NaN": (
            lambda f: f([0, np.nan, 1, 1], P),
            r"1 missing .first: nan at 1.; leave these samples out of all arrays, then \.astype\(int\) makes labels",
        ),
        "None": (
            lambda f: f(["a", None, "b", "b"], TEXT),
            "1 missing .first: None at 1.; fill them in, or leave them out of all arrays",
        ),
        "two types": (lambda f: f(["a", 1, "b", "b"], TEXT), "make all of them text, or all of them numbers"),
        "two lengths": (lambda f: f(Y, P[:3]), "y_pred must be 4 samples as y_true"),
        "another index": (
            lambda f: f(pd.Series(Y), pd.Series(P, [3, 2, 1, 0])),
            r"give y_true\.to_numpy\(\) .* if rows belong together.*; else y_pred\.reindex\(y_true\.index\)",
        ),
        "a DataFrame": (lambda f: f(FRAME, FRAME), r"pass a column: y_true\['site'\]"),
        "a missing class": (
            lambda f: f(Y, P, n_classes=2),
            r"in 0\.\.1, got 1 outside .*; n_classes= is the number of all",
        ),
        "columns": (lambda f: f(np.c_[Y], np.c_[P]), r"ravel them to shape \(4,\)"),
    },
    "bi_normalize": {
        "one vector": (
            lambda f: f(Y),
            r"M must be of shape \(\.\.\., C, C\), .*; confusion_matrix\(y_true, y_pred\) counts",
        ),
        "a rectangle": (lambda f: f(np.ones((2, 3))), "M must be square"),
        "a negative cell": (lambda f: f([[1, -1], [2, 3]]), r"negative value at M\[0, 1\]"),
        "NaN": (lambda f: f([[1, np.nan], [2, 3]]), r"NaN value at M\[0, 1\]"),
        "an empty class": (lambda f: f([[0, 0], [2, 3]]), "leave class 0 out or pass smoothing="),
        "too many zeros": (lambda f: f([[1, 1], [0, 1]]), "smoothing= makes a scaling exist"),
        "two orders": (lambda f: f(ABC[["c", "a", "b"]]), "same classes in rows and columns, .*; reindex both"),
        "a column of names": (lambda f: f(ABC.assign(name=list("abc"))), "M must be values of one type"),
        "text": (lambda f: f([["1", "2"], ["3", "4"]]), "M must be real numbers"),
        "nothing": (lambda f: f([]), r"M must be of shape \(\.\.\., C, C\), got shape \(0,\)"),
    },
    "metrics.compute": {
        "labels": (lambda f: f(Y, P), "for labels use metrics.from_labels"),
        "a typo": (lambda f: f(M, "acuracy"), "did you mean 'accuracy'"),
        "another library's name": (lambda f: f(M, "f1_score"), "did you mean 'f1'"),
        "average=": (lambda f: f(M, "f1", average="macro"), 'the average is part of the name, as in "f1_macro"'),
        "zero_division=": (lambda f: f(M, "f1", zero_division=0), "undefined= says what a 0/0 gives"),
        "a label of a matrix": (lambda f: f(M[:2, :2], "f1_binary", pos_label="a"), "pos_label must be an integer"),
        "two classes wanted": (lambda f: f(M, "f1_binary"), "M must be of 2 classes for f1_binary .*mean: f1_macro"),
        "probabilities": (lambda f: f(SHARES, "accuracy"), "M must be square"),
        "NaN": (lambda f: f([[1, np.nan], [2, 3]], "accuracy"), r"NaN value at M\[0, 1\]"),
        "a table of text": (
            lambda f: f(FRAME[["site"]].assign(other="x"), "mcc"),
            r"got a table with columns of labels; count them: confusion_matrix\(table, y_true=.site., y_pred=.other.\)",
        ),
        "a table of labels": (
            lambda f: f(FRAME[["truth", "guess"]][:2], "mcc"),
            r"a table with columns of labels; count them: confusion_matrix\(table, y_true='truth', y_pred='guess'\)",
        ),
        "a function": (lambda f: f(M, metrics.f1), "must be a name or a list of names, got a function; pass 'f1'$"),
    },
    "uncertainty.interval": {
        "a typo": (lambda f: f(M, "acc"), "did you mean 'accuracy'"),
        "95": (lambda f: f(M, "accuracy", confidence_level=95), "level must be between 0 and 1, got 95"),
        "alpha=": (lambda f: f(M, "accuracy", alpha=0.05), "pass confidence_level=1 - alpha"),
        "level=": (lambda f: f(M, "accuracy", level=0.9), "it is called confidence_level="),
        "n_bootstrap=": (lambda f: f(M, "accuracy", n_bootstrap=9), "it is called n_resamples="),
        "random_state=": (lambda f: f(M, "accuracy", random_state=9), "it is called rng="),
        "shares": (lambda f: f(M / M.sum(), "accuracy"), "pass n=, the number of samples, or the counts"),
        "Wilson of a mean": (lambda f: f(M, "f1", method="wilson"), "f1, which is not a share of samples"),
        "an unknown method": (lambda f: f(M, "mcc", method="bootstrap"), "method must be one of 'bca', 'percentile'"),
        "two lengths": (lambda f: f(Y, P[:3], "mcc"), "arrays must have one shape"),
    },
    "uncertainty.compare": {
        "one model": (lambda f: f(Y, P), "y_b must be the labels that the second classifier predicts"),
        "two matrices": (lambda f: f(M, M, "mcc"), r"y_b must be labels \(y_true, y_a, y_b\)"),
        "probabilities": (lambda f: f(Y, SHARES, SHARES, "mcc"), r"y_a must be .*\.argmax\(-1\) makes labels"),
        "two lengths": (lambda f: f(Y, P, P[:3], "mcc"), r"y_b: \(3,\)"),
        "a typo": (lambda f: f(Y, P, P, "f1macro"), "did you mean 'f1_macro'"),
        "a dict": (lambda f: f({"a": P}, Y), "or three arrays of labels, got dict"),
        "text beside integers": (lambda f: f(Y, P, TEXT, "mcc"), r"y_b must be integers, .*\[y_true\]$"),
        "McNemar": (lambda f: f(Y, P, P, "mcc", test="mcnemar"), "one of .*, got 'mcnemar'; uncertainty.mcnemar is"),
        "seed=": (lambda f: f(Y, P, P, "mcc", seed=1), "it is called rng="),
        "n_replicates=": (lambda f: f(Y, P, P, "mcc", n_replicates=9), "it is called n_resamples="),
    },
    "geometric_confusion_matrix": {
        "no predictions": (lambda f: f(X, Y), "y_pred must be the predicted class of each point"),
        "too few points": (lambda f: f(X[:3], Y, P), r"y_true must be of shape \(3,\), one entry per point"),
        "text beside integers": (lambda f: f(X, TEXT, P), "y_pred must be strings as y_true, got integers"),
        "transposed": (
            lambda f: f(X.T, Y, P),
            r"y_true must be of shape \(2,\), one entry per point, .*; X\.T has 4 points",
        ),
        "a column of text": (lambda f: f(pd.DataFrame(X).assign(t=TEXT), Y, P), "X must be values of one type"),
        "NaN": (
            lambda f: f(np.where(X > 0.3, X, np.nan), Y, P),
            "points left out: a coordinate is not finite|no finite",
        ),
        "normalize=": (lambda f: f(X, Y, P, normalize="true"), "it is called weights="),
        "labels first": (lambda f: f(Y, P, X), r"X must be the points, and the labels after them"),
        "one column": (lambda f: f(X[:, 0], Y, P), r"X must be of shape \(N, m\)"),
        "few points": (lambda f: f(X, Y, P), "the overlap is not above that of permuted labels"),
    },
    "by": {
        "by=": (lambda f: f(FRAME, by="site", y_true="truth", y_pred="guess"), "it is called groups="),
        "a typo": (lambda f: f(FRAME, "site", y_true="thruth", y_pred="guess"), "did you mean 'truth'"),
        "an unknown group": (lambda f: f(FRAME, "sites", y_true="truth", y_pred="guess"), "did you mean 'site'"),
        "an array": (
            lambda f: f(M, "site", y_true="t", y_pred="g"),
            r"frame must be a DataFrame .*, got ndarray; pandas\.DataFrame makes a table of arrays",
        ),
        "columns for names": (lambda f: f(FRAME, "site", y_true=Y, y_pred=P), "y_true must be the name of a column"),
        "a dict": (lambda f: f({"a": Y}, "a", y_true="a", y_pred="a"), r"give pandas\.DataFrame\(frame\)"),
        "a path": (
            lambda f: f("x.csv", "site", y_true="truth", y_pred="guess"),
            r"frame must be a DataFrame .*, got str; pandas\.read_csv\(frame\) reads a file of csv",
        ),
        "a missing label": (
            lambda f: f(FRAME.assign(truth=[0, None, 1, 1]), "site", y_true="truth", y_pred="guess"),
            r"got 1 in column 'truth' .first: row 1.; table\.dropna\(subset=\['truth'\]\)\.astype\({'truth': int}\) ",
        ),
        "the same column twice": (lambda f: f(FRAME, ["site", "site"], y_true="truth", y_pred="guess"), "different"),
        "no groups": (lambda f: f(FRAME, [], y_true="truth", y_pred="guess"), "groups must be the name of a column"),
    },
}
CASES = [(name, what, *case) for name, some in MISTAKES.items() for what, case in some.items()]


@pytest.mark.parametrize(("name", "what", "call", "text"), CASES, ids=[f"{name}-{what}" for name, what, *_ in CASES])
def test_a_mistake_is_answered_by_what_to_do(name, what, call, text):
    function = cmfast
    for part in name.split("."):
        function = getattr(function, part)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(function)
        except (TypeError, ValueError) as error:
            said = [str(error)]
        else:
            said = [str(one.message) for one in caught]
    found = [one for one in said if re.search(text, one)]
    assert found, said
    assert found[0].startswith(f"{name}: ")
    assert "\n" not in found[0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: metrics.classification_report(Y, P),
            r"metrics.classification_report: M must be .*from_labels\(y_true",
        ),
        (lambda: metrics.f1_macro, r"has no attribute 'f1_macro'; metrics.compute\(M, \"f1_macro\"\) computes it"),
        (lambda: uncertainty.mcnemar(Y, P), "mcnemar: y_b must be the labels that the second classifier predicts"),
        (lambda: uncertainty.interval(FRAME, "mcc", y_true="truth", y_pred="gues_s"), "did you mean 'guess'"),
    ],
    ids=range(4),
)
def test_what_newcomers_type_elsewhere_is_answered(call, text):
    with pytest.raises((TypeError, ValueError, AttributeError), match=text):
        call()


def test_there_are_ten_of_each():
    assert len(MISTAKES) == 7
    assert all(len(some) >= 10 for some in MISTAKES.values())


NAMES = ["cat", "dog", "fox"]
NAMED = {
    "confusion_matrix": lambda: cmfast.confusion_matrix(Y, P, labels=NAMES),
    "from_labels": lambda: metrics.from_labels(Y, P, "f1", labels=NAMES),
    "ConfusionCounts": lambda: cmfast.ConfusionCounts.from_labels(Y, P, labels=NAMES),
    "by": lambda: cmfast.by(FRAME, "site", y_true="truth", y_pred="guess", labels=NAMES),
    "report": lambda: cmfast.report(Y, P, labels=NAMES),
    "paired_counts": lambda: uncertainty.paired_counts(Y, P, P, labels=NAMES),
}


@pytest.mark.parametrize("name", NAMED)
def test_names_of_integer_labels_are_answered_by_names_of_samples(name):
    with pytest.raises(TypeError, match=r"to name classes 0, 1, \.\.\., give np\.array\(names\)\[y_true\] and "):
        NAMED[name]()
    counts = cmfast.ConfusionCounts.from_labels(np.array(NAMES)[Y], np.array(NAMES)[P])  # as the message says
    assert counts.labels == tuple(NAMES)
    with pytest.raises(TypeError, match=r"display_labels= takes the names of classes$"):
        display.ConfusionDisplay.from_predictions(Y, P, labels=NAMES)
    with pytest.raises(TypeError, match=r"must be integers, as labels, got strings, \('a', 'b', 'c'\)$"):
        cmfast.ConfusionCounts.from_labels(TEXT, TEXT, labels=[0, 1, 2])


class Model:
    """A classifier, in the place of what it predicts."""

    def predict(self, X):
        """Return predictions."""
        return X


@cache
def make_page():
    """Return a small report; it compiles kernels, which the collection of tests must not."""
    return cmfast.report(Y, P, n_resamples=2)


READ_BACK = pd.read_csv(io.StringIO(ABC.to_csv()))
ORDER = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
ROWS = np.full((5, 4), 0.25)
GRADES = pd.DataFrame({"a": ["low", "mid", "high", "mid"] * 9, "b": ["low", "high", "high", "mid"] * 9})
ONE_HOT = np.eye(3)[Y]
COUNTS = cmfast.ConfusionCounts.from_labels(TEXT, TEXT)
ELSEWHERE = {
    "a table of text and numbers": (
        lambda: cmfast.normalize(GRADES.assign(age=1.5), "row"),
        r"M must be a matrix, got a table with columns of labels; count two .*: confusion_matrix\(table, y_true='a', ",
    ),
    "normalize by the name of pandas": (
        lambda: cmfast.confusion_matrix(Y, P, normalize="index"),
        "got 'index'; it is called 'row'$",
    ),
    "normalize by what it shows": (lambda: COUNTS.plot(normalize="precision"), "'precision'; it is called 'col'$"),
    "normalize by place": (
        lambda: cmfast.confusion_matrix(Y, P, "true"),
        "given by name: normalize='true', got 'true'$",
    ),
    "probabilities of points": (
        lambda: cmfast.geometric_confusion_matrix(X, Y, SHARES),
        r"y_pred must be integers, got dtype float64; as probabilities are: \.argmax\(-1\) makes labels",
    ),
    "scores of two classes named by text": (
        lambda: metrics.roc_auc(["b", "a", "b"], [0.1, 0.8, 0.9]),
        "pos_label must be one of the labels if these are text, got None; pass pos_label='a' or 'b'$",
    ),
    "class shares by label": (
        lambda: cmfast.estimate_for_target(COUNTS, class_shares={"a": 0.5, "b": 0.2, "c": 0.3}),
        r"got a dict; \[class_shares\[label\] for label in counts\.labels\] has this order$",
    ),
    "a table that is grouped": (
        lambda: cmfast.by(FRAME.groupby("site"), "site", y_true="truth", y_pred="guess"),
        "got DataFrameGroupBy; give the table itself, which is grouped here$",
    ),
    "counts.most_confused": (lambda: COUNTS.most_confused, r"; metrics\.most_confused\(counts\) lists the largest"),
    "uncertainty.ci": (lambda: uncertainty.ci, r"; it is called uncertainty\.interval$"),
    "report(save=)": (lambda: cmfast.report(Y, P, save="r.html"), r"'save'; the result has save\(path\)$"),
    "compute of a table": (
        lambda: cmfast.metrics.compute(GRADES, "accuracy", y_true="a", y_pred="b"),
        r"no option 'y_true'; from labels, metrics\.from_labels computes it: from_labels\(table, names, y_true=",
    ),
    "a level in percent": (
        lambda: uncertainty.interval(M, "accuracy", confidence_level=95),
        "confidence_level must be between 0 and 1, got 95; for 95 % pass 0.95$",
    ),
    "interval by bootstrap": (
        lambda: uncertainty.interval(M, "accuracy", method="bootstrap"),
        "got 'bootstrap'; 'bca', the default, 'percentile' and 'basic' are bootstrap methods",
    ),
    "interval by Clopper": (
        lambda: uncertainty.interval(M, "accuracy", method="exact"),
        "'wilson' is the interval of a",
    ),
    "scores by APS": (lambda: conformal.scores(ROWS, method="APS"), "got 'APS'; did you mean 'aps'"),
    "scores by THR": (lambda: conformal.scores(ROWS, method="THR"), "got 'THR'; it is called 'lac'$"),
    "conformal.coverage": (lambda: conformal.coverage, r"prediction_sets\(P, q\)\.coverage\(y\) is the share"),
    "ccm of probabilities": (
        lambda: conformal.ccm(ROWS),
        r"sets must be PredictionSets, as prediction_sets\(P, threshold\(scores\(P, y\), alpha\)\) returns, got",
    ),
    "counts.tp": (lambda: COUNTS.tp, r"metrics\.one_vs_rest\(counts\) has a table of 2 x 2 for each class"),
    "ipf_nd by a dict": (
        lambda: cmfast.ipf_nd(np.ones((2, 3)), {0: [3.0, 3.0]}),
        r"margins must be a list of pairs \(axes, target\), got dict; pass list\(margins\.items\(\)\)$",
    ),
    "ipf_nd by names": (
        lambda: cmfast.ipf_nd(np.ones((2, 3)), {"sex": [3.0, 3.0]}),
        r"got dict; ipf_cells\(values, table, margins\) takes names$",
    ),
    "compare_many without labels": (
        lambda: uncertainty.compare_many({"a": P, "b": P}, "f1"),
        r"y_true must be the true labels, as in uncertainty\.compare_many\(y_true, predictions, names\), got a dict",
    ),
    "importance_weights by normalize": (
        lambda: cmfast.importance_weights(M, normalize="row"),
        "there is no option 'normalize'; it is called method=",
    ),
    "importance_weights by mode": (lambda: cmfast.importance_weights(M, mode="row"), "did you mean 'method'"),
    "importance_weights of nothing": (
        lambda: cmfast.importance_weights(M),
        r'method or target must be given: importance_weights\(M, "row"\)',
    ),
    "mcnemar with correction": (
        lambda: uncertainty.mcnemar(Y, P, P, correction=True),
        "'correction'; kind=\"corrected\" is the chi-square test with the continuity correction",
    ),
    "mcnemar with an alternative": (
        lambda: uncertainty.mcnemar(Y, P, P, alternative="less"),
        "'alternative'; the test is two-sided",
    ),
    "rake of several tables": (
        lambda: cmfast.rake([ABC, ABC], {"a": {1: 2.0}}),
        r"must be one table of all, .* rake\(pandas\.concat\(tables\), targets, groups=column\), got a list of 2",
    ),
    "compare of a table": (
        lambda: uncertainty.compare(GRADES, "accuracy"),
        "a table of labels is read by the names of its columns; pass the table, and y_true=, y_a=, y_b=$",
    ),
    "mcnemar of a table": (lambda: uncertainty.mcnemar(GRADES), "pass the table, and y_true=, y_a=, y_b=$"),
    "equivalence of a table": (
        lambda: uncertainty.equivalence(GRADES, "accuracy", 0.1),
        "pass the table, and y_true=, y_a=, y_b=$",
    ),
    "compare_groups of a table": (
        lambda: uncertainty.compare_groups(GRADES, "accuracy"),
        "pass the table, and y_true=, y_pred=, groups=$",
    ),
    "compare_many of arrays": (
        lambda: uncertainty.compare_many(Y, P, P, "f1"),
        r"the predictions of two or more classifiers, as a dict {name: predictions}, a list or a table of columns, got",
    ),
    "compare_many of one model": (lambda: uncertainty.compare_many(Y, P, "f1"), "the predictions of two or more class"),
    "compare_many of a table": (lambda: uncertainty.compare_many(ABC, "f1"), "a table needs y_true= and y_pred="),
    "compare_many of a list": (lambda: uncertainty.compare_many([P, P]), r'labels: compare_many\(y_true, {"a": a, "b"'),
    "bowker of labels": (lambda: uncertainty.bowker(Y, P), r"count two columns of labels first, by confusion_matrix"),
    "stuart_maxwell of text": (
        lambda: uncertainty.stuart_maxwell(TEXT, TEXT),
        r"count two columns of labels first, by confusion_matrix",
    ),
    "agreement kappa": (lambda: agreement.compute(GRADES, "kappa"), "of several 'fleiss_kappa' is usual"),
    "agreement alpha": (lambda: agreement.compute(GRADES, "alpha"), "it is called 'krippendorff_alpha'"),
    "agreement.kappa": (lambda: agreement.kappa, r"metrics\.kappa\(M\) is Cohen's of two raters"),
    "agreement.fleiss_kappa": (lambda: agreement.fleiss_kappa, r'agreement\.compute\(ratings, "fleiss_kappa"\)'),
    "agreement.krippendorff": (lambda: agreement.krippendorff, r'agreement\.compute\(ratings, "krippendorff_alpha"\)'),
    "text grades": (lambda: agreement.compute(GRADES, weights="linear"), "ordered categories of pandas count as 0, 1"),
    "a table of counts": (
        lambda: cmfast.confusion_matrix(ABC),
        r"counts need no counting: metrics\.compute\(table, na",
    ),
    "a table of labels": (
        lambda: metrics.accuracy(pd.DataFrame({"a": Y, "b": P})),
        r"confusion_matrix\(table, y_true='a', y_pred='b'\)",
    ),
    "one-hot floats": (lambda: cmfast.confusion_matrix(ONE_HOT, ONE_HOT), r"as one-hot rows are: \.argmax\(-1\) makes"),
    "points last": (
        lambda: cmfast.geometric_confusion_matrix(Y, P, X),
        r"as in geometric_confusion_matrix\(X, y_true, y_pred\)",
    ),
    "points between": (
        lambda: cmfast.geometric_confusion_matrix(TEXT, X, TEXT),
        "X must be the points, and the labels",
    ),
    "counts.f1": (lambda: COUNTS.f1, r"'ConfusionCounts' object has no .*; counts\.compute\(\"f1\"\) computes it"),
    "counts.accuracy_score": (lambda: COUNTS.accuracy_score, r"counts\.compute\(\"accuracy\"\) computes it"),
    "counts.shape": (lambda: COUNTS.shape, r"counts\.matrix is the array"),
    "counts.classes_": (lambda: COUNTS.classes_, "it is called labels"),
    "counts.mattrix": (lambda: COUNTS.mattrix, "did you mean 'matrix'"),
    "from_matrix": (lambda: cmfast.ConfusionCounts.from_matrix(M), r"functions take a matrix as it is, as in metrics"),
    "from_predictions": (lambda: cmfast.ConfusionCounts.from_predictions, "it is called from_labels"),
    "cmfast.plot": (lambda: cmfast.plot, r"counts\.plot\(\) draws counts, display\.ConfusionDisplay\.from_predictions"),
    "metrics.confusion_matrix": (lambda: metrics.confusion_matrix, r"; it is cmfast\.confusion_matrix$"),
    "f1 of labels with average=": (
        lambda: metrics.f1(Y, P, average="macro"),
        r'metrics\.from_labels\(y_true, y_pred, "f1_macro"\)$',
    ),
    "metric_surface(metric=)": (lambda: contingency.metric_surface(metric="f1"), "it is called name=$"),
    "rake(by=)": (lambda: cmfast.rake(FRAME, {"truth": {}}, by="site"), "it is called groups=$"),
    "report(by=)": (lambda: cmfast.report(Y, P, by=FRAME.site), "it is called groups="),
    "mcnemar(exact=)": (lambda: uncertainty.mcnemar(Y, P, P, exact=False), 'kind="corrected" that by chi-square'),
    "classification_report(output_dict=)": (
        lambda: metrics.classification_report(M, output_dict=True),
        r"the result has rows, a dict by class, and overall",
    ),
    "from_predictions(xticks_rotation=)": (
        lambda: display.ConfusionDisplay.from_predictions(Y, P, xticks_rotation="vertical"),
        r'; matplotlib rotates them in the axes: \.ax_\.tick_params\("x", rotation=90\)$',
    ),
    "plot(title=)": (lambda: COUNTS.plot(title="t"), r"; matplotlib sets it in the axes: \.ax_\.set_title\(title\)$"),
    "from_matrix(cmap=)": (
        lambda: display.ConfusionDisplay.from_matrix(M, cmap="Blues"),
        r"in the axes: \.plot\(\)\.ax_\.images\[0\]\.set_cmap\(cmap\)$",
    ),
    "from_matrix(title=)": (
        lambda: display.ConfusionDisplay.from_matrix(M, title="t"),
        r"in the axes: \.plot\(\)\.ax_\.set_title\(title\)$",
    ),
    "cell_counts without a grid": (
        lambda: cmfast.cell_counts(X, Y, P),
        r"grid must be given: cell_counts\(X, y_true, y_pred, grid=\.\.\., \.\.\.\), where grid is .* Grid\.scott\(X\)",
    ),
    "cells without y_true": (
        lambda: cmfast.cell_counts(X, grid=cmfast.Grid.scott(X)),
        r"y_true must be given: cell_counts\(X, y_true, y_pred, grid=\.\.\., \.\.\.\)",
    ),
    "compare(y_pred=)": (
        lambda: uncertainty.compare(FRAME, "f1", y_true="truth", y_pred=["guess", "site"]),
        r"y_pred must be left out, .*: uncertainty\.compare\(table, \.\.\., y_true='truth', y_a='guess', y_b='site'\)$",
    ),
    "mcnemar(y_pred=)": (
        lambda: uncertainty.mcnemar(Y, y_pred=P),
        r"y_pred must be left out, .* as y_a= and y_b=: uncertainty\.mcnemar\(table, \.\.\., y_true='label'",
    ),
    "clusters by a name": (
        lambda: uncertainty.interval(Y, P, "f1_macro", clusters="site"),
        r"clusters must be an array, got str; give the column itself, table\['site'\]$",
    ),
    "clusters of another length": (
        lambda: uncertainty.interval(Y, P, "f1_macro", clusters=[1, 2]),
        r"clusters must .*\(4,\).* got shape \(2,\)",
    ),
    "confidence_level by place": (
        lambda: uncertainty.interval(M, "accuracy", 0.9),
        r"confidence_level must be given by name: confidence_level=0\.9, got 0\.9$",
    ),
    "confidence_level after labels": (
        lambda: uncertainty.interval(Y, P, "accuracy", 0.9),
        r"confidence_level must be given by name: confidence_level=0\.9, got 0\.9$",
    ),
    "confidence_level without names": (
        lambda: uncertainty.interval(Y, P, 0.9),
        r"confidence_level must be given by name: confidence_level=0\.9, got 0\.9$",
    ),
    "a list of models": (
        lambda: cmfast.report(Y, [np.array(P), np.array(Y)]),
        r'y_pred must be .*, got a list of 2; give a dict with their names: {"a": a, "b": b}$',
    ),
    "one column by place": (
        lambda: cmfast.confusion_matrix(FRAME, "truth"),
        r"y_pred must be .* nothing; name it, as in confusion_matrix\(table, y_true='truth', y_pred=\.\.\.\)$",
    ),
    "one column by name": (
        lambda: cmfast.ConfusionCounts.from_labels(FRAME, y_true="truth"),
        r"nothing; name it, as in ConfusionCounts\.from_labels\(table, y_true='truth', y_pred=\.\.\.\)$",
    ),
    "normalize of labels": (
        lambda: cmfast.normalize(Y, P),
        r'from labels, confusion_matrix\(y_true, y_pred, normalize="row"\) computes it$',
    ),
    "normalize of labels and a method": (
        lambda: cmfast.normalize(Y, P, "row"),
        r'from labels, confusion_matrix\(y_true, y_pred, normalize="row"\) computes it$',
    ),
    "a model": (
        lambda: cmfast.confusion_matrix(Y, Model()),
        r"got Python objects \(Model\); give what it predicts, as model\.predict\(X\)$",
    ),
    "float labels of scores": (
        lambda: metrics.roc_auc([0.0, 1.0, 1.0], [0.1, 0.8, 0.9]),
        r"y_true must be integers, got dtype float64; \.astype\(int\) makes labels of whole numbers$",
    ),
    "float labels of an area": (
        lambda: uncertainty.interval(np.array([0.0, 1.0, 1.0]), [0.1, 0.8, 0.9], "roc_auc"),
        r"\.astype\(int\) makes labels of whole numbers$",
    ),
    "float labels with a gap": (
        lambda: metrics.roc_auc([0.0, np.nan, 1.0], [0.1, 0.8, 0.9]),
        r"1 missing \(first: nan at 1\); leave these samples out of all arrays, then \.astype\(int\) makes labels$",
    ),
    "scores before labels": (
        lambda: metrics.roc_auc([0.1, 0.8, 0.9], [0, 1, 1]),
        r"got dtype float64; labels come first, as \(y_true, y_score\)$",
    ),
    "scores of several classes named by text": (
        lambda: metrics.roc_auc(TEXT, SHARES),
        r'y_score\[:, k\] for class k .*; uncertainty\.interval\(y_true, y_score, "roc_auc_ovr"\) averages the',
    ),
    "a matrix read back": (
        lambda: metrics.compute(READ_BACK, "mcc"),
        r"M\.set_index\('Unnamed: 0'\) takes it for these, as pandas\.read_csv\(path, index_col=0\) does$",
    ),
    "a matrix of numbered classes read back": (
        lambda: cmfast.ipf(READ_BACK.assign(**{"Unnamed: 0": [0, 1, 2]})),
        r"M must be .* got 'Unnamed: 0', a column with the names of the rows; M\.set_index",
    ),
    "a matrix with a column of names": (
        lambda: cmfast.bi_normalize(ABC.assign(name=list("abc"))),
        r"M must be values of one type, got 'name', .*; M\.set_index\('name'\) takes it for these",
    ),
    "a report as PDF": (
        lambda: make_page().save("somewhere/r.pdf"),
        r"path must be a file of HTML, .* got 'somewhere.*r\.pdf'; save it as 'somewhere.*r\.html', open that in a br",
    ),
    "a report as text": (lambda: make_page().save("r.txt"), r"\.html or \.htm, got 'r\.txt'; save it as 'r\.html'$"),
    "report.show": (
        lambda: make_page().show,
        r"; path = page\.save\(\"report\.html\"\) writes it, webbrowser\.open\(path\.res",
    ),
    "predictions of boxes before targets": (
        lambda: detection.confusion_matrix([BOXES | {"scores": [0.9]}], [BOXES]),
        r"targets must be the true boxes, without scores, .*; targets come first: give \(targets, predictions\)$",
    ),
    "demographic parity elsewhere": (
        lambda: uncertainty.compare_groups(Y, P, TEXT, "demographic_parity_difference"),
        "got 'demographic_parity_difference'; here it is called 'demographic_parity', a difference between groups$",
    ),
    "equalized odds elsewhere": (
        lambda: uncertainty.compare_groups(Y, P, TEXT, ["accuracy", "equalised_odds"]),
        "got 'equalised_odds'; here it is called 'equalized_odds', a difference between groups$",
    ),
    "fairness misspelt": (
        lambda: uncertainty.compare_groups(Y, P, TEXT, "equal_oportunity"),
        "got 'equal_oportunity'; did you mean 'equal_opportunity'",
    ),
    "a table of two groups": (
        lambda: uncertainty.compare_groups(Y, P, FRAME[["site", "truth"]], "accuracy"),
        r"give a dict of its columns: groups=\{'site': groups\['site'\], 'truth': groups\['truth'\]\}$",
    ),
    "a table of three groups": (
        lambda: cmfast.ConfusionCounts.from_labels(Y, P, groups=FRAME),
        r"columns: groups=\{'site': groups\['site'\], 'truth': groups\['truth'\], \.\.\.\}$",
    ),
    "multi_class= of an area": (
        lambda: uncertainty.interval(Y, SHARES, "roc_auc", multi_class="ovr"),
        'part of the name of an area of several classes: "roc_auc_ovr" or "roc_auc_ovo"$',
    ),
    "the standard error of an area": (
        lambda: uncertainty.standard_error([0, 1, 1], [0.1, 0.7, 0.4], "roc_auc"),
        r"got 'roc_auc', an area of scores; uncertainty\.interval\(y_true, y_score, \"roc_auc\"\) has its interval and",
    ),
    "the posterior of an area named elsewhere": (
        lambda: uncertainty.posterior([0, 1, 1], [0.1, 0.7, 0.4], names="AUC"),
        r"got 'AUC', an area of scores; uncertainty\.interval\(y_true, y_score, \"roc_auc\"\) has its",
    ),
    "a column as groups of rake": (
        lambda: cmfast.rake(FRAME, {"truth": {0: 1.0, 1: 2.0, 2: 1.0}}, groups=FRAME["site"]),
        r"got Series of shape \(4,\); groups='site' names that column$",
    ),
    "an array as groups of rake": (
        lambda: cmfast.rake(FRAME, {"truth": {0: 1.0, 1: 2.0, 2: 1.0}}, groups=FRAME["site"].to_numpy(object)),
        r"groups must be the name of a column, or a list of them, got ndarray of shape \(4,\)$",
    ),
    "bounds of rake without a method": (
        lambda: cmfast.rake(FRAME, {"truth": {0: 1.0, 1: 2.0, 2: 1.0}}, bounds=(0.3, 3)),
        r"got \(0\.3, 3\); method=\"truncated\" and method=\"logit\" take bounds$",
    ),
    "a negative lam of saps": (
        lambda: conformal.scores(SHARES, Y, method="saps", lam=-1),
        'lam must be above 0 for method="saps", the weight of a rank, for example 0.1, got -1',
    ),
    "report.open": (
        lambda: make_page().open,
        r"; path = page\.save\(\"report\.html\"\) writes it, webbrowser\.open\(path\.res",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_usual_name_or_argument_is_answered_by_what_is_here(name):
    call, text = ELSEWHERE[name]
    with pytest.raises((TypeError, ValueError, AttributeError), match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("weights", ["nominal", "ordinal", "linear", "interval"])
def test_ordered_categories_are_their_positions(weights):
    codes = GRADES.apply(lambda column: column.map({"low": 0, "mid": 1, "high": 2}))
    want = agreement.compute(codes, "conger_kappa", weights=weights, categories=[0, 1, 2])
    found = agreement.compute(GRADES.astype(ORDER), "conger_kappa", weights=weights)
    assert tuple(found) == tuple(want)
    with pytest.raises(ValueError, match="must be numbers with weights='ratio', got text"):
        agreement.compute(GRADES.astype(ORDER), weights="ratio")


def test_counts_are_still_what_other_libraries_look_for():
    assert not hasattr(COUNTS, "__dask_graph__")
    assert not hasattr(cmfast.ConfusionCounts, "__array_interface__")
    assert copy.deepcopy(COUNTS) == pickle.loads(pickle.dumps(COUNTS)) == COUNTS
    assert np.asarray(COUNTS).tolist() == COUNTS.matrix.tolist()


def test_probabilities_in_place_of_scores_are_warned_of():
    s = conformal.scores(ROWS, [0, 1, 2, 3, 0])
    with pytest.warns(
        cmfast.DiagnosticWarning, match=r"all 5 rows of new_scores add up to 1, .*; conformal\.scores\(P\)"
    ):
        conformal.p_values(s, ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        conformal.p_values(s, conformal.scores(ROWS))
        conformal.p_values(s, np.full((5, 2), 0.5))  # scores of "lac" of two classes add up to 1
