"""What a case is."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)  # each is itself alone: arrays have no one answer to ==
class Case:
    """One call of one op.

    Attributes
    ----------
    id : str
        Short name, unique within the op.
    args : tuple of ndarray or None
        The positional array arguments, before a backend has converted them.
    options : dict
        Keyword options. Values that are ndarrays are converted by the backend as well.
    fails : bool
        Whether some element has no answer, so that the call must warn (and does, exactly once).
    """

    id: str
    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    fails: bool = False

    def __str__(self) -> str:
        return self.id
