"""The table of all metrics with their formulas, and the public function of each.

``compute``, documentation, the type of the names and tests read it. Notation, per matrix M (rows are the truth):
``d``, ``t``, ``p`` are diagonal, row sums and column sums, ``n`` the total, ``a`` the sum of ``d``, ``e`` the sum of
``t p``. A class is *supported* if ``t > 0``, *predicted* if ``p > 0``. One class against the rest has ``tp = d``, ``fn
= t - d``, ``fp = p - d``, ``tn = n - t - p + d``.

The options, bad values, synchronisation and reproducibility are documented once, in `compute`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from cmfast._core.annotations import Array, Label, OnFailure, Undefined
from cmfast.kernels.shared.metric_formulas import Value
from cmfast.kernels.shared.metrics import Over, Total
from cmfast.metrics import _catalogue
from cmfast.metrics._catalogue import (
    SAME_CLASS,
    Metric,
    add_metric,
    binary_row,
    chance_row,
    class_row,
    one_vs_rest_row,
    rate_row,
    recall_row,
)
from cmfast.metrics._single import (
    Average,
    Binary,
    PerClass,
    PerMatrix,
    evaluate_average,
    evaluate_one,
    explain_label_calls,
)

__all__ = [
    "BINARY",
    "METRICS",
    "PER_CLASS",
    "SCALARS",
    "accuracy",
    "balanced_accuracy",
    "balanced_accuracy_adjusted",
    "diagnostic_odds_ratio",
    "doolittle",
    "f1",
    "f1_of_macro",
    "false_omission_rate",
    "fdr",
    "fnr",
    "fowlkes_mallows",
    "fpr",
    "geometric_mean",
    "gerrity",
    "gilbert",
    "gwet_ac1",
    "jaccard",
    "kappa_01",
    "kappa_linear",
    "kappa_quadratic",
    "krippendorff_alpha",
    "markedness",
    "mcc",
    "mcc_01",
    "min_recall",
    "negative_likelihood_ratio",
    "npv",
    "peirce",
    "positive_likelihood_ratio",
    "precision",
    "recall",
    "scott_pi",
    "specificity",
    "tau",
    "tss",
    "zero_one_loss",
]


def make_matrix_function(metric: Metric, *doc: str) -> PerMatrix:
    """Add a metric with one value per matrix. to the table; return its public function."""
    name = add_metric(metric).name

    def function(
        M: Array,
        /,
        *,
        undefined: Undefined = "present",
        on_failure: OnFailure = None,
        num_threads: int | None = None,
    ) -> Any:
        """Return the metric of every matrix."""
        return evaluate_one(name, M, undefined, on_failure, num_threads)

    return _set_name_and_doc(function, name, "Shape (...).", *doc)


def make_class_function(metric: Metric, *doc: str) -> PerClass:
    """Add a metric with one value per class, or an average of them. to the table; return its public function."""
    name = add_metric(metric).name

    def function(
        M: Array,
        /,
        *,
        average: Average = None,
        pos_label: Label | None = None,
        average_over: Sequence[int] | None = None,
        undefined: Undefined = "present",
        on_failure: OnFailure = None,
        num_threads: int | None = None,
    ) -> Any:
        """Return the metric of every class, or its average over classes."""
        return evaluate_average(name, M, average, undefined, on_failure, num_threads, pos_label, average_over)

    return _set_name_and_doc(function, name, "Shape (..., C); with `average` shape (...).", *doc)


def make_binary_function(metric: Metric, *doc: str) -> Binary:
    """Add a metric of 2x2 matrices. to the table; return its public function."""
    name = add_metric(metric).name

    def function(
        M: Array,
        /,
        *,
        pos_label: Label | None = None,
        undefined: Undefined = "present",
        on_failure: OnFailure = None,
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


accuracy = make_matrix_function(
    Metric("accuracy", "a / n", "n = 0", total=Total.ACCURACY),
    "Accuracy: the share of samples predicted correctly, ``a / n``.",
)
recall = make_class_function(
    class_row("recall", Value.RECALL, "d / t", "t = 0", Total.ACCURACY, ("sensitivity",)),
    "Recall of each class: the share of its samples predicted correctly, ``d / t`` (also per-class accuracy).",
)
precision = make_class_function(
    class_row("precision", Value.PRECISION, "d / p", "p = 0", Total.ACCURACY),
    "Precision of each class: the share of its predictions that are correct, ``d / p``.",
)
f1 = make_class_function(
    class_row("f1", Value.FBETA, "2 d / (t + p)", "t + p = 0", Total.ACCURACY),
    "F1 of each class: the harmonic mean of precision and recall, ``2 d / (t + p)``.",
    '``average="macro"`` is the mean of the F1 of the classes (Opitz & Burst 2019);',
    ":func:`f1_of_macro` is the other macro F1.",
)
add_metric(
    class_row("fbeta", Value.FBETA, "(1 + beta^2) d / (beta^2 t + p)", "t + p = 0", Total.ACCURACY), parameter=True
)
jaccard = make_class_function(
    class_row("jaccard", Value.JACCARD, "d / (t + p - d)", "t + p = 0", Total.JACCARD_MICRO, ("iou",)),
    "Jaccard index (intersection over union) of each class: ``d / (t + p - d)``.",
)
specificity = make_class_function(
    class_row("specificity", Value.SPECIFICITY, "tn / (n - t)", "t = n", Total.SPECIFICITY_MICRO),
    "Specificity of each class: the share of other samples not predicted as it, ``tn / (n - t)``.",
)
npv = make_class_function(
    class_row("npv", Value.NPV, "tn / (n - p)", "p = n", Total.SPECIFICITY_MICRO),
    "Negative predictive value: the share of predictions of other classes that are correct, ``tn / (n - p)``.",
)
fpr = make_class_function(
    rate_row("fpr", Value.FALSE_POSITIVE, "fp / (n - t)", "t = n", "false_positive_rate"),
    "False positive rate: the share of samples of other classes predicted as the class, ``fp / (n - t)``.",
)
fnr = make_class_function(
    rate_row("fnr", Value.FALSE_NEGATIVE, "fn / t", "t = 0", "false_negative_rate"),
    "False negative rate of each class: the share of its samples that is missed, ``fn / t``.",
)
fdr = make_class_function(
    rate_row("fdr", Value.FALSE_DISCOVERY, "fp / p", "p = 0", "false_discovery_rate"),
    "False discovery rate of each class: the share of its predictions that are wrong, ``fp / p``.",
)
false_omission_rate = make_class_function(
    rate_row("false_omission_rate", Value.FALSE_OMISSION, "fn / (n - p)", "p = n", "for"),
    'Share of the predictions of other classes that belong to the class, ``fn / (n - p)``; ``"for"`` in `compute`.',
)
positive_likelihood_ratio = make_class_function(
    rate_row(
        "positive_likelihood_ratio",
        Value.POSITIVE_LIKELIHOOD,
        "tpr / fpr",
        "t = 0, t = n or p = 0",
        high=math.inf,
    ),
    "Positive likelihood ratio: ``recall / fpr``, infinite without false positives.",
)
negative_likelihood_ratio = make_class_function(
    rate_row(
        "negative_likelihood_ratio",
        Value.NEGATIVE_LIKELIHOOD,
        "fnr / tnr",
        "t = 0, t = n or p = n",
        high=math.inf,
    ),
    "Negative likelihood ratio: ``fnr / specificity``, infinite without true negatives.",
)
diagnostic_odds_ratio = make_class_function(
    rate_row("diagnostic_odds_ratio", Value.ODDS, "tp tn / (fp fn)", "tp tn = fp fn = 0", high=math.inf),
    "Diagnostic odds ratio of each class: ``tp tn / (fp fn)``, which may be infinite.",
)
fowlkes_mallows = make_class_function(
    rate_row("fowlkes_mallows", Value.FOWLKES_MALLOWS, "d / sqrt(t p)", "t = 0 or p = 0", "g_measure"),
    "Fowlkes-Mallows index: the geometric mean of precision and recall of each class, ``d / sqrt(t p)``.",
    "Not ``sklearn.metrics.fowlkes_mallows_score``, which compares two clusterings by pairs of samples.",
)
zero_one_loss = make_matrix_function(
    Metric("zero_one_loss", "(n - a) / n", "n = 0", total=Total.ERROR, aliases=("hamming_loss", "error_rate")),
    "Error rate: the share of samples predicted wrongly, ``(n - a) / n``; the Hamming loss of one label per sample.",
)
balanced_accuracy = make_matrix_function(
    recall_row("balanced_accuracy", Over.MEAN, "mean of the recalls"),
    "Balanced accuracy: the mean of the recalls.",
    'scikit-learn\'s ``balanced_accuracy_score`` is ``undefined="nan"``.',
)
balanced_accuracy_adjusted = make_matrix_function(
    Metric(
        "balanced_accuracy_adjusted",
        "(B - 1/K) / (1 - 1/K), B the mean of K recalls",
        "a recall is; K < 2",
        low=-1.0,
        chance=True,
        value=Value.RECALL,
        over=Over.ADJUSTED,
    ),
    "Balanced accuracy, shifted and scaled so that chance gives 0 and a perfect classifier 1.",
)
min_recall = make_matrix_function(
    recall_row("min_recall", Over.MIN, "smallest recall"),
    "Minimum recall over the classes.",
)
geometric_mean = make_matrix_function(
    recall_row("geometric_mean", Over.GEOMETRIC, "(product of K recalls)^(1/K)", "gm"),
    "Geometric mean of the recalls (Foucart; Ahmadzadeh et al.).",
)
tau = make_matrix_function(
    recall_row("tau", Over.TAU, "1 - sqrt(mean of (1 - recall)^2)"),
    "Tau: one minus the root mean square of ``1 - recall`` (Ahmadzadeh et al., Contingency Space).",
    "For two classes ``1 - sqrt((fnr^2 + fpr^2) / 2)``: the distance to the perfect model in the contingency space.",
)
add_metric(
    Metric(
        "tau_weighted",
        "1 - sqrt(mean of w (1 - recall)^2), w the weights",
        "a recall is",
        low=-math.inf,
        value=Value.RECALL,
        over=Over.TAU_WEIGHTED,
    ),
    parameter=True,
)
f1_of_macro = make_matrix_function(
    Metric(
        "f1_of_macro",
        "2 P R / (P + R) of macro precision P and recall R, 0 if both are 0",
        "P or R is",
        of=("precision_macro", "recall_macro"),
    ),
    "Harmonic mean of macro precision and macro recall; 0 when both are 0.",
    'Sokolova & Lapalme 2009; called hF1 in Foucart\'s notebook 4.4.2.3. Never below ``f1(average="macro")``.',
)
mcc = make_matrix_function(
    chance_row("mcc", Total.MCC, "(n a - e) / sqrt(sum t (n - t) sum p (n - p))", f"{SAME_CLASS}, or two"),
    "Matthews correlation coefficient, for any number of classes (Gorodkin 2004).",
    "With one degenerate margin (a constant predictor, or one true class) the value is 0, its limit from every",
    "direction; with two it is undefined. A zero diagonal does not mean -1: that needs two classes exactly swapped.",
)
add_metric(chance_row("kappa", Total.KAPPA, "(n a - e) / sum t (n - p)", SAME_CLASS, "heidke", "hss"))
kappa_linear = make_matrix_function(
    chance_row(
        "kappa_linear",
        Total.KAPPA_LINEAR,
        "1 - n sum w M / sum w t p, w = abs(i - j)",
        SAME_CLASS,
        low=-float("inf"),
    ),
    "Cohen's kappa with disagreement ``abs(i - j)``, for ordered classes.",
)
kappa_quadratic = make_matrix_function(
    chance_row("kappa_quadratic", Total.KAPPA_QUADRATIC, "1 - n sum w M / sum w t p, w = (i - j)^2", SAME_CLASS),
    "Cohen's kappa with disagreement ``(i - j)^2``, for ordered classes: Lin's concordance of the class numbers.",
)
mcc_01 = make_matrix_function(
    Metric("mcc_01", "(mcc + 1) / 2", "mcc is", of=("mcc",)),
    "Matthews correlation coefficient mapped to [0, 1] (MCCn of Foucart's notebook 4.4.2.3).",
)
kappa_01 = make_matrix_function(
    Metric("kappa_01", "(kappa + 1) / 2", "kappa is", of=("kappa",)),
    "Cohen's kappa mapped to [0, 1] (kUn of Foucart's notebook 4.4.2.3).",
)
scott_pi = make_matrix_function(
    chance_row("scott_pi", Total.SCOTT_PI, "1 - 4 n (n - a) / sum (t + p) (2n - t - p)", SAME_CLASS),
    "Scott's pi: agreement beyond chance, with chance computed from the average of both margins.",
)
krippendorff_alpha = make_matrix_function(
    chance_row(
        "krippendorff_alpha",
        Total.KRIPPENDORFF,
        "1 - 2 (2n - 1) (n - a) / sum (t + p) (2n - t - p)",
        f"{SAME_CLASS}; n <= 1/2",
    ),
    "Krippendorff's alpha of two raters for unordered classes: Scott's pi, corrected for few samples.",
    "It depends on the number of samples, which is taken to be the sum of the cells, also for a normalised matrix.",
)
gwet_ac1 = make_matrix_function(
    chance_row(
        "gwet_ac1",
        Total.GWET_AC1,
        "1 - 4 (C - 1) n (n - a) / (4 (C - 1) n^2 - sum (t + p) (2n - t - p))",
        "n = 0; C < 2",
    ),
    "Gwet's AC1: chance-corrected agreement that is stable when one class dominates.",
    "All classes of the matrix count as categories, also those that never occur.",
)
peirce = make_matrix_function(
    chance_row("peirce", Total.PEIRCE, "(n a - e) / sum t (n - t)", "one true class", low=-1.0),
    "Peirce skill score (Hanssen-Kuipers): ``(n a - e) / sum t (n - t)``.",
)
gerrity = make_matrix_function(
    chance_row(
        "gerrity",
        Total.GERRITY,
        "sum M s / n, s the rewards of Gerrity (1992)",
        "the first or last class is never true, or all the truth lies on one side of a cut",
        low=-float("inf"),
    ),
    "Gerrity skill score, for ordered classes: a constant or random forecast gives 0, a perfect one 1.",
)
tss = make_binary_function(
    binary_row("tss", Value.TSS, "tp / (tp + fn) - fp / (fp + tn)", "one true class", "youden_j", "informedness"),
    "True skill statistic (Youden's J, informedness) of two classes: true minus false positive rate.",
)
gilbert = make_binary_function(
    binary_row(
        "gilbert",
        Value.GILBERT,
        "(tp - h) / (tp + fp + fn - h), h = (tp + fp)(tp + fn) / n",
        SAME_CLASS,
        "gss",
        low=-1 / 3,
    ),
    "Gilbert skill score (GSS) of two classes: the Jaccard index after subtracting the hits expected by chance.",
    "Ahmadzadeh et al. print it with an undefined ``r`` instead of the chance hits ``h = (tp + fp)(tp + fn) / n``.",
)
doolittle = make_binary_function(
    binary_row("doolittle", Value.DOOLITTLE, "(tp tn - fp fn)^2 / (t (n - t) p (n - p))", "as mcc", "dss", low=0.0),
    "Doolittle skill score of two classes (DSS): the square of :func:`mcc`.",
    "Ahmadzadeh et al. print one factor of the denominator twice.",
)
markedness = make_binary_function(
    binary_row("markedness", Value.MARKEDNESS, "tp / (tp + fp) - fn / (fn + tn)", "one predicted class"),
    "Markedness of two classes: precision plus negative predictive value minus one.",
)
add_metric(one_vs_rest_row("accuracy", Value.ACCURACY, "(tp + tn) / n", "n = 0"))
add_metric(one_vs_rest_row("balanced_accuracy", Value.BALANCED_ACCURACY, "(tpr + tnr) / 2", "t = 0 or t = n"))
add_metric(one_vs_rest_row("geometric_mean", Value.GEOMETRIC_MEAN, "sqrt(tpr tnr)", "t = 0 or t = n"))
add_metric(one_vs_rest_row("tau", Value.TAU, "1 - sqrt((fnr^2 + fpr^2) / 2)", "t = 0 or t = n"))
add_metric(one_vs_rest_row("tss", Value.TSS, "tpr - fpr", "t = 0 or t = n", low=-1.0))
add_metric(one_vs_rest_row("heidke", Value.HEIDKE, "kappa of the 2x2 table", SAME_CLASS, low=-1.0))
add_metric(one_vs_rest_row("gilbert", Value.GILBERT, "gilbert of the 2x2 table", SAME_CLASS, low=-1 / 3))
add_metric(one_vs_rest_row("doolittle", Value.DOOLITTLE, "doolittle of the 2x2 table", "as mcc"))
add_metric(one_vs_rest_row("markedness", Value.MARKEDNESS, "precision + npv - 1", "p = 0 or p = n", low=-1.0))
add_metric(one_vs_rest_row("mcc", Value.MCC, "mcc of the 2x2 table", "as mcc", low=-1.0))

METRICS = tuple(_catalogue.METRICS)
"""All metrics."""
SCALARS = _catalogue.list_group("scalars")
"""Names of the metrics that give one number for a matrix of any size."""
PER_CLASS = _catalogue.list_group("per_class")
"""Names of the metrics that give one number per class."""
BINARY = tuple(_catalogue.BINARY)
"""Names of the metrics that only 2x2 matrices have."""
