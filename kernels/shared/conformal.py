"""What both targets obey: how a score is made of a probability, and what of a row is no probability."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

METHODS = {"aps": 0, "raps": 1, "lac": 2}
LAC = METHODS["lac"]

BITS_PER_WORD = 64  # of sets, a bit per class
UNITS = 2.0**52  # of a score in one; sums of integers have no order
MOST_PENALTY = 1000.0  # of all ranks of a row together: beyond it sums would leave int64
OUTSIDE = 2.0**-20  # by which a probability may lie outside of 0 to 1, and is taken for 0 or 1
SAFE = 1000  # classes whose probabilities cannot add up to more than int64 holds
MOST_TOTAL = 1023  # of the probabilities of a row, where there are more classes

FIRST_FACTOR, SECOND_FACTOR = -0xAE502812AA7333, -0x3B314601E57A13AD  # of a sum that is mixed (MurmurHash3)

CORRELATION, COVARIANCE, LIFT, CONDITIONAL = range(4)  # what is read off counts of pairs
KINDS = {"correlation": CORRELATION, "covariance": COVARIANCE, "lift": LIFT, "conditional": CONDITIONAL}
FINE, NEVER, ALWAYS, NO_SAMPLES = range(4)  # why a class has no correlation


class ScoreRule(NamedTuple):
    """How labels are scored, as kernels of both targets take it."""

    lac: bool  # a label scores one minus its probability (least ambiguous classifier); ranks do not count
    penalty: int  # of each rank after the first `k_reg`, in units of 2^-52
    k_reg: int  # ranks without a penalty


def score_rule(method: str, lam: float, k_reg: int) -> ScoreRule:
    """Return the rule of a method with its penalty rounded to units, which sums of any order keep."""
    return ScoreRule(METHODS[method] == LAC, round(lam * UNITS), k_reg)


def rank(n: Any, numerator: int, denominator: int) -> Any:
    """Return which of n sorted scores is the threshold at alpha = numerator / denominator; above n there is none."""
    return n + 1 - (n + 1) * numerator // denominator


@lru_cache(maxsize=16)
def draw_keys(seed: int, C: int) -> np.ndarray:
    """Return what the units of a row are multiplied by, one odd number per class, and first where their sum begins."""
    keys = np.random.SeedSequence(seed).generate_state(C + 1, np.uint64).view(np.int64) | 1
    keys.setflags(write=False)
    return keys
