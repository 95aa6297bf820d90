"""Hold what the options `on_failure` and `num_threads` are where a call leaves them out."""

from contextvars import ContextVar
from typing import NamedTuple

from cmfast._core.annotations import FailurePolicy


class Settings(NamedTuple):
    """Values of the options that calls leave out."""

    on_failure: FailurePolicy = "warn"
    num_threads: int | None = None


current: ContextVar[Settings] = ContextVar("cmfast_settings", default=Settings())  # noqa: B039  # it never changes
