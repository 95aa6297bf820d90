"""Resample a matrix 100,000 times, and bi-normalise every sample."""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import cmfast

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.7, random_state=0
)
predicted = (
    LogisticRegression(max_iter=200).fit(X_train, y_train).predict(X_test)
)
M = cmfast.confusion_matrix(y_test, predicted, n_classes=10)

# Half a count in every cell: the matrix has zeros, and what they mean has
# to be said.
samples = (
    np.random.default_rng(0)
    .multinomial(M.sum(), (M / M.sum()).ravel(), size=100_000)
    .reshape(-1, 10, 10)
)
start = time.perf_counter()
result = cmfast.ipf(samples, smoothing=0.5)
seconds = time.perf_counter() - start

print(
    f"{len(samples):,} matrices in {seconds:.2f} s, "
    f"all converged: {bool((result.status == 0).all())}"
)
low, high = np.quantile(result.matrix, [0.025, 0.975], axis=0)
bi = cmfast.bi_normalize(M, smoothing=0.5)
off = np.argwhere((bi > 0.01) & ~np.eye(10, dtype=bool))
for i, j in sorted(off.tolist(), key=lambda ij: -bi[tuple(ij)])[:5]:
    print(
        f"true {i}, predicted {j}: {bi[i, j]:.3f}, "
        f"95 % of the samples in [{low[i, j]:.3f}, {high[i, j]:.3f}]"
    )
