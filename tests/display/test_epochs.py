"""Checkpoints side by side on one scale, and the largest confusions along them."""

import matplotlib as mpl
import numpy as np
import pytest

import cmfast
from cmfast.display import CellsDisplay, StripDisplay

mpl.use("Agg")
from matplotlib import pyplot as plt

pytestmark = pytest.mark.pictures

RUN = np.array(
    [[[6, 4, 0], [1, 8, 1], [0, 5, 5]], [[8, 2, 0], [0, 9, 1], [0, 6, 4]], [[9, 1, 0], [0, 9, 1], [1, 0, 9]]]
)


@pytest.fixture(autouse=True)
def _close():
    plt.close("all")
    yield
    plt.close("all")


def test_a_strip_has_one_order_and_one_scale():
    display = StripDisplay.from_matrices(RUN, names=["a", "b", "c"], order="recall", display_labels=list("xyz"))
    assert display.order.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(display.matrices, cmfast.normalize(RUN, "row"))
    assert display.plot() is display
    assert [ax.get_title() for ax in display.axes_] == ["a", "b", "c"]
    assert [[label.get_text() for label in ax.get_yticklabels()] for ax in display.axes_[:2]] == [list("xyz"), []]
    assert {(image.norm.vmin, image.norm.vmax) for image in display.images_} == {(0, 0.6)}
    for image, matrix in zip(display.images_, display.matrices, strict=True):
        np.testing.assert_array_equal(image.get_array().data, matrix)
    assert {image.norm.vmax for image in display.plot(vmax=0.5).images_} == {0.5}
    turned = StripDisplay.from_matrices(RUN, normalize=None, order=[2, 0])
    np.testing.assert_array_equal(turned.matrices, RUN[:, [2, 0]][:, :, [2, 0]])


def test_of_many_checkpoints_some_at_even_distances():
    display = StripDisplay.from_matrices(np.repeat(RUN, 5, axis=0), normalize=None).plot(most=8)
    assert [ax.get_title() for ax in display.axes_] == ["0", "2", "4", "6", "8", "10", "12", "14"]
    assert len(StripDisplay.from_matrices(RUN).plot(most=1).axes_) == 1
    with pytest.raises(ValueError, match=r"^display.StripDisplay.from_matrices: M must be at least one matrix"):
        StripDisplay.from_matrices(RUN[0])


def test_largest_cells_along_the_checkpoints():
    display = CellsDisplay.from_matrices(RUN, 2, display_labels=["cat", "dog", "owl"])
    assert display.places == [(2, 1), (0, 1)]
    assert display.labels == ["owl \N{RIGHTWARDS ARROW} dog", "cat \N{RIGHTWARDS ARROW} dog"]
    np.testing.assert_allclose(display.values, [[0.5, 0.6, 0], [0.4, 0.2, 0.1]])
    assert display.plot() is display
    for line, row in zip(display.lines_, display.values, strict=True):
        np.testing.assert_allclose(line.get_ydata(), 100 * row)
    assert len({(tuple(line.get_color()), line.get_marker()) for line in display.lines_}) == 2
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == display.labels
    everything = CellsDisplay.from_matrices(RUN, 99, normalize=None)
    assert len(everything.places) == np.count_nonzero(RUN.max(axis=0) * (1 - np.eye(3)))
    assert CellsDisplay.from_matrices(np.eye(3)[None]).plot().lines_ == []


def test_a_checkpoint_without_a_value_is_a_gap():
    broken = RUN.astype(float)
    broken[1, 2, 1] = np.nan
    display = CellsDisplay.from_matrices(broken, 1, normalize=None).plot()
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), [5, np.nan, 0])
