"""
How far off a metric could be
=============================

Draw the intervals of several metrics, and of the recall of each class.

Another test set of the same size would have given other numbers. An
interval for each metric, and for the recall of each class: the class with
few samples is known least.
"""

from cmfast import uncertainty

M = [[420, 15, 15], [10, 280, 10], [3, 2, 20]]
uncertainty.interval(
    M, ["accuracy", "mcc", "f1_macro", "recall"], rng=0
).plot()
