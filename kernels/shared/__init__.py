"""What both targets obey: keys of cells, weights as integers, metrics as steps, when scaling stops. No Numba here."""
