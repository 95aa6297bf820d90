"""Tables scaled to margins over any of their axes, the same for every target: where its rules turn."""

LEAST_MARGIN_RESIDUAL = 2e-14  # rounding: margins that agree to fourteen digits are not made to agree better
MOST_MARGIN_PASSES = 100_000

RECONCILE_ROUNDS = 8  # of making margins agree, each with every other
MOST_ROUNDED_GAP = 1e-14  # difference that is rounding
NUDGE = 1e-13  # of Levenberg's method, relative to the sums of lines

PROOFS_FROM = 3  # steps until it is asked what they prove
# Part of the sums that a gap must be, and part of its lines that a cell may have that counts as zero.
LEAST_PROOF_GAP = 1e-9
BELOW = 0.1  # the largest logarithm that such a cell must be below the others

MOST_ECHOES = 30  # sweeps within which a change must die out
FADED = 1e-4  # part of it that may be left
CELL_PROBES = 4
CELLS_TOL = 10.0  # times the tolerance of margins: how right cells are that sweeps alone have found
MOST_PRODUCT = 2.0**1000  # of products of a cell and factors in any order, in which no digit is lost

MOST_ROUNDS = 300  # of conjugate gradients
MOST_LOGARITHM_RESIDUAL = 1e-13  # part of the logarithms that may be left

RAKING, LINEAR, TRUNCATED, LOGIT = range(4)  # how the weights of records follow from their multipliers
METHODS = {"raking": RAKING, "linear": LINEAR, "truncated": TRUNCATED, "logit": LOGIT}
