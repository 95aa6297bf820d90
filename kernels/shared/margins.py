"""Tables scaled to margins over any of their axes, the same for every target: where its rules turn."""

FLOOR = 2e-14  # rounding: margins that agree to fourteen digits are not made to agree better
MOST_PASSES = 100_000

RAKING, LINEAR, TRUNCATED, LOGIT = range(4)  # how the weights of records follow from their multipliers
METHODS = {"raking": RAKING, "linear": LINEAR, "truncated": TRUNCATED, "logit": LOGIT}
