"""Every op, on every case, from every backend, against the oracle."""

import cuda_host
import pytest
from backends import BACKENDS, CUDA_HOST, GPU, first_of_a_layout, has_kernels, supports
from cases import CASES
from conformance import check
from oracle import ORACLES

from cmfast.kernels.ops import OPS

COMBINATIONS = [
    pytest.param(op, case, backend, id=f"{op}-{case}-{backend}", marks=[pytest.mark.gpu] if backend in GPU else [])
    for op in sorted(OPS)
    for case, alone in first_of_a_layout(CASES.get(op, ()))
    for backend in (*BACKENDS, *CUDA_HOST, *GPU)
    if supports(backend, case) and has_kernels(backend, op, case) and (alone or backend.sees_values)
]


def test_every_op_has_an_oracle_and_cases():
    assert set(ORACLES) == set(OPS)
    assert set(CASES) == set(OPS)
    for op, cases in CASES.items():
        assert cases, op
        assert len({case.id for case in cases}) == len(cases), op


@pytest.mark.parametrize(("op", "case", "backend"), COMBINATIONS)
def test_matches_the_oracle(op, case, backend):
    if backend.library == "cuda_host" and cuda_host.missing():
        pytest.skip(cuda_host.missing())
    check(op, case, backend)
