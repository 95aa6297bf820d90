"""
Tutorial: which of two models?
==============================

Fifteen minutes, from the predictions of two models to a decision.

The data are real: 1,797 handwritten digits, which come with scikit-learn.
A random forest is in use, and a support vector machine may replace it.

Each model predicts every digit after it was trained on others. From here
on only the labels matter: yours may come from a csv file.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC

import cmfast
from cmfast import display, metrics, uncertainty

digits = load_digits()
truth = digits.target
old = cross_val_predict(
    RandomForestClassifier(random_state=0), digits.data, truth
)
new = cross_val_predict(SVC(), digits.data, truth)

wrong = np.flatnonzero(new != truth)[:8]
figure, axes = plt.subplots(1, 8, figsize=(9, 1.6))
for ax, k in zip(axes, wrong, strict=True):
    ax.imshow(digits.images[k], cmap="gray_r")
    ax.set_title(f"{truth[k]} as {new[k]}")
    ax.set_axis_off()

# %%
# 1. Count
# --------
# One call counts the digits of each true class (a row) that were taken
# for each class (a column). Both predictions are a batch, so the result
# has two matrices. The diagonal has its own colours, so that the
# confusions are seen.

M = cmfast.confusion_matrix(
    np.stack([truth, truth]), np.stack([old, new])
)
figure, axes = plt.subplots(1, 2, figsize=(13, 5.6), layout="compressed")
for ax, matrix, name in zip(
    axes, M, ("old: random forest", "new: support vectors"), strict=True
):
    display.ConfusionDisplay.from_matrix(matrix).plot(ax=ax)
    ax.set_title(name)

# %%
# 2. Measure, with intervals
# --------------------------
# Another 1,797 digits would give other numbers. The 95 % intervals say
# how far off these could be. Those of the two models nearly touch, but
# this does not answer which model is better: both saw the same digits,
# and what is hard for one is hard for the other.

names = ["accuracy", "f1_macro", "mcc"]
for name, values in metrics.compute(M, names).items():
    print(f"{name:8} old {values[0]:.3f}  new {values[1]:.3f}")

figure, axes = plt.subplots(
    2, 1, figsize=(7, 4), sharex=True, layout="constrained"
)
for ax, matrix, name in zip(axes, M, ("old", "new"), strict=True):
    uncertainty.interval(matrix, names, rng=0).plot(ax=ax)
    ax.set_title(name)

# %%
# 3. Compare on the same digits
# -----------------------------
# A table of truth, first and second prediction has all that is known
# about the difference. Its 95 % interval, in brackets, is narrower than
# the two intervals above suggest. Those of the first three metrics do not
# reach zero: by these the new model is better. The smallest recall of all
# classes is that of one class, which has 180 samples, too few to decide.

pair = uncertainty.paired_counts(truth, new, old)
compared = uncertainty.compare(pair, [*names, "min_recall"], rng=0)
for comparison in compared.values():
    print(comparison)
display.ComparisonDisplay.from_comparisons(compared).plot()

# %%
# 4. See where they differ
# ------------------------
# Orange cells are larger for the new model, blue ones smaller; a star
# marks a cell whose difference is significant after correction for the
# number of cells. ``flips`` lists the most frequent pairs of answers that
# differ.

display.ConfusionDisplay.compare(
    pair.first, pair.second, paired=pair
).plot()
for flip in pair.flips(4):
    print(
        f"true {flip.truth}: {flip.first} by the new, "
        f"{flip.second} by the old, {flip.n_samples} times"
    )

# %%
# 5. Look at similar classes
# --------------------------
# Where classes differ in size, rows and columns with many samples hide
# the others. Bi-normalisation scales all rows and columns to one, and
# ``order="cluster"`` places digits that are confused next to each other.
# The classes of this data have nearly the same size, so little changes;
# in yours it may be much. Many digits are never taken for one another,
# and with so many zeros no scaling exists, so half a sample is added to
# each cell first.

display.ConfusionDisplay.from_matrix(
    M[1] + 0.5, normalize="bi", order="cluster"
).plot()

# %%
# 6. Ask what happens where classes are rarer
# -------------------------------------------
# In letters a one is six times as frequent as a nine, as Benford's law
# says of first digits. ``estimate_for_target`` reweights the rows to such
# shares, for both models in one call: the new model stays ahead.

benford = np.log10(1 + 1 / np.arange(1, 10))
shares = np.concatenate([[0.02], 0.98 * benford])
expected = cmfast.estimate_for_target(M, class_shares=shares)
accuracy = metrics.compute(expected.matrix, "accuracy")
figure, ax = plt.subplots(figsize=(6, 2), layout="constrained")
ax.barh(["old", "new"], 1 - accuracy, color=["tab:gray", "tab:blue"])
ax.set_xlabel("errors, where first digits follow Benford's law")
print(accuracy.round(3))

# %%
# 7. Decide
# ---------
# McNemar's test asks whether the models err equally often.
# ``equivalence`` asks the opposite: is the difference smaller than a
# margin that would not matter to you, here one percentage point? Neither
# is the case: the new model errs less, and the whole interval lies beyond
# the margin. It is a 90 % interval, as ``equivalence`` tests each side at
# 95 %. So replace the old one. Write down the margin before you look at
# the result.

print(uncertainty.mcnemar(pair).explain())
print(uncertainty.equivalence(pair, "accuracy", 0.01).explain())

# %%
# 8. Send a report
# ----------------
# All of this on one page, which can be mailed and opened anywhere. In a
# notebook it is shown like here: choose a normalisation, point at cells,
# sort tables.

cmfast.report(
    truth,
    {"new": new, "old": old},
    title="Random forest or support vectors?",
)

# %%
# The same from a csv file with the columns ``label``, ``new`` and
# ``old``, on the command line::
#
#     cmfast compare predictions.csv --true label --pred new --pred old
#     cmfast report predictions.csv --true label --pred new --pred old \
#         -o report.html
