"""Every public callable: how to call it, what it takes, and what it must not take. One entry each, none left out."""

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
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, get_origin

import numpy as np
import pandas as pd
from optional import array_api_strict, torch

import cmfast

NAMESPACES = {"": cmfast, "metrics.": cmfast.metrics, "contingency.": cmfast.contingency}
NAMESPACES |= {"uncertainty.": cmfast.uncertainty}
NAMESPACES |= {"conformal.": cmfast.conformal}
NAMESPACES |= {"display.": cmfast.display}

# What only holds results or codes: cmfast makes them, and what they are made of was checked then.
RECORDS = {
    "Certificate", "GcmDiagnostics", "GcmResult", "Projection", "ScalingResult", "SparseHistogram", "Status", "Support",
    "MarginsResult", "MarginsSupport", "RakeResult", "BalanceResult", "RoundedTable",
    "WidthCurve", "CellCounts", "HtmlReport", "DiagnosticWarning", "FailureError", "FailureWarning", "TargetEstimate",
    "contingency.Hull",
    "contingency.LearningPath", "contingency.PathDisplay", "contingency.Sensitivity", "contingency.SurfaceDisplay",
    "uncertainty.Interval", "uncertainty.Intervals", "uncertainty.Posterior",
    "metrics.Confusions", "metrics.Margins", "metrics.Metric", "metrics.Report", "metrics.ThresholdMatrices",
    "metrics.Collapsed", "metrics.LeastCost", "metrics.PrecisionRecall", "metrics.Roc",
    "conformal.CcmCounts", "conformal.CoverageCounts", "conformal.PredictionSets", "conformal.ScoreHistogram",
    "conformal.CcmDisplay", "conformal.SizeCoverage",
    "uncertainty.Comparison", "uncertainty.ComparisonDisplay", "uncertainty.Comparisons", "uncertainty.Flip",
    "uncertainty.McNemar", "display.ConfusionDisplay", "display.DifferenceDisplay",
    "display.CellsDisplay", "display.GcmDisplay", "display.StripDisplay",
    "uncertainty.Equivalence", "uncertainty.PairedCounts", "uncertainty.Symmetry",
}  # fmt: skip

# What needs a library that is not installed.
NOT_HERE = set() if find_spec("xarray") else {"ConfusionCounts.to_xarray"}

Make = Callable[[np.ndarray], Any]


def is_called(thing: object) -> bool:
    """Whether it is a function or a class, and not a type of names, which Python calls callable too."""
    return callable(thing) and get_origin(thing) is None


def public() -> Iterator[tuple[str, Any]]:
    """Yield the name of every public callable, and itself: functions, classes, their public methods."""
    for prefix, space in NAMESPACES.items():
        for name in space.__all__:
            thing = getattr(space, name)
            if not is_called(thing) or (prefix == "display." and not thing.__module__.startswith("cmfast.display")):
                continue  # pictures of one topic are that topic's, and named after it
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
    """How to call one function; everything here is right, so that whatever a test puts in its place is the fault."""

    of: Callable[[Make], Callable[..., Any]]
    """The function, or the method of an object whose arrays `make` makes."""
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    """All its arrays, by name."""
    others: dict[str, Any] = field(default_factory=dict)
    """What else it needs; a `Made` is made first."""
    optional: frozenset[str] = frozenset()
    """Arrays that None may stand for."""
    batch: frozenset[str] = frozenset()
    """Arrays whose leading axes are a batch, whose elements do not see each other."""
    wrong: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """What its options must not be, where that is not what options of that name must not be anywhere."""
    free: frozenset[str] = frozenset()
    """Options that any value is right for, or that another test looks at."""
    host: bool = False
    """Arrays are metadata on the host: whatever becomes a NumPy array will do."""
    name: str = ""
    """How messages call it, where that is not its own name (an alias)."""


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


def options(entry: Entry) -> list[str]:
    """Return the names of all arguments that are no arrays."""
    some = inspect.signature(entry.of(np.asarray)).parameters.values()
    return [p.name for p in some if p.kind != p.VAR_KEYWORD and p.name not in entry.arrays]


def wrong(entry: Entry, option: str) -> tuple[Any, ...]:
    """Return what `option` must not be."""
    return entry.wrong[option] if option in entry.wrong else WRONG[option]


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
    "positive": (0,),
}


def _is_wrong(entry: Entry, option: str, value: Any) -> bool:
    return isinstance(value, str | float) and value in [one for one in wrong(entry, option) if type(one) is type(value)]


def ways(entry: Entry) -> list[dict[str, Any]]:
    """Return the options that lead to different ways through a function, all of them right."""
    some = inspect.signature(entry.of(np.asarray)).parameters
    found: list[dict[str, Any]] = [{}]
    names = [name for name in OTHERWISE if name in some]
    found += [{name: value} for name in names for value in OTHERWISE[name] if not _is_wrong(entry, name, value)]
    if any(p.kind == p.VAR_KEYWORD for p in some.values()):  # those of ipf
        found += [{"method": "bi"}, *({"method": "bi", **one} for one in OPTIONS_OF_IPF)]
    elif "smoothing" in some and "solver" in some:
        found += OPTIONS_OF_IPF
    return found


LISTS = ([1, 2], np.array([1, 2]), {}, (x for x in ()))
NO_INTEGER = (1.5, True, np.True_, "3", b"3", math.nan, 1j, *LISTS)
NO_NUMBER = (True, "1", b"1", 1j, math.nan, math.inf, 10**400, 10**5000, *LISTS)
NO_BOOL = ("False", "", 2, 0.0, None, math.nan, *LISTS)
NO_NAME = (3, True, None, 2**63, 1.5, "nonsense", b"row", ["row"], {})


def integers(least: int, *, none: bool, most: int | None = 2**63 - 1) -> tuple[Any, ...]:
    """Return what an integer of at least `least` is not."""
    above = () if most is None else (most + 1, 10**5000)
    return (*NO_INTEGER, least - 1, -(2**63) - 1, *above, *(() if none else (None,)))


COUNT = integers(0, none=True)
NO_COST = (3, None, "ab", [], [[1, 2]], [[math.nan, 1], [1, 1]], [["a", "b"], ["c", "d"]], {})
NO_ALPHA = (True, "0.1", b"1", 1j, math.nan, math.inf, 10**400, 0, 1, 1.0, -0.5, 2.5, None, {}, [], [0.1, 2.0], [True])
NO_ALPHA += ([[0.1]], (x for x in ()), np.ones(2), np.zeros((2, 2)), ["a"], Fraction(3, 2), Decimal("nan"))
# By option. What is large but right, as num_threads of 2**70 or a seed of 200 bits, is not here.
WRONG: dict[str, tuple[Any, ...]] = {
    "num_threads": integers(1, none=True, most=None),
    "n_classes": COUNT,
    "n_groups": COUNT,
    "n_parts": integers(1, none=True, most=2**16),
    "n_components": integers(1, none=False),
    "n_replicates": integers(0, none=False),
    "n": integers(1, none=True),
    "n_draws": integers(0, none=False),
    "above": (*NO_NUMBER, None),
    "prior": ("nonsense", -1, math.nan, [1.0, 2.0], [[-1.0, 0], [0, 0]], True, {}, None),
    "k": integers(1, none=False),
    "size": integers(1, none=False),
    "origins": integers(1, none=False),
    "max_iter": integers(1, none=True, most=None),
    "positive": integers(0, none=False, most=1),
    "rng": integers(0, none=False, most=None),
    "max_bytes": integers(1 << 20, none=False, most=None),
    "bins": (1.5, True, "3", 0, [0, 1], [1], [1.5, 1], None, math.nan, [], {}, 2**63, [True]),
    "tol": (*NO_NUMBER, 0, -1.0, None),
    "v": (*NO_NUMBER, 0, -1.0, None),
    "r": (True, "1", 0, -1, math.nan, math.inf, None, "x", [0.0], [[1], [1, 2]], {}, 10**400, 1j, [None]),
    "points_per_cell": (*NO_NUMBER, 1.0, 0, None),
    "factor": (*NO_NUMBER, 0, -1.0, None),
    "fraction": (*NO_NUMBER, None),
    "smoothing": (*NO_NUMBER, 0, -1.0, "laplace"),
    "on_failure": NO_NAME,
    "undefined": (*NO_NAME, -0.5, math.nan, math.inf),
    "method": NO_NAME,
    "solver": NO_NAME,
    "precision": NO_NAME,
    "empty": NO_NAME,
    "scheme": NO_NAME,
    "test": NO_NAME,
    "fixed": NO_NAME,
    "by": NO_NAME,
    "rule": NO_NAME,
    "average": tuple(value for value in NO_NAME if value is not None),
    "metric": (*NO_NAME, "scalars", "fbeta_x", "fbeta_-1", "fbeta_nan"),
    "names": (3, True, "nonsense", ["nonsense"], [3], {"mcc": 1}, b"mcc", [None], "fbeta_x", "fbeta_nan"),
    "name": (3, True, None, "nonsense", ["mcc"], b"mcc"),
    "ignore_index": tuple(value for value in integers(-(2**63), none=True)),
    "sample_axes": integers(1, none=True),
    "whole_floats": NO_BOOL,
    "sparse": NO_BOOL,
    "logits": NO_BOOL,
    "samplewise": NO_BOOL,
    "drop_ties": NO_BOOL,
    "pos_label": (1.5, True, math.nan, 1j, "ill", b"1", *LISTS, 2**63),
    "average_over": (3, True, "ab", b"ab", [], [0, 0], [2], [-1], [0.5], [True], [[0]], {}, [None], [2**63], 1.5),
    "normalize": tuple(value for value in NO_NAME if value is not None),
    "rescale": NO_BOOL,
    "progress": (3, "yes", [1], 0, 1.5, {}),
    "start": (3, "x", (1,), (None, None), [np.ones(2)], {}, np.ones((2, 2)) > 0),
    "factors": (1.5, "x", [], [0.0], [-1], [True], None, ["1"], [math.nan], 2**63, {}),
    "grid": (3, "nonsense", None, ["scott"], 1.5, True),
    "directory": (3, 1.5, True, [1], {}),
    "path": (None, 1.5, [1], {}, io.StringIO("{}")),
    "data": (None, "{}", 3, [1], {}, b"", b"PK"),
    "text": (None, 3, [1], {}, "", "[]", "{}", b"\xff"),
    "frame": (None, 3, "x", [1], {"label": [1]}, np.ones(2)),
    "kind": NO_NAME,
    "margin": (*NO_NUMBER, 0, -0.5, None),
    "level": (*NO_NUMBER, 0, 1, 1.5, -0.5, None),
    "keys": (None, 3, [], ["nonsense"], "nonsense", [3], ["site", "site"], {}, b"site"),
    "library": tuple(value for value in NO_NAME if value is not None),
    "state_dict": (None, 3, "x", [1], {}, {"classes": 3}),
    "cells": (None, 3, "x", [1], np.ones(2)),
    "alpha": NO_ALPHA,
    "randomised": NO_BOOL,
    "lam": (*NO_NUMBER, -0.5, 1e6, None),
    "k_reg": integers(0, none=False, most=2**31),
    "top": (*NO_NUMBER, 0, -1.0, None),
    "axis": (*NO_INTEGER, None, 2, -3, 2**70),
    "order": NO_NAME,
    "pairs": (None, 3, "x", [], [1], [(0, 2)], [(-1, 0)], [(0, 1, 1)], [(0.5, 1)], [(True, 1)], {}, [None]),
    "sets": (None, 3, "x", [1], np.ones(2)),
    "ccms": (None, 3, "x", [], [1], np.ones(2)),
    "class_names": (True, 3, "ab", b"ab", ["a"], ["a", "a"], {"a": 1, "b": 2}, ["a", None]),
}

M = np.array([[4.0, 1.0], [2.0, 3.0]])
COUNTS = np.array([[4, 1], [2, 3]])
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


def _counted(make: Make) -> cmfast.ConfusionCounts:
    return cmfast.ConfusionCounts.from_labels(make(TRUTH), make(GUESS))


def _paired(make: Make, **options: Any) -> cmfast.uncertainty.PairedCounts:
    return cmfast.uncertainty.paired_counts(make(TRUTH), make(GUESS), make(TRUTH[::-1]), **options)


def _paired_in_clusters(make: Make) -> cmfast.uncertainty.PairedCounts:
    return _paired(make, clusters=["a", "b", "b", "c"])


def _some_sets(make: Make) -> cmfast.conformal.PredictionSets:
    return cmfast.conformal.prediction_sets(make(SHARES), make(np.array([0.7, math.inf])), randomised=False)


def _shared(make: Make) -> cmfast.conformal.CcmCounts:
    return cmfast.conformal.ccm(_some_sets(make))


def _covered(make: Make) -> cmfast.conformal.CoverageCounts:
    return cmfast.conformal.coverage_confusion(_some_sets(make), make(TRUTH))


def _score_histogram(make: Make) -> cmfast.conformal.ScoreHistogram:
    return cmfast.conformal.score_histogram(make(X), bins=4)


def _compared(make: Make) -> cmfast.uncertainty.Comparison:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)  # of few samples that differ
        return cmfast.uncertainty.compare(_paired(make), "f1", n_replicates=20)


def _all_compared(make: Make) -> cmfast.uncertainty.Comparisons:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        return cmfast.uncertainty.compare_many({("a", "b"): _paired(make)}, "f1", n_replicates=20)


STATES = {"CellCounts": _cells, "ConfusionCounts": _counted, "Grid": _grid, "Projection": _axes}
STATES |= {"uncertainty.PairedCounts": _paired_in_clusters}
STATES |= {"conformal.CcmCounts": _shared, "conformal.CoverageCounts": _covered}
STATES |= {"conformal.ScoreHistogram": _score_histogram}
FOLDER = tempfile.TemporaryDirectory(prefix="cmfast-tests-")
FILE = os.path.join(FOLDER.name, "cells.npz")  # noqa: PTH118  (as users write it)


def _saved(name: str) -> Callable[[Make], str]:
    def save(make: Make) -> str:
        STATES[name](make).save(FILE)
        return FILE

    return save


def _of_state(name: str, of: Callable[[Make], Any]) -> dict[str, Entry]:
    """Return how the methods of a class are called that all states have."""
    kind = attrgetter(name)(cmfast)
    return {
        f"{name}.save": Entry(lambda make: of(make).save, others={"path": FILE}),
        f"{name}.load": _function(kind.load, others={"path": Made(_saved(name))}),
        f"{name}.to_bytes": Entry(lambda make: of(make).to_bytes),
        f"{name}.from_bytes": _function(kind.from_bytes, others={"data": Made(lambda make: of(make).to_bytes())}),
        f"{name}.to_json": Entry(lambda make: of(make).to_json),
        f"{name}.from_json": _function(kind.from_json, others={"text": Made(lambda make: of(make).to_json())}),
    }


def _intervals(make: Make) -> Any:
    one = cmfast.uncertainty.Interval(*(make(ONES) for _ in range(4)), make(COUNTS[0]))
    return cmfast.uncertainty.Intervals({"f1": one}, method="bca", level=0.95, n_replicates=9)


def _drawn(make: Make) -> Any:
    return cmfast.uncertainty.Posterior(np.asarray(make(M)))


def _histogram(make: Make) -> cmfast.SparseHistogram:
    return cmfast.sparse_histogram(make(X), grid=GRID)


def _stream(make: Make) -> cmfast.PcaAccumulator:
    return cmfast.PcaAccumulator().update(make(X))


def _embedded(make: Make, function: Callable[..., Any] = cmfast.geometric_confusion_matrix) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        return function(make(X), make(TRUTH), make(GUESS), weights="row")


def _function(function: Callable[..., Any], arrays: dict[str, np.ndarray] | None = None, **rest: Any) -> Entry:
    return Entry(lambda make: function, arrays or {}, **rest)


def _of_matrix(function: Callable[..., Any], M: np.ndarray = M, **rest: Any) -> Entry:
    return _function(function, {"M": M}, batch=frozenset({"M"}), **rest)


def _pair(function: Callable[..., Any], *names: str) -> Entry:
    return _function(function, dict.fromkeys(names, M), batch=frozenset(names))


def _of_nothing(make: Make) -> Callable[[int, int], None]:
    return lambda done, total: None


OF_CLUSTERS = frozenset({"clustered", "strata"})  # with which M has an axis more; they have tests of their own

# By option, what is right for it, if not together with everything else. Small, so that right answers are quick.
RIGHT: dict[str, tuple[Any, ...]] = {
    "A": (Made(lambda make: (*map(make, NEAR), 3)), Made(lambda make: (*map(make, NEAR), np.int8(3)))),
    "symmetric": ("upper",),
    "num_threads": (1, 2, np.int8(3), None, 2**70),
    "n_classes": (2, 3, np.array(2), np.uint64(4), None),
    "n_groups": (2, 5, np.int16(3), None),
    "n_parts": (1, 7, np.uint8(3), None),
    "n_components": (1, 2, 9, None),
    "n_replicates": (0, 1, 7),
    "n_draws": (0, 1, 7),
    "above": (0, 0.5, -1.0),
    "prior": ("unit", "perks", "haldane", "jeffreys", "laplace", 0, 2.5, [[1.0, 0.0], [0.5, 2.0]]),
    "n": (0, 1, 50, 2**53, None),
    "k": (1, 2, 100, 2**62),
    "size": (1, 2, 5),
    "origins": (1, 2),
    "max_iter": (1, 3, None),
    "positive": (0, 1, np.int64(0)),
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
    "on_failure": ("ignore", "raise", "warn"),
    "undefined": ("present", "nan", "strict", "zero", "one", 0, 1, np.float32(0.5)),
    "method": ("all", "row", "true", "col", "pred", "bi"),
    "target": (None,),
    "axes": ([0, 1], [(0,), 1], [(1, 0)], None),
    "solver": ("auto", "newton", "sinkhorn"),
    "precision": ("auto", "float64", "float32"),
    "empty": ("nan", "drop"),
    "scheme": ("multinomial", "row_multinomial", *OTHERWISE["scheme"]),
    "test": ("permutation", "interval"),
    "fixed": ("total", *OTHERWISE["fixed"]),
    "by": ("count", *OTHERWISE["by"]),
    "rule": ("gauss", "nodes", "midpoints"),
    "average": (None, *OTHERWISE["average"]),
    "metric": ("accuracy", "mcc", "f1", "fbeta_2", "recall", "kappa_quadratic"),
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
    "normalize": (None, True, False, "all", "row", "col", "bi"),
    "rescale": (True, False, np.True_),
    "progress": (None, False, Made(_of_nothing)),
    "start": (None, Made(lambda make: (make(ONES), make(2 * ONES))), Made(lambda make: [make(ONES), make(0 * ONES)])),
    "factors": ([0.5, 1], (2,), np.array([1.0, 1e-300])),
    "grid": (GRID, "scott", "freedman_diaconis", cmfast.Grid([0.5], [1e-300]), cmfast.Grid([-1e300, 0], [0.5, 1e300])),
    "directory": (None, "."),
    "path": ("cells.npz", "other.npz", "cells.json"),
    "data": (Made(lambda make: _cells(make).to_bytes()), Made(lambda make: bytearray(_grid(make).to_bytes()))),
    "text": (Made(lambda make: _cells(make).to_json()), Made(lambda make: _grid(make).to_json().encode())),
    "cells": (Made(_cells),),
    "T": (Made(_paired),),
    "comparisons": (Made(_compared),),
    "counts_by_pair": (Made(lambda make: {("a", "b"): _paired(make)}), {}),
    "margin": (0.5, 1e-300, 2),
    "level": (0.6, 0.95, np.float32(0.9)),
    "force": (True,),
    "title": (None, "", "</script>"),
    "groups": (None, ["a", "b", "a", "b"]),
    "embeddings": (None,),
    "scores": (None,),
    "kind": ("exact", "mid_p", "corrected"),
    "frame": (Made(lambda make: FRAME),),
    "keys": ("site", ["site"], ("site", "label")),
    "y_true": ("label", "site"),
    "y_pred": ("guess", "weight"),
    "sample_weight": ("weight", "site", None),
    "library": ("pandas", "polars", "pyarrow", None),
    "state_dict": (
        Made(lambda make: _counted(make).state_dict()),
        Made(lambda make: _counted(np.asarray).state_dict()),
    ),
    "a": (Made(_histogram),),
    "b": (Made(_histogram),),
    "other": (Made(_stream),),
    "parts": (Made(lambda make: [_cells(make)] * 2), Made(lambda make: iter([_cells(make)]))),
    "class_names": (None, ["a", "b"], ("0", "\u202e"), [0, 1], np.array(["x", "y"])),
    "labels": ([0, 1], [1, 0, 5], ["a", "1"], [b"1", b"0"], Made(lambda make: make(np.array([1, 0]))), [2**63]),
    "average_over": ([0, 1], [1, 0, 5], ["a", "1"], [b"1", b"0"], [2**63]),
    "alpha": (0.1, 0.5, [0.05, 0.2], (1 / 3,), np.array([0.25, 0.7]), np.float32(0.1), Fraction(1, 7), Decimal("0.2")),
    "q": (Made(lambda make: make(np.array([0.5, math.inf]))), Made(lambda make: make(np.ones((1, 2))))),
    "randomised": (True, False),
    "lam": (0, 0.0, 0.125),
    "k_reg": (0, 1, 100),
    "top": (0.5, 1, 3.0, 1e300),
    "axis": (0, -1),
    "order": ("high", "low"),
    "pairs": ([(0, 1)], [[0, 1], (1, 1)], np.array([[1, 0]])),
    "sets": (Made(_some_sets),),
    "ccms": (Made(_shared), Made(lambda make: [_shared(make).sum(0)] * 2)),
    "weights": ("row", "bi", ["row", "bi"], [], Made(lambda make: make(M)), Made(lambda make: make(np.stack([M, M])))),
    "index": (0, 1, -1, np.int8(1), (0,)),
    "classes": ((0, 1), [1, 0], np.array([0, 1])),
    "levels": (1, 3),
    "colorbar": (True, False),
    "ax": (None,),
    "beta": (0, 0.5, 2, 1e-300, 1e300, math.inf),
    "ignore_index": (None, 0, 1, -100, 255, np.int8(1), 2**63 - 1),
    "sample_axes": (None, 1, 2),
    "whole_floats": (True, False),
    "sparse": (False,),
    "logits": (False, True),
    "samplewise": (True, False),
    "drop_ties": (True, False),
    "pos_label": (None, 0, 1, np.int8(1), -1, 7),
    "cost": ([[0, 1], [2, 0]], np.ones((2, 2))),
    "margins": (
        Made(lambda make: [(0, make(ONES)), ((1,), make(np.array([0.5, 1.5])))]),
        Made(lambda make: [((1, 0), make(M.T)), ((), make(np.array(M.sum())))]),
    ),
    "ndim": (None, 2, np.int8(2)),
    "importance": (None, 2, 0.5, [1.0, math.inf], math.inf),
    "shape": (None, (2, 2), [2, np.int8(2)]),
}

TARGETS = {"M": M, "row_sums": ONES, "col_sums": ONES}
NEAR = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1.0, 2.0, 3.0])
PERSONS = np.array([[1.0, 0.5], [1.0, 2.0], [1.0, 1.0]])
LABELS = {"y_true": TRUTH, "y_pred": GUESS}
POINTS = {"X": X, **LABELS}
ONLY_BI = ("smoothing", "empty", "tol", "max_iter", "solver", "start")  # the **options of a normalisation
WEIGHTS_OF_CELLS = ("nonsense", 3, True, None, [["row"]], ["row", 3], {}, b"row", [[1.0, 2.0]], [[1j, 1], [1, 1]], 1.5)
NO_LABELS = (3, [], [0, 0], [[0, 1]], [0.5, 1.0], "ab", True, {}, [None], [1j])
LABELS_OF_TWO = {"y_true": TRUTH, "y_a": GUESS, "y_b": TRUTH[::-1].copy()}
NO_PAIRS = (None, 3, "x", [1], np.ones(2), {})
NO_GROUPS = (None, 3, "ab", b"ab", ["a"], ["a", None], ["a", math.nan], [[0], [1]], {"a": 0, "b": 1}, np.ones((2, 2)))
NO_COLUMN = (3, True, 1.5, "nonsense", b"label", ["label"], {})
SAMPLES = {**LABELS, "sample_weight": np.ones(4)}
OF_COUNTED: dict[str, Any] = {
    "arrays": SAMPLES,
    "optional": frozenset({"sample_weight"}),
    "free": frozenset({"groups"}),  # labels of any kind; they have tests of their own
}
OF_CLASSES: dict[str, Any] = {
    "wrong": {
        "pos_label": (1.5, math.nan, "ill", 2**63, [0]),  # of the labels, not of their places
        "average_over": (3, "ab", b"ab", [], [0, 0], [-1], [0.5], [[0]], {}, [None]),
    },
    "free": frozenset({"pos_label", "average_over"}),
}
OF_PICTURES: dict[str, tuple[Any, ...]] = {
    "class_names": (True, 3, "ab", b"ab", ["a"], {"a": 1, "b": 2}, ["a", None]),
    "groups": (3, "ab", ["a"], ["a", None], {"a": 0, "b": 1}),
    "order": (*NO_NAME, [0, 0], [2], [-1], [True], [0.5], [[0]]),
}
OF_LOOKS: dict[str, tuple[Any, ...]] = {
    "text": NO_NAME, "log": NO_BOOL, "own_diagonal": NO_BOOL, "colorbar": NO_BOOL, "vmin": NO_NUMBER, "vmax": NO_NUMBER,
    "values_format": (3, True, b".2f", "nonsense", [".2f"], {}),
}  # fmt: skip


class Same:
    """An estimator that predicts what it is given."""

    def predict(self, X: Any) -> Any:
        """Return `X`."""
        return X


def _of_picture(function: Callable[..., Any], arrays: dict[str, np.ndarray], **rest: Any) -> Entry:
    options = {"wrong": OF_PICTURES, "free": frozenset({"class_names", "groups", "order"})} | rest
    return _function(function, arrays, **options)


PAGE = os.path.join(FOLDER.name, "page.html")  # noqa: PTH118


def _page_of(make: Make) -> Callable[..., Any]:
    return cmfast.report(make(TRUTH), make(GUESS), n_replicates=20).save


def _pictured(make: Make) -> cmfast.display.ConfusionDisplay:
    return cmfast.display.ConfusionDisplay.from_matrix(make(COUNTS), groups=["a", "b"])


FRAME = pd.DataFrame({"label": TRUTH, "guess": GUESS, "site": list("abba"), "weight": 0.5})
OF_EMBEDDED: dict[str, Any] = {
    "arrays": POINTS,
    "others": {"weights": "row"},
    "wrong": {"n_components": integers(1, none=True), "weights": WEIGHTS_OF_CELLS},
}
SCORED = {"y_score": np.array([0.5, 0.1, 0.9, 0.3]), "y_true": TRUTH, "sample_weight": np.ones(4)}
OF_SHARES: dict[str, Any] = {
    "batch": frozenset({"P"}),
    "wrong": {
        "method": (*NO_NAME, "all", "row", "col", "bi"),
        "empty": (*NO_NAME, "nan", "drop"),
        "lam": (*NO_NUMBER, -0.5, 0.5, None),  # of "aps"
        "rng": (0, 1.5, "3"),  # beside u
    },
}
LABELLED = {"y_true": np.eye(3, dtype=int), "y_pred": np.tri(3, dtype=int), "sample_weight": np.ones(3)}
OF_SCORES: dict[str, Any] = {"batch": frozenset({"y_score"}), "optional": frozenset({"sample_weight"})}
_TABLE = tuple(w for w in WEIGHTS_OF_CELLS if w is not None)

NO_MARGINS = (None, 3, "x", [], {}, [1], [(0,)], [(0.5, ONES)], [((0, 0), M)], [(-1, ONES)], [(32, ONES)])
OF_MARGINS = {
    "smoothing": (*NO_NUMBER, 0, -1.0, "pseudo-bayes"),
    "importance": ("1", b"1", 1j, math.nan, True, 0, -1.0, [1.0, 0.0], [1.0] * 3, [[1.0, 1.0]], {}, (x for x in ())),
}
OTHER_METHODS = tuple(name for name in (*NO_NAME, *RIGHT["method"]) if name is not None)

ENTRIES: dict[str, Entry] = {
    "confusion_matrix": _function(
        cmfast.confusion_matrix,
        {**SAMPLES, "groups": TRUTH},
        optional=frozenset({"sample_weight", "groups"}),
        batch=frozenset({"sample_weight"}),
        wrong={"labels": (*NO_LABELS, ["a", "b"])},
    ),
    "normalize": _of_matrix(cmfast.normalize, others={"method": "row"}),
    "importance_weights": _of_matrix(  # beside a method no target is right
        cmfast.importance_weights, others={"method": "row"}, wrong={"target": (M, [[1]], "x", 0, False)}
    ),
    "estimate_for_target": _function(  # beside shares of the classes no target is right
        cmfast.estimate_for_target,
        {"M": 20 * M, "class_shares": ONES},
        batch=frozenset({"M", "class_shares"}),
        optional=frozenset({"class_shares"}),  # in place of which there may be a target
        wrong={"target": (M, [[1]], "x", 0, False)},
    ),
    "TargetEstimate.explain": Entry(
        lambda make: cmfast.estimate_for_target(make(20 * np.stack([M, M])), class_shares=make(ONES)).explain,
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "bi_normalize": _of_matrix(cmfast.bi_normalize),
    "ipf": _function(cmfast.ipf, TARGETS, batch=frozenset(TARGETS), optional=frozenset({"row_sums", "col_sums"})),
    "ras": _function(cmfast.ras, TARGETS, batch=frozenset(TARGETS), optional=frozenset({"row_sums", "col_sums"})),
    "support": _function(
        cmfast.support, TARGETS, batch=frozenset(TARGETS), optional=frozenset({"row_sums", "col_sums"})
    ),
    "ipf_nd": _of_matrix(
        cmfast.ipf_nd,
        others={"margins": Made(lambda make: [(0, make(M.sum(1))), ((1,), make(M.sum(0)))])},
        wrong={
            "margins": NO_MARGINS,
            "ndim": integers(2, none=True, most=32),
            **OF_MARGINS,
        },
    ),
    "ipf_cells": _function(
        cmfast.ipf_cells,
        {"values": np.array([4.0, 1.0, 3.0]), "coords": np.array([[0, 0, 1], [0, 1, 1]])},
        others={"margins": Made(lambda make: [(0, make(np.array([5.0, 4.0]))), ((1,), make(np.array([4.0, 5.0])))])},
        batch=frozenset({"values"}),
        wrong={
            "margins": (*NO_MARGINS, [(2, ONES)]),
            "shape": (3, "ab", b"ab", [2], [2, 2, 2], [-1, 2], [0.5, 2], [1, 2], [2, 1], [3, 2], [True, 2], {}),
            **OF_MARGINS,
        },
    ),
    "rake": _function(
        cmfast.rake,
        {"design": PERSONS, "targets": np.array([6.0, 5.0]), "weights": np.ones(3)},
        batch=frozenset({"targets", "weights"}),
        optional=frozenset({"weights"}),
        wrong={"method": OTHER_METHODS},
        free=frozenset({"method", "bounds", "importance", "names"}),  # tests/margins/test_rake.py
    ),
    "balance": _function(
        cmfast.balance,
        {"sums": np.array([2.0, 3.0, 2.0])},
        others={"A": Made(lambda make: (*map(make, NEAR), 3)), "symmetric": "upper"},
        optional=frozenset({"sums"}),
        wrong={
            "A": (None, 3, "x", [], (1, 2), np.ones((2, 2)), (*NEAR, -1), (*NEAR, 1.5), (NEAR[0], *NEAR[:2], 3, 4)),
            "symmetric": (None, True, "lower", 1),
        },
        free=frozenset({"keep", "blocks", "mad_blocks", "ignore_diags", "min_nnz", "min_count", "mad_max"}),
    ),
    "BalanceResult.explain": Entry(
        lambda make: (
            cmfast.balance((*map(make, NEAR), 3), symmetric="upper", blocks=[0, 3, 3], on_failure="ignore").explain
        ),
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "round_to_margins": _of_matrix(
        cmfast.round_to_margins,
        M / 2.0,
        others={"axes": [(0,), 1]},
        wrong={"axes": (3, "x", [], {}, [0.5], [(0, 0)], [-1], [32]), "ndim": integers(2, none=True, most=32)},
        free=frozenset({"rng"}),
    ),
    "RoundedTable.explain": Entry(
        lambda make: cmfast.round_to_margins(make(np.stack([M, M]) / 2.0)).explain,
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "RakeResult.explain": Entry(
        lambda make: cmfast.rake(make(np.ones((3, 1))), make(np.array([[6.0], [5.0]]))).explain,
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "support_nd": _of_matrix(
        cmfast.support_nd,
        others={"margins": Made(lambda make: [(0, make(M.sum(1))), ((1,), make(M.sum(0)))])},
        wrong={"margins": NO_MARGINS, "ndim": integers(2, none=True, most=32)},
    ),
    "MarginsSupport.explain": Entry(
        lambda make: cmfast.support_nd(make(np.stack([M, M])), [(0, make(M.sum(1))), (1, make(M.sum(0)))]).explain,
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "MarginsResult.explain": Entry(
        lambda make: cmfast.ipf_nd(make(np.stack([M, M])), [(0, make(M.sum(1))), (1, make(M.sum(0)))]).explain,
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "Support.explain": Entry(
        lambda make: cmfast.support(make(np.stack([M, M]))).explain,
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "ScalingResult.explain": Entry(
        lambda make: cmfast.ipf(make(np.stack([M, M]))).explain,
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "Certificate.explain": Entry(lambda make: cmfast.support(make(M)).certificate.explain),
    "overlap": _pair(cmfast.overlap, "S", "T"),
    "l1_distance": _pair(cmfast.l1_distance, "S", "T"),
    "kl_divergence": _pair(cmfast.kl_divergence, "P", "Q"),
    "uncertainty.resample": _function(
        cmfast.uncertainty.resample,
        {"M": COUNTS, "missed": np.array([1, 2])},
        others={"n_replicates": 5},
        optional=frozenset({"missed"}),
        batch=frozenset({"M", "missed"}),
        wrong={"n": integers(0, none=True)},
    ),
    "uncertainty.paired_counts": _function(
        cmfast.uncertainty.paired_counts, LABELS_OF_TWO,
        wrong={"labels": NO_LABELS},
        free=frozenset({"groups", "clusters"}),  # labels of any kind; they have tests of their own
    ),
    "uncertainty.PairedCounts.explain": Entry(lambda make: _paired(make).explain),
    "uncertainty.PairedCounts.flips": Entry(lambda make: _paired(make).flips, others={"k": 2}),
    "uncertainty.McNemar.explain": Entry(lambda make: cmfast.uncertainty.mcnemar(_paired(make)).explain),
    "uncertainty.Symmetry.explain": Entry(lambda make: cmfast.uncertainty.bowker(_paired(make)).explain),
    "uncertainty.compare": _function(
        cmfast.uncertainty.compare,
        others={"T": Made(_paired), "names": ["accuracy", "f1"], "n_replicates": 20},
        wrong={"T": NO_PAIRS, "n_replicates": integers(2, none=False), "method": OTHER_METHODS},
    ),
    "uncertainty.compare_many": _function(
        cmfast.uncertainty.compare_many,
        others={"counts_by_pair": Made(lambda make: {("a", "b"): _paired(make)}), "names": ["accuracy", "f1"]},
        wrong={"counts_by_pair": (None, 3, "x", [1], {"a": 1}, {("a", "b"): 3}),
               "n_replicates": integers(2, none=False), "method": OTHER_METHODS},
    ),
    "uncertainty.equivalence": _function(
        cmfast.uncertainty.equivalence,
        others={"T": Made(_paired), "name": "accuracy", "margin": 0.1},
        wrong={"T": NO_PAIRS, "level": (*WRONG["level"], 0.5)},
    ),
    "uncertainty.Equivalence.explain": Entry(
        lambda make: cmfast.uncertainty.equivalence(_paired(make), "accuracy", 0.1).explain
    ),
    "uncertainty.ComparisonDisplay.from_comparisons": _function(
        cmfast.uncertainty.ComparisonDisplay.from_comparisons,
        others={"comparisons": Made(_compared)},
        wrong={"comparisons": (None, 3, "x", {}, [], [1], {"f1": 3}, np.ones(2))},
    ),
    "uncertainty.ComparisonDisplay.plot": Entry(
        lambda make: cmfast.uncertainty.ComparisonDisplay.from_comparisons(_compared(make)).plot, free=frozenset({"ax"})
    ),
    "uncertainty.Comparisons.explain": Entry(lambda make: _all_compared(make).explain),
    "uncertainty.Comparisons.to_pandas": Entry(lambda make: _all_compared(make).to_pandas),
    "uncertainty.Comparison.explain": Entry(lambda make: _compared(make).explain),
    "uncertainty.Comparison.to_pandas": Entry(lambda make: _compared(make).to_pandas),
    "uncertainty.Comparison.verdict": Entry(
        lambda make: _compared(make).verdict,
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "uncertainty.Comparison.parting": Entry(
        lambda make: _compared(make).parting,
        others={"index": 1},
        wrong={"index": (1.5, "0", (0, 0), [0], True, 2, 2**63, 10**5000, -3)},
    ),
    "uncertainty.mcnemar": _function(cmfast.uncertainty.mcnemar, others={"T": Made(_paired)}, wrong={"T": NO_PAIRS}),
    "uncertainty.bowker": _function(cmfast.uncertainty.bowker, {"T": COUNTS}, batch=frozenset("T")),
    "uncertainty.stuart_maxwell": _function(cmfast.uncertainty.stuart_maxwell, {"T": COUNTS}, batch=frozenset("T")),
    "uncertainty.standard_error": _of_matrix(
        cmfast.uncertainty.standard_error,
        COUNTS,
        others={"names": ["accuracy", "f1"]},
        wrong={"n": integers(0, none=True), "of": NO_NAME},
        free=OF_CLUSTERS | {"of"},
    ),
    "conformal.scores": _function(
        cmfast.conformal.scores, {"P": SHARES, "y": TRUTH, "u": ONES[TRUTH] / 2},
        optional=frozenset({"y", "u"}), **OF_SHARES,
    ),
    "conformal.threshold": _function(
        cmfast.conformal.threshold, {"s": X[:, 1], "y": TRUTH}, others={"alpha": 0.5},
        optional=frozenset({"y"}), free=frozenset({"groups"}),  # which stand in the place of y
    ),
    "conformal.prediction_sets": _function(
        cmfast.conformal.prediction_sets,
        {"P": SHARES, "q": np.array([[0.5, 0.75]]), "u": ONES[TRUTH] / 2, "groups": TRUTH},
        optional=frozenset({"u", "groups"}), **OF_SHARES,
    ),
    "conformal.score_histogram": _function(
        cmfast.conformal.score_histogram, {"s": X[:, 1]}, batch=frozenset("s"),
        wrong={"bins": integers(1, none=False, most=2**28)},
    ),
    "conformal.ccm": _function(cmfast.conformal.ccm, others={"sets": Made(_some_sets)}),
    "conformal.coverage_confusion": Entry(
        lambda make: partial(cmfast.conformal.coverage_confusion, _some_sets(make)), {"y": TRUTH},
        name="conformal.coverage_confusion",
    ),
    "conformal.rank_clients": _function(
        cmfast.conformal.rank_clients, others={"ccms": Made(_shared), "pairs": [(0, 1)], "order": "high"}
    ),
    "conformal.PredictionSets.coverage": Entry(lambda make: _some_sets(make).coverage, {"y": TRUTH}),
    "conformal.PredictionSets.coverage_by_size": Entry(lambda make: _some_sets(make).coverage_by_size, {"y": TRUTH}),
    "conformal.CcmDisplay.from_sets": Entry(
        lambda make: partial(cmfast.conformal.CcmDisplay.from_sets, _some_sets(make)),
        {"y": TRUTH, "y_pred": GUESS}, others={"index": 1}, optional=frozenset({"y", "y_pred"}),
        wrong={
            "index": integers(0, none=False, most=1),
            "alpha": tuple(wrong for wrong in NO_ALPHA if wrong is not None),
        },
        name="conformal.CcmDisplay.from_sets",
    ),
    "conformal.CcmDisplay.plot": Entry(
        lambda make: cmfast.conformal.CcmDisplay.from_sets(_some_sets(make), make(TRUTH)).plot
    ),
    "conformal.PredictionSets.explain": Entry(lambda make: _some_sets(make).explain),
    "conformal.CcmCounts.correlation": Entry(
        lambda make: _shared(make).correlation,
        wrong={"undefined": (*NO_NAME, "strict", "one", 0.25)},
        free=frozenset({"undefined"}),
    ),
    "conformal.CcmCounts.covariance": Entry(lambda make: _shared(make).covariance),
    "conformal.CcmCounts.lift": Entry(lambda make: _shared(make).lift),
    "conformal.CcmCounts.conditional": Entry(lambda make: _shared(make).conditional),
    "conformal.CoverageCounts.rates": Entry(lambda make: _covered(make).rates),
    "conformal.ScoreHistogram.threshold": Entry(lambda make: _score_histogram(make).threshold, others={"alpha": 0.5}),
    **{
        f"conformal.{name}.{method}": entry
        for name, of in (("CcmCounts", _shared), ("CoverageCounts", _covered), ("ScoreHistogram", _score_histogram))
        for method, entry in {
            "explain": Entry(lambda make, of=of: of(make).explain),
            "sum": Entry(lambda make, of=of: of(make).sum),
            "merge": _function(
                getattr(cmfast.conformal, name).merge,
                others={"parts": Made(lambda make, of=of: [of(make)] * 2)},
                wrong={"parts": (None, 3, [], [5], [0], "x", [None])},
                free=frozenset({"parts"}),
            ),
        }.items()
    },
    "uncertainty.interval": _of_matrix(
        cmfast.uncertainty.interval,
        COUNTS,
        others={"names": ["accuracy", "f1"], "n_replicates": 9},
        wrong={"n": integers(0, none=True), "method": OTHER_METHODS, "scheme": (*NO_NAME, "expected_rounded"),
               "of": NO_NAME},
        free=frozenset({"method", "scheme", "of"}) | OF_CLUSTERS,  # what is right for others is wrong here
    ),
    "uncertainty.posterior": _of_matrix(
        cmfast.uncertainty.posterior,
        COUNTS,
        others={"names": ["accuracy", "f1"], "n_draws": 9},
        wrong={"n": integers(0, none=True)},
    ),
    "uncertainty.Interval.explain": Entry(lambda make: _intervals(make)["f1"].explain),
    "uncertainty.Intervals.to_pandas": Entry(lambda make: _intervals(make).to_pandas),
    "uncertainty.Intervals.plot": Entry(lambda make: _intervals(make).plot, free=frozenset({"ax"})),
    "uncertainty.Posterior.explain": Entry(lambda make: _drawn(make).explain),
    "uncertainty.Posterior.probability": Entry(lambda make: _drawn(make).probability, others={"above": 0.5}),
    "cell_counts": _function(cmfast.cell_counts, POINTS, others={"grid": GRID}, wrong={"grid": (3, "scott", None, M)}),
    "sparse_histogram": _function(
        cmfast.sparse_histogram,
        {"X": X, "weights": np.ones(4), "groups": TRUTH},
        others={"grid": GRID},
        optional=frozenset({"weights", "groups"}),
        wrong={"grid": (3, "scott", None, M)},
    ),
    "geometric_confusion_matrix": _function(cmfast.geometric_confusion_matrix, **OF_EMBEDDED),
    "width_curve": _function(cmfast.width_curve, **OF_EMBEDDED),
    "gcm": _function(
        cmfast.gcm, others={"cells": Made(_cells), "weights": "row"}, wrong={"weights": WEIGHTS_OF_CELLS}
    ),
    "diagnose": _function(
        cmfast.diagnose, others={"cells": Made(_cells), "weights": "row"}, wrong={"weights": WEIGHTS_OF_CELLS}
    ),
    "min_overlap": _function(
        cmfast.min_overlap,
        others={"a": Made(_histogram), "b": Made(_histogram)},
        wrong=dict.fromkeys("ab", (None, 3, "x", [1], np.ones(2))),
    ),
    "pca": _function(cmfast.pca, {"X": X}, others={"n_components": 1}),
    "Projection.transform": Entry(lambda make: cmfast.pca(make(X), 1).transform, {"X": X}),
    "Projection.explain": Entry(lambda make: cmfast.pca(make(X), 1).explain),
    "Grid.explain": Entry(lambda make: GRID.explain),
    "SparseHistogram.explain": Entry(lambda make: _histogram(make).explain),
    "CellCounts.explain": Entry(lambda make: _cells(make).explain),
    "GcmResult.explain": Entry(lambda make: _embedded(make).explain),
    "GcmDiagnostics.explain": Entry(lambda make: _embedded(make).diagnostics.explain),
    "WidthCurve.explain": Entry(lambda make: _embedded(make, cmfast.width_curve).explain),
    "Grid": _function(
        cmfast.Grid, {"origin": np.zeros(2), "width": np.ones(2)}, host=True
    ),
    "Grid.scaled": _function(GRID.scaled, others={"factor": 2.0}),
    "Grid.shifted": _function(GRID.shifted, others={"fraction": 0.5}),
    "Grid.scott": _function(cmfast.Grid.scott, {"X": X}),
    "Grid.freedman_diaconis": _function(cmfast.Grid.freedman_diaconis, {"X": X}),
    "Grid.regular": _function(
        cmfast.Grid.regular, {"X": X}, others={"bins": 2}, wrong={"bins": (*WRONG["bins"], [1, 2, 3])}
    ),
    "Grid.occupancy": _function(cmfast.Grid.occupancy, {"X": X}, others={"points_per_cell": 2.0}),
    "CellAccumulator": _function(
        cmfast.CellAccumulator,
        others={"grid": GRID, "n_classes": 2},
        wrong={"n_classes": integers(1, none=False), "grid": (3, "scott", None, M)},
    ),
    "CellAccumulator.update": Entry(lambda make: cmfast.CellAccumulator(GRID, 2).update, POINTS),
    "CellAccumulator.add": Entry(lambda make: cmfast.CellAccumulator(GRID, 2).add, others={"cells": Made(_cells)}),
    "CellAccumulator.counts": Entry(lambda make: cmfast.CellAccumulator(GRID, 2).counts),
    "CellCounts.merge": _function(
        cmfast.CellCounts.merge,
        others={"parts": Made(lambda make: [_cells(make)] * 2)},
        wrong={"parts": (None, 3, [], [5], [0], "x", [None])},
        free=frozenset({"parts"}),  # any iterable of results; it has tests of its own
    ),
    "CellCounts.deal": Entry(
        lambda make: _cells(make).deal, others={"n_parts": 2}, wrong={"n_parts": integers(1, none=False, most=2**16)}
    ),
    "CellCounts.confusion_matrix": Entry(lambda make: _cells(make).confusion_matrix),
    "CellCounts.label_histogram": Entry(lambda make: _cells(make).label_histogram, wrong={"weights": _TABLE}),
    "CellCounts.prediction_histogram": Entry(
        lambda make: _cells(make).prediction_histogram, wrong={"weights": _TABLE}
    ),
    "PcaAccumulator": _function(cmfast.PcaAccumulator),
    "PcaAccumulator.update": Entry(lambda make: cmfast.PcaAccumulator().update, {"X": X}),
    "PcaAccumulator.add": Entry(
        lambda make: cmfast.PcaAccumulator().add,
        others={"other": Made(_stream)},
        wrong={"other": (None, 3, "x", [1], np.ones(2))},
    ),
    "PcaAccumulator.projection": Entry(lambda make: _stream(make).projection, others={"n_components": 1}),
    "contingency.Sensitivity.explain": _function(cmfast.contingency.imbalance_sensitivity("f1", 2.0, size=2).explain),
    "contingency.LearningPath.explain": Entry(
        lambda make: cmfast.contingency.learning_path(make(np.stack([M, M]))).explain
    ),
    "contingency.metric_surface": _function(
        cmfast.contingency.metric_surface,
        others={"metric": "f1", "size": 3},
        wrong={"grid": NO_NAME},
    ),
    "contingency.imbalance_sensitivity": _function(
        cmfast.contingency.imbalance_sensitivity, others={"metric": "f1", "r": 2.0, "size": 2}
    ),
    "contingency.chance_level": _function(
        cmfast.contingency.chance_level, others={"metric": "f1"},
        wrong={"share": (True, "1", -0.1, 1.5, math.nan, None, [0.5, 2], [[1], [1, 0]], {}, 1j)},
    ),
    "contingency.convex_hull": _function(cmfast.contingency.convex_hull, {"points": RATES}, host=True),
    "contingency.Hull.explain": _function(cmfast.contingency.convex_hull(RATES).explain),
    "contingency.iso_performance_slope": _function(
        cmfast.contingency.iso_performance_slope, others={"cost": [[0.0, 1.0], [2.0, 0.0]]}, wrong={"cost": NO_COST}
    ),
    "contingency.learning_path": _function(
        cmfast.contingency.learning_path,
        {"M": np.stack([M, M])},
        batch=frozenset({"M"}),
        wrong={"metric": tuple(w for w in (*WRONG["metric"], "recall") if w is not None)},
    ),
    "contingency.SurfaceDisplay.from_metric": _function(
        cmfast.contingency.SurfaceDisplay.from_metric, others={"metric": "f1", "size": 3},
        wrong={"r": (*WRONG["r"], [1.0, 2.0])},
    ),
    "contingency.SurfaceDisplay.plot": Entry(
        lambda make: cmfast.contingency.SurfaceDisplay.from_metric("f1", size=3).plot,
        wrong={"levels": integers(1, none=False), "colorbar": NO_BOOL},
        free=frozenset({"ax"}),
    ),
    "contingency.SurfaceDisplay.plot_3d": Entry(
        lambda make: cmfast.contingency.SurfaceDisplay.from_metric("f1", size=3).plot_3d, free=frozenset({"ax"})
    ),
    "contingency.PathDisplay.from_matrices": _function(
        cmfast.contingency.PathDisplay.from_matrices,
        {"M": np.stack([M, M])},
        batch=frozenset({"M"}),
        wrong={
            "metric": tuple(w for w in WRONG["metric"] if w is not None),
            "classes": (3, None, (0,), (0, 0), (0, 2), "01", (0.5, 1), [0, 1, 1], (0, True), {0: 1, 1: 2}, 2**63),
        },
    ),
    "contingency.PathDisplay.plot": Entry(
        lambda make: cmfast.contingency.PathDisplay.from_matrices(np.stack([M, M])).plot, free=frozenset({"ax"})
    ),
    "report": _function(
        cmfast.report, LABELS, others={"n_replicates": 20},
        free=frozenset({"groups", "labels", "embeddings", "scores", "title"}),  # these have tests of their own
    ),
    "HtmlReport.save": Entry(_page_of, others={"path": PAGE}, wrong={"force": NO_BOOL}),
    "HtmlReport.to_dict": Entry(lambda make: _page_of(make).__self__.to_dict),
    "display.ConfusionDisplay.from_matrix": _of_picture(cmfast.display.ConfusionDisplay.from_matrix, {"M": COUNTS}),
    "display.ConfusionDisplay.from_predictions": _of_picture(
        cmfast.display.ConfusionDisplay.from_predictions, SAMPLES, optional=frozenset({"sample_weight"}),
        wrong=OF_PICTURES | {"labels": NO_LABELS},
    ),
    "display.ConfusionDisplay.from_estimator": _function(
        cmfast.display.ConfusionDisplay.from_estimator,
        others={"estimator": Same(), "X": Made(lambda make: make(GUESS)), "y": Made(lambda make: make(TRUTH))},
        wrong=OF_PICTURES | {"labels": NO_LABELS},
        free=frozenset({"estimator", "X", "y", "class_names", "groups", "order", "sample_weight"}),
    ),
    "display.ConfusionDisplay.plot": Entry(
        lambda make: _pictured(make).plot, wrong=OF_LOOKS, free=frozenset({"ax", *OF_LOOKS})
    ),
    "display.ConfusionDisplay.compare": _of_picture(
        cmfast.display.ConfusionDisplay.compare, {"A": COUNTS, "B": COUNTS.T.copy()},
        free=frozenset({"class_names", "order", "paired"}), wrong=OF_PICTURES | {"paired": NO_PAIRS},
    ),
    "display.DifferenceDisplay.plot": Entry(
        lambda make: cmfast.display.ConfusionDisplay.compare(make(COUNTS), make(COUNTS.T.copy())).plot,
        wrong=OF_LOOKS, free=frozenset({"ax", *OF_LOOKS}),
    ),
    "display.StripDisplay.from_matrices": _of_picture(
        cmfast.display.StripDisplay.from_matrices, {"M": np.stack([COUNTS, COUNTS])},
        free=frozenset({"class_names", "order", "names"}), wrong=OF_PICTURES | {"names": OF_PICTURES["class_names"]},
    ),
    "display.CellsDisplay.from_matrices": _of_picture(
        cmfast.display.CellsDisplay.from_matrices, {"M": np.stack([COUNTS, COUNTS])},
        free=frozenset({"class_names", "names"}), wrong=OF_PICTURES | {"names": OF_PICTURES["class_names"]},
    ),
    "display.StripDisplay.plot": Entry(
        lambda make: cmfast.display.StripDisplay.from_matrices(make(np.stack([COUNTS, COUNTS]))).plot,
        wrong=OF_LOOKS | {"most": integers(1, none=False)}, free=frozenset({"most", *OF_LOOKS}),
    ),
    "display.CellsDisplay.plot": Entry(
        lambda make: cmfast.display.CellsDisplay.from_matrices(make(np.stack([COUNTS, COUNTS]))).plot,
        free=frozenset({"ax"}),
    ),
    "display.GcmDisplay.from_result": _function(
        cmfast.display.GcmDisplay.from_result, others={"result": Made(_embedded)},
        wrong={"result": NO_PAIRS, "curve": (3, "x", [1], {}), "class_names": OF_PICTURES["class_names"]},
        free=frozenset({"result", "curve", "class_names"}),
    ),
    "display.GcmDisplay.plot": Entry(lambda make: cmfast.display.GcmDisplay.from_result(_embedded(make)).plot),
    "display.ConfusionDisplay.blocks": Entry(
        lambda make: _pictured(make).blocks, wrong={"most": integers(2, none=False)}, free=frozenset({"most"})
    ),
    "display.ConfusionDisplay.collapsed": Entry(lambda make: _pictured(make).collapsed),
    "display.ConfusionDisplay.zoom": Entry(lambda make: _pictured(make).zoom),
    "ConfusionCounts": _function(cmfast.ConfusionCounts, wrong={"labels": NO_LABELS}),
    "ConfusionCounts.from_labels": _function(
        cmfast.ConfusionCounts.from_labels, **OF_COUNTED, wrong={"labels": NO_LABELS}
    ),
    "ConfusionCounts.update": Entry(lambda make: cmfast.ConfusionCounts().update, **OF_COUNTED),
    "ConfusionCounts.merge": _function(
        cmfast.ConfusionCounts.merge,
        others={"parts": Made(lambda make: [_counted(make)] * 2)},
        wrong={"parts": (None, 3, [], [5], [0], "x", [None])},
        free=frozenset({"parts"}),  # any iterable of counts; it has tests of its own
    ),
    "ConfusionCounts.reset": Entry(lambda make: _counted(make).reset),
    "ConfusionCounts.compute": Entry(
        lambda make: _counted(make).compute, others={"names": ["accuracy", "f1"]}, **OF_CLASSES
    ),
    "ConfusionCounts.explain": Entry(lambda make: _counted(make).explain),
    "ConfusionCounts.report": Entry(lambda make: _counted(make).report),
    "ConfusionCounts.group": Entry(
        lambda make: cmfast.ConfusionCounts.from_labels(make(TRUTH), make(GUESS), groups=make(TRUTH)).group,
        others={"key": 0},
        wrong={"key": ("x", None, [0], 99, {})},
        free=frozenset({"key"}),  # any label
    ),
    "ConfusionCounts.normalize": Entry(lambda make: _counted(make).normalize, others={"method": "row"}),
    "ConfusionCounts.table": Entry(
        lambda make: _counted(make).table, others={"names": ["accuracy", "f1"]}, **OF_CLASSES
    ),
    "ConfusionCounts.to_pandas": Entry(lambda make: _counted(make).to_pandas),
    "ConfusionCounts.to_xarray": Entry(lambda make: _counted(make).to_xarray),
    "ConfusionCounts.sync": Entry(lambda make: _counted(make).sync, free=frozenset({"process_group"})),
    "ConfusionCounts.state_dict": Entry(lambda make: _counted(make).state_dict),
    "ConfusionCounts.load_state_dict": Entry(
        lambda make: _counted(make).load_state_dict,
        others={"state_dict": Made(lambda make: _counted(make).state_dict())},
    ),
    "by": _function(
        cmfast.by,
        others={"frame": FRAME, "keys": "site", "y_true": "label", "y_pred": "guess"},
        wrong={"labels": NO_LABELS, "sample_weight": NO_COLUMN}
        | dict.fromkeys(("y_true", "y_pred"), (*NO_COLUMN, None)),
    ),
    "metrics.compute": _of_matrix(cmfast.metrics.compute, others={"names": ["accuracy", "f1"]}),
    "metrics.defined": _of_matrix(cmfast.metrics.defined, others={"name": "f1"}),
    "metrics.margins": _of_matrix(cmfast.metrics.margins),
    "metrics.from_sums": _function(
        cmfast.metrics.from_sums,
        {"d": np.array([4.0, 3.0]), "t": np.array([5.0, 5.0]), "p": np.array([6.0, 4.0]), "bands": np.array([7.0, 3.0]),
         "tops": np.array([4.0, 6.0])},
        others={"names": ["accuracy"]},
        optional=frozenset({"bands", "tops"}),
        batch=frozenset("dtp"),
    ),
    "metrics.from_labels": _function(
        cmfast.metrics.from_labels, {**LABELS, "sample_weight": np.ones(4), "groups": TRUTH},
        others={"names": ["accuracy"]}, optional=frozenset({"sample_weight", "groups"}),
        wrong={"pos_label": (1.5, math.nan, "ill", 2**63, [0]), "labels": NO_LABELS},  # of the labels, which are three
        free=frozenset({"pos_label", "average_over"}),  # of labels that occur, which counting finds
    ),
    "metrics.multilabel": _function(
        cmfast.metrics.multilabel, LABELLED, others={"names": ["f1_macro"]}, optional=frozenset({"sample_weight"}),
        batch=frozenset({"sample_weight"}),
    ),
    "metrics.multilabel_tables": _function(
        cmfast.metrics.multilabel_tables, LABELLED, optional=frozenset({"sample_weight"})
    ),
    "metrics.label_margins": _function(
        cmfast.metrics.label_margins, {**LABELS, "sample_weight": np.ones(4), "groups": TRUTH},
        optional=frozenset({"sample_weight", "groups"}), wrong={"labels": NO_LABELS},
    ),
    "metrics.threshold_matrices": _function(cmfast.metrics.threshold_matrices, SCORED, **OF_SCORES),
    "metrics.roc": _function(cmfast.metrics.roc, SCORED, **OF_SCORES),
    "metrics.precision_recall": _function(cmfast.metrics.precision_recall, SCORED, **OF_SCORES),
    "metrics.auc": _function(cmfast.metrics.auc, SCORED, **OF_SCORES),
    "metrics.average_precision": _function(cmfast.metrics.average_precision, SCORED, **OF_SCORES),
    "metrics.least_cost": _function(
        cmfast.metrics.least_cost, SCORED, others={"cost": [[0.0, 1.0], [2.0, 0.0]]},
        wrong={"cost": NO_COST},
        **OF_SCORES,
    ),
    "metrics.report": _function(cmfast.metrics.report, {"M": M}),
    "metrics.Margins.explain": Entry(lambda make: cmfast.metrics.margins(make(M)).explain),
    "metrics.Confusions.explain": Entry(
        lambda make: cmfast.metrics.most_confused(make(M)).explain,
        others={"labels": ["a", "b", "c"]},
        wrong={"labels": ("abc", ["a"], 3, [["a", "b", "c"]])},
    ),
    "metrics.ThresholdMatrices.explain": Entry(
        lambda make: cmfast.metrics.threshold_matrices(make(ONES), make(TRUTH[:2])).explain
    ),
    "metrics.Roc.explain": Entry(lambda make: cmfast.metrics.roc(make(ONES), make(TRUTH[:2])).explain),
    "metrics.PrecisionRecall.explain": Entry(
        lambda make: cmfast.metrics.precision_recall(make(ONES), make(TRUTH[:2])).explain
    ),
    "metrics.LeastCost.explain": Entry(
        lambda make: cmfast.metrics.least_cost(make(ONES), make(TRUTH[:2]), make(M[:2, :2])).explain
    ),
    "metrics.Report.explain": Entry(lambda make: cmfast.metrics.report(make(M)).explain),
    "metrics.Report.to_html": Entry(lambda make: cmfast.metrics.report(make(M)).to_html),
    "metrics.Report.to_pandas": Entry(lambda make: cmfast.metrics.report(make(M)).to_pandas),
    "metrics.one_vs_rest": _of_matrix(
        cmfast.metrics.one_vs_rest, wrong={"classes": (3, "ab", [], [0, 0], [2], [-1], [0.5], [[0]], {}, [None], 1.5)}
    ),
    "metrics.collapse": _of_matrix(
        cmfast.metrics.collapse, others={"groups": ["a", "b"]}, wrong={"groups": NO_GROUPS}, free=frozenset({"groups"})
    ),
    "metrics.Collapsed.explain": Entry(lambda make: cmfast.metrics.collapse(make(M), ["a", "b"]).explain),
    "metrics.confusion_fractions": _of_matrix(cmfast.metrics.confusion_fractions),
    "metrics.most_confused": _of_matrix(cmfast.metrics.most_confused),
    "metrics.tau_weighted": _function(
        cmfast.metrics.tau_weighted, {"M": M, "weights": ONES}, batch=frozenset({"M"}), wrong={"normalize": NO_BOOL},
        host=True,
    ),
    "metrics.kappa": _function(
        cmfast.metrics.kappa,
        {"M": M, "weights": np.array([[0.0, 1.0], [2.0, 0.0]])},
        optional=frozenset({"weights"}),
        batch=frozenset({"M"}),
    ),
    "metrics.fbeta": _of_matrix(
        cmfast.metrics.fbeta, others={"beta": 2.0},
        wrong={"beta": (*NO_NUMBER[:4], *LISTS, math.nan, -1.0, -math.inf, None)},
    ),
}  # fmt: skip

ENTRIES = {name: entry for name, entry in ENTRIES.items() if name not in NOT_HERE}
for _name, _of in STATES.items():
    ENTRIES |= _of_state(_name, _of)

# The metrics that take nothing but a matrix and options.
for _name in cmfast.metrics.__all__:
    if is_called(_one := getattr(cmfast.metrics, _name)) and not inspect.isclass(_one):
        _functions = (entry for key, entry in ENTRIES.items() if key.startswith("metrics.") and key.count(".") == 1)
        _same = next((entry for entry in _functions if entry.of(np.asarray) is _one), None)
        _entry = _same or _of_matrix(_one)
        if _one.__name__ != _name:
            _entry = Entry(**{**vars(_entry), "name": f"metrics.{_one.__name__}"})
        ENTRIES.setdefault(f"metrics.{_name}", _entry)


def said(name: str) -> str:
    """Return how messages call the callable `name`."""
    return ENTRIES[name].name or name


def tensors(array: np.ndarray) -> torch.Tensor:
    """Return a tensor with the values of `array`."""
    return torch.from_numpy(np.array(array))


def arrays_of_a_namespace(array: np.ndarray) -> Any:
    """Return an array of another namespace with the values of `array`."""
    return array_api_strict.asarray(np.array(array))
