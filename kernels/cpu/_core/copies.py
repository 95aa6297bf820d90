"""Copies of vectors inside kernels.

An assignment ``target[:] = source`` of one array to another compiles the text of an error about shapes as well: text
formatting, which took two seconds in every process and was linked into each kernel.
"""

from cmfast.kernels.cpu._core.jit import jit


@jit(inner=True, inline=True, borrows=True)
def copy_vector(source, target):
    """Copy a vector to `target`, which is at least as long and shares no memory with it."""
    for k in range(len(source)):
        target[k] = source[k]
