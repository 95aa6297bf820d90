"""Tables of any number of axes, scaled to margins over any of them."""
