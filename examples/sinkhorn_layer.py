"""Learn to sort by a bi-normalised layer, exact or by twenty sweeps."""

import torch

from cmfast import nn

N = 5  # numbers to sort


def sweeps(logits, number=20):
    """Scale the logits by some sweeps, recorded by autograd."""
    for _ in range(number):
        logits = logits - logits.logsumexp(-1, keepdim=True)
        logits = logits - logits.logsumexp(-2, keepdim=True)
    return logits.exp()


def learn(layer, steps=200):
    """Return the share of numbers in their place, and the worst row."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, N)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        X = torch.rand(64, N, 1)
        P = layer(model(X) * 5.0)
        loss = (P.mT @ X - X.sort(1).values).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    X = torch.rand(500, N, 1)
    with torch.no_grad():
        P = layer(model(X) * 5.0)
    right = (
        (P.argmax(2) == X.argsort(1).argsort(1)[..., 0]).float().mean()
    )
    return float(right), float((P.sum(-1) - 1.0).abs().max())


for name, layer in {
    "exact": nn.BiNormalize(logits=True),
    "20 sweeps": sweeps,
}.items():
    right, error = learn(layer)
    print(
        f"{name}: {right:.0%} of the numbers in their place, "
        f"a row off by {error:.0e} at most"
    )
