"""Where tests of the CUDA kernels run them: on the host, or on the GPU of a run that requires one.

Both offer these functions. The host shows more: in which order threads run, how often the host waits
for the device, how many bytes are copied back, a second device; on a GPU these checks are skipped.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import cuda_host
import gpu
import pytest

from cmfast.kernels.cuda._core import module

IS_GPU = gpu.required()

if IS_GPU:
    import cupy as xp

    marks = [pytest.mark.gpu]
else:
    import cuda_host as xp
    import on_cuda_host  # noqa: F401  # lets the package take these arrays

    marks = [pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))]

asarray = xp.asarray

of_the_host = pytest.mark.skipif(IS_GPU, reason="what it plants or counts is seen on the host only")


def schedule(seed: int) -> AbstractContextManager[None]:
    """Run kernels in the order of `seed`, where anybody can choose it."""
    return nullcontext() if IS_GPU else cuda_host.schedule(seed)


def settle() -> None:
    """Wait for what threads compile."""
    for thread in module._loads.values():
        thread.join()


@contextmanager
def waits(most: int) -> Iterator[None]:
    """Assert that the host waits at most so often for the device in the block; on a GPU it is only known if it does.

    What is being compiled meanwhile is so before.
    """
    settle()
    if IS_GPU:
        import cupyx

        with nullcontext() if most else cupyx.allow_synchronize(False):
            yield
        return
    before = cuda_host.synchronisations()
    yield
    found = cuda_host.synchronisations() - before
    assert found <= most, f"the host waited {found} times"


def copied() -> int:
    """Return how many bytes have come from the device so far; none where nobody counts."""
    return 0 if IS_GPU else cuda_host.copied()


def host(array: Any) -> Any:
    """Return the values of an array, there or here, as NumPy's; anything else as it is."""
    return array.get() if isinstance(array, xp.ndarray) else array
