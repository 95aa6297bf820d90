"""Access to scikit-learn's own functions, for parameter checks and for input that is delegated to them.

Delegated are: arguments that scikit-learn refuses and undefined metrics, for its own errors and warnings; and arrays
that are not NumPy arrays or not on the host, if its array API support is on.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from cmfast._core.libraries import explain_absence

with explain_absence("sklearn", "scikit-learn"):
    from sklearn import __version__, get_config
    from sklearn.metrics import _classification, _ranking
    from sklearn.utils._param_validation import validate_params

if tuple(map(int, __version__.split(".")[:2])) < (1, 9):
    msg = f"cmfast.compat.sklearn has the functions of scikit-learn 1.9 and needs it or a later one, got {__version__}"
    raise ImportError(msg)

Function = TypeVar("Function", bound=Callable[..., Any])

MODULES = (_classification, _ranking)
ORIGINALS: dict[str, Callable[..., Any]] = {}


def replace_original(compute: Function) -> Function:
    """Validate parameters like scikit-learn's function of the same name (decorator), and register that function."""
    name = compute.__name__
    ORIGINALS[name] = theirs = next(getattr(module, name) for module in MODULES if hasattr(module, name))
    rules = theirs._skl_parameter_constraints
    return cast("Function", validate_params(rules, prefer_skip_nested_validation=True)(compute))


def delegate(name: str, *args: Any, **options: Any) -> Any:
    """Call scikit-learn's own function with these arguments."""
    return ORIGINALS[name](*args, **options)


def is_foreign(*arrays: Any) -> bool:
    """Whether scikit-learn would compute with these arrays in their own library (array API dispatch)."""
    if not get_config()["array_api_dispatch"]:
        return False
    return any(
        hasattr(array, "__array_namespace__") or type(array).__module__.startswith("torch")
        for array in arrays
        if not isinstance(array, np.ndarray | np.generic)
    )


def replay(name: str, *args: Any, **options: Any) -> None:
    """Call scikit-learn's own function on a tiny input, to issue its warning or error."""
    ORIGINALS[name](*args, **options)
