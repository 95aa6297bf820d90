"""Numerical methods of several topics: Cholesky, sparse symmetric products, maximum flow (`sparse_support.py`)."""
