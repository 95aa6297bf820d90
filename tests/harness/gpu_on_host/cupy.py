"""What ``import cupy`` finds in a process that has this folder on its path: arrays on the host.

So what is meant for a GPU can be rehearsed, each process of it as it will be started. Torch has no such stand-in: what
needs tensors on a GPU is left out, by a mark that says so.
"""

import sys
from types import ModuleType

import cupy_on_cuda_host

sys.modules[__name__] = stand_in = cupy_on_cuda_host.module()
# The class says so itself before the package is imported, which asks a class for its library.
cupy_on_cuda_host.rename(__name__)

import on_cuda_host  # noqa: E402, F401  # lets the package take these arrays

stand_in.rehearsed = True
cupyx = ModuleType("cupyx")
cupyx.allow_synchronize = cupy_on_cuda_host.allow_synchronize
sys.modules["cupyx"] = cupyx
