"""Every instance of every CUDA kernel is launched, on the host and on a GPU alike, and does what the CPU does."""

from dataclasses import replace
from functools import partial

import device
import instances
import numpy as np
import pytest
from folded import check_each

from cmfast.kernels.cuda._core import module

pytestmark = [pytest.mark.cuda_host, *device.marks]


def check(call):
    """Assert that a call gives on the device what it gives here; return which instances were launched."""
    with instances.launches() as launched:
        instances.compare(call, device)
    return set(launched)


def check_instance(kernel, instance):
    assert (kernel, instance) in check(instances.call_for(kernel, instance)), "another instance was launched"


@pytest.mark.parametrize("kernel", module.list_kernels(), ids=lambda kernel: kernel.name)
def test_every_instance_is_launched_and_right(kernel):
    check_each((kernel.expression(one), partial(check_instance, kernel, one)) for one in kernel.instances)


@pytest.mark.parametrize("kernel", module.list_kernels(), ids=lambda kernel: kernel.name)
def test_one_block_does_in_turns_what_many_do(kernel):
    with instances.small_grids(1):
        check_instance(kernel, kernel.instances[0])


@pytest.mark.parametrize("C", [4, 9, 40, 200, 600])
@pytest.mark.parametrize("name", instances.OF_A_SIZE)
def test_matrices_of_every_size(name, C):
    for kind in ("float", "double", "i64"):
        check(instances.make_sized_call(name, C, kind))


@pytest.mark.parametrize("C", [4, 9, 40, 200, 600])
@pytest.mark.parametrize("what", ["labels", "weights", "groups", "margins"])
def test_labels_of_every_number_of_classes(what, C):
    check(instances.make_sized_counting_call(C, what))


@pytest.mark.parametrize("K", [*range(2, 34), 40, 65, 130, 1000])
@pytest.mark.parametrize("op", ["ipf", "ras"])
def test_scaling_of_every_size(op, K):
    check(instances.make_sized_scaling_call(op, K))


def test_an_instance_that_no_call_launches_is_seen():
    kernel = next(kernel for kernel in module.list_kernels() if kernel.name == "cmfast_overlap_pairs")
    launched = check(instances.call_for(kernel, ("float", "8")))
    assert launched == {(kernel, ("float", "8"))}
    with pytest.raises(LookupError, match="no call that launches cmfast_novelty"):
        instances.call_for(replace(kernel, name="cmfast_novelty"), ())


def test_a_result_that_is_not_the_cpus_is_seen():
    call = instances.Call(lambda M: M + (0.0 if isinstance(M, np.ndarray) else 1e-6), (np.ones((2, 2)),), 1e-9)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check(call)
