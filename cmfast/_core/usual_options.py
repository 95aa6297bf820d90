"""Explain options that a function does not have: what users of other libraries call them, or a name nearby."""

from collections.abc import Callable, Collection, Sequence
from functools import wraps
from inspect import Parameter, isfunction, signature
from typing import Any, ParamSpec, TypeVar

from cmfast._core import caller, validate
from cmfast._core.adapters import _columns
from cmfast._core.annotations import METHODS

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)

# The parameter here that has the purpose of a name elsewhere, and the name elsewhere.
RENAMED = {
    "box_format": ("bbox_format", "fmt"),
    "clusters": ("cluster",),
    "col_sums": ("cols", "columns", "col_totals", "column_sums", "col_marginals"),
    "confidence_level": ("confidence", "level", "conf_level", "ci"),
    "display_labels": ("class_names", "target_names", "label_names", "labels", "classes"),
    "groups": ("sensitive_features", "sensitive_attributes", "group", "by", "group_by", "keys"),
    "iou_threshold": ("iou", "iou_thr", "iou_thresh", "iou_thrs"),
    "labels": ("class_names", "target_names", "label_names", "classes"),
    "max_iter": ("maxiter", "max_iterations", "n_iter", "numItermax", "max_iteration"),
    "n_classes": ("num_classes", "nclasses", "num_labels", "n_labels"),
    "n_resamples": (
        "n_boot",
        "n_bootstrap",
        "n_bootstraps",
        "n_replicates",
        "n_permutations",
        "n_samples",
        "n_draws",
        "nboot",
    ),
    "name": ("metric", "scoring"),
    "names": ("metric", "metrics", "scoring"),
    "normalize": ("normalise", "normalized", "norm"),
    "num_threads": ("n_jobs", "n_threads", "nthreads", "threads", "workers", "n_workers"),
    "on_failure": ("errors", "error_score"),
    "pos_label": ("positive", "positive_class", "positive_label"),
    "prior": ("pseudocount", "pseudo_count", "pseudocounts"),
    "progress": ("verbose", "pbar", "show_progress"),
    "q": ("threshold", "thresholds", "qhat", "q_hat", "quantile", "quantiles"),
    "rng": ("random_state", "seed", "random_seed", "generator"),
    "row_sums": ("rows", "row_totals", "row_marginals"),
    "sample_weight": ("weights", "weight", "sample_weights"),
    "smoothing": ("pseudocount", "pseudo_count", "pseudocounts"),
    "score_threshold": ("conf", "conf_threshold", "confidence_threshold", "score_thresh"),
    "tol": ("tolerance", "eps", "epsilon", "atol", "rtol", "stopThr"),
    "undefined": ("zero_division", "nan_policy"),
    "weights": ("normalize", "normalise"),
    "y_pred": ("preds", "y_hat", "predictions"),
    "y_score": ("y_prob", "y_proba", "probas_pred", "y_scores", "y_pred", "preds", "scores"),
    "y_true": ("target", "y_test", "labels_true"),
}
NAMES_BY_INDEX = "to name classes 0, 1, ..., give np.array(names)[y_true] and np.array(names)[y_pred]"
_COUNT_FIRST = (
    "count with groups first, by ConfusionCounts.from_labels or uncertainty.paired_counts, and give the counts"
)
_COMPUTE = "by counts: counts = cmfast.by(...), then counts.compute(names) computes metrics of every group"
_FROM_LABELS = 'from_labels(table, names, y_true="label", y_pred="guess")'
_LEVEL = "pass alpha=1 - confidence_level"
# By the name elsewhere: a parameter here, and what a function with this parameter wants instead.
USUAL_OPTIONS = {
    "alpha": {
        "confidence_level": "pass confidence_level=1 - alpha",
        "q": "it takes thresholds: q = conformal.threshold(scores, alpha)",
    },
    "alternative": {"kind": "the test is two-sided"},
    "average": {"names": 'the average is part of the name, as in "f1_macro"'},
    "cmap": {
        "ax": "the colours are fixed; matplotlib changes them in the axes: .ax_.images[0].set_cmap(cmap)",
        "order": "the colours are fixed; matplotlib changes them in the axes: .plot().ax_.images[0].set_cmap(cmap)",
    },
    "exact": {"kind": 'kind="exact", the default, is the exact test, kind="corrected" that by chi-square'},
    "figsize": {"ax": "pass ax=, the axes of a figure of that size"},
    "groups": {
        "n_resamples": _COUNT_FIRST,
    },
    "include_values": {"text": 'text="none" leaves the values out'},
    "labels": {
        "average_over": "average_over= takes the indices of the classes to average over",
        "names": "count with them first, by ConfusionCounts.from_labels or uncertainty.paired_counts, and give the "
        "counts",
    },
    "method": {"normalize": "it is called normalize="},
    "multi_class": {
        "confidence_level": 'it is part of the name of an area of several classes: "roc_auc_ovr" or "roc_auc_ovo"',
        "y_score": "labels are of two classes; for class k against all others pass y_true == k and the scores of k",
    },
    "names": {
        "display_labels": "it is called display_labels=",
        "labels": f"labels= lists the labels in order; {NAMES_BY_INDEX}",
    },
    "output_dict": {"average_over": "the result has rows, a dict by class, and overall; its to_pandas() is a table"},
    "path": {
        "embeddings": "the result has save(path)",
        "ax": "matplotlib saves what was drawn: matplotlib.pyplot.savefig(path)",
    },
    "task": {"y_true": "leave it out: two classes and more are counted alike"},
    "title": {
        "ax": "matplotlib sets it in the axes: .ax_.set_title(title)",
        "order": "matplotlib sets it in the axes: .plot().ax_.set_title(title)",
    },
    "threshold": {"y_pred": "compare scores with it first: y_pred=y_score > threshold"},
    "weights": {
        "sample_weight": "it is called sample_weight=",
        "names": 'the weights are part of the name, as in "kappa_quadratic"',
    },
    "xticks_rotation": {
        "ax": 'matplotlib rotates them in the axes: .ax_.tick_params("x", rotation=90)',
        "order": 'matplotlib rotates them in the axes: .plot().ax_.tick_params("x", rotation=90)',
    },
    "zero_division": {"undefined": "undefined= says what a 0/0 gives"},
}
for _name in ("correction", "corrected", "continuity", "continuity_correction", "correct", "yates"):
    USUAL_OPTIONS[_name] = {
        "kind": 'kind="corrected" is the chi-square test with the continuity correction, kind="exact", '
        "the default, the exact test"
    }
for _name in ("confidence_level", "confidence", "level", "coverage"):
    USUAL_OPTIONS[_name] = {"alpha": _LEVEL}
for _name in ("y_true", "y_pred"):  # of a table, or of labels; a function of matrices of these has an option out
    USUAL_OPTIONS[_name] = {"out": f"from labels, metrics.from_labels computes it: {_FROM_LABELS}"}
for _name in ("normalize", "normalise"):
    USUAL_OPTIONS[_name] = {"of": "it is called of="}
for _name in ("filename", "file", "output", "save", "save_path"):
    USUAL_OPTIONS[_name] = USUAL_OPTIONS["path"]
_NAMES = ("class_names", "classes", "display_labels", "label_names", "target_names")  # names of classes
for _name in _NAMES:
    if _name != "display_labels":
        USUAL_OPTIONS[_name] = {"display_labels": "it is called display_labels="}
    USUAL_OPTIONS.setdefault(_name, {})["labels"] = f"labels= lists the labels in order; {NAMES_BY_INDEX}"
    USUAL_OPTIONS[_name]["pos_label"] = NAMES_BY_INDEX
_WHERE_MADE = "give it where the display is made: from_matrix(counts, display_labels=names)"
# By function: what to do instead of giving it names of classes.
INSTEAD_OF_NAMES = {
    "ConfusionCounts.plot": "counts have labels of their own; display.ConfusionDisplay.from_matrix(counts, "
    "display_labels=names).plot() shows others",
    "ConfusionCounts.classification_report": "counts have labels of their own; metrics.classification_report("
    "counts.matrix, display_labels=names) shows others",
    "display.ConfusionDisplay.plot": _WHERE_MADE,
}
# By function: what to do instead of giving a value without its name.
_OF_ONE_TABLE = (
    "it tests one square table: count two columns of labels first, by confusion_matrix(first, second), and give that"
)
USUAL_ARGUMENTS = {
    "uncertainty.compare_many": "it takes labels, the predictions of all models and names: compare_many(y_true, "
    '{"a": a, "b": b, "c": c}, names)',
    "metrics.compute": "it takes a confusion matrix and names of metrics; from labels, metrics.from_labels(y_true, "
    "y_pred, names) computes them",
    "uncertainty.bowker": _OF_ONE_TABLE,
    "uncertainty.stuart_maxwell": _OF_ONE_TABLE,
    "bi_normalize": "it scales one matrix or a batch: numpy.stack([a, b]) is a batch of two, and "
    "ipf(M, row_sums, col_sums) scales to other sums",
    "by": 'it counts the columns of a table: by(table, groups, y_true="label", y_pred="guess"); arrays are counted by '
    "ConfusionCounts.from_labels(y_true, y_pred, groups=groups)",
    "normalize": "it takes a confusion matrix and a method; from labels, confusion_matrix(y_true, y_pred, "
    'normalize="row") computes it',
    "geometric_confusion_matrix": "it takes points, true and predicted labels; call it once for each model, and give "
    'weights="row" and other options by name',
    "report": 'two models are a dict: report(y_true, {"first": a, "second": b}); groups= and other options are given '
    "by name",
    "ConfusionCounts": "it holds counts of labels and takes no matrix: from_labels(y_true, y_pred) counts labels, and "
    "labels= and n_classes= are given by name",
}
# Functions whose option `method` names a normalisation; elsewhere it is called normalize.
OF_NORMALIZATIONS = ("normalize", "ConfusionCounts.normalize", "importance_weights")
# By function, the choices of an argument that is required.
CHOICES = {
    "normalize": ', where method is "row" (or "true"), "col" ("pred"), "all" or "bi"',
    "cell_counts": ", where grid is a Grid, as Grid.scott(X) makes it",
    "ConfusionCounts.normalize": ', where method is "row" (or "true"), "col" ("pred"), "all" or "bi"',
}
for _own, _names in RENAMED.items():
    for _name in _names:
        USUAL_OPTIONS.setdefault(_name, {}).setdefault(_own, f"it is called {_own}=")


def explain_options(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: an option that it does not have raises TypeError and names the right one."""

    @wraps(function)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        """Call the function; explain a TypeError that an unknown option caused."""
        try:
            return function(*args, **options)
        except TypeError:
            refuse_wrong_call(function, args, options)
            raise

    return wrapper


def explain_options_of_methods(cls: C) -> C:
    """Class decorator that applies :func:`explain_options` to all public methods that the class itself defines."""
    for name, value in list(vars(cls).items()):
        function = getattr(value, "__func__", value)  # of a class method
        if (
            (name.startswith("_") and name != "__init__")
            or not isfunction(function)
            or hasattr(function, "__wrapped__")
        ):
            continue  # private, not a method, or explained already
        explained = explain_options(function)
        setattr(cls, name, explained if function is value else type(value)(explained))
    return cls


def refuse_wrong_call(function: Callable[..., Any], args: tuple[Any, ...], options: Collection[str]) -> None:
    """Raise TypeError for an option that `function` does not have, or one given without its name.

    Returns if Python can bind the arguments, so that a TypeError had another cause.
    """
    if function.__name__ == "__init__" and (makers := _list_makers(args[0])) and caller.name().endswith("Display"):
        validate.fail(f"it is made by {makers}", TypeError)
    parameters = list(signature(function).parameters.values())
    kinds = {p.kind for p in parameters}
    by_name = [p.name for p in parameters if p.kind in BY_NAME]
    by_place = [p.name for p in parameters if p.kind in BY_PLACE]
    if len(args) > len(by_place) and Parameter.VAR_POSITIONAL not in kinds:
        known = ", ".join(name for name in by_name if name not in by_place)
        if caller.name() == "normalize":
            refuse_labels_of_samples(*args[:2])
        elif caller.name() in USUAL_ARGUMENTS:
            validate.fail(USUAL_ARGUMENTS[caller.name()], TypeError)
        _refuse_names_of_columns(args[0], args[1:])
        surplus = args[len(by_place)]
        given = describe_value(surplus)
        if "confidence_level" in by_name and isinstance(surplus, float) and 0 < surplus < 1:
            validate.fail(f"confidence_level must be given by name: confidence_level={given}, got {given}", TypeError)
        if "normalize" in by_name and isinstance(surplus, str) and surplus in METHODS:
            validate.fail(f"normalize must be given by name: normalize={given}, got {given}", TypeError)
        wanted = f"options must be given by name ({known})" if known else "there are no options"
        validate.fail(f"{wanted}, got {given}", TypeError)
    unknown = [option for option in options if option not in by_name]
    if not unknown or Parameter.VAR_KEYWORD in kinds:
        if args and isinstance(options, dict) and by_place[0] in options:
            _refuse_names_of_columns(args[0], [options[name] for name in by_place if name in options])
        _refuse_twice_or_missing(parameters, by_place[: len(args)], options)
        return
    if unknown[0] in by_place:
        validate.fail(
            f"{unknown[0]} is given by its place, without its name: {_show_call(by_place, parameters)}", TypeError
        )
    known_names = [name for name in by_name if name not in ("self", "cls")]
    validate.fail(describe_unknown_option(unknown[0], known_names), TypeError)


def refuse_labels_of_samples(first: object, second: object) -> None:
    """Raise TypeError for labels of samples, two arrays of one axis, where one matrix is wanted."""
    shapes = [
        (len(x),)
        if isinstance(x, list | tuple) and x and not isinstance(x[0], list | tuple)
        else getattr(x, "shape", ())
        for x in (first, second)
    ]
    if len(shapes[0]) == 1 and shapes[0] == shapes[1]:
        validate.fail(USUAL_ARGUMENTS[caller.name()], TypeError)


def _show_call(by_place: list[str], parameters: list[Parameter]) -> str:
    """Return the call of the public function with its parameters that are given by place."""
    shown = [name for name in by_place if name not in ("self", "cls")]
    needed = [p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY and p.default is Parameter.empty]
    rest = ", ...)" if len(parameters) > len(by_place) + len(needed) else ")"
    shown += [f"{name}=..." for name in needed]
    return f"{caller.name()}({', '.join(shown)}{rest}"


def _refuse_twice_or_missing(parameters: list[Parameter], placed: list[str], options: Collection[str]) -> None:
    """Raise TypeError for an argument that is given twice, or required and not given."""
    for name in placed:
        if name in options and next(p for p in parameters if p.name == name).kind in BY_NAME:
            validate.fail(f"{name} is given twice, by its place and by its name", TypeError)
        if name in options and caller.name() in USUAL_ARGUMENTS:
            validate.fail(USUAL_ARGUMENTS[caller.name()], TypeError)
    for p in parameters:
        required = p.default is Parameter.empty and p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if required and p.name not in placed and (p.name not in options or p.kind is Parameter.POSITIONAL_ONLY):
            if p.name == "method" and (near := next(filter(None, map(_suggest_method, options)), "")):
                validate.fail(near, TypeError)
            by_place = [each.name for each in parameters if each.kind in BY_PLACE]
            choices = CHOICES.get(caller.name(), "")
            validate.fail(f"{p.name} must be given: {_show_call(by_place, parameters)}{choices}", TypeError)


def _suggest_method(option: str) -> str:
    """Return the message for an option that names a normalisation, where it is called method; "" elsewhere."""
    if option not in ("normalize", "normalise") or caller.name() not in OF_NORMALIZATIONS:
        return ""
    return f"there is no option {option!r}; it is called method="


def _refuse_names_of_columns(table: object, names: Sequence[object]) -> None:
    """Raise TypeError for a table and names of its columns, which the function does not take."""
    if names and all(isinstance(name, str) for name in names) and _columns.column_hint(table) is not None:
        columns = ", ".join(f"table[{validate.format_value(name)}]" for name in names)
        validate.fail(f"it takes arrays, not names of columns: {caller.name()}({columns}, ...)", TypeError)


def _list_makers(made: object) -> str:
    """Return the class methods that make a display; "" for any other object."""
    name = type(made).__name__
    if name == "DifferenceDisplay":
        return "ConfusionDisplay.compare(first, second), of two matrices"
    if not name.endswith("Display") or "\n    Parameters\n" in (type(made).__doc__ or ""):  # users construct it, too
        return ""
    makers = [maker for maker in vars(type(made)) if maker.startswith("from_")]
    return " or ".join(f"{name}.{maker}" for maker in makers)


def describe_value(value: object) -> str:
    """Return the type and shape of an array or table for a message, and any other value itself."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(value).__name__} of shape {tuple(shape)}"
    return validate.format_value(value)


def describe_unknown_option(option: str, parameters: Collection[str]) -> str:
    """Return the error message for an unknown option, with the one of `parameters` that is meant or what to do."""
    near = suggest_option(option, parameters)
    if method := _suggest_method(option):
        return method
    if not near:
        near = f"; the options are {', '.join(parameters)}" if parameters else "; there are none"
    return f"there is no option {option!r}{near}"


def suggest_option(option: str, parameters: Collection[str]) -> str:
    """Return ``; it is called x=`` for the one of `parameters` that an unknown option means; "" if none is known."""
    if option in ("labels", "names", *_NAMES) and (cure := INSTEAD_OF_NAMES.get(caller.name())) is not None:
        return f"; {cure}"
    if caller.name() == "by" and option in ("metric", "metrics", "names"):
        return f"; {_COMPUTE}"
    cure = next((cure for own, cure in USUAL_OPTIONS.get(option, {}).items() if own in parameters), None)
    return f"; {cure}" if cure else validate.suggest_name(option, parameters)
