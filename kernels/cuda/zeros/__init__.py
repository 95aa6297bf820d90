"""``support``: what the zeros of a matrix allow."""
