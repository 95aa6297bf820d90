"""Put the call, what came and what was expected into the first line of what tests raise.

The messages of ``numpy.testing`` begin with an empty line and print whole arrays; those of plain asserts have the
values and not the calls that they come from. pytest's summary shows the first line alone. A conftest imports
``pytest_pyfunc_call``.
"""

import ast
import linecache
import re
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest
from describe import describe_difference, describe_statement, describe_value, find_differences, shorten

TESTING = str(Path(np.testing.__file__).parent)
MOST_BODY = 160  # characters of the statements that should have raised or warned
EXAMPLE = re.compile(r"(?:Falsifying example|Failing test case): (.*)", re.DOTALL)  # Hypothesis's notes, old and new
# Lines of pytest's explanation that say where two long values differ.
PLACE = re.compile(r"^(At index .*|Left contains .*|Right contains .*|Extra items .*|Differing items:)$", re.MULTILINE)


def reword(error: BaseException) -> None:
    """Put a first line in front of the message of `error`.

    That of ``numpy.testing``, of a plain assert, of ``pytest.raises`` and ``pytest.warns`` where nothing came; then the
    example that Hypothesis found.
    """
    if isinstance(error, AssertionError):
        _reword_assertion(error)
    elif isinstance(error, pytest.fail.Exception) and (error.msg or "").startswith("DID NOT "):
        body = _describe_body(list(_traces(error)))
        error.msg = f"{body}: {error.msg}" if body else error.msg
    examples = [found[1] for note in getattr(error, "__notes__", ()) if (found := EXAMPLE.match(note))]
    if examples and isinstance(error, AssertionError) and error.args and isinstance(error.args[0], str):
        first, *more = error.args[0].split("\n", 1)
        error.args = ("\n".join([f"{first} in {shorten(examples[0], MOST_BODY)}", *more]),)


def reword_group(group: BaseExceptionGroup) -> BaseExceptionGroup:
    """Put the first line of the first failure into an exception group (Hypothesis raises one for several failures)."""
    for error in group.exceptions:
        reword(error)
    first = group.exceptions[0]
    message = f"{type(first).__name__}: {str(first).partition(chr(10))[0]} ({group.message})"
    return type(group)(message, group.exceptions).with_traceback(group.__traceback__)


def _describe_body(traces: list[TracebackType]) -> str:
    """Return the body of the ``with`` statement, in the innermost frame outside pytest, that raised no exception."""
    outside = [trace for trace in traces if "_pytest" not in Path(trace.tb_frame.f_code.co_filename).parts]
    if not outside:
        return ""
    frame, line = outside[-1].tb_frame, outside[-1].tb_lineno
    source = "".join(linecache.getlines(frame.f_code.co_filename))
    blocks = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.With) and node.lineno == line]
    if blocks:
        parts = [ast.get_source_segment(source, statement) or "" for statement in blocks[0].body]
        return shorten("; ".join(parts), MOST_BODY)
    return describe_statement(frame, outside[-1].tb_lasti)  # pytest.raises(error, function, ...)


def _reword_assertion(error: AssertionError) -> None:
    if not error.args or not isinstance(error.args[0], str):
        return
    text, traces = error.args[0], list(_traces(error))
    inner = [k for k, trace in enumerate(traces) if trace.tb_frame.f_code.co_filename.startswith(TESTING)]
    if inner and inner[0] > 0 and text.startswith("\n"):
        asking, local = traces[inner[0] - 1], traces[inner[0]].tb_frame.f_locals
        error.args = (f"{describe_statement(asking.tb_frame, asking.tb_lasti)}: {_difference(local)}{text}",)
    elif traces and text.startswith("assert "):
        statement = describe_statement(traces[-1].tb_frame, traces[-1].tb_lasti).removeprefix("assert ")
        first, *more = text.removeprefix("assert ").split("\n", 1)
        place = PLACE.search("\n".join(line.strip() for line in more[0].split("\n"))) if more else None
        if place and "..." in first:  # the values are cut
            first += f" ({place[0]})"
        error.args = ("\n".join([f"{statement}: got {first}", *more]),)


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
    except BaseExceptionGroup as group:
        raise reword_group(group) from group.__cause__
    except (AssertionError, pytest.fail.Exception) as error:
        reword(error)
        raise
