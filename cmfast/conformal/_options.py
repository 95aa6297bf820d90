"""Options shared by scores and prediction sets: score rule, probabilities, randomisation."""

from datetime import date
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cmfast._core import caller, dispatch, failures, frames, validate
from cmfast._core.adapters import _text_codes, adapter
from cmfast.kernels.shared.conformal import MOST_PENALTY

MOST_SUM_ERROR = 1e-5  # of the probabilities of a row in single precision

ScoreMethod: TypeAlias = Literal["aps", "raps", "lac", "saps", "top_k"]
METHODS = get_args(ScoreMethod)
ELSEWHERE = {
    "thr": "lac",
    "softmax": "lac",
    "label": "lac",
    "hps": "lac",
    "score": "lac",
    "topk": "top_k",
    "top-k": "top_k",
}
LABEL_TYPES = (str, bytes, int, np.integer, np.bool_, date, np.datetime64)
WANTED_SETS = "PredictionSets, as prediction_sets(P, threshold(scores(P, y), alpha)) returns"
MOST_SCORED_CLASSES = 1 << 30  # most classes of a row, so that packed ranks fit into 64 bits


class ScoreOptions(NamedTuple):
    """Validated options of a conformal score."""

    method: str
    randomised: bool
    lam: float
    k_reg: int

    def options(self) -> dict[str, Any]:
        """Return the options that kernels take."""
        return {"method": self.method, "lam": self.lam, "k_reg": self.k_reg}


def validate_rule(method: Any, randomised: Any, lam: Any, k_reg: Any) -> ScoreOptions:
    """Validate the options of a conformal score; return them as a ScoreOptions."""
    if isinstance(method, str) and method.lower() in ELSEWHERE:
        own = ELSEWHERE[method.lower()]
        validate.refuse("method", f"one of {', '.join(map(repr, METHODS))}", f"{method!r}; it is called {own!r}")
    validate.choice("method", method, METHODS)
    validate.flag("randomised", randomised)
    if lam is None and method == "raps":
        cure = "0.1; lam=0 is aps, with larger sets"
        validate.refuse(
            "lam", f'given for method="raps", the penalty per rank beyond k_reg, for example {cure}', "None"
        )
    if lam is None and method == "saps":
        validate.refuse("lam", 'given for method="saps", the weight of a rank, for example 0.1', "None")
    lam = validate.finite("lam", 0.0 if lam is None else lam)
    if lam < 0 and method != "saps":
        validate.refuse("lam", "at least 0", lam)
    k_reg = validate.count("k_reg", k_reg, most=2**31)
    if method == "saps" and lam <= 0:
        validate.refuse("lam", 'above 0 for method="saps", the weight of a rank, for example 0.1', lam)
    if method not in ("raps", "saps") and lam:
        validate.refuse("lam", '0 unless method="raps" or "saps"', lam)
    if method != "raps" and k_reg:
        validate.refuse("k_reg", '0 unless method="raps"', k_reg)
    return ScoreOptions(method, bool(randomised) and method != "lac", lam, k_reg)


def check_probabilities(P: Any, rule: ScoreOptions) -> tuple[int, ...]:
    """Check that `P` is a real array of rows of probabilities; return the shape of its rows."""
    validate.real(P=P)
    shape = dispatch.shape_of(P)
    if len(shape) < 2 or not shape[-1]:
        validate.refuse("P", "of shape (..., n, C) with at least one class", f"shape {shape}")
    if not rule.lam * shape[-1] < MOST_PENALTY:
        validate.refuse("lam", f"below {MOST_PENALTY:.0f} / C = {MOST_PENALTY / shape[-1]:.3g}", rule.lam)
    return shape[:-1]


def validate_labels(labels: Any, n_classes: int) -> tuple[Any, ...]:
    """Return the classes of the columns of probabilities; raise unless there are `n_classes` different ones."""
    found = tuple(validate.names("labels", labels, n_classes))
    if not all(isinstance(label, LABEL_TYPES) for label in found):
        wanted = "texts or integers, one for each class"
        validate.refuse("labels", wanted, validate.format_value(labels), TypeError)
    if len(set(found)) < n_classes:
        validate.refuse("labels", "unique", validate.format_value(found))
    return found


def find_column_names(P: Any) -> tuple[Any, ...] | None:
    """Return the names of the columns of a table of probabilities; None for an array, or if they are 0, 1, ..."""
    if type(P) is np.ndarray or not frames.is_table(P) or frames.is_lazy_table(P):
        return None
    names = tuple(frames.column_names(P))
    return None if names == tuple(range(len(names))) or len(set(names)) < len(names) else names


def count_classes(P: Any) -> int:
    """Return the number of columns of probabilities."""
    shape = P.shape if hasattr(P, "shape") else np.shape(P)
    if len(shape) < 2:
        validate.refuse("P", "of shape (..., n, C) with at least one class", f"shape {tuple(shape)}")
    return int(shape[-1])


def find_class_ids(like: Any, y: Any, labels: Any, n_classes: int, column_names: tuple[Any, ...] | None = None) -> Any:
    """Return true labels as positions in `labels`, in the library and on the device of `like`.

    Without `labels` return `y`, or, if it is text and all of it among `column_names`, the positions there.
    """
    if labels is None and column_names is None:
        return y
    known = None if labels is None else validate_labels(labels, n_classes)
    if y is None:
        return y
    given, y = y, dispatch.adopt_one("y", validate.type_empty_labels(y))
    is_text = isinstance(y, _text_codes.Coded)
    if known is None:
        if not is_text or not set(y.names) <= set(column_names or ()):
            return given
        known = column_names or ()
    values, codes = (y.names, y.codes) if is_text else adapter(y).unique(adapter(y).unwrap(y))
    values, places = list(values), {label: k for k, label in enumerate(known)}
    unknown = [value for value in values if value not in places]
    if unknown:
        wanted = f"of the labels {validate.format_value(list(known))}"
        validate.refuse("y", wanted, validate.format_value(unknown[0]))
    table = np.array([places[value] for value in values], np.int64)
    if is_text:
        return adapter(like).send(table[codes], like)
    return adapter(codes).evaluate(lambda table, codes: table[codes], adapter(codes).send(table, codes), codes)


def check_ids(y: Any) -> None:
    """Check that `y` is None or holds integers; for text advise how to name the classes."""
    if y is not None and adapter(y).dtype(y).kind in "US":
        cure = "pass labels=, the class of each column of P, such as model.classes_, here or to prediction_sets"
        validate.refuse("y", "integers", f"text; {cure}", TypeError)
    validate.integer(y=y)


def refuse_text(y: Any) -> None:
    """Refuse labels of text where the columns of probabilities are not known."""
    if y is not None and adapter(y).dtype(y).kind in "US":
        cure = "with the labels of the columns of P, y = [labels.index(one) for one in y]"
        validate.refuse("y", "integers, the column of P of each label", f"text; {cure}", TypeError)


def check_per_row(name: str, array: Any, rows: tuple[int, ...]) -> None:
    """Check that `array` is None or has one entry per row of probabilities."""
    if array is not None and dispatch.shape_of(array) != rows:
        validate.refuse(name, f"of shape {rows}, one entry per row of P", f"shape {dispatch.shape_of(array)}")


def make_row_shares(
    u: Any, rng: Any, rule: ScoreOptions, P: Any, rows: tuple[int, ...], num_threads: int | None
) -> Any:
    """Return 1 - U per row, the share of a label's own probability in its randomised score; None if not randomised.

    U is the given `u`, drawn from a Generator, or computed by hashing the row with a seed.
    """
    if u is not None and rng is not None:
        validate.refuse("rng", "None with u", validate.format_value(rng))
    if not rule.randomised:
        if u is not None:
            validate.refuse("u", "None without randomisation", "an array")
        return None
    if u is not None:
        validate.real(u=u)
        check_per_row("u", u, rows)
        u = adapter(u).unwrap(u)
        return adapter(u).evaluate(lambda u: 1.0 - adapter(u).cast(u, np.float64), u)
    if isinstance(rng, np.random.Generator):
        drawn: np.ndarray = rng.random(rows)
        bare = adapter(P).unwrap(P)
        return adapter(bare).send(drawn, bare)
    seed = 0 if rng is None else validate.count("rng", rng, most=None)
    return dispatch.call("row_draws", P, seed=seed, num_threads=num_threads)


def warn_of_probabilities(
    s: Any, name: str = "s", cure: str = "conformal.scores(P, y) makes one score of each"
) -> None:
    """Warn if the rows of scores add up to 1, as probabilities of classes do."""
    shape = dispatch.shape_of(s)
    if len(shape) != 2 or shape[1] < 2 or shape[0] <= shape[1] or caller.is_task() or not adapter(s).is_on_host(s):
        return
    bare = adapter(s).unwrap(s)
    for rows in (slice(0, 2), slice(None)):
        host = np.asarray(adapter(bare).entry(bare, rows), np.float64)
        if not (abs(host.sum(1) - 1.0) <= MOST_SUM_ERROR).all() or host.min() < 0:
            return
    failures.warn_diagnostic(
        f"all {shape[0]:,} rows of {name} add up to 1, as probabilities of {shape[1]} classes do; {cure}"
    )
