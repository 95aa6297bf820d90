"""Every overload of a public function has every option that the function has, in its order."""

import importlib
import inspect
import pkgutil
from typing import get_overloads

import pytest

import cmfast
import cmfast.confusion_counts
from cmfast.metrics import _single


def _public(module):
    for name, thing in vars(module).items():
        if inspect.isfunction(thing) and thing.__module__ == module.__name__:
            yield f"{module.__name__}.{name}", thing
        elif inspect.isclass(thing) and thing.__module__ == module.__name__:
            for part, method in vars(thing).items():
                if inspect.isfunction(method):
                    yield f"{module.__name__}.{name}.{part}", method


def _overloaded():
    for found in pkgutil.walk_packages(cmfast.__path__, "cmfast."):
        if not found.name.startswith(("cmfast.kernels", "cmfast.compat", "cmfast._core", "cmfast.__main__")):
            for name, thing in _public(importlib.import_module(found.name)):
                if get_overloads(thing):
                    yield name, thing


OTHERS = [("options", inspect.Parameter.VAR_KEYWORD)]
FUNCTIONS = dict(_overloaded())
KINDS = {
    _single.PerMatrix: cmfast.metrics.accuracy,
    _single.PerClass: cmfast.metrics.recall,
    _single.Binary: cmfast.metrics.tss,
}


def _parameters(function):
    return [(one.name, one.kind) for one in inspect.signature(function).parameters.values()]


def test_there_are_some():
    assert len(FUNCTIONS) > 25


@pytest.mark.parametrize("name", FUNCTIONS)
def test_overloads_have_every_option(name):
    first, *others = _parameters(FUNCTIONS[name])
    sides = ("y_", "groups") if name.endswith(".compare_groups") else ("y_",)
    places = [one for one in others if one[1] < one[1].KEYWORD_ONLY]
    for overload in get_overloads(FUNCTIONS[name]):
        found = _parameters(overload)
        if found[0][0] == "table":  # and the names of its columns
            columns = [one for one in found if one[0].startswith(sides)]
            assert all(kind == kind.KEYWORD_ONLY for _, kind in columns)
            assert len(columns) > 1
            rest = [one for one in found[1:] if one not in columns]
            named = [one for one in others if not one[0].startswith("y_")]
            assert rest in ([one for one in named if one in places] + OTHERS, named)
        elif found[0][0] == "y_true" != first[0]:  # labels in place of counts, and the other options by any name
            n = sum(one.startswith(sides) for one, _ in found)
            assert found[n:] in (others, places + OTHERS)
        else:
            assert found == [first, *others]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_kinds_of_metrics_have_every_option(kind):
    for overload in get_overloads(kind.__call__):
        assert _parameters(overload)[1:] == _parameters(KINDS[kind])
