"""The notebook on four teams: its tables, and draws of two teams on the same cells."""

import numpy as np
import pytest

from cmfast._reproduce.uncertainty import _claims, _ranking, _teams

WHOLE = _teams.TEAMS[:, 1:]


def test_its_table_holds_but_for_the_mean_f1():
    right, wrong = _claims.of_the_table()
    assert (right.verdict, wrong.verdict) == ("holds", "fails")
    assert right.figures["largest_difference"] < 5.001e-4
    assert ".900" in wrong.found


@pytest.mark.parametrize("pairing", _ranking.PAIRINGS)
def test_pairs_have_the_matrices_of_both_teams(pairing):
    for a, b in ((0, 1), (3, 2)):
        T = _ranking.coupled(WHOLE[a], WHOLE[b], pairing)
        np.testing.assert_allclose(T.sum(axis=2), WHOLE[a])
        np.testing.assert_allclose(T.sum(axis=1), WHOLE[b])
    same = _ranking.coupled(WHOLE[0], WHOLE[0], "most alike")
    assert (same.sum(axis=(1, 2)) == np.trace(same, axis1=1, axis2=2)).all()


def test_what_teams_share_makes_differences_surer():
    width = {}
    for pairing in _ranking.PAIRINGS:
        one, other = _ranking.drawn(WHOLE[0], WHOLE[1], pairing, 400, 0)
        gap = _teams.values(one)["accuracy"] - _teams.values(other)["accuracy"]
        assert gap.mean() == pytest.approx(-0.0049, abs=6e-4)
        width[pairing] = gap.std()
    assert width["most alike"] < 0.75 * width["independent"]


def test_told_apart_and_ranked_differently():
    def one(kind, estimate, low, high):
        return _ranking.Difference((0, 1), "accuracy", kind, "most alike", estimate, low, high)

    found = [one("counts", 0.1, 0.05, 0.2), one("normalised", -0.1, -0.3, 0.1)]
    assert [d.told_apart for d in found] == [True, False]
    assert _ranking.opposite(found) == [((0, 1), "accuracy", False)]
    assert _ranking.told_apart(found)["counts"]["most alike"]["accuracy"] == 1
