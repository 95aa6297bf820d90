"""What both targets obey: how a score is made of a probability, and what of a row is no probability."""

from typing import Any

METHODS = {"aps": 0, "raps": 1, "lac": 2}
LAC = METHODS["lac"]

UNITS = 2.0**52  # of a score in one; sums of integers have no order
MOST_PENALTY = 1000.0  # of all ranks of a row together: beyond it sums would leave int64
SAFE = 1000  # classes whose probabilities cannot add up to more than int64 holds
MOST_TOTAL = 1023  # of the probabilities of a row, where there are more classes

CORRELATION, COVARIANCE, LIFT, CONDITIONAL = range(4)  # what is read off counts of pairs
KINDS = {"correlation": CORRELATION, "covariance": COVARIANCE, "lift": LIFT, "conditional": CONDITIONAL}
FINE, NEVER, ALWAYS, NO_SAMPLES = range(4)  # why a class has no correlation


def rank(n: Any, numerator: int, denominator: int) -> Any:
    """Return which of n sorted scores is the threshold at alpha = numerator / denominator; above n there is none."""
    return n + 1 - (n + 1) * numerator // denominator
