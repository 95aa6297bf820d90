"""Bi-normalising batches of confusion matrices, from easy to nearly singular."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import cmfast
from benchmarks import _data, _numba_loops, _rivals
from benchmarks._job import Job, Rival

TOL = 1e-9

# Accuracy -> matrices given to each rival: their sweeps grow with the accuracy, the time of a run must not.
SHARES = {
    0.6: {"Numba": 20_000, "NumPy": 4000, "POT": 200, "ipfn": 60},
    0.9: {"Numba": 10_000, "NumPy": 1000, "POT": 60, "ipfn": 20},
    0.99: {"Numba": 1000, "NumPy": 50, "POT": 5, "ipfn": 2},
}
BLAS, OT_BATCH = "BLAS, each alone", "POT ot.batch"
CALLS = {  # and whose share of the matrices
    "Numba loop": (_numba_loops.sinkhorn, "Numba"),
    "NumPy batched": (_rivals.numpy_sinkhorn, "NumPy"),
    BLAS: (_rivals.blas_sinkhorn, "NumPy"),
    "POT": (_rivals.pot_sinkhorn, "POT"),
    "ipfn": (_rivals.ipfn_ipf, "ipfn"),
    OT_BATCH: (_rivals.pot_batch, "NumPy"),
    "JAX": (_rivals.jax_sinkhorn, "Numba"),
    "ott-jax": (_rivals.ott_sinkhorn, "Numba"),
}
NEEDS = {"JAX": "jax", "ott-jax": "ott"}
SIZES = {3: 300_000, 5: 200_000, 16: 40_000, 32: 5_000, 100: 200, 1000: 2}  # and how many matrices

GIVEN_SIZES = {10: 100_000, 40: 4000, 100: 500}  # the same, scaled to given sums

MOST = 1_000_000  # sweeps after which a rival gives up
LIMIT = 20_000  # and where nobody would wait for more


def residual(P):
    """Return the L1 distance of both margins from one, over the total mass, per matrix."""
    C = P.shape[-1]
    return (np.abs(P.sum(-1) - 1).sum(-1) + np.abs(P.sum(-2) - 1).sum(-1)) / C


def jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield the jobs of the quick table; `small` ones end in a fraction of a second."""
    B = 300 if small else 100_000
    for eps in (1e-3, 1e-12, 0.0):
        for accuracy in SHARES:
            yield _job("bi", B, 10, accuracy, eps, most=50 if small else MOST if eps == 1e-3 else LIMIT, small=small)
    for C, many in SIZES.items():
        yield _job("bi", min(many, 3) if small else many, C, 0.6, 1e-3, most=50 if small else LIMIT, small=small)
    for C, many in GIVEN_SIZES.items():
        yield _given_job(min(many, 3) if small else many, C, small=small)


def full_jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield every other size and difficulty, many classes with tiny cells and zeros, and factors alone."""
    for C, many in SIZES.items():
        for accuracy in (0.9, 0.99):
            if not small or C == 3:
                yield _job("bi", 3 if small else many, C, accuracy, 1e-3, most=50 if small else LIMIT, small=small)
    for C in (48, 100, 1000):  # cells that are tiny or zero, where sweeps are fast
        for eps in (1e-9, 0.0):
            if not small:
                yield _job("bi", SIZES.get(C, 600), C, 0.6, eps, most=LIMIT, small=False)
            elif C == 48:
                yield _job("bi", 3, C, 0.6, eps, most=50, small=True)
    for accuracy in SHARES:
        yield _job("ras", 300 if small else 100_000, 10, accuracy, 1e-3, most=0, small=small)


def _job(kind: str, B: int, C: int, accuracy: float, eps: float, *, most: int, small: bool) -> Job:
    M = _data.confusion_matrices(B, C, accuracy, eps)
    if eps == 0:  # nearly all have classes that are never true or never predicted without it
        M += np.eye(C)
    out = np.empty_like(M)
    function = cmfast.ipf if kind == "bi" else cmfast.ras

    def check_ours(result):
        limits = int((result.status == cmfast.Status.LIMIT_ONLY).sum())
        assert ((result.status == cmfast.Status.CONVERGED) | (result.status == cmfast.Status.LIMIT_ONLY)).all()
        assert eps == 0 or not limits, "not all converged"
        worst = result.residual.max() if result.matrix is None else residual(result.matrix).max()
        assert worst <= TOL * (1 + 1e-6), worst
        note = f"residual {worst:.0e}, {result.n_iter.mean():.1f} passes"
        return note + (f", {limits:,} exact limits" if limits else "")

    def check_rival(P):
        # A rival that stops early is reported, not failed: that is what its users get.
        worst = residual(P).max()
        if worst > 1.01 * TOL:
            return f"residual {worst:.0e}, stopped early"
        # The cells may be off by the residual times, about, how many sweeps there were.
        want = function(M[: len(P)], tol=TOL, on_failure="ignore").matrix
        np.testing.assert_allclose(P, want, rtol=0, atol=most * TOL)
        return f"residual {worst:.0e}, same matrix"

    given = {name: _share(B, C, SHARES[accuracy][share], small=small) for name, (_, share) in _calls(kind, C, most)}
    return Job(
        f"{kind} {accuracy}" if C == 10 and eps == 1e-3 else f"{kind} {C} {accuracy} {eps:g}",
        f"{B:,} matrices {C}x{C} + {eps:g}",
        B,
        "matrices",
        lambda threads: function(M, tol=TOL, num_threads=threads, on_failure="ignore"),
        check_ours,
        lambda: np.copyto(out, M),
        "copy",
        [
            Rival(
                name,
                lambda call=call, n=given[name]: call(M[:n], TOL, max_iter=most),
                given[name],
                check_rival,
                lambda call=call, n=given[name]: call(np.ones((n, C, C)), TOL, max_iter=most),  # JAX compiles a shape
                NEEDS.get(name, ""),
            )
            for name, (call, _) in _calls(kind, C, most)
        ],
    )


def _given_job(B: int, C: int, *, small: bool) -> Job:
    """Return the job of scaling counts with zeros to other sums of rows and columns, as raking does."""
    M = _data.confusion_matrices(B, C, 0.6, 0.0) + np.eye(C)
    targets = np.linspace(1, 2, C), np.linspace(2, 1, C)
    most, out = 50 if small else LIMIT, np.empty_like(M)
    M = M[cmfast.ipf(M, *targets, on_failure="ignore").status == cmfast.Status.CONVERGED]

    def check_ours(result):
        assert (result.status == cmfast.Status.CONVERGED).all()
        return f"residual {result.residual.max():.0e}, {result.n_iter.mean():.1f} passes"

    def check_rival(P):
        want = cmfast.ipf(M, *targets, tol=TOL).matrix
        if not small:
            np.testing.assert_allclose(P, want, rtol=0, atol=1e-5)
        return "same matrix"

    return Job(
        f"given {C}",
        f"{len(M):,} matrices {C}x{C} with zeros, sums given",
        len(M),
        "matrices",
        lambda threads: cmfast.ipf(M, *targets, tol=TOL, num_threads=threads),
        check_ours,
        lambda: np.copyto(out[: len(M)], M),
        "copy",
        [
            Rival(
                "Numba loop",
                lambda: _numba_loops.sinkhorn(M, TOL, most, targets),
                len(M),
                check_rival,
                lambda: _numba_loops.sinkhorn(M[:1], TOL, most, targets),
            )
        ],
    )


def _calls(kind: str, C: int, most: int) -> list[tuple[str, tuple[Any, str]]]:
    """Return the rivals: BLAS where matrices are large, JAX at 100 classes, ot.batch where it may give up."""
    left_out = {BLAS} if C < 100 else set()
    if C != 100:
        left_out |= set(NEEDS)
    if most == MOST:
        left_out.add(OT_BATCH)
    return [] if kind == "ras" else [call for call in CALLS.items() if call[0] not in left_out]


def _share(B: int, C: int, share: int, *, small: bool) -> int:
    if small:
        return min(B, 2)
    fewest = 1 if share < 1000 else _numba_loops.CORES  # what can use all cores must be able to
    return min(B, max(fewest, round(share * min(1.0, 100 / C**2))))
