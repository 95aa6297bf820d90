"""Compile what the tests need once, not once in every worker of pytest-xdist: each takes a part of the topics."""

import warnings

import cuda_host
from backends import BACKENDS, CUDA_HOST, convert, has_kernels, supports
from calls import public
from cases import CASES

from cmfast.kernels.cpu._core import jit
from cmfast.kernels.ops import OPS

COMPILED = 100  # files in the folder from which there is little left to do
# Rough seconds to compile a topic, where it is more than a few: for NumPy's arrays, for CUDA's on the host.
SECONDS = {
    ("metrics", "cpu"): 50,
    ("scaling", "cuda"): 25,
    ("scaling", "cpu"): 20,
    ("normalizing", "cpu"): 12,
    ("zeros", "cpu"): 10,
    ("geometry", "cpu"): 10,
}


def parts(n_workers: int) -> list[list[tuple[str, str]]]:
    """Share topics and targets among workers, the longest first, each to who has least to do."""
    jobs = {(op.topic, target): SECONDS.get((op.topic, target), 4) for op in OPS.values() for target in op.targets}
    shares: list[list[tuple[str, str]]] = [[] for _ in range(n_workers)]
    for job in sorted(jobs, key=lambda job: (-jobs[job], job)):
        min(shares, key=lambda share: sum(jobs[job] for job in share)).append(job)
    return shares


def compile_part(worker: int, n_workers: int) -> None:
    """Run what the conformance tests run on NumPy's arrays, and on CUDA's a case of each type; tests judge it later."""
    folder = jit.folder()
    if folder.exists() and sum(1 for _ in folder.glob("*.nbi")) >= COMPILED:
        return
    for topic, target in parts(n_workers)[worker]:
        if target == "cuda" and cuda_host.missing():
            continue
        backend = (BACKENDS if target == "cpu" else CUDA_HOST)[0]
        seen = set()
        for op in sorted(op for op in OPS if OPS[op].topic == topic):
            for case in CASES[op]:
                key = op, tuple(str(getattr(a, "dtype", "")) for a in case.args)
                possible = supports(backend, case) and has_kernels(backend, op, case)
                if not possible or (target == "cuda" and key in seen):
                    continue
                seen.add(key)
                _run(op, case, backend)


def _run(op, case, backend) -> None:
    args = [convert(backend, a) for a in case.args]
    options = {name: convert(backend, value) for name, value in case.options.items()}
    with warnings.catch_warnings(), backend.running():
        warnings.simplefilter("ignore")
        public(op)(*args, **options)
