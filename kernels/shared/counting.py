"""Counting of pairs of labels, the same for every target."""

MOST_LABEL_SPAN = 1024  # labels between the smallest and the largest up to which a table holds all of them
