"""Every public callable: how it is called, what it takes, and what it must not take. None is left out.

An entry is derived from the signature. A parameter whose annotation has `Array` is given the array of its name in
`ARRAYS`, one without a default what `GIVEN` has for its name, and a method is one of the object in `OBJECTS`. What a
`bool` and a `Literal` must not be is read from the annotation, and so is whether None is wrong. Declared is what no
annotation says: the ranges of numbers in `WRONG`, and in `SPECIAL` where a callable differs from others.
"""

import inspect
import io
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from operator import attrgetter
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pandas as pd
from optional import array_api_strict, torch

import cmfast
from cmfast._core.annotations import BiOptions

NAMESPACES = {"": cmfast, "metrics.": cmfast.metrics, "contingency.": cmfast.contingency}
NAMESPACES |= {"uncertainty.": cmfast.uncertainty, "agreement.": cmfast.agreement}
NAMESPACES |= {"detection.": cmfast.detection}
NAMESPACES |= {"conformal.": cmfast.conformal}
NAMESPACES |= {"display.": cmfast.display}
RESULTS = cmfast.results  # messages name these classes without the module, as those of cmfast

# What only holds results or codes: cmfast makes them, and what they are made of was checked then.
RECORDS = {
    "Certificate", "GcmDiagnostics", "GcmResult", "Projection", "ScalingResult", "SparseHistogram", "Status", "Support",
    "MarginsResult", "MarginsSupport", "Matches", "RakeResult", "BalanceResult", "RoundedTable",
    "WidthCurve", "CellCounts", "HtmlReport", "DiagnosticWarning", "FailureError", "FailureWarning", "TargetEstimate",
    "Hull",
    "LearningPath", "display.PathDisplay", "Sensitivity", "display.SurfaceDisplay",
    "Agreement", "AgreementsByCoefficient", "AucCovariance", "Interval", "Intervals", "Posterior", "PosteriorsByMetric",
    "Confusions", "Margins", "Metric", "ClassificationReport", "ThresholdMatrices",
    "Collapsed", "LeastCost", "PrecisionRecall", "Roc",
    "conformal.CcmCounts", "conformal.CoverageCounts", "PredictionSets", "conformal.ScoreHistogram",
    "display.CcmDisplay", "SizeCoverage",
    "Comparison", "display.ComparisonDisplay", "Comparisons", "ComparisonsByMetric", "Flip",
    "GroupComparison", "GroupComparisonsByMetric", "PairwiseComparisonsByMetric",
    "McNemar", "display.ConfusionDisplay", "display.DifferenceDisplay",
    "display.CellsDisplay", "display.GcmDisplay", "display.StripDisplay",
    "Equivalence", "uncertainty.PairedCounts", "Symmetry",
}  # fmt: skip

# What needs a library that is not installed.
NOT_HERE = set() if find_spec("xarray") else {"ConfusionCounts.to_xarray"}

Make = Callable[[np.ndarray], Any]


def is_function_or_class(thing: object) -> bool:
    """Return whether `thing` is a function or a class; a Literal type is callable, too."""
    return callable(thing) and get_origin(thing) is None


def find_public(name: str) -> Any:
    """Return the callable of a name as :func:`public` gives it."""
    return attrgetter(name)(RESULTS if name.partition(".")[0] in RESULTS.__all__ else cmfast)


def public() -> Iterator[tuple[str, Any]]:
    """Yield the name of every public callable, and itself: functions, classes, their public methods."""
    for prefix, space in (*NAMESPACES.items(), ("", RESULTS)):
        for name in space.__all__:
            thing = getattr(space, name)
            if not is_function_or_class(thing):
                continue
            if not inspect.isclass(thing):
                yield prefix + name, thing
                continue
            yield prefix + name, thing
            ours = [base for base in thing.__mro__ if base.__module__.startswith("cmfast.")]
            for part, value in {part: value for base in ours for part, value in vars(base).items()}.items():
                if f"{name}.{part}" in NOT_HERE:
                    continue
                if not part.startswith("_") and (inspect.isfunction(value) or isinstance(value, classmethod)):
                    yield f"{prefix}{name}.{part}", getattr(thing, part)


@dataclass(frozen=True)
class Entry:
    """How to call one function with valid arguments, so that one replaced argument is the fault."""

    of: Callable[[Make], Callable[..., Any]]
    """The function, or the method of an object whose arrays `make` makes."""
    hints: dict[str, Any]
    """The annotation of each parameter, and of each option of a normalisation where it takes those."""
    arrays: dict[str, np.ndarray]
    """All its arrays, by name."""
    others: dict[str, Any]
    """What else it needs; a `Made` is made first."""
    optional: frozenset[str]
    """Arrays that None may stand for."""
    none: frozenset[str]
    """Options that may be None."""
    batch: frozenset[str]
    """Arrays whose leading axes are a batch, whose elements do not see each other."""
    wrong: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """What its options must not be, where that is not what options of that name must not be anywhere."""
    free: frozenset[str] = frozenset()
    """Options that any value is right for, or that another test looks at."""
    host: bool = False
    """Arrays are metadata on the host: whatever becomes a NumPy array will do."""
    name: str = ""
    """How messages call it, where that is not its own name (an alias)."""
    parameters: tuple[str, ...] = ()
    """Its parameters but those of a normalisation, known without making the object of a method."""


@dataclass(frozen=True)
class Made:
    """An argument that is no array, but has arrays in it."""

    of: Callable[[Make], Any]


def call(entry: Entry, make: Make = np.asarray, /, **changes: Any) -> Any:
    """Call the function of `entry` with some arguments changed; those that are arrays are taken as they are."""
    function = entry.of(make)
    given = {name: make(array) for name, array in entry.arrays.items()}
    given |= {name: value.of(make) if isinstance(value, Made) else value for name, value in entry.others.items()}
    given |= {name: value.of(make) if isinstance(value, Made) else value for name, value in changes.items()}
    args = []
    positional = True
    for p in inspect.signature(function).parameters.values():
        positional = positional and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name in given
        if positional:
            args.append(given.pop(p.name))
    return function(*args, **given)


ONLY_BI = tuple(BiOptions.__annotations__)  # the **options of a normalisation


def options(entry: Entry) -> list[str]:
    """Return the names of all arguments that are no arrays, without those of a normalisation."""
    return [name for name in entry.parameters if name not in entry.arrays]


def list_members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, and any other annotation alone."""
    if isinstance(hint, str):
        return tuple({"Array": Any, "None": type(None)}.get(part, part) for part in hint.split(" | "))
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def list_names(hint: Any) -> tuple[Any, ...]:
    """Return the values of an annotation that allows these alone, and perhaps None; of others nothing."""
    members = [member for member in list_members(hint) if member is not type(None)]
    return sum(map(get_args, members), ()) if all(get_origin(member) is Literal for member in members) else ()


def wrong(entry: Entry, option: str) -> tuple[Any, ...]:
    """Return what `option` must not be; a name also not what another function takes by an option of this name."""
    hint = entry.hints[option]
    if option in entry.wrong or option in WRONG:
        found = entry.wrong.get(option) or WRONG[option]
    elif hint is bool:
        found = NO_BOOL
    elif names := list_names(hint):
        elsewhere = {name for other in ENTRIES.values() for name in list_names(other.hints.get(option))}
        found = (*NO_NAME, *sorted(elsewhere.difference(names)))
    else:
        msg = f"say in WRONG what {option} must not be"
        raise KeyError(msg)
    return tuple(value for value in found if value is not None or option not in entry.none)


def right(entry: Entry, option: str) -> tuple[Any, ...]:
    """Return valid values of `option`, perhaps not with all other options. Small, so that calls are quick."""
    hint = entry.hints[option]
    if names := list_names(hint):
        return (*names, None) if option in entry.none else names
    return (True, False, np.True_) if hint is bool and option not in RIGHT else RIGHT[option]


OPTIONS_OF_IPF = (
    {"smoothing": 0.5}, {"smoothing": "pseudo-bayes"}, {"empty": "drop"}, {"solver": "sinkhorn"}, {"solver": "newton"},
)  # fmt: skip
OTHERWISE = {
    "method": ("all", "col"),
    "undefined": ("nan", "strict", "zero", "one", 0.25),
    "scheme": ("expected_rounded",),
    "fixed": ("rows",),
    "by": ("rate", "symmetric", "symmetric_rate"),
    "average": ("macro", "weighted", "micro"),
}


def _is_wrong(entry: Entry, option: str, value: Any) -> bool:
    return isinstance(value, str | float) and value in [one for one in wrong(entry, option) if type(one) is type(value)]


def ways(entry: Entry) -> list[dict[str, Any]]:
    """Return the options that lead to different ways through a function, all of them right."""
    some = inspect.signature(entry.of(np.asarray)).parameters
    found: list[dict[str, Any]] = [{}]
    names = [name for name in OTHERWISE if name in some]
    found += [{name: value} for name in names for value in OTHERWISE[name] if not _is_wrong(entry, name, value)]
    if {"average", "pos_label"} <= some.keys():  # only together
        found.append({"average": "binary", "pos_label": 0})
    if any(p.kind == p.VAR_KEYWORD for p in some.values()):  # those of ipf
        bi = {"method": "bi"} if "method" in some else {}
        found += [bi, *({**bi, **one} for one in OPTIONS_OF_IPF)]
    elif "smoothing" in some and "solver" in some:
        found += OPTIONS_OF_IPF
    return found


LISTS = ([1, 2], np.array([1, 2]), {}, (x for x in ()))
NO_INTEGER = (1.5, True, np.True_, "3", b"3", math.nan, 1j, *LISTS)
NO_NUMBER = (True, "1", b"1", 1j, math.nan, math.inf, 10**400, 10**5000, *LISTS)
NO_BOOL = ("False", "", 2, 0.0, None, math.nan, *LISTS)
NO_NAME = (3, True, None, 2**63, 1.5, "nonsense", b"row", ["row"], {})


def integers(least: int, *, most: int | None = 2**63 - 1) -> tuple[Any, ...]:
    """Return what an integer of at least `least` is not."""
    above = () if most is None else (most + 1, 10**5000)
    return (*NO_INTEGER, least - 1, -(2**63) - 1, *above, None)


COUNT = integers(0)
NO_COST = (3, None, "ab", [], [[1, 2]], [[math.nan, 1], [1, 1]], [["a", "b"], ["c", "d"]], {})
NO_ALPHA = (True, "0.1", b"1", 1j, math.nan, math.inf, 10**400, 0, 1, 1.0, -0.5, 2.5, None, {}, [], [0.1, 2.0], [True])
NO_ALPHA += ([[0.1]], (x for x in ()), np.ones(2), np.zeros((2, 2)), ["a"], Fraction(3, 2), Decimal("nan"))
WEIGHTS_OF_CELLS = ("nonsense", 3, True, None, [["row"]], ["row", 3], {}, b"row", [[1.0, 2.0]], [[1j, 1], [1, 1]], 1.5)
NO_LABELS = (3, [], [0, 0], [[0, 1]], [0.5, 1.0], "ab", True, {}, [None], [1j])
NO_MARGINS = (
    None,
    3,
    "x",
    [],
    {},
    [1],
    [(0,)],
    [(0.5, np.ones(2))],
    [((0, 0), np.ones((2, 2)))],
    [(-1, np.ones(2))],
    [(32, np.ones(2))],
)
# By option. What is large but right, as num_threads of 2**70 or a seed of 200 bits, is not here.
WRONG: dict[str, tuple[Any, ...]] = {
    "num_threads": integers(1, most=None),
    "n_classes": COUNT,
    "n_groups": COUNT,
    "n_parts": integers(1, most=2**16),
    "n_components": integers(1),
    "n_resamples": integers(0),
    "n": integers(1),
    "above": (*NO_NUMBER, None),
    "prior": ("nonsense", -1, math.nan, [1.0, 2.0], [[-1.0, 0], [0, 0]], True, {}, None),
    "k": integers(1),
    "size": integers(1),
    "origins": integers(1),
    "max_iter": integers(1, most=None),
    "out": (3, True, "x", [], {}, (np.empty(2),), np.empty(2), {"mcc": np.empty(2)}, {"nonsense": np.empty(2)}),
    "rng": integers(0, most=None),
    "max_bytes": integers(1 << 20, most=None),
    "bins": (1.5, True, "3", 0, [0, 1], [1], [1.5, 1], None, math.nan, [], {}, 2**63, [True]),
    "tol": (*NO_NUMBER, 0, -1.0, None),
    "v": (*NO_NUMBER, 0, -1.0, None),
    "r": (True, "1", 0, -1, math.nan, math.inf, None, "x", [0.0], [[1], [1, 2]], {}, 10**400, 1j, [None]),
    "points_per_cell": (*NO_NUMBER, 1.0, 0, None),
    "factor": (*NO_NUMBER, 0, -1.0, None),
    "fraction": (*NO_NUMBER, None),
    "smoothing": (*NO_NUMBER, 0, -1.0, "laplace"),
    "undefined": (*NO_NAME, -0.5, math.nan, math.inf),
    "names": (3, True, "nonsense", ["nonsense"], [3], {"mcc": 1}, b"mcc", [None], "fbeta_x", "fbeta_nan"),
    "name": (3, True, None, "nonsense", ["mcc"], b"mcc", "scalars", "fbeta_x", "fbeta_-1", "fbeta_nan"),
    "ignore_index": (1.5, True, math.nan, 1j, {}, -(2**63) - 1, 2**64, [1.5], [True], [None], [[0]], [0, -(2**63) - 1]),
    "sample_axes": integers(1),
    "pos_label": (1.5, True, math.nan, 1j, "ill", b"1", *LISTS, 2**63),
    "average_over": (3, True, "ab", b"ab", [], [0, 0], [2], [-1], [0.5], [True], [[0]], {}, [None], [2**63], 1.5),
    "progress": (3, "yes", [1], 0, 1.5, {}),
    "start": (3, "x", (1,), (None, None), [np.ones(2)], {}, np.ones((2, 2)) > 0),
    "factors": (1.5, "x", [], [0.0], [-1], [True], None, ["1"], [math.nan], 2**63, {}),
    "grid": (3, "nonsense", None, ["scott"], 1.5, True),
    "directory": (3, 1.5, True, [1], {}),
    "path": (None, 1.5, [1], {}, io.StringIO("{}")),
    "data": (None, "{}", 3, [1], {}, b"", b"PK"),
    "text": (None, 3, [1], {}, "", "[]", "{}", b"\xff"),
    "frame": (None, 3, "x", [1], {"label": [1]}, np.ones(2)),
    "margin": (*NO_NUMBER, 0, -0.5, None),
    "confidence_level": (*NO_NUMBER, 0, 1, 1.5, -0.5, None),
    "max_fpr": (*NO_NUMBER, 0, -1.0, 0.1),  # of counts none is
    "groups": (None, 3, [], ["nonsense"], "nonsense", [3], ["site", "site"], {}, b"site"),
    "library": NO_NAME,
    "state_dict": (None, 3, "x", [1], {}, {"classes": 3}),
    "cells": (None, 3, "x", [1], np.ones(2)),
    "alpha": NO_ALPHA,
    "k_reg": (*integers(0, most=2**31), 1),  # 1 for other scores than "raps"
    "top": (*NO_NUMBER, 0, -1.0, None),
    "axis": (*NO_INTEGER, None, 2, -3, 2**70),
    "pairs": (None, 3, "x", [], [1], [(0, 2)], [(-1, 0)], [(0, 1, 1)], [(0.5, 1)], [(True, 1)], {}, [None]),
    "sets": (None, 3, "x", [1], np.ones(2)),
    "ccms": (None, 3, "x", [], [1], np.ones(2)),
    "labels": NO_LABELS,
    "weights": WEIGHTS_OF_CELLS,
    "margins": NO_MARGINS,
    "ndim": integers(2, most=32),
    "index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3),
    "cost": NO_COST,
    "display_labels": (True, 3, "ab", b"ab", ["a"], ["a", "a"], {"a": 1, "b": 2}, ["a", None]),
}

M = np.array([[4.0, 1.0], [2.0, 3.0]])
COUNTS = np.array([[4, 1], [2, 3]])
OF_GROUPS = np.array([[[4, 1], [2, 3]], [[9, 3], [1, 8]]])
TRUTH, GUESS = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0])
X = np.array([[0.0, 0.5], [1.0, 1.5], [2.0, 0.25], [3.0, 2.5]])
SHARES = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
GRID = cmfast.Grid([0.0, 0.0], [1.0, 1.0])
RATES = np.array([[0.9, 0.6], [0.6, 0.6], [0.5, 0.9]])
ONES = np.ones(2)


def _cells(make: Make) -> cmfast.CellCounts:
    return cmfast.cell_counts(make(X), make(TRUTH), make(GUESS), grid=GRID)


def _grid(make: Make) -> cmfast.Grid:
    return cmfast.Grid([0.0, 0.5], [0.1, 2.0])


def _axes(make: Make) -> cmfast.Projection:
    return cmfast.pca(make(X), 1)


def _count_labels(make: Make) -> cmfast.ConfusionCounts:
    return cmfast.ConfusionCounts.from_labels(make(TRUTH), make(GUESS))


def _paired(make: Make, **options: Any) -> cmfast.uncertainty.PairedCounts:
    return cmfast.uncertainty.paired_counts(make(TRUTH), make(GUESS), make(TRUTH[::-1]), **options)


def _paired_in_clusters(make: Make) -> cmfast.uncertainty.PairedCounts:
    return _paired(make, clusters=["a", "b", "b", "c"])


def _some_sets(make: Make) -> cmfast.results.PredictionSets:
    return cmfast.conformal.prediction_sets(make(SHARES), make(np.array([0.7, math.inf])), randomised=False)


def _shared(make: Make) -> cmfast.conformal.CcmCounts:
    return cmfast.conformal.ccm(_some_sets(make))


def _covered(make: Make) -> cmfast.conformal.CoverageCounts:
    return cmfast.conformal.coverage_confusion(_some_sets(make), make(TRUTH))


def _score_histogram(make: Make) -> cmfast.conformal.ScoreHistogram:
    return cmfast.conformal.score_histogram(make(X), bins=4)


def _compared(make: Make) -> cmfast.results.Comparison:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)  # of few samples that differ
        return cmfast.uncertainty.compare(_paired(make), "f1", n_resamples=20)


def _all_compared(make: Make) -> cmfast.results.Comparisons:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        return cmfast.uncertainty.compare_many({("a", "b"): _paired(make)}, "f1", n_resamples=20)


def _compared_groups(make: Make) -> cmfast.results.GroupComparison:
    return cmfast.uncertainty.compare_groups(make(OF_GROUPS), "recall", n_resamples=20, on_failure="ignore")


STATES = {"CellCounts": _cells, "ConfusionCounts": _count_labels, "Grid": _grid, "Projection": _axes}
STATES |= {"uncertainty.PairedCounts": _paired_in_clusters}
STATES |= {"conformal.CcmCounts": _shared, "conformal.CoverageCounts": _covered}
STATES |= {"conformal.ScoreHistogram": _score_histogram}
FOLDER = tempfile.TemporaryDirectory(prefix="cmfast-tests-")
FILE = os.path.join(FOLDER.name, "cells.npz")  # noqa: PTH118  (as users write it)
PAGE = os.path.join(FOLDER.name, "page.html")  # noqa: PTH118


def _histogram(make: Make) -> cmfast.results.SparseHistogram:
    return cmfast.sparse_histogram(make(X), grid=GRID)


def _embedded(make: Make, function: Callable[..., Any] = cmfast.geometric_confusion_matrix) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        return function(make(X), make(TRUTH), make(GUESS), weights="row")


def _two(make: Make, M: np.ndarray = M) -> Any:
    return make(np.stack([M, M]))


def _interval(make: Make) -> Any:
    return cmfast.results.Interval(*(make(ONES) for _ in range(4)), make(COUNTS[0]))


def _displayed(make: Make) -> cmfast.display.ConfusionDisplay:
    return cmfast.display.ConfusionDisplay.from_matrix(make(COUNTS), groups=["a", "b"])


def _targets(make: Make) -> list[Any]:
    return [(0, make(M.sum(1))), ((1,), make(M.sum(0)))]


def _scored(function: Callable[..., Any]) -> Callable[[Make], Any]:
    return lambda make: function(make(TRUTH[:2]), make(ONES))


def _make_idle_callback(make: Make) -> Callable[[int, int], None]:
    return lambda done, total: None


GRADED = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 1]])
BOXES = np.array([[0.0, 0.0, 2.0, 2.0], [5.0, 0.0, 7.0, 2.0]])
TWO_SCORES = np.array([[0.5, 0.1, 0.9, 0.3], [0.2, 0.4, 0.4, 0.1]])
NEAR = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1.0, 2.0, 3.0])
FRAME = pd.DataFrame({"label": TRUTH, "guess": GUESS, "site": list("abba"), "weight": 0.5})

# By class, an object of it, whose methods are called.
OBJECTS: dict[str, Callable[[Make], Any]] = STATES | {
    "BalanceResult": lambda make: cmfast.balance(
        (*map(make, NEAR), 3), symmetric="upper", blocks=[0, 3, 3], on_failure="ignore"
    ),
    "CellAccumulator": lambda make: cmfast.CellAccumulator(GRID, 2),
    "Certificate": lambda make: cmfast.support(make(M)).certificate,
    "GcmDiagnostics": lambda make: _embedded(make).diagnostics,
    "GcmResult": _embedded,
    "HtmlReport": lambda make: cmfast.report(make(TRUTH), make(GUESS), n_resamples=20),
    "MarginsResult": lambda make: cmfast.ipf_nd(_two(make), _targets(make)),
    "MarginsSupport": lambda make: cmfast.support_nd(_two(make), _targets(make)),
    "PcaAccumulator": lambda make: cmfast.PcaAccumulator(),
    "RakeResult": lambda make: cmfast.rake(make(np.ones((3, 1))), make(np.array([[6.0], [5.0]]))),
    "RoundedTable": lambda make: cmfast.round_to_margins(_two(make, M / 2.0)),
    "ScalingResult": lambda make: cmfast.ipf(_two(make)),
    "SparseHistogram": _histogram,
    "Support": lambda make: cmfast.support(_two(make)),
    "TargetEstimate": lambda make: cmfast.estimate_for_target(_two(make, 20 * M), class_shares=make(ONES)),
    "WidthCurve": lambda make: _embedded(make, cmfast.width_curve),
    "display.CcmDisplay": lambda make: cmfast.display.CcmDisplay.from_sets(_some_sets(make), make(TRUTH)),
    "PredictionSets": _some_sets,
    "SizeCoverage": lambda make: _some_sets(make).coverage_by_size(make(TRUTH)),
    "Hull": lambda make: cmfast.contingency.convex_hull(RATES),
    "LearningPath": lambda make: cmfast.contingency.learning_path(_two(make)),
    "display.PathDisplay": lambda make: cmfast.display.PathDisplay.from_matrices(np.stack([M, M])),
    "Sensitivity": lambda make: cmfast.contingency.imbalance_sensitivity("f1", 2.0, size=2),
    "display.SurfaceDisplay": lambda make: cmfast.display.SurfaceDisplay.from_metric("f1", size=3),
    "display.CellsDisplay": lambda make: cmfast.display.CellsDisplay.from_matrices(_two(make, COUNTS)),
    "display.ConfusionDisplay": _displayed,
    "display.DifferenceDisplay": lambda make: cmfast.display.ConfusionDisplay.compare(
        make(COUNTS), make(COUNTS.T.copy())
    ),
    "display.GcmDisplay": lambda make: cmfast.display.GcmDisplay.from_result(_embedded(make)),
    "display.StripDisplay": lambda make: cmfast.display.StripDisplay.from_matrices(_two(make, COUNTS)),
    "Collapsed": lambda make: cmfast.metrics.collapse(make(M), ["a", "b"]),
    "Confusions": lambda make: cmfast.metrics.most_confused(make(M)),
    "LeastCost": lambda make: cmfast.metrics.least_cost(make(TRUTH[:2]), make(ONES), make(M)),
    "Flip": lambda make: _paired(make).flips()[0],
    "Margins": lambda make: cmfast.metrics.margins(_two(make)),
    "PrecisionRecall": _scored(cmfast.metrics.precision_recall),
    "ClassificationReport": lambda make: cmfast.metrics.classification_report(make(M)),
    "Roc": _scored(cmfast.metrics.roc),
    "ThresholdMatrices": _scored(cmfast.metrics.threshold_matrices),
    "Agreement": lambda make: cmfast.agreement.compute(make(GRADED), "fleiss_kappa", on_failure="ignore"),
    "AgreementsByCoefficient": lambda make: cmfast.agreement.compute(
        make(GRADED), ["fleiss_kappa"], on_failure="ignore"
    ),
    "Matches": lambda make: cmfast.detection.match(make(BOXES), make(BOXES[::-1].copy()), make(ONES)),
    "AucCovariance": lambda make: cmfast.uncertainty.auc_covariance(make(TRUTH), make(TWO_SCORES)),
    "Comparison": _compared,
    "display.ComparisonDisplay": lambda make: cmfast.display.ComparisonDisplay.from_comparisons(_compared(make)),
    "Comparisons": _all_compared,
    "ComparisonsByMetric": lambda make: cmfast.results.ComparisonsByMetric({"f1": _compared(make)}),
    "PairwiseComparisonsByMetric": lambda make: cmfast.results.PairwiseComparisonsByMetric({"f1": _all_compared(make)}),
    "GroupComparison": _compared_groups,
    "GroupComparisonsByMetric": lambda make: cmfast.results.GroupComparisonsByMetric(
        {"recall": _compared_groups(make)}
    ),
    "Equivalence": lambda make: cmfast.uncertainty.equivalence(_paired(make), "accuracy", 0.1),
    "Interval": _interval,
    "Intervals": lambda make: cmfast.results.Intervals(
        {"f1": _interval(make)}, method="bca", confidence_level=0.95, n_resamples=9
    ),
    "McNemar": lambda make: cmfast.uncertainty.mcnemar(_paired(make)),
    "Posterior": lambda make: cmfast.results.Posterior(np.asarray(make(M))),
    "PosteriorsByMetric": lambda make: cmfast.uncertainty.posterior(
        make(M), ["f1"], n_resamples=9, on_failure="ignore"
    ),
    "Symmetry": lambda make: cmfast.uncertainty.bowker(_paired(make)),
}

# By parameter, the array that it is given where its annotation says that it takes one.
ARRAYS: dict[str, np.ndarray] = {
    **dict.fromkeys(("M", "S", "T", "Q"), M),
    **dict.fromkeys(("row_sums", "col_sums", "class_shares"), ONES),
    "P": SHARES, "u": ONES[TRUTH] / 2, "q": np.array([[0.5, 0.75]]), "s": X[:, 1],
    "new_scores": X,
    "X": X, "y": TRUTH, "y_true": TRUTH, "y_pred": GUESS, "y_a": GUESS, "y_b": TRUTH[::-1].copy(), "groups": TRUTH,
    "sample_weight": np.ones(4), "y_score": np.array([0.5, 0.1, 0.9, 0.3]), "missed": np.array([1, 2]),
    "values": np.array([4.0, 1.0, 3.0]), "coords": np.array([[0, 0, 1], [0, 1, 1]]), "sums": np.array([2.0, 3.0, 2.0]),
    "design": np.array([[1.0, 0.5], [1.0, 2.0], [1.0, 1.0]]), "targets": np.array([6.0, 5.0]), "weights": np.ones(4),
    "d": np.array([4.0, 3.0]), "t": np.array([5.0, 5.0]), "p": np.array([6.0, 4.0]), "bands": np.array([7.0, 3.0]),
    "tops": np.array([4.0, 6.0]), "points": RATES,
}  # fmt: skip
# Those of them whose leading axes are a batch.
BATCHES = (
    "M", "S", "T", "P", "Q", "row_sums", "col_sums", "class_shares", "missed", "y_score", "values", "targets",
    "ratings", "counts",
    "d", "t", "p",
)  # fmt: skip
# By parameter, what it is given where it has no default and takes no array.
GIVEN: dict[str, Any] = {
    "A": Made(lambda make: (*map(make, NEAR), 3)), "T": Made(_paired), "a": Made(_histogram), "b": Made(_histogram),
    "above": 0.5, "alpha": 0.5, "beta": 2.0, "bins": 2, "ccms": Made(_shared), "cells": Made(_cells),
    "comparisons": Made(_compared), "cost": [[0.0, 1.0], [2.0, 0.0]],
    "counts_by_pair": Made(lambda make: {("a", "b"): _paired(make)}), "factor": 2.0, "fraction": 0.5, "frame": FRAME,
    "grid": GRID, "groups": ["a", "b"], "key": 0, "margin": 0.1, "margins": Made(_targets),
    "method": "row", "n_classes": 2, "n_parts": 2, "name": "f1", "order": "high",
    "other": Made(lambda make: cmfast.PcaAccumulator().update(make(X))), "pairs": [(0, 1)], "path": FILE,
    "points_per_cell": 2.0, "r": 2.0, "result": Made(_embedded), "sets": Made(_some_sets), "weights": "row",
    "y_true": "label", "y_pred": "guess",
}  # fmt: skip
# Replaces defaults: few draws, few metrics, one of several results.
QUICK = {"n_resamples": 20, "size": 2, "names": ["accuracy", "f1"], "index": 1}

# By option: valid values, perhaps not with all other options. Small, so that calls are quick.
RIGHT: dict[str, tuple[Any, ...]] = {
    "max_fpr": (None,),  # of counts none is
    "multilabel": (False, np.False_),
    "A": (Made(lambda make: (*map(make, NEAR), 3)), Made(lambda make: (*map(make, NEAR), np.int8(3)))),
    "num_threads": (1, 2, np.int8(3), None, 2**70),
    "n_classes": (2, 3, np.array(2), np.uint64(4), None),
    "n_groups": (2, 5, np.int16(3), None),
    "n_parts": (1, 7, np.uint8(3), None),
    "n_components": (1, 2, 9, None),
    "n_resamples": (0, 1, 7),
    "above": (0, 0.5, -1.0),
    "prior": ("unit", "perks", "haldane", "jeffreys", "laplace", 0, 2.5, [[1.0, 0.0], [0.5, 2.0]]),
    "n": (0, 1, 50, 2**53, None),
    "k": (1, 2, 100, 2**62),
    "size": (1, 2, 5),
    "origins": (1, 2),
    "max_iter": (1, 3, None),
    "out": (None,),
    "rng": (0, 2**200, Made(lambda make: np.random.default_rng(3))),
    "max_bytes": (1 << 20, 1 << 70),
    "bins": (1, 3, [2, 3], (1,), np.array([1, 2]), 2**53),
    "tol": (1e-6, 1, 1e-300, 1e300, np.float32(1e-3)),
    "v": (0.5, 2, 1e-300, 1e300),
    "r": (1, 0.5, [1.0, 2.0], 1e-300, 1e300),
    "share": (0, 0.25, [0.0, 1.0]),
    "points_per_cell": (1.5, 3, 1e300),
    "factor": (2, 0.5, 1e-300, 1e300),
    "fraction": (0, -0.5, 1e300, -1e-300),
    "smoothing": (None, 1, 0.5, "pseudo-bayes", 1e-300, 1e300),
    "undefined": ("present", "nan", "strict", "zero", "one", 0, 1, np.float32(0.5)),
    "target": (None,),
    "axes": ([0, 1], [(0,), 1], [(1, 0)], None),
    "names": (
        "accuracy",
        ["f1", "gerrity"],
        ("kappa_linear",),
        [],
        ["mcc", "mcc"],
        "tss",
        "fbeta_0.5",
        None,
        "scalars",
        "per_class",
    ),
    "name": ("f1", "mcc", "gerrity", "tss"),
    "progress": (None, False, Made(_make_idle_callback)),
    "start": (None, Made(lambda make: (make(ONES), make(2 * ONES))), Made(lambda make: [make(ONES), make(0 * ONES)])),
    "factors": ([0.5, 1], (2,), np.array([1.0, 1e-300])),
    "grid": (GRID, "scott", "freedman_diaconis", cmfast.Grid([0.5], [1e-300]), cmfast.Grid([-1e300, 0], [0.5, 1e300])),
    "directory": (None, "."),
    "path": ("cells.npz", "other.npz", "cells.json", "page.html"),
    "data": (Made(lambda make: _cells(make).to_bytes()), Made(lambda make: bytearray(_grid(make).to_bytes()))),
    "text": (Made(lambda make: _cells(make).to_json()), Made(lambda make: _grid(make).to_json().encode())),
    "cells": (Made(_cells),),
    "T": (Made(_paired),),
    "comparisons": (Made(_compared),),
    "counts_by_pair": (Made(lambda make: {("a", "b"): _paired(make)}), {}),
    "margin": (0.5, 1e-300, 2),
    "reference": (None, 0, 1, np.int8(1), "overall"),
    "confidence_level": (0.6, 0.95, np.float32(0.9)),
    "force": (True,),  # else a file that exists is refused
    "frame": (Made(lambda make: FRAME),),
    "groups": ("site", ["site"], ("site", "label")),
    "y_true": ("label", "site"),
    "y_pred": ("guess", "weight"),
    "sample_weight": ("weight", "site", None),
    "library": ("pandas", "polars", "pyarrow", None),
    "state_dict": (
        Made(lambda make: _count_labels(make).state_dict()),
        Made(lambda make: _count_labels(np.asarray).state_dict()),
    ),
    "a": (Made(_histogram),),
    "b": (Made(_histogram),),
    "other": (GIVEN["other"],),
    "display_labels": (None, ["a", "b"], ("0", "\u202e"), [0, 1], np.array(["x", "y"])),
    "labels": ([0, 1], [1, 0, 5], ["a", "1"], [b"1", b"0"], Made(lambda make: make(np.array([1, 0]))), [2**63]),
    "average_over": ([0, 1], [1, 0, 5], ["a", "1"], [b"1", b"0"], [2**63]),
    "alpha": (0.1, 0.5, [0.05, 0.2], (1 / 3,), np.array([0.25, 0.7]), np.float32(0.1), Fraction(1, 7), Decimal("0.2")),
    "lam": (0, 0.0, 0.125),
    "k_reg": (0, 1, 100),
    "top": (0.5, 1, 3.0, 1e300),
    "axis": (0, -1),
    "pairs": ([(0, 1)], [[0, 1], (1, 1)], np.array([[1, 0]])),
    "sets": (Made(_some_sets),),
    "ccms": (Made(_shared), Made(lambda make: [_shared(make).sum(0)] * 2)),
    "weights": ("row", "bi", ["row", "bi"], [], Made(lambda make: make(M)), Made(lambda make: make(np.stack([M, M])))),
    "index": (0, 1, -1, np.int8(1), (0,)),
    "classes": ((0, 1), [1, 0], np.array([0, 1])),
    "levels": (1, 3),
    "beta": (0, 0.5, 2, 1e-300, 1e300, math.inf),
    "ignore_index": (None, 0, 1, -100, 255, np.int8(1), 2**63 - 1, 2**64 - 1, [0, 255], (1, -1, 0), []),
    "sample_axes": (None, 1, 2),
    "sparse": (False,),
    "pos_label": (None, 0, 1, np.int8(1), -1, 7),
    "cost": ([[0, 1], [2, 0]], np.ones((2, 2))),
    "margins": (
        Made(lambda make: [(0, make(ONES)), ((1,), make(np.array([0.5, 1.5])))]),
        Made(lambda make: [((1, 0), make(M.T)), ((), make(np.array(M.sum())))]),
    ),
    "ndim": (None, 2, np.int8(2)),
    "importance": (None, 2, 0.5, [1.0, math.inf], math.inf),
    "shape": (None, (2, 2), [2, np.int8(2)]),
    "values": (0.5, -1, math.nan, [0.1, 0.9], np.array([[0.5]])),
    "categories": ([0, 1], (0.0, 1.0), np.array([0, 1])),
    "iou_threshold": (0.5, 1, 1e-300, np.float32(0.25)),
    "score_threshold": (None, 0.5, 0, -1),
    "targets": (Made(lambda make: {"boxes": make(BOXES), "labels": make(np.array([0, 1]))}),),
    "predictions": (Made(lambda make: {"boxes": make(BOXES), "labels": make(np.array([0, 1]))}),),
    "missing": (None, -1, np.int8(1), math.nan),
}

NO_PAIRS = (None, 3, "x", [1], np.ones(2), {})
NO_COLUMN = (None, 3, True, 1.5, "nonsense", b"label", ["label"], {})
NO_GRID = (3, "scott", None, M)


class Same:
    """An estimator that predicts what it is given."""

    def predict(self, X: Any) -> Any:
        """Return `X`."""
        return X


COUNTED: dict[str, Any] = {"arrays": {"groups": None}, "free": ("groups",)}  # groups are labels of any kind
NO_LABELS = {"pos_label": ("ill", 1.5, 2**63)}  # of counts of integers, where True is 1
OF_CLASSES = {"free": ("pos_label", "average_over")}  # of the labels, not of their places
PICTURED: dict[str, Any] = {
    "batch": (),
    "others": {"names": None},
    "free": ("display_labels", "groups", "order", "names", "paired", "ax"),
}
PLOTTED = {"free": ("text", "log", "own_diagonal", "colorbar", "vmin", "vmax", "values_format")}
OF_SHARES: dict[str, Any] = {
    "wrong": {
        "lam": (*NO_NUMBER, -0.5, 0.5, None),  # of "aps"
        "rng": (0, 1.5, "3"),  # ignored with u
    },
}
NO_THRESHOLD = {
    "iou_threshold": (*NO_NUMBER, 0, -0.5, 1.5, None),
    "score_threshold": NO_NUMBER,
}
DETECTED: dict[str, Any] = {
    "others": {
        name: Made(lambda make: [{"boxes": make(BOXES), "labels": make(np.array([0, 1])), "scores": make(ONES)}])
        for name in ("targets", "predictions")
    }
    | {"n_classes": 2},
    "arrays": dict.fromkeys(("targets", "predictions", "labels", "groups")),
    "wrong": {
        **NO_THRESHOLD,
        "n_classes": tuple(value for value in integers(1) if value is not None),
        **dict.fromkeys(("targets", "predictions"), (None, 3, "x", [1], np.ones(2), {}, [{"boxes": 3}])),
    },
    "free": ("labels", "groups"),  # tests/detection/test_api.py
}
ABOUT_RATINGS: dict[str, Any] = {"names": ["fleiss_kappa"], "on_failure": "ignore"}
NO_COEFFICIENTS: dict[str, Any] = {
    "names": (3, True, None, "nonsense", ["nonsense"], [3], {"fleiss_kappa": 1}, b"fleiss_kappa", [None], "kappa"),
    "weights": (
        "nonsense",
        3,
        True,
        None,
        [["row"]],
        {},
        b"ordinal",
        [[0.0, 1.0]],
        [[1j, 0], [0, 0]],
        1.5,
        [[0, 1], [2, 0]],
        [[1, 0], [0, 1]],
        [[0, -1], [-1, 0]],
        np.zeros((3, 3)),
        [[0, math.nan], [math.nan, 0]],
    ),
    "categories": (3, [], [0, 0], [[0, 1]], "ab", True, {}, [None], [1j], [math.nan, 1.0], ["a", "b"], [0, math.inf]),
    "missing": (True, b"x", "x", 1j, [1], {}, np.array([1, 2])),
    "on_failure": ("nonsense", 1),
}
LABELLED = {"y_true": np.eye(3, dtype=int), "y_pred": np.tri(3, dtype=int), "sample_weight": np.ones(3)}
OF_MARGINS: dict[str, Any] = {
    "smoothing": (*NO_NUMBER, 0, -1.0, "pseudo-bayes"),
    "importance": ("1", b"1", 1j, math.nan, True, 0, -1.0, [1.0, 0.0], [1.0] * 3, [[1.0, 1.0]], {}, (x for x in ())),
}
NO_SHAPE = (3, "ab", b"ab", [2], [2, 2, 2], [-1, 2], [0.5, 2], [1, 2], [2, 1], [3, 2], [True, 2], {})
WITHOUT_TARGET: dict[str, Any] = {"wrong": {"target": (M, [[1]], "x", 0, False)}}  # contradicts the other argument
COUNTED_M: dict[str, Any] = {"arrays": {"M": COUNTS}, "wrong": {"n": integers(0)}}

NO_AXES = (*NO_INTEGER, -1, 2, (), (0, 0), (0, 2), (0, 1, 0), [[0]], "01", {})

# Options that accept any value, or that have tests of their own.
FREE = frozenset(("ax", "clusters", "curve", "estimator", "key", "most", "parts", "process_group", "result", "strata"))
# By callable, in what it differs; an array or a value that is None is not given.
SPECIAL: dict[str, dict[str, Any]] = {
    "confusion_matrix": {"batch": ("sample_weight",), "wrong": {"labels": (*NO_LABELS, ["a", "b"])}},
    "importance_weights": {"others": {"method": "row"}, **WITHOUT_TARGET},
    "estimate_for_target": {"arrays": {"M": 20 * M}, **WITHOUT_TARGET},
    "ScalingResult.plot": {"of": lambda make: cmfast.ipf(make(M)).plot},  # of one matrix
    "TargetEstimate.plot": {"of": lambda make: cmfast.estimate_for_target(make(20 * M), class_shares=make(ONES)).plot},
    "Symmetry.plot": {"of": lambda make: cmfast.uncertainty.bowker(make(M)).plot},  # of one table
    "MarginsResult.plot": {"wrong": {"axes": NO_AXES}},
    "RoundedTable.plot": {"wrong": {"axes": NO_AXES}},
    "ipf_nd": {"wrong": OF_MARGINS},
    "ipf_cells": {
        "others": {"margins": Made(lambda make: [(0, make(np.array([5.0, 4.0]))), ((1,), make(np.array([4.0, 5.0])))])},
        "wrong": {**OF_MARGINS, "margins": (*NO_MARGINS, [(2, ONES)]), "shape": NO_SHAPE},
    },
    "rake": {
        "arrays": {"weights": np.ones(3)},
        "others": {"names": None},
        "batch": ("targets", "weights"),
        "free": ("method", "bounds", "importance", "names", "groups"),  # tests/margins/test_rake{,_groups}.py
    },
    "RakeResult.estimate": {
        "of": lambda make: cmfast.rake(make(np.ones((3, 1))), make(np.array([6.0]))).estimate,
        "arrays": {"values": np.array([4.0, 1.0, 3.0])},
        "wrong": {
            "where": ("x", 3, True, [], [0.5], np.ones(3), {}),
            "fpc": (True, "x", -1, 0, math.nan, math.inf, 1j, [], [1.0], {}, {0: 9}),
        },
        "free": ("where", "fpc", "kind"),  # tests/margins/test_estimates.py
    },
    "balance": {
        "others": {"symmetric": "upper"},
        "wrong": {
            "A": (None, 3, "x", [], (1, 2), np.ones((2, 3)), (*NEAR, -1), (*NEAR, 1.5), (NEAR[0], *NEAR[:2], 3, 4)),
            "symmetric": (None, True, "lower", 1),
        },
        "free": ("keep", "blocks", "trans_blocks", "mad_blocks", "ignore_diags", "min_nnz", "min_count", "mad_max"),
    },
    "round_to_margins": {
        "arrays": {"M": M / 2.0},
        "others": {"axes": [(0,), 1]},
        "wrong": {"axes": (3, "x", [], {}, [0.5], [(0, 0)], [-1], [32])},
        "free": ("rng",),
    },
    "agreement.compute": {
        "arrays": {"ratings": GRADED}, "others": {**ABOUT_RATINGS, "categories": [0, 1]}, "wrong": NO_COEFFICIENTS,
    },
    "agreement.from_counts": {
        "arrays": {"counts": np.array([[3, 0], [1, 2], [0, 3], [2, 1]])}, "others": ABOUT_RATINGS,
        "wrong": {**NO_COEFFICIENTS, "names": (*NO_COEFFICIENTS["names"], "conger_kappa", ["light_kappa"])},
    },
    "detection.match": {
        "arrays": {
            "boxes_true": BOXES, "boxes_pred": BOXES[::-1].copy(), "scores": np.array([0.5, 0.75]),
            "labels_true": np.array([0, 1]), "labels_pred": np.array([1, 0]), "iscrowd": np.array([0, 1]),
        },
        "wrong": NO_THRESHOLD,
    },
    "detection.confusion_matrix": DETECTED,
    "detection.count": DETECTED,
    "agreement.grade": {
        "arrays": {"values": None},
        "others": {"values": 0.5},
        "wrong": {"values": (None, "x", b"x", {}, 1j, [[1], [1, 2]], [1j], ["a"], (x for x in ()))},
    },
    "uncertainty.auc_covariance": {
        "arrays": {"y_score": TWO_SCORES},
        "wrong": {"max_fpr": (*NO_NUMBER, 0, -1.0, 1.5), "name": (3, True, None, "f1", "auc", ["roc_auc"])},
        "free": ("clusters", "name", "max_fpr"),  # tests/uncertainty/test_area_influences.py
    },
    "uncertainty.resample": COUNTED_M,
    "uncertainty.posterior": COUNTED_M,
    "uncertainty.standard_error": {**COUNTED_M, "free": ("of",)},
    "uncertainty.interval": {
        "arrays": {**COUNTED_M["arrays"], "sample_weight": None},  # weights are of scores
        "wrong": COUNTED_M["wrong"],
        "free": ("of", "method", "scheme", "sample_weight"),
    },
    "uncertainty.paired_counts": {"arrays": {"groups": None}, "free": ("groups",)},  # labels of any kind
    "uncertainty.compare": {
        "arrays": {"sample_weight": None},
        "wrong": {"T": NO_PAIRS, "n_resamples": integers(2), **NO_LABELS},
        "free": ("sample_weight",),
    },
    "uncertainty.compare_groups": {
        "arrays": {"M": OF_GROUPS, "sample_weight": None},  # weights are of labels
        "wrong": {"n_resamples": integers(2), "reference": (2, -1, "a", 0.5, [], {})},
        "free": ("sample_weight",),
    },
    "uncertainty.compare_many": {
        "wrong": {
            "counts_by_pair": (None, 3, "x", [1], {"a": 1}, {("a", "b"): 3}), "n_resamples": integers(2),
            **NO_LABELS,
        },
    },
    "uncertainty.equivalence": {
        "others": {"name": "accuracy"},
        "wrong": {"T": NO_PAIRS, "confidence_level": (*WRONG["confidence_level"], 0.5), **NO_LABELS},
    },
    "display.ComparisonDisplay.from_comparisons": {
        "wrong": {"comparisons": (None, 3, "x", {}, [], [1], {"f1": 3}, np.ones(2))}
    },
    "uncertainty.mcnemar": {"wrong": {"T": NO_PAIRS}},
    **{name: {"arrays": {"A": M, "B": M}} for name in ("overlap", "l1_distance", "kl_divergence")},
    "uncertainty.bowker": {"arrays": {"T": COUNTS}},
    "uncertainty.stuart_maxwell": {"arrays": {"T": COUNTS}},
    "conformal.scores": OF_SHARES,
    "conformal.prediction_sets": OF_SHARES,
    "conformal.threshold": {  # weights are an alternative to y; groups leave cells without scores
        "arrays": {"groups": None, "sample_weight": None, "new_weight": None},
        "free": ("groups", "sample_weight", "new_weight"),
    },
    "conformal.score_histogram": {"batch": ("s",), "wrong": {"bins": integers(1, most=2**28)}},
    "display.CcmDisplay.from_sets": {"wrong": {"index": integers(0, most=1)}},
    "conformal.CcmCounts.correlation": {"wrong": {"undefined": ("strict", "one", 0.25)}, "free": ("undefined",)},
    "cell_counts": {"wrong": {"grid": NO_GRID}},
    "sparse_histogram": {"wrong": {"grid": NO_GRID}},
    "geometric_confusion_matrix": {"others": {"weights": "row"}},
    "width_curve": {"others": {"weights": "row"}},
    "diagnose": {"others": {"weights": "row"}},
    "min_overlap": {"wrong": dict.fromkeys("ab", (None, 3, "x", [1], np.ones(2)))},
    "pca": {"others": {"n_components": 1}, "wrong": {"n_components": integers(1)[:-1]}},
    "PcaAccumulator.add": {"wrong": {"other": (None, 3, "x", [1], np.ones(2))}},
    "PcaAccumulator.projection": {
        "of": lambda make: cmfast.PcaAccumulator().update(make(X)).projection, "others": {"n_components": 1},
        "wrong": {"n_components": integers(1)[:-1]},
    },
    "Grid": {"arrays": {"origin": np.zeros(2), "width": np.ones(2)}, "host": True},
    "Grid.regular": {"wrong": {"bins": (*WRONG["bins"], [1, 2, 3])}},
    "CellAccumulator": {"wrong": {"n_classes": integers(1), "grid": NO_GRID}},
    "CellCounts.deal": {"wrong": {"n_parts": integers(1, most=2**16)}},
    "contingency.chance_level": {
        "wrong": {"share": (True, "1", -0.1, 1.5, math.nan, None, [0.5, 2], [[1], [1, 0]], {}, 1j)},
    },
    "contingency.convex_hull": {"host": True},
    "contingency.metric_surface": {"wrong": {"grid": NO_NAME}},
    "contingency.learning_path": {"arrays": {"M": np.stack([M, M])}, "wrong": {"name": (*WRONG["name"], "recall")}},
    "display.SurfaceDisplay.from_metric": {"wrong": {"r": (*WRONG["r"], [1.0, 2.0])}},
    "display.SurfaceDisplay.plot": {"wrong": {"levels": integers(1)}},
    "display.PathDisplay.from_matrices": {
        "arrays": {"M": np.stack([M, M])},
        "wrong": {
            "classes": (3, None, (0,), (0, 0), (0, 2), "01", (0.5, 1), [0, 1, 1], (0, True), {0: 1, 1: 2}, 2**63)
        },
    },
    "report": {
        "arrays": {"groups": None},
        "free": ("groups", "labels", "embeddings", "scores", "title"),  # these have tests of their own
    },
    "HtmlReport.save": {"others": {"path": PAGE}},
    "display.ConfusionDisplay.from_matrix": {**PICTURED, "arrays": {"M": COUNTS}},
    "display.ConfusionDisplay.from_predictions": PICTURED,
    "display.ConfusionDisplay.from_estimator": {
        **PICTURED,
        "arrays": dict.fromkeys(("X", "y", "sample_weight")),
        "others": {"estimator": Same(), "X": Made(lambda make: make(GUESS)), "y": Made(lambda make: make(TRUTH))},
        "free": (*PICTURED["free"], "X", "y", "sample_weight"),
    },
    "display.ConfusionDisplay.compare": {**PICTURED, "arrays": {"A": COUNTS, "B": COUNTS.T.copy()}},
    "display.ConfusionDisplay.plot": PLOTTED,
    "display.DifferenceDisplay.plot": PLOTTED,
    "display.StripDisplay.from_matrices": {**PICTURED, "arrays": {"M": np.stack([COUNTS, COUNTS])}},
    "display.StripDisplay.plot": PLOTTED,
    "display.CellsDisplay.from_matrices": {**PICTURED, "arrays": {"M": np.stack([COUNTS, COUNTS])}},
    "display.GcmDisplay.from_result": {"free": ("display_labels",)},
    "ConfusionCounts.from_labels": COUNTED,
    "ConfusionCounts.update": {**COUNTED, "of": lambda make: cmfast.ConfusionCounts().update},
    "ConfusionCounts.compute": OF_CLASSES,
    "ConfusionCounts.table": OF_CLASSES,
    "ConfusionCounts.interval": {
        "others": {"on_failure": "ignore"},
        "wrong": {"on_failure": ("nonsense", 1)},
        "free": (*OF_CLASSES["free"], "method"),
    },
    "ConfusionCounts.bi_normalize": {"others": {"smoothing": 0.5}},
    "ConfusionCounts.plot": {"free": (*PLOTTED["free"], "order")},
    "ConfusionCounts.group": {
        "of": lambda make: cmfast.ConfusionCounts.from_labels(make(TRUTH), make(GUESS), groups=make(TRUTH)).group,
    },
    "by": {
        "others": {"groups": "site"},
        "wrong": dict.fromkeys(("y_true", "y_pred", "sample_weight"), NO_COLUMN),
    },
    "metrics.from_labels": {"others": {"names": ["accuracy"]}, **OF_CLASSES},  # of labels that counting finds
    "metrics.multilabel": {"arrays": LABELLED, "others": {"names": ["f1_macro"]}, "batch": ("sample_weight",)},
    "metrics.multilabel_tables": {"arrays": LABELLED},
    "metrics.classification_report": {"batch": ()},
    "Confusions.explain": {
        "others": {"display_labels": ["a", "b", "c"]},
        "wrong": {"display_labels": ("abc", ["a"], 3, [["a", "b", "c"]])},
    },
    "metrics.one_vs_rest": {
        "wrong": {"classes": (3, "ab", [], [0, 0], [2], [-1], [0.5], [[0]], {}, [None], 1.5)},
    },
    "metrics.collapse": {"free": ("groups",)},
    "metrics.tau_weighted": {"arrays": {"weights": ONES}, "host": True},
    "metrics.kappa": {"arrays": {"weights": np.array([[0.0, 1.0], [2.0, 0.0]])}},
    "metrics.fbeta": {"wrong": {"beta": (*NO_NUMBER[:4], *LISTS, math.nan, -1.0, -math.inf, None)}},
}  # fmt: skip

# What methods take that all classes of results or states have: it is made of an object of their own.
OF_THEIR_OWN: dict[str, Callable[[Any], Any]] = {
    "parts": lambda one: [one] * 2,
    "data": lambda one: one.to_bytes(),
    "text": lambda one: one.to_json(),
    "state_dict": lambda one: one.state_dict(),
}


def _save(one: Any) -> str:
    one.save(FILE)
    return FILE


def _takes_array(p: inspect.Parameter) -> bool:
    """Whether the annotation is `Array`, which is Any, or has it as a member, and the name is that of an array."""
    return p.name in ARRAYS and Any in list_members(p.annotation)


def _choose(name: str, p: inspect.Parameter) -> Any:
    """Return what the callable `name` is given for `p`, which takes no array; None leaves it out."""
    owner, _, method = name.rpartition(".")
    if p.name in QUICK or p.default is not p.empty:
        return QUICK.get(p.name)
    make_own = _save if (method, p.name) == ("load", "path") else OF_THEIR_OWN.get(p.name)
    if make_own:
        return Made(lambda make: make_own(OBJECTS[owner](make)))
    if p.name not in GIVEN:
        msg = f"say in ARRAYS or GIVEN what {name} is given for {p.name}"
        raise KeyError(msg)
    return GIVEN[p.name]


def derive(name: str, function: Callable[..., Any]) -> Entry:
    """Return how the callable `name` is called: as its signature says, and otherwise as `SPECIAL`."""
    owner, _, last = name.rpartition(".")
    is_class = inspect.isclass(function)
    is_method = not is_class and bool(owner) and inspect.isclass(find_public(owner))
    alias = "" if is_class or function.__name__ == last else f"{owner}.{function.__name__}"
    special = {"arrays": {}, "others": {}, **SPECIAL.get(alias or name, {})}
    is_bound = not is_method or inspect.ismethod(function)
    some = list(inspect.signature(function).parameters.values())[0 if is_bound else 1 :]
    named = [p for p in some if p.kind != p.VAR_KEYWORD]
    hints = {p.name: p.annotation for p in named} | ({} if named == some else BiOptions.__annotations__)
    own = special["arrays"]
    arrays = {p.name: own.get(p.name, ARRAYS.get(p.name)) for p in named if p.name in own or _takes_array(p)}
    arrays = {array: value for array, value in arrays.items() if value is not None}
    others = {p.name: _choose(name, p) for p in named if not (p.name in arrays or p.name in special["others"])}
    others |= special["others"]
    none = {p.name for p in named if p.default is None}
    none |= {option for option, hint in hints.items() if type(None) in list_members(hint)}
    none -= {option for option, value in special["others"].items() if value is not None}  # which it needs after all
    return Entry(
        special.get("of")
        or ((lambda make: function) if is_bound else lambda make: getattr(OBJECTS[owner](make), last)),
        hints,
        arrays,
        {option: value for option, value in others.items() if value is not None},
        optional=frozenset(none.intersection(arrays)),
        none=frozenset(none),
        batch=frozenset(special.get("batch", BATCHES)).intersection(arrays),
        wrong=special.get("wrong", {}),
        free=FREE.union(special.get("free", ())).intersection(hints),
        host=special.get("host", False),
        name=alias,
        parameters=tuple(p.name for p in named),
    )


ENTRIES = {name: derive(name, function) for name, function in public() if name not in RECORDS}


def get_message_name(name: str) -> str:
    """Return the name of a callable in messages."""
    return ENTRIES[name].name or name


def tensors(array: np.ndarray) -> torch.Tensor:
    """Return a tensor with the values of `array`."""
    return torch.from_numpy(np.array(array))


def arrays_of_a_namespace(array: np.ndarray) -> Any:
    """Return an array of another namespace with the values of `array`."""
    return array_api_strict.asarray(np.array(array))
