"""A lock for each object that is updated in place, so that updates from several threads are all kept."""

import os
import threading
from weakref import WeakSet


class ObjectLock:
    """The lock of one object: copies and pickles of the object get one of their own, and so does a forked child.

    A child of fork() has one thread: what another thread had locked would stay locked there for ever. What a lock
    guards is one attribute that is replaced in one step, so the child sees it before or after an update, not between.
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
    for one in _every:
        one.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replace_all)
