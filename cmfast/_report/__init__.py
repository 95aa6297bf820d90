"""HTML report on one or two classifiers: matrices, metrics, intervals, differences, groups, geometry, sets."""

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from cmfast._core import failures, table_columns, validate
from cmfast._core.annotations import Array, Ignored
from cmfast._core.markup import remove_isolates
from cmfast._report import (
    _counting,
    _extra_sections,
    _many_classes,
    _model_facts,
    _options,
    _page,
    _script_data,
    _section_facts,
)
from cmfast._report._html_report import HtmlReport

__all__ = ["HtmlReport", "report"]


@overload
def report(
    y_true: Array,
    y_pred: Any,
    *,
    groups: Any = ...,
    labels: Array | None = ...,
    ignore_index: Ignored = ...,
    embeddings: Array | None = ...,
    scores: Array | None = ...,
    title: str | None = ...,
    smoothing: float | None = ...,
    confidence_level: float = ...,
    n_resamples: int = ...,
    rng: int = ...,
    num_threads: int | None = ...,
) -> HtmlReport: ...
@overload
def report(
    table: Any, /, *, y_true: str, y_pred: str | Sequence[str] | Mapping[str, str], **options: Any
) -> HtmlReport: ...
@table_columns.accept_table(
    ("y_true", "y_pred"), ("groups",), several=("y_pred", "groups"), lazily="its compute() makes one"
)
def report(
    y_true: Array,
    y_pred: Any,
    *,
    groups: Any = None,
    labels: Array | None = None,
    ignore_index: Ignored = None,
    embeddings: Array | None = None,
    scores: Array | None = None,
    title: str | None = None,
    smoothing: float | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 10_000,
    rng: int = 0,
    num_threads: int | None = None,
) -> HtmlReport:
    """Create an HTML report on one classifier, or on two: a single self-contained file.

    Shows the matrix as counts, as shares of rows or columns, and bi-normalised, with sorting, filters and zoom; the
    effect of bi-normalisation; metrics and confusions with intervals; differences of two models on the same samples;
    groups side by side; the geometric confusion matrix of embeddings; prediction sets from scores.

    Parameters
    ----------
    y_true : array, shape (n,)
        Labels of any kind, as for :class:`ConfusionCounts`: also columns of pandas, polars or Arrow. Or, in the place
        of arrays, a table, as for :func:`by`, and names of its columns: ``report(table, y_true="label",
        y_pred="guess")``; `y_pred` may be a list of one or two names, and `groups` names of columns.
    y_pred : array, shape (n,), or dict of str to array
        Predictions of one model, or a dict of the predictions of one or two models by name.
    groups : column, or dict of str to column, optional
        The group label of each sample.
    labels : array, shape (C,), optional
        The classes, in order; samples of other classes are left out. Default: the labels that occur.
    ignore_index : int or str, or list of these, optional
        Samples with this true label are ignored.
    embeddings : array, shape (n, m), optional
        Feature vectors of the samples, for the first model.
    scores : array, shape (n, C), optional
        Probability of each class, in the order of the classes, for the first model. A random half of the samples
        calibrates prediction sets of the other half at a nominal error rate of 10 %.
    title : str, optional
        Title of the page.
    smoothing : positive float, optional
        Added to every cell before bi-normalisation. Default: nothing, or 1/C if the zeros allow no bi-normalised
        matrix; the page says so.
    confidence_level : float
        Level of the intervals.
    n_resamples : int
        Bootstrap replicates for intervals, with at most 50 classes; with more, the delta method is used.
    rng : int
        Seed of all random numbers.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    HtmlReport
        ``save(path)``; ``html``; ``to_dict()`` with all values; displays itself in a notebook.

    Raises
    ------
    TypeError, ValueError
        As :meth:`ConfusionCounts.update` and :func:`cmfast.uncertainty.paired_counts`; more than two models;
        embeddings or scores of another shape.

    Notes
    -----
    Every label is escaped. The page contains counts, not samples. Bad values: missing labels are refused; points that
    are not finite are left out; the page shows all warnings. Synchronises the device. Reproducible: same input, same
    page.

    Examples
    --------
    >>> import cmfast
    >>> page = cmfast.report(
    ...     ["cat", "dog", "dog", "cat"],
    ...     ["cat", "cat", "dog", "cat"],
    ...     n_resamples=100,
    ... )
    >>> page.to_dict()["models"][0]["metrics"]["accuracy"]["estimate"]
    0.75
    >>> page.save("report.html")  # doctest: +SKIP
    """
    if title is not None and not isinstance(title, str):
        validate.refuse("title", "a str", type(title).__name__, TypeError)
    if smoothing is not None and not 0.0 < validate.number("smoothing", smoothing) < float("inf"):
        validate.refuse("smoothing", "None or a number above 0", validate.format_value(smoothing))
    with failures.issue_once():  # several sections validate the same options
        validate.confidence_level(confidence_level)
        validate.generator(rng)
        if isinstance(rng, np.random.Generator):
            validate.refuse("rng", "a seed", "a Generator, whose state changes with each use", TypeError)
        replicates = validate.count("n_resamples", n_resamples, least=2)
        request = _options.ReportOptions(
            confidence_level, smoothing, replicates, int(rng), validate.num_threads(num_threads)
        )
        predictions = _counting.name_models(y_pred)
        listed = (
            groups is None and embeddings is None and scores is None
        )  # groups, embeddings and scores need dense matrices
        counted = _counting.count_samples(y_true, predictions, labels, groups, ignore_index, listed=listed)
        return _compose_report(y_true, predictions, counted, embeddings, scores, title, request, ignore_index)


def _compose_report(
    y_true: Array,
    predictions: dict[str, Any],
    counted: _counting.CountedSamples,
    embeddings: Any,
    scores: Any,
    title: str | None,
    request: _options.ReportOptions,
    ignored: Ignored,
) -> HtmlReport:
    """Compute all facts of the report and compose its page."""
    names = [_model_facts.name_label(label) for label in counted.labels]
    shown = None
    if counted.cells:
        shown = _many_classes.choose_classes(next(iter(counted.cells.values())))
        models = [
            _many_classes.describe_sparse_model(_model_facts.name_label(name), cells, names, shown, request)
            for name, cells in counted.cells.items()
        ]
    else:
        models = [
            _model_facts.describe_model(_model_facts.name_label(name), M, names, request)
            for name, M in counted.matrices.items()
        ]
    facts: dict[str, Any] = {
        "title": title or "Confusion report",
        "labels": names,
        "confidence_level": request.confidence_level,
    }
    facts["samples"] = int(models[0].facts["classes"]["support"].sum())
    facts["shown"] = len(names) if shown is None else len(shown)
    facts["models"] = [one.facts for one in models]
    facts["comparison"] = _section_facts.compare_models(counted, request)
    facts["groups"] = _section_facts.describe_groups(counted, request)
    y = guess = np.empty(0)
    if embeddings is not None or scores is not None:
        y = _counting.find_class_ids("y_true", y_true, counted.labels, ignored)
        guess = _counting.find_class_ids("y_pred", next(iter(predictions.values())), counted.labels)
    geometric = None
    if embeddings is not None:
        facts["geometry"], geometric = _section_facts.describe_geometry(embeddings, y, guess, models[0].scaled, request)
        facts["geometry"]["drawn"] = len(names) <= _script_data.MOST_TREE_CLASSES
    if scores is not None:
        facts["sets"] = _section_facts.describe_sets(scores, y, guess, names, request)
    sections = [*facts["models"], *(facts[name] for name in _extra_sections.NAMES if facts.get(name))]
    facts["notes"] = list(dict.fromkeys(note for section in sections for note in section["notes"]))
    matrices = [one.M for one in models]
    page = _page.compose_page(facts, matrices, _script_data.pack_models(models, names, geometric, shown))
    for section in (*sections, facts):
        section["notes"] = [remove_isolates(note) for note in section["notes"]]
    return HtmlReport(page, facts)
