"""Every instance of every CUDA kernel, compiled for the newest GPUs: two kernels for rare matrices use a stack."""

import nvrtc
import pytest

from cmfast.kernels.cuda._core import module

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cuda_host,
    pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing())),
]
STACKS = {  # bytes of a thread, by architecture; docs/cuda.md names these kernels
    "sm_100": {"cmfast_ipf_team<32, false, false>": 40},
    "sm_120": {
        "cmfast_ipf_team<32, false, false>": 48,
        "cmfast_support_patterns<float, 256>": 16,
        "cmfast_support_patterns<double, 256>": 16,
    },
}


@pytest.mark.parametrize("architecture", nvrtc.NEWER)
@pytest.mark.parametrize("topic", sorted({kernel.topic for kernel in module.list_kernels()}))
def test_only_the_named_kernels_use_a_stack(topic, architecture):
    usage = nvrtc.usage(topic, architecture)
    found = {name: u.stack for name, u in usage.items() if u.stack or u.spill_stores or u.spill_loads}
    assert found == {name: stack for name, stack in STACKS[architecture].items() if name in usage}
    assert all(u.shared == 0 for u in usage.values())


def test_the_named_kernels_exist():
    names = {kernel.expression(instance) for kernel in module.list_kernels() for instance in kernel.instances}
    assert {name for stacks in STACKS.values() for name in stacks} <= names
