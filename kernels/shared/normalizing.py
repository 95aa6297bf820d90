"""Division by sums, the same for every target: what one sum goes over, and how one that overflows is taken again."""

ALL_CELLS, ROW, COL = 0, 1, 2
CODES_OF_LINES = {"all": ALL_CELLS, "row": ROW, "col": COL}

SHRINK = 2.0**-64  # times the cells, finite sums do not overflow, and the cells keep all their digits
