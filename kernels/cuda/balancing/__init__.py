"""Balancing of contact maps on CUDA: sparse symmetric matrices scaled by Newton's method with conjugate gradients."""
