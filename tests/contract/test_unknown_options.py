"""No public function answers an unknown option, or a name of another library, with Python's raw error."""

import inspect
import subprocess
import sys
from operator import attrgetter

import callables
import numpy as np
import pytest

import cmfast
from cmfast import conformal, display, metrics, uncertainty

Y, P, Q = np.array([0, 1, 1, 0, 1]), np.array([0, 1, 0, 0, 1]), np.array([1, 1, 1, 0, 0])
S = np.array([0.1, 0.8, 0.4, 0.3, 0.9])
M = np.array([[5, 1], [2, 6]])
C = cmfast.ConfusionCounts.from_labels(Y, P)
CALLABLES = [name for name in callables.ENTRIES if name not in callables.RECORDS]


@pytest.mark.parametrize("name", CALLABLES)
@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_an_unknown_option_is_named_with_those_that_there_are(name):
    entry = callables.ENTRIES[name]
    with pytest.raises(TypeError) as caught:
        callables.call(entry, no_such_option=1)
    text = str(caught.value)
    assert text.startswith(f"{entry.name or name}: ")
    assert "no option 'no_such_option'" in text
    assert "unexpected keyword" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_most_public_callables_are_tested_here():
    assert len(CALLABLES) > 250


@pytest.mark.parametrize("name", CALLABLES)
def test_a_parameter_is_positional_only_if_it_is_an_array_or_an_object(name):
    function = callables.find_public(name)
    every = inspect.signature(function).parameters.values()
    some = {p.name for p in every if p.kind is p.POSITIONAL_ONLY} - {"self"}
    two = {"A", "B", "a", "b"}  # two alike, without names of their own
    paired = {"y_true", "y_a", "y_b"} if name == "uncertainty.paired_counts" else set()
    assert len(some) <= 1 or some <= two | paired


OPTIONS = {
    "confusion_matrix(n_jobs=)": (lambda: cmfast.confusion_matrix(Y, P, n_jobs=2), "it is called num_threads="),
    "num_classes=": (lambda: cmfast.confusion_matrix(Y, P, num_classes=2), "it is called n_classes="),
    "weights=": (lambda: cmfast.confusion_matrix(Y, P, weights=S), "it is called sample_weight="),
    "normalise=": (lambda: cmfast.confusion_matrix(Y, P, normalise="row"), "it is called normalize="),
    "confusion_matrix(method=)": (lambda: cmfast.confusion_matrix(Y, P, method="row"), "it is called normalize="),
    "plot(method=)": (
        lambda: cmfast.ConfusionCounts.from_labels(Y, P).plot(method="row"),
        "ConfusionCounts.plot: there is no option 'method'; it is called normalize=",
    ),
    "normalize(normalize=)": (
        lambda: cmfast.normalize(M, normalize="true"),
        "normalize: there is no option 'normalize'; it is called method=",
    ),
    "normalize(normalise=)": (lambda: cmfast.normalize(M, normalise="true"), "it is called method="),
    "ConfusionCounts.normalize(normalize=)": (
        lambda: cmfast.ConfusionCounts.from_labels(Y, P).normalize(normalize="true"),
        "it is called method=",
    ),
    "interval(normalize=)": (lambda: cmfast.uncertainty.interval(M, normalize="row"), "it is called of="),
    "class_names=": (lambda: cmfast.confusion_matrix(Y, P, class_names=[0, 1]), "labels= lists the labels in order"),
    "names of classes": (
        lambda: cmfast.ConfusionCounts.from_labels(Y, P, target_names=["n", "y"]),
        r"names\)\[y_true\]",
    ),
    "report(target_names=)": (lambda: cmfast.report(Y, P, target_names=["n", "y"]), r"np\.array\(names\)\[y_true\]"),
    "interval(target_names=)": (
        lambda: uncertainty.interval(Y, P, "f1", target_names=["n", "y"]),
        r"names\)\[y_pred\]",
    ),
    "compare(labels=)": (
        lambda: uncertainty.compare(Y, P, P, "f1", labels=[0, 1]),
        r"paired_counts, and give the counts",
    ),
    "counts.plot(display_labels=)": (
        lambda: C.plot(display_labels=["n", "y"]),
        r"from_matrix\(counts, display_labels=n",
    ),
    "display.plot(display_labels=)": (
        lambda: display.ConfusionDisplay.from_matrix(M).plot(display_labels=["n", "y"]),
        "give it where the display is made",
    ),
    "counts.classification_report(target_names=)": (
        lambda: C.classification_report(target_names=["n", "y"]),
        r"classification_report\(counts\.matrix, display_labels=names\) shows others",
    ),
    "display(class_names=)": (
        lambda: display.ConfusionDisplay.from_predictions(Y, P, class_names=["n", "y"]),
        "it is called display_labels=",
    ),
    "threshold=": (lambda: cmfast.confusion_matrix(Y, S, threshold=0.5), "y_pred=y_score > threshold"),
    "task=": (lambda: metrics.from_labels(Y, P, "f1", task="multiclass"), "leave it out"),
    "bi_normalize(n_jobs=)": (lambda: cmfast.bi_normalize(M, n_jobs=2), "it is called num_threads="),
    "normalize(maxiter=)": (lambda: cmfast.normalize(M, "bi", maxiter=2), "it is called max_iter="),
    "ipf(maxiter=)": (lambda: cmfast.ipf(M, maxiter=9), "it is called max_iter="),
    "ipf(verbose=)": (lambda: cmfast.ipf(M, verbose=True), "it is called progress="),
    "ipf(rows=)": (lambda: cmfast.ipf(M, rows=[1, 1]), "it is called row_sums="),
    "rake(maxiter=)": (lambda: cmfast.rake(np.ones((3, 1)), [3.0], maxiter=9), "it is called max_iter="),
    "roc_auc(multi_class=)": (lambda: metrics.roc_auc(Y, S, multi_class="ovr"), "pass y_true == k"),
    "roc_auc(y_prob=)": (lambda: metrics.roc_auc(Y, y_prob=S), "it is called y_score="),
    "plot(cmap=)": (lambda: C.plot(cmap="Blues"), "set_cmap"),
    "config(n_threads=)": (lambda: cmfast.config(n_threads=2), "it is called num_threads="),
    "f1(labels=)": (lambda: metrics.f1(M, labels=[1]), "average_over= takes the indices"),
    "f1(zero_division=)": (lambda: metrics.f1(M, zero_division=0), "undefined= says what a 0/0 gives"),
    "classification_report(target_names=)": (
        lambda: metrics.classification_report(M, target_names=["a", "b"]),
        "it is called display_labels=",
    ),
    "interval of scores": (lambda: uncertainty.interval(Y, S, "roc_auc", seed=1), "no option 'seed'"),
    "threshold(level=)": (lambda: conformal.threshold(S, 0.1, n_jobs=2), "it is called num_threads="),
    "save(filename=)": (lambda: C.save(filenam="x"), "the options are path"),
    "M=": (lambda: metrics.compute(M=M, names="f1"), r"without its name: metrics\.compute\(M, names, \.\.\.\)$"),
    "A=": (lambda: cmfast.overlap(A=M, B=M), r"without its name: overlap\(A, B, \.\.\.\)$"),
    "an option by its place": (lambda: cmfast.confusion_matrix(Y, P, 2), "options must be given by name"),
    "compute('auc')": (lambda: metrics.compute(M, "auc"), r"metrics\.roc_auc\(y_true, y_score\) computes it"),
    "interval('auc')": (lambda: uncertainty.interval(Y, S, "auc"), "it is called 'roc_auc'"),
}


@pytest.mark.parametrize(("call", "text"), OPTIONS.values(), ids=OPTIONS)
def test_an_option_of_another_library_is_answered_by_the_name_here(call, text):
    with pytest.raises((TypeError, ValueError), match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


SAME = {
    "compare": (
        lambda: uncertainty.compare(y_true=Y, y_a=P, y_b=Q, names="accuracy"),
        lambda: uncertainty.compare(Y, P, Q, "accuracy"),
    ),
    "compare, some": (
        lambda: uncertainty.compare(Y, y_b=Q, y_a=P, names="accuracy"),
        lambda: uncertainty.compare(Y, P, Q, "accuracy"),
    ),
    "compare areas": (
        lambda: uncertainty.compare(y_true=Y, y_a=S, y_b=1 - S, names="roc_auc"),
        lambda: uncertainty.compare(Y, S, 1 - S, "roc_auc"),
    ),
    "interval": (
        lambda: uncertainty.interval(y_true=Y, y_pred=P, names="accuracy"),
        lambda: uncertainty.interval(Y, P, "accuracy"),
    ),
    "interval of a matrix": (
        lambda: uncertainty.interval(M, names="accuracy"),
        lambda: uncertainty.interval(M, "accuracy"),
    ),
    "interval of an area": (
        lambda: uncertainty.interval(y_true=Y, y_score=S, names="roc_auc"),
        lambda: uncertainty.interval(Y, S, "roc_auc"),
    ),
    "ConfusionCounts.interval": (lambda: C.interval(names="accuracy"), lambda: C.interval("accuracy")),
    "posterior": (
        lambda: uncertainty.posterior(y_true=Y, y_pred=P, names="accuracy"),
        lambda: uncertainty.posterior(Y, P, "accuracy"),
    ),
    "standard_error": (
        lambda: uncertainty.standard_error(y_true=Y, y_pred=P, names="accuracy"),
        lambda: uncertainty.standard_error(Y, P, "accuracy"),
    ),
    "mcnemar": (lambda: uncertainty.mcnemar(y_true=Y, y_a=P, y_b=Q), lambda: uncertainty.mcnemar(Y, P, Q)),
    "equivalence": (
        lambda: uncertainty.equivalence(y_true=Y, y_a=P, y_b=Q, name="accuracy", margin=0.5),
        lambda: uncertainty.equivalence(Y, P, Q, "accuracy", 0.5),
    ),
    "threshold": (lambda: conformal.threshold(S, alpha=0.5), lambda: conformal.threshold(S, 0.5)),
    "rake": (
        lambda: cmfast.rake(np.ones((3, 1)), targets=[6.0]).weights,
        lambda: cmfast.rake(np.ones((3, 1)), [6.0]).weights,
    ),
    "ipf_nd": (
        lambda: cmfast.ipf_nd(M, margins=[(0, [1.0, 1.0])]).table,
        lambda: cmfast.ipf_nd(M, [(0, [1.0, 1.0])]).table,
    ),
    "ConfusionCounts.compute": (lambda: C.compute(names="mcc"), lambda: C.compute("mcc")),
    "ConfusionCounts.normalize": (lambda: C.normalize(method="row"), lambda: C.normalize("row")),
}


@pytest.mark.parametrize(("by_name", "by_place"), SAME.values(), ids=SAME)
@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_arguments_by_their_names_give_the_same_as_by_their_places(by_name, by_place):
    assert repr(by_name()) == repr(by_place())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: uncertainty.interval(y_true=Y, names="mcc"), "y_pred must be given, too: .* got only y_true"),
        (lambda: uncertainty.compare(y_true=Y, y_a=P, names="mcc"), "y_b must be given, too"),
        (lambda: uncertainty.compare(Y, P, y_a=P, y_b=Q, names="mcc"), "y_a is given twice"),
    ],
    ids=["interval", "compare", "twice"],
)
def test_a_missing_or_doubled_array_is_named(call, text):
    with pytest.raises(TypeError, match=text):
        call()


NAMES = {
    "metrics.f1_score": 'metrics.from_labels(y_true, y_pred, "f1")',
    "metrics.accuracy_score": 'metrics.from_labels(y_true, y_pred, "accuracy")',
    "metrics.precision_score": "metrics.precision(M)",
    "metrics.recall_score": "metrics.recall(M)",
    "metrics.balanced_accuracy_score": "metrics.balanced_accuracy(M)",
    "metrics.jaccard_score": "metrics.jaccard(M)",
    "metrics.matthews_corrcoef": "metrics.mcc(M)",
    "metrics.cohen_kappa_score": "metrics.kappa(M)",
    "metrics.cohen_kappa": "metrics.kappa(M)",
    "metrics.roc_auc_score": "metrics.roc_auc(y_true, y_score)",
    "metrics.auc": "metrics.roc_auc(y_true, y_score)",
    "metrics.roc_curve": "metrics.roc(y_true, y_score)",
    "metrics.log_loss": "it needs probabilities",
    "metrics.acuracy": "did you mean 'accuracy'?",
    "f1_score": "metrics.f1(M)",
    "roc_auc": "it is cmfast.metrics.roc_auc",
    "mcnemar": "it is cmfast.uncertainty.mcnemar",
    "ConfusionDisplay": "it is cmfast.display.ConfusionDisplay",
    "set_config": "with cmfast.config(",
    "crosstab": "ConfusionCounts.from_labels(y_true, y_pred)",
    "confusion_matrx": "did you mean 'confusion_matrix'?",
    "display.ConfusionMatrixDisplay": "display.ConfusionDisplay",
    "display.RocCurveDisplay": "metrics.roc(y_true, y_score).plot()",
    "uncertainty.bootstrap": "uncertainty.interval(",
    "conformal.threshhod": "did you mean 'threshold'?",
    "contingency.surface": "metric_surface",
}


@pytest.mark.parametrize(("name", "text"), NAMES.items(), ids=NAMES)
def test_a_name_of_another_library_is_answered_by_what_to_call(name, text):
    with pytest.raises(AttributeError) as caught:
        attrgetter(name)(cmfast)
    assert text in str(caught.value)
    assert caught.value.name == name.rpartition(".")[2]


MODULES = ("agreement", "conformal", "contingency", "detection", "display", "metrics", "results", "uncertainty")


@pytest.mark.parametrize("name", [*MODULES, "compat.sklearn", "compat.torchmetrics", "nn"])
def test_completion_shows_public_names_alone(name):
    for library in {"compat.sklearn": ["sklearn"], "compat.torchmetrics": ["torch"], "nn": ["torch"]}.get(name, []):
        pytest.importorskip(library)
    module = attrgetter(name)(cmfast)
    assert dir(module) == sorted(module.__all__)
    assert dir(cmfast.compat) == ["sklearn", "torchmetrics"]


def test_what_hints_tell_to_call_is_there():
    from cmfast._core import usual_names

    for name in usual_names.METRICS.values():
        assert callable(getattr(metrics, name))
    for hint in usual_names.USUAL_NAMES.values():
        for word in hint.replace("(", " ").replace(",", " ").replace(";", " ").split():
            if word.partition(".")[0] in {"cmfast", "metrics", "uncertainty", "display", "conformal"} and "." in word:
                path = word.rstrip(".:").removeprefix("cmfast.")
                assert path.startswith("compat.") or attrgetter(path)(cmfast) is not None


@pytest.mark.processes
def test_optional_modules_are_attributes_and_are_not_imported_before():
    code = "import sys, cmfast; assert 'cmfast.compat' not in sys.modules and 'torch' not in sys.modules; "
    code += "print(cmfast.compat.__name__, 'nn' in dir(cmfast), hasattr(cmfast.compat, 'sklearn'))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.startswith("cmfast.compat True ")


def test_without_its_library_an_optional_module_is_no_attribute():
    code = "import sys; sys.modules['torch'] = sys.modules['sklearn'] = None\nimport cmfast\n"
    code += "print(hasattr(cmfast, 'nn'), hasattr(cmfast.compat, 'sklearn'))\ncmfast.nn"
    out = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert out.stdout == "False False\n"
    assert "has no attribute 'nn', as it needs torch" in out.stderr
