"""Where a tile holds what is one number for each of its matrices. Truth values are 1.0 and 0.0."""

LOW = 0  # smallest cell; after `find_zeros` the smallest positive one
HIGH = 1  # largest cell
MASS = 2  # sum of the targets
AMOUNT = 3  # smoothing
RESIDUAL = 4  # of the last pass; in the end, of what is returned
RHO = 5  # width of the last step
RHO_BEFORE = 6  # of the one before it
ACTIVE = 7  # whether the lane moves
PAIRED = 8  # whether row i and column i belong together
ZEROS = 9  # whether a cell is zero
ODD = 10  # whether a target is zero or bad or the totals disagree
FAR = 11  # whether M holds powers of two
REST = 12  # power of two that the gauge still has to move from one side to the other
PERMUTED = 13  # whether `order` is not the identity
CHOSEN = 14  # whether the pairing was found already
WARM = 15  # whether the caller gave the factors to start from
MEAN = 16  # geometric mean of the factors that the gauge is about
SIMPLE = 17  # whether it comes from their plain product
GOOD = 18  # whether all cells are nonnegative and finite; in the end, all factors positive and finite
N_ITER = 19  # passes
STATUS = 20  # of ``status``
STEP = 21  # how much of a step is taken
SPELT = 22  # whether everything is written that a regular tile need not say
LINE_ERROR = 23  # largest relative error of a column on the way; in the end, of a row or column
COUNT = 24
