"""Find out which of two models is better, by how much, and where."""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import cmfast
from cmfast import uncertainty

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=0
)
line = (
    LogisticRegression(max_iter=100).fit(X_train, y_train).predict(X_test)
)
tree = (
    DecisionTreeClassifier(random_state=0)
    .fit(X_train, y_train)
    .predict(X_test)
)

pair = uncertainty.paired_counts(y_test, line, tree)
print(uncertainty.compare(pair, "f1_macro"))
print(uncertainty.mcnemar(pair))
for flip in pair.flips(3):
    print(
        f"true {flip.truth}: {flip.first} by the first, "
        f"{flip.second} by the second, {flip.n_samples} times"
    )

A, B = cmfast.bi_normalize([pair.first, pair.second], smoothing=0.5)
print(
    "overlap of both matrices without the sizes of the classes: "
    f"{float(cmfast.overlap(A, B)):.3f}"
)
