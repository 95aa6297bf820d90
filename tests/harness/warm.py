"""Compile what the tests need once, not once in every worker of pytest-xdist: each takes a part of the ops."""

import tempfile
import time
import warnings
from pathlib import Path

import cuda_host
from backends import CUDA_HOST, convert, has_kernels, supports
from calls import public
from cases import CASES

from cmfast._core.compiling import MOMENT, SECONDS
from cmfast._warmup import compile_op, groups
from cmfast.kernels.cpu._core import jit
from cmfast.kernels.ops import OPS

COMPILED = 100  # files in the folder from which there is little left to do
# Rough seconds to compile the kernels of a topic for CUDA's on the host, where it is more than a few.
CUDA_SECONDS = {"scaling": 25}
MOST_SECONDS = 300.0  # a worker that has died is not waited for
TYPES = 3  # of arrays for which an op is compiled, about


def parts(n_workers: int) -> list[list[tuple[tuple[str, ...], str]]]:
    """Share ops on the CPU and topics on CUDA among workers, the longest first, each to who has least to do."""
    jobs = {(tuple(ops), "cpu"): TYPES * sum(SECONDS.get(op, MOMENT) for op in ops) for ops in groups(OPS)}
    jobs |= {((op.topic,), "cuda"): CUDA_SECONDS.get(op.topic, 4) for op in OPS.values() if "cuda" in op.targets}
    shares: list[list[tuple[tuple[str, ...], str]]] = [[] for _ in range(n_workers)]
    for job in sorted(jobs, key=lambda job: (-jobs[job], job)):
        min(shares, key=lambda share: sum(jobs[job] for job in share)).append(job)
    return shares


def compile_part(worker: int, n_workers: int, run: str, *, cuda: bool) -> None:
    """Compile a part, on CUDA, if it is needed, by a case of each type; wait for the others of this run.

    Tests judge the results later. One who did not wait would compile what another one is about to have compiled.
    """
    folder = jit.folder()
    compiled = folder.exists() and sum(1 for _ in folder.glob("*.nbi")) >= COMPILED
    for names, target in parts(n_workers)[worker]:
        for name in names:
            if target == "cpu" and not compiled:
                compile_op(name)
            elif target == "cuda" and cuda and not cuda_host.missing():
                _compile_cuda(name)
    _wait(worker, n_workers, run)


def meeting_place(run: str) -> Path:
    """Return the folder in which the workers of a run say that they have compiled their part."""
    return Path(tempfile.gettempdir()) / f"cmfast-compiled-{run}"


def _wait(worker: int, n_workers: int, run: str) -> None:
    """Wait until all workers of a run are here, or one has not come for minutes."""
    folder = meeting_place(run)
    folder.mkdir(exist_ok=True)
    (folder / str(worker)).touch()
    end = time.monotonic() + MOST_SECONDS
    while len(list(folder.iterdir())) < n_workers and time.monotonic() < end:
        time.sleep(0.1)


def _compile_cuda(topic: str) -> None:
    backend = CUDA_HOST[0]
    seen = set()
    for op in sorted(op for op in OPS if OPS[op].topic == topic):
        for case in CASES[op]:
            key = op, tuple(str(getattr(a, "dtype", "")) for a in case.args)
            if key not in seen and supports(backend, case) and has_kernels(backend, op, case):
                seen.add(key)
                _run(op, case, backend)


def _run(op, case, backend) -> None:
    args = [convert(backend, a) for a in case.args]
    options = {name: convert(backend, value) for name, value in case.options.items()}
    with warnings.catch_warnings(), backend.running():
        warnings.simplefilter("ignore")
        public(op)(*args, **options)
