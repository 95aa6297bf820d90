"""Offsets of the per-matrix scalars in a tile: one SIMD line of eight values for each. Truth values are 1.0 and 0.0."""

LOW = 0  # smallest cell; after `mark_zeros` the smallest positive one
HIGH = 1  # largest cell
MASS = 2  # sum of the targets
SMOOTHING = 3  # smoothing
RESIDUAL = 4  # of the last pass; at the end, of the returned matrix
STEP_NORM = 5  # range of the last Newton step: its largest minus its smallest log-factor change
PREVIOUS_STEP_NORM = 6  # of the Newton step before it
ACTIVE = 7  # whether the lane still iterates
PAIRED = 8  # whether row i is paired with column i
ZEROS = 9  # whether a cell is zero
UNUSUAL_TARGETS = 10  # whether a target is zero or invalid, or the totals differ
EQUILIBRATED = 11  # whether M is the input divided by powers of two
MEAN_POWER = 12  # power of two that the normalisation still moves between row and column factors
PERMUTED = 13  # whether `order` is not the identity
PAIRING_KNOWN = 14  # whether equilibration found the pairing already
WARM = 15  # whether the caller gave initial factors
MEAN = 16  # geometric mean of the row factors of the input, which is normalised to one
PLAIN_MEAN = 17  # whether the product of these factors stays in range, so that MEAN follows from it
VALID = 18  # whether all cells are nonnegative and finite; at the end, all factors positive and finite
N_ITER = 19  # passes
STATUS = 20  # a code of `kernels.status`
STEP_LENGTH = 21  # damping: the part of the Newton step that is taken
DEFAULTS_WRITTEN = 22  # whether `write_defaults` has filled the fields that the common case leaves implicit
LINE_ERROR = 23  # largest relative error of a column during iterations; at the end, of a row or column
COUNT = 24
