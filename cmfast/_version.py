"""The version of cmfast."""

__version__ = "1.0.0"
