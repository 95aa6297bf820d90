"""Command line interface ``cmfast``."""

from cmfast.cli._main import main

__all__ = ["main"]
