"""Add the counts of three hospitals, which travel as JSON."""

import numpy as np

import cmfast

rng = np.random.default_rng(0)
seen = {
    "north": ["benign", "malignant"],
    "south": ["benign", "malignant", "unclear"],
    "west": ["malignant", "unclear"],
}

letters = []
for labels in seen.values():  # at each hospital
    truth = rng.choice(labels, 5000)
    guess = np.where(
        rng.random(5000) < 0.9, truth, rng.choice(labels, 5000)
    )
    letters.append(
        cmfast.ConfusionCounts.from_labels(truth, guess).to_json()
    )

# at the centre
parts = [cmfast.ConfusionCounts.from_json(letter) for letter in letters]
every = cmfast.ConfusionCounts.merge(parts)
print(every.to_pandas())
print(
    f"{sum(map(len, letters))} bytes travelled; "
    f"macro F1 of all: {float(every.compute('f1_macro')):.3f}"
)
for name, part in zip(seen, parts, strict=True):
    print(f"{name}: {float(part.compute('f1_macro')):.3f}")
assert every.matrix.sum() == 15_000
