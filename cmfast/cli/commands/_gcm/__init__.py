"""``cmfast gcm``: geometric confusion matrix of embeddings in files."""

from cmfast.cli.commands._gcm._command import add_options, run

__all__ = ["add_options", "run"]
