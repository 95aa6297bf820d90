"""Let a block of calls share options."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from cmfast._core import validate
from cmfast._core.annotations import OnFailure
from cmfast._core.settings import Settings, current
from cmfast._core.usual_options import explain_options


@explain_options
def config(*, on_failure: OnFailure | None = None, num_threads: int | None = None) -> AbstractContextManager[None]:
    """Set the options `on_failure` and `num_threads` of all calls in a ``with`` block that leave them out.

    Parameters
    ----------
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about elements of a batch that cannot be computed. Default: as outside the block, first "warn".
    num_threads : int, optional
        Most threads to use. Default: as outside the block, first what the process may use.

    Raises
    ------
    TypeError, ValueError
        Another value of an option.

    Notes
    -----
    A call's own option takes precedence, and blocks may be nested. No result depends on either option, so that a block
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
    return _use(on_failure, None if num_threads is None else validate.num_threads(num_threads))


@contextmanager
def _use(on_failure: OnFailure, num_threads: int | None) -> Iterator[None]:
    """Set those settings that are not None in a ``with`` block."""
    before = current.get()
    token = current.set(Settings(on_failure or before.on_failure, num_threads or before.num_threads))
    try:
        yield
    finally:
        current.reset(token)
