"""What loads what: a device needs neither Numba nor the kernels of the other target, a command no other command."""

import re

import cuda_host
import pytest
from house import imports, modules
from processes import ROOT, python

CODE = """
import contextlib, sys, warnings
sys.path[:0] = ["tests", "tests/harness"]
import cuda_host, cuda_sweep
from calls import public
from on_cuda_host import on_device
from cmfast.balancing import _balance
from cmfast.kernels.ops import OPS

class Judged(Exception):
    "What the host finds of zeros that forbid weights."

def judged(*pixels):
    raise Judged

_balance._decide_support = judged
ran = set()
warnings.simplefilter("ignore")
for op, case in cuda_sweep.calls("thread"):
    if case.fails and case.options.get("of") == "bi":
        continue  # why a matrix has no limit is explained on the host
    options = {name: on_device(value, cuda_host.asarray) for name, value in case.options.items()}
    with contextlib.suppress(Judged):
        public(op)(*(on_device(value, cuda_host.asarray) for value in case.args), **options)
    ran.add(op)
    found = [name for name in sys.modules if name.split(".")[0] == "numba" or name.startswith("cmfast.kernels.cpu")]
    assert not found, (op, case.id, found)
assert ran == {op for op, entry in OPS.items() if "cuda" in entry.targets}, ran
print("none")
"""


@pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))
@pytest.mark.house
def test_no_cuda_kernel_loads_numba():
    assert python("-c", CODE, cwd=ROOT) == "none\n"


@pytest.mark.house
def test_no_command_imports_another():
    known = modules()
    command = {name: found[1] for name in known if (found := re.match(r"cmfast\.cli\.commands\.(\w+)", name))}
    assert len(set(command.values())) > 10
    arrows = {(name, other) for name in command for other in imports(name, known) & set(command)}
    assert not {(name, other) for name, other in arrows if command[name] != command[other]}
    # Nor does what they share know any of them.
    shared = {name for name in known if name.startswith("cmfast.cli.") and name not in command}
    assert not {(name, other) for name in shared for other in imports(name, known) & set(command)}
