"""Put the call, what came and what was expected into the first line of what tests raise.

The messages of ``numpy.testing`` begin with an empty line and print whole arrays; those of plain asserts have the
values and not the calls that they come from. pytest's summary shows the first line alone. A conftest imports
``pytest_pyfunc_call``.
"""

from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest
from describe import describe_difference, describe_statement, describe_value, find_differences

TESTING = str(Path(np.testing.__file__).parent)


def reword(error: AssertionError) -> None:
    """Put a first line in front of the message of `error`, if ``numpy.testing`` or a plain assert raised it."""
    if not error.args or not isinstance(error.args[0], str):
        return
    text, traces = error.args[0], list(_traces(error))
    inner = [k for k, trace in enumerate(traces) if trace.tb_frame.f_code.co_filename.startswith(TESTING)]
    if inner and inner[0] > 0 and text.startswith("\n"):
        asking, local = traces[inner[0] - 1], traces[inner[0]].tb_frame.f_locals
        error.args = (f"{describe_statement(asking.tb_frame, asking.tb_lasti)}: {_difference(local)}{text}",)
    elif traces and text.startswith("assert "):
        statement = describe_statement(traces[-1].tb_frame, traces[-1].tb_lasti).removeprefix("assert ")
        error.args = (f"{statement}: got {text.removeprefix('assert ')}",)


def _traces(error: BaseException) -> Generator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _difference(local: dict[str, Any]) -> str:
    """Return how the arguments of an assertion differ, in words."""
    if "actual" not in local or "desired" not in local:
        return "failed"
    try:
        got, want = (np.asarray(local[name]) for name in ("actual", "desired"))
        if got.shape != want.shape and got.ndim and want.ndim:
            return f"got shape {got.shape}, expected {want.shape}"
        got, want = np.broadcast_arrays(got, want)
        rtol, atol = local.get("rtol", 0.0), local.get("atol", 0.0)
        different = find_differences(got, want, rtol, atol)
        if different.any():
            bound = f" within rtol {rtol:g}" * bool(rtol) + f" within atol {atol:g}" * bool(atol)
            return describe_difference(got, want, different, bound=bound)
    except (TypeError, ValueError, AttributeError):  # neither are arrays
        pass
    return f"got {describe_value(local['actual'])}, expected {describe_value(local['desired'])}"


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, Any, Any]:
    """Reword the error of a failing test."""
    try:
        return (yield)
    except AssertionError as error:
        reword(error)
        raise
