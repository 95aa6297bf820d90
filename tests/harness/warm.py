"""Compile what the tests need once, not once in every worker of pytest-xdist: each takes the next ops."""

import tempfile
import time
import warnings
from pathlib import Path

import cuda_host
from backends import BACKENDS, CUDA_HOST, convert, has_kernels, supports
from calls import public
from cases import CASES
from short_cases import list_cases

from cmfast._core.compile_notices import SECONDS, USUAL_SECONDS
from cmfast._warmup import compile_op, group_ops
from cmfast.kernels.ops import OPS

# Rough seconds to compile the kernels of a topic for CUDA's on the host, where it is more than a few.
CUDA_SECONDS = {"scaling": 25}
MOST_SECONDS = 300.0  # a worker that has died is not waited for


def jobs(*, short: bool) -> list[tuple[tuple[str, ...], str]]:
    """Return ops for the CPU that share kernels, and topics for CUDA, those that take longest first.

    For the short run, ops by topic: of the kernels that its cases need, those of a topic are shared by most of its ops.
    """
    if short:
        topics: dict[str, list[str]] = {}
        for op in OPS:
            topics.setdefault(OPS[op].topic, []).append(op)
        by_time = sorted(topics.values(), key=lambda ops: -sum(SECONDS.get(op, USUAL_SECONDS) for op in ops))
        return [(tuple(ops), "cpu") for ops in by_time]
    seconds = {(tuple(ops), "cpu"): sum(SECONDS.get(op, USUAL_SECONDS) for op in ops) for ops in group_ops(OPS)}
    seconds |= {((op.topic,), "cuda"): CUDA_SECONDS.get(op.topic, 4) for op in OPS.values() if "cuda" in op.targets}
    return sorted(seconds, key=lambda job: (-seconds[job], job))


def compile_part(worker: int, n_workers: int, run: str, *, short: bool) -> None:
    """Compile the kernels that no other worker of this run has started, and wait for the others.

    For the short run, compile what its cases of the ops need; most other tests need the same. For others, compile all
    that `cmfast warmup` compiles, and CUDA's on the host.

    Tests check the results later. A worker that did not wait would compile the same kernels again.
    """
    folder = meeting_place(run)
    folder.mkdir(exist_ok=True)
    for k, (names, target) in enumerate(jobs(short=short)):
        if target == "cuda" and cuda_host.missing():
            continue
        try:
            (folder / f"job-{k}").touch(exist_ok=False)
        except FileExistsError:
            continue
        for name in names:
            if short:
                for case in list_cases(name):
                    _run(name, case, BACKENDS[0])
            elif target == "cpu":
                compile_op(name)
            else:
                _compile_cuda(name)
    (folder / f"done-{worker}").touch()
    end = time.monotonic() + MOST_SECONDS
    while len(list(folder.glob("done-*"))) < n_workers and time.monotonic() < end:
        time.sleep(0.1)


def meeting_place(run: str) -> Path:
    """Return the folder in which the workers of a run say what they compile, and that they have."""
    return Path(tempfile.gettempdir()) / f"cmfast-compiled-{run}"


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
