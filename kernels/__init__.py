"""Algorithms on trusted arrays: no validation, no dispatch. Imported as ``cmfast.kernels``."""
