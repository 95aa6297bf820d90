"""Codes of matched boxes, for kernels and for the layer above."""

UNMATCHED, IGNORED = -1, -2  # instead of the index of a partner
# A pair of one class counts this much more IoU in an optimal assignment of boxes of several classes.
SAME_CLASS = 2.0**-30
