"""Shared infrastructure of all topics: dispatch, validation, failures, progress, and one adapter per array library."""
