"""Lets `cmfast` take `cuda_host` arrays: through the CuPy adapter, to its own CUDA launchers and kernels."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import cuda_host
import numpy as np

from cmfast._core import adapters
from cmfast.kernels.cuda._core import module
from cmfast.kernels.ops import OPS


def instances(code: str) -> list[str]:
    """Return the kernels of a source of the package, every instance."""
    found, table = [], module.list_kernels()
    for topic in dict.fromkeys(kernel.topic for kernel in table):
        kernels = [kernel for kernel in table if kernel.topic == topic]
        for plain in (True, False):  # those of a kind come of one source
            some = [k.expression(i) for k in kernels for i in k.instances if bool(i) != plain]
            if some and module.make_translation_unit(topic, some[0])[0] == code:
                found += some
    return found


cuda_host.siblings(instances)
adapters.KNOWN[cuda_host.ndarray] = import_module("cmfast._core.adapters._cupy").ADAPTER


def has_kernels(op: str, case: Any) -> bool:
    """Return whether every op of a case has a CUDA kernel."""
    words = [value for value in (*case.args, *case.options.values()) if isinstance(value, str)]
    ops = {op, "ipf", "ras"} if "bi" in words else {op}
    return all("cuda" in OPS[each].targets for each in ops)


def on_device(value: Any, make: Callable[[np.ndarray], Any]) -> Any:
    """Return `value` as `make` makes it if it is an array, a tuple with what it holds made so."""
    if isinstance(value, tuple):
        return tuple(on_device(item, make) for item in value)
    return make(value) if isinstance(value, np.ndarray) else value
