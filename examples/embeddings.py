"""Compare a confusion matrix with the geometric one of its embeddings."""

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

import cmfast

X, y = load_digits(return_X_y=True)
embedded = PCA(3).fit_transform(X)
guess = cross_val_predict(KNeighborsClassifier(), embedded, y)

result = cmfast.geometric_confusion_matrix(
    embedded, y, guess, weights="row", n_components=None
)
print(result.diagnostics)
print(
    cmfast.width_curve(
        embedded,
        y,
        guess,
        weights="row",
        n_components=None,
        factors=[0.5, 1, 2],
    )
)
