"""DataFrames of Dask: counts of groups, the same for any partitions; and tests of counts that are yet to come."""

import warnings

import numpy as np
import pandas as pd
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import uncertainty

pytestmark = pytest.mark.exhaustive

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

RNG = np.random.default_rng(31)
N = 400
FRAME = pd.DataFrame({
    "site": RNG.choice(["north", "south", "west"], N),
    "year": RNG.integers(2019, 2022, N),
    "label": RNG.choice(["a", "b", "c"], N),
    "guess": RNG.choice(["a", "b", "d"], N),
    "weight": RNG.integers(0, 9, N), "row": np.arange(N),
})  # fmt: skip
FRAME.loc[:99, "label"] = "a"  # classes that the first partitions do not have
COLUMNS = {"y_true": "label", "y_pred": "guess"}


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def assert_same_counts(found, want):
    assert (found.labels, found.groups) == (want.labels, want.groups)
    assert_same_bits(found.matrix, want.matrix)
    pd.testing.assert_frame_equal(found.table(["accuracy"]), want.table(["accuracy"]), check_exact=True)


@pytest.mark.parametrize("n", [1, 3, 50])
@pytest.mark.parametrize("keys", ["site", ["site", "year"]])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_partitions_do_not_matter(n, keys, weight):
    found = cmfast.by(dd.from_pandas(FRAME, npartitions=n), keys, **COLUMNS, sample_weight=weight)
    want = cmfast.by(FRAME, keys, **COLUMNS, sample_weight=weight)
    assert_same_counts(found.compute(), want)
    table = found.table(["accuracy"]).compute()
    pd.testing.assert_frame_equal(table, want.table(["accuracy"]), check_exact=True)


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.processes)])
def test_schedulers(scheduler):
    frame = dd.from_pandas(FRAME, npartitions=4)
    found = cmfast.by(frame[frame.year > 2019], "site", **COLUMNS).compute(scheduler=scheduler)
    assert_same_counts(found, cmfast.by(FRAME[FRAME.year > 2019], "site", **COLUMNS))


def test_partitions_without_rows():
    frame = dd.from_pandas(FRAME, npartitions=6)
    assert_same_counts(
        cmfast.by(frame[frame.row < 130], "site", **COLUMNS).compute(),
        cmfast.by(FRAME[FRAME.row < 130], "site", **COLUMNS),
    )


def test_nothing_is_computed_early_and_partitions_are_named():
    def fail(part):
        pytest.fail("a partition was computed")
        return part

    frame = dd.from_pandas(FRAME, npartitions=4)
    cmfast.by(frame.map_partitions(fail, meta=frame._meta), "site", **COLUMNS).table(["mcc"])
    bad = FRAME.assign(label=RNG.integers(0, 3, N), guess=0)
    bad.loc[250, "label"] = 7
    found = cmfast.by(dd.from_pandas(bad, npartitions=4), "site", **COLUMNS, n_classes=3)
    with pytest.raises(ValueError, match=r"^by: y_true .* in partition 2$"):
        found.compute()
    with pytest.raises(ValueError, match=r"^by: groups must be one of the columns"):
        cmfast.by(frame, "sit", **COLUMNS)
    half = dd.from_pandas(FRAME.assign(half=0.5), npartitions=2)
    with pytest.raises(TypeError, match=r"^by: sample_weight must be a column of integers in a DataFrame of Dask"):
        cmfast.by(half, "site", **COLUMNS, sample_weight="half")


def paired(chunks):
    y, a, b = RNG.integers(0, 3, (3, 300))
    lazy = [da.from_array(x, chunks=chunks) for x in (y, a, b)]
    return uncertainty.paired_counts(*lazy, n_classes=3), uncertainty.paired_counts(y, a, b, n_classes=3)


@pytest.mark.parametrize("chunks", [300, 41])
def test_tests_of_paired_counts(chunks):
    (later, now), (other, too) = paired(chunks), paired(chunks)
    options = {"n_resamples": 60}
    for test in (uncertainty.mcnemar, uncertainty.bowker, uncertainty.stuart_maxwell):
        assert str(test(later).compute()) == str(test(now))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        assert str(uncertainty.compare(later, "mcc", **options).compute()) == str(
            uncertainty.compare(now, "mcc", **options)
        )
        found = uncertainty.compare_many({("a", "b"): later, ("a", "c"): other}, "accuracy", **options).compute()
        want = uncertainty.compare_many({("a", "b"): now, ("a", "c"): too}, "accuracy", **options)
    assert str(found) == str(want)
    found = uncertainty.equivalence(later, "accuracy", 0.1).compute()
    assert str(found) == str(uncertainty.equivalence(now, "accuracy", 0.1))


def test_columns_are_counted_as_arrays():
    frame = dd.from_pandas(FRAME, npartitions=3)
    with pytest.raises(TypeError, match=r"column as \.to_dask_array\(lengths=True\), or call \.compute\(\) first"):
        cmfast.confusion_matrix(frame["weight"], frame["year"], n_classes=9)
    weight, row = (frame[name].to_dask_array(lengths=True) for name in ("weight", "row"))
    want = cmfast.confusion_matrix(FRAME["weight"], FRAME["row"] % 9, n_classes=9)
    assert_same_bits(cmfast.confusion_matrix(weight, row % 9, n_classes=9).compute(), want)
