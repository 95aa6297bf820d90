"""Numerical methods that several topics share: Cholesky factors, sparse symmetric products, maximum flow (`sparse_support.py`)."""
