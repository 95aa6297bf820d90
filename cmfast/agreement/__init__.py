"""Agreement of several raters: kappas, Krippendorff's alpha and Gwet's coefficients, with intervals over items."""

from typing import TYPE_CHECKING, get_args

from cmfast._core.annotations import Coefficient
from cmfast._core.usual_names import COEFFICIENTS, make_missing_name_error
from cmfast.agreement._coefficients import compute, from_counts
from cmfast.agreement._grades import grade

__all__ = ["compute", "from_counts", "grade"]

if not TYPE_CHECKING:  # so that type checkers refuse names that are none

    def __getattr__(name):
        """Raise AttributeError that says what to call for a name of another library."""
        coefficient = COEFFICIENTS.get(name, name if name in get_args(Coefficient) else None)
        cure = ""
        if coefficient:
            of_table = f'agreement.from_counts(counts, "{coefficient}") from a column per category'
            cure = f'agreement.compute(ratings, "{coefficient}") computes it from a column per rater, {of_table}'
        if name in ("kappa", "weighted_kappa"):
            cure = 'metrics.kappa(M) is Cohen\'s of two raters, agreement.compute(ratings, "fleiss_kappa") of several'
        raise make_missing_name_error(__name__, name, __all__, cure)

    def __dir__():
        """Return the public names."""
        return __all__
