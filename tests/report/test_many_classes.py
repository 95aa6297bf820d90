"""Reports of thousands of classes: the numbers of the dense way, from the cells that hold samples."""

import numpy as np
import pytest
from report_pages import Page, read_page_data, unpack_counts

import cmfast
from cmfast import metrics, uncertainty
from cmfast._core.p_values import binomial_test, holm
from cmfast._report import _class_facts, _counting, _many_classes, _model_facts, _options, _sparse_counts

pytestmark = pytest.mark.pictures

ASKED = _options.ReportOptions(confidence_level=0.95, smoothing=None, n_resamples=20, seed=0, num_threads=1)


def labels(n, C, seed=0):
    """Return truth and prediction, of which most are right, and one confusion stands out."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    guess = np.where(rng.random(n) < 0.7, y, rng.integers(0, C, n))
    return y, np.where((y == 1) & (rng.random(n) < 0.5), 2, guess)


@pytest.fixture(params=[(60, 400, 0), (60, 60_000, 1), (200, 3000, 2), (100, 300, 3)])
def both(request):
    """Return a model as matrix and as cells, of more classes than draws are for; in the last some do not occur."""
    C, n, seed = request.param
    M = cmfast.confusion_matrix(*labels(n, C, seed), n_classes=C)
    names = [str(k) for k in range(C)]
    dense = _model_facts.describe_model("m", M, names, ASKED)
    return dense, _many_classes.describe_sparse_model("m", _sparse_counts.list_cells(M), names, np.arange(C), ASKED)


def test_the_numbers_are_those_of_the_dense_way(both):
    dense, listed = both
    np.testing.assert_array_equal(listed.M, dense.M)
    np.testing.assert_allclose(listed.scaled.cells(dense.M), dense.scaled.cells(dense.M), rtol=1e-5)
    for key in ("name", "right", "smoothing", "asked", "status", "standing"):
        np.testing.assert_equal(listed.facts[key], dense.facts[key])
    said = [
        note.removeprefix("uncertainty.interval: ") for note in dense.facts["notes"]
    ]  # called by a report it is that
    assert listed.facts["notes"] == said
    for name, value in dense.facts["metrics"].items():
        for end in ("estimate", "low", "high"):
            np.testing.assert_allclose(listed.facts["metrics"][name][end], value[end], rtol=1e-8, err_msg=name)
    for name, column in dense.facts["classes"].items():
        rtol = 1e-5 if name == "balanced" else 1e-9
        np.testing.assert_allclose(listed.facts["classes"][name], column, rtol=rtol, atol=1e-12, err_msg=name)
    by_count = [dense.facts["confusions"], listed.facts["confusions"]]
    for one, other in zip(*by_count, strict=True):
        assert (one["true"], one["predicted"], one["count"]) == (other["true"], other["predicted"], other["count"])
        assert one["balanced"] == pytest.approx(other["balanced"], rel=1e-5)


def most_often(M, confidence_level):
    """Return what every class is taken for most, -1 where the first of its row is not told from the second."""
    out = np.full(len(M), -1)
    off = np.where(np.eye(len(M), dtype=bool), 0, M)
    met = np.flatnonzero(off.max(axis=1))
    largest, second = np.sort(off[met], axis=1)[:, :-3:-1].T
    sure = met[holm(binomial_test(largest, second)) <= 1.0 - confidence_level] if len(M) > 2 else met
    out[sure] = off[sure].argmax(axis=1)
    return out


def test_what_a_class_is_taken_for():
    M = np.random.default_rng(0).poisson(1.5, (300, 40, 40))
    M[:, :, 3] += np.random.default_rng(1).poisson(np.arange(300)[:, None] / 8, (300, 40))
    found = np.zeros(2, np.int64)
    for one in M:
        wanted = most_often(one, 0.95)
        np.testing.assert_array_equal(_class_facts.find_main_confusions(_sparse_counts.list_cells(one), 0.95), wanted)
        found += (wanted < 0).sum(), (wanted >= 0).sum()
    assert (found > 100).all()
    for two, wanted in (([[9, 1], [0, 9]], [1, -1]), ([[9, 0], [0, 9]], [-1, -1]), ([[1, 2], [3, 4]], [1, 0])):
        assert _class_facts.find_main_confusions(_sparse_counts.list_cells(np.array(two)), 0.95).tolist() == wanted


def test_columns_of_classes_are_those_of_the_functions(both):
    M, columns = both[0].M, both[0].facts["classes"]
    found = uncertainty.interval(M, ["recall", "precision"], undefined="nan", on_failure="ignore", method="wilson")
    for name, one in found.items():
        known = ~np.isnan(one.estimate)
        np.testing.assert_array_equal(columns[name], one.estimate)
        for end in ("low", "high"):
            np.testing.assert_array_equal(columns[f"{name}_{end}"], np.where(known, getattr(one, end), np.nan))
    np.testing.assert_array_equal(columns["f1"], metrics.compute(M, "f1", undefined="nan"))


def test_cells_are_those_of_a_matrix():
    M = np.random.default_rng(0).poisson(0.2, (30, 30))
    cells = _sparse_counts.list_cells(M)
    np.testing.assert_array_equal(cells.make_csr().toarray(), M)
    for found, wanted in zip(cells.sums(), (np.diagonal(M), M.sum(1), M.sum(0)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    some = np.array([3, 4, 20])
    np.testing.assert_array_equal(cells.select_dense(some), M[np.ix_(some, some)])
    keys = np.random.default_rng(1).permutation(np.repeat(np.arange(900), M.ravel()))
    again = _sparse_counts.sum_keys(keys, np.ones(len(keys), np.int64), 30)
    for found, wanted in zip(again, cells, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("models", [1, 2])
def test_the_page_shows_the_classes_that_are_confused_most(monkeypatch, models):
    monkeypatch.setattr(_counting, "MOST_DENSE", 60)
    monkeypatch.setattr(_many_classes, "MOST_DRAWN_CLASSES", 20)
    y, guess = labels(3000, 100)
    names = np.array([f"class {k:03}" for k in range(100)])
    guesses = {"a": names[guess], "b": names[labels(3000, 100, 1)[1]]}
    found = cmfast.report(names[y], guesses if models == 2 else guesses["a"])
    M = cmfast.confusion_matrix(y, guess, n_classes=100)
    wrong = M.sum(0) + M.sum(1) - 2 * np.diagonal(M)
    facts = read_page_data(found)
    own = [names.tolist().index(label) for label in facts["labels"]]
    assert len(own) == 20
    assert wrong[own].min() >= np.delete(wrong, own).max()
    np.testing.assert_array_equal(unpack_counts(facts["models"][0], 20), M[np.ix_(own, own)])
    assert facts["models"][0]["sums"] == [M.sum(1)[own].tolist(), M.sum(0)[own].tolist()]
    text = "".join(Page(found.html).text)
    assert "Of the 100 classes it shows the 20 with most confused samples" in text
    assert text.count("all 100 classes") == models
    assert found.to_dict()["samples"] == 3000
    assert ("comparison" in found.to_dict() and found.to_dict()["comparison"] is not None) == (models == 2)


def test_classes_are_the_same_however_many_there_are(monkeypatch):
    y, guess = labels(500, 70)
    few = cmfast.report(y, guess, labels=list(range(69, -1, -1)))
    monkeypatch.setattr(_counting, "MOST_DENSE", 60)
    many = cmfast.report(y, guess, labels=list(range(69, -1, -1)))
    for key in ("labels", "samples", "shown", "groups", "comparison"):
        assert few.to_dict()[key] == many.to_dict()[key]
    with pytest.raises(ValueError, match=r"^report: y_true must be samples, at least one, got none"):
        cmfast.report([], [])
