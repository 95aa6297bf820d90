"""Run planted faults: ``python -m cuda_host NAME...``, in a process with a sanitizer."""

import sys
from pathlib import Path

import numpy as np

import cuda_host

N = 64
SHARED = 4 * N

x, out = cuda_host.zeros(2 * N, np.float32), cuda_host.zeros(2 * N, np.float32)
ARGUMENTS = {
    "right": (x, out),
    "barrier_missing": (x, out),
    "read_beyond": (x, out, np.int32(2 * N)),
    "shared_beyond": (out,),
    "update_lost": (cuda_host.zeros(1, np.int32),),
    "blocks_collide": (cuda_host.zeros(1, np.int32),),
}

names = sys.argv[1:]
code = Path(__file__).with_name("faults.cu").read_text()
for name in names:
    kernel = cuda_host.RawModule(code=code, name_expressions=(name,)).get_function(name)
    kernel((2,), (N,), ARGUMENTS[name], shared_mem=SHARED)
