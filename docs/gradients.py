"""Print the numbers of ``gradients.md`` and draw ``gradients.png``: a few seconds. Needs torch and matplotlib."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: TID251

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import cmfast  # noqa: E402
from benchmarks.gradients import sweeps  # noqa: E402

SPREADS = np.arange(1.0, 6.01, 1.0)
NUMBERS = (5, 10, 20, 50, 100)
MATRICES, C = 1000, 4


def logits(spread: float, dtype: Any = torch.float64) -> Any:
    """Return normal logarithms of cells."""
    generator = torch.Generator().manual_seed(0)
    return (spread * torch.randn((MATRICES, C, C), generator=generator, dtype=torch.float64)).to(dtype)


def errors(P: Any) -> Any:
    """Return by how much a row of every matrix misses one."""
    return (P.sum(-1) - 1.0).abs().amax(-1)


def slopes(layer: Any, L: Any) -> Any:
    """Return gradients in the logarithms, of the same numbers in the cells every time."""
    L = L.clone().requires_grad_()
    G = torch.randn(L.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.autograd.grad(layer(L), L, G)[0]


def exact(L: Any) -> Any:
    """Return the exact layer of logarithms."""
    return cmfast.bi_normalize(L, logits=True)


def kept(layer: Any) -> float:
    """Return the bytes per matrix of float32 that are kept for the way back, beside the input and the result."""
    L = logits(1.0, torch.float32).requires_grad_()
    seen: dict[int, int] = {}

    def note(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        P = layer(L)
    for known in (L, P):
        seen.pop(known.untyped_storage().data_ptr(), None)
    return sum(seen.values()) / MATRICES


def main() -> None:
    """Print and draw."""
    shares: dict[int, list[float]] = {number: [] for number in NUMBERS}
    slopes_off: dict[int, list[float]] = {number: [] for number in NUMBERS}
    print("spread | share of matrices with a row off by more than 1 % after sweeps | gradient off by more than 1 %")
    for spread in SPREADS:
        L = logits(spread)
        want = slopes(exact, L)
        for number in NUMBERS:
            shares[number].append(float((errors(sweeps(L.exp(), number)) > 0.01).double().mean()))
            found = slopes(lambda L, number=number: sweeps(L.exp(), number), L)
            gap = (found - want).abs().amax((-1, -2)) / want.abs().amax((-1, -2))
            slopes_off[number].append(float((gap > 0.01).double().mean()))
        rows, wrong = (" ".join(f"{of[number][-1]:6.1%}" for number in NUMBERS) for of in (shares, slopes_off))
        print(f"{spread:4.1f} | {rows} | {wrong} | {errors(exact(L)).max():.0e}")
    for number in NUMBERS:
        print(f"{number} sweeps keep {kept(lambda L, number=number: sweeps(L.exp(), number)):,.0f} bytes per matrix")
    print(f"the exact layer keeps {kept(exact):,.0f}")
    draw({"a row off by more than 1 %": shares, "the gradient off by more than 1 %": slopes_off})


def draw(panels: dict[str, dict[int, list[float]]]) -> None:
    """Draw the shares of matrices that a number of sweeps leaves off, against the spread."""
    from matplotlib.figure import Figure  # noqa: TID251

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axes, (what, shares) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        for number, share in shares.items():
            axes.plot(SPREADS, np.array(share) * 100, label=f"{number} sweeps")
        axes.plot(SPREADS, 0 * SPREADS, "k--", label="exact")
        axes.set(xlabel="standard deviation of the logits, 4 x 4", ylabel="% of matrices", title=what)
        axes.label_outer()
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(HERE / "gradients.png", dpi=120)


if __name__ == "__main__":
    main()
