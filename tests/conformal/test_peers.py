"""MAPIE 1.6, TorchCP and crepes on the same probabilities: equal where rules are, and how far off where they are not.

What they give is data (``tests/harness/conformal_peers.py`` writes it): they are not installed with the tests.
"""

import json

import numpy as np
import pytest
from conformal_peers import ALPHAS, FILE, rows, words

from cmfast import conformal

PEERS = json.loads(FILE.read_text(encoding="utf-8"))
P, Y, NEW = rows()
RULES = {
    "lac": {"method": "lac"},
    "aps": {"randomised": False},
    "raps": {"method": "raps", "lam": 0.125, "k_reg": 2, "randomised": False},
    "top_k": {"method": "top_k", "randomised": False},
}


def ours(name):
    """Return our sets for every alpha, as text, by the rule that a peer's sets are named after."""
    options = RULES[name.partition("-")[0]]
    s = conformal.scores(P, Y, **options)
    q = conformal.threshold(s, ALPHAS, y=Y if name.endswith("by-class") else None)
    return conformal.prediction_sets(NEW, q, **options)


def different(theirs, mask):
    """Return in how many rows sets differ."""
    mine = words(mask)
    return sum(theirs[k : k + 2] != mine[k : k + 2] for k in range(0, len(mine), 2))


def counts(peer, name):
    return [different(theirs, mask) for theirs, mask in zip(PEERS[peer][name], ours(name).mask, strict=True)]


EXACT = [("mapie", "lac"), ("torchcp", "lac"), ("torchcp", "lac-by-class"), ("torchcp", "aps-by-class"),
         ("torchcp", "raps-by-class"), ("torchcp", "top_k-by-class"), ("crepes", "lac")]  # fmt: skip


@pytest.mark.parametrize(("peer", "name"), EXACT)
def test_all_sets_are_theirs(peer, name):
    assert counts(peer, name) == [0] * len(ALPHAS)


@pytest.mark.parametrize("name", ["aps", "raps"])
def test_torchcp_is_one_rank_too_high_at_seven_tenths(name):
    """In floating point ``ceil(250 * (1 - 0.7))`` is 76; seven tenths of 250 leave 75."""
    assert counts("torchcp", name) == [0, 0, 0, 0, 9]
    options = RULES[name]
    next_rank = np.sort(conformal.scores(P, Y, **options))[75]
    sets = conformal.prediction_sets(NEW, [next_rank], **options)
    assert different(PEERS["torchcp"][name][-1], sets.mask[0]) == 0


def test_crepes_keeps_labels_of_which_the_p_value_is_alpha():
    """It asks for at least alpha, so where (n + 1) alpha is an integer a threshold is one rank higher."""
    assert counts("crepes", "lac-by-class") == [0, 0, 8, 0, 0]


def test_mapie_has_another_rule_on_either_side():
    """Scores of its calibration are randomised; the label at the threshold is always kept, or always dropped."""
    for name, off in (("aps-last-kept", [161, 101, 88, 75, 81]), ("aps-last-dropped", [191, 161, 123, 128, 85])):
        assert counts("mapie", name) == off
