"""Tables scaled to margins over any of their axes, the same for every target: where its rules turn."""

FLOOR = 2e-14  # rounding: margins that agree to fourteen digits are not made to agree better
MOST_PASSES = 100_000
