"""Every metric, once: functions, ``compute``, documentation and tests read this table.

Notation, per matrix M (rows are the truth): ``d``, ``t``, ``p`` are diagonal, row sums and column sums, ``n`` the
total, ``a`` the sum of ``d``, ``e`` the sum of ``t p``. A class is *supported* if ``t > 0``, *predicted* if ``p >
0``. One class against the rest has ``tp = d``, ``fn = t - d``, ``fp = p - d``, ``tn = n - t - p + d``.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from cmfast.kernels.shared.metrics import CHANCE, ORDERED, Over, Total, Value
from cmfast.metrics._names import MetricName

Kind = Literal["matrix", "class", "binary"]
Averaging: TypeAlias = Literal["macro", "weighted", "micro", "binary"]


@dataclass(frozen=True)
class Metric:
    """One row of the table.

    Attributes
    ----------
    name : str
        The name that ``compute`` takes.
    formula, undefined : str
        In the notation above; when it is 0/0.
    kind : {"matrix", "class", "binary"}
        One number per matrix; one per class (with averages under ``name_macro``, ``name_weighted``, ``name_micro``);
        one per 2x2 matrix. For two classes ``name_binary`` is the number of the positive one.
    low, high : float
        Range of the values.
    chance : bool
        Corrected for chance: an undefined value is filled with 0 under every policy that fills.
    aliases : tuple of str
        Other names of the same.
    value : Value, optional
        The number per class that it is, or is a reduction of.
    over : Over, optional
        That reduction.
    total : Total, optional
        The number per matrix that it is.
    micro : Total or Over, optional
        The number per matrix that its micro average is; or MICRO, where none is that already.
    of : tuple of str
        Names of the metrics that it combines.
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
        """Whether the order of the classes matters."""
        return self.total in ORDERED


def _per_class(
    name: str, value: Value, formula: str, undefined: str, micro: Total, aliases: tuple[str, ...] = ()
) -> Metric:
    return Metric(name, formula, undefined, "class", value=value, micro=micro, aliases=aliases)


def _rate(name: str, value: Value, formula: str, undefined: str, *aliases: str, high: float = 1.0) -> Metric:
    return Metric(name, formula, undefined, "class", high=high, value=value, micro=Over.MICRO, aliases=aliases)


def _over_recall(name: str, over: Over, formula: str, *aliases: str) -> Metric:
    return Metric(name, formula, "a recall is", value=Value.RECALL, over=over, aliases=aliases)


def _chance(name: str, total: Total, formula: str, undefined: str, *aliases: str, low: float = -1.0) -> Metric:
    return Metric(name, formula, undefined, low=low, chance=True, total=total, aliases=aliases)


def _binary(name: str, value: Value, formula: str, undefined: str, *aliases: str, low: float = -1.0) -> Metric:
    return Metric(name, formula, undefined, "binary", low=low, chance=True, value=value, aliases=aliases)


def _one_vs_rest(name: str, value: Value, formula: str, undefined: str, low: float = 0.0) -> Metric:
    return Metric(f"{name}_ovr", formula, undefined, "class", low=low, chance=value in CHANCE, value=value)


_SAME_CLASS = "truth and prediction are one same class"

METRICS = (
    Metric("accuracy", "a / n", "n = 0", total=Total.ACCURACY),
    _per_class("recall", Value.RECALL, "d / t", "t = 0", Total.ACCURACY, ("sensitivity",)),
    _per_class("precision", Value.PRECISION, "d / p", "p = 0", Total.ACCURACY),
    _per_class("f1", Value.FBETA, "2 d / (t + p)", "t + p = 0", Total.ACCURACY),
    _per_class("fbeta", Value.FBETA, "(1 + beta^2) d / (beta^2 t + p)", "t + p = 0", Total.ACCURACY),
    _per_class("jaccard", Value.JACCARD, "d / (t + p - d)", "t + p = 0", Total.JACCARD_MICRO, ("iou",)),
    _per_class("specificity", Value.SPECIFICITY, "tn / (n - t)", "t = n", Total.SPECIFICITY_MICRO),
    _per_class("npv", Value.NPV, "tn / (n - p)", "p = n", Total.SPECIFICITY_MICRO),
    _rate("fpr", Value.FALSE_POSITIVE, "fp / (n - t)", "t = n", "false_positive_rate"),
    _rate("fnr", Value.FALSE_NEGATIVE, "fn / t", "t = 0", "false_negative_rate"),
    _rate("fdr", Value.FALSE_DISCOVERY, "fp / p", "p = 0", "false_discovery_rate"),
    _rate("false_omission_rate", Value.FALSE_OMISSION, "fn / (n - p)", "p = n", "for"),
    _rate(
        "positive_likelihood_ratio",
        Value.POSITIVE_LIKELIHOOD,
        "tpr / fpr",
        "t = 0, t = n or p = 0",
        high=math.inf,
    ),
    _rate(
        "negative_likelihood_ratio",
        Value.NEGATIVE_LIKELIHOOD,
        "fnr / tnr",
        "t = 0, t = n or p = n",
        high=math.inf,
    ),
    _rate("diagnostic_odds_ratio", Value.ODDS, "tp tn / (fp fn)", "tp tn = fp fn = 0", high=math.inf),
    _rate("fowlkes_mallows", Value.FOWLKES_MALLOWS, "d / sqrt(t p)", "t = 0 or p = 0", "g_measure"),
    Metric("zero_one_loss", "(n - a) / n", "n = 0", total=Total.ERROR, aliases=("hamming_loss", "error_rate")),
    _over_recall("balanced_accuracy", Over.MEAN, "mean of the recalls"),
    Metric(
        "balanced_accuracy_adjusted",
        "(B - 1/K) / (1 - 1/K), B the mean of K recalls",
        "a recall is; K < 2",
        low=-1.0,
        chance=True,
        value=Value.RECALL,
        over=Over.ADJUSTED,
    ),
    _over_recall("min_recall", Over.MIN, "smallest recall"),
    _over_recall("geometric_mean", Over.GEOMETRIC, "(product of K recalls)^(1/K)", "gm"),
    _over_recall("tau", Over.TAU, "1 - sqrt(mean of (1 - recall)^2)"),
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
    _chance("mcc", Total.MCC, "(n a - e) / sqrt(sum t (n - t) sum p (n - p))", f"{_SAME_CLASS}, or two"),
    _chance("kappa", Total.KAPPA, "(n a - e) / sum t (n - p)", _SAME_CLASS, "heidke", "hss"),
    _chance(
        "kappa_linear",
        Total.KAPPA_LINEAR,
        "1 - n sum w M / sum w t p, w = abs(i - j)",
        _SAME_CLASS,
        low=-float("inf"),
    ),
    _chance("kappa_quadratic", Total.KAPPA_QUADRATIC, "1 - n sum w M / sum w t p, w = (i - j)^2", _SAME_CLASS),
    Metric("mcc_01", "(mcc + 1) / 2", "mcc is", of=("mcc",)),
    Metric("kappa_01", "(kappa + 1) / 2", "kappa is", of=("kappa",)),
    _chance("scott_pi", Total.SCOTT_PI, "1 - 4 n (n - a) / sum (t + p) (2n - t - p)", _SAME_CLASS),
    _chance(
        "krippendorff_alpha",
        Total.KRIPPENDORFF,
        "1 - 2 (2n - 1) (n - a) / sum (t + p) (2n - t - p)",
        f"{_SAME_CLASS}; n <= 1/2",
    ),
    _chance(
        "gwet_ac1",
        Total.GWET_AC1,
        "1 - 4 (C - 1) n (n - a) / (4 (C - 1) n^2 - sum (t + p) (2n - t - p))",
        "n = 0; C < 2",
    ),
    _chance("peirce", Total.PEIRCE, "(n a - e) / sum t (n - t)", "one true class", low=-1.0),
    _chance(
        "gerrity",
        Total.GERRITY,
        "sum M s / n, s the rewards of Gerrity (1992)",
        "the first or last class is never true, or all the truth lies on one side of a cut",
        low=-float("inf"),
    ),
    _binary("tss", Value.TSS, "tp / (tp + fn) - fp / (fp + tn)", "one true class", "youden_j", "informedness"),
    _binary(
        "gilbert",
        Value.GILBERT,
        "(tp - h) / (tp + fp + fn - h), h = (tp + fp)(tp + fn) / n",
        _SAME_CLASS,
        "gss",
        low=-1 / 3,
    ),
    _binary("doolittle", Value.DOOLITTLE, "(tp tn - fp fn)^2 / (t (n - t) p (n - p))", "as mcc", "dss", low=0.0),
    _binary("markedness", Value.MARKEDNESS, "tp / (tp + fp) - fn / (fn + tn)", "one predicted class"),
    _one_vs_rest("accuracy", Value.ACCURACY, "(tp + tn) / n", "n = 0"),
    _one_vs_rest("balanced_accuracy", Value.BALANCED_ACCURACY, "(tpr + tnr) / 2", "t = 0 or t = n"),
    _one_vs_rest("geometric_mean", Value.GEOMETRIC_MEAN, "sqrt(tpr tnr)", "t = 0 or t = n"),
    _one_vs_rest("tau", Value.TAU, "1 - sqrt((fnr^2 + fpr^2) / 2)", "t = 0 or t = n"),
    _one_vs_rest("tss", Value.TSS, "tpr - fpr", "t = 0 or t = n", low=-1.0),
    _one_vs_rest("heidke", Value.HEIDKE, "kappa of the 2x2 table", _SAME_CLASS, low=-1.0),
    _one_vs_rest("gilbert", Value.GILBERT, "gilbert of the 2x2 table", _SAME_CLASS, low=-1 / 3),
    _one_vs_rest("doolittle", Value.DOOLITTLE, "doolittle of the 2x2 table", "as mcc"),
    _one_vs_rest("markedness", Value.MARKEDNESS, "precision + npv - 1", "p = 0 or p = n", low=-1.0),
    _one_vs_rest("mcc", Value.MCC, "mcc of the 2x2 table", "as mcc", low=-1.0),
)

AVERAGES = {"macro": Over.MEAN, "weighted": Over.WEIGHTED}


class Form(NamedTuple):
    """What a name means: a metric of the table, how it is averaged, the beta of F-beta, the weights of a tau."""

    metric: Metric
    average: Averaging | None = None
    beta: float = 1.0
    weights: tuple[float, ...] = ()

    @property
    def per_class(self) -> bool:
        """Whether the result has one number per class."""
        return self.metric.kind == "class" and self.average is None

    @property
    def binary(self) -> bool:
        """Whether only 2x2 matrices have it."""
        return self.metric.kind == "binary" or self.average == "binary"


def _forms() -> dict[str, Form]:
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


FORMS = _forms()
_PRECISION, _RECALL, _FBETA, _TAU_WEIGHTED = (
    next(metric for metric in METRICS if metric.name == name)
    for name in ("precision", "recall", "fbeta", "tau_weighted")
)
LARGEST_BETA = 1e100  # its square times any count is finite; a larger beta gives no other number


def _names(found: Iterable[str]) -> tuple[MetricName, ...]:
    return tuple(cast(MetricName, name) for name in found)


_CANONICAL = tuple(name for name, form in FORMS.items() if name.removesuffix(f"_{form.average}") == form.metric.name)
SCALARS: tuple[MetricName, ...] = _names(n for n in _CANONICAL if not FORMS[n].binary and not FORMS[n].per_class)
"""Names of the metrics that give one number for a matrix of any size."""
PER_CLASS: tuple[MetricName, ...] = _names(n for n in _CANONICAL if FORMS[n].per_class)
"""Names of the metrics that give one number per class."""
BINARY: tuple[MetricName, ...] = _names(n for n in _CANONICAL if FORMS[n].binary)
"""Names of the metrics that only 2x2 matrices have."""


# What the metrics are called elsewhere, where these are no names of theirs.
CALLED = {
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


def near(name: str) -> list[str]:
    """Return the names of metrics that were meant, perhaps, by one that no metric has."""
    from difflib import get_close_matches

    low = name.lower()
    base, _, average = low.rpartition("_")
    if average not in get_args(Averaging):
        base, average = low, ""
    suffix = f"_{average}" if average else ""
    number = base.removeprefix("fbeta").removeprefix("f_").removeprefix("f")
    for meant in (base, CALLED.get(base, ""), f"fbeta_{number}"):
        if find(meant + suffix) is not None:
            return [meant + suffix]
    return get_close_matches(low, (*FORMS, "fbeta_2", "fbeta_0.5"), 3, 0.6)


def find(name: str) -> Form | None:
    """Return what `name` means, or None. F-beta is ``fbeta_<beta>``, with or without an average.

    Its limits are other metrics: ``fbeta_0`` is precision, ``fbeta_inf`` recall. The weighted tau has a weight for each
    class in its name: ``tau_weighted_1_5``.
    """
    if name in FORMS:
        return FORMS[name]
    if name.startswith("tau_weighted_"):
        weights = _weights(name.removeprefix("tau_weighted_"))
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


def _weights(text: str) -> tuple[float, ...]:
    """Return the numbers, finite and not below 0, that `text` has between underscores; none, if it is anything else."""
    try:
        weights = tuple(map(float, text.split("_")))
    except ValueError:
        return ()
    return weights if all(0.0 <= weight < math.inf for weight in weights) else ()
