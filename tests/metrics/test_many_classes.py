"""One matrix of many classes is evaluated class by class, with the bits that it has among other matrices."""

import tracemalloc

import numpy as np
import pytest
from cases.metrics import EVERY
from checks import assert_same_bits

from cmfast import metrics

pytestmark = pytest.mark.exhaustive

C, OTHERS = 700, 7  # eight matrices are one tile of the general kernel
ORDERED = ("kappa_l", "kappa_q", "gerrity")
AGAIN = ("min_recall", "geometric_mean", "tau")  # of recalls: these take the general kernel anyway
NAMES = [name for name in EVERY if not name.startswith((*ORDERED, "tau_weighted")) and not name.endswith("_binary")]
FEW = [name for name in NAMES if name not in AGAIN and not name.startswith("tau_n")]


def _make_sums(kind, rng):
    M = rng.integers(0, 4, (C, C)) * (rng.random((C, C)) < 0.05)
    if kind in ("absent", "fractions"):
        M = M * (rng.random(C) < 0.8)[:, None]
    if kind == "diagonal":
        M = np.diag(np.arange(C))
    if kind == "empty":
        M = 0 * M
    if kind in ("fractions", "tiny", "vast"):
        M = M * rng.random((C, C)) * {"fractions": 1.0, "tiny": 1e-200, "vast": 1e200}[kind]
    if kind == "float32":
        M = M.astype(np.float32)
    if kind == "huge":
        M = M * 10**12
    return np.diagonal(M).copy(), M.sum(1), M.sum(0)


KINDS = ("counts", "absent", "diagonal", "empty", "fractions", "tiny", "vast", "float32", "huge")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("undefined", ["present", "nan", "strict", "zero", 0.25], ids=str)
def test_one_matrix_has_the_bits_of_a_batch(kind, undefined, rng):
    one = _make_sums(kind, rng)
    batch = [np.stack([x] + [x[::-1]] * OTHERS) for x in one]
    for names in (FEW, NAMES, ["mcc"], ["recall", "f1_macro"]):
        found = metrics.from_sums(*one, names, undefined=undefined)
        want = metrics.from_sums(*batch, names, undefined=undefined)
        for name in names:
            assert_same_bits(found[name], want[name][0])
    pair = [np.stack([x, x[::-1]]) for x in one]
    for name, value in metrics.from_sums(*pair, FEW, undefined=undefined).items():
        assert_same_bits(value, metrics.from_sums(*batch, FEW, undefined=undefined)[name][:2])


@pytest.mark.parametrize("kind", ["counts", "large", "absent", "empty", "fractions", "tiny", "float32", "huge"])
@pytest.mark.parametrize("undefined", ["present", "nan"])
def test_few_matrices_have_the_bits_of_a_batch(kind, undefined, rng):
    M = rng.integers(0, 4, (OTHERS + 1, C, C)) * (rng.random((OTHERS + 1, C, C)) < 0.05)
    M[3] = np.diag(np.arange(C))
    if kind == "absent":
        M *= (rng.random(C) < 0.8)[:, None]
    if kind == "empty":
        M[:4] = 0
    if kind in ("fractions", "tiny"):
        M = M * rng.random((C, C)) * {"fractions": 1.0, "tiny": 1e-200}[kind]
    if kind == "float32":
        M = (M * rng.random((C, C))).astype(np.float32)
    if kind in ("large", "huge"):  # sums over ordered classes exceed float64, then products of margins too
        M[0] *= 500 if kind == "large" else 10**12
    want = metrics.compute(M, undefined=undefined)
    for first, last in ((0, 1), (1, 2), (3, 4), (0, OTHERS)):
        found = metrics.compute(M[first:last], undefined=undefined)
        out = metrics.compute(M[first:last], undefined=undefined, out={name: x.copy() for name, x in found.items()})
        for name in want:
            assert_same_bits(found[name], want[name][first:last])
            assert_same_bits(out[name], want[name][first:last])
    for name, value in metrics.compute(M[2], undefined=undefined).items():
        assert_same_bits(value, want[name][2])


def test_options_that_pick_classes_are_as_in_a_batch(rng):
    d, t, p = _make_sums("absent", rng)
    batch = [np.stack([x] * (OTHERS + 1)) for x in (d, t, p)]
    chosen = [3, 5, 600]
    for options in ({"average_over": chosen}, {}):
        found = metrics.from_sums(d, t, p, ["f1_macro", "f1", "recall_micro"], **options)
        want = metrics.from_sums(*batch, ["f1_macro", "f1", "recall_micro"], **options)
        for name, value in found.items():
            assert_same_bits(value, want[name][0])


def test_bad_sums_are_invalid_alone_and_beside_good_ones(rng):
    d, t, p = _make_sums("counts", rng)
    bad = d.copy()
    bad[9] = t[9] + 1
    with pytest.warns(Warning, match="INVALID"):
        assert np.isnan(metrics.from_sums(bad, t, p, "mcc"))
    with pytest.warns(Warning, match="INVALID"):
        found = metrics.from_sums(np.stack([bad, d]), np.stack([t, t]), np.stack([p, p]), "mcc")
    assert np.isnan(found[0])
    assert found[1] == metrics.from_sums(d, t, p, "mcc")


def test_a_negative_cell_among_few_matrices_is_invalid(rng):
    M = rng.integers(1, 4, (OTHERS + 1, C, C))
    M[0, 5, 9] = -1  # every sum is positive
    with pytest.warns(Warning, match="negative value"):
        assert np.isnan(metrics.accuracy(M[0]))
    for names in (["accuracy"], ["f1_macro", "kappa_linear"]):
        with pytest.warns(Warning, match="negative value"):
            few = metrics.compute(M[:3], names)
        with pytest.warns(Warning, match="negative value"):
            want = metrics.compute(M, names)
        for name in names:
            assert_same_bits(few[name], want[name][:3])


def test_labels_of_a_hundred_thousand_classes_take_the_memory_of_their_sums():
    many, n = 100_000, 200_000
    y = np.random.default_rng(0).integers(0, many, n)
    names = ["mcc", "f1_macro", "precision_weighted"]
    metrics.from_labels(y, y[::-1].copy(), names, n_classes=many)
    p = y[::-1].copy()
    tracemalloc.start()
    try:
        metrics.from_labels(y, p, names, n_classes=many)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6, peak  # five sums of eight bytes a class, and as much of the pieces that are counted
