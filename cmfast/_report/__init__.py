"""One page on the models of a user: matrices, metrics, intervals, differences, groups, geometry, prediction sets."""

from typing import Any

import numpy as np

from cmfast._core import validate
from cmfast._core.annotations import Array
from cmfast._core.markup import remove_isolates
from cmfast._report import _asked, _data, _extra_sections, _facts, _many, _more, _page, _samples
from cmfast._report._html_report import HtmlReport

__all__ = ["HtmlReport", "report"]


def report(
    y_true: Array,
    y_pred: Any,
    *,
    groups: Any = None,
    labels: Array | None = None,
    embeddings: Array | None = None,
    scores: Array | None = None,
    title: str | None = None,
    smoothing: float | None = None,
    level: float = 0.95,
    n_replicates: int = 10_000,
    rng: int = 0,
    num_threads: int | None = None,
) -> HtmlReport:
    """Make a page on one classifier, or on two: one file to look at, to mail and to keep.

    The matrix as counts, as shares of rows or columns, and bi-normalised, to sort, filter and zoom into; what
    bi-normalisation changes; metrics and confusions with their intervals; of two models the differences on the same
    samples; groups side by side; with embeddings the geometric confusion matrix, with scores prediction sets.

    Parameters
    ----------
    y_true : array, shape (n,)
        Labels of any kind, as for :class:`ConfusionCounts`: also columns of pandas, polars or Arrow.
    y_pred : array, shape (n,), or dict of str to array
        Predictions; of one model, or of two, by their names.
    groups : column, or dict of str to column, optional
        The group of each sample, by labels of any kind.
    labels : array, shape (C,), optional
        The classes, in order; samples of others are left out. Default: those that occur.
    embeddings : array, shape (n, m), optional
        Where the samples lie in a space of features; of the first model.
    scores : array, shape (n, C), optional
        Probability of each class, in the order of the classes; of the first model. One half of the samples, chosen by
        `rng`, calibrates prediction sets of the other half, which miss the label of one sample in ten.
    title : str, optional
        Title of the page.
    smoothing : positive float, optional
        Added to every cell before it is bi-normalised. Default: nothing, or 1/C where zeros leave no bi-normalised
        matrix; the page says so.
    level : float
        Of the intervals.
    n_replicates : int
        Matrices to draw for intervals, of at most 50 classes; of more, nothing is drawn.
    rng : int
        Seed of all draws.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    HtmlReport
        ``save(path)``; ``html``; ``to_dict()``, all its numbers; in a notebook it shows itself.

    Raises
    ------
    TypeError, ValueError
        As :meth:`ConfusionCounts.update` and :func:`cmfast.uncertainty.paired_counts`; more than two models;
        embeddings or scores of another shape.

    Notes
    -----
    Every label is escaped. The page holds counts, not samples: nobody's row can be read from it but as a count. Bad
    values: missing labels are refused; points that are not finite are left out, and the page says so, as it says all
    that other functions warn of. Synchronises the device. Reproducible: same input, same page.

    Examples
    --------
    >>> import cmfast
    >>> page = cmfast.report(["cat", "dog", "dog", "cat"], ["cat", "cat", "dog", "cat"], n_replicates=100)
    >>> page.to_dict()["models"][0]["metrics"]["accuracy"]["estimate"]
    0.75
    >>> page.save("report.html")  # doctest: +SKIP
    """
    if title is not None and not isinstance(title, str):
        validate.refuse("title", "a str", type(title).__name__, TypeError)
    if smoothing is not None and not 0.0 < validate.number("smoothing", smoothing) < float("inf"):
        validate.refuse("smoothing", "None or a number above 0", validate.format_value(smoothing))
    if not 0.0 < validate.number("level", level) < 1.0:
        validate.refuse("level", "between 0 and 1", level)
    validate.generator(rng)
    if isinstance(rng, np.random.Generator):
        validate.refuse("rng", "a seed", "a Generator, which is another one each time", TypeError)
    replicates = validate.count("n_replicates", n_replicates, least=2)
    asked = _asked.Asked(level, smoothing, replicates, int(rng), validate.num_threads(num_threads))
    predictions = _samples.models(y_pred)
    listed = groups is None and embeddings is None and scores is None  # each of which needs dense matrices
    counted = _samples.counted(y_true, predictions, labels, groups, listed=listed)
    return _written(y_true, predictions, counted, embeddings, scores, title, asked)


def _written(
    y_true: Array,
    predictions: dict[str, Any],
    counted: _samples.Counted,
    embeddings: Any,
    scores: Any,
    title: str | None,
    asked: _asked.Asked,
) -> HtmlReport:
    """Compute what is said, and say it."""
    names = [_facts.named(label) for label in counted.labels]
    shown = None
    if counted.cells:
        shown = _many.choose_classes(next(iter(counted.cells.values())))
        models = [_many.model(_facts.named(name), cells, names, shown, asked) for name, cells in counted.cells.items()]
    else:
        models = [_facts.model(_facts.named(name), M, names, asked) for name, M in counted.matrices.items()]
    facts: dict[str, Any] = {"title": title or "Confusion report", "labels": names, "level": asked.level}
    facts["samples"] = int(models[0].facts["classes"]["support"].sum())
    facts["shown"] = len(names) if shown is None else len(shown)
    facts["models"] = [one.facts for one in models]
    facts["comparison"] = _more.two_models(counted, asked)
    facts["groups"] = _more.groups(counted, asked)
    y = guess = np.empty(0)
    if embeddings is not None or scores is not None:
        y = _samples.ids("y_true", y_true, counted.labels)
        guess = _samples.ids("y_pred", next(iter(predictions.values())), counted.labels)
    geometric = None
    if embeddings is not None:
        facts["geometry"], geometric = _more.geometry(embeddings, y, guess, models[0].scaled, asked)
        facts["geometry"]["drawn"] = len(names) <= _data.MOST_TREE_CLASSES
    if scores is not None:
        facts["sets"] = _more.sets(scores, y, guess, names, asked)
    sections = [*facts["models"], *(facts[name] for name in _extra_sections.NAMES if facts.get(name))]
    facts["notes"] = list(dict.fromkeys(note for section in sections for note in section["notes"]))
    matrices = [one.M for one in models]
    page = _page.whole(facts, matrices, _data.of_models(models, names, geometric, shown))
    for section in (*sections, facts):
        section["notes"] = [remove_isolates(note) for note in section["notes"]]
    return HtmlReport(page, facts)
