"""Pictures of confusion matrices: what is drawn is what was computed, and it can be read."""

from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from optional import torch

import cmfast
from cmfast.display import CellsDisplay, ConfusionDisplay, StripDisplay

mpl.use("Agg")
from matplotlib import pyplot as plt

pytestmark = pytest.mark.pictures

M = np.array([[420, 15, 0], [10, 280, 10], [0, 20, 180]])
NAMES = ["cat", "dog", "bird"]


@pytest.fixture(autouse=True)
def _close():
    plt.close("all")
    yield
    plt.close("all")


def texts(display):
    return [["" if text is None else text.get_text() for text in row] for row in display.text_]


def names(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def test_a_dollar_in_a_name_is_a_dollar():
    names_ = ["$0-$10k", "$\\frac{$", "> $20k"]
    stack = np.stack([M, M.T])
    drawn = [
        ConfusionDisplay.from_matrix(M, display_labels=names_).plot(),
        ConfusionDisplay.from_matrix(M, display_labels=NAMES, groups=names_).plot(),
        ConfusionDisplay.compare(M, M.T, display_labels=names_).plot(),
        StripDisplay.from_matrices(stack, display_labels=names_, names=names_[:2]).plot(),
        CellsDisplay.from_matrices(stack, display_labels=names_, names=names_[:2]).plot(),
    ]
    for display in drawn:
        display.figure_.canvas.draw()  # refuses formulas that are none
        texts_ = [text for text in display.figure_.findobj(mpl.text.Text) if "$" in text.get_text()]
        assert not any(text.get_parse_math() for text in texts_)


def test_contract_of_scikit_learn():
    display = ConfusionDisplay.from_matrix(M, display_labels=NAMES)
    assert not hasattr(display, "ax_")
    assert display.plot() is display
    assert display.ax_.figure is display.figure_
    figure, ax = plt.subplots()
    assert display.plot(ax=ax).ax_ is ax
    assert display.figure_ is figure
    assert texts(display) == [["420", "15", ""], ["10", "280", "10"], ["", "20", "180"]]
    assert names(display) == NAMES
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted", "true")


def test_the_diagonal_has_a_scale_of_its_own_and_zeros_are_blank():
    display = ConfusionDisplay.from_matrix(M).plot()
    off, on = display.im_.get_array(), display.diagonal_.get_array()
    assert np.argwhere(~off.mask).tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert np.argwhere(~on.mask).tolist() == [[0, 0], [1, 1], [2, 2]]
    assert (display.im_.norm.vmin, display.im_.norm.vmax) == (0, 20)
    assert (display.diagonal_.norm.vmin, display.diagonal_.norm.vmax) == (0, 420)
    assert display.im_.cmap(np.ma.masked)[3] == 0
    same = ConfusionDisplay.from_matrix(M).plot(own_diagonal=False)
    assert same.diagonal_ is None
    assert same.im_.norm.vmax == 420


def test_the_range_is_fixed_by_the_caller():
    display = ConfusionDisplay.from_matrix(M, normalize="row").plot(vmin=0.01, vmax=0.5)
    assert (display.im_.norm.vmin, display.im_.norm.vmax) == (0.01, 0.5)
    assert (display.diagonal_.norm.vmin, display.diagonal_.norm.vmax) == (0, 1)
    logarithm = ConfusionDisplay.from_matrix(M).plot(log=True).im_.norm
    assert isinstance(logarithm, mpl.colors.LogNorm)
    assert (logarithm.vmin, logarithm.vmax) == (10, 20)
    assert ConfusionDisplay.from_matrix(M * 0).plot(log=True).text_ is None


@pytest.mark.parametrize("method", ["row", "true", "col", "pred", "all", "bi"])
def test_any_normalisation(method):
    display = ConfusionDisplay.from_matrix(M + 1, normalize=method)
    np.testing.assert_array_equal(display.shares, cmfast.normalize(M + 1, method))
    display.plot(text="none", colorbar=False)
    np.testing.assert_array_equal(display.im_.get_array().data, display.shares)
    assert display.text_ is None
    assert len(display.figure_.axes) == 1


@pytest.mark.parametrize(("inches", "lines"), [(6, 3), (1.1, 2), (0.8, 1)])
def test_a_triple_has_as_many_lines_as_there_is_room_for(inches, lines):
    ax = plt.figure(figsize=(inches, inches)).add_axes((0.1, 0.1, 0.8, 0.8))
    found = texts(ConfusionDisplay.from_matrix(M).plot(ax=ax, text="triple", colorbar=False))
    assert found[0][1] == ["", "15", "15\n3.4 %", "15\n3.4 %\n4.8 %"][lines]
    assert found[0][2] == ""
    assert ("in a cell" in ax.get_xlabel()) == (lines > 1)


def test_texts_are_within_their_cells():
    display = ConfusionDisplay.from_matrix(M * 10_000, display_labels=NAMES).plot(text="triple")
    display.figure_.draw_without_rendering()
    box = display.ax_.get_window_extent()
    for text in filter(None, display.text_.flat):
        own = text.get_window_extent()
        assert own.width < box.width / 3
        assert own.height < box.height / 3


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(rgb):
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_texts_can_be_read_on_what_is_below(style):
    shares = np.linspace(0.001, 1, 100).reshape(10, 10)
    with plt.style.context(style):
        display = ConfusionDisplay.from_matrix(shares).plot()
    for place, text in np.ndenumerate(display.text_):
        layer = display.diagonal_ if place[0] == place[1] else display.im_
        painted = layer.to_rgba(shares[place])[:3]
        assert contrast(painted, to_rgb(text.get_color())) > 4.5


def test_scales_go_one_way_in_luminance_and_begin_at_the_ground():
    for style, way in (("default", -1), ("dark_background", 1)):
        with plt.style.context(style):
            display = ConfusionDisplay.from_matrix(M).plot()
            ground = luminance(to_rgb(display.ax_.get_facecolor()))
        for layer in (display.im_, display.diagonal_):
            steps = np.array([luminance(layer.cmap(x)[:3]) for x in np.linspace(0, 1, 50)])
            assert (np.diff(steps) * way > 0).all()
            assert 0 < (steps[0] - ground) * way < 0.2


def test_cells_without_a_value_are_striped_and_named():
    display = ConfusionDisplay.from_matrix([[5.0, np.nan, 1], [2, -1.0, np.inf], [1, 1, 1]]).plot()
    (stripes,) = display.ax_.collections
    assert stripes.get_hatch()
    centres = [path.vertices[:4].mean(axis=0).tolist() for path in stripes.get_paths()]
    assert centres == [[1, 0], [1, 1], [2, 1]]
    assert display.ax_.get_xlabel() == "predicted (striped: undefined)"
    assert texts(display)[1] == ["2", "", ""]


def test_orders():
    given = np.array([[1, 9, 0, 0], [0, 0, 0, 0], [5, 0, 15, 0], [0, 0, 1, 3]])
    found = {order: ConfusionDisplay.from_matrix(given, order=order) for order in ("given", "support", "recall")}
    assert found["given"].order.tolist() == [0, 1, 2, 3]
    assert found["support"].order.tolist() == [2, 0, 3, 1]
    assert found["recall"].order.tolist() == [0, 2, 3, 1]  # what never occurs has none, and is last
    some = ConfusionDisplay.from_matrix(given, order=[3, 0], normalize="row", display_labels=list("abcd"))
    assert some.display_labels == ["d", "a"]
    assert some.counts.tolist() == [[3, 0], [0, 1]]
    assert some.shares.tolist() == [[0.75, 0], [0, 0.1]]  # of the whole rows


def test_clustered_classes_that_are_confused_are_neighbours(rng):
    of = rng.permutation(np.arange(24) % 4)
    blocks = np.where(of[:, None] == of, rng.integers(5, 9, (24, 24)), 0) + np.diag(rng.integers(50, 90, 24))
    display = ConfusionDisplay.from_matrix(blocks, order="cluster")
    assert sorted(display.order.tolist()) == list(range(24))
    assert np.count_nonzero(np.diff(of[display.order])) == 3
    np.testing.assert_array_equal(display.counts, blocks[np.ix_(display.order, display.order)])
    again = display.blocks(6)
    assert [len(part.order) for part in again.zoom()] == [6, 6, 6, 6]
    assert again.collapsed().counts.tolist() == np.diag(np.diagonal(again.collapsed().counts)).tolist()
    for few in (np.zeros((4, 4)), np.ones((1, 1)), np.ones((2, 2)), np.empty((0, 0))):
        assert ConfusionDisplay.from_matrix(few, order="cluster").order.tolist() == list(range(len(few)))


def test_groups_stand_together_collapse_and_can_be_looked_into(rng):
    counts = rng.integers(1, 9, (5, 5))
    groups = ["b", "a", "b", "c", "a"]
    display = ConfusionDisplay.from_matrix(counts, groups=groups, normalize="row", order="support")
    assert display.groups == ["b", "b", "a", "a", "c"]
    lines = display.plot().ax_.lines
    assert sorted({float(line.get_xdata()[0]) for line in lines if line.get_xdata()[0] == line.get_xdata()[1]}) == [
        1.5,
        3.5,
    ]
    whole = display.collapsed()
    assert whole.display_labels == ["b", "a", "c"]
    np.testing.assert_array_equal(whole.counts, cmfast.metrics.collapse(counts, groups).matrix)
    np.testing.assert_array_equal(whole.shares, cmfast.normalize(whole.counts, "row"))
    parts = display.zoom()
    assert [sorted(part.order.tolist()) for part in parts] == [[0, 2], [1, 4], [3]]
    np.testing.assert_array_equal(parts[0].shares, display.shares[:2, :2])


def test_a_thousand_classes_can_be_seen():
    cells = np.diag(np.full(1000, 9))
    cells[3, 900] = 5
    display = ConfusionDisplay.from_matrix(cells).blocks(100).plot(log=True, colorbar=False)
    assert display.text_ is None
    assert display.dot_ > 1
    shown = display.im_.get_array()
    assert np.argwhere(~shown.mask).tolist() == [[3 // display.dot_, 900 // display.dot_]]
    pixels = display.ax_.get_window_extent().width / len(shown)
    assert pixels >= 2.5
    assert f"a dot is the largest of {display.dot_} x {display.dot_}" in display.ax_.get_xlabel()
    assert 4 <= len(names(display)) <= 20
    (strip,) = display.ax_.child_axes
    assert strip.images[0].get_array().shape == (len(shown), 1)


def test_of_many_names_those_are_written_that_have_room():
    display = ConfusionDisplay.from_matrix(np.eye(150)).plot(colorbar=False)
    assert names(display)[:3] == ["0", "2", "4"]
    assert display.text_ is None
    long = ConfusionDisplay.from_matrix(np.eye(2), display_labels=["x" * 60, "y"]).plot()
    assert names(long) == ["x" * 25 + "\N{HORIZONTAL ELLIPSIS}", "y"]
    assert [label.get_rotation() for label in long.ax_.get_xticklabels()] == [90, 90]


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor, list], ids=["numpy", "torch", "list"])
def test_from_predictions_counts(kind):
    y, guess = [0, 1, 1, 2, 2], [0, 1, 2, 2, 2]
    display = ConfusionDisplay.from_predictions(kind(y), kind(guess), normalize="row")
    assert display.counts.tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 2]]
    assert display.display_labels == ["0", "1", "2"]
    weighted = ConfusionDisplay.from_predictions(["a", "b"], ["b", "b"], labels=["b", "a"], sample_weight=[2, 3])
    assert weighted.counts.tolist() == [[3, 0], [2, 0]]
    assert weighted.display_labels == ["b", "a"]


class Yes:
    """An estimator that says yes."""

    def predict(self, X):
        """Return as many of it as there are rows."""
        return np.full(len(X), "yes")


def test_from_estimator_predicts():
    display = ConfusionDisplay.from_estimator(Yes(), [[0], [1], [2]], np.array(["yes", "no", "no"]))
    assert display.counts.tolist() == [[0, 2], [0, 1]]
    assert display.display_labels == ["no", "yes"]
    for other in (None, Yes, "model"):
        with pytest.raises(TypeError, match=r"from_estimator: estimator must be an object with a method predict, got"):
            ConfusionDisplay.from_estimator(other, [[0]], ["no"])


def test_a_matrix_that_cannot_be_normalised_is_drawn_as_undefined():
    with pytest.warns(cmfast.FailureWarning, match=r"display.ConfusionDisplay.from_matrix: "):
        display = ConfusionDisplay.from_matrix([[1, 2], [0, 0]], normalize="bi")
    assert "undefined" in display.plot().ax_.get_xlabel()
    with pytest.raises(cmfast.FailureError):
        ConfusionDisplay.from_matrix([[1, 2], [0, 0]], normalize="bi", on_failure="raise")


def test_in_a_part_of_a_figure():
    parts = plt.figure(layout="constrained").subfigures(1, 2)
    display = ConfusionDisplay.from_matrix(M).plot(ax=parts[1].subplots())
    assert display.figure_ is parts[1]
    assert texts(display)[0][0] == "420"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vmin": 2, "vmax": 1}, "vmin must be below vmax, 1, got 2"),
        ({"log": True, "vmin": 0}, "vmin must be finite and above 0, got 0"),
        ({"values_format": "x y"}, "values_format must be a number format"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, words):
    with pytest.raises(ValueError, match=rf"^display.ConfusionDisplay.plot: {words}"):
        ConfusionDisplay.from_matrix(M).plot(**options)
    with pytest.raises(ValueError, match="M must be one matrix"):
        ConfusionDisplay.from_matrix([M, M])


def test_values_are_written_as_asked_for():
    assert texts(ConfusionDisplay.from_matrix(M, normalize="row").plot(values_format=".2f"))[1] == [
        "0.03",
        "0.93",
        "0.03",
    ]


@pytest.mark.parametrize("options", [{}, {"normalize": "row"}, {"display_labels": ["barbera", "barolo", "grignolino"]}])
@pytest.mark.parametrize("managed", [True, False])
def test_scales_do_not_overlap(options, managed):
    ax = None if managed else plt.figure(figsize=(5, 4)).subplots()
    display = ConfusionDisplay.from_matrix([[3, 1, 4], [0, 15, 1], [2, 1, 18]], **options).plot(ax=ax)
    display.figure_.canvas.draw()
    boxes = sorted((one.get_tightbbox() for one in display.figure_.axes), key=lambda box: box.x0)
    assert len(boxes) == 3
    assert all(a.x1 <= b.x0 for a, b in pairwise(boxes))


def written(bar):
    """Return what is written beside a scale."""
    bar.figure.canvas.draw()
    found = [*bar.yaxis.get_majorticklabels(), *bar.yaxis.get_minorticklabels()]
    return [text.get_text() for text in found]


def test_scales_are_written_in_whole_samples_short_numbers_and_percent():
    def right(M, **options):
        display = ConfusionDisplay.from_matrix(M).plot(**options)
        return written(display.diagonal_.colorbar.ax)

    assert right([[2, 1], [1, 1]]) == ["0", "1", "2"]
    assert "1G" in right([[10**9, 1], [1, 10**8]])
    assert "0.5" in right([[1.5, 1], [1, 1]])
    display = ConfusionDisplay.from_matrix([[60, 40], [5, 95]], normalize="row").plot(log=True)
    found = set(written(display.im_.colorbar.ax))  # also what lies beyond its ends
    assert {"5", "10", "20"} <= found <= {"", "1", "2", "5", "10", "20", "50", "100"}


def test_integers_are_written_as_integers():
    display = ConfusionDisplay.from_matrix(1000 * M)
    assert texts(display.plot(values_format="d"))[0] == ["420000", "15000", ""]
    assert texts(display.plot(values_format=","))[0] == ["420,000", "15,000", ""]
    with pytest.raises(ValueError, match=r"a number format such as '\.2f', got 'd'"):
        ConfusionDisplay.from_matrix(M, normalize="row").plot(values_format="d")


def test_a_matrix_is_no_display():
    with pytest.raises(TypeError, match=r"made by ConfusionDisplay.from_matrix or"):
        ConfusionDisplay(M)


def test_labels_are_drawn_at_once_and_once():
    """As scikit-learn's: a call, and plt.show() shows the picture."""
    plt.close("all")
    drawn = ConfusionDisplay.from_predictions(["a", "b", "b"], ["a", "b", "a"])
    assert plt.get_fignums() == [drawn.figure_.number]
    assert [tick.get_text() for tick in drawn.ax_.get_yticklabels()] == ["a", "b"]
    first = drawn.figure_
    drawn.plot(text="triple")  # in place of the first
    assert plt.get_fignums() == [drawn.figure_.number]
    assert drawn.figure_ is not first
    drawn.plot()  # of one that was asked for
    assert len(plt.get_fignums()) == 2
    plt.close("all")
    figure, ax = plt.subplots()
    given = ConfusionDisplay.from_predictions(["a", "b"], ["a", "b"], ax=ax)
    assert given.ax_ is ax
    given.plot(ax=figure.add_subplot())  # the axes of others stay
    assert plt.get_fignums() == [figure.number]
    elsewhere = ConfusionDisplay.from_estimator(Yes(), [[0], [1]], np.array(["yes", "no"])).plot(ax=ax)
    assert elsewhere.ax_ is ax
    assert plt.get_fignums() == [figure.number]
    plt.close("all")
    ConfusionDisplay.from_matrix([[1, 2], [3, 4]])
    cmfast.report(["a", "b"], ["a", "b"], n_resamples=20)
    assert not plt.get_fignums()
