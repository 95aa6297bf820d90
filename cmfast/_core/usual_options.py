"""Explain options that a function does not have: what users of other libraries call them, or a name nearby."""

from collections.abc import Callable, Collection
from functools import wraps
from inspect import Parameter, signature
from typing import NoReturn, ParamSpec, TypeVar

from cmfast._core import validate

P = ParamSpec("P")
R = TypeVar("R")

# The name elsewhere: the parameter here that has the same purpose, and what to do.
USUAL_OPTIONS = {
    "alpha": ("confidence_level", "pass confidence_level=1 - alpha"),
    "average": ("names", 'the average is part of the name, as in "f1_macro"'),
    "confidence": ("confidence_level", "it is called confidence_level="),
    "level": ("confidence_level", "it is called confidence_level="),
    "groups": ("keys", "the names of the columns of groups are the second argument"),
    "n_boot": ("n_resamples", "it is called n_resamples="),
    "n_bootstrap": ("n_resamples", "it is called n_resamples="),
    "n_jobs": ("num_threads", "it is called num_threads="),
    "n_replicates": ("n_resamples", "it is called n_resamples="),
    "normalize": ("weights", "it is called weights="),
    "positive": ("pos_label", "it is called pos_label="),
    "random_state": ("rng", "it is called rng="),
    "seed": ("rng", "it is called rng="),
    "zero_division": ("undefined", "undefined= says what a 0/0 gives"),
}


def explain_options(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: an option that it does not have raises TypeError and names the right one."""
    parameters = signature(function).parameters
    known = frozenset(name for name, one in parameters.items() if one.kind is not Parameter.POSITIONAL_ONLY)

    @wraps(function)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        """Call the function; raise TypeError for an unknown option."""
        if not known.issuperset(options):
            refuse_unknown_option(next(name for name in options if name not in known), parameters)
        return function(*args, **options)

    return wrapper


def refuse_unknown_option(option: str, parameters: Collection[str]) -> NoReturn:
    """Raise TypeError for an option that is none of the parameters of a function."""
    if option in parameters:
        validate.fail(f"{option} is given by its place, without its name", TypeError)
    own, cure = USUAL_OPTIONS.get(option, ("", ""))
    near = f"; {cure}" if own in parameters else validate.suggest_name(option, parameters)
    validate.fail(f"there is no option {option!r}{near}", TypeError)
