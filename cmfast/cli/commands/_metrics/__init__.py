"""``cmfast metrics``: metrics of a table of labels or a file of matrices."""

from cmfast.cli.commands._metrics._command import add_options, run

__all__ = ["add_options", "run"]
