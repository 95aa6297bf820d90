"""A lock per object that is updated in place, so that updates from several threads are never lost."""

import os
import threading
from weakref import WeakSet


class ObjectLock:
    """The lock of one object; copies, pickles and forked children of the object get a new one.

    A child of fork() has one thread, so a lock held by another thread would stay locked forever. Each lock guards one
    attribute that is replaced in one step: the child sees it before or after an update, never in between.
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _every.add(self)

    def __copy__(self) -> "ObjectLock":
        return ObjectLock()

    def __deepcopy__(self, memo: object) -> "ObjectLock":
        return ObjectLock()

    def __reduce__(self) -> tuple[type["ObjectLock"], tuple[()]]:
        return ObjectLock, ()


_every: "WeakSet[ObjectLock]" = WeakSet()


def _replace_all() -> None:
    """Give every object a new lock, in a forked child process."""
    for one in _every:
        one.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replace_all)
