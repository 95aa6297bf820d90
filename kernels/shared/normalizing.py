"""Codes of the sums that cells are divided by, and the scale for sums that overflow, the same for every target."""

ALL_CELLS, ROW, COL = 0, 1, 2
CODES_OF_LINES = {"all": ALL_CELLS, "row": ROW, "col": COL}

SHRINK = 2.0**-64  # exact factor by which cells are scaled if their sum overflows
