"""
Count, share of the row and share of the column in one cell
===========================================================

Write the count and both shares into each cell.

The share of a row is recall on the diagonal, that of a column precision;
neither says of how many samples it is. A triple cell has all three, in as
many lines as there is room for.
"""

from cmfast.display import ConfusionDisplay

M = [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
ConfusionDisplay.from_matrix(
    M, display_labels=["intact", "crack", "stain"]
).plot(text="triple")
