"""A picture of one confusion matrix. ``from_*`` compute, ``plot`` draws."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, get_args

import numpy as np

from cmfast._core import plotting, validate
from cmfast._core.annotations import Array, Method, OnFailure
from cmfast.confusion_counts import ConfusionCounts
from cmfast.display import _orders, _painting, _values
from cmfast.display._difference import DifferenceDisplay, difference
from cmfast.display._orders import Order
from cmfast.display._painting import Look, Text
from cmfast.uncertainty import PairedCounts


class ConfusionDisplay:
    """A confusion matrix as a picture: the diagonal on a scale of its own, zeros blank, texts where there is room.

    Make one by :meth:`from_matrix`, :meth:`from_predictions` or :meth:`from_estimator`.

    Attributes
    ----------
    counts : array, shape (C, C)
        The matrix as it was given, in the order of the picture.
    shares : array of float, shape (C, C), or None
        What is painted, if it was normalised.
    order : array of int, shape (C,)
        Which class each line is.
    class_names : list of str
        What the lines are called.
    groups : list of str or None
        The group of each line.
    ax_, figure_, im_, diagonal_, text_ : matplotlib objects
        What was drawn, after :meth:`plot`: the image of the confusions, that of the diagonal if it has a scale of its
        own, and an array, shape (C, C), of the texts, None where there is none; None where no text had room.
    dot_ : int
        How many lines became one, as they were too small to be seen; 1 in most pictures.

    See Also
    --------
    cmfast.metrics.collapse : Groups of classes in place of classes.

    Examples
    --------
    >>> from cmfast.display import ConfusionDisplay
    >>> display = ConfusionDisplay.from_matrix([[8, 2, 0], [1, 5, 0], [0, 3, 6]], normalize="row", order="recall")
    >>> display.class_names, display.shares[0].round(2).tolist()
    (['2', '0', '1'], [0.67, 0.0, 0.33])
    """

    def __init__(self, drawn: _values.Drawn, *, normalize: str | None = None) -> None:
        given: Any = drawn
        if not isinstance(given, _values.Drawn):
            wanted = "what from_matrix makes of a matrix: ConfusionDisplay.from_matrix(M)"
            validate.refuse("drawn", wanted, type(given).__name__, TypeError)
        self._drawn = drawn
        self._normalize = normalize
        self.counts, self.shares, self.order = drawn.counts, drawn.shares, drawn.order
        self.class_names, self.groups = drawn.names, drawn.groups

    @classmethod
    def from_matrix(
        cls,
        M: Array,
        /,
        *,
        normalize: Method | None = None,
        class_names: Sequence[Any] | None = None,
        order: Order | Sequence[int] = "given",
        groups: Sequence[Any] | None = None,
        on_failure: OnFailure = "warn",
    ) -> Self:
        """Take a confusion matrix.

        Parameters
        ----------
        M : array, shape (C, C)
            Rows are the truth. Counts, or anything that is not negative.
        normalize : {"all", "row", "true", "col", "pred", "bi"}, optional
            Paint ``cmfast.normalize(M, normalize)``.
        class_names : sequence of C names, optional
            Default: the class numbers.
        order : {"given", "support", "recall", "cluster"} or sequence of int
            Of the classes: as they are; most samples first; least recall first; so that classes that are confused
            with each other are neighbours; or the classes themselves, which may be some of them.
        groups : sequence of C names, optional
            The group of every class: lines of a group stand together, `order` is within it.
        on_failure : {"warn", "raise", "ignore"}
            What to do about a matrix that cannot be normalised, whose cells are undefined.

        Returns
        -------
        ConfusionDisplay
            Not drawn yet.

        Raises
        ------
        TypeError, ValueError
            `M` is not one real square matrix; another number of names than classes; an unknown option.

        Notes
        -----
        Bad values: cells that are NaN, infinite or negative are undefined, and painted so. Synchronises the device.
        Reproducible: equal distances of classes are taken in their order.

        References
        ----------
        Bar-Joseph, Gifford and Jaakkola, Fast optimal leaf ordering for hierarchical clustering, 2001.
        """
        method = _values.options(normalize, on_failure)
        (counts,) = _values.adopted(M=M)
        return cls(_values.drawn(counts, method, order, class_names, groups, on_failure), normalize=method)

    @classmethod
    def from_predictions(
        cls,
        y_true: Array,
        y_pred: Array,
        *,
        labels: Array | None = None,
        sample_weight: Array | None = None,
        normalize: Method | None = None,
        class_names: Sequence[Any] | None = None,
        order: Order | Sequence[int] = "given",
        groups: Sequence[Any] | None = None,
        on_failure: OnFailure = "warn",
    ) -> Self:
        """Count labels and predictions.

        Parameters
        ----------
        y_true, y_pred : array, shape (n,)
            Labels of any kind that :meth:`cmfast.ConfusionCounts.update` takes.
        labels : array, shape (C,), optional
            The classes in their order; default: those that occur, sorted.
        sample_weight : array, shape (n,), optional
            What each sample adds to its cell.
        normalize, order, groups, on_failure
            As for :meth:`from_matrix`.
        class_names : sequence of C names, optional
            Default: the labels.

        Returns
        -------
        ConfusionDisplay
            Not drawn yet.
        """
        _values.options(normalize, on_failure)
        counts: Any = ConfusionCounts.from_labels(y_true, y_pred, labels=labels, sample_weight=sample_weight)
        names = counts.labels if class_names is None else class_names
        options: dict[str, Any] = {"normalize": normalize, "order": order, "groups": groups, "on_failure": on_failure}
        return cls.from_matrix(counts.matrix, class_names=names, **options)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Array,
        *,
        labels: Array | None = None,
        sample_weight: Array | None = None,
        normalize: Method | None = None,
        class_names: Sequence[Any] | None = None,
        order: Order | Sequence[int] = "given",
        groups: Sequence[Any] | None = None,
        on_failure: OnFailure = "warn",
    ) -> Self:
        """Count what an estimator predicts.

        Parameters
        ----------
        estimator : object
            Its ``predict(X)`` returns the predictions, as scikit-learn's do.
        X : object
            What it predicts from.
        y : array, shape (n,)
            The labels.
        labels, sample_weight, normalize, class_names, order, groups, on_failure
            As for :meth:`from_predictions`.

        Returns
        -------
        ConfusionDisplay
            Not drawn yet.
        """
        if isinstance(estimator, type) or not callable(getattr(estimator, "predict", None)):
            validate.refuse("estimator", "an object with a method predict", type(estimator).__name__, TypeError)
        options: dict[str, Any] = {"labels": labels, "sample_weight": sample_weight, "normalize": normalize}
        options |= {"class_names": class_names, "order": order, "groups": groups, "on_failure": on_failure}
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
            Where to draw; default: a new figure. The colours fit its ground, dark or light.
        text : {"value", "triple", "none"}
            In each cell the painted value (shares in percent); or the count and its share of the row and of the column,
            in as many lines as there is room for; or nothing. Without room there is none.
        log : bool
            Colour confusions by their logarithm.
        vmin, vmax : float, optional
            Ends of the scale of the confusions, so that pictures compare; default: 0 (with `log` the least) and the
            largest. That of the diagonal goes from 0 to 1, of counts to the largest.
        own_diagonal : bool
            Whether the diagonal has a scale of its own. Otherwise `vmin` and `vmax` are its as well.
        colorbar : bool
            Whether to draw the scales.
        values_format : str, optional
            How to write values, as ``format`` takes it: ".2f", and "d" or "," of counts that are integers.

        Returns
        -------
        ConfusionDisplay
            Itself; `ax_`, `figure_`, `im_`, `diagonal_`, `text_` and `dot_` are set. Nothing is shown.
        """
        look = looked(text, log, vmin, vmax, own_diagonal, colorbar)
        look = replace(look, values_format=written(values_format, 1 if self._drawn.whole else 0.5))
        bars = (1 + look.own_diagonal) * look.colorbar
        size = _painting.size(self._drawn, bars=bars, cell=0.85 if text == "triple" else 0.5)
        ax = plotting.get_axes(ax, size, "compressed")
        unit = _values.UNITS.get(self._normalize or "", "count")
        found = _painting.paint(ax, self._drawn, look, unit)
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
        level: float = 0.95,
        class_names: Sequence[Any] | None = None,
        order: Order | Sequence[int] = "given",
        on_failure: OnFailure = "warn",
    ) -> DifferenceDisplay:
        """Take the difference of two confusion matrices: two models, or a model before and after.

        Parameters
        ----------
        A, B : array, shape (C, C)
            The difference is that of the first less that of the second.
        normalize : {"all", "row", "true", "col", "pred", "bi"}, optional
            Of both, before; None: the difference of the counts.
        paired : PairedCounts, optional
            What both said of the same samples, from :func:`cmfast.uncertainty.paired_counts`: cells that differ beyond
            chance are marked.
        level : float
            Of confidence that no cell is marked by chance, in (0, 1).
        class_names, on_failure
            As for :meth:`from_matrix`.
        order : {"given", "support", "recall", "cluster"} or sequence of int
            Of the classes, as for :meth:`from_matrix`, by the sum of both.

        Returns
        -------
        DifferenceDisplay
            Not drawn yet.

        Raises
        ------
        TypeError, ValueError
            As :meth:`from_matrix`; matrices of different shape; `paired` that is not of `A` and `B`.

        Notes
        -----
        Of a cell, samples that only the first or only the second puts there are compared: McNemar's exact test, with
        Holm's correction for as many cells as there are such samples in. It is a test of counts, however they are
        normalised.
        """
        method = _values.options(normalize, on_failure)
        return difference(A, B, method, paired, level, class_names, order, on_failure)

    def blocks(self, most: int = 40) -> Self:
        """Return the same matrix in groups of neighbours: as they are given, or where the least confusion goes across.

        Parameters
        ----------
        most : int
            Lines of a group, where they are not given.

        Returns
        -------
        ConfusionDisplay
            Not drawn yet.
        """
        most = validate.count("most", most, least=2)
        own = self._drawn
        if own.groups is not None:
            return type(self)(own, normalize=self._normalize)
        groups = list(own.names)
        for piece in _orders.blocks(own.counts, most):
            first, last = own.names[piece[0]], own.names[piece[-1]]
            name = first if len(piece) == 1 else f"{first} \N{HORIZONTAL ELLIPSIS} {last}"
            groups[piece[0] : piece[-1] + 1] = [name] * len(piece)
        sums = (own.row_sums, own.col_sums)
        drawn = _values.Drawn(own.counts, *sums, own.shares, own.order, own.names, groups)
        return type(self)(drawn, normalize=self._normalize)

    def collapsed(self, *, on_failure: OnFailure = "warn") -> Self:
        """Return the picture from further away: groups in place of classes, the counts added up and normalised again.

        Parameters
        ----------
        on_failure : {"warn", "raise", "ignore"}
            What to do about a matrix that cannot be normalised.

        Returns
        -------
        ConfusionDisplay
            Not drawn yet; of :meth:`blocks`, if there are no groups.
        """
        validate.on_failure(on_failure)
        groups = self.blocks()._drawn.groups or []
        counts, names = _values.collapsed(self.counts, groups, on_failure)
        options: dict[str, Any] = {"normalize": self._normalize, "on_failure": on_failure}
        return type(self).from_matrix(counts, class_names=names, **options)

    def zoom(self) -> list[Self]:
        """Return a picture of every group, of its classes alone; shares stay those of the whole matrix.

        Returns
        -------
        list of ConfusionDisplay
            Not drawn yet; of :meth:`blocks`, if there are no groups.
        """
        groups = np.array(self.blocks()._drawn.groups, object)
        first = list(dict.fromkeys(groups.tolist()))
        parts = [self._drawn.part(np.flatnonzero(groups == name)) for name in first]
        return [type(self)(part, normalize=self._normalize) for part in parts]


def looked(text: Any, log: Any, vmin: Any, vmax: Any, own_diagonal: Any, colorbar: Any) -> Look:
    """Check how a matrix is to look."""
    validate.choice("text", text, get_args(Text))
    for name, value in (("log", log), ("own_diagonal", own_diagonal), ("colorbar", colorbar)):
        validate.flag(name, value)
    low = None if vmin is None else (validate.positive if log else validate.nonnegative)("vmin", vmin)
    high = None if vmax is None else validate.positive("vmax", vmax)
    if low is not None and not low < (np.inf if high is None else high):
        validate.refuse("vmin", "finite" if high is None else f"below vmax, {high:g}", f"{low:g}")
    return Look(text, log, low, high, own_diagonal, colorbar)


def written(values_format: Any, example: float) -> str | None:
    """Check how values are to be written that are like `example`."""
    if values_format is None:
        return None
    if not isinstance(values_format, str):
        validate.refuse("values_format", "a str", type(values_format).__name__, TypeError)
    try:
        format(example, values_format)
    except ValueError:
        validate.refuse("values_format", "a format of numbers, as '.2f'", repr(values_format))
    return values_format
