"""Every op, on every case, from every backend, against the oracle."""

import copy
from functools import cache

import cuda_host
import pytest
from backends import BACKENDS, CUDA_HOST, GPU, convert, first_of_a_layout, has_kernels, supports
from calls import call
from cases import CASES
from checks import assert_matches, assert_same_bits
from oracle import ORACLES

from cmfast.kernels.ops import OPS

COMBINATIONS = [
    pytest.param(op, case, backend, id=f"{op}-{case}-{backend}", marks=[pytest.mark.gpu] if backend in GPU else [])
    for op in sorted(OPS)
    for case, alone in first_of_a_layout(CASES.get(op, ()))
    for backend in (*BACKENDS, *CUDA_HOST, *GPU)
    if supports(backend, case) and has_kernels(backend, op, case) and (alone or backend.sees_values)
]


@cache
def expected(op, case_id):
    case = next(case for case in CASES[op] if case.id == case_id)
    return ORACLES[op](*case.args, **case.options)


def test_every_op_has_an_oracle_and_cases():
    assert set(ORACLES) == set(OPS)
    assert set(CASES) == set(OPS)
    for op, cases in CASES.items():
        assert cases, op
        assert len({case.id for case in cases}) == len(cases), op


@pytest.mark.parametrize(("op", "case", "backend"), COMBINATIONS)
def test_matches_the_oracle(op, case, backend):
    args = tuple(convert(backend, a) for a in case.args)
    options = {name: convert(backend, value) for name, value in case.options.items()}
    before = copy.deepcopy(args), copy.deepcopy(options)
    if backend.library == "cuda_host" and cuda_host.missing():
        pytest.skip(cuda_host.missing())
    with backend.running():
        got = call(op, args, options, fails=case.fails)
        if backend in GPU:  # the order of threads is theirs
            assert_same_bits(call(op, args, options, fails=case.fails), got)
    want = expected(op, case.id)
    assert len(got) == len(want), op
    for one, wanted in zip(got, want, strict=True):
        assert_matches(op, one, wanted, expected_library=backend.library)
    for now, then in zip((*args, *options.values()), (*before[0], *before[1].values()), strict=True):
        if hasattr(now, "dtype") or isinstance(now, tuple):
            assert_same_bits(now, then)
        else:
            assert now == then
