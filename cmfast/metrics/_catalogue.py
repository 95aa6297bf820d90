"""What a metric is, and the table of all of them, which ``_functions.py`` fills."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from cmfast._core.result_repr import render_html
from cmfast.kernels.shared.metric_formulas import CHANCE, Value
from cmfast.kernels.shared.metrics import ORDERED, Over, Total
from cmfast.metrics._names import MetricName

Kind = Literal["matrix", "class", "binary"]
Averaging: TypeAlias = Literal["macro", "weighted", "micro", "binary"]
_AVERAGES: tuple[Averaging | None, ...] = (None, "macro", "weighted", "micro", "binary")


@dataclass(frozen=True)
class Metric:
    """Definition of one metric: a row of the table of metrics.

    Attributes
    ----------
    name : str
        Name of the metric in ``compute``.
    formula, undefined : str
        Formula in the notation of the table, and the condition under which it is 0/0.
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

    def __repr__(self) -> str:
        return f"<Metric: {self.name}, one value per {self.kind}, {self.low:g} to {self.high:g}>"

    def _repr_html_(self) -> str:
        """Return the formula and the range as HTML for notebooks."""
        parts = {"formula": self.formula, "0/0 if": self.undefined, "one value per": self.kind}
        parts |= {"range": f"{self.low:g} to {self.high:g}", "other names": ", ".join(self.aliases) or "none"}
        return render_html(self.name, parts, "")


def class_row(
    name: str, value: Value, formula: str, undefined: str, micro: Total, aliases: tuple[str, ...] = ()
) -> Metric:
    """Return the definition of a per-class metric whose micro average is computed from matrix totals."""
    return Metric(name, formula, undefined, "class", value=value, micro=micro, aliases=aliases)


def rate_row(name: str, value: Value, formula: str, undefined: str, *aliases: str, high: float = 1.0) -> Metric:
    """Return the definition of a per-class rate whose micro average pools the counts of all classes."""
    return Metric(name, formula, undefined, "class", high=high, value=value, micro=Over.MICRO, aliases=aliases)


def recall_row(name: str, over: Over, formula: str, *aliases: str) -> Metric:
    """Return the definition of a metric that reduces the per-class recalls to one value."""
    return Metric(name, formula, "a recall is", value=Value.RECALL, over=over, aliases=aliases)


def chance_row(name: str, total: Total, formula: str, undefined: str, *aliases: str, low: float = -1.0) -> Metric:
    """Return the definition of a chance-corrected metric with one value per matrix."""
    return Metric(name, formula, undefined, low=low, chance=True, total=total, aliases=aliases)


def binary_row(name: str, value: Value, formula: str, undefined: str, *aliases: str, low: float = -1.0) -> Metric:
    """Return the definition of a chance-corrected metric that only 2x2 matrices have."""
    return Metric(name, formula, undefined, "binary", low=low, chance=True, value=value, aliases=aliases)


def one_vs_rest_row(name: str, value: Value, formula: str, undefined: str, low: float = 0.0) -> Metric:
    """Return the definition of the per-class metric ``<name>_ovr`` of one-vs-rest 2x2 tables."""
    return Metric(f"{name}_ovr", formula, undefined, "class", low=low, chance=value in CHANCE, value=value)


SAME_CLASS = "truth and prediction are one same class"

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


METRICS: list[Metric] = []
FORMS: dict[str, Form] = {}
"""The form of every metric name, alias and average, but of those with a parameter in their name."""
GROUPS: dict[str, list[MetricName]] = {"scalars": [], "per_class": []}
"""Names that stand for many metrics: those with one number per matrix of any size, and per class."""
BINARY: list[MetricName] = []
"""Names of the metrics that only 2x2 matrices have."""
_with_parameter: dict[str, Metric] = {}  # metrics whose names hold a parameter


def add_metric(metric: Metric, *, parameter: bool = False) -> Metric:
    """Add a metric to the table and return it; with `parameter` its names hold one, as in ``fbeta_2``."""
    METRICS.append(metric)
    if parameter:
        _with_parameter[metric.name] = metric
        return metric
    n_averages = 1 if metric.kind != "class" else 2 if metric.micro is None else len(_AVERAGES)
    for name in (metric.name, *metric.aliases):
        for average in _AVERAGES[:n_averages]:
            full, form = name if average is None else f"{name}_{average}", Form(metric, average)
            FORMS[full] = form
            if name == metric.name:
                group = BINARY if form.binary else GROUPS["per_class" if form.per_class else "scalars"]
                group.append(cast(MetricName, full))
    return metric


@cache
def list_group(name: str) -> tuple[MetricName, ...]:
    """Return the names that the name of a group stands for; always the same tuple, which plans are cached by."""
    return tuple(GROUPS[name])


LARGEST_BETA = 1e100  # its square times any count is finite; a larger beta gives the same value


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
    bare = base.replace("-", "_").removesuffix("score").removesuffix("_")  # precision_score, f1score
    stem, _, ending = bare.rpartition("_")
    bare = stem if get_close_matches(ending, ("score",), 1, 0.7) else bare  # f1_sore
    for meant in (base, FOREIGN_NAMES.get(base, ""), bare, FOREIGN_NAMES.get(bare, ""), f"fbeta_{number}"):
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
        return Form(_with_parameter["tau_weighted"], weights=weights) if weights else None
    if not name.startswith("fbeta_"):
        return None
    number, _, average = name.removeprefix("fbeta_").partition("_")
    try:
        beta = float(number)
    except ValueError:
        return None
    if not beta >= 0 or average not in ("", *get_args(Averaging)):
        return None
    limit = {0.0: "precision", math.inf: "recall"}.get(beta)
    metric = _with_parameter["fbeta"] if limit is None else FORMS[limit].metric
    beta = min(max(beta, 1.0 / LARGEST_BETA), LARGEST_BETA) if limit is None else 1.0
    return Form(metric, average or None, beta)  # type: ignore[arg-type]


def _parse_weights(text: str) -> tuple[float, ...]:
    """Parse nonnegative finite weights separated by underscores; return an empty tuple if `text` is anything else."""
    try:
        weights = tuple(map(float, text.split("_")))
    except ValueError:
        return ()
    return weights if all(0.0 <= weight < math.inf for weight in weights) else ()
