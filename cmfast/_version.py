"""The version of cmfast."""

__version__ = "0.1.0"
