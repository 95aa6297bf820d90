"""Speed as ratios measured in one run: to rivals doing the same verified work, and to the bytes that must move.

``python -m benchmarks --quick`` prints the table; ``pytest benchmarks`` runs every job once, small, as a test.
"""
