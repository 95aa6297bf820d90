"""Show results as cells of a notebook do, with what they are worth."""

# %% Counts
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import cmfast
from cmfast import metrics

iris = load_iris()
names = iris.target_names
guess = cross_val_predict(
    LogisticRegression(C=0.01), iris.data, iris.target
)
counts = cmfast.ConfusionCounts.from_labels(
    names[iris.target], names[guess]
)
print(counts.to_pandas())

# %% Metrics
print(counts.classification_report())

# %% Without the sizes of the classes
result = cmfast.ipf(counts.matrix, smoothing=0.5)
print(result)
print(result.explain())

# %% What is confused with what
print(metrics.most_confused(counts.matrix, 3).explain(counts.labels))
