"""Plot of one confusion matrix, by class and group. ``from_*`` compute, ``plot`` draws."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, get_args

import numpy as np

from cmfast._core import axis_names, plotting, result_repr, table_columns, validate
from cmfast._core.annotations import Array, Ignored, Method, OnFailure
from cmfast.confusion_counts import ConfusionCounts
from cmfast.display import _class_order, _painting, _plot_data
from cmfast.display._class_order import Order
from cmfast.display._difference import DifferenceDisplay, make_difference_display
from cmfast.display._painting import Look, Text
from cmfast.uncertainty import PairedCounts


@result_repr.add_repr_of_display
class ConfusionDisplay:
    """Plot of a confusion matrix: a separate colour scale for the diagonal, blank zeros, values in cells that fit them.

    Make one by :meth:`from_matrix`, and draw it by :meth:`plot`. As in scikit-learn, :meth:`from_predictions` and
    :meth:`from_estimator` draw immediately.

    Attributes
    ----------
    counts : array, shape (C, C)
        The given matrix, in the order of the plot.
    shares : array of float, shape (C, C), or None
        The normalised matrix, which is plotted; None without normalisation.
    order : array of int, shape (C,)
        Class of each row and column.
    display_labels : list of str
        Names of the rows and columns.
    groups : list of str or None
        Group of each row and column.
    ax_, figure_, im_, diagonal_, text_ : matplotlib objects
        The drawn objects, after :meth:`plot`: the image of the confusions, that of the diagonal if it has a separate
        scale, and an array, shape (C, C), of the texts (None for cells without text), or None if no text fits.
    dot_ : int
        Number of rows pooled into one because cells would be too small; 1 in most plots.

    See Also
    --------
    cmfast.metrics.collapse : Confusion matrices of groups of classes.

    Examples
    --------
    >>> from cmfast.display import ConfusionDisplay
    >>> display = ConfusionDisplay.from_matrix(
    ...     [[8, 2, 0], [1, 5, 0], [0, 3, 6]], normalize="row", order="recall"
    ... )
    >>> display.display_labels, display.shares[0].round(2).tolist()
    (['2', '0', '1'], [0.67, 0.0, 0.33])
    """

    def __init__(self, drawn: _plot_data.PlotData, *, normalize: str | None = None) -> None:
        given: Any = drawn
        if not isinstance(given, _plot_data.PlotData):
            wanted = "plot data; use ConfusionDisplay.from_matrix(M)"
            validate.refuse("drawn", wanted, type(given).__name__, TypeError)
        self._drawn = drawn
        self._own_figure: Any = None  # drawn by a constructor; `plot` draws the same matrix in its place
        self._normalize = normalize
        self._unit = _plot_data.name_unit(normalize, drawn.counts)
        self.counts, self.shares, self.order = drawn.counts, drawn.shares, drawn.order
        self.display_labels, self.groups = drawn.names, drawn.groups

    def _describe(self) -> str:
        """Return what the repr shows."""
        return f"{len(self._drawn.names)} classes, {self._unit}"

    @classmethod
    def from_matrix(
        cls,
        M: Array,
        /,
        *,
        normalize: Method | None = None,
        display_labels: Sequence[Any] | None = None,
        order: Order | Sequence[int] = "given",
        groups: Sequence[Any] | None = None,
        on_failure: OnFailure = None,
    ) -> Self:
        """Create the display of one confusion matrix, without drawing it.

        Parameters
        ----------
        M : array, shape (C, C), or ConfusionCounts
            Rows are the truth. Counts, or other nonnegative values.
        normalize : {"all", "row", "true", "col", "pred", "bi"}, optional
            Plot ``cmfast.normalize(M, normalize)``.
        display_labels : sequence of C names, optional
            Default: the labels of ConfusionCounts, else the class indices.
        order : {"given", "support", "recall", "cluster"} or sequence of int
            Order of the classes: as given; most samples first; lowest recall first; hierarchical clustering, so that
            confused classes are neighbours; or the classes themselves, possibly only some.
        groups : sequence of C names, optional
            Group of every class: classes of a group are adjacent, ordered by `order` within it.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about a matrix that cannot be normalised; its cells are shown as undefined.
            Default: as :func:`cmfast.config` says, first "warn".

        Returns
        -------
        ConfusionDisplay
            The display, not drawn yet.

        Raises
        ------
        TypeError, ValueError
            `M` is not one real square matrix; another number of names than classes; an unknown option.

        Notes
        -----
        Bad values: NaN, infinite or negative cells are shown as undefined. Synchronises the device. Reproducible: ties
        between distances of classes are resolved by class order.

        References
        ----------
        Bar-Joseph, Gifford and Jaakkola, Fast optimal leaf ordering for hierarchical clustering, 2001.
        """
        method = _plot_data.validate_options(normalize, on_failure)
        (counts,) = _plot_data.adopt_matrices(M=M)
        if display_labels is None:
            display_labels = axis_names.get_axes_of_counts(M).get("class")
        return cls(
            _plot_data.make_plot_data(counts, method, order, display_labels, groups, on_failure), normalize=method
        )

    @classmethod
    @table_columns.accept_table(
        ("y_true", "y_pred"), ("sample_weight",), lazily="its compute() makes one", of_class=True
    )
    def from_predictions(
        cls,
        y_true: Array,
        y_pred: Array,
        *,
        labels: Array | None = None,
        other: bool = False,
        sample_weight: Array | None = None,
        ignore_index: Ignored = None,
        normalize: Method | None = None,
        display_labels: Sequence[Any] | None = None,
        order: Order | Sequence[int] = "given",
        groups: Sequence[Any] | None = None,
        on_failure: OnFailure = None,
        ax: Any = None,
    ) -> Self:
        """Draw the confusion matrix of labels and predictions.

        Parameters
        ----------
        y_true, y_pred : array, shape (n,)
            Labels of any kind that :meth:`cmfast.ConfusionCounts.update` takes; or, in their place, a table and names
            of its columns: ``from_predictions(table, y_true="label", y_pred="guess")``.
        labels : array, shape (C,), optional
            The classes in their order; default: those that occur, sorted.
        other : bool
            Add a last class, "other", for all labels that are not in `labels`.
        sample_weight : array, shape (n,), optional
            Weight of each sample.
        ignore_index : int or str, or list of these, optional
            Samples with this true label are ignored.
        normalize, order, groups, on_failure
            As for :meth:`from_matrix`.
        display_labels : sequence of C names, optional
            Default: the labels, and "other".
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        ConfusionDisplay
            The display, drawn with the default options of :meth:`plot`. A following call of :meth:`plot` replaces the
            new figure. The figure is not shown.

        Notes
        -----
        ``from_matrix(ConfusionCounts.from_labels(y_true, y_pred))`` makes the display without drawing it.
        """
        _plot_data.validate_options(normalize, on_failure)
        counted: dict[str, Any] = {
            "labels": labels,
            "other": other,
            "sample_weight": sample_weight,
            "ignore_index": ignore_index,
        }
        counts: Any = ConfusionCounts.from_labels(y_true, y_pred, **counted)
        names = counts.labels if display_labels is None else display_labels
        options: dict[str, Any] = {"normalize": normalize, "order": order, "groups": groups, "on_failure": on_failure}
        display = cls.from_matrix(counts.matrix, display_labels=names, **options)
        display.plot(ax=ax)
        display._own_figure = display.figure_ if ax is None else None
        return display

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Array,
        *,
        labels: Array | None = None,
        other: bool = False,
        sample_weight: Array | None = None,
        normalize: Method | None = None,
        display_labels: Sequence[Any] | None = None,
        order: Order | Sequence[int] = "given",
        groups: Sequence[Any] | None = None,
        on_failure: OnFailure = None,
        ax: Any = None,
    ) -> Self:
        """Draw the confusion matrix of the predictions of an estimator.

        Parameters
        ----------
        estimator : object
            Object whose ``predict(X)`` returns the predictions, as in scikit-learn.
        X : object
            Input of ``predict``.
        y : array, shape (n,)
            The labels.
        labels, other, sample_weight, normalize, display_labels, order, groups, on_failure, ax
            As for :meth:`from_predictions`.

        Returns
        -------
        ConfusionDisplay
            The display, drawn as by :meth:`from_predictions`.
        """
        if isinstance(estimator, type) or not callable(getattr(estimator, "predict", None)):
            validate.refuse("estimator", "an object with a method predict", type(estimator).__name__, TypeError)
        options: dict[str, Any] = {"labels": labels, "sample_weight": sample_weight, "normalize": normalize}
        options |= {
            "other": other,
            "display_labels": display_labels,
            "order": order,
            "groups": groups,
            "on_failure": on_failure,
            "ax": ax,
        }
        return cls.from_predictions(y, estimator.predict(X), **options)

    def plot(
        self,
        *,
        ax: Any = None,
        text: Text = "value",
        log: bool = False,
        vmin: float | None = None,
        vmax: float | None = None,
        own_diagonal: bool = True,
        colorbar: bool = True,
        values_format: str | None = None,
    ) -> Self:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure. Colours adapt to a dark or light background.
        text : {"value", "triple", "none"}
            Text of each cell: the plotted value (shares in percent); or the count, its share of the row and its share
            of the column, as many of them as fit; or nothing. Texts that do not fit are left out.
        log : bool
            Colour confusions by their logarithm.
        vmin, vmax : float, optional
            Ends of the colour scale of the confusions, for comparable plots; default: 0 (with `log` the smallest) and
            the largest. The scale of the diagonal runs from 0 to 1, or to the largest count.
        own_diagonal : bool
            Whether the diagonal has a separate scale. Otherwise `vmin` and `vmax` apply to it too.
        colorbar : bool
            Whether to draw the colour bars.
        values_format : str, optional
            Format of the values, as for ``format``: ".2f", or "d" or "," for integer counts.

        Returns
        -------
        ConfusionDisplay
            The display itself; `ax_`, `figure_`, `im_`, `diagonal_`, `text_` and `dot_` are set. The figure is not
            shown.
        """
        look = validate_look(text, log, vmin, vmax, own_diagonal, colorbar)
        look = replace(look, values_format=validate_values_format(values_format, 1 if self._drawn.whole else 0.5))
        bars = (1 + look.own_diagonal) * look.colorbar
        size = _painting.compute_figure_size(self._drawn, bars=bars, cell=0.85 if text == "triple" else 0.5)
        plotting.close_figure(self._own_figure)
        self._own_figure = None
        ax = plotting.get_axes(ax, size, "compressed")
        found = _painting.paint_matrix(ax, self._drawn, look, self._unit)
        self.ax_, self.figure_ = ax, ax.figure
        self.im_, self.diagonal_, self.text_, self.dot_ = found.image, found.diagonal, found.text, found.dot
        return self

    @classmethod
    def compare(
        cls,
        A: Array,
        B: Array,
        /,
        *,
        normalize: Method | None = "row",
        paired: PairedCounts | None = None,
        confidence_level: float = 0.95,
        display_labels: Sequence[Any] | None = None,
        order: Order | Sequence[int] = "given",
        on_failure: OnFailure = None,
    ) -> DifferenceDisplay:
        """Create a display of the difference of two confusion matrices: two models, or a model before and after.

        Parameters
        ----------
        A, B : array, shape (C, C)
            The difference is `A` minus `B`.
        normalize : {"all", "row", "true", "col", "pred", "bi"}, optional
            Normalisation of both before subtraction; None: the difference of the counts.
        paired : PairedCounts, optional
            Predictions of both models on the same samples, from :func:`cmfast.uncertainty.paired_counts`: significantly
            different cells are marked.
        confidence_level : float
            Confidence level that no cell is marked by chance, in (0, 1).
        display_labels, on_failure
            As for :meth:`from_matrix`.
        order : {"given", "support", "recall", "cluster"} or sequence of int
            Order of the classes, as for :meth:`from_matrix`, by the sum of both matrices.

        Returns
        -------
        DifferenceDisplay
            The display, not drawn yet.

        Raises
        ------
        TypeError, ValueError
            As :meth:`from_matrix`; matrices of different shape; `paired` that is not of `A` and `B`.

        Notes
        -----
        Each cell compares the samples that only the first and that only the second model puts there: McNemar's exact
        test, with Holm's correction for the number of cells with such samples. The test uses counts, for any
        normalisation.
        """
        method = _plot_data.validate_options(normalize, on_failure)
        return make_difference_display(A, B, method, paired, confidence_level, display_labels, order, on_failure)

    def blocks(self, most: int = 40) -> Self:
        """Return the same matrix with consecutive classes grouped, cut where the least confusion crosses.

        Parameters
        ----------
        most : int
            Largest number of classes of a group, if groups were not given.

        Returns
        -------
        ConfusionDisplay
            The display, not drawn yet.
        """
        most = validate.count("most", most, least=2)
        own = self._drawn
        if own.groups is not None:
            return type(self)(own, normalize=self._normalize)
        groups = list(own.names)
        for piece in _class_order.split_into_blocks(own.counts, most):
            first, last = own.names[piece[0]], own.names[piece[-1]]
            name = first if len(piece) == 1 else f"{first} \N{HORIZONTAL ELLIPSIS} {last}"
            groups[piece[0] : piece[-1] + 1] = [name] * len(piece)
        sums = (own.row_sums, own.col_sums)
        drawn = _plot_data.PlotData(own.counts, *sums, own.shares, own.order, own.names, groups)
        return type(self)(drawn, normalize=self._normalize)

    def collapsed(self, *, on_failure: OnFailure = None) -> Self:
        """Return the matrix of groups instead of classes, with the counts added up and normalised again.

        Parameters
        ----------
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about a matrix that cannot be normalised.
            Default: as :func:`cmfast.config` says, first "warn".

        Returns
        -------
        ConfusionDisplay
            The display, not drawn yet; without groups, those of :meth:`blocks` are used.
        """
        on_failure = validate.on_failure(on_failure)
        groups = self.blocks()._drawn.groups or []
        counts, names = _plot_data.collapse_counts(self.counts, groups, on_failure)
        options: dict[str, Any] = {"normalize": self._normalize, "on_failure": on_failure}
        return type(self).from_matrix(counts, display_labels=names, **options)

    def zoom(self) -> list[Self]:
        """Return one display per group, of its classes alone; shares remain those of the whole matrix.

        Returns
        -------
        list of ConfusionDisplay
            The display, not drawn yet; without groups, those of :meth:`blocks` are used.
        """
        groups = np.array(self.blocks()._drawn.groups, object)
        first = list(dict.fromkeys(groups.tolist()))
        parts = [self._drawn.part(np.flatnonzero(groups == name)) for name in first]
        return [type(self)(part, normalize=self._normalize) for part in parts]


def validate_look(text: Any, log: Any, vmin: Any, vmax: Any, own_diagonal: Any, colorbar: Any) -> Look:
    """Validate the options of a plot of a matrix; return them as a Look."""
    validate.choice("text", text, get_args(Text))
    for name, value in (("log", log), ("own_diagonal", own_diagonal), ("colorbar", colorbar)):
        validate.flag(name, value)
    low = None if vmin is None else (validate.positive if log else validate.nonnegative)("vmin", vmin)
    high = None if vmax is None else validate.positive("vmax", vmax)
    if low is not None and not low < (np.inf if high is None else high):
        validate.refuse("vmin", "finite" if high is None else f"below vmax, {high:g}", f"{low:g}")
    return Look(text, log, low, high, own_diagonal, colorbar)


def validate_values_format(values_format: Any, example: float) -> str | None:
    """Check that `values_format` is None or formats numbers like `example`; return it."""
    if values_format is None:
        return None
    if not isinstance(values_format, str):
        validate.refuse("values_format", "a str", type(values_format).__name__, TypeError)
    try:
        format(example, values_format)
    except ValueError:
        validate.refuse("values_format", "a number format such as '.2f'", repr(values_format))
    return values_format
