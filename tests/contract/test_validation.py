"""What is refused, by every public callable: the same class and text on every backend, and nothing is computed before.

The table of callables is in ``callables.py``.
"""

import ast
import inspect
import re
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from backends import BACKENDS
from callables import (
    ENTRIES,
    NAMESPACES,
    ONLY_BI,
    RECORDS,
    Made,
    arrays_of_a_namespace,
    call,
    get_message_name,
    options,
    public,
    tensors,
    ways,
    wrong,
)
from calls import is_direct
from checks import assert_same_bits, host
from folded import parametrize_folded
from optional import torch
from processes import ROOT

import cmfast
from cmfast._core import caller, dispatch, validate
from cmfast._core.kernel_lookup import get_kernel
from cmfast.kernels.ops import OPS

MATRICES = {"M", "A", "B", "S", "T", "P", "Q", "cells", "values", "coords", "a", "b"}  # given by their place alone
POSITIONAL = {"method", "n_components", "weights"}  # the options that may also be given by their place
DIRECT = [op for op in OPS if is_direct(op)]
BACKEND = {backend.name: backend for backend in BACKENDS}
REFUSALS = (TypeError, ValueError, IndexError, OverflowError, MemoryError)
ARRAYS = {name: tuple(entry.arrays) for name, entry in ENTRIES.items()}
OPTIONS = {name: [option for option in options(entry) if option not in entry.free] for name, entry in ENTRIES.items()}


def test_every_public_callable_has_an_entry():
    """A new one has to say what it takes and what it must not take."""
    names = {name for name, _ in public()}
    assert names - RECORDS - set(ENTRIES) == set()
    assert RECORDS | set(ENTRIES) <= names


def test_everything_public_is_listed():
    for space in NAMESPACES.values():
        assert len(set(space.__all__)) == len(space.__all__)
        assert all(hasattr(space, name) for name in space.__all__)
    assert set(DIRECT) <= set(cmfast.__all__)
    assert len(DIRECT) >= 9


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(np.asarray, id="numpy"),
        pytest.param(tensors, id="torch", marks=pytest.mark.exhaustive),
        pytest.param(arrays_of_a_namespace, id="namespace", marks=pytest.mark.exhaustive),
    ],
)
def test_what_these_tests_call_good_is_good(name, make, tmp_path):
    """Without this a function that refuses everything would pass all the others."""
    if make is arrays_of_a_namespace and name == "ConfusionCounts.sync":
        pytest.skip("torch.distributed adds tensors and NumPy's arrays")
    entry, changes = ENTRIES[name], {}
    if "path" in entry.others:
        changes["path"] = tmp_path / ("page.html" if name.startswith("HtmlReport") else "cells.npz")
        call(ENTRIES[f"{name.rpartition('.')[0]}.save"], make, **changes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(entry, make, **changes)
    assert [w for w in caught if not issubclass(w.category, cmfast.DiagnosticWarning)] == []


@cache
def make_once(name, make):
    """Return the entry of `name` with its object and its other arguments made: what is refused changes none of them."""
    entry = ENTRIES[name]
    function, others = entry.of(make), entry.others.items()
    made = {option: value.of(make) if isinstance(value, Made) else value for option, value in others}
    return replace(entry, of=lambda _: function, others=made)


def refused(name, argument, make=np.asarray, /, **changes):
    """Return what `name` says of `argument`, and the class of error."""
    entry = make_once(name, make)
    with pytest.raises(REFUSALS) as caught:
        call(entry, make, **changes)
    text = str(caught.value)
    assert text.startswith(f"{get_message_name(name)}: "), text
    assert argument in text.removeprefix(f"{get_message_name(name)}: "), text
    return type(caught.value), text


def bad_everywhere(array, entry, name):
    """Return what is no such array in any library: name -> (value, class of error, text)."""
    bad = {
        "complex": (array + 0j, TypeError, "got dtype complex128"),
        "no-axes": (array.reshape(-1)[0].copy().reshape(()), ValueError, r"must (be|have)( of| one)? shape"),
    }
    if name not in entry.batch:
        bad["axes"] = (array[..., None, None, None], ValueError, "")
    return bad


def bad_in_numpy(array):
    """Return what is no array of numbers, and what only NumPy, or nobody, has."""
    scipy_sparse = pytest.importorskip("scipy.sparse")
    return {
        "text": ("text", TypeError, "must be an array, got str"),
        "dict": ({}, TypeError, "must be an array, got dict"),
        "set": ({1}, TypeError, "must be an array, got set"),
        "objects": (np.array([[object()]]), TypeError, "must be"),
        "generator": ((x for x in array), TypeError, "must be"),
        "ragged": ([[1, 2], [3]], TypeError, "must be an array of numbers, got a list with rows of different lengths"),
        "lists-with-none": ([[1, None], [2, 3]], ValueError, "must be without missing values, got 1 missing"),
        "huge": ([2**70], TypeError, "must be"),
        "masked": (np.ma.masked_array(array, array > 2), TypeError, "is a masked array"),
        "matrix": (np.atleast_2d(array.reshape(-1)[:4]).view(np.matrix), TypeError, "is a numpy.matrix"),
        "sparse": (scipy_sparse.csr_array(np.atleast_2d(array.reshape(-1))), TypeError, r"is a sparse .*toarray"),
        "dates": (array.astype("M8[s]"), TypeError, "got dtype datetime64"),
        "records": (np.zeros(array.shape, "i4,f8"), TypeError, "got dtype"),
        "long-double": (array.astype(np.longdouble) if np.longdouble(1).nbytes > 8 else array + 0j, TypeError, "dtype"),
    }


def bad_in_torch(array):
    """Return tensors that are no arrays of numbers."""
    tensor = torch.from_numpy(array.astype(float))
    return {
        "gradients": (tensor.clone().requires_grad_(), TypeError, r"requires gradients.*detach\(\)"),
        "sparse": (tensor.to_sparse(), TypeError, r"is a sparse tensor.*to_dense\(\)"),
        "bfloat16": (tensor.to(torch.bfloat16), TypeError, r"has dtype torch.bfloat16.*\.float\(\)"),
        "meta": (tensor.to("meta"), TypeError, "is on meta"),
        "not-a-tensor": (torch.Size([2, 2]), TypeError, "must be a tensor, got torch.Size"),
    }


@parametrize_folded({name: [a for a in arrays if a not in ENTRIES[name].optional] for name, arrays in ARRAYS.items()})
def test_none_is_no_array(name, array):
    """A kernel that is given None where it reads an array reads what happens to be in memory."""
    for make in (np.asarray, tensors):
        error, text = refused(name, array, make, **{array: None})
        assert error is TypeError
        assert text == f"{get_message_name(name)}: {array} must be an array, got None"


@parametrize_folded(ARRAYS)
def test_same_words_on_every_backend(name, array):
    entry = ENTRIES[name]
    for what, (bad, error, text) in bad_everywhere(entry.arrays[array], entry, array).items():
        found = refused(name, array, **{array: bad})
        assert found[0] is error, what
        assert re.search(text, found[1]), f"{what}: {found[1]}"
        assert refused(name, array, tensors, **{array: torch.from_numpy(np.array(bad))}) == found, what


def takes_sparse(name, array):
    """Whether it takes a square matrix of scipy.sparse: metrics.compute, what is one name of it, bi_normalize."""
    of_names = ENTRIES[name].of(np.asarray).__module__ == "cmfast.metrics._functions"
    others = {
        f"metrics.{other}" for other in ("collapse", "compute", "defined", "fbeta", "margins", "classification_report")
    }
    return array == "M" and (of_names or name in others or name == "bi_normalize")


SAID_OF = {  # what has a cure of its own
    ("estimate_for_target", "dict"): "shares in the order of the classes, got a dict; ",
    ("conformal.prediction_sets", "dict"): "must be an array(, or columns, got a dict without columns|, got dict)",
    (
        "conformal.prediction_sets",
        "text",
    ): "must be (the group of each row|an array), got ('text'; give the columns|str)",
}


@parametrize_folded(ARRAYS)
def test_what_numpy_must_not_take(name, array):
    wrong = bad_in_numpy(ENTRIES[name].arrays[array])
    if (name, array) == ("rake", "design"):
        del wrong["sparse"]  # taken; tests/margins/test_rake.py has what is wrong with one
    if (name, array) == ("agreement.compute", "ratings"):
        del wrong["lists-with-none"]  # None is no rating
    if takes_sparse(name, array):
        wrong["sparse"] = (wrong["sparse"][0], ValueError, "must be square")
    if name in ("ipf", "ras") and array == "M":
        del wrong["sparse"]  # which they take; tests/scaling/test_sparse.py
    counts = ("ConfusionCounts.", "display.ConfusionDisplay.from_predictions", "report")
    if name.startswith(counts) and "dates" in wrong:  # which are labels, but of another kind
        wrong["dates"] = (*wrong["dates"][:2], "(integers|times), as y_true, got (integers|times)|dtype datetime64")
    for what, (bad, error, text) in wrong.items():
        if what == "text" and array == "weights":
            continue  # taken for the name of some weights, and tested as such
        if (name, what) in SAID_OF and re.search(SAID_OF[name, what], refused(name, array, **{array: bad})[1]):
            continue
        found = refused(name, array, **{array: bad})
        assert found[0] is error, f"{what}: {found}"
        assert re.search(text, found[1]), f"{what}: {found[1]}"


# What propagates gradients to its arrays, besides metrics.
DIFFERENTIABLE = {
    "normalize", "importance_weights", "bi_normalize", "ipf", "ras", "overlap", "l1_distance", "kl_divergence",
    "metrics.tau_weighted", "estimate_for_target",
}  # fmt: skip
WITHOUT_GRADIENTS = {f"metrics.{name}" for name in ("collapse", "kappa", "margins", "classification_report")}


def propagates(name, array):
    """Whether a tensor that requires gradients is taken."""
    metric = takes_sparse(name, array) and name not in WITHOUT_GRADIENTS
    return (name in DIFFERENTIABLE and array != "weights") or metric


@parametrize_folded(ARRAYS)
def test_what_torch_must_not_take(name, array):
    wrong = bad_in_torch(ENTRIES[name].arrays[array])
    if propagates(name, array):
        del wrong["gradients"]  # tests/core/test_gradients.py
    for what, (bad, error, text) in wrong.items():
        found = refused(name, array, tensors, **{array: bad})
        assert found[0] is error, f"{what}: {found}"
        assert re.search(text, found[1]), f"{what}: {found[1]}"


@parametrize_folded({name: arrays for name, arrays in ARRAYS.items() if len(arrays) > 1 and not ENTRIES[name].host})
def test_two_libraries(name, array):
    _, text = refused(name, array, **{array: tensors(ENTRIES[name].arrays[array])})
    assert text.startswith(f"{get_message_name(name)}: arrays must come from one library, got ")
    assert f"{array} from torch" in text
    assert "from numpy" in text


@parametrize_folded(OPTIONS)
def test_options(name, option):
    """What an option must not be is refused in words that name it, the same for every library."""
    for value in wrong(ENTRIES[name], option):
        found = refused(name, option, **{option: value})
        assert "Exceeds the limit" not in found[1]
        other = refused(name, option, tensors, **{option: value})
        assert other == found or "one library" in other[1]  # a list is an array of NumPy's


@pytest.mark.parametrize("name", ["normalize", "importance_weights"])
def test_options_of_one_method(name):
    for option in ONLY_BI:
        for value in wrong(ENTRIES[name], option):
            assert refused(name, option, method="bi", **{option: value})
        assert refused(name, option, method="row", **{option: None})
    assert refused(name, "nonsense", method="bi", nonsense=1)


# What needs results to be called; and what learns from its arrays what an option may be.
OF_RESULTS = (
    "AucCovariance",
    "CellCounts",
    "CellAccumulator",
    "ConfusionCounts.",
    "HtmlReport",
    "PcaAccumulator",
    "Support",
    "Projection",
    "conformal.CcmCounts",
    "display.CcmDisplay",
    "conformal.CoverageCounts",
    "PredictionSets",
    "conformal.ScoreHistogram",
    "conformal.ccm",
    "conformal.coverage_confusion",
    "conformal.rank_clients",
    "contingency",
    "display.CellsDisplay.plot",
    "display.ComparisonDisplay",
    "display.PathDisplay",
    "display.SurfaceDisplay",
    "display.DifferenceDisplay",
    "display.GcmDisplay",
    "display.StripDisplay.plot",
    "gcm",
    "diagnose",
    "min_overlap",
    "Comparison",
    "GroupComparison",
    "uncertainty.PairedCounts",
    "uncertainty.compare",
    "uncertainty.equivalence",
    "uncertainty.mcnemar",
)
IN_STEPS = ("geometric_confusion_matrix", "width_curve", "Grid.regular")
OF_OTHERS = (*OF_RESULTS, *IN_STEPS, "ClassificationReport")
OF_MADE = tuple(
    f"{name}.{method}"
    for name in cmfast.results.__all__
    for method in ("design_effect", "effective_size", "estimate", "explain", "plot", "to_pandas")
)
AT_ONCE = [name for name in ENTRIES if not (name.startswith(OF_OTHERS) or name.endswith(".explain") or name in OF_MADE)]


@pytest.mark.parametrize("name", AT_ONCE)
def test_nothing_is_computed_before_the_checks(name, monkeypatch):
    """Every option is looked at before the first kernel runs."""
    entry = ENTRIES[name]

    def never(*_, **__):
        pytest.fail("the kernel was called")

    monkeypatch.setattr(dispatch, "call", never)
    for option in options(entry):
        for value in () if option in entry.free else wrong(entry, option):
            with pytest.raises(REFUSALS):
                call(entry, **{option: value})


@pytest.mark.parametrize("op", OPS)
def test_no_kernel_takes_a_number_of_threads_that_it_does_not_use(op):
    function = inspect.unwrap(get_kernel(op, "cpu"))
    used = {node.id for node in ast.walk(ast.parse(inspect.getsource(function))) if isinstance(node, ast.Name)}
    assert "num_threads" in used or "num_threads" not in inspect.signature(function).parameters


@pytest.mark.parametrize("op", DIRECT)
def test_matrices_are_positional_only_and_options_keyword_only(op):
    """So that neither what matrices are called nor the order of options is part of the promise."""
    arrays = {name for entry in ENTRIES.values() for name in entry.arrays}
    for p in inspect.signature(getattr(cmfast, op)).parameters.values():
        assert (p.kind == p.POSITIONAL_ONLY) == (p.name in MATRICES)
        if p.kind == p.POSITIONAL_OR_KEYWORD:
            assert p.name in POSITIONAL | arrays


@pytest.mark.parametrize("op", DIRECT)
def test_documentation_answers_the_three_questions(op):
    text = inspect.getdoc(getattr(cmfast, op))
    if "As :func:`" in text:  # what it does not say of itself is said there
        text += inspect.getdoc(getattr(cmfast, re.search(r"As :func:`(\w+)`", text)[1]))
    for words in ("Bad values:", "ynchronise", "Reproducible", "Parameters", "Returns", "Raises", "Examples"):
        assert words in text, words
    for name in inspect.signature(getattr(cmfast, op)).parameters:
        assert re.search(rf"^(.*, )?(\*\*)?{name}(, .*)?( :|$)", text, re.MULTILINE), name


@pytest.mark.parametrize("value", [3, np.int8(3), np.array(3), torch.tensor(3)])
def test_count_takes_any_integer(value):
    assert validate.count("n", value) == 3


TYPES = ("u1", "u2", "u4", "u8", "i1", "i2", "f2", "f4", ">i8", ">f4")


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [np.asarray, tensors, arrays_of_a_namespace], ids=["numpy", "torch", "namespace"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] if name.startswith("display.") else [])
        for name, entry in ENTRIES.items()
        if entry.arrays
    ],
)
def test_every_type_of_number(name, make):
    """Values, not their types, make the result; what is refused for its type is refused in words."""
    entry = ENTRIES[name]
    for dtype in TYPES:
        if (make is not np.asarray and dtype.startswith(">")) or (make is arrays_of_a_namespace and dtype == "f2"):
            continue
        given = {array: good.astype(dtype) for array, good in entry.arrays.items()}
        wide = {array: x.astype(np.int64 if x.dtype.kind in "iu" else np.float64) for array, x in given.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
            try:
                got = call(entry, make, **{array: make(x) for array, x in given.items()})
            except TypeError as error:
                assert str(error).startswith(f"{get_message_name(name)}: ")  # noqa: PT017 (either is right)
                continue
            want = call(entry, **wide)
        for one, other in zip(parts(got), parts(want), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-12, err_msg=dtype)


# What spoils one element, or looks as if it could.
SPOILT = (np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 1e308, 1e-320)
BATCHES = {
    name: sorted(entry.batch)
    for name, entry in ENTRIES.items()
    if "Display" not in name  # which is a picture of what other functions give
}


def stacks(name, way):
    """Return three elements of every array of the batch, and of those that have to have as many."""
    entry = ENTRIES[name]
    batch = {array: np.stack([entry.arrays[array] * k for k in (1, 2, 3)]) for array in entry.batch}
    for array in WITH_THEM.get(name, ()):
        times = (1, 2, 3) if name == "metrics.from_sums" else (1, 1, 1)
        batch[array] = np.stack([entry.arrays[array] * k for k in times])
    if "empty" in way or way.get("smoothing") == "pseudo-bayes":  # which targets do not go with
        batch |= {array: None for array in ("row_sums", "col_sums") if array in batch}
    return batch


WITH_THEM = {
    "confusion_matrix": ("y_true", "y_pred", "groups"),
    "metrics.from_sums": ("bands", "tops"),
}
WITH_THEM |= {"metrics.multilabel": ("y_true", "y_pred")}
WITH_THEM |= {"conformal.scores": ("y", "u"), "conformal.prediction_sets": ("q", "u", "groups")}
OF_SCORES = ("threshold_matrices", "roc", "precision_recall", "roc_auc", "average_precision", "least_cost")
WITH_THEM |= {f"metrics.{name}": ("y_true", "sample_weight") for name in OF_SCORES}
WITH_THEM |= {"uncertainty.auc_covariance": ("y_true", "sample_weight")}


def spoilt(array):
    """Yield `array`, each time with another middle element that is bad, or empty."""
    for value in SPOILT if array.dtype.kind == "f" else (-1, 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max):
        bad = array.copy()
        bad[(1, *(0,) * (array.ndim - 1))] = value
        yield bad
    yield array * np.array([1, 0, 1]).astype(array.dtype).reshape(-1, *(1,) * (array.ndim - 1))


def parts(result):
    """Return the arrays of a result on the host."""
    if isinstance(result, dict | tuple):
        items = result.values() if isinstance(result, dict) else result
        return [part for item in items for part in parts(item)]
    return [np.asarray(host(result))] if hasattr(result, "dtype") else []


@pytest.mark.exhaustive
@parametrize_folded(BATCHES)
def test_bad_values_leave_their_neighbours_alone(name, array):
    """One bad element of three: the other two keep their bits, and at most one warning says what was bad."""
    check_neighbours(name, array, BACKEND["numpy"])


@pytest.mark.exhaustive
@parametrize_folded(BATCHES)
def test_bad_values_in_tensors_leave_their_neighbours_alone(name, array):
    check_neighbours(name, array, BACKEND["torch"])


@pytest.mark.exhaustive
@parametrize_folded(BATCHES)
def test_bad_values_in_arrays_of_a_namespace_leave_their_neighbours_alone(name, array):
    check_neighbours(name, array, BACKEND["array-api-strict"])


def check_neighbours(name, array, make):
    entry = ENTRIES[name]
    reports = "on_failure" in options(entry)
    for way in ways(entry):
        batch = stacks(name, way)
        if batch[array] is None:
            continue
        arrays = {a: None if x is None else make.make(x) for a, x in batch.items()}
        clean = parts(call(entry, make.make, **arrays, **way, **({"on_failure": "ignore"} if reports else {})))
        for bad in spoilt(batch[array]):
            arrays[array] = make.make(bad)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", cmfast.DiagnosticWarning)  # of few samples
                found = parts(call(entry, make.make, **arrays, **way))
            for got, want in zip(found, clean, strict=True):
                assert_same_bits(got[0], want[0])
                assert_same_bits(got[2], want[2])
            assert [w.category for w in caught] in ([], [cmfast.FailureWarning])
            assert all(str(w.message).startswith(f"{get_message_name(name)}: ") for w in caught)
            if not reports:
                assert not caught
            elif caught and "LIMIT_ONLY" not in str(caught[0].message):  # a limit is an answer, if not the one wanted
                with pytest.raises(cmfast.FailureError) as error:
                    call(entry, make.make, **arrays, **way, on_failure="raise")
                assert str(error.value) == str(caught[0].message)


def test_a_call_from_a_callback_has_its_own_name():
    """It is not the call that calls back."""

    def progress(done, total):
        with pytest.raises(ValueError, match=r"^overlap: A must be of shape"):
            cmfast.overlap([1.0], [1.0])
        seen.append(done)

    seen = []
    cmfast.ipf(np.ones((3, 2, 2)), progress=progress)
    assert seen


@pytest.mark.parametrize("name", ["ipf", "bi_normalize"])
def test_a_bar_is_called_as_the_function(name, capsys):
    getattr(cmfast, name)(np.ones((3, 2, 2)), progress=True)
    assert capsys.readouterr().err.lstrip().startswith(f"{name}:")


def test_names_come_from_outside_only():
    assert caller.name() == ""  # called by no public function
    assert caller.prefix_name("text") == "text"
    assert caller._public_name("cmfast.kernels.cpu.scaling.launch", "ipf") is None
    assert caller._public_name("cmfast.scaling._ipf", "solve") is None
    assert caller._public_name("cmfast.geometry._grid", "Grid.__init__") == "Grid"
    assert caller._public_name("cmfast.geometry._grid", "Grid.occupancy") == "Grid.occupancy"
    assert caller._public_name("cmfast.geometry._grid", "Grid.occupancy.<locals>.widths") is None
    assert caller._public_name("cmfast.metrics._functions", "f1") == "metrics.f1"
    assert caller._public_name("cmfast.uncertainty._resample", "resample") == "uncertainty.resample"


@pytest.mark.house
def test_names_are_put_in_front_in_one_place():
    """Whoever words a message leaves the name of the function out."""
    own = tuple(f"{name}: " for name, _ in public())
    for path in (ROOT / "cmfast").rglob("*.py"):
        if "kernels" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            assert not (isinstance(text, str) and text.startswith(own)), f"{path}:{node.lineno}: {text}"


CLOUD, IDS = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
NOTHING = np.full((6, 2), np.nan)
EMBEDDED = [cmfast.geometric_confusion_matrix, cmfast.width_curve]


@pytest.mark.parametrize("part", [1 << 25, 4], ids=["at-once", "in-parts"])
@pytest.mark.parametrize("function", EMBEDDED, ids=lambda f: f.__name__)
def test_words_of_inner_functions_have_the_outer_name(function, part, monkeypatch):
    """The rules of grids, the counts of cells and the accumulator of many points speak for whoever was called."""
    monkeypatch.setattr(cmfast.geometry._cell_accumulator, "MOST_PART_POINTS", part)
    op = function.__name__
    with pytest.raises(ValueError, match=rf"^{op}: X must be points"):
        function(NOTHING, IDS, IDS)
    with pytest.raises(ValueError, match=rf"^{op}: y_true must be "):
        function(CLOUD, IDS - 1, IDS)
    with pytest.raises(ValueError, match=rf"^{op}: n_classes must be at least 0"):
        function(CLOUD, IDS, IDS, n_classes=-1)
    holed = np.vstack([CLOUD, [[np.nan, 0.0]]])
    with pytest.raises(cmfast.FailureError, match=rf"^{op}: 1 of 7 points left out"):
        function(holed, np.append(IDS, 0), np.append(IDS, 0), on_failure="raise")
    flat = np.array([[0.0], [1], [1], [1], [1], [2]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(flat, IDS, IDS, weights="row", n_components=None, grid="freedman_diaconis")
    assert any("interquartile range" in str(w.message) for w in caught)
    assert all(str(w.message).startswith(f"{op}: ") for w in caught)


HUGE = {
    "confusion_matrix": {"n_classes": 10**12},
    "uncertainty.resample": {"n_resamples": 10**17},
    "conformal.threshold": {"n_classes": 10**17},
    "metrics.label_margins": {"n_classes": 10**17},
    "metrics.from_labels": {"n_classes": 10**17},
    "contingency.metric_surface": {"size": 10**10},
    "contingency.imbalance_sensitivity": {"size": 10**10},
}


@pytest.mark.parametrize("name", HUGE)
def test_results_that_no_memory_holds(name):
    """They say which argument asks for them; where there is room a large number is as good as any."""
    ((option, value),) = HUGE[name].items()
    with pytest.raises(MemoryError, match=rf"^{get_message_name(name)}: .*{option}={value}") as caught:
        call(ENTRIES[name], **HUGE[name], **({"groups": None} if name == "confusion_matrix" else {}))
    assert re.search(r"bytes|[TPE]iB", str(caught.value))


def test_groups_that_no_memory_holds():
    with pytest.raises(MemoryError, match=r"^confusion_matrix: groups must be .*got 1000000000000000000, "):
        cmfast.confusion_matrix([0], [0], groups=[10**18])


def test_values_are_shown_in_a_line():
    assert validate.format_value(10**5000) == "an integer of 16610 bits"
    assert validate.format_value([0] * 10**4).endswith("...")
    assert len(validate.format_value([0] * 10**4)) == validate.MOST_SHOWN_CHARACTERS
    assert validate.format_value(np.ones((3, 3))).count("\n") == 0
