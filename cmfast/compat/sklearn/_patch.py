"""Replace functions in scikit-learn's modules, and restore them."""

import sys
from collections.abc import Callable
from typing import Any

from sklearn.metrics import _scorer

from cmfast.compat.sklearn._originals import ORIGINALS


def swap(new: dict[Callable[..., Any], Callable[..., Any]]) -> int:
    """Replace functions in all modules and scorers of scikit-learn; return the number of replacements."""
    replaced = 0
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "sklearn":
            continue
        for key, value in list(vars(module).items()):
            if _is_key(value, new):
                setattr(module, key, new[value])
                replaced += 1
    for scorer in _scorer._SCORERS.values():
        if _is_key(scorer._score_func, new):
            scorer._score_func = new[scorer._score_func]
            replaced += 1
    return replaced


def _is_key(value: Any, new: dict[Any, Any]) -> bool:
    """Whether a value is a callable, hashable key of the dict `new`."""
    return callable(value) and getattr(value, "__hash__", None) is not None and value in new


def get_original(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return scikit-learn's own function of the same name."""
    return ORIGINALS[function.__name__]
