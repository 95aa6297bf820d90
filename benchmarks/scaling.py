"""Bi-normalising batches of confusion matrices, from easy to nearly singular."""

import numpy as np

import cmfast
from benchmarks import _data, _rivals
from benchmarks._job import Job, Rival

TOL = 1e-9

# Accuracy -> matrices given to NumPy, POT and ipfn: their sweeps grow with the accuracy, the time of a run must not.
SHARES = {0.6: (4000, 200, 60), 0.9: (1000, 60, 20), 0.99: (50, 5, 2)}

LIMIT = 20_000  # sweeps after which a rival may give up


def residual(P):
    """Return the L1 distance of both margins from one, over the total mass, per matrix."""
    C = P.shape[-1]
    return (np.abs(P.sum(-1) - 1).sum(-1) + np.abs(P.sum(-2) - 1).sum(-1)) / C


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs of the quick table; `small` ones end in a fraction of a second."""
    rivals_of = {accuracy: (2, 1, 1) if small else shares for accuracy, shares in SHARES.items()}
    return [_job("bi", 300 if small else 100_000, 10, accuracy, 1e-3, shares) for accuracy, shares in rivals_of.items()]


def full_jobs(*, small: bool = False) -> list[Job]:
    """Return every size and difficulty, against rivals that may give up after 20,000 sweeps."""
    if small:
        return [_job("bi", 3, C, 0.9, eps, (1, 1, 1), max_iter=50) for C, eps in ((3, 1e-3), (10, 0.0), (100, 1e-3))]
    made = []
    for C, B in ((3, 300_000), (10, 100_000), (32, 5_000), (100, 200), (1000, 2)):
        for accuracy, shares in SHARES.items():
            few = tuple(max(1, round(n * min(1.0, 50 / C**2))) for n in shares)
            made.append(_job("bi", B, C, accuracy, 1e-3, few, max_iter=LIMIT))
    for eps in (1e-12, 0.0):
        made += [_job("bi", 100_000, 10, accuracy, eps, (10, 2, 1), max_iter=LIMIT) for accuracy in SHARES]
    made += [_job("ras", 100_000, 10, accuracy, 1e-3, ()) for accuracy in SHARES]
    return made


def _job(kind: str, B: int, C: int, accuracy: float, eps: float, shares: tuple[int, ...], max_iter: int = 10**6) -> Job:
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
        return f"residual {worst:.0e}" + ("" if worst <= 1.01 * TOL else ", stopped early")

    calls = [
        ("NumPy batched" if C < 1000 else "NumPy, BLAS", _rivals.numpy_sinkhorn),
        ("POT", _rivals.pot_sinkhorn),
        ("ipfn", _rivals.ipfn_ipf),
        ("POT ot.batch", _rivals.pot_batch),
    ]
    shares = (*shares, shares[0]) if max_iter == LIMIT else shares  # the batched one gets what NumPy gets
    return Job(
        f"{kind} {accuracy}" if kind == "bi" and C == 10 and eps == 1e-3 else f"{kind} {C} {accuracy} {eps:g}",
        f"{B:,} matrices {C}x{C} + {eps:g}",
        B,
        "matrices",
        lambda threads: function(M, tol=TOL, num_threads=threads, on_failure="ignore"),
        check_ours,
        lambda: np.copyto(out, M),
        "copy",
        [
            Rival(name, lambda call=call, n=n: call(M[:n], TOL, max_iter=max_iter), n, check_rival)
            for (name, call), n in zip(calls, shares, strict=False)
        ],
    )
