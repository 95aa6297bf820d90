"""Faults planted in copies of the CUDA sources, one at a time: which of the checks without a GPU see them."""

import os
import re
import subprocess
import sys

import cuda_faults
import cuda_host
import nvrtc
import pytest
from cuda_faults import ADDRESS, ASSEMBLY, DEVICE, FAULTS, FUSED, PLAIN, THREAD, UNTRIED
from processes import ROOT

from cmfast.kernels.cuda._core import module

MODES = (PLAIN, THREAD, ADDRESS, FUSED)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.cuda_host,
    pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing())),
]


def run(name, mode):
    """Return the exit status of a process in which a fault is planted, and what it says."""
    environment = cuda_host.environment(mode)
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests" / "harness")))
    command = [sys.executable, str(ROOT / "tests" / "harness" / "cuda_faults.py"), name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode or "plain")
def test_without_a_fault_nothing_is_found(mode):
    status, said = run("none", mode)
    assert status == 0, said


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.mode in MODES])
def test_a_fault_is_found(name):
    status, said = run(name, FAULTS[name].mode)
    assert status not in (0, -9), said
    assert re.search(FAULTS[name].shown, said, re.MULTILINE), said
    assert not re.search(UNTRIED, said), said


@pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.mode == ASSEMBLY])
def test_a_fault_is_found_in_the_assembly(name):
    fault = FAULTS[name]
    code, names = module.make_translation_unit(fault.topic, fault.call)
    planted = nvrtc.Program(cuda_faults.plant(fault, code))
    found = nvrtc.find_unordered(planted.assembly(names, module.options(fault.topic)))
    assert re.search(fault.shown, " ".join(found)), found


def test_few_faults_need_a_gpu():
    assert len(FAULTS) == 22
    assert [name for name, fault in FAULTS.items() if fault.mode == DEVICE] == ["indices of 32 bits"]
