"""Iterative proportional fitting of tables of any number of axes, raking of survey weights, controlled rounding."""

from cmfast.margins._ipf_cells import ipf_cells
from cmfast.margins._ipf_tables import ipf_nd
from cmfast.margins._rake import rake
from cmfast.margins._rake_result import RakeResult
from cmfast.margins._result import MarginsResult
from cmfast.margins._rounding import RoundedTable, round_to_margins
from cmfast.margins._support import MarginsSupport, support_nd

__all__ = [
    "MarginsResult",
    "MarginsSupport",
    "RakeResult",
    "RoundedTable",
    "ipf_cells",
    "ipf_nd",
    "rake",
    "round_to_margins",
    "support_nd",
]
