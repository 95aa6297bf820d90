"""Count the samples of a report: matrices of one or two models, and of groups."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cmfast import confusion_counts, uncertainty
from cmfast._core import validate
from cmfast._core.adapters import adapter
from cmfast._core.labels import list_ignored
from cmfast._report import _sparse_counts
from cmfast._report._sparse_counts import SparseCounts
from cmfast.confusion_counts import _label_codes

MOST_MODELS = 2
MOST_DENSE = 2000  # most classes of dense matrices, which take 32 MB each at 2,000 classes


class CountedSamples(NamedTuple):
    """Counts that all sections are computed from."""

    labels: tuple[Any, ...]
    matrices: dict[str, np.ndarray]
    """Dense matrix per model; empty with more than MOST_DENSE classes."""
    cells: dict[str, SparseCounts]
    """Sparse counts per model, with more than MOST_DENSE classes."""
    paired: uncertainty.PairedCounts | None
    by_group: dict[str, tuple[tuple[Any, ...], np.ndarray]]
    """Group labels and one matrix per group, by model."""
    group_names: tuple[str, ...]


def name_models(y_pred: Any) -> dict[str, Any]:
    """Return the predictions by model name; refuse more models than a report compares, and duplicate names."""
    if not isinstance(y_pred, Mapping) or not y_pred:
        if isinstance(y_pred, list | tuple) and len(y_pred) > 0 and len(getattr(y_pred[0], "shape", ())) == 1:
            given = f'a {type(y_pred).__name__} of {len(y_pred)}; give a dict with their names: {{"a": a, "b": b}}'
            validate.refuse("y_pred", f"an array, or those of one model or of {MOST_MODELS} by their names", given)
        return {"model": y_pred}
    if len(y_pred) > MOST_MODELS:
        wanted = f"an array, or those of one model or of {MOST_MODELS} by their names"
        validate.refuse("y_pred", wanted, f"a dict of {len(y_pred)}")
    names = [str(name) for name in y_pred]
    if len(set(names)) < len(names):
        validate.refuse("y_pred", "models of different names", validate.format_value(names))
    return dict(zip(names, y_pred.values(), strict=True))


def count_samples(
    y_true: Any, predictions: dict[str, Any], labels: Any, groups: Any, ignored: Any = None, *, listed: bool
) -> CountedSamples:
    """Count matrices, pairs of predictions and groups.

    With `listed`, more than MOST_DENSE classes are counted as sparse cells only.
    """
    names = list(predictions)
    if listed and _count_classes(y_true, predictions, labels) > MOST_DENSE:
        return _count_cells(y_true, predictions, labels, ignored)
    paired = None
    if len(names) == MOST_MODELS:
        paired = uncertainty.paired_counts(y_true, *predictions.values(), labels=labels, ignore_index=ignored)
        known = paired.labels
        matrices = dict(zip(names, (paired.first, paired.second), strict=True))
    else:
        counts = confusion_counts.ConfusionCounts.from_labels(
            y_true, predictions[names[0]], labels=labels, ignore_index=ignored
        )
        known, matrices = counts.labels, {names[0]: counts.matrix}
    if not known:
        validate.refuse("y_true", "samples, at least one", "none")
    host = {name: adapter(M).to_host(M) for name, M in matrices.items()}
    by_group: dict[str, tuple[tuple[Any, ...], np.ndarray]] = {}
    columns: tuple[str, ...] = ()
    if groups is not None:
        for name, y in predictions.items():
            options: dict[str, Any] = {"labels": list(known), "groups": groups, "ignore_index": ignored}
            found = confusion_counts.ConfusionCounts.from_labels(y_true, y, **options)
            by_group[name] = (found.groups or (), adapter(found.matrix).to_host(found.matrix))
            columns = found.group_names
    return CountedSamples(known, host, {}, paired, by_group, columns)


def _count_classes(y_true: Any, predictions: dict[str, Any], labels: Any) -> int:
    """Return the number of classes, before counting."""
    if labels is not None:
        return len(labels)
    found: set[Any] = set()
    for name, column in (("y_true", y_true), *(("y_pred", column) for column in predictions.values())):
        found.update(_label_codes.encode_labels(name, column, dates=True, floats=True).values)
    return len(found)


def _count_cells(y_true: Any, predictions: dict[str, Any], labels: Any, ignored: Any) -> CountedSamples:
    """Count nonempty cells; one model is counted as a pair of equal models."""
    guesses = list(predictions.values())
    found = uncertainty.paired_counts(y_true, guesses[0], guesses[-1], labels=labels, ignore_index=ignored)
    C = len(found.labels)
    if not C:
        validate.refuse("y_true", "samples, at least one", "none")
    keys, counts = (adapter(part).to_host(part) for part in (found.keys, found.counts))
    truth, first, second = keys // C**2, keys // C % C, keys % C
    cells = {
        name: _sparse_counts.sum_keys(truth * C + guess, counts, C)
        for name, guess in zip(predictions, (first, second), strict=False)
    }
    return CountedSamples(found.labels, {}, cells, found if len(guesses) == MOST_MODELS else None, {}, ())


def find_class_ids(name: str, column: Any, labels: tuple[Any, ...], ignored: Any = None) -> np.ndarray:
    """Return the class index of every sample, -1 for labels that are not classes or are `ignored`."""
    found = _label_codes.encode_labels(name, column, dates=True, floats=True)
    left_out = list_ignored(ignored)
    places = {label: k for k, label in enumerate(labels) if label not in left_out}
    known = np.array([places.get(value, -1) for value in found.values], np.int64)
    out: np.ndarray = known[
        adapter(found.codes).to_host(found.codes).ravel().astype(np.int64)
    ]  # int64, so that bool codes do not act as a mask
    return out
