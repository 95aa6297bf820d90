"""Bi-normalised matrices and the way back through them, of float32 in torch: exact, and by twenty sweeps recorded."""

import numpy as np
import torch

import cmfast
from benchmarks._job import Job, Rival

SWEEPS = 20
SPREAD = 2.0  # of the logarithms of cells


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    return [_job(100 if small else 100_000, 4), _job(50 if small else 10_000, 10), _job(1, 100 if small else 300)]


def full_jobs(*, small: bool = False) -> list[Job]:
    """Return those of the sizes of a network; `small` ones end in a fraction of a second."""
    return [_job(200 if small else 1_000_000, 4), _job(60 if small else 100_000, 10), _job(1, 120 if small else 1000)]


def _job(n: int, C: int) -> Job:
    generator = torch.Generator().manual_seed(C)
    M = (SPREAD * torch.randn((n, C, C), generator=generator)).exp()
    G, out = torch.randn((n, C, C), generator=generator), torch.empty_like(M)

    def back(layer):
        leaf = M.detach().requires_grad_()
        P = layer(leaf)
        return P.detach(), torch.autograd.grad(P, leaf, G)[0]

    def ours(threads):
        return back(lambda leaf: cmfast.bi_normalize(leaf, num_threads=threads))

    want = ours(None)[1] * M

    def error(found):
        return max(float((found[0].sum(axis) - 1.0).abs().max()) for axis in (-1, -2))

    def check(found):
        np.testing.assert_allclose((found[1] * M).sum(-1), 0.0, atol=1e-3)
        assert error(found) < 1e-5
        return f"a line off by {error(found):.0e}"

    def check_sweeps(found):
        gap = float((found[1] * M - want).abs().max() / want.abs().max())
        return f"a line off by {error(found):.0e}, a slope by {gap:.0e} of the largest"

    rivals = [Rival(f"torch, {SWEEPS} sweeps", lambda: back(sweeps), n, check_sweeps)]
    if n == 1:
        rivals.append(Rival("POT", lambda: back(_pot), 1, check_sweeps))
    return Job(
        "bi_normalize and back",
        f"{n:,} matrices {C}x{C}",
        n,
        "matrices",
        ours,
        check,
        lambda: out.copy_(M),
        "copy",
        rivals,
        memory=True,
    )


def sweeps(M, number: int = SWEEPS):
    """Return what a fixed number of sweeps makes of matrices, each of which autograd records."""
    for _ in range(number):
        M = M / M.sum(-1, keepdim=True)
        M = M / M.sum(-2, keepdim=True)
    return M


def _pot(M):
    import ot

    C = M.shape[-1]
    ones = torch.full((C,), 1.0 / C)
    return C * ot.sinkhorn(ones, ones, -M[0].log(), 1.0, warn=False)[None]
