"""Pictures of the contingency space: scikit-learn's contract, and that they show the numbers."""

import matplotlib as mpl
import numpy as np
import pytest
from optional import torch

from cmfast import contingency
from cmfast.display import PathDisplay, SurfaceDisplay

mpl.use("Agg")
from matplotlib import pyplot as plt

pytestmark = pytest.mark.pictures

RUN = np.array([[[10, 0], [10, 0]], [[10, 0], [5, 5]], [[5, 5], [5, 5]]])


@pytest.fixture(autouse=True)
def _close():
    plt.close("all")  # what another test has left open
    yield
    plt.close("all")


@pytest.mark.parametrize(
    "make", [lambda: SurfaceDisplay.from_metric("f1", 5), lambda: PathDisplay.from_matrices(RUN, name="f1")]
)
def test_contract(make):
    display = make()
    assert not plt.get_fignums()  # from_* computes, nothing is drawn
    assert not hasattr(display, "ax_")
    assert display.plot() is display
    assert display.ax_.figure is display.figure_
    figure, axes = plt.subplots()
    assert display.plot(ax=axes).ax_ is axes
    assert display.figure_ is figure
    figure.canvas.draw()


@pytest.mark.parametrize(("metric", "low"), [("f1", 0), ("tss", -1), ("mcc", -1), ("tau", 0)])
def test_a_surface_shows_the_metric_on_its_scale(metric, low):
    display = SurfaceDisplay.from_metric(metric, 5, size=21).plot(levels=5)
    np.testing.assert_array_equal(display.surface, contingency.metric_surface(metric, 5, 21))
    (image,) = display.ax_.images
    np.testing.assert_array_equal(image.get_array(), display.surface)
    assert image.get_clim() == (-1, 1)
    np.testing.assert_allclose(display.contours_.levels, np.linspace(low, 1, 5))
    assert display.ax_.get_title() == f"{metric}, r = 5"
    # The centre of the first and of the last pixel are the corners of the space.
    left, right, *_ = image.get_extent()
    assert left + (right - left) / 21 / 2 == pytest.approx(0)
    assert right - (right - left) / 21 / 2 == pytest.approx(1)


def test_a_surface_in_three_dimensions():
    display = SurfaceDisplay.from_metric("tss", 5, size=11)
    assert display.plot_3d() is display
    assert display.ax_.get_zlim() == (-1, 1)
    assert display.ax_.get_title() == "tss, r = 5"
    assert len(display.ax_.collections) == 1
    assert tuple(display.ax_.zz_dataLim.intervalx) == (-1, 1)
    axes = plt.figure().add_subplot(projection="3d")
    assert display.plot_3d(ax=axes).ax_ is axes
    display.figure_.canvas.draw()


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_paths_show_the_recalls(kind):
    display = PathDisplay.from_matrices(kind(np.stack([RUN, RUN[::-1]])), name="accuracy").plot()
    assert len(display.lines_) == 2
    np.testing.assert_array_equal(display.lines_[0].get_xydata(), [[1, 0], [1, 0.5], [0.5, 0.5]])
    np.testing.assert_array_equal(display.lines_[1].get_xydata(), [[0.5, 0.5], [1, 0.5], [1, 0]])
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["length 1.00"] * 2
    assert display.ax_.get_xlabel() == "true negative rate"
    assert display.surface.r == 1


def test_paths_of_two_of_many_classes():
    M = np.random.default_rng(3).integers(1, 9, (4, 5, 5))
    display = PathDisplay.from_matrices(M, classes=(4, 1)).plot()
    np.testing.assert_allclose(display.lines_[0].get_xydata()[:, 0], M[:, 4, 4] / M[:, 4].sum(-1))
    assert display.ax_.get_ylabel() == "recall of class 1"
    assert display.length[0] == contingency.learning_path(M).length


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: SurfaceDisplay.from_metric("f1", [1, 5]), TypeError, "r must be a number"),
        (lambda: SurfaceDisplay.from_metric("f7"), ValueError, "f7"),
        (lambda: PathDisplay.from_matrices(np.ones((2, 3, 3)), name="f1"), ValueError, "name must be None"),
        (lambda: PathDisplay.from_matrices(RUN, classes=(0, 2)), ValueError, r"classes must be two of 0\.\.1"),
        (lambda: PathDisplay.from_matrices(RUN, classes=(1, 1)), ValueError, r"classes must be two of 0\.\.1"),
        (lambda: PathDisplay.from_matrices(RUN * [[1], [0]], name="f1"), ValueError, "both classes true"),
    ],
)
def test_bad_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()
