"""Every op, on every case, from every backend, against the oracle: one test for an op and a backend."""

import itertools
import os
from fnmatch import fnmatchcase
from functools import cache, partial

import cuda_host
import pytest
from backends import BACKENDS, CUDA_HOST, GPU, first_of_a_layout, has_kernels, supports
from cases import CASES
from conformance import check
from folded import check_each
from optional import Missing, array_api_strict, jax, torch
from oracle import ORACLES
from short_cases import LEFT_OUT, is_left_out, list_cases

from cmfast.kernels.ops import OPS

# Kernels as plain Python, or with checks of bounds: one backend, and no case that takes a moment even so.
IN_STEPS = any(os.environ.get(name) == "1" for name in ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"))
LONG_IN_STEPS = ("many", "C-30", "large", "hidden", "superclasses")
LAYOUTS = "layouts"  # in memory: what is different there is one copy, so one test tries all of them


@cache
def cases_by_layout(op):
    """Return the cases of an op, each with whether it is the first of its layout."""
    return list(first_of_a_layout(CASES.get(op, ())))


def cases_of(op, backend, *, long):
    """Return the cases of an op that `backend` can hold and has kernels for; layouts are tried once per layout."""
    return [
        case
        for case, first in cases_by_layout(op)
        if (first or backend.sees_values)
        and is_left_out(op, case) == long
        and supports(backend, case)
        and has_kernels(backend, op, case)
        and not (IN_STEPS and any(word in case.id for word in LONG_IN_STEPS))
    ]


def marks(backends):
    """Return what a test on these backends is for."""
    if backends[0] in GPU:
        return [pytest.mark.gpu]
    if backends[0] in CUDA_HOST:
        reason = cuda_host.missing()
        return [pytest.mark.cuda_host, pytest.mark.skipif(reason is not None, reason=str(reason))]
    library = backends[0].library
    absent = isinstance({"torch": torch, "array_api_strict": array_api_strict, "jax": jax}.get(library), Missing)
    return [pytest.mark.skipif(absent, reason=f"{library} is not installed")]


def combinations():
    """Yield every op with the backends of a test: each by itself, but layouts in memory together."""
    some = [BACKENDS[:1]]
    if not IN_STEPS:
        some = [[b] for b in (*BACKENDS, *CUDA_HOST, *GPU) if b.sees_values]
        some.append([b for b in BACKENDS if not b.sees_values and b.library == "numpy"])
        some.append([b for b in BACKENDS if not b.sees_values and b.library == "torch"])
    for op, backends, long in itertools.product(sorted(OPS), some, (False, True)):
        if any(cases_of(op, backend, long=long) for backend in backends):
            name = str(backends[0]) if backends[0].sees_values else f"{backends[0].library}-{LAYOUTS}"
            extra = [pytest.mark.exhaustive] if long or backends != BACKENDS[:1] else []
            name = f"{op}-{name}-long" if long else f"{op}-{name}"
            yield pytest.param(op, backends, long, id=name, marks=marks(backends) + extra)


def test_every_op_has_an_oracle_and_cases():
    assert set(ORACLES) == set(OPS)
    assert set(CASES) == set(OPS)
    for op, cases in CASES.items():
        assert list_cases(op), op
        assert len({case.id for case in cases}) == len(cases), op
        for pattern in LEFT_OUT.get(op, ()):
            assert any(fnmatchcase(case.id, pattern) for case in cases), (op, pattern)
    assert set(LEFT_OUT) <= set(OPS)


@pytest.mark.parametrize(("op", "backends", "long"), [*combinations()])
def test_matches_the_oracle(op, backends, long):
    check_each(
        (f"case {case} as {backend}", partial(check, op, case, backend))
        for backend in backends
        for case in cases_of(op, backend, long=long)
    )
