"""The notebook on four teams: its tables, and draws of two teams on the same cells."""

import numpy as np
import pytest

from cmfast._reproduce.uncertainty import _claims, _pictures, _ranking, _teams

pytestmark = pytest.mark.papers

WHOLE = _teams.TEAMS[:, 1:]


def test_its_table_holds_but_for_the_mean_f1():
    right, wrong = _claims.claim_table()
    assert (right.verdict, wrong.verdict) == ("holds", "fails")
    assert right.figures["largest_difference"] < 5.001e-4
    assert ".900" in wrong.found


@pytest.mark.parametrize("pairing", _ranking.PAIRINGS)
def test_pairs_have_the_matrices_of_both_teams(pairing):
    for a, b in ((0, 1), (3, 2)):
        T = _ranking.couple_teams(WHOLE[a], WHOLE[b], pairing)
        np.testing.assert_allclose(T.sum(axis=2), WHOLE[a])
        np.testing.assert_allclose(T.sum(axis=1), WHOLE[b])
    same = _ranking.couple_teams(WHOLE[0], WHOLE[0], "most alike")
    assert (same.sum(axis=(1, 2)) == np.trace(same, axis1=1, axis2=2)).all()


def test_what_teams_share_makes_differences_surer():
    width = {}
    for pairing in _ranking.PAIRINGS:
        one, other = _ranking.draw_replicates(WHOLE[0], WHOLE[1], pairing, 400, 0)
        gap = _teams.compute_metrics(one)["accuracy"] - _teams.compute_metrics(other)["accuracy"]
        assert gap.mean() == pytest.approx(-0.0049, abs=6e-4)
        width[pairing] = gap.std()
    assert width["most alike"] < 0.75 * width["independent"]


def test_told_apart_and_ranked_differently():
    def one(kind, estimate, low, high):
        return _ranking.Difference((0, 1), "accuracy", kind, "most alike", estimate, low, high)

    found = [one("counts", 0.1, 0.05, 0.2), one("normalised", -0.1, -0.3, 0.1)]
    assert [d.told_apart for d in found] == [True, False]
    assert _ranking.find_reversals(found) == [((0, 1), "accuracy", False)]
    assert _ranking.count_distinct_pairs(found)["counts"]["most alike"]["accuracy"] == 1


def test_pictures_of_differences_say_how_teams_err():
    found = [_ranking.Difference((0, 1), "accuracy", "counts", way, 0.1, 0.05, 0.2) for way in _ranking.PAIRINGS]
    alike, alone = (_pictures.draw_differences(found, "accuracy", way).image for way in _ranking.PAIRINGS)
    assert ">accuracy of two teams, who err alike</text>" in alike
    assert ">accuracy of two teams, each errs alone</text>" in alone


def planted(width):
    """Return widths of every size, kind and metric by a rule."""
    return {n: {kind: {name: width(kind, name) for name in (*_teams.NAMES, "first two")} for kind in _teams.KINDS}
            for n in _teams.SIZES}  # fmt: skip


def test_verdicts_of_the_simulation_follow_the_widths():
    rounded = planted(lambda kind, name: 0.01)
    heavy = {"counts": 0.03, "normalised": 0.06}

    def verdicts(real):
        claims = _claims.claim_simulation({"expected_rounded": rounded, "multinomial": planted(real)}, {"seed": 0})
        return [by_text(claims, part).verdict for part in ("due to random sampling", "less certain than counts")]

    def by_text(claims, part):
        return next(claim for claim in claims if part in claim.text)

    assert verdicts(lambda kind, name: 0.01) == ["holds", "fails"]
    assert verdicts(lambda kind, name: heavy[kind]) == ["fails", "holds"]
    some = verdicts(lambda kind, name: 0.03 if name in {"geometric_mean", "mcc_01"} else heavy[kind])
    assert some == ["fails", "holds where the metric is Acc, hF1, sF1, kUn"]


def test_predicted_shares_are_not_the_true_ones():
    rounded = planted(lambda kind, name: 0.01)
    claims = _claims.claim_simulation({"expected_rounded": rounded, "multinomial": rounded}, {"seed": 0})
    (found,) = [claim.found for claim in claims if "pi_c" in claim.text]
    true = np.array([7209, 7803, 172, 307])
    predicted = np.array(
        [[7536, 8353, 150, 244], [7381, 7867, 153, 522], [8999, 8533, 201, 262], [7440, 8391, 155, 192]]
    )
    shares = (predicted[:, 3] / predicted.sum(axis=1)) / (true[3] / true.sum())
    assert f"of macrophages the shares that teams predict are {shares.min():.2f} to {shares.max():.2f} times" in found
