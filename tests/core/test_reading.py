"""Results show themselves: a line in a console, a table in a notebook, sentences on request."""

import re
import warnings
from functools import partial

import numpy as np
import pytest
from folded import check_each
from optional import torch

import cmfast
from cmfast import conformal, contingency, metrics, uncertainty

M = np.array([[8, 1, 0], [2, 6, 1], [0, 1, 9]])
BATCH = np.stack([M, 0 * M, M + 1])
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 3000)
X = RNG.normal(size=(3000, 2)) + Y[:, None]
P = np.clip(np.rint(X.mean(axis=1)), 0, 2).astype(int)


def quiet(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def results():
    """Yield results of every kind, of one matrix and of many, and of none."""
    yield from (quiet(cmfast.ipf, one) for one in (M, BATCH, BATCH[:0], np.zeros((0, 0))))
    yield from (quiet(cmfast.ras, one) for one in (M, BATCH))
    for one in (M, BATCH, [[1, 1], [0, 1]], [[1, 1, 1], [1, 0, 0], [1, 0, 0]], [[1, 1], [0, 0]], BATCH[:0]):
        found = cmfast.support(one)
        yield from (found, found.certificate)
    for one in (M, BATCH, BATCH[:0], M * 1.5, M * np.nan):
        yield quiet(metrics.margins, one)
        yield quiet(metrics.most_confused, one)
    yield metrics.threshold_matrices([1, 0], [0.5, 0.2])
    yield from (metrics.classification_report(M), metrics.classification_report(M * 0, undefined="nan"))
    yield contingency.learning_path(BATCH + 1)
    yield contingency.imbalance_sensitivity("f1", [2.0, 3.0], size=2)
    yield contingency.convex_hull([[0.5, 0.75]])
    for groups in (None, Y):
        for rows in (slice(None), slice(0)):
            given = None if groups is None else groups[rows]
            yield cmfast.ConfusionCounts.from_labels(Y[rows], P[rows], groups=given)
            yield uncertainty.paired_counts(Y[rows], P[rows], Y[rows], groups=given)
    yield cmfast.ConfusionCounts.from_labels(Y, P, sample_weight=-RNG.random(len(Y)))
    yield cmfast.pca(X, 1)
    for weights in ("bi", ["row", "bi"]):
        found = quiet(cmfast.geometric_confusion_matrix, X, Y, P, weights=weights)
        yield from (found, found.diagnostics, found.cells, found.cells.label_histogram())
        yield quiet(cmfast.width_curve, X, Y, P, weights=weights, origins=2)
    none = quiet(cmfast.geometric_confusion_matrix, X[:0], Y[:0], P[:0], grid=cmfast.Grid([0.0] * 2, [1.0] * 2))
    yield from (none, none.diagnostics, none.cells)


def results_of_tensors():
    """Yield results of several kinds that hold tensors."""
    yield quiet(cmfast.ipf, torch.tensor(BATCH))
    yield quiet(metrics.margins, torch.tensor(BATCH))
    yield quiet(metrics.most_confused, torch.tensor(BATCH))
    yield cmfast.ConfusionCounts.from_labels(torch.tensor(Y), torch.tensor(P))
    yield cmfast.pca(torch.from_numpy(X), 2)


def check_result(result):
    text = repr(result)
    assert text.startswith(f"<{type(result).__name__}: ")
    assert "\n" not in text
    assert len(text) < 250
    said = result.explain()
    assert said
    html = result._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<table") == html.count("</table>")


@pytest.mark.parametrize("make", [results, results_of_tensors])
def test_every_result_shows_itself(make):
    check_each((f"result {k}, {type(each).__name__}", partial(check_result, each)) for k, each in enumerate(make()))


def test_a_grid_says_how_its_cells_lie():
    grid = cmfast.Grid([0.0, 1.0], [0.5, 2.0])
    assert "<th>width</th><td>0.5, 2</td>" in grid._repr_html_()
    assert grid.explain() in grid._repr_html_()
    assert cmfast.Grid([0.0], [0.5]).explain() == "cells of 1 axis, 0.5 wide; the logarithm of their volume is -0.693"
    assert "<td>30 numbers</td>" in cmfast.Grid([0.0] * 30, [1.0] * 30)._repr_html_()


def test_the_status_is_shown_by_name():
    assert re.fullmatch(
        r"<ScalingResult: of 3 x 3, status CONVERGED, residual \S+, line error \S+, passes \d+>", repr(cmfast.ipf(M))
    )
    text = repr(quiet(cmfast.ipf, BATCH))
    assert "of 3 x 3, a batch of 3, status 2 CONVERGED, 1 ZERO_LINE, residual at most" in text
    assert "status LIMIT_ONLY" in repr(cmfast.support([[1, 1], [0, 1]]))
    diagonal = quiet(cmfast.geometric_confusion_matrix, X, Y, np.minimum(Y + (X[:, 0] > Y), 2))
    assert "status LIMIT_ONLY" in repr(diagonal)
    assert diagonal.diagnostics.status == cmfast.Status.LIMIT_ONLY


def test_what_became_of_every_matrix_of_a_batch():
    result = quiet(cmfast.ipf, BATCH)
    assert [line.split(":")[0] for line in result.explain().splitlines()] == ["2 CONVERGED", "1 ZERO_LINE"]
    assert result.explain(1) == "ZERO_LINE: a row or column is empty but its target is not"
    assert result.explain(-1).startswith("CONVERGED: ")
    assert cmfast.support(BATCH).explain() == "2 CONVERGED, 1 ZERO_LINE"


def test_every_status_has_its_words():
    of_tables, of_records = cmfast.ipf_nd(M, [((0, 1), M)]), cmfast.rake(M, M.sum(0))
    of_maps = cmfast.balance(([0], [0], [1.0], 1), symmetric="upper")
    for status in cmfast.Status:
        results = [of_tables, of_records, of_maps, cmfast.ipf(M)]
        for result in results:
            assert result._replace(status=np.int8(status)).explain().startswith(f"{status.name}: ")


def test_labels_are_escaped_in_html():
    html = metrics.classification_report(M, display_labels=["<script>", "b&c", "d"])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "b&amp;c" in html


def test_small_matrices_stand_in_the_html():
    assert "<td>0.8" in cmfast.ipf(M)._repr_html_()
    assert cmfast.ipf(np.ones((30, 30)))._repr_html_().count("<table") == 1


def test_diagnostics_end_with_a_verdict():
    good = quiet(cmfast.geometric_confusion_matrix, X, Y, P)
    assert str(good.diagnostics).splitlines()[-1] == good.explain()
    assert good.explain().startswith("Verdict: the overlap of 0.9")
    with pytest.warns(cmfast.DiagnosticWarning) as caught:
        bad = cmfast.geometric_confusion_matrix(X[:100], Y[:100], RNG.permutation(Y[:100]), weights="row")
    reason = str(caught[0].message).partition(": ")[2]
    assert str(bad.diagnostics).endswith(f"\nVerdict: this says little about geometry: {reason}.")
    curve = quiet(cmfast.width_curve, X, Y, P, origins=2)
    assert str(curve).splitlines()[-1] == curve.explain()


def test_confusions_have_the_names_of_their_classes():
    found = metrics.most_confused([[5, 2, 0], [0, 7, 0], [1, 0, 3]], 2)
    assert found.explain() == "class 0 and 1: 2\nclass 2 and 0: 1"
    assert found.explain(["ant", "bee", "cat"]) == "ant and bee: 2\ncat and ant: 1"
    for labels in (["ant", "bee"], "abc"):
        with pytest.raises(ValueError, match="labels must be names of all classes, at least 3, got "):
            found.explain(labels)


def test_what_is_said_of_counts():
    counts = cmfast.ConfusionCounts
    y, p = ["cat", "dog", "dog", "cat"], ["cat", "cat", "dog", "cat"]
    assert counts.from_labels(y, p).explain() == (
        "75.0% of 4 samples are right; confused are cat and dog (1 sample, both ways together)"
    )
    assert counts.from_labels(y, y).explain() == "100.0% of 4 samples are right; nothing is confused"
    grouped = counts.from_labels(y, p, groups={"site": ["u", "u", "v", "v"], "day": [1, 1, 2, 2]})
    assert grouped.explain() == "75.0% of 4 samples are right, in 2 groups: 50.0% of ('u', 1) to 100.0% of ('v', 2)"
    assert counts().explain() == "nothing was counted"
    paired = uncertainty.paired_counts(y, p, y)
    assert paired.explain().startswith("4 samples: both correct 3, only the first 0, only the second 1, neither 0;")
    assert uncertainty.paired_counts(y, p, p).explain().endswith("neither 1; they never differ")
    assert "&lt;b&gt;" in counts.from_labels(["<b>"], ["a"])._repr_html_()
    assert "&lt;b&gt;" in uncertainty.paired_counts(["<b>"] * 9, ["a"] * 9, ["<b>"] * 9)._repr_html_()


NONE, NO_IDS, NO_MATRICES = np.zeros(0), np.zeros(0, np.int64), np.zeros((0, 3, 3))
UNIT = cmfast.Grid([0.0], [1.0])
NO_SETS = conformal.prediction_sets(np.zeros((0, 3)), [0.9])
NO_PAIRS = uncertainty.paired_counts([], [], [])
OF_NOTHING = {
    "ipf": (lambda: cmfast.ipf(NO_MATRICES), "no matrices"),
    "ras": (lambda: cmfast.ras(NO_MATRICES), "no matrices"),
    "support": (lambda: cmfast.support(NO_MATRICES), "none"),
    "ipf_nd": (lambda: cmfast.ipf_nd(NO_MATRICES, [((0,), np.zeros((0, 3)))], ndim=2), "no tables"),
    "support_nd": (lambda: cmfast.support_nd(NO_MATRICES, [((0,), np.zeros((0, 3)))], ndim=2), "none"),
    "round_to_margins": (lambda: cmfast.round_to_margins(NO_MATRICES), "no tables"),
    "cells": (lambda: cmfast.cell_counts(np.zeros((0, 1)), NO_IDS, NO_IDS, grid=UNIT, n_classes=2), "0 points"),
    "histogram": (lambda: cmfast.sparse_histogram(np.zeros((0, 1)), grid=UNIT), "heights of 0 pairs"),
    "gcm": (lambda: quiet(cmfast.geometric_confusion_matrix, np.zeros((0, 1)), NO_IDS, NO_IDS, grid=UNIT), "Verdict: "),
    "collapse": (lambda: metrics.collapse(NO_MATRICES, ["a", "a", "b"]), "0 matrices"),
    "confusions": (lambda: metrics.most_confused(NO_MATRICES), "the largest confusions of 0 matrices"),
    "confusions of no classes": (lambda: metrics.most_confused(np.zeros((0, 0))), "no confusions"),
    "least cost": (lambda: metrics.least_cost(NO_IDS, NONE, [[0, 1], [1, 0]]), "no samples"),
    "least costs": (lambda: metrics.least_cost(NO_MATRICES[0:0, 0].astype(int), NO_MATRICES[0:0, 0], [[0, 1], [1, 0]]),
                    "no samples"),
    "margins": (lambda: metrics.margins(NO_MATRICES), "a total of 0"),
    "roc": (lambda: metrics.roc(NO_IDS, NONE), "both rates at each of 1 thresholds"),
    "precision_recall": (lambda: metrics.precision_recall(NO_IDS, NONE), "precision and recall at each of 1"),
    "report": (lambda: metrics.classification_report(np.zeros((3, 3))), "the matrix is empty"),
    "report of no classes": (lambda: metrics.classification_report(np.zeros((0, 0))), "the matrix is empty"),
    "interval": (lambda: uncertainty.interval(NO_MATRICES, "mcc", n_resamples=5), "mcc: 0 intervals"),
    "posterior": (lambda: uncertainty.posterior(NO_MATRICES, "mcc", n_resamples=5), "mcc: no draws"),
    "bowker": (lambda: uncertainty.bowker(NO_MATRICES), "no groups"),
    "stuart_maxwell": (lambda: uncertainty.stuart_maxwell(NO_MATRICES), "no groups"),
    "paired": (lambda: NO_PAIRS, "no samples"),
    "mcnemar": (lambda: uncertainty.mcnemar(NO_PAIRS), "only the first is correct in 0 samples"),
    "compare": (lambda: quiet(uncertainty.compare, NO_PAIRS, "accuracy"), "accuracy is undefined"),
    "compare groups": (lambda: uncertainty.compare(uncertainty.paired_counts([], [], [], groups=[]), "mcc"),
                       "mcc: no groups"),
    "compare_many": (lambda: uncertainty.compare_many({}, "accuracy"), "no pairs"),
    "compare_groups": (lambda: uncertainty.compare_groups(NO_MATRICES, "accuracy"), "accuracy: defined in fewer than"),
    "equivalence": (lambda: quiet(uncertainty.equivalence, NO_PAIRS, "accuracy", margin=0.1), "accuracy has no "),
    "sets": (lambda: NO_SETS, "no sets"),
    "ccm": (lambda: conformal.ccm(NO_SETS), "classes by sets: 3 without sets"),
    "coverage": (lambda: conformal.coverage_confusion(NO_SETS, NO_IDS), "no sets"),
    "scores": (lambda: conformal.score_histogram(NONE), "scores in 4,096 bins"),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_NOTHING)
def test_results_of_nothing_are_read_as_such(name):
    make, begins = OF_NOTHING[name]
    result = make()
    text = result.explain()
    assert text.startswith(begins)
    assert not re.search(r"  | ,| ;|, $| $|nan", text), text
    assert repr(result)
    assert result._repr_html_()
