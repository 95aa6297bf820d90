"""Machine code that comes with a wheel: kernels compiled ahead for levels of x86-64 (System V ABI, section 3.1.1).

A level is a set of instructions that many processors have: v3 includes AVX2, v4 includes AVX-512. Numba's index of
compiled functions names the processor and its instructions; code for a level is there under the name of the level.
"""

import os
from pathlib import Path

from cmfast.kernels.cpu._core.numba_internals import codegen, config

_V3 = (
    "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,+sse,+sse2,+sse3,"
    "+sse4.1,+sse4.2,+ssse3,+xsave"
)
_V4 = f"{_V3},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"
LEVELS = {"x86-64-v4": _V4, "x86-64-v3": _V3}  # their instructions as LLVM lists them; best level first
ROOT = Path(__file__).parents[2] / "machine-code"  # one folder for each version of sources and Numba
SWITCH = "CMFAST_MACHINE_CODE"  # environment variable; "0" turns this code off


def list_levels(features: str) -> list[str]:
    """Return the levels whose instructions are all in LLVM's list of features, best first."""
    present = {*features.split(",")}
    return [level for level, needed in LEVELS.items() if present.issuperset(needed.split(","))]


def list_host_levels() -> list[str]:
    """Return the levels that the processor of this machine has, best first."""
    return list_levels(codegen.get_host_cpu_features())


def find_folder(version: str) -> Path | None:
    """Return the folder of machine code of this version; None if it does not exist or must not be used.

    It is not used where the user has named a processor or instructions for Numba.
    """
    if os.environ.get(SWITCH) == "0" or config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return None
    folder = ROOT / version
    return folder if folder.is_dir() else None


def count_functions(version: str) -> int:
    """Return the number of functions in the machine code of this version, all levels together."""
    folder = find_folder(version)
    return 0 if folder is None else sum(1 for _ in folder.glob("*.nbc"))
