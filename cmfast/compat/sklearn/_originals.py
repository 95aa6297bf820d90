"""scikit-learn's own functions: what ours are named after, checked by, and leave to them.

Ours count and compute. They leave to scikit-learn's function of the same name what has no value of ours: arguments that
it refuses, in its words; metrics that are undefined, which it warns of in its words; and arrays that are neither
NumPy's nor on the host, where its array API support is on.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from sklearn import __version__, get_config
from sklearn.metrics import _classification, _ranking
from sklearn.utils._param_validation import validate_params

if tuple(map(int, __version__.split(".")[:2])) < (1, 9):
    msg = f"cmfast.compat.sklearn has the functions of scikit-learn 1.9 and needs it or a later one, got {__version__}"
    raise ImportError(msg)

Function = TypeVar("Function", bound=Callable[..., Any])

MODULES = (_classification, _ranking)
ORIGINALS: dict[str, Callable[..., Any]] = {}


def replaces(compute: Function) -> Function:
    """Check the parameters of `compute` as scikit-learn's function of its name does, which is kept beside it."""
    name = compute.__name__
    ORIGINALS[name] = theirs = next(getattr(module, name) for module in MODULES if hasattr(module, name))
    rules = theirs._skl_parameter_constraints
    return cast("Function", validate_params(rules, prefer_skip_nested_validation=True)(compute))


def leave(name: str, *args: Any, **options: Any) -> Any:
    """Return what scikit-learn's own function makes of these arguments: an error, a warning, or what is not ours."""
    return ORIGINALS[name](*args, **options)


def is_foreign(*arrays: Any) -> bool:
    """Return whether scikit-learn would compute with these arrays in their own library."""
    if not get_config()["array_api_dispatch"]:
        return False
    return any(
        hasattr(array, "__array_namespace__") or type(array).__module__.startswith("torch")
        for array in arrays
        if not isinstance(array, np.ndarray | np.generic)
    )


def ask(name: str, *args: Any, **options: Any) -> None:
    """Let scikit-learn's own function say in its words what it says of these few samples: a warning or an error."""
    ORIGINALS[name](*args, **options)
