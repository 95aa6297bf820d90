"""Verdicts of reproduced papers: what was not shown is undecided, and an equality needs a margin."""

import numpy as np
import pytest
from scipy.stats import t

from cmfast._reproduce import _paired_intervals
from cmfast._reproduce.conformal import _claims, _clients
from cmfast._reproduce.conformal._network import ALPHAS, ConformalSettings
from cmfast._reproduce.contingency import _epochs

pytestmark = pytest.mark.papers

MANY = ConformalSettings(seeds=400)


def spread(mean, sd, n, seed=0):
    """Return `n` numbers of exactly this mean and standard deviation."""
    x = np.random.default_rng(seed).normal(size=n)
    return mean + sd * (x - x.mean()) / x.std(ddof=1)


@pytest.mark.parametrize(
    ("mean", "sd", "n", "margin", "above", "within"),
    [
        (0.5, 0.1, 9, 0.1, "holds", "fails"),
        (0.0, 0.1, 9, 0.2, "fails", "holds"),  # surely less than would matter
        (0.0, 1.0, 9, 0.2, "undecided", "undecided"),
        (0.15, 0.3, 9, 0.2, "undecided", "undecided"),
        (-0.5, 0.1, 9, 0.2, "fails", "fails"),
        (0.1, 0.01, 9, 0.2, "fails", "holds"),  # a difference, and too small to matter
        (0.3, 0.3, 9, 0.2, "holds", "undecided"),
        (5.0, 0.0, 2, 0.2, "holds", "fails"),
    ],
)
def test_a_verdict_needs_a_whole_interval_on_one_side(mean, sd, n, margin, above, within):
    found = _paired_intervals.compute_interval(spread(mean, sd, n), 0.95)
    half = t.ppf(0.975, n - 1) * sd / np.sqrt(n)
    assert (found["low"], found["high"]) == (pytest.approx(mean - half), pytest.approx(mean + half))
    assert _paired_intervals.judge_above(found, margin) == above
    assert _paired_intervals.judge_between(found, -margin, margin) == within


def test_what_is_not_defined_decides_nothing():
    for values in ([], [np.nan] * 5, [1.0]):
        found = _paired_intervals.compute_interval(np.array(values), 0.95)
        assert (found["low"], found["high"]) == (-np.inf, np.inf)
        assert _paired_intervals.judge_above(found, 0.1) == _paired_intervals.judge_between(found, -1, 1) == "undecided"
    some = _paired_intervals.compute_interval(np.array([1.0, np.nan, 2.0, 3.0]), 0.95)
    assert some == _paired_intervals.compute_interval(np.array([1.0, 2.0, 3.0]), 0.95)
    wide = _paired_intervals.widen_to_simultaneous(
        {"a": some, "b": _paired_intervals.compute_interval(np.array([np.nan]), 0.95)}, 0.95
    )
    assert wide["a"]["low"] < some["low"]
    assert wide["b"]["low"] == -np.inf


def test_verdicts_of_places_are_put_together():
    assert _paired_intervals.judge_all(["holds", "holds"]) == "holds"
    assert _paired_intervals.judge_all(["holds", "undecided"]) == "undecided"
    assert _paired_intervals.judge_all(["undecided", "fails"]) == "fails"
    many = {"the other is F1": "fails", "the other is TSS": "fails", "a thing": "holds", "b": "holds", "c": "holds"}
    assert _paired_intervals.combine_verdicts(many) == "fails where the other is F1 and TSS, holds elsewhere"


@pytest.mark.parametrize("truth", [0.0, 0.02])
def test_equality_and_improvement_are_rarely_claimed_wrongly(truth):
    """At most 5 % of claims of six seeds are wrong: at the margin equality does not hold, at zero nothing improves."""
    wrong = 0
    for draws in np.random.default_rng(5).normal(truth, 0.02, (2000, 6)):
        found = _paired_intervals.compute_interval(draws, 0.95)
        verdict = _paired_intervals.judge_between(found, -0.02, 0.02) if truth else _paired_intervals.judge_above(found)
        wrong += verdict == "holds"
    assert wrong / 2000 < 0.05


def planted(rng, *, pair=0.0, others=0.0, weak=0.0, rho=0.0, scatter=0.001, n=30):
    """Return runs of all clients and of chosen ones, that differ by this much on average."""

    def run(gain, k):
        noise = rng.normal(0, scatter, 6)
        each = [0.9 - gain * pair + noise[0], 0.8 + gain * weak + noise[1]]
        return {
            "accuracy": 0.85 + gain * others + noise[2],
            "pair": float(np.mean(each)),
            "each_of_pair": each,
            "others": 0.85 + gain * others + noise[3],
            "by_round": np.full((4, len(ALPHAS)), 0.1 + gain * rho) + noise[4],
        }

    one = {"all clients": [run(0, k) for k in range(n)], "highest": [run(1, k) for k in range(n)]}
    return {10: {**one, "lowest": [run(0, k) for k in range(n)]}, 20: one}


def verdicts(runs):
    """Return the verdicts of table 1 and of figures 6 and 7, by the first words of the claim."""
    made = [*_claims._claim_table_1(runs, MANY), *_claims._claim_rounds(runs, MANY)]
    return {" ".join(claim.text.split()[:3]): claim.verdict for claim in made}


def test_choosing_clients_is_judged_by_margins(rng):
    as_printed = verdicts(planted(rng, pair=0.06, weak=0.12, rho=0.2))
    assert as_printed == {
        "Choosing the clients": "holds",
        "It significantly improves": "holds",
        "It slightly decreases": "holds",
        "It has small": "holds",
        "The average accuracy": "holds",
        "Excluding the clients": "holds",
    }
    nothing = verdicts(planted(rng))
    for text in ("Choosing the clients", "It significantly improves", "Excluding the clients"):
        assert nothing[text] == "fails"
    assert nothing["The average accuracy"] == "holds"
    assert verdicts(planted(rng, others=0.1))["The average accuracy"] == "fails"
    assert verdicts(planted(rng, pair=0.2, weak=0.2))["It slightly decreases"] == "fails"
    assert set(verdicts(planted(rng, scatter=0.5)).values()) == {"undecided"}


def test_the_weaker_class_is_one_for_all_seeds():
    runs = {"all clients": [{"each_of_pair": pair} for pair in ([0.9, 0.2], [0.3, 0.8], [0.9, 0.8])]}
    assert _claims.find_weaker_class(runs) == 1


def centre(rho, share, likeness, n=30, scatter=0.001, epochs=8):
    """Return what networks show by epoch: correlations and confusions of two pairs, correlations by likeness."""
    rng = np.random.default_rng(7)

    def at(values, e):
        return values[0] if e == 0 else values[-1]

    return [
        {
            "by_epoch": [
                {
                    "rho": [at(one, e) + rng.normal(0, scatter) for one in rho],
                    "error_share": [one + rng.normal(0, scatter) for one in share],
                    "likeness": {k: at(v, e) + rng.normal(0, scatter) for k, v in likeness.items()},
                }
                for e in range(epochs)
            ]
        }
        for _ in range(n)
    ]


def test_pairs_by_epoch_and_likeness_are_judged_by_margins():
    flat = {"alike": (0.3, 0.3), "middle": (0.0, 0.0), "distant": (-0.8, -0.8)}
    as_printed = centre([(0.6, 0.2), (0.2, -0.6)], (0.02, 0.02), flat)
    by_epoch = _claims._claim_epochs(as_printed, MANY)
    assert [claim.verdict for claim in by_epoch] == ["holds", "holds"]
    by_likeness = _claims._claim_likeness(as_printed, MANY)
    assert [claim.verdict for claim in by_likeness] == ["holds", "holds", "holds"]
    other = centre([(0.1, 0.1), (0.1, 0.1)], (0.3, 0.1), {"alike": (0, 0), "middle": (-0.1, -0.1), "distant": (0, 0)})
    assert [claim.verdict for claim in _claims._claim_epochs(other, MANY)] == [
        "holds where others stay, fails elsewhere",
        "fails",
    ]
    assert [claim.verdict for claim in _claims._claim_likeness(other, MANY)] == ["fails", "fails", "fails"]
    vague = centre([(0.6, 0.2), (0.2, -0.6)], (0.02, 0.02), flat, n=2, scatter=2.0)
    open_ones = [
        claim.verdict for claim in (*_claims._claim_epochs(vague, MANY), *_claims._claim_likeness(vague, MANY))
    ]
    assert open_ones == ["undecided"] * 5


def test_a_client_shows_the_patterns_where_it_agrees_and_all_is_defined():
    def clients(agreement, undefined, scatter=0.001):
        rng = np.random.default_rng(2)
        seeds = {"agreement": agreement, "undefined": undefined}
        by_seed = {key: value + rng.normal(0, scatter, 30) for key, value in seeds.items()}
        return {"gap": 0.1, "largest_gap": 0.2, "by_seed": by_seed}

    found = {0.1: clients(0.5, 0.3), 0.5: clients(0.9, 0.3), 5.0: clients(0.9, 0.01)}
    assert _claims._claim_patterns(found, MANY).verdict == "holds where the Dirichlet parameter at 5, fails elsewhere"
    vague = {0.1: clients(0.9, 0.01, scatter=2.0)}
    assert _claims._claim_patterns(vague, MANY).verdict == "undecided"


def test_agreement_is_the_rank_correlation_of_clients_with_all(rng):
    from cmfast import conformal

    P = rng.dirichlet(np.ones(10) / 2, 900)
    parts = [conformal.prediction_sets(P[k::3], [0.7], u=rng.random(300)) for k in range(3)]
    counts = [conformal.ccm(part).sum(0) for part in parts]
    assert _clients.measure_rank_agreement([counts[0]]) == pytest.approx(1)
    assert 0 < _clients.measure_rank_agreement(counts) < 1
    empty = conformal.ccm(conformal.prediction_sets(np.eye(10)[[0]], [0.5], u=np.ones(1))).sum(0)
    assert np.isnan(_clients.measure_rank_agreement([empty]))


def test_unevenness_is_a_distance_from_the_shares_of_all():
    y = np.array([0, 0, 1, 1])
    assert _clients.measure_unevenness(y, [np.arange(4)], 2) == 0
    assert _clients.measure_unevenness(y, [np.array([0, 1]), np.array([2, 3]), np.array([], int)], 2) == 0.5


def test_tau_is_lower_only_where_that_is_shown(monkeypatch):
    less = {"F1": spread(0.2, 0.01, 8), "TSS": spread(-0.2, 0.01, 8), "Heidke": spread(0.0, 0.1, 8)}
    found = _paired_intervals.widen_to_simultaneous(
        {name: _paired_intervals.compute_interval(v, _paired_intervals.CLAIM_LEVEL) for name, v in less.items()},
        _paired_intervals.CLAIM_LEVEL,
    )
    half = {"changes": dict.fromkeys(less, 0.95), "levels": {}, "tau_less": found}
    whole = {"first half": half, "second half": half, "moves": {"flat": 1.0, "other": 2.0}}
    monkeypatch.setattr(_epochs, "summarize_tracks", lambda M: whole)
    monkeypatch.setattr(_epochs, "compute_spread_ratios", lambda seed: {2: 1.0, 5: 1.0, 10: 1.0, 100: 1.0})
    tracks = dict.fromkeys(_epochs.KINDS, np.zeros(0))
    claim = _epochs.claim_epochs(tracks, _epochs.ContingencySettings())[1]
    assert claim.verdict == "holds where the other is F1, undecided where the other is Heidke, fails elsewhere"
