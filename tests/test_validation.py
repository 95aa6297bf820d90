"""Bad metadata: the same class and text of error on every backend, for every op; and nothing is computed before."""

import inspect
import re

import numpy as np
import pytest
import torch
from calls import is_direct, public

import cmfast
from cmfast import _dispatch, _validate
from cmfast.kernels.ops import OPS

POSITIONAL = ("method", "n_components")  # the options that the contract promises in their place
DIRECT = [op for op in OPS if is_direct(op)]


def arguments(op):
    """Return the names of the array arguments that must be given."""
    some = inspect.signature(public(op)).parameters.values()
    return [p.name for p in some if p.kind == p.POSITIONAL_ONLY and p.default is p.empty]


def good(op):
    """Return arrays that the op takes, and its other positional arguments, if it has any."""
    if op == "confusion_matrix":
        return [np.array([0, 1, 1]), np.array([0, 1, 0])], []
    rest = [
        {"method": "row", "n_components": 1}[p] for p in inspect.signature(public(op)).parameters if p in POSITIONAL
    ]
    return [np.array([[4.0, 1.0], [2.0, 3.0]]) for _ in arguments(op)], rest


def bad_everywhere(array):
    """Return what no op takes in any argument: name -> (value, error, text)."""
    return {
        "complex": (array + 0j, TypeError, "got dtype complex128"),
        "no-axes": (array.reshape(-1)[0].copy().reshape(()), ValueError, r"must be of shape .*, got shape \(\)"),
    }


def bad_in_numpy(array):
    """Return what no op takes in any argument and what only NumPy, or nobody, has."""
    scipy_sparse = pytest.importorskip("scipy.sparse")
    return {
        "none": (None, TypeError, "must be an array, got None"),
        "text": ("text", TypeError, "must be an array, got str"),
        "dict": ({}, TypeError, "must be an array, got dict"),
        "set": ({1}, TypeError, "must be an array, got set"),
        "objects": (np.array([[object()]]), TypeError, "must be an array of numbers, got Python objects"),
        "generator": ((x for x in array), TypeError, "must be an array of numbers, got Python objects"),
        "ragged": ([[1, 2], [3]], TypeError, "must be an array of numbers, got a list that is none"),
        "lists-with-none": ([[1, None], [2, 3]], TypeError, "must be an array of numbers, got Python objects"),
        "masked": (np.ma.masked_array(array, array > 2), TypeError, "is a masked array"),
        "matrix": (array.view(np.matrix), TypeError, "is a numpy.matrix"),
        "sparse": (scipy_sparse.csr_array(np.atleast_2d(array)), TypeError, r"is a sparse .*toarray"),
        "dates": (array.astype("M8[s]"), TypeError, "got dtype datetime64"),
        "records": (np.zeros(array.shape, "i4,f8"), TypeError, "got dtype"),
        "long-double": (array.astype(np.longdouble) if np.longdouble(1).nbytes > 8 else array + 0j, TypeError, "dtype"),
    }


def bad_in_torch(array):
    """Return tensors that no op takes."""
    tensor = torch.from_numpy(array.astype(float))
    return {
        "gradients": (tensor.clone().requires_grad_(), TypeError, r"requires gradients.*detach\(\)"),
        "sparse": (tensor.to_sparse(), TypeError, r"is a sparse tensor.*to_dense\(\)"),
        "bfloat16": (tensor.to(torch.bfloat16), TypeError, r"has dtype torch.bfloat16.*\.float\(\)"),
        "meta": (tensor.to("meta"), TypeError, "is on meta"),
        "not-a-tensor": (torch.Size([2, 2]), TypeError, "must be a tensor, got torch.Size"),
    }


def message(op, values, rest, error):
    with pytest.raises(error) as caught:
        public(op)(*values, *rest)
    assert type(caught.value) is error
    return str(caught.value)


EVERY = [pytest.param(op, name, id=f"{op}-{name}") for op in DIRECT for name in arguments(op)]


def replaced(op, name, value, make=lambda a: a):
    arrays, rest = good(op)
    values = [make(a) for a in arrays]
    values[arguments(op).index(name)] = value
    return values, rest


@pytest.mark.parametrize(("op", "name"), EVERY)
def test_same_words_on_every_backend(op, name):
    array = good(op)[0][arguments(op).index(name)]
    for bad, error, text in bad_everywhere(array).values():
        said = message(op, *replaced(op, name, bad), error)
        assert re.match(rf"{op}: {name} .*{text}", said), said
        tensors = replaced(op, name, torch.from_numpy(np.asarray(bad)), torch.from_numpy)
        assert message(op, *tensors, error) == said


@pytest.mark.parametrize(("op", "name"), EVERY)
def test_what_numpy_must_not_take(op, name):
    array = good(op)[0][arguments(op).index(name)]
    for what, (bad, error, text) in bad_in_numpy(array).items():
        said = message(op, *replaced(op, name, bad), error)
        assert re.match(rf"{op}: {name} .*{text}", said), f"{what}: {said}"


@pytest.mark.parametrize(("op", "name"), EVERY)
def test_what_torch_must_not_take(op, name):
    array = good(op)[0][arguments(op).index(name)]
    for what, (bad, error, text) in bad_in_torch(array).items():
        said = message(op, *replaced(op, name, bad, torch.from_numpy), error)
        assert re.match(rf"{op}: {name} .*{text}", said), f"{what}: {said}"


@pytest.mark.parametrize(("op", "name"), [param for param in EVERY if len(arguments(param.values[0])) > 1])
def test_two_libraries(op, name):
    arrays, rest = good(op)
    values = [torch.from_numpy(a) if n == name else a for n, a in zip(arguments(op), arrays, strict=True)]
    said = message(op, values, rest, TypeError)
    assert said.startswith(f"{op}: arrays must come from one library, got ")
    assert f"{name} from torch" in said
    assert "from numpy" in said


BAD_OPTIONS = {
    "on_failure": [("loud", ValueError, "'warn', 'ignore', got 'loud'"), (None, TypeError, "got NoneType")],
    "num_threads": [(0, ValueError, "at least 1, got 0"), (1.5, TypeError, "integer"), (True, TypeError, "integer")],
    "progress": [(3, TypeError, "callable"), ("yes", TypeError, "callable")],
    "method": [("rows", ValueError, "one of"), (1, TypeError, "one of")],
    "tol": [(0.0, ValueError, "above 0"), (np.nan, ValueError, "finite"), ("small", TypeError, "number")],
    "max_iter": [(0, ValueError, "at least 1"), (2.5, TypeError, "integer")],
    "solver": [("fast", ValueError, "one of"), (None, TypeError, "one of")],
    "empty": [("zero", ValueError, "one of"), (0, TypeError, "one of")],
    "smoothing": [(-1.0, ValueError, "above 0"), ("laplace", ValueError, "pseudo-bayes")],
}
OPTIONS = [
    pytest.param(op, option, id=f"{op}-{option}")
    for op in DIRECT
    for option in BAD_OPTIONS
    if option in inspect.signature(public(op)).parameters
]


@pytest.mark.parametrize(("op", "option"), OPTIONS)
def test_options(op, option):
    arrays, rest = good(op)
    if option == "method":
        rest = []
    for value, error, text in BAD_OPTIONS[option]:
        said = set()
        for make in (np.asarray, torch.from_numpy):
            with pytest.raises(error, match=rf"^{op}: {option} .*{text}") as caught:
                public(op)(*map(make, arrays), *rest, **{option: value})
            said.add(str(caught.value))
        assert len(said) == 1


@pytest.mark.parametrize("op", DIRECT)
def test_nothing_is_computed_before_the_checks(op, monkeypatch):
    """Every option is looked at before the kernel runs."""

    def never(*_, **__):
        pytest.fail("the kernel was called")

    monkeypatch.setattr(_dispatch, "call", never)
    arrays, rest = good(op)
    for option in BAD_OPTIONS.keys() & inspect.signature(public(op)).parameters.keys() - {"method"}:
        for value, error, _ in BAD_OPTIONS[option]:
            with pytest.raises(error):
                public(op)(*arrays, *rest, **{option: value})


@pytest.mark.parametrize("op", DIRECT)
def test_arrays_are_positional_only_and_options_keyword_only(op):
    """So that neither the names of arrays nor the order of options is part of the promise."""
    for p in inspect.signature(public(op)).parameters.values():
        if p.kind == p.POSITIONAL_OR_KEYWORD:
            assert p.name in POSITIONAL


@pytest.mark.parametrize("op", DIRECT)
def test_documentation_answers_the_three_questions(op):
    text = inspect.getdoc(public(op))
    if "As :func:`" in text:  # what it does not say of itself is said there
        text += inspect.getdoc(public(re.search(r"As :func:`(\w+)`", text)[1]))
    for words in ("Bad values:", "ynchronise", "Reproducible", "Parameters", "Returns", "Raises", "Examples"):
        assert words in text, words
    for name in inspect.signature(public(op)).parameters:
        assert re.search(rf"^(.*, )?(\*\*)?{name}(, .*)?( :|$)", text, re.MULTILINE), name


def test_everything_public_is_listed():
    assert len(set(cmfast.__all__)) == len(cmfast.__all__)
    assert all(hasattr(cmfast, name) for name in cmfast.__all__)
    assert set(DIRECT) <= set(cmfast.__all__)


@pytest.mark.parametrize("value", [3, np.int8(3), np.array(3), torch.tensor(3)])
def test_count_takes_any_integer(value):
    assert _validate.count("op", "n", value) == 3


@pytest.mark.parametrize("op", DIRECT)
def test_what_these_tests_call_good_is_good(op):
    arrays, rest = good(op)
    assert public(op)(*arrays, *rest) is not None


def test_most_of_the_house_is_tested_here():
    assert len(DIRECT) >= 9
