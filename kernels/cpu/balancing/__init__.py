"""Sparse matrices scaled by Newton's method: contact maps, and tables of which few cells are filled."""
