"""A part of a batch, whose matrices are given the places that they have in the whole, draws what that draws there."""

import device
import numpy as np
import pytest
from checks import assert_same_bits

from cmfast.uncertainty import _intervals, _resample

COUNTS = np.random.default_rng(5).integers(1, 60, (6, 2, 3, 3))
PLACES = np.array([11, 2, 7, 4])  # in the batch of 6 and 2, in an order that no offset has
OPTIONS = {"n": None, "undefined": "present", "pos_label": 1, "on_failure": "ignore", "num_threads": 1}
ON = [pytest.param(np.asarray, id="cpu"), pytest.param(device.asarray, id="cuda", marks=device.marks)]


def replicates(M, scheme, numbers):
    found = _resample._draw_matrices(
        M, None, n_resamples=70, scheme=scheme, n=None, seed=3, on_failure="ignore", num_threads=1, numbers=numbers
    )
    return [device.host(found)]


def intervals(M, numbers, *, of="metrics", method="percentile", scheme="multinomial", clustered=False):
    kind = _intervals.IntervalKind(of, method, 0.9, scheme, "unit")
    found = _intervals._compute_intervals(
        M, wanted=("mcc", "recall"), kind=kind, clustered=clustered, strata=None,
        draws={"n_resamples": 70, "seed": 4}, numbers=numbers, **OPTIONS,
    )  # fmt: skip
    return [device.host(part) for one in found for part in one]


def posteriors(M, numbers):
    draws = {"n_resamples": 70, "seed": 5}
    found = _intervals._draw_posteriors(
        M, wanted=("mcc", "recall"), prior="unit", draws=draws, numbers=numbers, **OPTIONS
    )
    return [device.host(one.draws) for one in found]


def assert_parts_are_of_the_whole(draw, M):
    """Compare what parts of a batch draw, told which they are, with what all of it draws; and with what they would."""
    want = draw(M, None)
    flat = M.reshape(12, *M.shape[2:])
    found, other = draw(flat[PLACES], PLACES), draw(flat[PLACES], None)
    for one, part, whole in zip(other, found, want, strict=True):
        assert_same_bits(part, whole.reshape(12, *whole.shape[2:])[PLACES])
        assert one.shape == part.shape
    assert any((one != part).any() for one, part in zip(other, found, strict=True))


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("scheme", ["multinomial", "row_multinomial", "expected_rounded"])
def test_replicates(on, scheme):
    assert_parts_are_of_the_whole(lambda M, numbers: replicates(M, scheme, numbers), on(COUNTS))


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("options", [{}, {"scheme": "rows"}, {"method": "posterior"}, {"of": "row"}], ids=str)
def test_intervals(on, options):
    assert_parts_are_of_the_whole(lambda M, numbers: intervals(M, numbers, **options), on(COUNTS))


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("of", ["metrics", "row"])
def test_intervals_of_clusters(on, of):
    M = on(np.stack([COUNTS + k * (COUNTS % 3) for k in range(4)], 2))
    assert_parts_are_of_the_whole(lambda M, numbers: intervals(M, numbers, of=of, clustered=True), M)


@pytest.mark.parametrize("on", ON)
def test_posteriors(on):
    assert_parts_are_of_the_whole(posteriors, on(COUNTS))
