"""Agreement of several raters: kappas, Krippendorff's alpha and Gwet's coefficients, with intervals over items."""

from cmfast.agreement._coefficients import compute, from_counts
from cmfast.agreement._grades import grade

__all__ = ["compute", "from_counts", "grade"]
