"""Some thousand samples of groups, with integer weights or an ignored label, against a loop in Python."""

from itertools import product

import numpy as np
import pytest

import cmfast

N = 5000


def count(y, p, weight, groups, ignored):
    """Return the sums of weights by group and pair."""
    found = {}
    for k, pair in enumerate(zip(y.tolist(), p.tolist(), strict=True)):
        if pair[0] != ignored:
            key = (0 if groups is None else int(groups[k]), *pair)
            found[key] = found.get(key, 0) + (1 if weight is None else int(weight[k]))
    return found


def make_labels(rng, C, dtype):
    y = rng.integers(0, C, N).astype(dtype)
    return y, np.where(rng.random(N) < 0.5, y, rng.integers(0, C, N).astype(dtype))


@pytest.mark.parametrize("dtype", ["i8", "i4", "i1", "u1", "u8", "u2"])
@pytest.mark.parametrize("kind", ["i8", "i1", "u8", "?", None])
def test_options_together(dtype, kind, rng):
    y, p = make_labels(rng, 9, dtype)
    weight = None if kind is None else rng.integers(0, 2, N).astype(kind) * (1 if kind == "?" else 3)
    for G, ignored in product((None, 1, 5), (None, 0, 4, 8, 200, -1)):
        groups = None if G is None else rng.integers(0, G, N).astype(dtype)
        given = {"sample_weight": weight, "groups": groups, "ignore_index": ignored}
        want = np.zeros((G or 1, 9, 9), np.int64)
        for cell, total in count(y, p, weight, groups, ignored).items():
            want[cell] = total
        want = want if G else want[0]
        found = cmfast.confusion_matrix(y, p, n_classes=9, n_groups=G, **given)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(cmfast.confusion_matrix(y[::-1], p[::-1], n_classes=9, **reverse(given)), want)
        np.testing.assert_array_equal(cmfast.confusion_matrix(y.tolist(), p, n_classes=9, n_groups=G, **given), want)


def reverse(given):
    return {name: x[::-1] if isinstance(x, np.ndarray) else x for name, x in given.items()}


def test_classes_that_occur(rng):
    y, p = make_labels(rng, 4, "i8")
    groups = rng.integers(0, 3, N)
    whole = cmfast.confusion_matrix(y, p, n_classes=4, groups=groups)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p, groups=groups), whole)
    np.testing.assert_array_equal(cmfast.confusion_matrix(3 * y + 2, 3 * p + 2, groups=groups), whole)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y - 7, p - 7, groups=groups), whole)
    far = 10**12 * y
    np.testing.assert_array_equal(cmfast.confusion_matrix(far, 10**12 * p, groups=groups), whole)
    left = cmfast.confusion_matrix(y, np.where(p == 2, 1, p), n_classes=4, ignore_index=2)
    found = cmfast.confusion_matrix(y, np.where(p == 2, 1, p), ignore_index=2)
    np.testing.assert_array_equal(found, np.delete(np.delete(left, 2, 0), 2, 1))
    weightless = np.where(y == 3, 0, 1)
    assert cmfast.confusion_matrix(y, np.where(p == 3, 0, p), sample_weight=weightless).shape == (4, 4)


def test_sums_near_the_end_of_int64(rng):
    y, p = make_labels(rng, 2, "i8")
    weight = np.zeros(N, np.int64)
    weight[:3] = 2**62, 2**62 - 1, -(2**61)
    y[:3] = p[:3] = 1
    assert int(cmfast.confusion_matrix(y, p, n_classes=2, sample_weight=weight)[1, 1]) == 2**63 - 1 - 2**61
    weight[2] = 1
    with pytest.raises(cmfast.FailureError):
        cmfast.confusion_matrix(y, p, n_classes=2, sample_weight=weight, on_failure="raise")


def test_values_out_of_range(rng):
    y, p = make_labels(rng, 3, "i8")
    groups = rng.integers(0, 3, N)
    groups[77] = 3
    assert cmfast.confusion_matrix(y, p, n_classes=3, groups=groups).shape == (4, 3, 3)
    with pytest.raises(ValueError, match=r"groups must be in 0..2, got 1 outside .first: 3 at 77"):
        cmfast.confusion_matrix(y, p, n_classes=3, groups=groups, n_groups=3)
    groups[78] = -1
    with pytest.raises(ValueError, match=r"groups must be at least 0, got 1 outside .first: -1 at 78"):
        cmfast.confusion_matrix(y, p, n_classes=3, groups=groups)
    y[5] = 3
    with pytest.raises(ValueError, match=r"y_true must be in 0..2, got 1 outside .first: 3 at 5"):
        cmfast.confusion_matrix(y, p, n_classes=3, sample_weight=np.ones(N, int))
    assert cmfast.confusion_matrix(y, p, n_classes=3, ignore_index=3).sum() == N - 1
    with pytest.raises(MemoryError, match=r"groups must be 0, 1, ..., one number per matrix"):
        cmfast.confusion_matrix(y, p, groups=groups + 2**55)
    with pytest.raises(ValueError, match="n_groups must be None without groups"):
        cmfast.confusion_matrix(y, p, n_classes=4, n_groups=3)


@pytest.mark.parametrize("n", [3, 3000, 9000])
def test_an_ignored_label_beyond_int64(n):
    far = 2**63 + 5
    y, p = np.array([far, 1, 2] * n, np.uint64), np.array([1, 1, 2] * n, np.uint64)
    for options in ({}, {"n_classes": 3}, {"labels": [1, 2]}):
        found = cmfast.confusion_matrix(y, p, ignore_index=far, **options)
        np.testing.assert_array_equal(found[-2:, -2:], n * np.eye(2))
        assert found.sum() == 2 * n
    with pytest.raises(ValueError, match="ignore_index must be at most 18446744073709551615"):
        cmfast.confusion_matrix(y, p, ignore_index=2**64)
