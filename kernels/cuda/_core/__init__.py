"""How kernels are compiled and launched, and the prelude of all sources."""
