"""Contact maps, the same for every target: why a bin has no weight."""

KEPT, MIN_NNZ, MIN_COUNT, MAD_MAX, NOT_KEPT, EMPTY = range(6)
REASONS = ("kept", "min_nnz", "min_count", "mad_max", "keep", "empty")
