"""Laws of the geometric confusion matrix, on any points and weights."""

import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cmfast

pytestmark = pytest.mark.exhaustive

GRID = cmfast.Grid([0.0, 0.0], [1.0, 1.0])
METHODS = ["all", "row", "col"]


@st.composite
def samples(draw, most=60):
    """Points on few cells, so that cells are shared; labels and predictions of up to five classes."""
    n = draw(st.integers(1, most))
    C = draw(st.integers(1, 5))
    X = draw(hnp.arrays(np.float64, (n, 2), elements=st.sampled_from([-1.5, -0.5, 0.0, 0.5, 1.0, 2.5, 7.0])))
    y, p = (draw(hnp.arrays(np.int64, n, elements=st.integers(0, C - 1))) for _ in range(2))
    return X, y, p, C


def count(X, y, p, C, grid=GRID):
    return cmfast.cell_counts(X, y, p, grid=grid, n_classes=C)


def tables(C, draw_seed):
    return [*METHODS, np.random.default_rng(draw_seed).random((C, C)) ** 4]


def kernel(cells, weights):
    """Return the matrix and its bounds, as the diagnostics have them."""
    from cmfast.geometry._prepare_points import compute_gcm

    (matrix, normalized, upper, *_), _ = compute_gcm(cells, weights, {}, "raise", None)
    return matrix, normalized, upper


@given(samples(), st.integers(0, 99))
def test_bounds_hold_exactly(sample, seed):
    matrix, normalized, upper = kernel(count(*sample), tables(sample[-1], seed))
    assert (normalized <= matrix).all()
    assert (matrix <= upper).all()


@given(samples(), st.integers(0, 99))
def test_wider_nested_cells_only_add(sample, seed):
    found = [cmfast.gcm(count(*sample, GRID.scaled(f)), tables(sample[-1], seed)) for f in (1, 2, 4)]
    assert (found[0] <= found[1]).all()
    assert (found[1] <= found[2]).all()


@given(samples(), st.integers(0, 99))
def test_one_cell_reaches_the_upper_bound(sample, seed):
    wide = cmfast.Grid([-100.0, -100.0], [1000.0, 1000.0])
    matrix, _, upper = kernel(count(*sample, wide), tables(sample[-1], seed))
    assert_same_bits(matrix, upper)


@given(samples(), st.integers(0, 99))
def test_points_alone_give_the_lower_bound(sample, seed):
    X, y, p, C = sample
    apart = np.stack([np.arange(len(y)) + 0.5, X[:, 0]], axis=1)
    matrix, normalized, _ = kernel(count(apart, y, p, C), tables(C, seed))
    assert_same_bits(matrix, normalized)


@given(samples(), st.integers(0, 99))
def test_swapping_labels_with_predictions_transposes(sample, seed):
    X, y, p, C = sample
    w = np.random.default_rng(seed).random((C, C))
    one = cmfast.gcm(count(X, y, p, C), ["row", "col", w])
    other = cmfast.gcm(count(X, p, y, C), ["col", "row", w.T.copy()])
    assert_same_bits(one, np.swapaxes(other, 1, 2).copy())


@given(samples(), st.randoms(use_true_random=False))
def test_renaming_classes_permutes_the_matrix(sample, random):
    X, y, p, C = sample
    new = np.array(random.sample(range(C), C))
    one = cmfast.gcm(count(X, y, p, C), METHODS)
    other = cmfast.gcm(count(X, new[y], new[p], C), METHODS)
    assert_same_bits(one, other[:, new[:, None], new])


@given(samples(), st.randoms(use_true_random=False))
def test_order_of_points_is_nothing(sample, random):
    X, y, p, C = sample
    i = np.array(random.sample(range(len(y)), len(y)))
    a, b = count(X, y, p, C), count(X[i], y[i], p[i], C)
    assert_same_bits((a.cells, a.labels, a.predictions, a.counts), (b.cells, b.labels, b.predictions, b.counts))


@given(samples())
def test_every_point_twice(sample):
    cells = count(*sample)
    twice = cells + cells
    np.testing.assert_array_equal(twice.counts, 2 * cells.counts)
    np.testing.assert_allclose(cmfast.gcm(twice, METHODS), cmfast.gcm(cells, METHODS), rtol=1e-14)


@given(samples())
def test_perfect_predictions_give_a_symmetric_matrix(sample):
    X, y, _, C = sample
    G = cmfast.gcm(count(X, y, y, C), METHODS)
    assert_same_bits(G, np.swapaxes(G, 1, 2).copy())


@given(samples(), st.integers(0, 99))
def test_masses_of_the_label_histograms(sample, seed):
    X, y, p, C = sample
    w = np.random.default_rng(seed).random((C, C))
    cells = count(X, y, p, C)
    M = cells.confusion_matrix()
    for axis, h in ((1, cells.label_histogram(w)), (0, cells.prediction_histogram(w))):
        mass = np.bincount(h.groups, h.values, minlength=C)
        np.testing.assert_allclose(mass, (w * M).sum(axis=axis), rtol=1e-13, atol=1e-300)


@given(samples(), st.floats(0.25, 4.0), st.integers(0, 99))
def test_unmixed_cells_add_their_weighted_counts(sample, width, seed):
    X, y, p, C = sample
    grid = cmfast.Grid([0.0, 0.0], [width, width])
    found = count(X, y, p, C, grid)
    w = np.random.default_rng(seed).random((C, C))
    matrix, normalized, _ = kernel(found, w)
    key = np.unique(found.cells, axis=0, return_inverse=True)[1].reshape(-1)
    mixed = False
    for v in range(key.max(initial=-1) + 1):
        mixed |= min(len(set(found.labels[key == v])), len(set(found.predictions[key == v]))) > 1
    assert mixed == bool((matrix > normalized).any())


@settings(max_examples=50)
@given(samples(), st.integers(1, 4))
def test_merging_is_counting_all(sample, parts):
    X, y, p, C = sample
    whole = count(*sample)
    merged = sum(count(X[k::parts], y[k::parts], p[k::parts], C) for k in range(parts))
    assert_same_bits(merged.cells, whole.cells)
    assert_same_bits(merged.counts, whole.counts)
    assert merged.bins == whole.bins
