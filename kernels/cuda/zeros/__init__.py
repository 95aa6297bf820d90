"""The op ``support`` on CUDA: total support of zero patterns."""
