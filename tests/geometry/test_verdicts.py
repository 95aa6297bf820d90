"""Weights of points: found out before any work on points, and one verdict for a matrix wherever it is asked for."""

import inspect
import warnings

import numpy as np
import pytest
from optional import torch

import cmfast
from cmfast.geometry import _permutation_null, _prepare_points

GRID = cmfast.Grid([0.0], [1.0])
MATRICES = {
    "a scaling": [[5, 1, 2], [1, 6, 1], [2, 1, 7]],
    "a limit": [[5, 1, 0], [0, 6, 1], [0, 0, 7]],
    "none": [[5, 1, 1], [3, 0, 0], [2, 0, 0]],
    "an empty column": [[5, 0, 1], [3, 0, 2], [2, 0, 4]],
    "an empty class": [[5, 0, 1], [0, 0, 0], [2, 0, 4]],
}


def labels_of(M):
    """Return labels and predictions that have the confusion matrix M."""
    y, p = np.nonzero(np.asarray(M))
    number = np.asarray(M)[y, p]
    return np.repeat(y, number), np.repeat(p, number)


def points_of(M):
    y, p = labels_of(M)
    return np.random.default_rng(0).normal(size=(len(y), 1)), y, p


def said(function, *arguments, **options):
    """Return the result, and what was said of weights without the name of the function."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments, **options)
    texts = [str(w.message) for w in caught if issubclass(w.category, cmfast.FailureWarning)]
    return result, [text.partition(": ")[2] for text in texts]


@pytest.mark.parametrize("options", [{}, {"empty": "drop"}, {"smoothing": 0.5}, {"smoothing": "pseudo-bayes"}], ids=str)
@pytest.mark.parametrize("name", MATRICES)
def test_one_verdict_everywhere(name, options):
    X, y, p = points_of(MATRICES[name])
    cells = cmfast.cell_counts(X, y, p, grid=GRID, n_classes=3)
    M = cells.confusion_matrix()
    S, why = said(cmfast.bi_normalize, M, **options)
    for function, arguments in (
        (cmfast.importance_weights, (M, "bi")),
        (cmfast.gcm, (cells, "bi")),
        (cells.label_histogram, ("bi",)),
        (cells.prediction_histogram, ("bi",)),
    ):
        assert said(function, *arguments, **options)[1] == why
    embedded = {"grid": GRID, "n_components": None, "n_classes": 3, **options}
    result, words = said(cmfast.geometric_confusion_matrix, X, y, p, **embedded)
    assert words == why
    assert said(cmfast.width_curve, X, y, p, factors=[1, 2], origins=2, **embedded)[1] == why
    if not options:
        np.testing.assert_allclose(result.diagnostics.normalized, S, rtol=1e-13, atol=1e-15)
    assert np.isnan(result.matrix).all() == np.isnan(S).all()


def test_a_limit_has_weights_in_every_place_of_a_batch():
    M = np.array([MATRICES["a scaling"], MATRICES["a limit"], MATRICES["none"], MATRICES["a limit"]], np.float64)
    for array in (M, torch.from_numpy(M), M.astype(np.float32), M.astype(np.int64), M[1], M.reshape(2, 2, 3, 3)):
        W, S = (f(array, "bi", on_failure="ignore") for f in (cmfast.importance_weights, cmfast.normalize))
        assert type(W) is type(S)
        assert W.dtype == S.dtype
        rtol = 1e-6 if S.itemsize == 4 else 1e-14
        np.testing.assert_allclose(np.asarray(W) * np.asarray(array), np.asarray(S), rtol=rtol)
    alone = cmfast.importance_weights(M[1], "bi", on_failure="ignore")
    np.testing.assert_array_equal(cmfast.importance_weights(M, "bi", on_failure="ignore")[3], alone)


def test_a_limit_whose_weights_leave_the_range():
    M = np.array([[1e-45, 1e-45], [0, 1e-45]], np.float32)
    with pytest.warns(cmfast.FailureWarning, match="RANGE: a weight leaves the range of the result"):
        assert np.isnan(cmfast.importance_weights(M, "bi")).all()
    with pytest.warns(cmfast.FailureWarning, match="1 RANGE"):
        found = cmfast.importance_weights(np.stack([M, M / M[0, 0], 1 + M]), "bi")
    assert np.isnan(found).any(axis=(1, 2)).tolist() == [True, False, False]


@pytest.mark.parametrize("function", [cmfast.geometric_confusion_matrix, cmfast.width_curve])
@pytest.mark.parametrize("weights", ["bi", [[1, 1], [1]], np.full((3, 3), -1.0), ["row", np.full((3, 3), np.nan)]])
def test_weights_are_looked_at_before_the_points(function, weights, monkeypatch):
    def project(*arguments, **options):
        pytest.fail("the points were looked at")

    monkeypatch.setattr(_prepare_points, "project", project)
    with pytest.raises((cmfast.FailureError, TypeError, ValueError)):
        function(*points_of(MATRICES["none"]), weights=weights, on_failure="raise")


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("grid", ["scott", GRID], ids=["scott", "grid"])
def test_weights_without_an_answer_cost_no_work(make, grid, monkeypatch):
    def work(*arguments, **options):
        pytest.fail("there was work")

    monkeypatch.setattr(_prepare_points, "project", work)
    monkeypatch.setattr(_permutation_null, "simulate_null", work)
    points = [make(x) for x in points_of(MATRICES["none"])]
    for weights in ("bi", ["bi", make(np.full((3, 3), -1.0))]):
        result, words = said(cmfast.geometric_confusion_matrix, *points, weights=weights, grid=grid)
        assert len(words) == 1
        assert type(result.matrix) is type(points[0])
        assert np.isnan(np.asarray(result.matrix)).all()
        assert result.cells.n_points == result.diagnostics.n_points == 0
        assert "no overlap is defined, as the weights do not exist" in result.explain()
        curve, _ = said(cmfast.width_curve, *points, weights=weights, grid=grid, factors=[1, 2])
        assert np.isnan(curve.overlaps).all()


def test_one_weighting_with_an_answer_is_worth_the_work():
    X, y, p = points_of(MATRICES["none"])
    result, _ = said(cmfast.geometric_confusion_matrix, X, y, p, weights=["bi", "row"])
    assert np.isnan(result.matrix).any(axis=(1, 2)).tolist() == [True, False]
    alone, _ = said(cmfast.geometric_confusion_matrix, X, y, p, weights="row")
    np.testing.assert_array_equal(result.matrix[1], alone.matrix)
    assert result.diagnostics.null_overlap[1] == alone.diagnostics.null_overlap


def test_what_is_left_out_may_give_an_answer():
    X, y, p = points_of(MATRICES["a scaling"])
    X, y, p = (np.concatenate([a, b]) for a, b in ((X, np.full((1, 1), np.inf)), (y, [3]), (p, [0])))
    result, words = said(cmfast.geometric_confusion_matrix, X, y, p, empty="drop")
    assert len(words) == 2
    assert not np.isnan(result.matrix).all()


def test_what_is_left_out_may_change_the_verdict_which_is_said_then():
    X, y, p = points_of(MATRICES["a scaling"])
    _, fine = said(cmfast.geometric_confusion_matrix, X, y, p)
    assert not fine
    X[(y == 1) & (p != 1)] = np.nan
    X[(y == 2) & (p == 1)] = np.nan
    _, words = said(cmfast.geometric_confusion_matrix, X, y, p)
    assert len(words) == 2
    assert "left out" in words[0]
    assert words[1].startswith("LIMIT_ONLY: ")


def test_the_example_of_the_readme_works_with_the_defaults():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 8, 4000)
    X = rng.normal(size=(4000, 16)) + 1.5 * np.eye(8, 16)[y]
    p = X[:, :8].argmax(axis=1)
    p[(y == 3) & (p == 5)] = 3  # zeros as ordinary matrices have them
    with warnings.catch_warnings():
        warnings.simplefilter("error", cmfast.FailureWarning)
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        G, _, d = cmfast.geometric_confusion_matrix(X, y, p)
    assert np.isfinite(G).all()
    assert np.isfinite([d.overlap, d.guaranteed, d.null_overlap, d.pattern]).all()


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_a_dropped_class_is_no_missing_mass():
    X, y, p = points_of(MATRICES["an empty class"])
    options = {"grid": GRID, "n_components": None, "empty": "drop"}
    assert abs(cmfast.geometric_confusion_matrix(X, y, p, **options).diagnostics.missing_mass) < 1e-12
    smoothed = cmfast.geometric_confusion_matrix(X, y, p, smoothing=1.0, **options)
    assert smoothed.diagnostics.missing_mass > 0.2


def test_all_that_weighs_takes_the_options_of_bi():
    functions = (cmfast.gcm, cmfast.geometric_confusion_matrix, cmfast.width_curve, cmfast.CellCounts.label_histogram)
    assert all({"smoothing", "empty"} <= set(inspect.signature(function).parameters) for function in functions)


@pytest.mark.parametrize("function", [cmfast.Grid.scott, cmfast.Grid.freedman_diaconis])
def test_points_that_are_none(function):
    with pytest.raises(ValueError, match="X must be points with at least one finite row, got no rows"):
        function(np.empty((0, 2)))
    with pytest.raises(ValueError, match="got 3 rows, none of them finite"):
        function(np.full((3, 2), np.nan))
