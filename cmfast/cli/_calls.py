"""Call library functions from commands: given options, errors as usage errors, progress bars."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import cmfast
from cmfast._core import caller, lazy
from cmfast._core.progress import Bar, is_terminal
from cmfast.cli._parser import UsageError


def select_options(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the options that were given; the others keep the function's defaults."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def compute(function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """Call a public function; turn its errors into UsageError, except FailureError."""
    try:
        return function(*arrays, **options)
    except cmfast.FailureError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(str(error)) from error


def compute_with_status(
    function: Callable[..., Any], M: np.ndarray, *arrays: Any, on_failure: str = "ignore", **options: Any
) -> tuple[Any, np.ndarray]:
    """Call a function of matrices that returns no status; return its result and the status of every matrix."""
    try:
        result = compute(function, M, *arrays, on_failure="raise", **options)
    except cmfast.FailureError as error:  # the error has the statuses; call again for the result
        return compute(function, M, *arrays, on_failure=on_failure, **options), np.asarray(error.status)
    return result, np.zeros(M.shape[:-2], np.int8)


@contextmanager
def part_of_batch(function: str, first: int, n: int) -> Iterator[None]:
    """In this block, calls of `function` get `n` matrices of a larger batch, starting at its element `first`."""
    with caller.set_task(function, is_part=True), lazy.set_element_indices(np.arange(first, first + n)):
        yield


def bar(args: argparse.Namespace, label: str, unit: str = "") -> Bar | None:
    """Return a progress bar; None with --quiet or if stderr is not a terminal."""
    return None if args.quiet or not is_terminal() else Bar(label, unit)


def tick(args: argparse.Namespace, label: str, unit: str = "") -> Callable[[int, int], object]:
    """Return a progress callback ``(done, total)``, which does nothing without a bar."""
    return bar(args, label, unit) or (lambda done, total: None)
