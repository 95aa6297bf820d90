"""Conformance check: an op agrees with its oracle on a case, for every kind and layout of arrays."""

import contextlib
import copy
import hashlib
import os
import pickle
import platform
import sys
from functools import cache
from typing import Any

import numpy as np
from backends import GPU, Backend, convert
from calls import call_result, parts
from cases import Case
from checks import assert_matches, assert_same_bits, fail
from describe import describe_call, describe_value, name_parts
from oracle import ORACLES
from processes import ROOT

KEPT = ROOT / ".pytest_cache" / "oracle"  # as pytest keeps what it knows of earlier runs


@cache
def sources() -> str:
    """Return a digest of all that an answer of the oracle depends on, but for its arguments."""
    found = hashlib.sha256(f"{sys.version} {np.__version__} {platform.machine()}".encode())
    for path in sorted((ROOT / "tests" / "oracle").glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


@cache
def expected(op: str, case: Case) -> tuple[Any, ...]:
    """Return what the oracle says; the backends of a case ask for the same, in processes and runs of their own."""
    given = pickle.dumps((sources(), op, case.args, sorted(case.options.items())))
    path = KEPT / f"{op}-{hashlib.sha256(given).hexdigest()[:32]}"
    with contextlib.suppress(OSError, ValueError):
        checksum, content = (kept := path.read_bytes())[:32], kept[32:]
        if hashlib.sha256(content).digest() == checksum:
            found: tuple[Any, ...] = pickle.loads(content)
            return found
    found = ORACLES[op](*case.args, **case.options)
    content = pickle.dumps(found)
    with contextlib.suppress(OSError):  # where nothing can be written it is computed each time
        KEPT.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(f".{os.getpid()}")
        written.write_bytes(hashlib.sha256(content).digest() + content)
        written.replace(path)
    return found


def check(op: str, case: Case, backend: Backend) -> None:
    """Assert that the op agrees with the oracle, warns as it should and leaves its arguments alone."""
    what = describe_call(op, case.args, case.options, backend)
    args = tuple(convert(backend, a) for a in case.args)
    options = {name: convert(backend, value) for name, value in case.options.items()}
    before = copy.deepcopy(args), copy.deepcopy(options)
    with backend.running():
        result = _call_op(op, args, options, fails=case.fails, what=what)
        got = parts(op, result)
        if backend in GPU:  # the order of threads is theirs
            again = parts(op, _call_op(op, args, options, fails=case.fails, what=what))
            assert_same_bits(again, got, what=f"{what} again")
    want = expected(op, case)
    names = name_parts(result, got)
    if len(got) != len(want):
        fail(f"{what}: got {len(got)} parts, expected {len(want)}")
    for name, one, wanted in zip(names, got, want, strict=True):
        assert_matches(op, one, wanted, expected_library=backend.library, what=what, part=name)
    places = [*(f"argument {k + 1}" for k in range(len(args))), *options]
    for place, now, then in zip(places, (*args, *options.values()), (*before[0], *before[1].values()), strict=True):
        if hasattr(now, "dtype") or isinstance(now, tuple):
            assert_same_bits(now, then, what=f"{what}: {place} was changed")
        elif now != then:
            fail(f"{what}: {place} was changed: got {describe_value(now)}, expected {describe_value(then)}")


def _call_op(op: str, args: tuple[Any, ...], options: dict[str, Any], *, fails: bool, what: str) -> Any:
    """Return the result; turn an exception into the message of a failing test."""
    try:
        return call_result(op, args, options, fails=fails, what=what)
    except AssertionError:
        raise
    except Exception as error:
        msg = f"{what}: got {type(error).__name__}: {error}, expected a result"
        raise AssertionError(msg) from error
