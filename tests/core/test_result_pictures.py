"""What the pictures of results show: the numbers of the drawn parts against numbers that are computed here."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import agreement, conformal, contingency, detection, metrics, results, uncertainty

pytestmark = [pytest.mark.pictures, pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")]
plt = pytest.importorskip("matplotlib.pyplot")
S = [[20, 10, 5], [3, 30, 15], [0, 5, 40]]
RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def bars(ax):
    """Return the names, the widths and the texts of horizontal bars."""
    names = [text.get_text() for text in ax.get_yticklabels()]
    return names, [float(bar.get_width()) for bar in ax.patches], [text.get_text() for text in ax.texts]


def steps(ax):
    """Return the edges and heights of every histogram by its name."""
    data = {one.get_label(): one.get_data() for one in ax.patches}
    return {name: (one.edges.tolist(), one.values.tolist()) for name, one in data.items()}


def painted(image):
    """Return the cells of an image that are not masked, as pairs of indices."""
    return set(map(tuple, np.argwhere(~np.ma.getmaskarray(image.get_array())).tolist()))


def legend(ax):
    found = ax.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def test_symmetry():
    names, widths, texts = bars(uncertainty.bowker(S).plot())
    assert names == ["0, 2", "1, 2", "0, 1"]  # by their parts of the chi-square: 5, 5, 49/13
    assert widths == [5, 10, 7]
    assert texts == ["5 and 0", "15 and 5", "10 and 3"]
    names, widths, texts = bars(uncertainty.stuart_maxwell(S).plot())
    assert (names, widths) == (["2", "0", "1"], [-15, 12, 3])
    assert texts == ["45 and 60", "35 and 23", "48 and 45"]


@pytest.mark.parametrize("make", [
    uncertainty.bowker,
    lambda y, a, b: uncertainty.bowker(uncertainty.paired_counts(y, a, b)),
    lambda _, a, b: uncertainty.bowker(cmfast.ConfusionCounts.from_labels(a, b)),
    lambda _, a, b: uncertainty.bowker(pd.crosstab(np.array(a), np.array(b))),
    lambda y, a, b: pickle.loads(pickle.dumps(uncertainty.bowker(y, a, b))),
], ids=["labels", "pairs", "counts", "table", "pickled"])  # fmt: skip
def test_symmetry_names_the_classes(make):
    a, b = ["cat", "dog", "cat", "$f$"] * 5, ["cat", "cat", "dog", "dog"] * 4 + ["cat", "cat", "dog", "$f$"]
    names, widths, _ = bars(make(["cat"] * 20, a, b).plot())
    assert (names, widths) == (["$f$, dog", "cat, dog"], [4, 0])


def test_symmetry_draws_the_largest_of_many():
    table = RNG.integers(0, 50, (30, 30))
    names, widths, _ = bars(uncertainty.bowker(table).plot())
    parts = {
        (i, j): (table[i, j] - table[j, i]) ** 2 / max(table[i, j] + table[j, i], 1)
        for i, j in itertools.combinations(range(30), 2)
    }
    first = sorted(parts, key=lambda pair: -parts[pair])[:20]
    assert names == [f"{i}, {j}" for i, j in first]
    assert widths == [table[i, j] - table[j, i] for i, j in first]


def test_symmetry_without_a_table():
    with pytest.raises(ValueError, match=r"plot draws the test of one table, got a batch of \(2,\)"):
        uncertainty.bowker([S, S]).plot()
    with pytest.raises(ValueError, match="this result does not know its table; call plot of what bowker"):
        results.Symmetry(1.0, 0.5, 3).plot()


def test_sensitivity():
    found = contingency.imbalance_sensitivity("f1", [10.0, 2.0, 50.0], size=4)
    ax = found.plot()
    (line, *_) = ax.lines
    assert line.get_xdata().tolist() == [2, 10, 50]
    assert line.get_ydata().tolist() == found.value[[1, 0, 2]].tolist()
    assert (ax.get_xscale(), ax.get_ylabel()) == ("log", "mean change of f1")
    assert found.to_pandas()["r"].tolist() == [10, 2, 50]
    again = pickle.loads(pickle.dumps(contingency.imbalance_sensitivity("mcc", 4, rule="nodes", size=3)))
    assert again.to_pandas()["r"].tolist() == [4]
    assert again.plot().lines[0].get_ydata().tolist() == [float(again.value)]
    with pytest.raises(ValueError, match="this result does not know its ratios"):
        results.Sensitivity(np.array(1.0), np.array(0.0)).plot()
    assert list(results.Sensitivity(np.array(1.0), np.array(0.0)).to_pandas()) == ["value", "error"]


def test_threshold_matrices():
    y, score = RNG.integers(0, 2, 40), RNG.random(40).round(1)
    ax = metrics.threshold_matrices(y, score).plot()
    assert legend(ax) == ["precision", "recall", "f1"]
    levels = np.sort(score)[::-1]  # ties are repeated
    for line, denominator in zip(ax.lines[:2], (lambda t: (score >= t).sum(), lambda _: y.sum()), strict=True):
        assert line.get_xdata().tolist() == levels.tolist()
        wanted = [((score >= t) & (y == 1)).sum() / denominator(t) for t in levels]
        np.testing.assert_allclose(line.get_ydata(), wanted)
        assert line.get_drawstyle() == "steps-post"  # from each threshold down to the next
    batch = metrics.threshold_matrices(np.stack([y, 1 - y]), np.stack([score, score])).plot("accuracy")
    assert legend(batch) == ["accuracy"]
    assert len(batch.lines) == 2
    np.testing.assert_allclose(batch.lines[1].get_ydata()[-1], (y == 0).mean())
    with pytest.raises(ValueError, match="names must be"):
        metrics.threshold_matrices(y, score).plot("acuracy")


def test_margins():
    ax = metrics.margins(S).plot()
    assert [line.get_ydata().tolist() for line in ax.lines] == [[35, 48, 45], [23, 45, 60]]
    assert [bar.get_height() for bar in ax.patches] == [20, 30, 40]
    assert sorted(legend(ax)) == ["correct", "predicted", "true"]
    batch = metrics.margins([S, np.transpose(S)])
    assert batch.plot(index=1).lines[0].get_ydata().tolist() == [23, 45, 60]
    with pytest.raises(ValueError, match=r"draws one matrix; pass index= to select one of a batch of shape \(2,\)"):
        batch.plot()
    with pytest.raises(IndexError, match="index must be the index of one element"):
        batch.plot(index=2)


def test_fitted_tables():
    M = RNG.random((3, 4, 2))
    found = cmfast.ipf_nd(M, [(0, [5.0, 6.0, 7.0]), (1, [3.0, 4.0, 5.0, 6.0])], ndim=3)
    table = found.to_pandas()
    assert list(table) == ["axis_0", "axis_1", "axis_2", "value"]
    for row in table.itertuples():
        assert row.value == found.table[row.axis_0, row.axis_1, row.axis_2]
    for axes, wanted in ((None, found.table.sum(2)), ((2, 0), found.table.sum(1).T)):
        ax = found.plot(axes=axes)
        np.testing.assert_allclose(ax.images[0].get_array(), wanted)
        assert len(ax.texts) == wanted.size
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("axis 2", "axis 0")
    ((edges, heights),) = steps(found.plot(axes=1)).values()
    assert edges == [-0.5, 0.5, 1.5, 2.5, 3.5]
    np.testing.assert_allclose(heights, [3, 4, 5, 6])
    for axes, error in ((3, ValueError), ((0, 0), ValueError), ((0, 1, 2), ValueError), ("0", TypeError)):
        with pytest.raises(error, match="axes must be"):
            found.plot(axes=axes)
    cells = cmfast.ipf_cells([1.0, 2.0, 3.0], [[0, 0, 1], [0, 1, 1]], [(0, [4.0, 6.0])])
    assert cells.to_pandas()["value"].tolist() == cells.table.tolist()
    ((_, heights),) = steps(cells.plot()).values()
    assert heights == cells.table.tolist()
    batch = cmfast.ipf_nd(np.ones((2, 2, 2)), [(0, [[1.0, 1.0], [2.0, 4.0]])], ndim=2)
    assert list(batch.to_pandas()) == ["batch", "axis_0", "axis_1", "value"]
    np.testing.assert_allclose(batch.plot(index=1).images[0].get_array(), [[1, 1], [2, 2]])


def test_rounded_tables():
    found = cmfast.round_to_margins([[0.75, 1.25, 0.0], [1.25, 2.75, np.nan]], on_failure="ignore")
    ax = found.plot()
    assert painted(ax.images[0]) == set()
    assert len(ax.collections) == 1  # the stripes of undefined cells
    thin = cmfast.round_to_margins(np.arange(1.0, 101).reshape(2, 50)).plot()
    assert thin.get_aspect() == "auto"
    many = cmfast.round_to_margins(np.eye(700)).plot()
    dots = many.images[0].get_array()
    k = -(-700 // len(dots))
    assert k > 1
    assert painted(many.images[0]) == {(i, i) for i in range(len(dots))}
    assert many.get_xlabel() == f"axis 1 (a dot is the largest of {k} x {k})"


def test_support_of_margins():
    found = cmfast.support_nd([[8, 1, 1], [5, 0, 0], [9, 0, 0]], [(0, [1, 1, 1]), (1, [1, 1, 1])])
    table = found.to_pandas()
    assert list(table) == ["margin", "index", "multiplier"]
    assert table["margin"].tolist() == [0, 0, 0, 1, 1, 1]
    assert table["index"].tolist() == ["[0]", "[1]", "[2]"] * 2
    assert table["multiplier"].tolist() == [*found.proof[0], *found.proof[1]]
    ax = found.plot()
    shown = dict(zip(*bars(ax)[:2], strict=True))
    rows = zip(table["margin"], table["index"], table["multiplier"], strict=True)
    assert shown == {f"margins[{margin}]{where}": multiplier for margin, where, multiplier in rows if multiplier}
    assert ax.get_title() == "INFEASIBLE"
    none = cmfast.support_nd(S, [((0, 1), S)])
    assert none.plot().get_title() == "CONVERGED"
    assert not none.plot().patches
    assert len(none.to_pandas()) == 9
    batch = cmfast.support_nd(np.ones((0, 2, 2)), [(0, [1.0, 1.0])], ndim=2)
    assert list(batch.to_pandas()) == ["batch", "margin", "index", "multiplier"]


def test_support():
    found = cmfast.support([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    ax = found.plot()
    block, dead, reached, zero = map(painted, ax.images)
    assert block == {(0, 0), (1, 1), (2, 2)}
    assert dead == {(0, 1)}
    assert reached == zero == set()
    assert legend(ax) == ["in a block", "dead"]
    short = cmfast.support([[8, 1, 1], [5, 0, 0], [9, 0, 0]])
    ax = short.plot()
    assert [painted(image) for image in ax.images] == [
        set(), set(), {(1, 0), (2, 0)}, {(1, 1), (1, 2), (2, 1), (2, 2)},
    ]  # fmt: skip
    assert legend(ax) == ["reached by the certificate", "zero in its rows"]
    table = short.certificate.to_pandas()
    assert list(table) == ["line", "index", "in_certificate"]
    assert table["line"].tolist() == ["row"] * 3 + ["column"] * 3
    assert table["in_certificate"].tolist() == [False, True, True, True, False, False]
    pd.testing.assert_frame_equal(table, short.to_pandas()[list(table)])
    named = cmfast.support(cmfast.ConfusionCounts.from_labels(["b", "a", "$c"], ["b", "a", "$c"])).plot()
    assert [text.get_text() for text in named.get_xticklabels()] == ["$c", "a", "b"]
    with pytest.raises(ValueError, match="one matrix"):
        cmfast.support(np.ones((2, 2, 2))).plot()
    many = np.eye(900)
    many[3, 7] = many[800, 100] = 1
    images = cmfast.support(many).plot().images
    k = -(-900 // len(images[1].get_array()))
    assert painted(images[1]) == {(3 // k, 7 // k), (800 // k, 100 // k)}  # no dead cell disappears


def test_raked_weights():
    age = np.array([0, 0, 1, 1, 1, 1])
    for weights in (None, [1.0, 2.0, 1.0, 1.0, 2.0, 4.0]):
        result = cmfast.rake([age], [(0, [6.0, 8.0])], weights=weights)
        ((edges, heights),) = steps(result.plot()).values()
        factors = result.weights / (1.0 if weights is None else np.array(weights))
        assert sum(heights) == 6
        np.testing.assert_allclose([edges[0], edges[-1]], [factors.min(), factors.max()])
        assert heights[0] == (np.isclose(factors, factors.min())).sum()
    table = pd.DataFrame({"age": age, "area": ["n", "s"] * 3, "w": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    totals = pd.DataFrame({"area": ["n", "n", "s", "s"], "age": [0, 1, 0, 1], "total": [3.0, 16.0, 4.0, 5.0]})
    grouped = cmfast.rake(table, [totals], weights="w", groups="area")
    ((edges, heights),) = steps(grouped.plot()).values()
    factors = grouped.weights / table["w"]
    np.testing.assert_allclose([edges[0], edges[-1]], [factors.min(), factors.max()])
    np.testing.assert_array_equal(heights, np.histogram(factors, edges)[0])
    batch = cmfast.rake([age], [(0, [[6.0, 8.0], [3.0, 3.0]])])
    assert legend(batch.plot()) == ["element 0", "element 1"]
    with pytest.raises(ValueError, match="does not know the records that were raked; call plot of what rake returned"):
        results.RakeResult(*result).plot()


def test_balanced_weights():
    pixels = ([0, 0, 1, 4], [1, 2, 2, 4], [1, 2, 3, 1])
    result = cmfast.balance((*pixels, 5), symmetric="upper", min_nnz=2)
    ax = result.plot()
    weights, *left_out = ax.lines
    np.testing.assert_array_equal(weights.get_ydata(), result.weights)
    assert {line.get_label(): line.get_xdata().tolist() for line in left_out} == {"left out: min_nnz": [3, 4]}
    assert ax.get_yscale() == "linear"
    wide = result._replace(weights=np.array([1e-3, 1.0, np.nan]), reason=np.array([0, 0, 5], np.int8)).plot()
    assert wide.get_yscale() == "log"
    assert legend(wide) == ["left out: empty"]


def test_matched_boxes():
    true = [[0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 60, 60]]
    predicted = [[0, 0, 10, 9], [20, 20, 30, 26.5], [80, 80, 90, 90]]
    ax = detection.match(true, predicted).plot()
    ((edges, heights),) = steps(ax).values()
    assert {round(edges[k], 2) for k in np.flatnonzero(heights)} == {0.65, 0.9}
    assert sum(heights) == 2
    assert ax.get_title() == "2 pairs, 1 missed, 1 false"


def test_sparse_histograms():
    grid = cmfast.Grid([0.5, 0.0], [0.25, 2.0])
    X = np.array([[0.6, 1.0], [0.6, 3.0], [1.3, 1.0], [0.9, 9.0], [np.nan, 0.0]])
    h = cmfast.sparse_histogram(X, grid=grid, groups=[0, 0, 0, 2, 1], on_failure="ignore")
    assert steps(h.plot()) == {
        "group 0": ([0.5, 0.75, 1.25, 1.5], [2, 0, 1]),
        "group 2": ([0.75, 1.0], [1]),
    }
    assert steps(h.plot(axis=1)) == {"group 0": ([0, 2, 4], [2, 1]), "group 2": ([8, 10], [1])}
    assert steps(h.plot(axis=-2)) == steps(h.plot())
    for axis in (2, -3):
        with pytest.raises(ValueError, match="axis must be"):
            h.plot(axis=axis)
    groups = np.repeat(range(10), range(1, 11))
    many = cmfast.sparse_histogram(np.zeros((55, 1)), grid=cmfast.Grid([0.0], [1.0]), groups=groups)
    ax = many.plot()
    assert list(steps(ax)) == [f"group {k}" for k in range(2, 10)]
    assert ax.get_title() == "the largest 8 of 10 groups"
    none = cmfast.sparse_histogram(np.zeros((0, 1)), grid=cmfast.Grid([0.0], [1.0]))
    assert steps(none.plot()) == {}


def test_cell_counts():
    X = RNG.normal(size=(60, 2))
    y, p = RNG.integers(0, 3, (2, 60))
    cells = cmfast.cell_counts(X, y, p, grid=cmfast.Grid([0.0, 0.0], [1.0, 1.0]))
    table = cells.to_pandas()
    assert list(table) == ["triple", "axis_0", "axis_1", "label", "prediction", "count"]
    keys = ["axis_0", "axis_1", "label", "prediction"]
    plain = pd.DataFrame(np.column_stack([np.floor(X).astype(int), y, p]), columns=keys)
    wanted = plain.value_counts(sort=False).sort_index().reset_index(name="count")
    pd.testing.assert_frame_equal(table[[*keys, "count"]], wanted, check_dtype=False)
    assert steps(cells.plot(axis=1)) == steps(cells.label_histogram().plot(axis=1))


def test_principal_axes():
    axes = cmfast.pca(RNG.normal(size=(50, 4)) * [5, 3, 2, 1], 3)
    table = axes.to_pandas()
    assert list(table) == ["explained_variance_ratio", *(f"column_{k}" for k in range(4))]
    assert table.index.name == "axis"
    np.testing.assert_array_equal(table.iloc[:, 1:], axes.components)
    ax = axes.plot()
    np.testing.assert_array_equal([bar.get_height() for bar in ax.patches], axes.explained_variance_ratio)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.cumsum(axes.explained_variance_ratio))


def test_counts_of_prediction_sets():
    P = RNG.dirichlet(np.ones(3), 30)
    sets = conformal.prediction_sets(P, [0.5, 0.9])
    counts = conformal.ccm(sets)
    np.testing.assert_array_equal(counts.plot(index=1).images[0].get_array(), counts.correlation()[1])
    y = RNG.integers(0, 3, 30)
    coverage = conformal.coverage_confusion(sets, y)
    drawn = coverage.plot(index=1)
    np.testing.assert_array_equal(drawn.counts, coverage.rates()[1])
    assert drawn.ax_.get_xlabel() == "in the set"
    for one in (counts, coverage):
        with pytest.raises(ValueError, match=r"one of a batch of shape \(2,\)"):
            one.plot()


def test_score_histograms():
    scores = RNG.random((2, 500)) * 1.1
    found = conformal.score_histogram(scores, bins=1024)
    ax = found.plot()
    for k, row in enumerate(scores):
        edges, heights = steps(ax)[f"element {k}"]
        assert len(heights) <= 100
        assert edges[-1] == 1
        assert sum(heights) == (row <= 1).sum()
        np.testing.assert_array_equal(heights, np.histogram(row[row <= 1], edges)[0])
    assert ax.get_title() == f"{(scores > 1).sum()} beyond the grid"


def test_diagnostics_of_a_geometric_matrix():
    y = RNG.integers(0, 3, 600)
    X = RNG.normal(size=(600, 2)) + y[:, None]
    guess = np.where(RNG.random(600) < 0.7, y, 0)
    found = cmfast.geometric_confusion_matrix(X, y, guess, weights=["row", "col"], on_failure="ignore")
    ax, both = found.diagnostics.plot(), found.plot()
    for drawn in (ax, both.axes_[1]):
        widths = [bar.get_width() for bar in drawn.patches]
        np.testing.assert_allclose(widths[:2], found.diagnostics.guaranteed)
        np.testing.assert_allclose(np.add(widths[:2], widths[2:]), found.diagnostics.overlap)
        assert [text.get_text() for text in drawn.get_yticklabels()] == ["row", "col"]


def test_containers_explain_each_of_their_results():
    intervals = uncertainty.interval(S, ["recall", "mcc"], method="normal")
    lines = intervals.explain().splitlines()
    assert lines == [intervals["recall"].explain(), intervals["mcc"].explain()]
    assert lines[1].startswith("mcc: ")
    posteriors = uncertainty.posterior(S, ["accuracy", "mcc"], n_resamples=20)
    assert posteriors.explain().splitlines()[1] == posteriors["mcc"].explain()
    both = agreement.compute([[0, 0], [0, 1], [1, 1]] * 9, ["fleiss_kappa", "gwet_ac1"])
    assert both.explain().splitlines()[0] == f"fleiss_kappa: {both['fleiss_kappa'].explain()}"


def test_one_flip():
    T = uncertainty.paired_counts(["a", "<b>", "<b>"], ["a", "a", "a"], ["a", "<b>", "<b>"])
    (flip,) = T.flips(1)
    assert flip.explain() == "2 samples: the first predicts a, the second <b>, the true class is <b>"
    assert repr(flip) == "Flip(truth='<b>', first='a', second='<b>', n_samples=2)"
    shown = flip._repr_html_()
    assert "<th>truth</th><td><bdi>&lt;b&gt;</bdi></td>" in shown
    assert "<b>" not in shown
    pd.testing.assert_frame_equal(flip.to_pandas(), pd.DataFrame(T.flips(1)))


@pytest.mark.parametrize("test", [uncertainty.bowker, uncertainty.stuart_maxwell])
def test_symmetry_keeps_what_it_draws_and_no_table(test):
    table = np.random.default_rng(3).integers(0, 9, (400, 400))
    found = test(table)
    assert len(pickle.dumps(found)) < 10_000  # of 1.3 MB
    assert len(bars(found.plot())[0]) == 20
    huge, plain = test(np.array(S, float) * 2.0**900), test(S)  # scaled while it is tested
    assert bars(huge.plot())[0] == bars(plain.plot())[0]
    assert bars(huge.plot())[1] == [width * 2.0**900 for width in bars(plain.plot())[1]]
    for empty in (np.zeros((0, 0)), np.zeros((3, 3)), np.eye(3)):
        names = bars(test(empty).plot())[0]
        assert names == ([] if test is uncertainty.bowker else [str(k) for k in range(len(empty))])
