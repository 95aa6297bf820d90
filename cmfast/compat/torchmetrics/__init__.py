"""Drop-in replacements for torchmetrics' classification metrics, which share one state of counts.

Each class is a subclass of torchmetrics' class of the same name: update, compute, forward, reset, plot and distributed
sums work as there. All keep one matrix of counts, so that a `MetricCollection` counts only once. Beyond torchmetrics,
`ignore_index` may be a list of integers. Needs torchmetrics.

Examples
--------
>>> import torch
>>> from cmfast.compat.torchmetrics import (
...     F1Score,
...     MatthewsCorrCoef,
...     MetricCollection,
... )
>>> found = MetricCollection(
...     [
...         F1Score("multiclass", num_classes=3),
...         MatthewsCorrCoef("multiclass", num_classes=3),
...     ]
... )
>>> found.update(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2]))
>>> found.compute()["MulticlassMatthewsCorrCoef"]
tensor(0.7000)
"""

from cmfast.compat.torchmetrics import _library  # noqa: F401
from cmfast.compat.torchmetrics._agreement import (
    BinaryCohenKappa,
    BinaryConfusionMatrix,
    BinaryJaccardIndex,
    BinaryMatthewsCorrCoef,
    MulticlassCohenKappa,
    MulticlassConfusionMatrix,
    MulticlassJaccardIndex,
    MulticlassMatthewsCorrCoef,
    MultilabelConfusionMatrix,
    MultilabelJaccardIndex,
    MultilabelMatthewsCorrCoef,
)
from cmfast.compat.torchmetrics._collection import MetricCollection
from cmfast.compat.torchmetrics._scores import (
    BinaryAccuracy,
    BinaryF1Score,
    BinaryPrecision,
    BinaryRecall,
    BinarySpecificity,
    BinaryStatScores,
    MulticlassAccuracy,
    MulticlassF1Score,
    MulticlassPrecision,
    MulticlassRecall,
    MulticlassSpecificity,
    MulticlassStatScores,
    MultilabelAccuracy,
    MultilabelF1Score,
    MultilabelPrecision,
    MultilabelRecall,
    MultilabelSpecificity,
    MultilabelStatScores,
)
from cmfast.compat.torchmetrics._tasks import (
    Accuracy,
    CohenKappa,
    ConfusionMatrix,
    F1Score,
    JaccardIndex,
    MatthewsCorrCoef,
    Precision,
    Recall,
    Specificity,
    StatScores,
)

__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "BinaryCohenKappa",
    "BinaryConfusionMatrix",
    "BinaryF1Score",
    "BinaryJaccardIndex",
    "BinaryMatthewsCorrCoef",
    "BinaryPrecision",
    "BinaryRecall",
    "BinarySpecificity",
    "BinaryStatScores",
    "CohenKappa",
    "ConfusionMatrix",
    "F1Score",
    "JaccardIndex",
    "MatthewsCorrCoef",
    "MetricCollection",
    "MulticlassAccuracy",
    "MulticlassCohenKappa",
    "MulticlassConfusionMatrix",
    "MulticlassF1Score",
    "MulticlassJaccardIndex",
    "MulticlassMatthewsCorrCoef",
    "MulticlassPrecision",
    "MulticlassRecall",
    "MulticlassSpecificity",
    "MulticlassStatScores",
    "MultilabelAccuracy",
    "MultilabelConfusionMatrix",
    "MultilabelF1Score",
    "MultilabelJaccardIndex",
    "MultilabelMatthewsCorrCoef",
    "MultilabelPrecision",
    "MultilabelRecall",
    "MultilabelSpecificity",
    "MultilabelStatScores",
    "Precision",
    "Recall",
    "Specificity",
    "StatScores",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
