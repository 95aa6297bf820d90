"""Demo (``cmfast demo``): from training on real data to a report."""
