"""Modules for torch: bi-normalisation as a layer, and any metric as a loss, with gradients.

>>> import torch
>>> from cmfast import nn
>>> nn.BiNormalize()(
...     torch.tensor([[80.0, 20.0], [1.0, 1.0]], dtype=torch.float64)
... ).round(decimals=6)
tensor([[0.6667, 0.3333],
        [0.3333, 0.6667]], dtype=torch.float64)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast import metrics
from cmfast._core import caller, dispatch, validate
from cmfast._core.annotations import OnFailure, Solver
from cmfast._core.libraries import explain_absence
from cmfast.metrics._catalogue import find_form
from cmfast.normalizing import bi_normalize

with explain_absence("torch"):
    import torch  # noqa: TID251

# Largest deviation of row sums of probabilities from 1 due to rounding: softmax in float32, and in bfloat16.
MOST_ROUNDING_ERROR, MOST_HALF_ROUNDING_ERROR = 1e-3, 0.02

__all__ = ["BiNormalize", "MetricLoss", "soft_confusion_matrix"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


class BiNormalize(torch.nn.Module):  # type: ignore[misc]  # torch is untyped for mypy
    """Layer without parameters that scales square matrices so that all rows and columns sum to one.

    Parameters
    ----------
    logits : bool
        The input holds logarithms of the cells, of any magnitude: exponentials never overflow float64. Only on the CPU.
    smoothing, tol, solver, on_failure
        See :func:`cmfast.ipf`; logits allow no smoothing, and ``"pseudo-bayes"`` has no gradient.

    Notes
    -----
    Bad values: a matrix that cannot be scaled is NaN, as is its gradient; other matrices of the batch are unaffected.
    Synchronises the device unless `on_failure` is "ignore". Reproducible: same input, same bits, in any batch size.

    Examples
    --------
    >>> import torch
    >>> from cmfast import nn
    >>> logits = torch.tensor(
    ...     [[1000.0, 0.0], [0.0, 1000.0]], requires_grad=True
    ... )
    >>> P = nn.BiNormalize(logits=True)(logits)
    >>> P.sum(0).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        *,
        logits: bool = False,
        smoothing: float | None = None,
        tol: float = 1e-9,
        solver: Solver = "auto",
        on_failure: OnFailure = None,
    ) -> None:
        super().__init__()
        self.options: dict[str, Any] = {
            "logits": logits, "smoothing": smoothing, "tol": tol, "solver": solver, "on_failure": on_failure,
        }  # fmt: skip

    def forward(self, M: Any) -> Any:
        """Return the scaled matrices, in the shape (..., C, C) of `M`."""
        return bi_normalize(M, **self.options)

    def extra_repr(self) -> str:
        """Return the options, for the printed layer."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


def soft_confusion_matrix(
    probabilities: Any, y: Any, /, *, from_logits: bool = False, ignore_index: int | Sequence[int] | None = None
) -> Any:
    """Return the expected confusion matrix of probabilities: row i sums the rows of the samples of class i.

    Parameters
    ----------
    probabilities : tensor, shape (n, C)
        Probability of each class for every sample, as by ``softmax``; with `from_logits`, logits.
    y : tensor of integers, shape (n,)
        True classes, 0 to C - 1.
    from_logits : bool
        Apply the softmax to every row first, in float32 or higher precision.
    ignore_index : int or sequence of int, optional
        Samples of these true classes are left out, as by ``torch.nn.CrossEntropyLoss``; they need not be classes.

    Returns
    -------
    tensor, shape (C, C)
        In the dtype of `probabilities`, but at least float32, also under ``torch.autocast``; differentiable.

    Raises
    ------
    TypeError
        Arguments that are not tensors; true classes that are not integers.
    ValueError
        Shapes that do not agree; a class outside 0 to C - 1; rows with negative values or sums other than 1, by more
        than 0.001 (0.02 for half precision).

    Notes
    -----
    Bad values: a NaN probability makes its row of the matrix NaN. Synchronises the device once, to check classes and
    rows. Reproducible as far as torch's matrix product is.

    Examples
    --------
    >>> import torch
    >>> from cmfast import nn
    >>> nn.soft_confusion_matrix(
    ...     torch.tensor([[0.75, 0.25], [0.5, 0.5]]), torch.tensor([0, 1])
    ... )
    tensor([[0.7500, 0.2500],
            [0.5000, 0.5000]])
    """
    for name, given in (("probabilities", probabilities), ("y", y)):
        if not isinstance(given, torch.Tensor):
            validate.refuse(name, "a tensor", type(given).__name__, TypeError)
    probe = probabilities.detach()
    if probe.dtype in (torch.float16, torch.bfloat16):  # NumPy has no bfloat16
        probe = probe.new_empty(0, dtype=torch.float32)
    dispatch.adopt(probabilities=probe, y=y)
    validate.integer(y=y)
    if probabilities.ndim != 2 or tuple(y.shape) != tuple(probabilities.shape[:1]):
        shapes = f"{tuple(probabilities.shape)} and {tuple(y.shape)}"
        msg = f"probabilities and y must have shapes (n, C) and (n,), got {shapes}"
        raise ValueError(caller.prefix_name(msg))
    validate.flag("from_logits", from_logits)
    ignored = _validate_ignored(ignore_index)
    if not probabilities.is_floating_point():
        validate.refuse("probabilities", "of floats", f"dtype {probabilities.dtype}", TypeError)
    y, C = y.long(), probabilities.shape[1]
    tolerance = (
        MOST_HALF_ROUNDING_ERROR if probabilities.dtype in (torch.float16, torch.bfloat16) else MOST_ROUNDING_ERROR
    )
    if probabilities.dtype in (torch.float16, torch.bfloat16):  # too imprecise for long sums
        probabilities = probabilities.float()
    if from_logits:
        with torch.autocast(probabilities.device.type, enabled=False):
            probabilities = probabilities.softmax(1)
    kept = None
    if ignored:  # rows of certain predictions of class 0, which the matrix then leaves out
        kept = ~torch.isin(y, torch.tensor(ignored, device=y.device))
        y, certain = y * kept, torch.nn.functional.one_hot(y * 0, C).to(probabilities.dtype)
        probabilities = torch.where(kept[:, None], probabilities, certain)
    _check_rows(probabilities.detach(), y, C, tolerance)
    truth = torch.nn.functional.one_hot(y, C).to(probabilities.dtype)
    if kept is not None:
        truth = truth * kept[:, None]
    with torch.autocast(probabilities.device.type, enabled=False):
        return truth.T @ probabilities


def _validate_ignored(ignore_index: Any) -> list[int]:
    """Validate the option `ignore_index`; return its integers as a list."""
    if ignore_index is None:
        return []
    given = list(ignore_index) if isinstance(ignore_index, list | tuple | range | np.ndarray) else [ignore_index]
    return [validate.count("ignore_index", each, least=-(2**63)) for each in given]


def _check_rows(rows: Any, y: Any, C: int, tolerance: float) -> None:
    """Raise ValueError for invalid classes or rows that are not probabilities; NaN passes. Synchronises once."""
    outside = (y < 0) | (y >= C)
    sums = rows.sum(1)
    off = ((sums - 1).abs() > tolerance) | (rows < -tolerance).any(1)
    wrong, uneven = torch.stack([outside.any(), off.any()]).tolist()  # synchronises
    if wrong:
        wanted = f"from 0 to {C - 1}, the columns of probabilities"
        validate.refuse("y", wanted, str(int(y[outside][0])))
    if uneven:
        k = int(off.nonzero()[0])
        least, total = float(rows[k].min()), float(sums[k])
        given = f"row {k} with {least:.4g}" if least < -tolerance else f"row {k}, which adds up to {total:.4g}"
        validate.refuse(
            "probabilities", "rows that add up to 1, as softmax gives", f"{given}; for logits pass from_logits=True"
        )


class MetricLoss(torch.nn.Module):  # type: ignore[misc]
    """Loss from a metric of the expected confusion matrix of a batch, negated if larger is better.

    Parameters
    ----------
    name : str
        A metric with one value per matrix, by its name in :mod:`cmfast.metrics`: ``"mcc"``, ``"f1_macro"``,
        ``"kappa_quadratic"``, ``"tau_weighted_1_5_2"`` for three classes.
    from_logits : bool
        Apply the softmax to every row first. Without it, rows that do not sum to 1 raise, as in
        :func:`soft_confusion_matrix`, with one synchronisation of the device.
    ignore_index : int or sequence of int, optional
        Samples of these true classes are left out.

    Raises
    ------
    TypeError
        `name` is not a single name.
    ValueError
        The metric has a value per class, or the name is unknown.

    Notes
    -----
    If the metric is not differentiable at a batch, the gradient is NaN: ``"mcc"`` with a single true class. Averages
    over classes are differentiable if every class with predictions has samples.

    Examples
    --------
    >>> import torch
    >>> from cmfast import nn
    >>> loss = nn.MetricLoss("f1_macro")
    >>> logits = torch.zeros(4, 2, requires_grad=True)
    >>> loss(logits.softmax(1), torch.tensor([0, 0, 0, 1])).backward()
    >>> logits.grad[:, 0].sign().tolist()
    [-1.0, -1.0, -1.0, 1.0]
    """

    def __init__(
        self, name: str, *, from_logits: bool = False, ignore_index: int | Sequence[int] | None = None
    ) -> None:
        super().__init__()
        validate.flag("from_logits", from_logits)
        _validate_ignored(ignore_index)
        self.from_logits, self.ignore_index = from_logits, ignore_index
        form = find_form(str(name))
        right = np.eye(len(form.weights) if form and form.weights else 2)
        tables = right, np.roll(right, 1, axis=1)
        found: list[Any] = [metrics.compute(M, name) for M in tables]  # type: ignore[call-overload]
        if isinstance(found[0], dict):
            validate.refuse("name", "the name of one metric", validate.format_value(name), TypeError)
        if found[0].ndim:
            msg = f"name must be a metric with one number per matrix, got {name!r}; average it, as in '{name}_macro'"
            raise ValueError(caller.prefix_name(msg))
        self.name = name
        self.sign = 1.0 if found[0] < found[1] else -1.0

    def forward(self, probabilities: Any, y: Any) -> Any:
        """Return the loss of probabilities or logits, shape (n, C), for true classes, shape (n,)."""
        M = soft_confusion_matrix(probabilities, y, from_logits=self.from_logits, ignore_index=self.ignore_index)
        return self.sign * metrics.compute(M, self.name)  # type: ignore[call-overload]

    def extra_repr(self) -> str:
        """Return the metric's name, for the printed loss."""
        logits = ", from_logits=True" if self.from_logits else ""
        return repr(self.name) + logits + ("" if self.ignore_index is None else f", ignore_index={self.ignore_index}")
