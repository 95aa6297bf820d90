"""What it means that an op is right on a case, in whichever way its arrays are held."""

import copy
from functools import cache
from typing import Any

from backends import GPU, Backend, convert
from calls import call
from cases import Case
from checks import assert_matches, assert_same_bits
from oracle import ORACLES


@cache
def expected(op: str, case: Case) -> tuple[Any, ...]:
    """Return what the oracle says."""
    found: tuple[Any, ...] = ORACLES[op](*case.args, **case.options)
    return found


def check(op: str, case: Case, backend: Backend) -> None:
    """Assert that the op agrees with the oracle, warns as it should and leaves its arguments alone."""
    args = tuple(convert(backend, a) for a in case.args)
    options = {name: convert(backend, value) for name, value in case.options.items()}
    before = copy.deepcopy(args), copy.deepcopy(options)
    with backend.running():
        got = call(op, args, options, fails=case.fails)
        if backend in GPU:  # the order of threads is theirs
            assert_same_bits(call(op, args, options, fails=case.fails), got)
    want = expected(op, case)
    assert len(got) == len(want), f"{op}: {len(got)} parts, wanted {len(want)}"
    for one, wanted in zip(got, want, strict=True):
        assert_matches(op, one, wanted, expected_library=backend.library)
    for now, then in zip((*args, *options.values()), (*before[0], *before[1].values()), strict=True):
        if hasattr(now, "dtype") or isinstance(now, tuple):
            assert_same_bits(now, then)
        else:
            assert now == then, f"{op}: an option was changed"
