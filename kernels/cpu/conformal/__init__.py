"""Conformal scores, thresholds, sets and how often two classes share one."""
