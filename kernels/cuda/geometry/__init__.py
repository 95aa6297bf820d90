"""Grid cells on CUDA: bin points, count and histogram the cells, and compute geometric confusion matrices from them."""
