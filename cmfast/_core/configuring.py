"""Let a block of calls share options."""

import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import Token
from typing import Any, TypeVar

from cmfast._core import caller, validate
from cmfast._core.annotations import FailurePolicy
from cmfast._core.failures import DiagnosticWarning
from cmfast._core.settings import Settings, current
from cmfast._core.usual_options import explain_options

Function = TypeVar("Function", bound=Callable[..., Any])


@explain_options
def config(*, on_failure: FailurePolicy | None = None, num_threads: int | None = None) -> "Config":
    """Set the options `on_failure` and `num_threads` of all calls in a ``with`` block that leave them out.

    Parameters
    ----------
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about elements of a batch that cannot be computed. Default: as outside the block, first "warn".
    num_threads : int, optional
        Most threads to use. Default: as outside the block, first what the process may use.

    Returns
    -------
    context manager
        For ``with``, once; also a decorator of functions.

    Raises
    ------
    TypeError, ValueError
        Another value of an option.

    Warns
    -----
    DiagnosticWarning
        A call without a block, ``cmfast.config(num_threads=2)`` alone, sets nothing.

    Notes
    -----
    As ``numpy.errstate`` and ``pandas.option_context``: no call sets an option for the rest of a program. A call's own
    option takes precedence, and blocks may be nested. No result depends on either option, so that a block
    changes no number. It ends at its last line, also if that raises, and is of this thread or asynchronous task alone.
    Dask arrays: a call keeps the settings that it had when it was made, whenever and wherever it is computed.

    Examples
    --------
    >>> import cmfast
    >>> with cmfast.config(on_failure="ignore", num_threads=2):
    ...     cmfast.ipf([[1, 2], [3, -1]]).status
    np.int8(5)
    """
    if on_failure is not None:
        validate.on_failure(on_failure)
    return Config(on_failure, None if num_threads is None else validate.num_threads(num_threads))


class Config(ContextDecorator):
    """Context manager, and decorator of functions, that sets those settings that are not None.

    One that is dropped without a block warns, as Python does of a coroutine that was never awaited.
    """

    def __init__(self, on_failure: FailurePolicy | None, num_threads: int | None) -> None:
        self._wanted = (on_failure, num_threads)
        self._token: Token[Settings] | None = None
        self._is_used = False

    def __enter__(self) -> None:
        if self._is_used:
            with caller.set_task("config"):
                validate.fail("the context manager was used before; call cmfast.config again", RuntimeError)
        self._is_used = True
        before, (on_failure, num_threads) = current.get(), self._wanted
        self._token = current.set(Settings(on_failure or before.on_failure, num_threads or before.num_threads))

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            current.reset(self._token)

    def __call__(self, function: Function) -> Function:
        """Return a function whose every call is a block with these settings."""
        self._is_used = True
        decorated: Function = super().__call__(function)
        return decorated

    def _recreate_cm(self) -> "Config":
        """Return a context manager for one call of a decorated function."""
        return Config(*self._wanted)

    def __repr__(self) -> str:
        return f"<cmfast.{self._describe()}: it sets options in a block, with cmfast.{self._describe()}: ...>"

    def __del__(self) -> None:
        if not self._is_used:
            with caller.set_task("config"):
                text = f"the call alone sets nothing; write `with cmfast.{self._describe()}:` around the calls"
                warnings.warn(caller.prefix_name(text), DiagnosticWarning, stacklevel=2)

    def _describe(self) -> str:
        """Return the call that made this."""
        wanted = zip(("on_failure", "num_threads"), self._wanted, strict=True)
        return f"config({', '.join(f'{name}={value!r}' for name, value in wanted if value is not None)})"
