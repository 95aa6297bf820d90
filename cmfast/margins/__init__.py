"""Tables of any number of axes, and weights of records, scaled to margins over any of them."""

from cmfast.margins._cells import ipf_cells
from cmfast.margins._functions import ipf_nd
from cmfast.margins._rake import rake
from cmfast.margins._rake_result import RakeResult
from cmfast.margins._result import MarginsResult

__all__ = ["MarginsResult", "RakeResult", "ipf_cells", "ipf_nd", "rake"]
