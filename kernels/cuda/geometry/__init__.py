"""Bin points into grid cells, count and histogram the cells, and compute geometric confusion matrices from them."""
