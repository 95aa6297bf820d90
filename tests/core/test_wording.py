"""Messages name options as the caller types them, and leave all other text alone."""

import numpy as np
import pytest

import cmfast
from cmfast._core import wording
from cmfast.cli._wording import CommandWording, naming_elements

FLAGS = {"smoothing": "--smoothing", "max_iter": "--max-iter", "n_components": "--components"}


def test_python_by_default():
    assert wording.option("smoothing") == "smoothing="
    assert wording.option("empty", "drop") == 'empty="drop"'
    assert wording.option("n_components", 2) == "n_components=2"
    assert wording.element("margins", 1) == "margins[1]"
    assert wording.element("margins", 1, "target of ") == "target of margins[1]"
    assert wording.example("grid=f(x)") == "as grid=f(x)"


def test_the_command_by_its_options_where_it_has_them():
    with wording.use_wording(CommandWording(FLAGS)):
        assert wording.option("max_iter") == "--max-iter"
        assert wording.option("n_components", 2) == "--components 2"
        assert wording.option("empty", "drop") == 'empty="drop"'
        assert wording.example("grid=f(x)") == "in Python as grid=f(x)"
        with naming_elements("margins", ["--margin a", "--margin b"]):
            assert wording.element("margins", 1, "target of ") == "--margin b"
            assert wording.element("targets", 1, "target of ") == "target of targets[1]"
            assert wording.option("smoothing", "pseudo-bayes") == "--smoothing pseudo-bayes"
        assert wording.element("margins", 1) == "margins[1]"
    assert wording.option("max_iter") == "max_iter="


@pytest.mark.parametrize("empty", [True, False])
def test_advice_of_a_function(empty):
    M = [[1.0, 0.0], [1.0, 0.0]] if empty else [[1.0, 1.0], [0.0, 1.0]]
    said = {}
    for name, words in (("python", wording.Wording()), ("command", CommandWording(FLAGS))):
        with wording.use_wording(words), pytest.warns(cmfast.FailureWarning) as caught:
            cmfast.ipf(np.array(M))
        said[name] = str(caught[0].message)
    assert "smoothing=" in said["python"]
    assert said["command"] == said["python"].replace("smoothing=", "--smoothing")
