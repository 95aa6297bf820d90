"""Counts with labels as an argument of functions of matrices, and methods that call these functions."""

import matplotlib as mpl
import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import metrics, uncertainty

mpl.use("agg")

TRUTH, GUESS = np.random.default_rng(0).integers(0, 3, (2, 400))
NAMES = np.array(["cat", "dog", "bird"])
COUNTS = cmfast.ConfusionCounts.from_labels(NAMES[TRUTH], NAMES[GUESS])
GROUPED = cmfast.ConfusionCounts.from_labels(TRUTH, GUESS, groups=np.arange(400) % 2)

FUNCTIONS = {
    "bi_normalize": cmfast.bi_normalize,
    "compute": lambda M: metrics.compute(M, ["mcc", "recall", "f1_macro"]),
    "f1": metrics.f1,
    "interval": lambda M: uncertainty.interval(M, ["mcc", "recall"], n_resamples=50),
    "ipf": cmfast.ipf,
    "kl_divergence": lambda M: cmfast.kl_divergence(M, M + 1 if isinstance(M, np.ndarray) else M.matrix + 1),
    "margins": metrics.margins,
    "mcc": metrics.mcc,
    "normalize": lambda M: cmfast.normalize(M, "true"),
    "overlap": lambda M: cmfast.overlap(M, M),
    "posterior": lambda M: uncertainty.posterior(M, "mcc", n_resamples=50),
    "resample": lambda M: uncertainty.resample(M, n_resamples=3),
    "standard_error": lambda M: uncertainty.standard_error(M, "f1"),
    "support": cmfast.support,
}


def leaves(x):
    """Yield the arrays and numbers of a result."""
    if isinstance(x, dict):
        x = tuple(x.values())
    if hasattr(x, "__dataclass_fields__"):
        x = tuple(getattr(x, name) for name in x.__dataclass_fields__)
    if isinstance(x, tuple | list):
        for part in x:
            yield from leaves(part)
    elif x is not None and not isinstance(x, str):
        yield x


@pytest.mark.parametrize("counts", [COUNTS, GROUPED], ids=["one", "groups"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_matrices_take_counts(name, counts):
    got, want = (list(leaves(FUNCTIONS[name](M))) for M in (counts, counts.matrix))
    assert len(got) == len(want) > 0
    for one, other in zip(got, want, strict=True):
        assert_same_bits(np.asarray(one), np.asarray(other))


def test_counts_of_tensors_give_tensors():
    torch = pytest.importorskip("torch")
    counts = cmfast.ConfusionCounts.from_labels(torch.tensor(TRUTH), torch.tensor(GUESS))
    found = cmfast.bi_normalize(counts)
    assert isinstance(found, torch.Tensor)
    assert_same_bits(found.numpy(), cmfast.bi_normalize(counts.matrix.numpy()))


def test_the_positive_class_is_that_of_compute():
    """Of -1 and 1, and of 1 alone; other pairs of integers must name it, as a position may be the wrong one."""
    for truth, guess in (([-1, 1, 1], [1, 1, -1]), ([1, 1], [1, 1])):
        counts = cmfast.ConfusionCounts.from_labels(truth, guess)
        assert metrics.compute(counts, "recall_binary") == counts.compute("recall_binary")
        assert uncertainty.standard_error(counts, "recall_binary") >= 0
    counts = cmfast.ConfusionCounts.from_labels([1, 2, 2], [2, 2, 1])
    for call in (metrics.compute, uncertainty.interval, uncertainty.posterior):
        with pytest.raises(ValueError, match=r"pos_label must be one of the labels \[1, 2\], got None"):
            call(counts, "f1_binary")
    found = counts.interval("recall_binary", pos_label=1, method="wilson")
    assert found.estimate == 0
    other = counts.interval("recall_binary", pos_label=2, method="wilson")
    assert other.estimate == 0.5


def test_methods_are_the_functions():
    assert_same_bits(COUNTS.bi_normalize(), cmfast.bi_normalize(COUNTS.matrix))
    assert_same_bits(GROUPED.bi_normalize(tol=1e-6), cmfast.bi_normalize(GROUPED.matrix, tol=1e-6))
    got = COUNTS.interval("mcc", n_resamples=50, rng=3)
    want = uncertainty.interval(COUNTS.matrix, "mcc", n_resamples=50, rng=3)
    assert (got.low, got.high) == (want.low, want.high)
    with pytest.raises(ValueError, match=r"^ConfusionCounts\.interval: pos_label must be None for other than two"):
        COUNTS.interval("f1_binary", pos_label="cat")


def test_counts_are_drawn_with_their_labels():
    found = COUNTS.plot(normalize="true", values_format=".1f")
    texts = [label.get_text() for label in found.ax_.get_xticklabels()]
    assert texts == ["bird", "cat", "dog"]
    axes = found.ax_
    assert COUNTS.plot(ax=axes).ax_ is axes
    with pytest.raises(ValueError, match=r"^ConfusionCounts.plot: there are groups; give counts.group\(key\).plot\(\)"):
        GROUPED.plot()
