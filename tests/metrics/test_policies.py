"""What a 0/0 gives, by one option with one default everywhere; and all metrics of a kind by one name."""

import inspect
import json
import re
import warnings

import numpy as np
import oracle.metrics as oracle
import pytest
from callables import public
from optional import torch

import cmfast
from cmfast import cli, metrics
from cmfast.metrics import _catalogue

ABSENT = np.array([[5, 1, 0, 0], [2, 4, 0, 0], [3, 0, 0, 0], [0, 0, 0, 0]])  # 2 is never predicted, 3 never occurs
NAMES = [name for name in (*metrics.SCALARS, *metrics.PER_CLASS) if name != "gerrity"]


def test_one_default_for_library_report_and_command(tmp_path, capsys):
    defaults = {
        name: parameters["undefined"].default
        for name, function in public()
        if not (inspect.isclass(function) or name.startswith("conformal."))
        and "undefined" in (parameters := inspect.signature(function).parameters)
    }
    assert len(defaults) > 30
    assert set(defaults.values()) == {"present"}
    np.save(tmp_path / "M.npy", ABSENT)
    assert cli.main(["metrics", str(tmp_path / "M.npy"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["undefined"] == "present"
    assert found["metrics"] == {name: float(value) for name, value in metrics.compute(ABSENT).items()}
    report = metrics.classification_report(ABSENT)
    assert report.overall["mcc"] == metrics.mcc(ABSENT)
    assert report.rows["macro"][0] == metrics.precision(ABSENT, average="macro")


@pytest.mark.parametrize("policy", ["present", "nan", 0.5])
def test_every_head_names_the_policy(policy, tmp_path, capsys):
    report = metrics.classification_report(ABSENT, undefined=policy)
    assert str(report).startswith(f"0/0: {policy} ")
    assert f"<th>0/0: {policy}</th>" in report.to_html()
    assert report.to_pandas().attrs["undefined"] == report.undefined == policy
    np.save(tmp_path / "M.npy", ABSENT)
    np.save(tmp_path / "two.npy", np.stack([ABSENT, ABSENT]))
    (tmp_path / "t.csv").write_text("y_true,y_pred,site\n1,1,a\n0,1,b\n")
    given = ["--undefined", str(policy), "--quiet"]
    for arguments in (["M.npy"], ["M.npy", "--only", "mcc"], ["two.npy"], ["t.csv", "--by", "site", "--only", "mcc"]):
        assert cli.main(["metrics", str(tmp_path / arguments[0]), *arguments[1:], *given]) == 0
        assert capsys.readouterr().out.startswith(f"0/0: {policy}")
    assert cli.main(["metrics", str(tmp_path / "t.csv"), "--by", "site", *given]) == 0
    assert capsys.readouterr().out.count(f"\n0/0: {policy}") == 2
    assert cli.main(["metrics", str(tmp_path / "t.csv"), "--by", "site", "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out)["undefined"] == policy


@pytest.mark.parametrize("text", ["2", "-1", "nan ", "inf", "", "maybe"])
def test_policies_that_the_command_refuses(text, tmp_path, capsys):
    np.save(tmp_path / "M.npy", ABSENT)
    assert cli.main(["metrics", str(tmp_path / "M.npy"), f"--undefined={text}"]) == 2
    assert "must be a number from 0 to 1, or one of present, nan, strict, zero, one, got" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.parametrize("fill", [0, 0.25, 1, np.float32(0.5), np.int64(1)])
def test_a_number_fills_and_averages_run_over_present_classes(fill, rng):
    sparse = rng.integers(0, 3, (40, 5, 5)) * (rng.random((40, 5, 5)) < 0.25)
    for M in (ABSENT, sparse, sparse.astype(float), ABSENT * 0):
        found = metrics.compute(M, NAMES, undefined=fill)
        want = oracle.metrics_of_matrices(M, NAMES, undefined=float(fill))
        for name, value in zip(NAMES, want, strict=True):
            np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)
    for name in NAMES:
        zero, present = (metrics.compute(sparse, name, undefined=policy) for policy in (0, "present"))
        np.testing.assert_array_equal(zero, present)


def test_one_is_the_zero_division_of_torchmetrics(rng):
    functional = pytest.importorskip("torchmetrics.functional.classification")
    for _ in range(50):
        y, p = rng.integers(0, 4, (2, 6))
        M = cmfast.confusion_matrix(y, p, n_classes=5)
        for name in ("precision", "recall", "f1"):
            theirs = getattr(functional, f"multiclass_{name}" + ("_score" if name == "f1" else ""))
            for average in ("macro", None):
                options = {"num_classes": 5, "average": average or "none", "zero_division": 1}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    want = theirs(torch.from_numpy(p), torch.from_numpy(y), **options)
                found = getattr(metrics, name)(M, average=average, undefined=1)
                np.testing.assert_allclose(found, want, rtol=1e-6)


def test_all_metrics_of_a_kind(rng):
    M = rng.integers(0, 9, (4, 3, 3))
    y, p = rng.integers(0, 3, (2, 100))
    for names, want in ((None, metrics.SCALARS), ("scalars", metrics.SCALARS), ("per_class", metrics.PER_CLASS)):
        assert tuple(metrics.compute(M, names)) == want
        assert tuple(metrics.from_labels(y, p, names)) == want
    assert tuple(metrics.compute(M)) == tuple(metrics.from_labels(y_true=y, y_pred=p)) == metrics.SCALARS
    sums = metrics.margins(M)
    ordered = {"kappa_linear", "kappa_quadratic", "gerrity"}
    assert set(metrics.SCALARS) - set(metrics.from_sums(*sums[:3])) == ordered
    assert set(metrics.from_sums(*sums[:3], bands=sums.bands)) == set(metrics.SCALARS) - {"gerrity"}
    assert tuple(metrics.from_sums(*sums[:3], bands=sums.bands, tops=sums.tops)) == metrics.SCALARS
    for name in ("scalars", "per_class"):
        with pytest.raises(ValueError, match=r"metrics\.defined: name must be metrics"):
            metrics.defined(M, name)


def test_the_keywords_that_people_type():
    y, p = [0, 1, 1, 2], [0, 1, 2, 2]
    M = cmfast.confusion_matrix(y_true=y, y_pred=p)
    np.testing.assert_array_equal(M, cmfast.confusion_matrix(y, p))
    X = np.arange(8.0).reshape(4, 2)
    cells = cmfast.cell_counts(X=X, y_true=y, y_pred=p, grid=cmfast.Grid([0.0, 0.0], [2.0, 2.0]))
    assert cmfast.gcm(cells, weights="row").shape == (3, 3)
    assert cmfast.pca(X=X, n_components=1).transform(X=X).shape == (4, 1)
    for function in (cmfast.ipf, cmfast.ras):
        result = function([[1.0, 1.0], [1.0, 2.0]], row_sums=[1, 2], col_sums=[1.5, 1.5])
        assert result.status == 0
    assert cmfast.support([[1, 1], [0, 1]], row_sums=[2, 1], col_sums=[1, 2]).status == 0
    assert metrics.fbeta(M, beta=2).shape == (3,)
    assert metrics.tau_weighted(M, weights=[1, 1, 1]) == metrics.tau(M)
    assert metrics.from_labels(y_true=y, y_pred=p, names="mcc") == metrics.mcc(M)
    assert metrics.threshold_matrices(y_score=[0.5, 0.2], y_true=[1, 0]).matrices.shape == (3, 2, 2)
    assert metrics.label_margins(y_true=y, y_pred=p).total == 4
    assert cmfast.uncertainty.resample(M, missed=[1, 0, 2], n_resamples=2).shape == (2, 3, 3)
    assert metrics.most_confused(M, k=1).row.tolist() == [1]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tpr", "recall"),
        ("TNR", "specificity"),
        ("ppv_macro", "precision_macro"),
        ("plr", "positive_likelihood_ratio"),
        ("lr-", "negative_likelihood_ratio"),
        ("f2", "fbeta_2"),
        ("f0.5_weighted", "fbeta_0.5_weighted"),
        ("f_2", "fbeta_2"),
        ("fbeta2_binary", "fbeta_2_binary"),
        ("F1", "f1"),
        ("dice", "f1"),
        ("acc", "accuracy"),
        ("matthews_corrcoef", "mcc"),
        ("balanced_acc", "balanced_accuracy"),
    ],
)
def test_names_of_elsewhere_are_answered_by_ours(name, meant):
    for call in (metrics.compute, lambda M, name: metrics.from_labels([0, 1], [0, 1], name), metrics.defined):
        with pytest.raises(ValueError, match=f"got {re.escape(repr(name))}; did you mean {meant!r}\\?$"):
            call([[1, 0], [0, 1]], name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tau_weighted", "which needs a weight for each class in its name: 'tau_weighted_1_5' for two of them"),
        ("tau_weighted_1_-5", "names must be metrics"),
        ("tau_weighted_1_inf", "names must be metrics"),
        ("tau_weighted_1_", "names must be metrics"),
        ("tau_weighted_1_2_3", "M must be of 3 classes for tau_weighted_1_2_3, got 2 classes"),
    ],
)
def test_weights_of_classes_in_a_name(name, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        metrics.compute([[1, 0], [0, 1]], name)


def test_what_metrics_are_called_elsewhere_is_no_name_of_one():
    for name, meant in _catalogue.FOREIGN_NAMES.items():
        assert _catalogue.find_form(name) is None
        assert _catalogue.find_form(meant) is not None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: metrics.f1([[1]], averag="macro"), "metrics.f1: there is no option 'averag'; did you mean 'average'?"),
        (
            lambda: metrics.mcc([[1]], xyz=1),
            "metrics.mcc: there is no option 'xyz'; the options are undefined, on_failure, num_threads",
        ),
        (
            lambda: cmfast.normalize([[1]], "bi", smooth=1),
            "normalize: method 'bi' has no option 'smooth'; did you mean 'smoothing'?",
        ),
        (lambda: cmfast.normalize([[1]], "row", smoothing=1), "normalize: method 'row' has no option 'smoothing'"),
    ],
)
def test_options_that_are_mistyped(call, said):
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        call()
    with pytest.raises(ValueError, match="'binary', got 'marco'; did you mean 'macro'"):
        metrics.f1([[1]], average="marco")
