"""What a console and a notebook show of a display: one line, and the picture unless it was drawn already."""

import base64
import html
import sys

import matplotlib as mpl
import numpy as np
import pytest

import cmfast
from cmfast import conformal, display, uncertainty

mpl.use("agg")
RNG = np.random.default_rng(0)
M = RNG.integers(1, 50, (4, 3, 3))
LABELS = RNG.integers(0, 3, (3, 99))
P = RNG.dirichlet(np.ones(3), 200)
SETS = conformal.prediction_sets(P, conformal.threshold(conformal.scores(P, LABELS[0].repeat(3)[:200]), 0.1))

DISPLAYS = {
    "CcmDisplay": lambda: display.CcmDisplay.from_sets(SETS, LABELS[0].repeat(3)[:200]),
    "CellsDisplay": lambda: display.CellsDisplay.from_matrices(M),
    "ComparisonDisplay": lambda: display.ComparisonDisplay.from_comparisons(
        uncertainty.compare(*LABELS, ["mcc", "accuracy"], n_resamples=20)
    ),
    "ConfusionDisplay": lambda: display.ConfusionDisplay.from_matrix(M[0], normalize="true"),
    "DifferenceDisplay": lambda: display.ConfusionDisplay.compare(M[0], M[1]),
    "PathDisplay": lambda: display.PathDisplay.from_matrices(M),
    "StripDisplay": lambda: display.StripDisplay.from_matrices(M),
    "SurfaceDisplay": lambda: display.SurfaceDisplay.from_metric("mcc", size=11),
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_one_line_and_a_picture(name):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found, open_before = DISPLAYS[name](), pyplot.get_fignums()
    assert repr(found).startswith(f"<{name}: ")
    assert "\n" not in repr(found)
    assert len(repr(found)) < 120
    shown = found._repr_html_()
    assert shown.endswith("</figcaption></figure>")
    assert html.unescape(shown.partition("<figcaption>")[2].partition("<")[0]) in repr(found)
    _, _, encoded = shown.partition('src="data:image/png;base64,')
    assert base64.b64decode(encoded.partition('"')[0]).startswith(b"\x89PNG")
    assert pyplot.get_fignums() == open_before
    assert not hasattr(found, "figure_")
    assert "<img" not in found.plot()._repr_html_()  # the notebook shows the open figure itself, and closes it
    pyplot.close("all")


def test_what_was_closed_is_drawn_again():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = DISPLAYS["ConfusionDisplay"]().plot()
    pyplot.close("all")
    other = pyplot.figure()  # has the number that the closed one had
    again = found._repr_html_()
    assert again.endswith("</figcaption></figure>")
    _, _, encoded = again.partition('src="data:image/png;base64,')
    assert base64.b64decode(encoded.partition('"')[0]).startswith(b"\x89PNG")
    assert pyplot.get_fignums() == [other.number]
    pyplot.close("all")


def test_every_display_is_here():
    assert set(DISPLAYS) | {"GcmDisplay"} == set(display.__all__)


def test_without_matplotlib_there_is_the_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    shown = DISPLAYS["ConfusionDisplay"]()._repr_html_()
    text = "<p>&lt;ConfusionDisplay: 3 classes, % of the true class&gt;</p>"
    assert (
        shown
        == f"{text}<p>display.ConfusionDisplay.plot: pictures need matplotlib: pip install &quot;cmfast[plot]&quot;</p>"
    )


def test_accumulators_show_what_they_hold():
    X = RNG.normal(size=(1200, 3))
    X[5] = np.nan
    axes = cmfast.PcaAccumulator()
    assert "<td>0</td>" in axes._repr_html_()
    axes.update(X, on_failure="ignore")
    cells = cmfast.CellAccumulator(cmfast.Grid.scott(X, on_failure="ignore"), n_classes=2)
    cells.update(X, np.zeros(1200, int), np.ones(1200, int), on_failure="ignore")
    for one in (axes, cells):
        assert repr(one).startswith(f"<{type(one).__name__}: 1,199 points, 3 ")
        assert "<th>points</th><td>1,199</td></tr><tr><th>left out</th><td>1</td>" in one._repr_html_()
