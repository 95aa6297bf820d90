"""Sinkhorn sweeps of 4x4 matrices in Triton with their backward pass, as in layers of language models.

The sums of every sweep are stored; the backward pass multiplies by them, which restores every intermediate matrix.
"""

from typing import Any

import triton
import triton.language as tl

BLOCK = 128  # matrices of a program


@triton.jit
def _there(M, out, sums, n, NUMBER: tl.constexpr, BLOCK: tl.constexpr):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cells = k[:, None, None] * 16 + (tl.arange(0, 4) * 4)[None, :, None] + tl.arange(0, 4)[None, None, :]
    lines = k[:, None] * 4 + tl.arange(0, 4)[None, :]
    m = tl.load(M + cells, mask=(k < n)[:, None, None], other=1.0)
    for sweep in range(NUMBER):
        row = tl.sum(m, 2)
        m = m / row[:, :, None]
        col = tl.sum(m, 1)
        m = m / col[:, None, :]
        tl.store(sums + 8 * n * sweep + lines, row, mask=(k < n)[:, None])
        tl.store(sums + 8 * n * sweep + 4 * n + lines, col, mask=(k < n)[:, None])
    tl.store(out + cells, m, mask=(k < n)[:, None, None])


@triton.jit
def _back(P, G, sums, out, n, NUMBER: tl.constexpr, BLOCK: tl.constexpr):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cells = k[:, None, None] * 16 + (tl.arange(0, 4) * 4)[None, :, None] + tl.arange(0, 4)[None, None, :]
    lines = k[:, None] * 4 + tl.arange(0, 4)[None, :]
    m = tl.load(P + cells, mask=(k < n)[:, None, None], other=1.0)
    g = tl.load(G + cells, mask=(k < n)[:, None, None], other=0.0)
    for sweep in range(NUMBER - 1, -1, -1):
        row = tl.load(sums + 8 * n * sweep + lines, mask=(k < n)[:, None], other=1.0)
        col = tl.load(sums + 8 * n * sweep + 4 * n + lines, mask=(k < n)[:, None], other=1.0)
        g = (g - tl.sum(g * m, 1)[:, None, :]) / col[:, None, :]
        m = m * col[:, None, :]
        g = (g - tl.sum(g * m, 2)[:, :, None]) / row[:, :, None]
        m = m * row[:, :, None]
    tl.store(out + cells, g, mask=(k < n)[:, None, None])


def swept_and_back(M: Any, G: Any, number: int) -> tuple[Any, Any]:
    """Return matrices after so many sweeps, and the gradient in M of that in them, of tensors (n, 4, 4) of float32."""
    n, P, out = len(M), M.new_empty(M.shape), M.new_empty(M.shape)
    sums, grid = M.new_empty((2 * number, n, 4)), (triton.cdiv(n, BLOCK),)
    _there[grid](M, P, sums, n, NUMBER=number, BLOCK=BLOCK)
    _back[grid](P, G, sums, out, n, NUMBER=number, BLOCK=BLOCK)
    return P, out
