"""Uncertainty of confusion matrices and metrics: standard errors, intervals, posteriors, comparisons of classifiers."""

from typing import TYPE_CHECKING

from cmfast._core.usual_names import make_missing_name_error
from cmfast.uncertainty._area_covariance import auc_covariance
from cmfast.uncertainty._compare import compare
from cmfast.uncertainty._compare_groups import compare_groups
from cmfast.uncertainty._compare_many import compare_many
from cmfast.uncertainty._equivalence import equivalence
from cmfast.uncertainty._intervals import interval, posterior
from cmfast.uncertainty._paired_counts import PairedCounts, paired_counts
from cmfast.uncertainty._resample import resample
from cmfast.uncertainty._standard_error import standard_error
from cmfast.uncertainty._symmetry_tests import bowker, mcnemar, stuart_maxwell

__all__ = [
    "PairedCounts",
    "auc_covariance",
    "bowker",
    "compare",
    "compare_groups",
    "compare_many",
    "equivalence",
    "interval",
    "mcnemar",
    "paired_counts",
    "posterior",
    "resample",
    "standard_error",
    "stuart_maxwell",
]

if not TYPE_CHECKING:  # so that type checkers refuse names that are none

    def __getattr__(name):
        """Raise AttributeError that says what to call for a name of another library."""
        raise make_missing_name_error(__name__, name, __all__)

    def __dir__():
        """Return the public names."""
        return __all__
