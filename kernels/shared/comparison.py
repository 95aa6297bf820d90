"""Comparisons, the same for every target: what one number stands for in kernels of their gradients."""

OVERLAP, L1, KL = range(3)
CODES_OF_COMPARISONS = {"overlap": OVERLAP, "l1_distance": L1, "kl_divergence": KL}
