"""Replicates of confusion matrices."""
