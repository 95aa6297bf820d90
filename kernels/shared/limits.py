"""Limits of number formats that kernels of both targets observe."""

MOST_EXACT_INTEGER = 2**53  # every integer up to it is a float64
