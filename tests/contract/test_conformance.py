"""Every op, on every case, from every backend, against the oracle."""

import cuda_host
import pytest
from backends import BACKENDS, CUDA_HOST, GPU, first_of_a_layout, has_kernels, supports
from cases import CASES
from conformance import check
from oracle import ORACLES

from cmfast.kernels.ops import OPS


def ways(op, case, layouts):
    """Yield names of ways in which a case is run, and their backends: layouts in memory share a test."""
    found = [b for b in (*BACKENDS, *CUDA_HOST, *GPU) if supports(b, case) and has_kernels(b, op, case)]
    yield from ((str(backend), [backend]) for backend in found if backend.sees_values)
    copies = [backend for backend in found if not backend.sees_values]
    if layouts and copies:
        yield "layouts", copies


COMBINATIONS = [
    pytest.param(op, case, backends, id=f"{op}-{case}-{name}", marks=[pytest.mark.gpu] if backends[0] in GPU else [])
    for op in sorted(OPS)
    for case, first in first_of_a_layout(CASES.get(op, ()))
    for name, backends in ways(op, case, layouts=first)
]


def test_every_op_has_an_oracle_and_cases():
    assert set(ORACLES) == set(OPS)
    assert set(CASES) == set(OPS)
    for op, cases in CASES.items():
        assert cases, op
        assert len({case.id for case in cases}) == len(cases), op


@pytest.mark.parametrize(("op", "case", "backends"), COMBINATIONS)
def test_matches_the_oracle(op, case, backends):
    for backend in backends:
        if backend.library == "cuda_host" and cuda_host.missing():
            pytest.skip(cuda_host.missing())
        try:
            check(op, case, backend)
        except Exception as error:
            error.add_note(f"with arrays as {backend}")
            raise
