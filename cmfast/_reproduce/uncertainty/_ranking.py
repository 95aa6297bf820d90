"""Which team is better: differences of two teams on the same cells, by counts and by rows divided by their sums.

The notebook prints a matrix per team, not what two teams say of one cell. So two ways to pair them are drawn: as often
the same as both matrices allow, and as if each erred for itself. What both teams share makes a difference surer, so the
intervals of the first are the narrow ones.
"""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from cmfast import uncertainty
from cmfast._reproduce.uncertainty import _teams

PAIRINGS = ("most alike", "independent")
RANKING_LEVEL = 0.95


class Difference(NamedTuple):
    """Of two teams, by one metric of one kind of matrix."""

    pair: tuple[int, int]
    metric: str
    kind: str
    pairing: str
    estimate: float
    low: float
    high: float

    @property
    def told_apart(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


def coupled(A: np.ndarray, B: np.ndarray, pairing: str) -> np.ndarray:
    """Return how many cells of each truth one team calls a and the other b, shape (truth, a, b); rows agree in size."""
    size = A.sum(axis=1)[:, None, None]
    if pairing == "independent":
        return np.asarray(A[:, :, None] * B[:, None, :] / size)
    same = np.minimum(A, B)
    rest = (A - same)[:, :, None] * (B - same)[:, None, :]
    left = (A - same).sum(axis=1)[:, None, None]
    return np.asarray(rest / np.maximum(left, 1) + np.eye(A.shape[1]) * same[:, :, None])


def drawn(A: np.ndarray, B: np.ndarray, pairing: str, n_replicates: int, rng: int) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices of both teams, from the same cells drawn again; what a team did not detect is left out."""
    T = coupled(A, B, pairing)
    side = int(np.ceil(np.sqrt(T.size)))
    square = np.zeros(side * side)
    square[: T.size] = T.ravel()
    draws = uncertainty.resample(
        square.reshape(side, side), n_replicates=n_replicates, n=int(A.sum()), rng=rng, on_failure="ignore"
    )
    tables = np.asarray(draws).reshape(n_replicates, -1)[:, : T.size].reshape(n_replicates, *T.shape)
    return tables.sum(axis=3)[..., 1:], tables.sum(axis=2)[..., 1:]


def differences(n_replicates: int, rng: int) -> list[Difference]:
    """Return the differences of every two teams, with their intervals."""
    out = []
    whole = _teams.TEAMS[:, 1:]
    for pairing in PAIRINGS:
        for a, b in combinations(range(len(whole)), 2):
            both = drawn(whole[a], whole[b], pairing, n_replicates, rng)
            for kind in _teams.KINDS:
                exact = [_teams.values(_teams.of_kind(M[:, 1:], kind)) for M in (whole[a], whole[b])]
                found = [_teams.values(_teams.of_kind(M, kind)) for M in both]
                for name in _teams.NAMES:
                    low, high = np.quantile(
                        found[0][name] - found[1][name], ((1 - RANKING_LEVEL) / 2, (1 + RANKING_LEVEL) / 2)
                    )
                    estimate = float(exact[0][name] - exact[1][name])
                    out.append(Difference((a, b), name, kind, pairing, estimate, float(low), float(high)))
    return out


def told_apart(found: list[Difference]) -> dict[str, Any]:
    """Return how many of the six pairs each metric tells apart: by kind, pairing and metric."""
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


def opposite(found: list[Difference]) -> list[tuple[tuple[int, int], str, bool]]:
    """Return pairs and metrics by which counts rank one team first, rows the other, and whether both are sure of it."""
    out = []
    by = {(d.pair, d.metric, d.kind): d for d in found if d.pairing == "most alike"}
    for pair, metric in dict.fromkeys((d.pair, d.metric) for d in found):
        one, other = (by[pair, metric, kind] for kind in _teams.KINDS)
        if one.estimate * other.estimate < 0:
            out.append((pair, metric, one.told_apart and other.told_apart))
    return out
