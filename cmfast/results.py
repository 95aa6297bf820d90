"""The classes of results: for annotations and `isinstance`; functions make them.

Classes that users construct or load are elsewhere, such as :class:`cmfast.ConfusionCounts` and :class:`cmfast.Grid`.
"""

from typing import TYPE_CHECKING

from cmfast.agreement._results import Agreement, AgreementsByCoefficient
from cmfast.balancing import BalanceResult
from cmfast.conformal._prediction_sets import PredictionSets, SizeCoverage
from cmfast.contingency._convex_hull import Hull
from cmfast.contingency._path import LearningPath
from cmfast.contingency._surface import Sensitivity
from cmfast.detection._results import Matches
from cmfast.geometry import GcmDiagnostics, GcmResult, SparseHistogram, WidthCurve
from cmfast.margins import MarginsResult, MarginsSupport, RakeResult, RoundedTable
from cmfast.metrics._catalogue import Metric
from cmfast.metrics._collapse import Collapsed
from cmfast.metrics._confusions import Confusions
from cmfast.metrics._curves import LeastCost, PrecisionRecall, Roc, ThresholdMatrices
from cmfast.metrics._margins import Margins
from cmfast.metrics._report import ClassificationReport
from cmfast.normalizing import TargetEstimate
from cmfast.scaling import ScalingResult
from cmfast.uncertainty._areas import AucCovariance
from cmfast.uncertainty._compare_many import Comparisons, PairwiseComparisonsByMetric
from cmfast.uncertainty._comparison import Comparison, ComparisonsByMetric
from cmfast.uncertainty._equivalence import Equivalence
from cmfast.uncertainty._group_results import GroupComparison, GroupComparisonsByMetric
from cmfast.uncertainty._paired_counts import Flip
from cmfast.uncertainty._results import Interval, Intervals, Posterior, PosteriorsByMetric
from cmfast.uncertainty._symmetry_tests import McNemar, Symmetry
from cmfast.zeros import Certificate, Support

if TYPE_CHECKING:
    from cmfast._report import HtmlReport
else:

    def __getattr__(name):
        """Import `HtmlReport` on first access, because reports depend on everything else."""
        if name != "HtmlReport":
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        from cmfast._report import HtmlReport

        return HtmlReport

    def __dir__():
        """Return the public names."""
        return __all__


__all__ = [
    "Agreement",
    "AgreementsByCoefficient",
    "AucCovariance",
    "BalanceResult",
    "Certificate",
    "ClassificationReport",
    "Collapsed",
    "Comparison",
    "Comparisons",
    "ComparisonsByMetric",
    "Confusions",
    "Equivalence",
    "Flip",
    "GcmDiagnostics",
    "GcmResult",
    "GroupComparison",
    "GroupComparisonsByMetric",
    "HtmlReport",
    "Hull",
    "Interval",
    "Intervals",
    "LearningPath",
    "LeastCost",
    "Margins",
    "MarginsResult",
    "MarginsSupport",
    "Matches",
    "McNemar",
    "Metric",
    "PairwiseComparisonsByMetric",
    "Posterior",
    "PosteriorsByMetric",
    "PrecisionRecall",
    "PredictionSets",
    "RakeResult",
    "Roc",
    "RoundedTable",
    "ScalingResult",
    "Sensitivity",
    "SizeCoverage",
    "SparseHistogram",
    "Support",
    "Symmetry",
    "TargetEstimate",
    "ThresholdMatrices",
    "WidthCurve",
]
