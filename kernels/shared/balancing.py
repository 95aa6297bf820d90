"""Reasons why a bin of a contact map has no weight; the same for every target."""

KEPT, MIN_NNZ, MIN_COUNT, MAD_MAX, NOT_KEPT, EMPTY = range(6)
REASONS = ("kept", "min_nnz", "min_count", "mad_max", "keep", "empty")
