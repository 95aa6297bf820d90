"""One function per metric; each is a row of the table in ``_catalogue.py``, and all take the same options.

Every docstring ends where its metric does: what the options mean, bad values, synchronisation and reproducibility are
those of `compute`, and said there once.
"""

from collections.abc import Callable, Sequence
from typing import Any

from cmfast._core.annotations import Array, OnFailure, Undefined
from cmfast.metrics._single import Average, Binary, PerClass, PerMatrix, averaged, of_matrices, one


def per_matrix(name: str, *doc: str) -> PerMatrix:
    """Return the function of a metric with one number per matrix."""

    def function(
        M: Array,
        /,
        *,
        undefined: Undefined = "present",
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
    ) -> Any:
        return one(name, M, undefined, on_failure, num_threads)

    return _named(function, name, "Shape (...).", *doc)


def per_class(name: str, *doc: str) -> PerClass:
    """Return the function of a metric with one number per class."""

    def function(
        M: Array,
        /,
        *,
        average: Average = None,
        positive: int = 1,
        average_over: Sequence[int] | None = None,
        undefined: Undefined = "present",
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
    ) -> Any:
        return averaged(name, M, average, undefined, on_failure, num_threads, positive, average_over)

    return _named(function, name, "Shape (..., C); with `average` shape (...).", *doc)


def binary(name: str, *doc: str) -> Binary:
    """Return the function of a metric of two classes."""

    def function(
        M: Array,
        /,
        *,
        positive: int = 1,
        undefined: Undefined = "present",
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
    ) -> Any:
        return one(name, M, undefined, on_failure, num_threads, positive)

    return _named(function, name, "Shape (...); `M` has two classes.", *doc)


def _named(function: Callable[..., Any], name: str, shape: str, summary: str, *notes: str) -> Callable[..., Any]:
    """Give a function its name, also in tracebacks and for messages, which `caller` finds by it, and its docstring."""
    function.__name__ = function.__qualname__ = name
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    lines = [summary, "", f"{shape} Options as for :func:`compute`.", *([""] if notes else []), *notes]
    function.__doc__ = "\n    ".join(lines).replace("    \n", "\n") + "\n    "
    return of_matrices(function)


accuracy = per_matrix("accuracy", "Share of samples that were predicted right: ``a / n``.")
recall = per_class("recall", "Share of each class that was found: ``d / t`` (also called per-class accuracy).")
precision = per_class("precision", "Share of the predictions of each class that were right: ``d / p``.")
f1 = per_class(
    "f1",
    "Harmonic mean of precision and recall of each class: ``2 d / (t + p)``.",
    '``average="macro"`` is the mean of the F1 of the classes (Opitz & Burst 2019);',
    ":func:`f1_of_macro` is the other macro F1.",
)
jaccard = per_class("jaccard", "Intersection over union of each class: ``d / (t + p - d)``.")
specificity = per_class("specificity", "Share of the other classes that was not taken for the class: ``tn / (n - t)``.")
npv = per_class("npv", "Share of the predictions of other classes that were other classes: ``tn / (n - p)``.")
fpr = per_class("fpr", "Share of the other classes that was taken for the class: ``fp / (n - t)``.")
fnr = per_class("fnr", "Share of each class that was missed: ``fn / t``.")
fdr = per_class("fdr", "Share of the predictions of each class that were wrong: ``fp / p``.")
false_omission_rate = per_class(
    "false_omission_rate",
    'Share of the predictions of other classes that were the class: ``fn / (n - p)``; ``"for"`` in :func:`compute`.',
)
positive_likelihood_ratio = per_class(
    "positive_likelihood_ratio",
    "Likelihood ratio of a positive answer: ``recall / fpr``, infinite without false alarms.",
)
negative_likelihood_ratio = per_class(
    "negative_likelihood_ratio",
    "Likelihood ratio of a negative answer: ``fnr / specificity``, infinite where nothing is rejected rightly.",
)
diagnostic_odds_ratio = per_class(
    "diagnostic_odds_ratio",
    "Odds of a positive answer in the class over those outside: ``tp tn / (fp fn)``, which may be infinite.",
)
fowlkes_mallows = per_class(
    "fowlkes_mallows",
    "Geometric mean of precision and recall of each class: ``d / sqrt(t p)``.",
    "Not ``sklearn.metrics.fowlkes_mallows_score``, which compares two clusterings by pairs of samples.",
)
zero_one_loss = per_matrix(
    "zero_one_loss",
    "Share of samples that were predicted wrong, ``(n - a) / n``: also the Hamming loss of one label per sample.",
)
balanced_accuracy = per_matrix(
    "balanced_accuracy",
    "Mean of the recalls.",
    'scikit-learn\'s ``balanced_accuracy_score`` is ``undefined="nan"``.',
)
balanced_accuracy_adjusted = per_matrix(
    "balanced_accuracy_adjusted",
    "Mean of the recalls, moved and scaled so that chance gives 0 and perfection 1.",
)
min_recall = per_matrix("min_recall", "Smallest of the recalls.")
geometric_mean = per_matrix("geometric_mean", "Geometric mean of the recalls (Foucart; Ahmadzadeh et al.).")
tau = per_matrix(
    "tau",
    "One minus the root mean square distance of the recalls from one (Ahmadzadeh et al., Contingency Space).",
    "For two classes ``1 - sqrt((fnr^2 + fpr^2) / 2)``: the distance to the perfect model in the contingency space.",
)
f1_of_macro = per_matrix(
    "f1_of_macro",
    "Harmonic mean of macro precision and macro recall; 0 when both are 0.",
    'Sokolova & Lapalme 2009; called hF1 in Foucart\'s notebook 4.4.2.3. Never below ``f1(average="macro")``.',
)
mcc = per_matrix(
    "mcc",
    "Matthews correlation coefficient, for any number of classes (Gorodkin 2004).",
    "With one degenerate margin (a constant predictor, or one true class) the value is 0, its limit from every",
    "direction; with two it is undefined. A zero diagonal does not mean -1: that needs two classes exactly swapped.",
)
kappa_linear = per_matrix("kappa_linear", "Cohen's kappa with disagreement ``abs(i - j)``, for ordered classes.")
kappa_quadratic = per_matrix(
    "kappa_quadratic",
    "Cohen's kappa with disagreement ``(i - j)^2``, for ordered classes: Lin's concordance of the class numbers.",
)
mcc_01 = per_matrix("mcc_01", "Matthews correlation coefficient mapped to [0, 1] (MCCn of Foucart's notebook 4.4.2.3).")
kappa_01 = per_matrix("kappa_01", "Cohen's kappa mapped to [0, 1] (kUn of Foucart's notebook 4.4.2.3).")
scott_pi = per_matrix("scott_pi", "Scott's pi: agreement beyond that of classes drawn from both margins together.")
krippendorff_alpha = per_matrix(
    "krippendorff_alpha",
    "Krippendorff's alpha of two raters for unordered classes: Scott's pi, corrected for few samples.",
    "It depends on the number of samples: a normalised matrix counts as one whose cells add up to what they do.",
)
gwet_ac1 = per_matrix(
    "gwet_ac1",
    "Gwet's AC1: agreement beyond chance, which holds where one class is nearly all there is.",
    "All classes of the matrix count as categories, also those that never occur.",
)
peirce = per_matrix("peirce", "Peirce skill score (Hanssen-Kuipers): ``(n a - e) / sum t (n - t)``.")
gerrity = per_matrix(
    "gerrity",
    "Gerrity skill score, for ordered classes: a constant or random forecast gives 0, a perfect one 1.",
)
tss = binary(
    "tss",
    "Skill of two classes (true skill statistic, Youden's J): true positive rate minus false positive rate.",
)
gilbert = binary(
    "gilbert",
    "Gilbert skill score of two classes (GSS): the hits beyond chance.",
    "Ahmadzadeh et al. print it with an undefined ``r`` in place of the chance hits ``h = (tp + fp)(tp + fn) / n``.",
)
doolittle = binary(
    "doolittle",
    "Doolittle skill score of two classes (DSS): the square of :func:`mcc`.",
    "Ahmadzadeh et al. print one factor of the denominator twice.",
)
markedness = binary("markedness", "Markedness of two classes: precision plus negative predictive value minus one.")

sensitivity = recall
iou = jaccard
false_positive_rate = fpr
false_negative_rate = fnr
false_discovery_rate = fdr
g_measure = fowlkes_mallows
hamming_loss = error_rate = zero_one_loss
gm = geometric_mean
youden_j = informedness = tss
gss = gilbert
dss = doolittle
