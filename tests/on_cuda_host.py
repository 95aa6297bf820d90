"""Lets `cmfast` take `cuda_host` arrays: through the CuPy adapter, to its own CUDA launchers and kernels."""

from importlib import import_module

import cuda_host

from cmfast import _dispatch
from cmfast.kernels.cuda import _module


def instances(code: str) -> list[str]:
    """Return the kernels of a source of the package, every instance."""
    kernels = (kernel for kernel in _module.table() if _module.source(kernel.topic) == code)
    return [kernel.expression(instance) for kernel in kernels for instance in kernel.instances]


cuda_host.siblings(instances)
_dispatch._by_class[cuda_host.ndarray] = import_module("cmfast._adapters._cupy")
