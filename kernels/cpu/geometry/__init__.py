"""Points to cells, cells to histograms, histograms to matrices."""
