"""Conformal correlation matrices on digits: what clients give away, what adds up, what sets foretell."""

import numpy as np
import pytest

from cmfast import conformal
from cmfast._pages.parts import Picture, Table
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce.conformal import _central_training, _clients, _sections
from cmfast._reproduce.conformal._network import (
    CENTRE,
    DIGIT_CLASSES,
    ConformalSettings,
    digits,
    init_weights,
    make_sets,
)

pytestmark = pytest.mark.papers


@pytest.fixture(scope="module")
def some():
    """Return the digits of a seed, sets of a network that has learned nothing, and the rows of clients."""
    data, rng = digits(0), np.random.default_rng(0)
    weights = init_weights(rng)
    return data, weights, _clients.split_among_clients(data[5], 0.5, 10, rng)


def test_counts_of_clients_add_up_to_those_of_all(some):
    data, weights, tested = some
    own = _clients.count_client_sets(weights, data, tested, 0)
    whole = conformal.ccm(make_sets(weights, data, 0, [0.1]))
    assert (whole.G[0] == sum(own).G).all()
    found = _clients.compare_merged_with_mean(own)
    assert found["gaps"].max() > 0
    assert _clients.compare_merged_with_mean([sum(own)] * 3)["gaps"].max() == pytest.approx(0, abs=1e-15)


def test_shares_tell_the_size_where_they_have_no_common_divisor():
    def counted(sizes):
        sets = (conformal.prediction_sets(np.eye(DIGIT_CLASSES)[r], [0.5], u=np.full(len(r), 0.6)) for r in sizes)
        return [conformal.ccm(each).sum(0) for each in sets]

    told = _clients.find_revealed_counts(
        counted([np.array([0, 0, 1, 2, 3]), np.array([0, 0, 1, 1]), np.array([0] * 7)])
    )
    assert told == [True, False, False]


def test_what_one_half_foretells_of_the_other():
    y = np.array([0, 1, 2, 3] * 2)
    guess = np.array([0, 1, 2, 3, 1, 1, 2, 3])  # 0 and 1 are confused in the second half alone
    P = np.eye(DIGIT_CLASSES)[y] + 0.0
    P[0, :2] = 0.5
    sets = conformal.prediction_sets(P, [0.4, 0.5, 0.9, 0.95], u=np.full(8, 0.4))
    assert conformal.ccm(sets).G[CENTRE, 0, 1] > 0
    with_set, without = _central_training.compute_foretold_shares(sets, y, guess)
    assert (with_set, without) == (1.0, 0.0)


def test_every_part_of_a_picture_is_in_numbers():
    one = _central_training.train_network(0, ConformalSettings(epochs=1))
    picture, table = (_sections.make_sets_section([one]).find(kind)[0] for kind in (Picture, Table))
    found = picture.numbers
    y, guess = one["picture"][1:]
    assert found["confusion"].sum() == found["rows_by_size"].sum() == len(y) == 600
    assert np.trace(found["confusion"]) == (y == guess).sum()
    at = next(row for row in table.rows if row[0] == "0.1")
    assert found["coverage"] @ np.bincount(y) / 600 == pytest.approx(float(at[1]), abs=1e-4)


def test_clients_are_alike_or_not():
    y = np.repeat(np.arange(DIGIT_CLASSES), 60)
    spread = {}
    for concentration in (0.1, 5.0):
        rows = _clients.split_among_clients(y, concentration, 10, np.random.default_rng(1))
        assert sorted(np.concatenate(rows)) == list(range(600))
        spread[concentration] = np.std([np.bincount(y[r], minlength=DIGIT_CLASSES) for r in rows])
    assert spread[0.1] > 2 * spread[5.0]


def test_a_mean_leaves_out_what_is_not_defined():
    found = paired.compute_interval(np.array([1.0, np.nan, 3.0]), 0.95)
    assert (found["mean"], found["error"]) == (2.0, 1.0)
    assert np.isnan(paired.compute_interval(np.array([np.nan]), 0.95)["mean"])


def test_one_seed_is_one_result():
    settings = ConformalSettings(rounds=2)
    one, two = (_clients.federate(1, "high", 0.5, settings) for _ in range(2))
    np.testing.assert_array_equal(one.pop("by_round"), two.pop("by_round"))
    assert {**one, "counts": 0} == {**two, "counts": 0}
    assert one["accuracy"] != _clients.federate(2, "high", 0.5, settings)["accuracy"]
