"""Turn the status array of a batch into one warning, one error or nothing."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np

from cmfast._core import caller, settings
from cmfast._core.adapters import adapter, reads_for_message
from cmfast._core.annotations import OnFailure
from cmfast.kernels.status import Status

_texts: ContextVar[list[str] | None] = ContextVar("cmfast_warnings", default=None)
_issued: ContextVar[set[str] | None] = ContextVar("cmfast_issued_warnings", default=None)


class FailureWarning(RuntimeWarning):
    """Some elements of a batch could not be computed; the other elements were."""


class DiagnosticWarning(UserWarning):
    """The result was computed correctly but may be misleading; the message says why.

    Silenced as any warning is: ``warnings.simplefilter("ignore", cmfast.DiagnosticWarning)``.
    """


class FailureError(ValueError):
    """Some elements of a batch could not be computed, and ``on_failure="raise"`` was given.

    Attributes
    ----------
    status : array
        The status of every element of the batch (see :class:`cmfast.Status`).
    """

    def __init__(self, message: str, status: Any = None) -> None:
        super().__init__(message)
        self.status = status


def report(
    status: Any,
    on_failure: OnFailure,
    *,
    failed: str = "matrices not computed",
    describe: Callable[[tuple[int, ...]], str] | None = None,
    why: Callable[[tuple[int, ...]], str] | None = None,
    name: Callable[[tuple[int, ...]], str] | None = None,
    limit_is_answer: bool = False,
) -> None:
    """Warn or raise, as `on_failure` says, about the elements whose status is not CONVERGED.

    Parameters
    ----------
    status : array of int8, shape (...)
        Codes of :class:`Status`. Unless `on_failure` is ``"ignore"``, the test for nonzero codes synchronises the
        device; the codes are copied from there only if one is nonzero.
    on_failure : {"raise", "warn", "ignore"}
        Validated by the caller; None: as :func:`cmfast.config` says.
    failed : str
        Plural phrase for the failed elements.
    describe : callable, optional
        Return the text for one index of the batch; used if exactly one element failed.
    why : callable, optional
        Return the cause for one index of the batch; appended to the message for the first failed element.
    name : callable, optional
        Return the name of the element at one index of the batch; default: the index.
    limit_is_answer : bool
        LIMIT_ONLY gave a usable result, though not the requested one: it warns even if failures raise.
    """
    on_failure = settings.current.get().on_failure if on_failure is None else on_failure
    if on_failure == "ignore":
        return
    if isinstance(status, np.generic) and not status:  # fast path: one matrix, no failure
        return
    later = partial(report, on_failure=on_failure, failed=failed, name=name, limit_is_answer=limit_is_answer)
    if adapter(status).postpone(later, status):
        return
    if not adapter(status).any(status):
        return
    codes = adapter(status).to_host(status)
    if limit_is_answer and on_failure == "raise" and all(Status(int(code)).ok for code in np.unique(codes)):
        on_failure = "warn"
    token = reads_for_message.set(True)
    try:
        text = format_failures(codes, np.flatnonzero(codes), failed, describe, name)
        if why is not None:
            text += f"; {why(tuple(int(k) for k in np.unravel_index(np.flatnonzero(codes)[0], codes.shape)))}"
    finally:
        reads_for_message.reset(token)
    warn_or_raise(text, on_failure, status)


def format_failures(
    codes: np.ndarray,
    bad: np.ndarray,
    failed: str,
    describe: Callable[[tuple[int, ...]], str] | None,
    name: Callable[[tuple[int, ...]], str] | None = None,
) -> str:
    """Return one sentence on the failed elements of a batch, or on the only one."""
    indices = [tuple(int(k) for k in np.unravel_index(i, codes.shape)) for i in bad[:3]]
    if describe is not None and bad.size == 1:
        where = f" (element {_index(indices[0])} of {codes.size})" if codes.size > 1 else ""
        return f"{Status(int(codes.flat[bad[0]])).name}{where}: {describe(indices[0])}"
    found, number = np.unique(codes.reshape(-1)[bad], return_counts=True)
    what = ", ".join(f"{k} {Status(int(code)).name}" for code, k in zip(found, number, strict=True))
    if codes.ndim == 0:
        return f"{failed}: {Status(int(codes)).name}"
    first = ", ".join(map(_index if name is None else name, indices))
    return f"{bad.size} of {codes.size} {failed} (first: {first}): {what}"


def _index(index: tuple[int, ...]) -> str:
    """Format a batch index: a bare number for one axis."""
    return str(index[0]) if len(index) == 1 else str(index)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect this thread's cmfast warnings in a list of texts instead of issuing them.

    `warnings.catch_warnings` changes the filters of all threads, and overlapping uses may leave a filter in place for
    good.
    """
    texts: list[str] = []
    token = _texts.set(texts)
    try:
        yield texts
    finally:
        _texts.reset(token)


@contextmanager
def issue_once() -> Iterator[None]:
    """Issue each text of this thread's cmfast warnings at most once in this block."""
    token = _issued.set(set())
    try:
        yield
    finally:
        _issued.reset(token)


def warn_or_raise(text: str, on_failure: OnFailure, status: Any = None) -> None:
    """Issue a FailureWarning or raise a FailureError with `text`, as `on_failure` says."""
    on_failure = settings.current.get().on_failure if on_failure is None else on_failure
    if on_failure == "raise":
        raise FailureError(caller.prefix_name(text), status)
    if on_failure == "warn":
        _warn(text, FailureWarning)


def warn_diagnostic(text: str) -> None:
    """Issue a DiagnosticWarning with `text`; tasks that see only some of the samples issue none."""
    if caller.has_part():
        return
    _warn(text, DiagnosticWarning)


def _warn(text: str, category: type[Warning]) -> None:
    """Issue a warning at the first frame outside cmfast, or append it to the collected texts."""
    texts, issued = _texts.get(), _issued.get()
    if texts is None:
        if issued is not None and text in issued:
            return
        warnings.warn(caller.prefix_name(text), category, stacklevel=_stack_level())
        if issued is not None:
            issued.add(text)
    else:
        texts.append(caller.prefix_name(text))


def _stack_level() -> int:
    # The first frame outside cmfast. From Python 3.12 on warnings.warn(skip_file_prefixes=...) would do it.
    """Return the `stacklevel` of the first frame outside cmfast."""
    level = 2
    frame = sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "cmfast":
        frame = frame.f_back
        level += 1
    return level
