"""Bi-normalisation in torch, float32, forward and backward: exact, and by twenty recorded sweeps.

The rival of the backward pass is the forward pass: it should not take longer.
"""

from importlib.util import find_spec

import numpy as np
import torch

import cmfast
from benchmarks._job import Job, Rival

SWEEPS = 20
SPREAD = 2.0  # of the logarithms of cells


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    sizes = [(100 if small else 100_000, 4), (50 if small else 10_000, 10), (1, 100 if small else 300)]
    return [*(_job(n, C) for n, C in sizes), *(_job_back(n, C) for n, C in sizes), *jax_jobs(small=small)]


def jax_jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs of JAX arrays, compiled by ``jax.jit``; none without JAX."""
    return [_job_jax(20 if small else 1000, 10)] if find_spec("jax") else []


def full_jobs(*, small: bool = False) -> list[Job]:
    """Return those of the sizes of a network; `small` ones end in a fraction of a second."""
    sizes = [(200 if small else 1_000_000, 4), (60 if small else 100_000, 10), (1, 140 if small else 1000)]
    compiler = "eager" if small else "inductor"  # which needs a C++ compiler, and half a minute for each size
    return [*(_job(n, C, compiler) for n, C in sizes), *(_job_back(n, C) for n, C in sizes)]


def _draw_tensors(n: int, C: int):
    """Return exponentials of normal numbers, and gradients with respect to the result."""
    generator = torch.Generator().manual_seed(C)
    M = (SPREAD * torch.randn((n, C, C), generator=generator)).exp()
    return M, torch.randn((n, C, C), generator=generator)


def _job_back(n: int, C: int) -> Job:
    M, G = _draw_tensors(n, C)
    out = torch.empty_like(M)

    def forth(threads=None):
        leaf = M.detach().requires_grad_()
        return leaf, cmfast.bi_normalize(leaf, num_threads=threads)

    ways = {}  # forth, made in the first call, which is not timed

    def run(threads):
        if threads not in ways:
            ways[threads] = forth(threads)
        leaf, P = ways[threads]
        return torch.autograd.grad(P, leaf, G, retain_graph=True)[0]

    def check(found):
        assert float((found * M).sum(-1).abs().max()) < 1e-3
        return "the way back alone"

    def check_forth(found):
        return f"a line off by {_error(found[1].detach()):.0e}"

    rivals = [Rival("the way forth", forth, n, check_forth)]
    name, size = "back from bi_normalize", f"{n:,} matrices {C}x{C}"
    return Job(name, size, n, "matrices", run, check, lambda: out.copy_(M), "copy", rivals, memory=True)


def _error(P):
    """Return by how much a line misses one, at most."""
    return max(float(abs(P.sum(axis) - 1.0).max()) for axis in (-1, -2))


def _job(n: int, C: int, compiler: str | None = None) -> Job:
    M, G = _draw_tensors(n, C)
    out = torch.empty_like(M)

    def back(layer):
        leaf = M.detach().requires_grad_()
        P = layer(leaf)
        return P.detach(), torch.autograd.grad(P, leaf, G)[0]

    def ours(threads):
        return back(lambda leaf: cmfast.bi_normalize(leaf, num_threads=threads))

    want = ours(None)[1] * M

    def check(found):
        np.testing.assert_allclose((found[1] * M).sum(-1), 0.0, atol=1e-3)
        assert _error(found[0]) < 1e-5
        return f"a line off by {_error(found[0]):.0e}"

    def check_sweeps(found):
        if isinstance(found, str):
            return f"cannot run here: {found}"
        gap = float((found[1] * M - want).abs().max() / want.abs().max())
        return f"a line off by {_error(found[0]):.0e}, a slope by {gap:.0e} of the largest"

    rivals = [Rival(f"torch, {SWEEPS} sweeps", lambda: back(sweeps), n, check_sweeps)]
    if compiler:
        layer = torch.compile(sweeps, backend=compiler, dynamic=False)

        def run_compiled():
            try:
                return back(layer)
            except torch._dynamo.exc.TorchDynamoException as error:
                return str(error).strip().splitlines()[0]

        rivals.append(Rival(f"torch.compile, {SWEEPS} sweeps", run_compiled, n, check_sweeps, run_compiled))
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
    """Scale matrices by a fixed number of sweeps, recorded by autograd."""
    for _ in range(number):
        M = M / M.sum(-1, keepdim=True)
        M = M / M.sum(-2, keepdim=True)
    return M


def _pot(M):
    import ot

    C = M.shape[-1]
    ones = torch.full((C,), 1.0 / C)
    return C * ot.sinkhorn(ones, ones, -M[0].log(), 1.0, warn=False)[None]


def _job_jax(n: int, C: int) -> Job:
    """Return the job of float64 matrices in JAX: to a tolerance of 1e-9, forward and backward."""
    import jax
    from jax import numpy as jnp

    jax.config.update("jax_enable_x64", True)
    M, G = (jnp.asarray(x.double().numpy()) for x in _draw_tensors(n, C))
    copied = np.empty(M.shape)

    def back(scale):
        def loss(M):
            P = scale(M)
            return (P * G).sum(), P

        run = jax.jit(jax.grad(loss, has_aux=True))
        return lambda: jax.block_until_ready(run(M))

    calls = {
        threads: back(lambda M, threads=threads: cmfast.bi_normalize(M, num_threads=threads)) for threads in (None, 1)
    }
    want = np.asarray(calls[None]()[0] * M)

    def check(found):
        return f"a line off by {_error(found[1]):.0e}, a slope by {_gap(found[0] * M, want):.0e} of the largest"

    rivals = [
        ("ott-jax, exact derivatives", back(_make_ott(1e-9)), "ott"),
        (f"JAX, {SWEEPS} sweeps", back(_sweep_in_jax), ""),
    ]
    return Job(
        "bi_normalize and back, JAX",
        f"{n:,} matrices {C}x{C}",
        n,
        "matrices",
        lambda threads: calls[threads](),
        check,
        lambda: np.copyto(copied, M),
        "copy",
        [Rival(name, call, n, check, call, needs) for name, call, needs in rivals],  # the first call compiles
    )


def _gap(found, want):
    """Return the largest difference, as a share of the largest number."""
    return float(np.abs(np.asarray(found) - want).max() / np.abs(want).max())


def _sweep_in_jax(M):
    """Scale JAX arrays by a fixed number of sweeps, recorded by JAX."""
    for _ in range(SWEEPS):
        M = M / M.sum(-1, keepdims=True)
        M = M / M.sum(-2, keepdims=True)
    return M


def _make_ott(tol):
    """Return ott-jax's scaling of a batch, with its implicit derivatives."""
    import jax

    def scale_one(m):
        from ott.geometry.geometry import Geometry
        from ott.problems.linear.linear_problem import LinearProblem
        from ott.solvers.linear.sinkhorn import Sinkhorn

        solver = Sinkhorn(threshold=tol, max_iterations=20_000)
        return solver(LinearProblem(Geometry(cost_matrix=-jax.numpy.log(m), epsilon=1.0))).matrix * len(m)

    return jax.vmap(scale_one)
