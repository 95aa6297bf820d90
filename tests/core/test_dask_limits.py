"""Sums of chunks that int64 cannot hold: an error or INVALID, whether each chunk can hold its own or not."""

import numpy as np
import pandas as pd
import pytest

import cmfast

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

LABELS = np.zeros(40, np.int64)
WEIGHTS = np.full(40, 2**60)  # the sum of a chunk of four is 2**62, and of all of them above 2**65
ROWS = np.stack([LABELS, LABELS], axis=1) + 0.5


def chunked(array):
    return da.from_array(array, chunks=(4, *array.shape[1:]))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_weights_of_labels(dtype):
    labels, weights = chunked(LABELS), chunked(WEIGHTS.astype(dtype))
    lazy = cmfast.confusion_matrix(labels, labels, n_classes=2, sample_weight=weights)
    with pytest.warns(cmfast.FailureWarning, match="INVALID; its weights add up to more than fits$"):
        found = lazy.compute()
    assert not found.any()
    few = cmfast.confusion_matrix(labels[:4], labels[:4], n_classes=2, sample_weight=weights[:4]).compute()
    assert few.tolist() == [[2**62, 0], [0, 0]]


def test_weights_of_points():
    grid = cmfast.Grid([0.0, 0.0], [1.0, 1.0])
    lazy = cmfast.sparse_histogram(chunked(ROWS), grid=grid, weights=chunked(WEIGHTS))
    with pytest.raises(OverflowError, match=f"a sum of weights is {40 * 2**60}, which int64 cannot hold"):
        lazy.compute()


def test_weights_of_groups():
    frame = dd.from_pandas(pd.DataFrame({"site": LABELS, "y": LABELS, "p": LABELS, "w": WEIGHTS}), npartitions=10)
    lazy = cmfast.by(frame, "site", y_true="y", y_pred="p", sample_weight="w")
    with pytest.raises(OverflowError, match=r"counts must be at most 2\*\*63 - 1 in each cell"):
        lazy.compute()
