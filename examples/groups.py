"""Evaluate four thousand groups of a table, as a table again."""

import numpy as np
import pandas as pd

import cmfast

rng = np.random.default_rng(0)
n = 400_000
frame = pd.DataFrame(
    {
        "model": rng.integers(0, 200, n),
        "site": rng.integers(0, 20, n),
        "label": rng.integers(0, 4, n),
    }
)
skill = 0.6 + 0.0015 * frame["model"]
frame["guess"] = np.where(
    rng.random(n) < skill, frame["label"], rng.integers(0, 4, n)
)
frame[["label", "guess"]] = (
    frame[["label", "guess"]]
    .map(["ant", "bee", "cat", "dog"].__getitem__)
    .astype("category")
)

counts = cmfast.by(
    frame, ["model", "site"], y_true="label", y_pred="guess"
)
table = counts.table(["accuracy", "f1_macro", "mcc"])
print(table.sort_values("mcc").head(3).to_string(index=False))

models = cmfast.by(frame, "model", y_true="label", y_pred="guess").table(
    ["mcc"]
)
best = models.sort_values("mcc")["model"].iloc[-1]
print(
    f"{len(table):,} groups of {n:,} rows; "
    f"the best model over all sites: {best}"
)
