"""What scores and sets have in common: probabilities, how a score is made of them, what is drawn."""

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast.kernels.shared.conformal import MOST_PENALTY

ScoreMethod: TypeAlias = Literal["aps", "raps", "lac"]
METHODS = get_args(ScoreMethod)
MOST_SCORED_CLASSES = 1 << 30  # of which a row may have; ranks are counted in places of 64 bits, units in less


class Rule(NamedTuple):
    """How a score is made of a probability."""

    method: str
    randomised: bool
    lam: float
    k_reg: int

    def options(self) -> dict[str, Any]:
        """Return what kernels are told of it."""
        return {"method": self.method, "lam": self.lam, "k_reg": self.k_reg}


def rule(method: Any, randomised: Any, lam: Any, k_reg: Any) -> Rule:
    """Return the options of a score, checked."""
    validate.choice("method", method, METHODS)
    validate.flag("randomised", randomised)
    lam = validate.finite("lam", lam)
    if lam < 0:
        validate.refuse("lam", "at least 0", lam)
    k_reg = validate.count("k_reg", k_reg, most=2**31)
    if method != "raps" and lam:
        validate.refuse("lam", '0 unless method="raps"', lam)
    return Rule(method, bool(randomised) and method != "lac", lam, k_reg)


def probabilities(P: Any, rule: Rule) -> tuple[int, ...]:
    """Check that `P` is a real array of rows of probabilities; return the shape of its rows."""
    validate.real(P=P)
    shape = dispatch.shape_of(P)
    if len(shape) < 2 or not shape[-1]:
        validate.refuse("P", "of shape (..., n, C) with at least one class", f"shape {shape}")
    if not rule.lam * shape[-1] < MOST_PENALTY:
        validate.refuse("lam", f"below {MOST_PENALTY:.0f} / C = {MOST_PENALTY / shape[-1]:.3g}", rule.lam)
    return shape[:-1]


def per_row(name: str, array: Any, rows: tuple[int, ...]) -> None:
    """Check that `array` has one entry per row of probabilities."""
    if array is not None and dispatch.shape_of(array) != rows:
        validate.refuse(name, f"of shape {rows}, one entry per row of P", f"shape {dispatch.shape_of(array)}")


def draws(u: Any, rng: Any, rule: Rule, P: Any, rows: tuple[int, ...], num_threads: int | None) -> Any:
    """Return which share of its own probability counts in a row: 1 - U, or made of the row and a seed, or drawn.

    None where all of it counts.
    """
    if u is not None and rng is not None:
        validate.refuse("rng", "None where u is given", validate.format_value(rng))
    if not rule.randomised:
        if u is not None:
            validate.refuse("u", "None where nothing is randomised", "an array")
        return None
    if u is not None:
        validate.real(u=u)
        per_row("u", u, rows)
        u = adapter(u).unwrap(u)
        return adapter(u).evaluate(lambda u: 1.0 - adapter(u).cast(u, np.float64), u)
    if isinstance(rng, np.random.Generator):
        drawn: np.ndarray = rng.random(rows)
        bare = adapter(P).unwrap(P)
        return adapter(bare).send(drawn, bare)
    seed = 0 if rng is None else validate.count("rng", rng, most=None)
    return dispatch.call("row_draws", P, seed=seed, num_threads=num_threads)
