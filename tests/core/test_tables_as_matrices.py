"""Tables, lazy tables and streams of Arrow as matrices and as points; columns of a table named by strings."""

import warnings

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import metrics, uncertainty

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
RNG = np.random.default_rng(0)
M = np.array([[8, 1, 1], [2, 6, 1], [1, 1, 9]])
Y = RNG.integers(0, 3, 200)
GUESS = np.where(RNG.random(200) < 0.8, Y, RNG.integers(0, 3, 200))
X = RNG.normal(size=(200, 2)) + 3 * Y[:, None]
SCORES = pd.DataFrame({"truth": Y > 0, "a": RNG.random(200) + 0.5 * (Y > 0), "b": RNG.random(200), "patient": Y % 2})
QUICK = {"n_resamples": 20}


class Stream:
    """What any library exports: a stream of Arrow and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def wrap(frame):
    return pytest.importorskip("narwhals").from_native(frame)


KINDS = {
    "polars": pl.DataFrame,
    "polars-lazy": lambda columns: pl.DataFrame(columns).lazy(),
    "arrow": pa.table,
    "batch": lambda columns: pa.table(columns).to_batches()[0],
    "reader": lambda columns: pa.table(columns).to_reader(),
    "stream": lambda columns: Stream(pa.table(columns)),
    "narwhals": lambda columns: wrap(pl.DataFrame(columns)),
    "narwhals-lazy": lambda columns: wrap(pl.DataFrame(columns).lazy()),
}
OF_MATRICES = {
    "compute": lambda x: metrics.compute(x, ["accuracy", "mcc"]),
    "f1": metrics.f1,
    "bi_normalize": cmfast.bi_normalize,
    "normalize": lambda x: cmfast.normalize(x, "row"),
    "interval": lambda x: uncertainty.interval(x, "recall", method="wilson"),
    "posterior": lambda x: uncertainty.posterior(x, "mcc", **QUICK),
    "resample": lambda x: uncertainty.resample(x, n_resamples=3),
    "overlap": lambda x: cmfast.overlap(x, M),
    "row_sums": lambda x: cmfast.ipf(x, [1, 1, 1], [1, 1, 1]).matrix,
}
OF_POINTS = {
    "pca": lambda x: cmfast.pca(x).components,
    "gcm": lambda x: cmfast.geometric_confusion_matrix(x, Y, GUESS, weights="row").matrix,
    "scott": lambda x: cmfast.Grid.scott(x).width,
}


def list_arrays(found):
    return list(found.values()) if isinstance(found, dict) else found if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*OF_MATRICES, *OF_POINTS])
def test_a_table_is_its_array(name, kind):
    array = M if name in OF_MATRICES else X
    call = OF_MATRICES.get(name) or OF_POINTS[name]
    table = KINDS[kind]({letter: array[:, k] for k, letter in enumerate("abc"[: array.shape[1]])})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        for found, wanted in zip(list_arrays(call(table)), list_arrays(call(array)), strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize("kind", ["pandas", *KINDS])
def test_columns_of_scores_are_named(kind):
    def make():
        columns = {name: SCORES[name].to_numpy() for name in SCORES}
        return SCORES if kind == "pandas" else KINDS[kind](columns)

    wanted = uncertainty.interval(SCORES["truth"], SCORES["a"], "roc_auc")
    assert uncertainty.interval(make(), "roc_auc", y_true="truth", y_score="a") == wanted
    assert uncertainty.interval(make(), "truth", "a", "roc_auc") == wanted
    assert uncertainty.interval(make(), names="roc_auc", y_true="truth", y_score="a") == wanted
    found = uncertainty.compare(make(), "roc_auc", y_true="truth", y_a="a", y_b="b")
    assert found.p_value == uncertainty.compare(SCORES["truth"], SCORES["a"], SCORES["b"], "roc_auc").p_value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        found = uncertainty.interval(make(), "roc_auc", y_true="truth", y_score="a", clusters="patient")
        clustered = uncertainty.interval(SCORES["truth"], SCORES["a"], "roc_auc", clusters=SCORES["patient"])
    assert found == clustered
    with pytest.raises(ValueError, match="y_score must be one of the columns truth, a, b, patient, got 'c'"):
        uncertainty.interval(make(), "roc_auc", y_true="truth", y_score="c")


@pytest.mark.parametrize("function", [metrics.roc, metrics.precision_recall])
def test_functions_of_arrays_say_how_to_name_columns(function):
    for call in (lambda: function(SCORES, "truth", "a"), lambda: function(SCORES, y_true="truth", y_score="a")):
        with pytest.raises(TypeError, match=rf"{function.__name__}\(table\['truth'\], table\['a'\], \.\.\.\)"):
            call()


def test_a_table_of_labels_is_no_matrix():
    labels = pd.DataFrame({"y": Y, "p": GUESS})
    for table in (labels, pl.from_pandas(labels), pl.from_pandas(labels).lazy()):
        with pytest.raises(TypeError, match="a table of labels is read by the names of its columns; pass the table"):
            uncertainty.interval(table, "mcc")
