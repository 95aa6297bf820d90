"""Faults planted in the sources of kernels, which the calls that launch these must show."""

from typing import Any

import device
import instances
import numpy as np
import pytest

from cmfast.kernels.cuda._core import module


def assert_seen(patch: pytest.MonkeyPatch, fault: tuple[str, str, str]) -> None:
    """Assert that a call gives something else on the device once `old` is `new` in the source of the kernel `name`."""
    name, old, new = fault
    kernel = next(kernel for kernel in module.list_kernels() if kernel.name == name)
    real = module.make_translation_unit

    def planted(topic: str, expression: str) -> Any:
        code, names = real(topic, expression)
        assert topic != kernel.topic or code.count(old) == 1
        return code.replace(old, new) if topic == kernel.topic else code, names

    call = instances.call_for(kernel, kernel.instances[0])
    patch.setattr(module, "make_translation_unit", planted)
    patch.setattr(module, "_load_function", module._load_function.__wrapped__)
    want, got = call.function(*call.arrays), call.function(*map(device.asarray, call.arrays))
    apart = [
        not np.allclose(device.host(one), other, rtol=max(call.rtol, 1e-9), atol=0, equal_nan=True)
        for one, other in zip(got, want, strict=True)
    ]
    assert any(apart)
