"""Pictures of geometric matrices: the numbers of the diagnostics and of the curve are what is drawn."""

import matplotlib as mpl
import numpy as np
import pytest

import cmfast
from cmfast.display import GcmDisplay

mpl.use("Agg")
from matplotlib import pyplot as plt

pytestmark = [pytest.mark.pictures, pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")]  # of few points


@pytest.fixture(autouse=True)
def _close():
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1500)
    X = rng.normal(size=(1500, 2)) + y[:, None]
    return X, y, np.clip(np.rint(X.mean(axis=1)), 0, 2).astype(int)


def test_matrix_and_overlaps(points):
    result = cmfast.geometric_confusion_matrix(*points, weights="row")
    display = GcmDisplay.from_result(result, display_labels=list("abc"))
    assert display.plot() is display
    np.testing.assert_allclose(display.im_.get_array().data, result.matrix / result.matrix.sum())
    sure, beyond = ([bar.get_width() for bar in bars] for bars in display.bars_)
    assert sure == [result.diagnostics.guaranteed]
    assert sure[0] + beyond[0] == pytest.approx(result.diagnostics.overlap)
    assert [label.get_text() for label in display.axes_[0].get_yticklabels()] == list("abc")
    assert len(display.axes_) == 2
    assert display.lines_ == []


def test_several_weightings_over_the_widths(points):
    weights = ["row", "bi"]
    result = cmfast.geometric_confusion_matrix(*points, weights=weights)
    curve = cmfast.width_curve(*points, weights=weights, factors=(0.5, 1, 2), origins=2)
    display = GcmDisplay.from_result(result, curve).plot()
    assert [label.get_text() for label in display.axes_[1].get_yticklabels()] == weights
    assert [line.get_label() for line in display.lines_] == weights
    for k, line in enumerate(display.lines_):
        np.testing.assert_allclose(line.get_xdata(), [0.5, 1, 2])
        np.testing.assert_allclose(line.get_ydata(), curve.overlaps[..., k].mean(axis=1))
    other = cmfast.width_curve(*points, weights="row", factors=(1,), origins=1)
    with pytest.raises(ValueError, match=r"^display.GcmDisplay.from_result: curve must be of the weightings row, bi"):
        GcmDisplay.from_result(result, other)
    with pytest.raises(TypeError, match="result must be GcmResult, from geometric_confusion_matrix, got int"):
        GcmDisplay.from_result(3)
    with pytest.raises(TypeError, match="curve must be WidthCurve, from width_curve, got str"):
        GcmDisplay.from_result(result, "curve")
