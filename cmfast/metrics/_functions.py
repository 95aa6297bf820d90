"""One public function per metric, made from the table of metrics in ``_catalogue.py``.

The options, bad values, synchronisation and reproducibility are documented once, in `compute`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from cmfast._core.annotations import Array, Label, OnFailure, Undefined
from cmfast.metrics._single import (
    Average,
    Binary,
    PerClass,
    PerMatrix,
    evaluate_average,
    evaluate_one,
    explain_label_calls,
)


def make_matrix_function(name: str, *doc: str) -> PerMatrix:
    """Return the public function of the metric `name` with one value per matrix."""

    def function(
        M: Array,
        /,
        *,
        undefined: Undefined = "present",
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
    ) -> Any:
        """Return the metric of every matrix."""
        return evaluate_one(name, M, undefined, on_failure, num_threads)

    return _set_name_and_doc(function, name, "Shape (...).", *doc)


def make_class_function(name: str, *doc: str) -> PerClass:
    """Return the public function of the metric `name` with one value per class, or an average of them."""

    def function(
        M: Array,
        /,
        *,
        average: Average = None,
        pos_label: Label | None = None,
        average_over: Sequence[int] | None = None,
        undefined: Undefined = "present",
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
    ) -> Any:
        """Return the metric of every class, or its average over classes."""
        return evaluate_average(name, M, average, undefined, on_failure, num_threads, pos_label, average_over)

    return _set_name_and_doc(function, name, "Shape (..., C); with `average` shape (...).", *doc)


def make_binary_function(name: str, *doc: str) -> Binary:
    """Return the public function of the metric `name` of 2x2 matrices."""

    def function(
        M: Array,
        /,
        *,
        pos_label: Label | None = None,
        undefined: Undefined = "present",
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
    ) -> Any:
        """Return the metric of every 2x2 matrix."""
        return evaluate_one(name, M, undefined, on_failure, num_threads, pos_label)

    return _set_name_and_doc(function, name, "Shape (...); `M` has two classes.", *doc)


def _set_name_and_doc(
    function: Callable[..., Any], name: str, shape: str, summary: str, *notes: str
) -> Callable[..., Any]:
    """Set the name and the docstring of `function`, and make it explain calls with labels.

    The code object is renamed too: tracebacks show the name, and `caller` finds it there for messages.
    """
    function.__name__ = function.__qualname__ = name
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    lines = [summary, "", f"{shape} Options as for :func:`compute`.", *([""] if notes else []), *notes]
    function.__doc__ = "\n    ".join(lines).replace("    \n", "\n") + "\n    "
    return explain_label_calls(function)


accuracy = make_matrix_function("accuracy", "Accuracy: the share of samples predicted correctly, ``a / n``.")
recall = make_class_function(
    "recall", "Recall of each class: the share of its samples predicted correctly, ``d / t`` (also per-class accuracy)."
)
precision = make_class_function(
    "precision", "Precision of each class: the share of its predictions that are correct, ``d / p``."
)
f1 = make_class_function(
    "f1",
    "F1 of each class: the harmonic mean of precision and recall, ``2 d / (t + p)``.",
    '``average="macro"`` is the mean of the F1 of the classes (Opitz & Burst 2019);',
    ":func:`f1_of_macro` is the other macro F1.",
)
jaccard = make_class_function("jaccard", "Jaccard index (intersection over union) of each class: ``d / (t + p - d)``.")
specificity = make_class_function(
    "specificity", "Specificity of each class: the share of other samples not predicted as it, ``tn / (n - t)``."
)
npv = make_class_function(
    "npv", "Negative predictive value: the share of predictions of other classes that are correct, ``tn / (n - p)``."
)
fpr = make_class_function(
    "fpr", "False positive rate: the share of samples of other classes predicted as the class, ``fp / (n - t)``."
)
fnr = make_class_function(
    "fnr", "False negative rate of each class: the share of its samples that is missed, ``fn / t``."
)
fdr = make_class_function(
    "fdr", "False discovery rate of each class: the share of its predictions that are wrong, ``fp / p``."
)
false_omission_rate = make_class_function(
    "false_omission_rate",
    'Share of the predictions of other classes that belong to the class, ``fn / (n - p)``; ``"for"`` in `compute`.',
)
positive_likelihood_ratio = make_class_function(
    "positive_likelihood_ratio",
    "Positive likelihood ratio: ``recall / fpr``, infinite without false positives.",
)
negative_likelihood_ratio = make_class_function(
    "negative_likelihood_ratio",
    "Negative likelihood ratio: ``fnr / specificity``, infinite without true negatives.",
)
diagnostic_odds_ratio = make_class_function(
    "diagnostic_odds_ratio",
    "Diagnostic odds ratio of each class: ``tp tn / (fp fn)``, which may be infinite.",
)
fowlkes_mallows = make_class_function(
    "fowlkes_mallows",
    "Fowlkes-Mallows index: the geometric mean of precision and recall of each class, ``d / sqrt(t p)``.",
    "Not ``sklearn.metrics.fowlkes_mallows_score``, which compares two clusterings by pairs of samples.",
)
zero_one_loss = make_matrix_function(
    "zero_one_loss",
    "Error rate: the share of samples predicted wrongly, ``(n - a) / n``; the Hamming loss of one label per sample.",
)
balanced_accuracy = make_matrix_function(
    "balanced_accuracy",
    "Balanced accuracy: the mean of the recalls.",
    'scikit-learn\'s ``balanced_accuracy_score`` is ``undefined="nan"``.',
)
balanced_accuracy_adjusted = make_matrix_function(
    "balanced_accuracy_adjusted",
    "Balanced accuracy, shifted and scaled so that chance gives 0 and a perfect classifier 1.",
)
min_recall = make_matrix_function("min_recall", "Minimum recall over the classes.")
geometric_mean = make_matrix_function("geometric_mean", "Geometric mean of the recalls (Foucart; Ahmadzadeh et al.).")
tau = make_matrix_function(
    "tau",
    "Tau: one minus the root mean square of ``1 - recall`` (Ahmadzadeh et al., Contingency Space).",
    "For two classes ``1 - sqrt((fnr^2 + fpr^2) / 2)``: the distance to the perfect model in the contingency space.",
)
f1_of_macro = make_matrix_function(
    "f1_of_macro",
    "Harmonic mean of macro precision and macro recall; 0 when both are 0.",
    'Sokolova & Lapalme 2009; called hF1 in Foucart\'s notebook 4.4.2.3. Never below ``f1(average="macro")``.',
)
mcc = make_matrix_function(
    "mcc",
    "Matthews correlation coefficient, for any number of classes (Gorodkin 2004).",
    "With one degenerate margin (a constant predictor, or one true class) the value is 0, its limit from every",
    "direction; with two it is undefined. A zero diagonal does not mean -1: that needs two classes exactly swapped.",
)
kappa_linear = make_matrix_function(
    "kappa_linear", "Cohen's kappa with disagreement ``abs(i - j)``, for ordered classes."
)
kappa_quadratic = make_matrix_function(
    "kappa_quadratic",
    "Cohen's kappa with disagreement ``(i - j)^2``, for ordered classes: Lin's concordance of the class numbers.",
)
mcc_01 = make_matrix_function(
    "mcc_01", "Matthews correlation coefficient mapped to [0, 1] (MCCn of Foucart's notebook 4.4.2.3)."
)
kappa_01 = make_matrix_function("kappa_01", "Cohen's kappa mapped to [0, 1] (kUn of Foucart's notebook 4.4.2.3).")
scott_pi = make_matrix_function(
    "scott_pi", "Scott's pi: agreement beyond chance, with chance computed from the average of both margins."
)
krippendorff_alpha = make_matrix_function(
    "krippendorff_alpha",
    "Krippendorff's alpha of two raters for unordered classes: Scott's pi, corrected for few samples.",
    "It depends on the number of samples, which is taken to be the sum of the cells, also for a normalised matrix.",
)
gwet_ac1 = make_matrix_function(
    "gwet_ac1",
    "Gwet's AC1: chance-corrected agreement that is stable when one class dominates.",
    "All classes of the matrix count as categories, also those that never occur.",
)
peirce = make_matrix_function("peirce", "Peirce skill score (Hanssen-Kuipers): ``(n a - e) / sum t (n - t)``.")
gerrity = make_matrix_function(
    "gerrity",
    "Gerrity skill score, for ordered classes: a constant or random forecast gives 0, a perfect one 1.",
)
tss = make_binary_function(
    "tss",
    "True skill statistic (Youden's J, informedness) of two classes: true minus false positive rate.",
)
gilbert = make_binary_function(
    "gilbert",
    "Gilbert skill score (GSS) of two classes: the Jaccard index after subtracting the hits expected by chance.",
    "Ahmadzadeh et al. print it with an undefined ``r`` instead of the chance hits ``h = (tp + fp)(tp + fn) / n``.",
)
doolittle = make_binary_function(
    "doolittle",
    "Doolittle skill score of two classes (DSS): the square of :func:`mcc`.",
    "Ahmadzadeh et al. print one factor of the denominator twice.",
)
markedness = make_binary_function(
    "markedness", "Markedness of two classes: precision plus negative predictive value minus one."
)
