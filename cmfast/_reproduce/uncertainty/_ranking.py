"""Rank teams: differences of two teams on the same cells, by counts and by row-normalised matrices.

The notebook has one matrix per team, not the joint predictions of two teams. So two couplings are used: as often equal
as both matrices allow, and independent errors. Shared errors make a difference more certain, so intervals of the first
are the narrow ones.
"""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from cmfast import uncertainty
from cmfast._reproduce.uncertainty import _teams

PAIRINGS = ("most alike", "independent")
RANKING_LEVEL = 0.95


class Difference(NamedTuple):
    """Difference of two teams by one metric of one kind of matrix."""

    pair: tuple[int, int]
    metric: str
    kind: str
    pairing: str
    estimate: float
    low: float
    high: float

    @property
    def told_apart(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def couple_teams(A: np.ndarray, B: np.ndarray, pairing: str) -> np.ndarray:
    """Return a joint table (truth, a, b) of two teams' predictions, independent or as alike as possible.

    Summed over b it is `A`, summed over a it is `B`; both have the same row sums.
    """
    size = A.sum(axis=1)[:, None, None]
    if pairing == "independent":
        return np.asarray(A[:, :, None] * B[:, None, :] / size)
    same = np.minimum(A, B)
    rest = (A - same)[:, :, None] * (B - same)[:, None, :]
    left = (A - same).sum(axis=1)[:, None, None]
    return np.asarray(rest / np.maximum(left, 1) + np.eye(A.shape[1]) * same[:, :, None])


def draw_replicates(
    A: np.ndarray, B: np.ndarray, pairing: str, n_resamples: int, rng: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return bootstrap matrices of both teams from the same resampled cells; undetected cells are left out."""
    T = couple_teams(A, B, pairing)
    side = int(np.ceil(np.sqrt(T.size)))
    square = np.zeros(side * side)
    square[: T.size] = T.ravel()
    draws = uncertainty.resample(
        square.reshape(side, side), n_resamples=n_resamples, n=int(A.sum()), rng=rng, on_failure="ignore"
    )
    tables = np.asarray(draws).reshape(n_resamples, -1)[:, : T.size].reshape(n_resamples, *T.shape)
    return tables.sum(axis=3)[..., 1:], tables.sum(axis=2)[..., 1:]


def compute_differences(n_resamples: int, rng: int) -> list[Difference]:
    """Return the differences of all pairs of teams, with intervals."""
    out = []
    whole = _teams.TEAMS[:, 1:]
    for pairing in PAIRINGS:
        for a, b in combinations(range(len(whole)), 2):
            both = draw_replicates(whole[a], whole[b], pairing, n_resamples, rng)
            for kind in _teams.KINDS:
                exact = [_teams.compute_metrics(_teams.normalize_kind(M[:, 1:], kind)) for M in (whole[a], whole[b])]
                found = [_teams.compute_metrics(_teams.normalize_kind(M, kind)) for M in both]
                for name in _teams.NAMES:
                    low, high = np.quantile(
                        found[0][name] - found[1][name], ((1 - RANKING_LEVEL) / 2, (1 + RANKING_LEVEL) / 2)
                    )
                    estimate = float(exact[0][name] - exact[1][name])
                    out.append(Difference((a, b), name, kind, pairing, estimate, float(low), float(high)))
    return out


def count_distinct_pairs(found: list[Difference]) -> dict[str, Any]:
    """Return the number of pairs (of six) with an interval that excludes 0, by kind, pairing and metric."""
    return {
        kind: {
            pairing: {
                name: sum(d.told_apart for d in found if (d.kind, d.pairing, d.metric) == (kind, pairing, name))
                for name in _teams.NAMES
            }
            for pairing in PAIRINGS
        }
        for kind in _teams.KINDS
    }


def find_reversals(found: list[Difference]) -> list[tuple[tuple[int, int], str, bool]]:
    """Return pairs and metrics that counts and normalised matrices rank differently, and if both significantly.

    Differences are those of the most alike pairing.
    """
    out = []
    by = {(d.pair, d.metric, d.kind): d for d in found if d.pairing == "most alike"}
    for pair, metric in dict.fromkeys((d.pair, d.metric) for d in found):
        one, other = (by[pair, metric, kind] for kind in _teams.KINDS)
        if one.estimate * other.estimate < 0:
            out.append((pair, metric, one.told_apart and other.told_apart))
    return out
