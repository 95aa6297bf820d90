"""The glossary, recomputed: its verdicts, and that a claim follows its figures."""

import pytest

from cmfast._pages.parts import Table
from cmfast._reproduce.glossary import _practice, _printed

pytestmark = pytest.mark.papers


def by_text(claims, part):
    (found,) = [claim for claim in claims if part in claim.text]
    return found


def test_what_is_printed():
    claims = _printed.list_claims()
    for part in ("nearly double", "conservative", "approximately 0.72", "approximately 0.78", "all cells"):
        assert by_text(claims, part).verdict == "fails", part
    for part in (
        "Overall accuracy",
        "Macro precision",
        "always says intact",
        "Recall is 94.0",
        "64 confusions",
        "Pairs:",
    ):
        assert by_text(claims, part).verdict == "holds", part
    assert "0.777 (printed 0.72)" in by_text(claims, "approximately 0.72").found
    pairs = by_text(claims, "most frequently confused").figures
    assert (pairs["third"], pairs["count"]) == ("hairline and efflorescence", 65)


def test_a_printed_figure_holds_to_its_last_digit():
    for value, verdict in ((0.7749, "fails"), (0.7751, "holds"), (0.7849, "holds"), (0.7851, "fails")):
        assert _printed._claim_printed("", "", {"kappa": value}, {"kappa": 0.78}).verdict == verdict


def test_a_model_may_agree_more_than_two_annotators_do():
    (claim,) = _practice.judge_annotator_ceiling(4000)
    found = claim.figures
    errors = found["standard_errors"]
    assert found["between"] == pytest.approx(0.85, abs=4 * errors[0])
    assert found["model"] == pytest.approx((1 + 0.7**0.5) / 2, abs=4 * errors[1])
    assert found["model"] - found["between"] > 5 * sum(errors)


def test_thresholds_by_cost_and_the_hierarchy():
    claims, sections = _practice.judge_thresholds(20_000)
    assert claims[0].verdict.startswith("holds where")
    by_cost = claims[0].figures["by_cost"]
    (table,) = sections[0].find(Table)
    assert [f"{one['threshold']:.3f}" for one in by_cost.values()] == [row[2] for row in table.rows]
    for row in table.rows:
        theory, found, cost, at_half = map(float, row[1:])
        assert found == pytest.approx(theory, abs=0.1)
        assert cost <= at_half
    claims, _ = _practice.judge_hierarchy()
    assert claims[0].figures["within"] + claims[0].figures["across"] == 540
