"""Numerical methods that several topics share: Cholesky factors, sparse symmetric products, maximum flow."""
