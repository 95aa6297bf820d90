"""Classification report of one confusion matrix: text, HTML, pandas."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from cmfast._core import axis_names, confused_pairs, dispatch, plot_style, plotting, result_repr, sparse, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Label, Undefined
from cmfast._core.libraries import load_pandas
from cmfast._core.markup import escape_name, escape_prose
from cmfast.metrics._compute import compute
from cmfast.metrics._margins import margins
from cmfast.metrics._names import Names
from cmfast.metrics._single import explain_label_calls

PER_CLASS = ("precision", "recall", "f1", "jaccard")
WHOLE = ("accuracy", "balanced_accuracy", "min_recall", "mcc", "kappa", "geometric_mean", "f1_of_macro")

AVERAGES = ("macro", "weighted")


@result_repr.add_repr
class ClassificationReport(NamedTuple):
    """Classification report of one matrix: per-class and overall metrics, as text, HTML or a data frame.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns of `rows`.
    rows : dict of str to tuple of float
        A row per class, then one per average.
    overall : dict of str to float
        Metrics of the whole matrix.
    undefined : str or float
        Policy that gave the value of a 0/0.
    """

    columns: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]
    overall: dict[str, float]
    undefined: Undefined

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        shown = {name: _format_value(self.overall[name]) for name in ("accuracy", "mcc")}
        return {"classes": str(len(self.rows) - len(AVERAGES)), "0/0": str(self.undefined), **shown}

    def explain(self) -> str:
        """Return a text with the accuracy, and the class of least recall if it differs beyond chance."""
        recall = {name: row[self.columns.index("recall")] for name, row in list(self.rows.items())[: -len(AVERAGES)]}
        support = np.array([row[-1] for row in list(self.rows.values())[: len(recall)]], np.float64)
        if not support.any():
            return "the matrix is empty"
        said = f"{_format_value(self.overall['accuracy'])} of all samples are predicted correctly"
        right = np.nan_to_num(np.array(list(recall.values()), np.float64)) * support
        if not all(
            (abs(x - np.round(x)) < 1e-6).all() for x in (support, right)
        ):  # weighted counts: no test of recalls
            return said
        k = confused_pairs.find_least_recall(np.round(right), np.round(support))
        if k is None:
            return said
        worst = list(recall)[k]
        return f"{said}; the lowest recall is that of {worst}, {_format_value(recall[worst])}"

    def __str__(self) -> str:
        head = format_policy(self.undefined)
        width = max(len(head), *(len(name) for name in (*self.rows, *self.overall)))
        lines = [f"{head:<{width}}" + "".join(f"{column:>11}" for column in self.columns)]
        lines += [f"{name:<{width}}" + "".join(f"{cell:>11}" for cell in self._cells(name)) for name in self.rows]
        lines += ["", *(f"{name:<{width}}{_format_value(value):>11}" for name, value in self.overall.items())]
        return "\n".join(lines)

    def _cells(self, name: str) -> list[str]:
        """Return the formatted cells of the row of class or average `name`."""
        *shares, support = self.rows[name]
        return [*map(_format_value, shares), f"{support:g}"]

    def to_html(self) -> str:
        """Return two HTML tables, without style: rows per class and average, and overall metrics."""
        head = "".join(f"<th>{escape_prose(column)}</th>" for column in (format_policy(self.undefined), *self.columns))
        body = "".join(
            f"<tr><th>{escape_name(name)}</th>" + "".join(f"<td>{cell}</td>" for cell in self._cells(name)) + "</tr>"
            for name in self.rows
        )
        whole = "".join(
            f"<tr><th>{name}</th><td>{_format_value(value)}</td></tr>" for name, value in self.overall.items()
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><table><tbody>{whole}</tbody></table>"
        )

    def _repr_html_(self) -> str:
        """Return the report as HTML, which notebooks show."""
        return self.to_html()

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame; its ``attrs`` hold the overall metrics and the 0/0 policy."""
        pd = load_pandas()
        frame = pd.DataFrame.from_dict(self.rows, orient="index", columns=list(self.columns))
        frame.attrs.update(self.overall, undefined=self.undefined)
        return frame

    def plot(self, *, ax: Any = None) -> Any:
        """Draw precision, recall, F1 and Jaccard, a row per class and average.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        ax = plotting.make_forest_axes(ax, len(self.rows))
        rows = np.arange(len(self.rows))[::-1]
        colours = plot_style.list_line_colours(plotting.match_palette(ax).ground)
        for k, name in enumerate(self.columns[:-1]):
            values = [row[k] for row in self.rows.values()]
            look = {"marker": plot_style.MARKERS[k], "color": colours[k], "linestyle": "", "clip_on": False}
            ax.plot(values, rows, label=name, **look)
        ax.axhline(len(AVERAGES) - 0.5, color="0.6", linewidth=1)
        ax.set_yticks(rows, list(self.rows))
        ax.set(xlim=(0, 1), ylim=(-0.6, len(rows) - 0.4))
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=4, fontsize="small", frameon=False)
        return ax


def format_policy(undefined: Undefined) -> str:
    """Return the 0/0 policy as a table heading."""
    return f"0/0: {undefined}"


def _format_value(value: float) -> str:
    """Return the value with four decimals, or "undefined" for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def _check_names(display_labels: Any, C: int) -> None:
    """Check that `display_labels` is a sequence of names, and not one string."""
    names = isinstance(display_labels, Sequence) or (
        hasattr(display_labels, "__array__") and np.ndim(display_labels) == 1
    )
    if isinstance(display_labels, str | bytes) or not names or any(name is None for name in display_labels):
        given = f"{type(display_labels).__name__} {validate.format_value(display_labels)}"
        validate.refuse("display_labels", f"a sequence of {C} names", given, TypeError)


def _quote_average_name(name: str, names: list[str]) -> str:
    """Return `name`, quoted until it is unique if it equals the name of an average."""
    if name in AVERAGES:
        name = f"'{name}'"
        while name in names:
            name = f"'{name}'"
    return name


def _find_class_ids(labels: Any, names: list[str]) -> list[int] | None:
    """Return the class indices of the labels in the option `average_over`, or None."""
    if labels is None:
        return None
    if not isinstance(labels, list | tuple | range | np.ndarray) or not len(labels):
        validate.refuse("average_over", "a list of classes, at least one", validate.format_value(labels), TypeError)
    requested = list(map(str, labels))
    unknown = [label for label in requested if label not in names]
    if unknown:
        validate.refuse(
            "average_over", f"of the classes {validate.format_value(names)}", validate.format_value(unknown[0])
        )
    if len(set(requested)) < len(requested):
        validate.refuse("average_over", "unique", validate.format_value(requested))
    return [names.index(label) for label in requested]


@explain_label_calls
def classification_report(
    M: Array,
    /,
    *,
    display_labels: Sequence[str] | None = None,
    average_over: Sequence[Label] | None = None,
    undefined: Undefined = "present",
) -> ClassificationReport:
    """Report one confusion matrix: precision, recall, F1, Jaccard and support per class, averages, overall metrics.

    Parameters
    ----------
    M : array, shape (C, C), or ConfusionCounts
        Rows are the truth. Counts or any normalisation of them; also one of scipy.sparse.
    display_labels : sequence of str, optional
        Default: the labels of ConfusionCounts, else the class indices. A class named "macro" or "weighted", like an
        average, is shown in quotes.
    average_over : sequence of labels, optional
        Classes that get a row, in this order, and enter the averages, given by their `display_labels`; all others
        remain negatives. Metrics of the whole matrix do not change. Default: all.
    undefined : {"nan", "present", "strict", "zero", "one"}
        Value of a 0/0, as for :func:`compute`; the first line of the report states it. "nan" and "strict" show it as
        "undefined".

    Returns
    -------
    ClassificationReport
        ``print(report)``, ``report.to_html()``, ``report.to_pandas()``.

    Raises
    ------
    TypeError, ValueError
        `M` is not one real square matrix, has bad values, or another number of classes than names; labels
        that are no classes.

    Notes
    -----
    Bad values: they raise. Synchronises the device. Reproducible: same input, same text.

    Examples
    --------
    >>> from cmfast import metrics
    >>> print(
    ...     metrics.classification_report(
    ...         [[9500, 0], [500, 0]],
    ...         display_labels=["intact", "crack"],
    ...         undefined="nan",
    ...     )
    ... )
    0/0: nan           precision     recall         f1    jaccard    support
    intact                0.9500     1.0000     0.9744     0.9500       9500
    crack              undefined     0.0000     0.0000     0.0000        500
    macro                 0.9500     0.5000     0.4872     0.4750      10000
    weighted              0.9500     0.9500     0.9256     0.9025      10000
    <BLANKLINE>
    accuracy              0.9500
    balanced_accuracy     0.5000
    min_recall            0.0000
    mcc                   0.0000
    kappa                 0.0000
    geometric_mean        0.0000
    f1_of_macro           0.6552
    """
    known = axis_names.get_axes_of_counts(M).get("class")
    if known is not None and display_labels is None:
        display_labels = list(map(str, known))
    if not sparse.is_sparse(M):
        (M,) = dispatch.adopt(M=M)
    C, _ = validate.matrices(square=True, M=M)
    if len(dispatch.shape_of(M)) != 2:
        validate.refuse("M", "one matrix of shape (C, C)", f"shape {dispatch.shape_of(M)}")
    if display_labels is not None:
        _check_names(display_labels, C)
    names = [str(k) for k in range(C)] if display_labels is None else [str(name) for name in display_labels]
    if len(names) != C:
        validate.refuse("display_labels", f"{C} names", len(names))
    if len(set(names)) != C:
        validate.refuse("display_labels", "unique", names)
    places = _find_class_ids(average_over, names)
    names = [_quote_average_name(name, names) for name in names]
    averages = [f"{name}_{average}" for average in AVERAGES for name in PER_CLASS]
    wanted = cast(Names, [*PER_CLASS, *averages, *WHOLE])
    found = compute(M, wanted, undefined=undefined, average_over=places, on_failure="raise")
    host = {name: np.asarray(adapter(value).to_host(value), np.float64) for name, value in found.items()}
    sums = margins(M)
    support = np.asarray(adapter(sums.row_sums).to_host(sums.row_sums), np.float64)
    if places is not None:
        names, support = [names[k] for k in places], support[places]
    rows = {
        name: (*(float(host[metric][k]) for metric in PER_CLASS), float(support[k])) for k, name in enumerate(names)
    }
    for average in AVERAGES:
        rows[average] = (*(float(host[f"{metric}_{average}"]) for metric in PER_CLASS), float(support.sum()))
    return ClassificationReport((*PER_CLASS, "support"), rows, {name: float(host[name]) for name in WHOLE}, undefined)
