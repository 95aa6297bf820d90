"""``ipf`` and ``ras``: groups of lanes for many small matrices, teams for what is left."""
