"""Table of all metrics with their formulas; functions, ``compute``, documentation and tests read it.

Notation, per matrix M (rows are the truth): ``d``, ``t``, ``p`` are diagonal, row sums and column sums, ``n`` the
total, ``a`` the sum of ``d``, ``e`` the sum of ``t p``. A class is *supported* if ``t > 0``, *predicted* if ``p >
0``. One class against the rest has ``tp = d``, ``fn = t - d``, ``fp = p - d``, ``tn = n - t - p + d``.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from cmfast.kernels.shared.metric_formulas import CHANCE, Value
from cmfast.kernels.shared.metrics import ORDERED, Over, Total
from cmfast.metrics._names import MetricName

Kind = Literal["matrix", "class", "binary"]
Averaging: TypeAlias = Literal["macro", "weighted", "micro", "binary"]


@dataclass(frozen=True)
class Metric:
    """Definition of one metric: a row of the table of metrics.

    Attributes
    ----------
    name : str
        Name of the metric in ``compute``.
    formula, undefined : str
        Formula in the notation above, and the condition under which it is 0/0.
    kind : {"matrix", "class", "binary"}
        One value per matrix; one per class (with averages under ``name_macro``, ``name_weighted``, ``name_micro``);
        one per 2x2 matrix. For two classes ``name_binary`` is the value of the positive class.
    low, high : float
        Range of the values.
    chance : bool
        Corrected for chance: an undefined value is filled with 0 under every policy that fills.
    aliases : tuple of str
        Other names of the metric.
    value : Value, optional
        The per-class value that the metric is, or is reduced from.
    over : Over, optional
        The reduction over the classes.
    total : Total, optional
        The value per matrix that the metric is.
    micro : Total or Over, optional
        How the micro average is computed: a value per matrix, or MICRO for the value of the pooled 2x2 table.
    of : tuple of str
        Names of the metrics that are combined.
    """

    name: str
    formula: str
    undefined: str
    kind: Kind = "matrix"
    low: float = 0.0
    high: float = 1.0
    chance: bool = False
    aliases: tuple[str, ...] = ()
    value: Value | None = None
    over: Over | None = None
    total: Total | None = None
    micro: Total | Over | None = None
    of: tuple[str, ...] = ()

    @property
    def ordered(self) -> bool:
        """Return whether the value depends on the order of the classes."""
        return self.total in ORDERED


def _make_class_metric(
    name: str, value: Value, formula: str, undefined: str, micro: Total, aliases: tuple[str, ...] = ()
) -> Metric:
    """Return the definition of a per-class metric whose micro average is computed from matrix totals."""
    return Metric(name, formula, undefined, "class", value=value, micro=micro, aliases=aliases)


def _make_rate_metric(
    name: str, value: Value, formula: str, undefined: str, *aliases: str, high: float = 1.0
) -> Metric:
    """Return the definition of a per-class rate whose micro average pools the counts of all classes."""
    return Metric(name, formula, undefined, "class", high=high, value=value, micro=Over.MICRO, aliases=aliases)


def _make_recall_reduction(name: str, over: Over, formula: str, *aliases: str) -> Metric:
    """Return the definition of a metric that reduces the per-class recalls to one value."""
    return Metric(name, formula, "a recall is", value=Value.RECALL, over=over, aliases=aliases)


def _make_chance_corrected(
    name: str, total: Total, formula: str, undefined: str, *aliases: str, low: float = -1.0
) -> Metric:
    """Return the definition of a chance-corrected metric with one value per matrix."""
    return Metric(name, formula, undefined, low=low, chance=True, total=total, aliases=aliases)


def _make_binary_metric(
    name: str, value: Value, formula: str, undefined: str, *aliases: str, low: float = -1.0
) -> Metric:
    """Return the definition of a chance-corrected metric that only 2x2 matrices have."""
    return Metric(name, formula, undefined, "binary", low=low, chance=True, value=value, aliases=aliases)


def _make_one_vs_rest_metric(name: str, value: Value, formula: str, undefined: str, low: float = 0.0) -> Metric:
    """Return the definition of the per-class metric ``<name>_ovr`` of one-vs-rest 2x2 tables."""
    return Metric(f"{name}_ovr", formula, undefined, "class", low=low, chance=value in CHANCE, value=value)


_SAME_CLASS = "truth and prediction are one same class"

METRICS = (
    Metric("accuracy", "a / n", "n = 0", total=Total.ACCURACY),
    _make_class_metric("recall", Value.RECALL, "d / t", "t = 0", Total.ACCURACY, ("sensitivity",)),
    _make_class_metric("precision", Value.PRECISION, "d / p", "p = 0", Total.ACCURACY),
    _make_class_metric("f1", Value.FBETA, "2 d / (t + p)", "t + p = 0", Total.ACCURACY),
    _make_class_metric("fbeta", Value.FBETA, "(1 + beta^2) d / (beta^2 t + p)", "t + p = 0", Total.ACCURACY),
    _make_class_metric("jaccard", Value.JACCARD, "d / (t + p - d)", "t + p = 0", Total.JACCARD_MICRO, ("iou",)),
    _make_class_metric("specificity", Value.SPECIFICITY, "tn / (n - t)", "t = n", Total.SPECIFICITY_MICRO),
    _make_class_metric("npv", Value.NPV, "tn / (n - p)", "p = n", Total.SPECIFICITY_MICRO),
    _make_rate_metric("fpr", Value.FALSE_POSITIVE, "fp / (n - t)", "t = n", "false_positive_rate"),
    _make_rate_metric("fnr", Value.FALSE_NEGATIVE, "fn / t", "t = 0", "false_negative_rate"),
    _make_rate_metric("fdr", Value.FALSE_DISCOVERY, "fp / p", "p = 0", "false_discovery_rate"),
    _make_rate_metric("false_omission_rate", Value.FALSE_OMISSION, "fn / (n - p)", "p = n", "for"),
    _make_rate_metric(
        "positive_likelihood_ratio",
        Value.POSITIVE_LIKELIHOOD,
        "tpr / fpr",
        "t = 0, t = n or p = 0",
        high=math.inf,
    ),
    _make_rate_metric(
        "negative_likelihood_ratio",
        Value.NEGATIVE_LIKELIHOOD,
        "fnr / tnr",
        "t = 0, t = n or p = n",
        high=math.inf,
    ),
    _make_rate_metric("diagnostic_odds_ratio", Value.ODDS, "tp tn / (fp fn)", "tp tn = fp fn = 0", high=math.inf),
    _make_rate_metric("fowlkes_mallows", Value.FOWLKES_MALLOWS, "d / sqrt(t p)", "t = 0 or p = 0", "g_measure"),
    Metric("zero_one_loss", "(n - a) / n", "n = 0", total=Total.ERROR, aliases=("hamming_loss", "error_rate")),
    _make_recall_reduction("balanced_accuracy", Over.MEAN, "mean of the recalls"),
    Metric(
        "balanced_accuracy_adjusted",
        "(B - 1/K) / (1 - 1/K), B the mean of K recalls",
        "a recall is; K < 2",
        low=-1.0,
        chance=True,
        value=Value.RECALL,
        over=Over.ADJUSTED,
    ),
    _make_recall_reduction("min_recall", Over.MIN, "smallest recall"),
    _make_recall_reduction("geometric_mean", Over.GEOMETRIC, "(product of K recalls)^(1/K)", "gm"),
    _make_recall_reduction("tau", Over.TAU, "1 - sqrt(mean of (1 - recall)^2)"),
    Metric(
        "tau_weighted",
        "1 - sqrt(mean of w (1 - recall)^2), w the weights",
        "a recall is",
        low=-math.inf,
        value=Value.RECALL,
        over=Over.TAU_WEIGHTED,
    ),
    Metric(
        "f1_of_macro",
        "2 P R / (P + R) of macro precision P and recall R, 0 if both are 0",
        "P or R is",
        of=("precision_macro", "recall_macro"),
    ),
    _make_chance_corrected("mcc", Total.MCC, "(n a - e) / sqrt(sum t (n - t) sum p (n - p))", f"{_SAME_CLASS}, or two"),
    _make_chance_corrected("kappa", Total.KAPPA, "(n a - e) / sum t (n - p)", _SAME_CLASS, "heidke", "hss"),
    _make_chance_corrected(
        "kappa_linear",
        Total.KAPPA_LINEAR,
        "1 - n sum w M / sum w t p, w = abs(i - j)",
        _SAME_CLASS,
        low=-float("inf"),
    ),
    _make_chance_corrected(
        "kappa_quadratic", Total.KAPPA_QUADRATIC, "1 - n sum w M / sum w t p, w = (i - j)^2", _SAME_CLASS
    ),
    Metric("mcc_01", "(mcc + 1) / 2", "mcc is", of=("mcc",)),
    Metric("kappa_01", "(kappa + 1) / 2", "kappa is", of=("kappa",)),
    _make_chance_corrected("scott_pi", Total.SCOTT_PI, "1 - 4 n (n - a) / sum (t + p) (2n - t - p)", _SAME_CLASS),
    _make_chance_corrected(
        "krippendorff_alpha",
        Total.KRIPPENDORFF,
        "1 - 2 (2n - 1) (n - a) / sum (t + p) (2n - t - p)",
        f"{_SAME_CLASS}; n <= 1/2",
    ),
    _make_chance_corrected(
        "gwet_ac1",
        Total.GWET_AC1,
        "1 - 4 (C - 1) n (n - a) / (4 (C - 1) n^2 - sum (t + p) (2n - t - p))",
        "n = 0; C < 2",
    ),
    _make_chance_corrected("peirce", Total.PEIRCE, "(n a - e) / sum t (n - t)", "one true class", low=-1.0),
    _make_chance_corrected(
        "gerrity",
        Total.GERRITY,
        "sum M s / n, s the rewards of Gerrity (1992)",
        "the first or last class is never true, or all the truth lies on one side of a cut",
        low=-float("inf"),
    ),
    _make_binary_metric(
        "tss", Value.TSS, "tp / (tp + fn) - fp / (fp + tn)", "one true class", "youden_j", "informedness"
    ),
    _make_binary_metric(
        "gilbert",
        Value.GILBERT,
        "(tp - h) / (tp + fp + fn - h), h = (tp + fp)(tp + fn) / n",
        _SAME_CLASS,
        "gss",
        low=-1 / 3,
    ),
    _make_binary_metric(
        "doolittle", Value.DOOLITTLE, "(tp tn - fp fn)^2 / (t (n - t) p (n - p))", "as mcc", "dss", low=0.0
    ),
    _make_binary_metric("markedness", Value.MARKEDNESS, "tp / (tp + fp) - fn / (fn + tn)", "one predicted class"),
    _make_one_vs_rest_metric("accuracy", Value.ACCURACY, "(tp + tn) / n", "n = 0"),
    _make_one_vs_rest_metric("balanced_accuracy", Value.BALANCED_ACCURACY, "(tpr + tnr) / 2", "t = 0 or t = n"),
    _make_one_vs_rest_metric("geometric_mean", Value.GEOMETRIC_MEAN, "sqrt(tpr tnr)", "t = 0 or t = n"),
    _make_one_vs_rest_metric("tau", Value.TAU, "1 - sqrt((fnr^2 + fpr^2) / 2)", "t = 0 or t = n"),
    _make_one_vs_rest_metric("tss", Value.TSS, "tpr - fpr", "t = 0 or t = n", low=-1.0),
    _make_one_vs_rest_metric("heidke", Value.HEIDKE, "kappa of the 2x2 table", _SAME_CLASS, low=-1.0),
    _make_one_vs_rest_metric("gilbert", Value.GILBERT, "gilbert of the 2x2 table", _SAME_CLASS, low=-1 / 3),
    _make_one_vs_rest_metric("doolittle", Value.DOOLITTLE, "doolittle of the 2x2 table", "as mcc"),
    _make_one_vs_rest_metric("markedness", Value.MARKEDNESS, "precision + npv - 1", "p = 0 or p = n", low=-1.0),
    _make_one_vs_rest_metric("mcc", Value.MCC, "mcc of the 2x2 table", "as mcc", low=-1.0),
)

AVERAGES = {"macro": Over.MEAN, "weighted": Over.WEIGHTED}


class Form(NamedTuple):
    """Parsed metric name: the metric, its average, the beta of F-beta, and the class weights of a weighted tau."""

    metric: Metric
    average: Averaging | None = None
    beta: float = 1.0
    weights: tuple[float, ...] = ()

    @property
    def per_class(self) -> bool:
        """Return whether the result has one value per class."""
        return self.metric.kind == "class" and self.average is None

    @property
    def binary(self) -> bool:
        """Return whether only 2x2 matrices have this metric."""
        return self.metric.kind == "binary" or self.average == "binary"


def _list_forms() -> dict[str, Form]:
    """Return the parsed form of every metric name, alias and average without a parameter in its name."""
    forms: dict[str, Form] = {}
    for metric in METRICS:
        for name in (metric.name, *metric.aliases):
            forms[name] = Form(metric)
            if metric.kind == "class":
                forms[f"{name}_macro"] = Form(metric, "macro")
            if metric.micro is not None:
                forms[f"{name}_weighted"] = Form(metric, "weighted")
                forms[f"{name}_micro"] = Form(metric, "micro")
                forms[f"{name}_binary"] = Form(metric, "binary")
    return {name: form for name, form in forms.items() if form.metric.name not in ("fbeta", "tau_weighted")}


FORMS = _list_forms()
_PRECISION, _RECALL, _FBETA, _TAU_WEIGHTED = (
    next(metric for metric in METRICS if metric.name == name)
    for name in ("precision", "recall", "fbeta", "tau_weighted")
)
LARGEST_BETA = 1e100  # its square times any count is finite; a larger beta gives the same value


def _cast_names(found: Iterable[str]) -> tuple[MetricName, ...]:
    """Return the names as a tuple typed as ``MetricName``."""
    return tuple(cast(MetricName, name) for name in found)


_CANONICAL = tuple(name for name, form in FORMS.items() if name.removesuffix(f"_{form.average}") == form.metric.name)
SCALARS: tuple[MetricName, ...] = _cast_names(n for n in _CANONICAL if not FORMS[n].binary and not FORMS[n].per_class)
"""Names of the metrics that give one number for a matrix of any size."""
PER_CLASS: tuple[MetricName, ...] = _cast_names(n for n in _CANONICAL if FORMS[n].per_class)
"""Names of the metrics that give one number per class."""
BINARY: tuple[MetricName, ...] = _cast_names(n for n in _CANONICAL if FORMS[n].binary)
"""Names of the metrics that only 2x2 matrices have."""


# Names that other libraries use for these metrics, for suggestions in error messages.
FOREIGN_NAMES = {
    "tpr": "recall",
    "true_positive_rate": "recall",
    "hit_rate": "recall",
    "tnr": "specificity",
    "true_negative_rate": "specificity",
    "ppv": "precision",
    "positive_predictive_value": "precision",
    "negative_predictive_value": "npv",
    "plr": "positive_likelihood_ratio",
    "lr+": "positive_likelihood_ratio",
    "nlr": "negative_likelihood_ratio",
    "lr-": "negative_likelihood_ratio",
    "dor": "diagnostic_odds_ratio",
    "fm": "fowlkes_mallows",
    "dice": "f1",
    "f_score": "f1",
    "f1_score": "f1",
    "csi": "jaccard",
    "threat_score": "jaccard",
    "acc": "accuracy",
    "bacc": "balanced_accuracy",
    "bm": "informedness",
    "mk": "markedness",
    "gmean": "geometric_mean",
    "g_mean": "geometric_mean",
    "matthews": "mcc",
    "matthews_corrcoef": "mcc",
    "phi": "mcc",
    "cohen_kappa": "kappa",
    "qwk": "kappa_quadratic",
}


def suggest_names(name: str) -> list[str]:
    """Return known metric names that are close to the unknown name `name`, for error messages."""
    from difflib import get_close_matches

    low = name.lower()
    base, _, average = low.rpartition("_")
    if average not in get_args(Averaging):
        base, average = low, ""
    suffix = f"_{average}" if average else ""
    number = base.removeprefix("fbeta").removeprefix("f_").removeprefix("f")
    for meant in (base, FOREIGN_NAMES.get(base, ""), f"fbeta_{number}"):
        if find_form(meant + suffix) is not None:
            return [meant + suffix]
    return get_close_matches(low, (*FORMS, "fbeta_2", "fbeta_0.5"), 3, 0.6)


def find_form(name: str) -> Form | None:
    """Return the parsed form of the metric name `name`, or None if it is unknown.

    F-beta is ``fbeta_<beta>``, with or without an average. Its limits are other metrics: ``fbeta_0`` is precision,
    ``fbeta_inf`` is recall. The weighted tau has a weight for each class in its name: ``tau_weighted_1_5``.
    """
    if name in FORMS:
        return FORMS[name]
    if name.startswith("tau_weighted_"):
        weights = _parse_weights(name.removeprefix("tau_weighted_"))
        return Form(_TAU_WEIGHTED, weights=weights) if weights else None
    if not name.startswith("fbeta_"):
        return None
    number, _, average = name.removeprefix("fbeta_").partition("_")
    try:
        beta = float(number)
    except ValueError:
        return None
    if not beta >= 0 or average not in ("", *get_args(Averaging)):
        return None
    metric = {0.0: _PRECISION, math.inf: _RECALL}.get(beta, _FBETA)
    beta = min(max(beta, 1.0 / LARGEST_BETA), LARGEST_BETA) if metric is _FBETA else 1.0
    return Form(metric, average or None, beta)  # type: ignore[arg-type]


def _parse_weights(text: str) -> tuple[float, ...]:
    """Parse nonnegative finite weights separated by underscores; return an empty tuple if `text` is anything else."""
    try:
        weights = tuple(map(float, text.split("_")))
    except ValueError:
        return ()
    return weights if all(0.0 <= weight < math.inf for weight in weights) else ()
