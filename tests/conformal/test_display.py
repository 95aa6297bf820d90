"""Pictures of sets: what is drawn is what was computed."""

import matplotlib as mpl
import numpy as np
import pytest

from cmfast import conformal
from cmfast.display import CcmDisplay

pytestmark = pytest.mark.pictures

mpl.use("Agg")

P = np.random.default_rng(0).dirichlet(np.full(5, 0.4), 80)
Y = P.argmax(-1)


def test_everything_is_drawn_side_by_side():
    sets = conformal.prediction_sets(P, [0.5, 0.8], rng=0)
    display = CcmDisplay.from_sets(sets, Y, (Y + 1) % 5, index=1).plot()
    assert [ax.get_title() for ax in display.axes_] == [
        "correlation of sets", "confusion matrix, log", "coverage by class", "rows by size of their set"
    ]  # fmt: skip
    np.testing.assert_array_equal(display.correlation, conformal.ccm(sets).correlation()[1])
    np.testing.assert_array_equal(display.sizes, np.bincount(sets.sizes[1], minlength=6))
    assert display.confusion.sum() == 80
    assert [bar.get_height() for bar in display.axes_[3].patches] == display.sizes.tolist()
    mpl.pyplot.close("all")


def test_classes_are_whole_numbers():
    sets = conformal.prediction_sets(P[:, :2] / P[:, :2].sum(1, keepdims=True), [0.5], rng=0)
    display = CcmDisplay.from_sets(sets, Y % 2, Y % 2).plot()
    matrices, bars = display.axes_[:2], display.axes_[2:]
    for axis in [ax.yaxis for ax in matrices] + [ax.xaxis for ax in matrices + bars]:
        assert (axis.get_ticklocs() % 1 == 0).all()
    mpl.pyplot.close("all")


def test_without_labels_there_are_two_pictures():
    display = CcmDisplay.from_sets(conformal.prediction_sets(P, [0.5], rng=0)).plot()
    assert len(display.axes_) == 2
    mpl.pyplot.close("all")


def test_what_is_undefined_is_gray_and_the_line_is_at_one_minus_alpha():
    sets = conformal.prediction_sets(P, [np.inf], randomised=False)
    display = CcmDisplay.from_sets(sets, Y, alpha=0.1).plot()
    first, second, _ = display.axes_
    assert first.get_xlabel() == "class; gray: in no set, or in all"
    display.figure_.canvas.draw()
    middle = first.transData.transform((2, 2)).astype(int)
    pixels = np.asarray(display.figure_.canvas.buffer_rgba())
    assert pixels[len(pixels) - middle[1], middle[0], :3].tolist() == [153] * 3
    assert second.lines[0].get_ydata()[0] == 0.9
    mpl.pyplot.close("all")
    with pytest.raises(ValueError, match="alpha must be a number above 0 and below 1"):
        CcmDisplay.from_sets(sets, alpha=1.5)


def test_a_batch_is_refused():
    sets = conformal.prediction_sets(P.reshape(2, 40, 5), [[0.5], [0.5]], rng=0)
    with pytest.raises(ValueError, match="sets must be without a batch"):
        CcmDisplay.from_sets(sets)
