"""``python tests/harness/cuda_warm.py``: every instance of every CUDA kernel, compiled into CuPy's cache, side by side.

Without that the tests and benchmarks of a GPU wait for the compiler again and again, one kernel at a time.
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from cmfast.kernels.cuda._core import module

MOST_WORKERS = 14
SLOW = 3.0  # seconds from which one is named


def load(topic: str, expression: str) -> float:
    """Compile one instance as a launch does, or find it compiled; return the seconds that took."""
    import cupy

    begin = time.perf_counter()
    module._load_function(cupy, cupy.cuda.Device().id, topic, expression)
    return time.perf_counter() - begin


def main() -> int:
    """Name what fails and what is slow; 1 if anything failed."""
    begin, failed = time.perf_counter(), 0
    # Long sources first, so that no process is left alone with the slowest at the end.
    kernels = sorted(module.list_kernels(), key=lambda kernel: -len(module.assemble_source(kernel.topic)))
    instances = [(kernel.topic, kernel.expression(instance)) for kernel in kernels for instance in kernel.instances]
    jobs = list({module.make_translation_unit(*each): each for each in reversed(instances)}.values())[::-1]
    with ProcessPoolExecutor(min(MOST_WORKERS, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        loads = {pool.submit(load, *job): job for job in jobs}
        for done in as_completed(loads):
            topic, expression = loads[done]
            error = done.exception()
            if error is not None:
                failed += 1
                print(f"{topic}.cu, {expression}: {type(error).__name__}: {error}", flush=True)
            elif done.result() > SLOW:
                print(f"{topic}.cu, {expression}: {done.result():.1f} s", flush=True)
    took = time.perf_counter() - begin
    print(f"{len(instances)} instances in {len(jobs)} units, {failed} of them failed, {took:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
