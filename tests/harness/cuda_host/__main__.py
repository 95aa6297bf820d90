"""Run planted faults: ``python -m cuda_host NAME...``, in a process with a sanitizer."""

import sys
from pathlib import Path

import numpy as np

import cuda_host

N = 64
SHARED = 4 * N

x, out = cuda_host.zeros(2 * N, np.float32), cuda_host.zeros(2 * N, np.float32)
rest = cuda_host.zeros(2)
ARGUMENTS = {
    "right": (x, out),
    "barrier_missing": (x, out),
    "read_beyond": (x, out, np.int32(2 * N)),
    "shared_beyond": (out,),
    "update_lost": (cuda_host.zeros(1, np.int32),),
    "blocks_collide": (cuda_host.zeros(1, np.int32),),
    "ordered": (cuda_host.zeros(N, np.float32),),
    # Arrays of their own: a race is reported once for an address.
    "ordered_by_a_shuffle": (cuda_host.zeros(N, np.float32),),
    "ordered_by_a_vote": (cuda_host.zeros(N, np.float32),),
    "second_turn": (x, cuda_host.zeros(2 * N, np.float32), np.int32(2 * N)),
    "loads_apart": (cuda_host.zeros(4 * N + 4, np.float32), out),
    "product_rest": (cuda_host.asarray(np.full(1, 1 / 3)), rest),
}
BLOCKS = {"ordered": 1, "ordered_by_a_shuffle": 1, "ordered_by_a_vote": 1, "second_turn": 1}

names = sys.argv[1:]
code = Path(__file__).with_name("faults.cu").read_text()
for name in names:
    kernel = cuda_host.RawModule(code=code, name_expressions=(name,)).get_function(name)
    kernel((BLOCKS.get(name, 2),), (N,), ARGUMENTS[name], shared_mem=SHARED)
    if name == "product_rest":
        sys.stdout.write(f"{rest.get() != 0.0}\n")
