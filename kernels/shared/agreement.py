"""Codes of coefficients of agreement and of disagreement functions, for kernels and for the layer above."""

FLEISS, CONGER, LIGHT, ALPHA, GWET = range(5)
# Disagreement of two categories: 1 unless equal; a table; the squared difference of values, or of pooled mid-ranks.
UNEQUAL, TABULATED, SQUARED, RANKED = range(4)
MISSING, NO_CATEGORY = -1, -2  # codes of ratings that are missing, and of values that are no category
# Of a coefficient: estimate, low, high, standard error, observed, expected, number of items, effective number.
RESULTS = 8
