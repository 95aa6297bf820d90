"""What a job is: our call, the rivals' calls on the same input, the physical limit, and the check of every result."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True)
class Rival:
    """One competitor in its own best form.

    Attributes
    ----------
    name : str
        Library and form.
    run : callable
        Does the same work on the first `items` items of the job's input and returns the result.
    items : int
        How many of the job's items it is given: a slow rival gets a part, and its time is scaled up.
    check : callable
        ``check(result)`` returns a note for the table, such as the verified residual; raises if the work was not done.
    prepare : callable or None
        Called once before it is timed, on little: compiles what `run` needs.
    needs : str
        A module that may be missing, without which the table says that the rival is left out.
    """

    name: str
    run: Callable[[], Any]
    items: int
    check: Callable[[Any], str]
    prepare: Callable[[], Any] | None = None
    needs: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether its module can be imported."""
        return not self.needs or find_spec(self.needs) is not None


@dataclass(frozen=True)
class Job:
    """One row of the table.

    Attributes
    ----------
    name, size : str
        Which job, and how large.
    items : int
        Number of matrices, labels or points.
    unit : str
        What one item is.
    run : callable
        ``run(num_threads)`` is our call.
    check : callable
        ``check(result)`` returns a note and raises if the result is wrong.
    limit : callable
        A plain copy or read of the bytes that the job must move.
    limit_name : str
        "copy", "read", or which bytes.
    rivals : list of Rival
        The popular ones and the honest ones, in the form that its best user would write. Each uses the cores that it
        can, as `run(None)` does. Empty where nobody does it.
    memory : bool
        Whether the peak memory of rivals is measured too, in one more call of each.
    """

    name: str
    size: str
    items: int
    unit: str
    run: Callable[[int | None], Any]
    check: Callable[[Any], str]
    limit: Callable[[], Any]
    limit_name: str
    rivals: list[Rival] = field(default_factory=list)
    memory: bool = False
