"""Matrix scaling (iterative proportional fitting, RAS): SIMD tiles of small matrices, row passes for large ones."""
