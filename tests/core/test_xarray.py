"""Arrays of xarray: the numbers are those of NumPy, and dimensions and coordinates are kept."""

import numpy as np
import pytest

import cmfast
from cmfast import metrics, uncertainty

xr = pytest.importorskip("xarray")

COORDS = {"model": list("abcd"), "true": ["x", "y", "z"], "predicted": ["x", "y", "z"], "seed": ("model", [1, 2, 3, 4])}
COUNTS = np.random.default_rng(0).integers(1, 9, (4, 3, 3))
M = xr.DataArray(COUNTS, COORDS, ("model", "true", "predicted"))
BATCH, ROWS, COLS = ("model",), ("model", "true"), ("model", "predicted")
CELLS = ("model", "true", "predicted")


def _unnamed(M):
    return M.drop_vars(("true", "predicted")) if isinstance(M, xr.DataArray) else M


CALLS = {
    "normalize": (lambda M: cmfast.normalize(M, "row"), CELLS),
    "bi_normalize": (cmfast.bi_normalize, CELLS),
    "importance_weights": (lambda M: cmfast.importance_weights(M, "bi"), CELLS),
    "weights of a target": (lambda M: cmfast.importance_weights(M, target=M), CELLS),
    "row_scale": (lambda M: cmfast.ipf(M).row_scale, ROWS),
    "col_scale": (lambda M: cmfast.ras(M).col_scale, COLS),
    "status": (lambda M: cmfast.ipf(M).status, BATCH),
    "dead_cells": (lambda M: cmfast.support(M).dead_cells, CELLS),
    "overlap": (lambda M: cmfast.overlap(M, _unnamed(M[..., ::-1, ::-1])), BATCH),
    "overlap with an array": (lambda M: cmfast.overlap(np.ones((3, 3)), M), BATCH),
    "mcc": (metrics.mcc, BATCH),
    "f1": (metrics.f1, ROWS),
    "average": (lambda M: metrics.f1(M, average="macro"), BATCH),
    "compute": (lambda M: metrics.compute(M, ["accuracy", "recall"])["recall"], ROWS),
    "defined": (lambda M: metrics.defined(M, "f1"), ROWS),
    "wilson": (lambda M: uncertainty.interval(M, "recall", method="wilson", n=999).low, ROWS),
    "kappa": (lambda M: metrics.kappa(M, weights="linear"), BATCH),
    "margins": (lambda M: metrics.margins(M).col_sums, ROWS),
    "one_vs_rest": (metrics.one_vs_rest, (*ROWS, "is_true", "is_predicted")),
    "collapse": (lambda M: metrics.collapse(M, ["a", "b", "a"]).matrix, ("model", "true_group", "predicted_group")),
    "most_confused": (lambda M: metrics.most_confused(M, 2).value, (*BATCH, "k")),
    "standard_error": (lambda M: cmfast.uncertainty.standard_error(M, "f1"), ROWS),
    "resample": (lambda M: cmfast.uncertainty.resample(M, n_resamples=5, rng=3), (*BATCH, "k", "true", "predicted")),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_dimensions_of_their_arrays(name):
    function, dims = CALLS[name]
    found = function(M)
    assert isinstance(found, xr.DataArray)
    assert found.dims == dims
    np.testing.assert_array_equal(found.values, function(COUNTS))
    assert {*found.coords} == {name for name, c in M.coords.items() if {*c.dims} <= {*dims}}
    for coordinate in found.coords:
        np.testing.assert_array_equal(found[coordinate], M[coordinate])
    assert isinstance(function(M[0]), xr.DataArray) or dims != BATCH


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_what_is_no_batch_is_computed_as_an_array():
    X, y = np.random.default_rng(1).random((60, 2)), np.arange(60) % 2
    found = cmfast.geometric_confusion_matrix(xr.DataArray(X), xr.DataArray(y), y, weights="row")
    assert found.cells == cmfast.geometric_confusion_matrix(X, y, y, weights="row").cells
    assert cmfast.pca(xr.DataArray(X), 1) == cmfast.pca(X, 1)
    assert metrics.classification_report(M[0]).rows == metrics.classification_report(COUNTS[0]).rows


def test_labels():
    y, p = np.array([[0, 1, 1], [1, 1, 0]]), np.array([[0, 0, 1], [1, 1, 1]])
    given = [xr.DataArray(x, {"fold": ["a", "b"]}, ("fold", "sample")) for x in (y, p)]
    found = cmfast.confusion_matrix(*given)
    assert found.dims == ("fold", "true", "predicted")
    assert list(found.fold.values) == ["a", "b"]
    np.testing.assert_array_equal(found, cmfast.confusion_matrix(y, p))
    assert list(found.true.values) == list(found.predicted.values) == [0, 1]
    texts = xr.DataArray(["b", "a"]), xr.DataArray(["a", "a"])
    np.testing.assert_array_equal(cmfast.confusion_matrix(*texts), [[1, 0], [1, 0]])
    counts = cmfast.ConfusionCounts.from_labels(*texts, groups=xr.DataArray(["u", "v"]))
    assert (counts.labels, counts.groups) == (("a", "b"), ("u", "v"))


Y = np.array([[0, 1, 5], [1, 1, 0]])
P = np.array([[0, 5, 5], [1, 0, 0]])
NAMED = [xr.DataArray(x, {"fold": ["a", "b"], "sample": [7, 8, 9]}, ("fold", "sample")) for x in (Y, P)]
COUNTED = {
    "those that occur": ({}, ("fold",), [0, 1, 5]),
    "a truth that is ignored": ({"ignore_index": 5}, ("fold",), [0, 1, 5]),
    "a truth and its predictions": ({"ignore_index": 1}, ("fold",), [0, 5]),
    "ids": ({"n_classes": 6}, ("fold",), list(range(6))),
    "labels": ({"labels": [5, 0]}, ("fold",), [5, 0]),
    "maps": ({"sample_axes": 2}, (), [0, 1, 5]),
    "all axes": ({"sample_axes": None, "normalize": "row"}, (), [0, 1, 5]),
    "groups": ({"groups": [[0, 1, 1], [1, 1, 0]]}, ("fold", "group"), [0, 1, 5]),
    "names of groups": ({"groups": [["u", "v", "v"], ["v", "v", "u"]]}, ("fold", "group"), [0, 1, 5]),
    "groups of maps": ({"groups": [["u", "v", "v"], ["v", "v", "u"]], "sample_axes": 2}, ("group",), [0, 1, 5]),
}


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("name", COUNTED)
def test_counts_know_their_classes(name, kind):
    options, batch, classes = COUNTED[name]
    if kind is str:
        if "n_classes" in options:
            options = {}
            classes = [0, 1, 5]
        turn = {"labels": lambda x: list(map(str, x)), "ignore_index": str}
        options = {key: turn.get(key, lambda x: x)(value) for key, value in options.items()}
    found = cmfast.confusion_matrix(*(y.astype(kind) for y in NAMED), **options)
    assert found.dims == (*batch, "true", "predicted")
    for axis in ("true", "predicted"):
        assert found[axis].values.tolist() == [kind(x) for x in classes]
    if "fold" in batch:
        assert found.fold.values.tolist() == ["a", "b"]
    if "names" in name:
        assert found.group.values.tolist() == ["u", "v"]
    np.testing.assert_array_equal(found, cmfast.confusion_matrix(Y.astype(kind), P.astype(kind), **options))


def test_metrics_of_maps_of_labels():
    for axes, dims in ((1, ("fold",)), (2, ()), (None, ())):
        found = metrics.from_labels(*NAMED, ["accuracy", "recall"], sample_axes=axes)
        bare = metrics.from_labels(Y, P, ["accuracy", "recall"], sample_axes=axes)
        assert (found["accuracy"].dims, found["recall"].dims) == (dims, (*dims, "true"))
        for name, value in bare.items():
            np.testing.assert_array_equal(found[name], value)


def test_counts_keep_their_classes_beside_groups_of_any_name():
    groups = {"true": [[3, 3, 4], [4, 4, 4]], "site": [["x", "x", "y"], ["y", "y", "y"]]}
    found = cmfast.ConfusionCounts.from_labels(*NAMED, groups=groups).to_xarray()
    assert found.true.values.tolist() == found.predicted.values.tolist() == [0, 1, 5]
    assert found["'true'"].values.tolist() == [3, 4]
    assert found["site"].values.tolist() == ["x", "y"]


@pytest.mark.parametrize("names", [["x", "y"], [3, 1], [False, True]])
def test_counts_of_a_group_are_selected_by_its_label(names):
    one = cmfast.ConfusionCounts.from_labels([1, 2, 2], [1, 2, 1], groups=[*names, names[1]])
    several = cmfast.ConfusionCounts.from_labels(
        [1, 2, 2], [1, 2, 1], groups={"model": [*names, names[1]], "site": ["u", "u", "v"]}
    )
    for name in names:
        np.testing.assert_array_equal(one.to_xarray().sel(group=name), one.group(name).matrix)
        found = several.to_xarray().sel(model=name, site="u")
        np.testing.assert_array_equal(found, several.group((name, "u")).matrix)
        np.testing.assert_array_equal(several.to_xarray().sel(group=(name, "u")), found)
    right = metrics.compute(several.to_xarray(), "accuracy")
    assert float(right.sel(model=names[1], site="v")) == 0
    assert one.to_xarray().groups.values.tolist() == list(one.groups)
    named = cmfast.ConfusionCounts.from_labels([1, 2], [1, 2], groups={"group": names, "site": ["u", "v"]}).to_xarray()
    assert int(named.sel(group=names[1], true=2, predicted=2)) == 1
    nothing = cmfast.ConfusionCounts.from_labels([], [], groups={"model": [], "site": []}).to_xarray()
    assert nothing.shape == (0, 0, 0)


OF_LABELS = [cmfast.confusion_matrix, cmfast.ConfusionCounts.from_labels, metrics.from_labels, metrics.label_margins]


@pytest.mark.parametrize("function", OF_LABELS)
@pytest.mark.parametrize("kind", [int, str])
def test_labels_are_not_matched_against_their_names(function, kind):
    if kind is str and function is metrics.label_margins:
        kind = int
    y, p = (x.astype(kind) for x in NAMED)
    with pytest.raises(ValueError, match="y_true and y_pred must have the same coordinates along 'sample', as they"):
        function(y, p.assign_coords(sample=[8, 9, 7]))
    with pytest.raises(ValueError, match="y_true and y_pred must have the same coordinates along 'fold'"):
        function(y, p[::-1])
    square = y[:, :2], p[:, :2].T
    with pytest.raises(ValueError, match=r"must have their dimensions in one order, got .*'sample', 'fold'.*transpose"):
        function(*square)
    weight = xr.DataArray([1, 2, 3], {"sample": [1, 2, 3]}, ("sample",)).expand_dims(fold=["a", "b"])
    with pytest.raises(ValueError, match="y_true and sample_weight must have the same coordinates along 'sample'"):
        function(y, p, sample_weight=weight)
    function(y, p.drop_vars("sample"))  # which says nothing of the order
    function(y, p.rename(sample="row"))


def test_a_dimension_is_one_axis_of_all_arrays():
    y, p = xr.DataArray([0, 1], dims="sample"), xr.DataArray([[0, 1], [1, 1]], dims=("sample", "fold"))
    with pytest.raises(ValueError, match=r"^confusion_matrix: dimension 'sample' must be the same axis of all arrays"):
        cmfast.confusion_matrix(y, p)
    assert cmfast.confusion_matrix(y, p.T).dims == ("fold", "true", "predicted")
    rows = xr.DataArray([2.0, 2.0, 2.0], dims="predicted")
    with pytest.raises(ValueError, match=r"^ipf: dimension 'predicted' must be the same axis of all arrays"):
        cmfast.ipf(M, rows, np.full(3, 2.0))


TURNED = [
    ("model", "predicted", "true"),
    ("model", "y_pred", "y_true"),
    ("model", "Prediction", "Actual class"),
    ("model", "col", "row"),
    ("model", "predicted", "class"),
    ("model", "class", "true"),
    ("predicted", "true", "model"),
    ("true", "model", "predicted"),
]


@pytest.mark.parametrize("dims", TURNED)
def test_matrices_whose_names_say_that_they_are_turned_are_refused(dims):
    turned = xr.DataArray(COUNTS, dims=dims)
    for function in (metrics.f1, cmfast.bi_normalize, lambda S: cmfast.overlap(S, S)):
        with pytest.raises(ValueError, match=r"must have dimensions .*the truth.* and then .*the prediction, got"):
            function(turned)


def test_other_names_say_nothing_of_the_order():
    for dims in (("model", "x", "y"), ("model", "pred_a", "pred_b"), ("prediction", "x", "y"), ("model", "true", "y")):
        np.testing.assert_array_equal(metrics.f1(xr.DataArray(COUNTS, dims=dims)), metrics.f1(COUNTS))
    assert metrics.f1(metrics.one_vs_rest(M)).dims == ("model", "true", "is_true")
    y = xr.DataArray(Y, dims=("prediction", "sample"))  # no matrix
    assert cmfast.confusion_matrix(y, y).dims == ("prediction", "true", "predicted")


def test_samples_of_several_labels():
    rng = np.random.default_rng(2)
    y, p = rng.integers(0, 2, (2, 2, 30, 3))
    coords = {"fold": ["a", "b"], "label": list("xyz")}
    given = [xr.DataArray(x, coords, ("fold", "sample", "label")) for x in (y, p)]
    tables = metrics.multilabel_tables(*given)
    assert tables.dims == ("fold", "label", "is_true", "is_predicted")
    np.testing.assert_array_equal(tables, metrics.multilabel_tables(y, p))
    weight = xr.DataArray(rng.random((2, 30)), {"fold": ["a", "b"]}, ("fold", "sample"))
    names = ["f1", "f1_macro", "f1_micro", "f1_weighted", "f1_samples", "subset_accuracy", "hamming_loss"]
    found = metrics.multilabel(
        *given, names, sample_weight=xr.DataArray(weight, {"fold": ["a", "b"]}, ("fold", "sample"))
    )
    for name, value in metrics.multilabel(y, p, names, sample_weight=weight.values).items():
        assert found[name].dims == (("fold", "label") if name == "f1" else ("fold",))
        assert list(found[name].fold.values) == ["a", "b"]
        np.testing.assert_array_equal(found[name], value)
    assert list(found["f1"].label.values) == list("xyz")


def test_failures_speak_of_the_batch():
    bad = M.astype(float).copy()
    bad[2, 0, 0] = np.nan
    with pytest.warns(cmfast.FailureWarning, match=r"^bi_normalize: INVALID \(element 2 of 4\)"):
        found = cmfast.bi_normalize(bad)
    assert bool(found[2].isnull().all())
    with pytest.raises(cmfast.FailureError, match=r"^metrics\.mcc: 1 of 4 matrices not evaluated"):
        metrics.mcc(bad, on_failure="raise")


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"^normalize: M must be an array, got Dataset; give an xarray\.DataArray, as"):
        cmfast.normalize(M.to_dataset(name="counts"), "row")
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"^overlap: arrays must come from one library, got A from xarray, B from"):
        cmfast.overlap(M, torch.from_numpy(COUNTS))
    dask = pytest.importorskip("dask")
    assert dask
    with pytest.raises(TypeError, match=r"^normalize: M is a lazy xarray\.DataArray"):
        cmfast.normalize(M.chunk(), "row")


def test_inputs_do_not_change():
    before = M.copy(deep=True)
    cmfast.bi_normalize(M).values[:] = 0
    assert M.identical(before)
    assert M.values.flags.writeable
