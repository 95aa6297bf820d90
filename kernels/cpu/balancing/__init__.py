"""Balancing of contact maps: sparse symmetric matrices scaled by Newton's method with conjugate gradients."""
