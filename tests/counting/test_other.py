"""The option `other`: a last row and column for all labels that are not listed."""

import itertools
import random

import numpy as np
import pandas as pd
import pytest
from optional import polars as pl
from optional import torch

import cmfast

TEXTS = ["cat", "dog", "eel", "fox", "gnu"]


def by_hand(y_true, y_pred, labels, weights=None, ignored=()):
    """Return the matrix over the labels and the rest, one sample at a time."""
    out = [[0] * (len(labels) + 1) for _ in range(len(labels) + 1)]
    for t, p, w in zip(y_true, y_pred, weights or itertools.repeat(1), strict=False):
        if t in ignored:
            continue
        row, col = (labels.index(y) if y in labels else len(labels) for y in (t, p))
        out[row][col] += w
    return out


def samples(kinds, n=200, seed=3):
    """Return two lists of labels of some kinds."""
    draw = random.Random(seed)
    return [[draw.choice(kinds) for _ in range(n)] for _ in range(2)]


KINDS = {"text": TEXTS, "integers": [0, 1, 2, 3, 4], "far": [10**12, -5, 7, 2**62, 0], "bool": [False, True]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [60, 3000])
def test_rest_is_counted_last(kind, n):
    kinds = KINDS[kind]
    y, p = samples(kinds, n)
    for labels in (kinds[:1], kinds[1::-1], [*kinds[::2][:2]]):
        expected = by_hand(y, p, labels)
        found = cmfast.confusion_matrix(y, p, labels=labels, other=True)
        assert found.dtype == np.int64
        assert found.tolist() == expected
        counts = cmfast.ConfusionCounts.from_labels(y, p, labels=labels, other=True)
        assert counts.matrix.tolist() == expected
        assert counts.labels == (*labels, "other")


@pytest.mark.parametrize("kind", ["text", "integers", "far"])
@pytest.mark.parametrize("listed_is_ignored", [False, True])
def test_ignored_labels_are_in_no_row(kind, listed_is_ignored):
    kinds = KINDS[kind]
    y, p = samples(kinds)
    labels, gone = [kinds[3], kinds[1]], [kinds[1], kinds[4]] if listed_is_ignored else [kinds[0]]
    expected = by_hand(y, p, labels, ignored=gone)
    options = {"labels": labels, "other": True, "ignore_index": gone}
    assert cmfast.confusion_matrix(y, p, **options).tolist() == expected
    assert cmfast.ConfusionCounts.from_labels(y, p, **options).matrix.tolist() == expected


def test_most_labels_of_one_byte():
    labels = list(range(127))
    y, p = samples(list(range(200)), 5000)
    expected = by_hand(y, p, labels)
    for make in (lambda x: np.array(x, np.uint8), np.array):
        assert cmfast.confusion_matrix(make(y), make(p), labels=labels, other=True).tolist() == expected


def test_weights_groups_batches_and_shares():
    y, p = samples(TEXTS, 120)
    labels, weights = ["dog", "cat"], [k % 7 for k in range(120)]
    options = {"labels": labels, "other": True}
    expected = by_hand(y, p, labels, weights)
    assert cmfast.confusion_matrix(y, p, sample_weight=weights, **options).tolist() == expected
    groups = [k % 2 for k in range(120)]
    found = cmfast.confusion_matrix(y, p, groups=groups, **options)
    assert found.tolist() == [by_hand(y[k::2], p[k::2], labels) for k in (0, 1)]
    batch = np.array(y).reshape(3, 40)
    found = cmfast.confusion_matrix(batch, np.array(p).reshape(3, 40), **options)
    assert found.tolist() == [by_hand(y[k : k + 40], p[k : k + 40], labels) for k in (0, 40, 80)]
    shares = cmfast.confusion_matrix(y, p, normalize="all", **options)
    assert shares.shape == (3, 3)
    assert shares.sum() == pytest.approx(1)
    sparse = cmfast.confusion_matrix(y, p, sparse=True, **options)
    assert sparse.toarray().tolist() == by_hand(y, p, labels)


@pytest.mark.parametrize(
    "make",
    [
        np.array,
        pd.Series,
        lambda y: pd.Series(y, dtype="category"),
        pytest.param(lambda y: pl.Series(y), id="polars"),  # noqa: PLW0108
        pytest.param(lambda y: torch.tensor(y), id="torch"),  # noqa: PLW0108
    ],
)
def test_containers(make):
    y, p = samples([0, 1, 2, 3])
    expected = by_hand(y, p, [2, 0])
    labels = make([2, 0])
    assert np.asarray(cmfast.confusion_matrix(make(y), make(p), labels=labels, other=True)).tolist() == expected
    counts = cmfast.ConfusionCounts(labels=[2, 0], other=True)
    for k in (0, 100):
        counts.update(make(y[k : k + 100]), make(p[k : k + 100]))
    assert np.asarray(counts.matrix).tolist() == expected


def test_blocks_of_dask():
    da = pytest.importorskip("dask.array")
    y, p = samples([0, 1, 2, 3])
    found = cmfast.confusion_matrix(*(da.from_array(np.array(x), chunks=70) for x in (y, p)), labels=[2, 0], other=True)
    assert found.shape == (3, 3)
    assert found.compute().tolist() == by_hand(y, p, [2, 0])


def test_names_of_xarray():
    xr = pytest.importorskip("xarray")
    y, p = samples([0, 1, 2, 3])
    found = cmfast.confusion_matrix(*(xr.DataArray(x, dims="n") for x in (y, p)), labels=[2, 0], other=True)
    assert found.values.tolist() == by_hand(y, p, [2, 0])
    assert found["true"].values.tolist() == [2, 0, "other"]


def test_counts_merge_save_and_name_the_rest():
    y, p = samples(TEXTS)
    options = {"labels": ["dog", "cat"], "other": True}
    expected = by_hand(y, p, ["dog", "cat"])
    first, second = (cmfast.ConfusionCounts.from_labels(y[k::2], p[k::2], **options) for k in (0, 1))
    total = first + second
    assert total.matrix.tolist() == expected
    for restored in (cmfast.ConfusionCounts.from_bytes(total.to_bytes()),
                     cmfast.ConfusionCounts.from_json(total.to_json())):  # fmt: skip
        assert restored == total
        assert restored.update(["dog", "gnu"], ["eel", "cat"]).n_samples == 202
    again = cmfast.ConfusionCounts(**options)
    again.load_state_dict(total.state_dict())
    assert again == total
    assert list(total.to_pandas().index) == ["dog", "cat", "other"]
    values = total.compute("recall", average_over=["dog", "cat"])
    assert values[0] == pytest.approx(expected[0][0] / sum(expected[0]))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_integer_labels(library):
    pytest.importorskip(library)
    counts = cmfast.ConfusionCounts.from_labels([0, 1, 2, 0], [0, 1, 0, 3], labels=[0, 1], other=True)
    table = counts.table("recall", library=library)
    assert (
        [str(value) for value in table["class"].to_pylist()]
        if library == "pyarrow"
        else list(map(str, table["class"])) == ["0", "1", "other"]
    )


def test_one_class_against_the_rest():
    y, p = samples(TEXTS)
    counts = cmfast.ConfusionCounts.from_labels(y, p, labels=["eel"], other=True)
    hits = sum(a == b == "eel" for a, b in zip(y, p, strict=True))
    assert counts.compute("recall_binary") == pytest.approx(hits / y.count("eel"))
    numbers = [TEXTS.index(label) for label in y], [TEXTS.index(label) for label in p]
    counts = cmfast.ConfusionCounts.from_labels(*numbers, labels=[2], other=True)
    assert counts.compute("precision_binary") == pytest.approx(hits / p.count("eel"))


def test_by_and_display():
    y, p = samples(TEXTS, 60)
    frame = pd.DataFrame({"site": ["a", "b"] * 30, "y": y, "p": p})
    counts = cmfast.by(frame, "site", y_true="y", y_pred="p", labels=["dog"], other=True)
    assert counts.matrix.tolist() == [by_hand(y[k::2], p[k::2], ["dog"]) for k in (0, 1)]
    pytest.importorskip("matplotlib")
    display = cmfast.display.ConfusionDisplay.from_predictions(y, p, labels=["dog"], other=True)
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["dog", "other"]


def test_refusals():
    y, p = samples(TEXTS, 20)
    with pytest.raises(ValueError, match="labels must be given with other=True, got None"):
        cmfast.confusion_matrix(y, p, other=True)
    with pytest.raises(ValueError, match="labels must be given with other=True, got None"):
        cmfast.ConfusionCounts(other=True)
    with pytest.raises(ValueError, match="labels must be given with other=True"):
        cmfast.confusion_matrix([0], [0], n_classes=2, other=True)
    with pytest.raises(ValueError, match="labels must be without 'other', the name of the last row"):
        cmfast.confusion_matrix(["other"], ["a"], labels=["other", "a"], other=True)
    with pytest.raises(ValueError, match="labels must be without 'other', the name of the last row"):
        cmfast.ConfusionCounts(labels=["other", "a"], other=True)
    with pytest.raises(TypeError, match="other must be True or False"):
        cmfast.confusion_matrix(y, p, labels=["cat"], other="rest")
    some = cmfast.ConfusionCounts.from_labels(y, p, labels=["cat"], other=True)
    for labels in (["dog"], ["cat", "dog"]):
        with pytest.raises(ValueError, match="the rest is of other labels"):
            some + cmfast.ConfusionCounts.from_labels(y, p, labels=labels, other=True)
    with pytest.raises(ValueError, match="the rest is of other labels"):
        some + cmfast.ConfusionCounts.from_labels(y, p)
    with pytest.raises(TypeError, match="labels must be integers as y_true"):
        cmfast.confusion_matrix([1, 2], [1, 2], labels=["cat"], other=True)


def test_no_listed_label_occurs():
    with pytest.warns(cmfast.DiagnosticWarning, match=r"every sample is in the row of the rest, as none of labels"):
        found = cmfast.confusion_matrix(["a", "b"], ["b", "a"], labels=["cat", "dog"], other=True)
    assert found.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 2]]
    with pytest.warns(cmfast.DiagnosticWarning, match=r"every sample is in the row of the rest, as none of labels"):
        cmfast.ConfusionCounts.from_labels([3, 4], [4, 3], labels=[0, 1], other=True)
