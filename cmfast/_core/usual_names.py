"""Explain names that a module does not have: what users of other libraries type, or a name nearby."""

from collections.abc import Collection, Mapping

from cmfast._core import validate

# Metrics of labels: the name elsewhere and the name here.
METRICS = {
    "accuracy_score": "accuracy",
    "balanced_accuracy_score": "balanced_accuracy",
    "precision_score": "precision",
    "recall_score": "recall",
    "f1_score": "f1",
    "jaccard_score": "jaccard",
    "jaccard_index": "jaccard",
    "matthews_corrcoef": "mcc",
    "matthews_corr_coef": "mcc",
    "cohen_kappa_score": "kappa",
    "cohen_kappa": "kappa",
    "cohens_kappa": "kappa",
    "sensitivity_score": "recall",
    "specificity_score": "specificity",
    "geometric_mean_score": "geometric_mean",
    "hamming_loss": "zero_one_loss",
    "dice": "f1",
    "dice_score": "f1",
    "iou": "jaccard",
}
# Metrics of scores: the name elsewhere, and what to do.
OF_SCORES = dict.fromkeys(
    ("auc", "auroc", "roc_auc_score", "auc_score", "area_under_curve"), "metrics.roc_auc(y_true, y_score) computes it"
)
OF_SCORES |= {"roc_auc": "metrics.roc_auc(y_true, y_score) computes it, of scores"}
OF_SCORES |= dict.fromkeys(
    ("roc_auc_ovr", "roc_auc_ovo", "roc_auc_ovr_weighted", "roc_auc_ovo_weighted"),
    'uncertainty.interval(y_true, y_score, "roc_auc_ovr") computes it, with its interval, of a score for each class',
)
OF_SCORES |= dict.fromkeys(
    ("average_precision_score", "average_precision", "pr_auc", "auprc"),
    "metrics.average_precision(y_true, y_score) computes it, of scores",
)
OF_SCORES |= dict.fromkeys(
    (
        "log_loss",
        "cross_entropy",
        "brier",
        "brier_score",
        "brier_score_loss",
        "top_k",
        "top_k_accuracy",
        "top_k_accuracy_score",
        "ece",
        "expected_calibration_error",
        "calibration_error",
        "calibration_curve",
    ),
    "it needs probabilities, of which cmfast computes only metrics.roc_auc(y_true, y_score) and its curves",
)
# Criteria of fairness: the name elsewhere and the name here.
FAIRNESS: dict[str, str] = dict.fromkeys(
    (
        "demographic_parity_difference",
        "demographic_parity_ratio",
        "statistical_parity",
        "statistical_parity_difference",
        "disparate_impact",
    ),
    "demographic_parity",
)
FAIRNESS |= dict.fromkeys(
    ("equalized_odds_difference", "equalized_odds_ratio", "equalised_odds", "equalised_odds_difference"),
    "equalized_odds",
)
FAIRNESS |= dict.fromkeys(("equal_opportunity_difference", "equal_opportunity_ratio"), "equal_opportunity")
# The name elsewhere, and what to do.
USUAL_NAMES = OF_SCORES | {
    "roc_curve": "metrics.roc(y_true, y_score) computes it",
    "precision_recall_curve": "metrics.precision_recall(y_true, y_score) computes it",
    "fbeta_score": 'metrics.from_labels(y_true, y_pred, "fbeta_2") computes it from labels, metrics.fbeta(M, 2) from a '
    "matrix",
    "precision_recall_fscore_support": "metrics.classification_report(M) has these of every class",
    "multilabel_confusion_matrix": "metrics.multilabel_tables(y_true, y_pred) counts it",
    "det_curve": "metrics.roc(y_true, y_score) has both error rates",
    "make_scorer": 'cmfast.compat.sklearn.make_scorer("f1_macro") makes it',
    "confusion_matrix": "it is cmfast.confusion_matrix",
    "ConfusionMatrixDisplay": "it is called display.ConfusionDisplay",
    "plot_confusion_matrix": "display.ConfusionDisplay.from_predictions(y_true, y_pred) draws it",
    "RocCurveDisplay": "metrics.roc(y_true, y_score).plot() draws it",
    "PrecisionRecallDisplay": "metrics.precision_recall(y_true, y_score).plot() draws it",
    "set_config": "with cmfast.config(num_threads=2): sets options of the calls in a block",
    "config_context": "it is called cmfast.config",
    "option_context": "it is called cmfast.config",
    "set_num_threads": "with cmfast.config(num_threads=2): sets it for the calls in a block",
    "errstate": 'with cmfast.config(on_failure="ignore"): sets it for the calls in a block',
    "plot": "counts.plot() draws counts, display.ConfusionDisplay.from_predictions(y_true, y_pred) labels",
    "heatmap": "counts.plot() draws counts, display.ConfusionDisplay.from_predictions(y_true, y_pred) labels",
    "read_csv": "cmfast.by and cmfast.ConfusionCounts.from_labels take a table of pandas, polars or Arrow",
    "load": "the classes load what they saved: cmfast.ConfusionCounts.load(path)",
    "crosstab": "cmfast.ConfusionCounts.from_labels(y_true, y_pred).to_pandas() is a table with labels",
    "ConfusionMatrix": "it is called cmfast.ConfusionCounts; cmfast.confusion_matrix(y_true, y_pred) counts an array",
    "MulticlassConfusionMatrix": "cmfast.compat.torchmetrics has it",
    "groupby": "it is called cmfast.by",
    "sinkhorn": "it is called cmfast.ipf",
    "ipfn": "it is called cmfast.ipf, with more axes cmfast.ipf_nd",
    "raking": "it is called cmfast.rake",
    "bootstrap": "uncertainty.interval(y_true, y_pred, names) computes bootstrap intervals",
    **dict.fromkeys(("ci", "conf_int", "confidence_interval"), "it is called uncertainty.interval"),
    "delong": 'uncertainty.compare(y_true, s_a, s_b, "roc_auc") compares areas so',
    "delong_test": 'uncertainty.compare(y_true, s_a, s_b, "roc_auc") compares areas so',
    "mcnemar_test": "it is called uncertainty.mcnemar",
    "tost": "it is called uncertainty.equivalence",
    "MetricFrame": "uncertainty.compare_groups(y_true, y_pred, groups, names) compares metrics between groups, "
    "cmfast.by counts groups of a table",
    "box_iou": "detection.match(boxes_true, boxes_pred) matches boxes by IoU",
    "quantile": "it is called conformal.threshold",
    "coverage": "conformal.prediction_sets(P, q).coverage(y) is the share of labels in their sets",
    "pca": "it is called cmfast.pca",
    "PCA": "it is called cmfast.pca",
    "nonconformity_scores": "it is called conformal.scores",
}
USUAL_NAMES |= dict.fromkeys(
    ("demographic_parity_difference", "demographic_parity_ratio", "equalized_odds_difference", "equalized_odds_ratio"),
    'uncertainty.compare_groups(y_true, y_pred, groups, "equalized_odds") compares groups so',
)

# Coefficients of agreement: the name elsewhere and the name here.
COEFFICIENTS = {
    "fleiss": "fleiss_kappa",
    "scott": "fleiss_kappa",
    "scott_pi": "fleiss_kappa",
    "alpha": "krippendorff_alpha",
    "krippendorff": "krippendorff_alpha",
    "krippendorffs_alpha": "krippendorff_alpha",
    "gwet": "gwet_ac1",
    "ac1": "gwet_ac1",
    "ac2": "gwet_ac2",
    "conger": "conger_kappa",
    "light": "light_kappa",
    "lights_kappa": "light_kappa",
}
USUAL_NAMES |= {
    name: f'cmfast.agreement.compute(ratings, "{own}") computes it'
    for name, own in (COEFFICIENTS | {own: own for own in COEFFICIENTS.values()}).items()
    if name not in ("alpha", "light", "scott")
}
KAPPAS = ("kappa", "kappas", "cohen", "cohen_kappa", "cohens_kappa", "cohen_kappa_score", "weighted_kappa")
# Attributes of counts: the names elsewhere and what to do.
OF_COUNTS: dict[str, str] = {}
OF_COUNTS |= dict.fromkeys(
    ("shape", "sum", "T", "to_numpy", "tolist", "values", "astype", "ndim", "dtype", "trace", "diagonal"),
    "counts.matrix is the array",
)
OF_COUNTS |= dict.fromkeys(("classes", "classes_", "class_names", "columns", "index", "names"), "it is called labels")
OF_COUNTS |= dict.fromkeys(("heatmap", "show", "display", "draw"), "counts.plot() draws the matrix")
OF_COUNTS |= dict.fromkeys(
    ("from_matrix", "from_array", "from_numpy", "from_frame", "from_dataframe", "from_pandas", "from_counts"),
    "counts are made of labels, by from_labels(y_true, y_pred); functions take a matrix as it is, as in "
    "metrics.compute(M, names)",
)
OF_COUNTS |= {
    "from_predictions": "it is called from_labels",
    "report": "counts.classification_report() reports, cmfast.report(y_true, y_pred) makes a page",
    **dict.fromkeys(("tp", "fp", "fn", "tn"), "metrics.one_vs_rest(counts) has a table of 2 x 2 for each class"),
    "metrics": "counts.compute(names) computes metrics",
    "score": "counts.compute(names) computes metrics",
    "normalized": "counts.normalize(method) normalises",
    "df": "counts.to_pandas() is a table",
    "to_df": "counts.to_pandas() is a table",
    "to_frame": "counts.to_pandas() is a table",
    "most_confused": "metrics.most_confused(counts) lists the largest confusions",
    "one_vs_rest": "metrics.one_vs_rest(counts) has a table of 2 x 2 for each class",
    "to_dataframe": "counts.to_pandas() is a table",
    "estimate_for_target": "cmfast.estimate_for_target(counts, class_shares=...) takes counts",
    "ipf": "cmfast.ipf(counts) takes counts",
    "compare": "two classifiers are compared on the same samples: uncertainty.compare(y_true, a, b, names)",
    "mcnemar": "two classifiers are compared on the same samples: uncertainty.mcnemar(y_true, a, b)",
    "savefig": "counts.plot() draws the matrix; counts.plot().figure_.savefig(path) saves it",
}

# Attributes of results: by the name elsewhere, an attribute here, and what to do if a result has it.
OF_RESULTS: dict[str, dict[str, str]] = {}
_RENAMED_ATTRIBUTES = {
    ("pvalue", "pval", "p", "p_values", "pvalues"): ("p_value",),
    ("confidence_interval", "conf_int", "confint", "ci", "bounds"): ("difference_low", "low", "only_first"),
    ("statistic", "stat", "effect", "diff"): ("statistic", "pair_difference", "difference"),
    ("stderr", "se", "std_err", "std_error", "bse"): ("standard_error", "standard_deviation", "se"),
    ("value", "point_estimate", "score", "coef", "mean"): ("estimate", "value", "difference", "auc"),
    ("T", "shape", "dtype", "ndim", "sum", "to_numpy", "tolist", "values", "array", "astype", "numpy"): (
        "matrix",
        "matrices",
        "table",
        "draws",
        "weights",
        "estimate",
        "difference",
        "points",
        "packed",
        "values",
    ),
    ("confusion_matrix", "confusion_matrix_", "cm", "counts"): ("matrix", "matrices", "counts"),
    ("samples", "replicates", "bootstrap_distribution", "draw"): ("draws",),
    ("df", "dof", "ddof"): ("degrees", "to_pandas"),
    ("n_iter_", "nit", "iterations", "n_iterations", "nfev"): ("n_iter",),
    ("converged", "success", "message"): ("status",),
    ("to_frame", "to_dataframe", "dataframe", "head", "loc", "iloc", "columns", "index", "describe"): ("to_pandas",),
    ("to_csv", "to_excel", "to_parquet", "to_markdown"): ("to_pandas",),
    ("fig", "figure"): ("figure_", "plot"),
    ("ax", "axes", "axis"): ("ax_", "axes_", "plot"),
    ("savefig", "figure_", "ax_", "show", "draw", "heatmap"): ("plot",),
    ("summary", "verdict", "interpret"): ("explain",),
    ("fpr_", "tpr_", "auc", "area", "roc_auc"): ("tpr",),
}
_CURES = {
    "low": "its ends are low and high",
    "difference_low": "difference_low and difference_high are the ends of the interval of the difference, low and high "
    "those of each group",
    "only_first": 'the test has no interval; uncertainty.compare(y_true, y_a, y_b, "accuracy") computes one of the '
    "difference",
    "pair_difference": "difference is the largest minus the smallest value, pair_difference that of each pair",
    "status": "cmfast.Status(result.status).name says how it ended",
    "to_pandas": "to_pandas() is a table",
    "plot": "plot() draws it, and matplotlib.pyplot.savefig(path) then saves it",
    "explain": "explain() says it in words",
    "tpr": "metrics.roc_auc(y_true, y_score) is the area",
}
for _names, _owns in _RENAMED_ATTRIBUTES.items():
    _text = "{} is the array" if "T" in _names else "it is called {}"
    for _name in _names:
        OF_RESULTS[_name] = {_own: _CURES.get(_own, _text.format(_own)) for _own in _owns if _own != _name}
OF_RESULTS["to_csv"] = {"to_pandas": "to_pandas().to_csv(path) writes its table"}
OF_RESULTS["round"] = {"to_pandas": "to_pandas().round(3) is a rounded table"}
OF_RESULTS["to_html"] = {"html": "it is called html", "to_pandas": "to_pandas().to_html() is a table in HTML"}
OF_RESULTS["savefig"] = {"figure_": "figure_.savefig(path) saves what plot() drew"} | OF_RESULTS["savefig"]
OF_RESULTS["show"] = {
    "html": 'path = page.save("report.html") writes it, webbrowser.open(path.resolve().as_uri()) opens that file; a '
    "notebook shows the page itself"
}
OF_RESULTS["open"] = dict(OF_RESULTS["show"])
OF_RESULTS["show"] |= {"plot": "plot() draws it, and matplotlib.pyplot.show() then shows it"}


def suggest_coefficient(name: str) -> str:
    """Return the end of a message: the coefficient of agreement that a usual name means; "" for other names."""
    if name.lower() in KAPPAS:
        return "; of two raters 'conger_kappa' is Cohen's kappa, of several 'fleiss_kappa' is usual"
    meant = COEFFICIENTS.get(name.lower())
    return f"; it is called {meant!r}" if meant else ""


def make_missing_attribute_error(owner: str, name: str, known: Collection[str], *, is_metric: bool) -> AttributeError:
    """Return the AttributeError for an attribute that counts do not have: what to call, or a name nearby."""
    call = OF_COUNTS.get(name) or _suggest_attribute(name, known)
    metric = METRICS.get(name, name if is_metric else None)
    if metric is not None:
        call = f'counts.compute("{metric}") computes it'
    near = f"; {call}" if call else "" if name.startswith("_") else validate.suggest_name(name, known)
    return AttributeError(f"{owner} has no attribute {name!r}{near}", name=name)


def make_missing_of_result_error(result: object, name: str) -> AttributeError:
    """Return the AttributeError for an attribute that a result or display does not have: what to use, or one nearby."""
    owner = f"{type(result).__name__!r} object"
    if name.startswith("_"):  # protocols that other libraries look for
        return AttributeError(f"{owner} has no attribute {name!r}", name=name)
    known = {one for one in (*dir(type(result)), *getattr(result, "__dict__", ())) if not one.startswith("_")}
    known -= set(dir(tuple)) - set(getattr(result, "_fields", ()))  # every tuple has count() and index()
    of_each = ""
    if isinstance(result, Mapping):
        known -= set(dir(Mapping))  # methods of every dict, as values(), are no attributes of a result
        of_each = _suggest_of_members(result, name)
    cure = _suggest_attribute(name, known) or of_each
    if name.endswith("_") and type(result).__name__.endswith("Display"):
        cure = "plot() draws the display and sets it"
    near = f"; {cure}" if cure else validate.suggest_name(name, known)
    return AttributeError(f"{owner} has no attribute {name!r}{near}", name=name)


def _suggest_of_members(results: Mapping[str, object], name: str) -> str:
    """Return how to get an attribute of each of the `results` by name; "" if they do not have it either."""
    key, one = next(iter(results.items()), ("", None))
    known = {own for own in dir(type(one)) if not own.startswith("_")} - set(dir(tuple))
    if name in known:
        return f"each result has its own, as in result[{key!r}].{name}"
    cure = _suggest_attribute(name, known)
    return f"of each result, as of result[{key!r}], {cure}" if cure else ""


def _suggest_attribute(name: str, known: Collection[str]) -> str:
    """Return what to use of the `known` attributes of a result for one of another library; "" if none is known."""
    return next((cure for own, cure in OF_RESULTS.get(name, {}).items() if own in known), "")


def make_missing_name_error(module: str, name: str, known: Collection[str], cure: str = "") -> AttributeError:
    """Return the AttributeError for a name that `module` does not have: what to call, `cure`, or a name nearby."""
    metric = METRICS.get(name)
    if metric is not None:
        of_labels = f'metrics.from_labels(y_true, y_pred, "{metric}") computes it from labels'
        near = f"; {of_labels}, metrics.{metric}(M) from a matrix"
    else:
        call = cure or USUAL_NAMES.get(name)
        near = f"; {call}" if call else "" if name.startswith("_") else validate.suggest_name(name, known)
    return AttributeError(f"module {module!r} has no attribute {name!r}{near}", name=name)
