"""Conformal sets by the CUDA kernels: the bits of the CPU, for any order of threads."""

import device
import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import conformal

pytestmark = [pytest.mark.cuda_host, *device.marks]

RNG = np.random.default_rng(3)


def chain(P, y, u, on, **rule):
    """Return everything from probabilities to correlations, on arrays that `on` makes."""
    rows, labels, draws = on(P), on(y), on(u)
    s = conformal.scores(rows, labels, u=draws, **rule)
    q = conformal.threshold(s, [0.1, 0.4])
    sets = conformal.prediction_sets(rows, q, u=draws, **rule)
    counts, covered = conformal.ccm(sets), conformal.coverage_confusion(sets, labels)
    by_class = conformal.threshold(s, [0.1, 0.4], y=labels, n_classes=P.shape[-1], on_failure="ignore")
    own = conformal.prediction_sets(rows, by_class, u=draws, empty="top1", **rule)
    found = [s, q, sets.packed, sets.mask, sets.coverage(labels), counts.n, counts.G, counts.correlation()]
    found += [covered.V, covered.rates(), counts.sum(0).G, by_class, own.sizes]
    found.append(conformal.score_histogram(s, top=301.0).threshold(0.1))
    return tuple(x if isinstance(x, np.ndarray) else x.get() for x in found)


@pytest.mark.parametrize("C", [3, 24, 70])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_both_give_the_same_bits(C, kind):
    P = RNG.dirichlet(np.full(C, 0.3), (2, 60)).astype(kind)
    y, u = RNG.integers(0, C, (2, 60)), RNG.random((2, 60))
    want = chain(P, y, u, np.asarray)
    for one, other in zip(chain(P, y, u, device.asarray), want, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


@pytest.mark.parametrize("rule", [{"method": "saps", "lam": 0.1}, {"method": "top_k"}], ids=str)
def test_scores_of_ranks_have_the_same_bits(rule):
    """For teams of every width; ties, and rows of many equal probabilities."""
    for C in (1, 5, 40, 300):
        P = np.round(RNG.dirichlet(np.full(C, 0.3), (2, 41)) * 32) / 32
        y, u = RNG.integers(0, C, (2, 41)), RNG.random((2, 41))
        found, want = chain(P, y, u, device.asarray, **rule), chain(P, y, u, np.asarray, **rule)
        assert_same_bits(found, want)
        every = conformal.scores(device.asarray(P), u=device.asarray(u), **rule)
        assert_same_bits(device.host(every), conformal.scores(P, u=u, **rule))


def test_schedules_change_no_bit():
    P, y, u = RNG.dirichlet(np.full(40, 0.3), (2, 50)), RNG.integers(0, 40, (2, 50)), RNG.random((2, 50))
    want = chain(P, y, u, device.asarray)
    for seed in (1, 2):
        with device.schedule(seed):
            assert_same_bits(chain(P, y, u, device.asarray), want)


def test_nothing_waits_where_failures_are_ignored():
    P, y, u = (device.asarray(x) for x in (np.full((9, 4), 0.25), np.arange(9) % 4, np.full(9, 0.5)))
    with device.waits(0):
        s = conformal.scores(P, y, u=u, on_failure="ignore")
        q = conformal.threshold(s, [0.1, 0.4])
        sets = conformal.prediction_sets(P, q, u=u, on_failure="ignore")
        correlation = conformal.ccm(sets).correlation()
        covered = conformal.coverage_confusion(sets, y, on_failure="ignore")
    assert (correlation.shape, covered.V.shape) == ((2, 4, 4), (2, 4, 4))
    assert device.host(covered.n).sum(-1).tolist() == [9, 9]


def test_it_is_said_there_what_is_wrong_with_the_first_bad_value():
    P, y, u = RNG.dirichlet(np.ones(4), (2, 5)), np.zeros((2, 5), np.int64), np.full((2, 5), 0.5)
    y[1, 2], u[0, 4] = 4, 2.0
    with pytest.warns(cmfast.FailureWarning, match=r": 2 INVALID; 2 at u\[0, 4\] is not in \[0, 1\]"):
        conformal.scores(device.asarray(P), device.asarray(y), u=device.asarray(u))
    with pytest.warns(cmfast.FailureWarning, match=r": 1 INVALID; 4 at y\[1, 2\] is not one of the 4 classes, 0 to 3"):
        conformal.scores(device.asarray(P), device.asarray(y))
