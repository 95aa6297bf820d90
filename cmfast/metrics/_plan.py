"""Translate metric names into an execution plan in which each per-class value is computed once."""

import math
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from cmfast._core import validate
from cmfast._core.annotations import Undefined
from cmfast._core.usual_names import OF_SCORES
from cmfast.kernels.shared.metric_formulas import CHANCE, RATES, Value
from cmfast.kernels.shared.metrics import AGAIN, ORDERED, PRODUCTS, TRACED, Mode, Over, Plan, Step, Total
from cmfast.metrics._catalogue import AVERAGES, FORMS, GROUPS, Form, Metric, find_form, list_group, suggest_names

Codes: TypeAlias = tuple[int, int, int, int, int]
Row: TypeAlias = tuple[Codes, tuple[float, float]]

_MODES = {
    "present": Mode.PRESENT,
    "nan": Mode.DEFINED,
    "strict": Mode.ALL,
    "zero": Mode.ALL,
    "one": Mode.ALL,
}


class IndexedPlan(NamedTuple):
    """Execution plan of metrics, and the position of each requested name among its results."""

    plan: Plan
    positions: tuple[int, ...]


def is_group(names: object) -> bool:
    """Return whether `names` stands for many metrics: None, "scalars" or "per_class"."""
    if type(names) is tuple:  # the names of a group that was resolved before
        return any(names is list_group(group) for group in GROUPS)
    return names is None or (isinstance(names, str) and names in GROUPS)


def resolve_names(names: object, argument: str = "names", pos_label: object = None) -> tuple[str, ...]:
    """Return `names` as a tuple of known metric names; refuse unknown names, and `pos_label` if none uses it."""
    found = _resolve_known_names(names, argument)
    if pos_label is not None:
        check_positive_is_used(found, pos_label)
    return found


def check_positive_is_used(names: tuple[str, ...], pos_label: object) -> None:
    """Refuse the option `pos_label` where no metric has a positive class; tell which one has."""
    if not names or is_binary(names):
        return
    binary = next(filter(None, map(_find_binary_form, names)), None)
    cure = f"; {binary!r} is of the positive class alone" if binary else ""
    shown = names[0] if len(names) == 1 else f"{len(names)} metrics without a positive class, first {names[0]}"
    validate.refuse("pos_label", f"left out for {shown}", f"{validate.format_value(pos_label)}{cure}")


def _find_binary_form(name: str) -> str | None:
    """Return the name of a metric's form for the positive class: f1_binary of f1 and f1_macro; None without one."""
    form = find_form(name)
    stem = name if form is None or form.average is None else name.removesuffix(f"_{form.average}")
    return f"{stem}_binary" if find_form(f"{stem}_binary") is not None else None


def _resolve_known_names(names: object, argument: str) -> tuple[str, ...]:
    """Return `names` as a tuple of known metric names; refuse unknown names."""
    if names is None or (isinstance(names, str) and names in GROUPS):
        return list_group(names or "scalars")
    found = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, list | tuple) else None
    if found is None or not all(isinstance(name, str) for name in found):
        labels = "; for labels use metrics.from_labels(y_true, y_pred, names)" if np.ndim(names) == 1 else ""  # type: ignore[arg-type]
        own = getattr(names, "__name__", None)
        given = validate.format_value(names) if find_form(str(own)) is None else f"a function; pass {own!r}"
        validate.refuse(argument, "a name or a list of names", f"{given}{labels}", TypeError)
    for name in found:
        if find_form(name) is None:
            _refuse_unknown_name(argument, name)
    return found


@lru_cache(maxsize=256)
def is_binary(names: tuple[str, ...]) -> bool:
    """Return whether any of the known metric names needs 2x2 matrices."""
    return any(form is not None and form.binary for form in map(find_form, names))


def _refuse_unknown_name(argument: str, name: str) -> NoReturn:
    """Raise for a name that is no metric, with a suggestion where one is close."""
    if name in GROUPS:
        given = f"{name!r} in a list; it stands for many names, and alone: {argument}={name!r}"
        validate.refuse(argument, "metrics", given)
    if name == "tau_weighted":
        given = f"{name!r}, which needs a weight for each class in its name: 'tau_weighted_1_5' for two of them"
        validate.refuse(argument, "metrics", given)
    if name.lower() in OF_SCORES:
        validate.refuse(argument, "metrics", f"{name!r}; {OF_SCORES[name.lower()]}")
    meant = suggest_names(name)
    if meant:
        validate.refuse(argument, "metrics", f"{validate.format_value(name)}; did you mean {meant[0]!r}?")
    known = "metrics, as listed in metrics.SCALARS, metrics.PER_CLASS and metrics.BINARY (f1_macro, mcc, fbeta_2, ...)"
    validate.refuse(argument, known, validate.format_value(name))


def match_requested_type(names: object, wanted: tuple[str, ...], found: list[Any]) -> Any:
    """Return the array itself if one name was requested, else a dict from name to array."""
    one = isinstance(names, str) and names not in GROUPS
    return found[0] if one else dict(zip(wanted, found, strict=True))


def check_undefined(undefined: object) -> None:
    """Validate the option `undefined`: the name of a policy, or a number from 0 to 1."""
    if type(undefined) is str and undefined in _MODES:
        return  # fast path
    if isinstance(undefined, bool) or not isinstance(undefined, validate.NUMBERS):
        validate.choice("undefined", undefined, _MODES, "a number from 0 to 1, or ")
    elif not 0 <= undefined <= 1:
        names = ", ".join(map(repr, _MODES))
        validate.refuse("undefined", f"a number from 0 to 1, or one of {names}", validate.format_value(undefined))


def get_undefined_value(metric: Metric, undefined: Undefined) -> float:
    """Return the value that a 0/0 of `metric` becomes under the policy `undefined`."""
    if undefined in ("nan", "strict"):
        return math.nan
    return 0.0 if metric.chance else get_fill_value(undefined)


def get_fill_value(undefined: Undefined) -> float:
    """Return the number that replaces a rate that is 0/0 under a filling policy."""
    if isinstance(undefined, str):
        return 1.0 if undefined == "one" else 0.0
    return float(undefined)


@lru_cache(maxsize=256)
def make_plan(
    names: tuple[str, ...],
    C: int,
    undefined: Undefined,
    positive: int,
    labels: tuple[int, ...] | None = None,
    *,
    argument: str,
) -> IndexedPlan:
    """Return the execution plan of the known metric names `names` for matrices of `C` classes.

    Averages run over the classes `labels`, None for all. `argument` names the argument that gave the number of classes,
    in messages.
    """
    forms = [find_form(name) for name in names]
    for name, form in zip(names, forms, strict=True):
        if form is not None and form.binary and C != 2:
            own = form.metric.name + ("_ovr" if form.metric.kind == "binary" else "")
            wanted = f"of 2 classes for {name} (per class: {own}, mean: {own}_macro)"
            validate.refuse(argument, wanted, f"{C} classes")
        if form is not None and form.weights and len(form.weights) != C:
            validate.refuse(argument, f"of {len(form.weights)} classes for {name}", f"{C} classes")
    members = np.empty(0)
    if labels is not None:
        members = np.zeros(C)
        members[list(labels)] = 1.0
    return _Planner([form for form in forms if form is not None], undefined, positive, members).build()


def validate_class_ids(labels: object, C: int, name: str = "average_over") -> tuple[int, ...] | None:
    """Validate the class indices of the option `name` against `C` classes; return them as a tuple, or None."""
    if labels is None:
        return None
    listed = labels.tolist() if isinstance(labels, np.ndarray) and labels.ndim == 1 else labels
    if not isinstance(listed, list | tuple | range) or not len(listed):
        validate.refuse(name, "a list of class ids, at least one", validate.format_value(labels), TypeError)
    found = tuple(validate.count(name, label) for label in listed)
    if len(set(found)) < len(found):
        validate.refuse(name, "unique", validate.format_value(list(found)))
    if max(found) >= C:
        validate.refuse(name, f"in 0..{C - 1}", max(found))
    return found


def make_tau_plan(weights: np.ndarray, v: float, *, normalize: bool, undefined: Undefined) -> Plan:
    """Return the execution plan of the weighted tau alone."""
    recall = FORMS["recall"].metric
    given = get_undefined_value(recall, undefined)
    over = Over.TAU_NORMALIZED if normalize else Over.TAU_WEIGHTED
    steps: list[Codes] = [(Step.VALUE, Value.RECALL, 0, 0, 0), (Step.REDUCE, over, 0, 0, 0)]
    members = np.empty(0)
    return _pack_plan(steps, [(given, 1.0), (given, v)], weights, members, undefined, scalars=1, tables=0, registers=1)


class _Planner:
    """Builder of an execution plan: assigns result positions and registers, then lists the steps."""

    def __init__(self, forms: list[Form], undefined: Undefined, positive: int, members: np.ndarray) -> None:
        self.undefined: Undefined = undefined
        self.positive, self.members = positive, members
        self.forms = list(dict.fromkeys(forms))
        self.scalars = [form for form in self.forms if not form.per_class]
        self.tables = [form for form in self.forms if form.per_class]
        self.order = {form: i for i, form in enumerate(self.scalars)}
        self.positions = tuple(
            len(self.scalars) + self.tables.index(form) if form.per_class else self.order[form] for form in forms
        )

    def register(self, form: Form) -> int:
        """Return the register of a value per matrix; values that only other metrics need come after the results."""
        return self.order.setdefault(form, len(self.order))

    def build(self) -> IndexedPlan:
        """Return the plan: per-class values with their reductions first, then matrix totals, then combinations."""
        parts = {form: [self.register(FORMS[name]) for name in form.metric.of] for form in self.scalars}
        per_value: dict[tuple[Value, float], list[Row]] = {}
        totals: list[Row] = []
        combined: list[Row] = []
        weights: list[float] = []
        for form in [*self.tables, *self.order]:
            metric, given = form.metric, get_undefined_value(form.metric, self.undefined)
            target = self.tables.index(form) if form.per_class else self.order[form]
            if metric.of:
                step = Step.HARMONIC if len(metric.of) == 2 else Step.RESCALE
                a, b = (*parts[form], 0)[:2]
                combined.append(((step, 0, target, a, b), (given, 0.0)))
            elif (code := self._select_total(form)) is not None:
                totals.append(((Step.TOTAL, int(code), target, 0, 0), (given, 0.0)))
            elif metric.value is not None:
                rows = per_value.setdefault((metric.value, form.beta), [])
                first = len(weights) if form.weights else self.positive
                rows.append(((*self._select_reduction(form), target, first, 0), (given, 1.0 if form.weights else 0.0)))
                weights += form.weights
        steps: list[Row] = []
        for (value, beta), rows in per_value.items():
            given = math.nan if self.undefined in ("nan", "strict") else self._get_value_fill(value)
            steps += [((Step.VALUE, value, 0, 0, 0), (given, beta)), *rows]
        steps += [*totals, *combined]
        plan = _pack_plan(
            [row for row, _ in steps],
            [params for _, params in steps],
            np.array(weights, np.float64),
            self.members,
            self.undefined,
            scalars=len(self.scalars),
            tables=len(self.tables),
            registers=len(self.order),
        )
        return IndexedPlan(plan, self.positions)

    def _get_value_fill(self, value: Value) -> float:
        """Return the number that replaces a per-class value that is 0/0."""
        return 0.0 if value in CHANCE else get_fill_value(self.undefined)

    def _select_total(self, form: Form) -> Total | None:
        """Return the matrix-level value that `form` is, or None; a micro average over some classes has none."""
        if form.average != "micro":
            return form.metric.total
        micro = form.metric.micro
        return micro if isinstance(micro, Total) and not len(self.members) else None

    @staticmethod
    def _select_reduction(form: Form) -> tuple[int, int]:
        """Return the step code and the reduction code of a metric made from per-class values."""
        if form.per_class:
            return Step.EACH, 0
        if form.average == "micro":
            return Step.REDUCE, Over.MICRO
        if form.binary:
            return Step.REDUCE, Over.PICK
        over = form.metric.over if form.average is None else AVERAGES[form.average]
        return Step.REDUCE, int(over or 0)


def _sort_steps(steps: list[Codes]) -> np.ndarray:
    """Return the steps as an int array: steps that compute per-class values first, then the others by kind."""
    values: list[tuple[int, ...]] = []
    others: list[tuple[int, ...]] = []
    for row, (step, code, target, a, b) in enumerate(steps):
        if step == Step.VALUE:
            values.append((step, code, target, 0, b, len(values), row))
            continue
        if (step, code) == (Step.REDUCE, Over.WEIGHTED):
            values[-1] = (*values[-1][:3], 1, *values[-1][4:])
        others.append((step, code, target, a, b, len(values) - 1, row))
    return np.array(values + sorted(others, key=lambda other: other[:2]), np.int64).reshape(-1, 7)


def _pack_plan(
    steps: list[Codes],
    params: list[tuple[float, float]],
    weights: np.ndarray,
    members: np.ndarray,
    undefined: Undefined,
    *,
    scalars: int,
    tables: int,
    registers: int,
) -> Plan:
    """Return the steps as a `Plan` of arrays, with flags for the sums that the steps need."""
    codes = np.array(steps, np.int64).reshape(-1, 5)
    totals = {code for step, code, *_ in steps if step == Step.TOTAL}
    values = {code for step, code, *_ in steps if step == Step.VALUE}
    overs = {code for step, code, *_ in steps if step == Step.REDUCE}
    return Plan(
        steps=codes,
        params=np.array(params, np.float64).reshape(-1, 2),
        rows=_sort_steps(steps),
        values=sum(step == Step.VALUE for step, *_ in steps),
        weights=weights,
        members=members,
        mode=int(_MODES[undefined] if isinstance(undefined, str) else Mode.PRESENT),
        scalars=scalars,
        tables=tables,
        registers=registers,
        rates=not RATES.isdisjoint(values),
        products=not (PRODUCTS.isdisjoint(totals) and CHANCE.isdisjoint(values)),
        ordered=not ORDERED.isdisjoint(totals),
        again=not AGAIN.isdisjoint(overs),
        pooled=Over.MICRO in overs,
        traced=all(step == Step.TOTAL and code in TRACED for step, code, *_ in steps),
    )
