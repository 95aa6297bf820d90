"""Agreement of several raters: kappas, Krippendorff's alpha and Gwet's coefficients, with intervals over items."""

from typing import TYPE_CHECKING

from cmfast._core.usual_names import make_missing_name_error
from cmfast.agreement._coefficients import compute, from_counts
from cmfast.agreement._grades import grade

__all__ = ["compute", "from_counts", "grade"]

if not TYPE_CHECKING:  # so that type checkers refuse names that are none

    def __getattr__(name):
        """Raise AttributeError that says what to call for a name of another library."""
        raise make_missing_name_error(__name__, name, __all__)
