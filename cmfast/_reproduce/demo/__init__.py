"""``cmfast demo``: the whole story on real data, from training to a report."""
