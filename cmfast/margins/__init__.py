"""Tables of any number of axes, and weights of records, scaled to margins over any of them."""

from cmfast.margins._cells import ipf_cells
from cmfast.margins._functions import ipf_nd
from cmfast.margins._rake import rake
from cmfast.margins._rake_result import RakeResult
from cmfast.margins._result import MarginsResult
from cmfast.margins._support import MarginsSupport, support_nd

__all__ = ["MarginsResult", "MarginsSupport", "RakeResult", "ipf_cells", "ipf_nd", "rake", "support_nd"]
