"""Matrix scaling (iterative proportional fitting, RAS) on CUDA."""
