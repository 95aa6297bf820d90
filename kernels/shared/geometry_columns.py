"""Columns of a table of points, the same for every target: the integers that their moments are taken of."""

COLUMN_STEPS = 2.0**20  # between the smallest and the largest value of a column
