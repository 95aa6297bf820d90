"""Rules of conformal scores that both targets share: fixed-point units, limits, codes, random keys."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

METHODS = {"aps": 0, "raps": 1, "lac": 2, "saps": 3, "top_k": 4}
LAC, SAPS, TOP_K = METHODS["lac"], METHODS["saps"], METHODS["top_k"]

BITS_PER_WORD = 64  # of a bitset, one bit per class
UNITS = 2.0**52  # fixed-point units of 1; integer sums do not depend on the order
MOST_PENALTY = 1000.0  # sum of all rank penalties of a row: beyond it sums would overflow int64
OUTSIDE = 2.0**-20  # tolerance: probabilities this far outside [0, 1] are clamped
SAFE = 1000  # classes up to which row sums cannot overflow int64
MOST_TOTAL = 1023  # limit of a row sum for more classes

FIRST_FACTOR, SECOND_FACTOR = -0xAE502812AA7333, -0x3B314601E57A13AD  # multipliers of the hash finaliser (MurmurHash3)

CORRELATION, COVARIANCE, LIFT, CONDITIONAL = range(4)  # ratios of co-occurrence counts
KINDS = {"correlation": CORRELATION, "covariance": COVARIANCE, "lift": LIFT, "conditional": CONDITIONAL}
FINE, NEVER, ALWAYS, NO_SAMPLES = range(4)  # reasons why a class has no correlation


class ScoreRule(NamedTuple):
    """How labels are scored: method and rank penalty, as kernels of both targets take them."""

    method: int  # value of METHODS; those from SAPS on depend on the rank and the largest probability alone
    penalty: int  # per rank after the first `k_reg`, of SAPS after the first, in units of 2^-52
    k_reg: int  # ranks without a penalty


def make_score_rule(method: str, lam: float, k_reg: int) -> ScoreRule:
    """Return the rule of a method, with its penalty rounded to units of 2^-52 so that sums are exact."""
    return ScoreRule(METHODS[method], round(lam * UNITS), k_reg)


def quantile_rank(n: Any, numerator: int, denominator: int) -> Any:
    """Return the rank of the conformal quantile of n scores at alpha = numerator / denominator; n + 1 means none."""
    return n + 1 - (n + 1) * numerator // denominator


@lru_cache(maxsize=16)
def make_draw_keys(seed: int, C: int) -> np.ndarray:
    """Return the hash keys of row draws for a seed: a start value, then one odd multiplier per class."""
    keys = np.random.SeedSequence(seed).generate_state(C + 1, np.uint64).view(np.int64) | 1
    keys.setflags(write=False)
    return keys
