"""Codes of the comparisons whose gradients kernels of both targets compute."""

OVERLAP, L1, KL = range(3)
CODES_OF_COMPARISONS = {"overlap": OVERLAP, "l1_distance": L1, "kl_divergence": KL}
