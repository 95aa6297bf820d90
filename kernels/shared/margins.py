"""Rules and constants of scaling tables to margins and of raking, the same for every target."""

LEAST_MARGIN_RESIDUAL = 2e-14  # rounding: the smallest residual that can be demanded
MOST_MARGIN_PASSES = 100_000

RECONCILE_ROUNDS = 8  # rounds of reconciling every two margins
MOST_ROUNDED_GAP = 1e-14  # relative difference that counts as rounding
NUDGE = 1e-13  # Levenberg-Marquardt damping, relative to the marginals

PROOFS_FROM = 3  # Newton steps after which certificates are tested
# Least relative gap of a certificate; and the share of its marginals below which a cell counts as zero.
LEAST_PROOF_GAP = 1e-9
BELOW = 0.1  # least distance of such a cell's z from the largest z

MOST_ECHOES = 30  # sweeps within which a perturbation must decay
FADED = 1e-4  # remaining part at which a perturbation has decayed
CELL_PROBES = 4  # random perturbations of the targets that estimate the error of cells
CELLS_TOL = 10.0  # tolerance of cells over that of margins, where sweeps alone converge
MOST_PRODUCT = 2.0**1000  # largest product of a cell and factors, in any order, that is safe from overflow

MOST_ROUNDS = 300  # steps of conjugate gradients for the minimum-norm dual solution
MOST_LOGARITHM_RESIDUAL = 1e-13  # their relative residual at convergence
