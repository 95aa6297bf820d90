"""Pictures of differences: signed, on a scale that is even on both sides, with marks where paired counts say so."""

import itertools
from math import comb

import matplotlib as mpl
import numpy as np
import pytest

from cmfast import uncertainty
from cmfast.display import ConfusionDisplay

mpl.use("Agg")
from matplotlib import pyplot as plt

pytestmark = pytest.mark.pictures

A = np.array([[80, 20], [10, 90]])
B = np.array([[60, 40], [10, 90]])


@pytest.fixture(autouse=True)
def _close():
    plt.close("all")
    yield
    plt.close("all")


def texts(display):
    return [["" if text is None else text.get_text() for text in row] for row in display.text_]


def test_signs_and_a_scale_around_zero():
    display = ConfusionDisplay.compare(A, B)
    np.testing.assert_allclose(display.difference, [[0.2, -0.2], [0, 0]], atol=1e-15)
    assert display.significant is None
    assert display.plot() is display
    assert texts(display) == [["+20", "\N{MINUS SIGN}20"], ["", ""]]
    assert display.im_.norm.vmin == -display.im_.norm.vmax == pytest.approx(-0.2)
    assert display.plot(vmax=0.5).im_.norm.vmax == 0.5
    more, less = (display.im_.to_rgba(x)[:3] for x in (0.5, -0.5))
    assert more[0] > more[2]  # orange
    assert less[0] < less[2]  # blue


def test_counts_and_orders():
    display = ConfusionDisplay.compare(A, B, normalize=None, order="recall", display_labels=["a", "b"])
    assert display.difference.tolist() == [[20, -20], [0, 0]]
    other = ConfusionDisplay.compare(A, B, normalize=None, order=[1, 0], display_labels=["a", "b"])
    assert other.difference.tolist() == [[0, 0], [-20, 20]]
    assert other.display_labels == ["b", "a"]
    assert texts(other.plot())[1] == ["\N{MINUS SIGN}20", "+20"]


def slowly(y, a, b, C):
    """Return the p-values of all cells: exact, and corrected by Holm."""
    found = {}
    for i, k in itertools.product(range(C), repeat=2):
        said = [[(s, o) for t, s, o in zip(y, *pair, strict=True) if t == i] for pair in ((a, b), (b, a))]
        only = [sum(s == k != o for s, o in pairs) for pairs in said]
        n = sum(only)
        if n:
            found[i, k] = min(1.0, 2 * sum(comb(n, m) for m in range(min(only) + 1)) / 2**n)
    out, worst = np.ones((C, C)), 0.0
    for rank, (place, p) in enumerate(sorted(found.items(), key=lambda item: item[1])):
        worst = max(worst, p * (len(found) - rank))
        out[place] = min(1.0, worst)
    return out


def test_marks_are_mcnemars_per_cell_corrected_by_holm(rng):
    y = rng.integers(0, 3, 300)
    a = np.where(rng.random(300) < 0.1, (y + 1) % 3, y)
    b = np.where(rng.random(300) < 0.25, (y + 1) % 3, y)
    T = uncertainty.paired_counts(y, a, b)
    display = ConfusionDisplay.compare(T.first, T.second, paired=T)
    want = slowly(y.tolist(), a.tolist(), b.tolist(), 3)
    np.testing.assert_allclose(display.p_value, want, rtol=1e-9)
    assert display.significant.any()
    assert not display.significant.all()
    display.plot()
    assert display.ax_.get_xlabel() == "predicted\n*: significant"
    starred = display.significant & (display.difference != 0)
    np.testing.assert_array_equal(np.char.endswith(texts(display), "*"), starred)
    marked = display.plot(text="none")
    assert marked.text_ is None
    assert marked.marks_.get_offsets()[:, ::-1].tolist() == np.argwhere(display.significant).tolist()
    wanted = "paired must be the counts of A and B"
    with pytest.raises(ValueError, match=f"^display.ConfusionDisplay.compare: {wanted}, got others"):
        ConfusionDisplay.compare(T.second, T.first, paired=T)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        ConfusionDisplay.compare(A, B, confidence_level=1)
    with pytest.raises(ValueError, match=r"B must be matrices of shape \(2, 2\) as A, got shape \(3, 3\)"):
        ConfusionDisplay.compare(A, np.ones((3, 3)))


def test_what_is_undefined_in_either_is_striped():
    display = ConfusionDisplay.compare([[1.0, np.nan], [1, 1]], [[1.0, 1], [np.inf, 3]], normalize=None).plot()
    stripes = display.ax_.collections[0].get_paths()
    assert [path.vertices[:4].mean(axis=0).tolist() for path in stripes] == [[1, 0], [0, 1]]
    assert "undefined" in display.ax_.get_xlabel()


def test_of_many_classes_the_strongest_of_a_dot_is_seen():
    A, B = np.zeros((2, 800, 800))
    A[5, 700], B[6, 20] = 3, 4
    display = ConfusionDisplay.compare(A, B, normalize=None).plot(colorbar=False)
    shown = display.im_.get_array()
    k = display.dot_
    assert k > 1
    found = {tuple(place): shown[tuple(place)] for place in np.argwhere(~shown.mask)}
    assert found == {(5 // k, 700 // k): 3, (6 // k, 20 // k): -4}
