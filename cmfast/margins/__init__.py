"""Tables of any number of axes, scaled to margins over any of them."""

from cmfast.margins._functions import ipf_nd
from cmfast.margins._result import MarginsResult

__all__ = ["MarginsResult", "ipf_nd"]
