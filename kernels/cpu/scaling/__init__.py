"""``ipf`` and ``ras``: eight small matrices at a time in a tile, large ones row by row."""
