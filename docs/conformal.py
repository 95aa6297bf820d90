"""Print the numbers of ``conformal.md``, on the digits of scikit-learn, and draw ``conformal.png``: a minute or two.

Needs ``pip install ".[bench]"``.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import cmfast  # noqa: E402
from cmfast import conformal  # noqa: E402

ALPHAS = [0.3, 0.2, 0.1, 0.05]
SEEDS = 30
PAIR = (3, 9)  # digits that share sets
CLIENTS, CHOSEN, ROUNDS, WIDTH = 10, 7, 15, 16


def digits(seed: int) -> tuple[np.ndarray, ...]:
    """Return images and labels: to learn from, to calibrate with, and new ones."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    learn, calibrate, new = np.split(order, [597, 1197])
    X = X / 16.0
    return X[learn], y[learn], X[calibrate], y[calibrate], X[new], y[new]


def start(rng: np.random.Generator) -> list[np.ndarray]:
    """Return the weights of a network with one hidden layer."""
    return [rng.normal(0, 0.2, (64, WIDTH)), np.zeros(WIDTH), rng.normal(0, 0.3, (WIDTH, 10)), np.zeros(10)]


def predict(weights: list[np.ndarray], X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hidden layer and the probabilities."""
    hidden = np.maximum(X @ weights[0] + weights[1], 0)
    z = hidden @ weights[2] + weights[3]
    P = np.exp(z - z.max(-1, keepdims=True))
    return hidden, P / P.sum(-1, keepdims=True)


def learn(weights: list[np.ndarray], X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the weights after one epoch of gradient descent."""
    for batch in np.array_split(rng.permutation(len(y)), max(1, len(y) // 16)):
        hidden, P = predict(weights, X[batch])
        error = (P - np.eye(10)[y[batch]]) / max(1, len(batch))
        back = (error @ weights[2].T) * (hidden > 0)
        slopes = [X[batch].T @ back, back.sum(0), hidden.T @ error, error.sum(0)]
        weights = [w - 0.3 * slope for w, slope in zip(weights, slopes, strict=True)]
    return weights


def twice(weights: list[np.ndarray], X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the weights after two epochs."""
    return learn(learn(weights, X, y, rng), X, y, rng)


def sets_of(weights: list[np.ndarray], data: tuple[np.ndarray, ...], seed: int, alpha: Any = ALPHAS) -> Any:
    """Return the sets of the new rows, calibrated by the rows for that."""
    _, _, X, y, new, _ = data
    q = conformal.threshold(conformal.scores(predict(weights, X)[1], y, rng=seed), alpha)
    return conformal.prediction_sets(predict(weights, new)[1], q, rng=seed)


def centre() -> None:
    """Compare both matrices, by epoch and by alpha."""
    data, rng = digits(0), np.random.default_rng(0)
    weights = start(rng)
    print("epoch  rho(3, 9)  rho(0, 1)  errors 3-9  errors 0-1, at alpha = 0.1")
    for epoch in range(1, 21):
        weights = learn(weights, data[0], data[1], rng)
        if epoch in (1, 2, 4, 8, 12, 20):
            sets = sets_of(weights, data, 0)
            rho = conformal.ccm(sets).correlation()[ALPHAS.index(0.1)]
            M = cmfast.confusion_matrix(data[5], predict(weights, data[4])[1].argmax(-1), n_classes=10)
            both = [(rho[pair], M[pair] + M[pair[::-1]]) for pair in (PAIR, (0, 1))]
            print(f"{epoch:5}  {both[0][0]:9.3f}  {both[1][0]:9.3f}  {both[0][1]:10}  {both[1][1]:10}")
    sets = sets_of(weights, data, 0)
    counts = conformal.ccm(sets)
    off = ~np.eye(10, dtype=bool)
    print(
        f"\naccuracy {cmfast.metrics.accuracy(M):.3f}; cells of the confusion matrix that are 0: {(M[off] == 0).sum()}"
    )
    print("alpha  coverage  mean size  empty  pairs that share a set  of them without a confusion  undefined classes")
    for k, alpha in enumerate(ALPHAS):
        shared = np.triu(counts.G[k] > 0, 1)
        never = shared & (M + M.T == 0)
        sizes = sets.sizes[k]
        print(f"{alpha:5}  {sets.coverage(data[5])[k]:8.3f}  {sizes.mean():9.2f}  {(sizes == 0).mean():5.3f}"
              f"  {shared.sum():22}  {never.sum():28}  {(counts.reason[k] > 0).sum():17}")  # fmt: skip
    guess = predict(weights, data[4])[1].argmax(-1)
    display = conformal.CcmDisplay.from_sets(sets, data[5], guess, index=ALPHAS.index(0.1)).plot()
    display.figure_.savefig(HERE / "conformal.png", dpi=64, metadata={"Software": None})


def split(y: np.ndarray, concentration: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the rows of every client, whose classes follow a Dirichlet distribution each."""
    shares = rng.dirichlet(np.full(CLIENTS, concentration), 10)
    owner = np.array([rng.choice(CLIENTS, p=shares[label]) for label in y])
    return [np.flatnonzero(owner == k) for k in range(CLIENTS)]


def federate(seed: int, order: str | None, concentration: float = 0.5) -> dict[str, Any]:
    """Train with some of the clients in every round: all of them, or those that rank first or last by the pair."""
    data, rng = digits(seed), np.random.default_rng(seed)
    X, y, _, _, new, truth = data
    owned, tested = split(y, concentration, rng), split(truth, concentration, rng)
    weights, allowed = start(rng), np.arange(CLIENTS)
    for turn in range(ROUNDS):
        if order is not None and turn:
            allowed = conformal.rank_clients(own_counts(weights, data, tested, seed), [PAIR], order=order)[:CHOSEN]
        picked = [k for k in rng.choice(allowed, 3, replace=False) if len(owned[k])]
        if picked:
            trained = [
                learn(learn(weights, X[owned[k]], y[owned[k]], rng), X[owned[k]], y[owned[k]], rng) for k in picked
            ]
            sizes = np.array([len(owned[k]) for k in picked], float)
            weights = [np.tensordot(sizes / sizes.sum(), np.stack(w), 1) for w in zip(*trained, strict=True)]
    guess = predict(weights, new)[1].argmax(-1)
    focus = np.isin(truth, PAIR)
    counts = own_counts(weights, data, tested, seed)
    return {
        "accuracy": (guess == truth).mean(),
        "pair": (guess == truth)[focus].mean(),
        "rho": sum(counts).correlation()[PAIR],
        "counts": counts,
    }


def own_counts(
    weights: list[np.ndarray], data: tuple[np.ndarray, ...], tested: list[np.ndarray], seed: int
) -> list[Any]:
    """Return the counts of every client, of its own new rows at alpha = 0.1."""
    whole = sets_of(weights, data, seed, [0.1])
    parts = [conformal.PredictionSets(whole.packed[:, t], whole.sizes[:, t], 10, "allow") for t in tested]
    return [conformal.ccm(part).sum(0) for part in parts]


def clients() -> None:
    """Say how far the mean of correlations is from the correlation of all sets."""
    print("\nDirichlet  mean |mean of rho - rho of all|  largest  mean of |rho| at most  undefined at a client")
    for concentration in (0.1, 0.5, 5.0):
        gaps, undefined, largest = [], [], []
        for seed in range(SEEDS):
            counts = federate(seed, None, concentration)["counts"]
            merged = sum(counts).correlation()
            each = np.stack([one.correlation() for one in counts])
            known = ~np.isnan(each)
            with np.errstate(invalid="ignore"):
                mean = np.where(known, each, 0).sum(0) / known.sum(0)
            off = ~np.eye(10, dtype=bool) & ~np.isnan(merged) & ~np.isnan(mean)
            gaps.append(abs(mean - merged)[off])
            largest.append(abs(merged[off]).max())
            undefined.append((~known).mean())
        every = np.concatenate(gaps)
        print(f"{concentration:9}  {every.mean():29.3f}  {every.max():7.3f}  {np.mean(largest):30.3f}"
              f"  {np.mean(undefined):21.1%}")  # fmt: skip


def selection() -> None:
    """Say what choosing clients by their rank does, both ways, over the same seeds."""
    found = {name: [federate(seed, order) for seed in range(SEEDS)] for name, order in
             (("all clients", None), ("highest rho", "high"), ("lowest rho", "low"))}  # fmt: skip
    print(f"\n{SEEDS} seeds; difference to all clients, its standard error")
    print("clients      accuracy  of the pair  rho of the pair   accuracy: difference    of the pair: difference")
    for name, runs in found.items():
        means = [np.nanmean([run[key] for run in runs]) for key in ("accuracy", "pair", "rho")]
        gaps = [np.array([a[key] - b[key] for a, b in zip(runs, found["all clients"], strict=True)])
                for key in ("accuracy", "pair")]  # fmt: skip
        said = "  ".join(f"{gap.mean():+.3f} ({gap.std(ddof=1) / np.sqrt(SEEDS):.3f})".rjust(22) for gap in gaps)
        print(f"{name:11}  {means[0]:8.3f}  {means[1]:11.3f}  {means[2]:15.3f}  {said}")


if __name__ == "__main__":
    centre()
    clients()
    selection()
