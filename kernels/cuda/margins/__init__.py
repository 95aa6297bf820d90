"""Tables scaled to margins, on CUDA."""
