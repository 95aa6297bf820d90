"""How far a confusion matrix, and so any metric of it, could be off; and which of two classifiers is better."""

from cmfast.uncertainty._compare import compare
from cmfast.uncertainty._compare_many import Comparisons, compare_many
from cmfast.uncertainty._comparison import Comparison
from cmfast.uncertainty._errors import standard_error
from cmfast.uncertainty._hypotheses import McNemar, Symmetry, bowker, mcnemar, stuart_maxwell
from cmfast.uncertainty._paired_counts import Flip, PairedCounts, paired_counts
from cmfast.uncertainty._resample import resample

__all__ = [
    "Comparison",
    "Comparisons",
    "Flip",
    "McNemar",
    "PairedCounts",
    "Symmetry",
    "bowker",
    "compare",
    "compare_many",
    "mcnemar",
    "paired_counts",
    "resample",
    "standard_error",
    "stuart_maxwell",
]
