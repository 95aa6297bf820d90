"""How a test calls an op, and which arrays of its result an oracle speaks of."""

import warnings
from typing import Any

import cmfast

# Result of the public function -> the tuple of arrays that the oracle returns. Default: the result itself.
PARTS: dict[str, Any] = {
    "ras": lambda result: result[1:],
    "support": lambda found: (*found[:-1], *found.certificate),
}


def public(op: str) -> Any:
    """Return the public function of `op`."""
    return getattr(cmfast, op)


def parts(op: str, result: Any) -> tuple[Any, ...]:
    """Return the arrays of `result` in the order of the oracle."""
    if op in PARTS:
        return tuple(PARTS[op](result))
    return tuple(result) if isinstance(result, tuple) else (result,)


def call(op: str, args: tuple[Any, ...], options: dict[str, Any], *, fails: bool) -> tuple[Any, ...]:
    """Call the public function; a case that fails must warn exactly once, any other never."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = public(op)(*args, **options)
    failures = [w for w in caught if issubclass(w.category, cmfast.FailureWarning)]
    others = [w for w in caught if w not in failures]
    assert not others, f"{op}: unexpected {others[0].category.__name__}: {others[0].message}"
    assert len(failures) == int(fails), f"{op}: {len(failures)} failure warnings, wanted {int(fails)}"
    for w in failures:
        assert w.filename == __file__, f"{op}: the warning points at {w.filename}, not at the caller"
    return parts(op, result)
