"""Draw ``difficulty.svg``: time per matrix against how nearly it falls into two. Needs ``pip install ".[bench]"``."""

import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import cmfast  # noqa: E402
from benchmarks import _rivals  # noqa: E402

C, B, TOL = 10, 20_000, 1e-9
GAPS = 10.0 ** np.arange(-0.3, -9.1, -0.5)
SWEEPS = 1_000_000


def matrices(gap: float) -> np.ndarray:
    """Return doubly stochastic matrices of two groups with second singular value ``1 - gap``, then rescaled."""
    rng = np.random.default_rng(0)
    half = np.kron(np.eye(2), np.ones((C // 2, C // 2))) / (C // 2)
    whole = (1 - gap) * half + gap / C
    return whole * np.exp(rng.normal(size=(B, C, 1))) * np.exp(rng.normal(size=(B, 1, C)))


def seconds(call, items: int) -> float:
    """Return the seconds for one matrix, the best of three calls or of one that takes a second."""
    best, begin = np.inf, time.perf_counter()
    for _ in range(3):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() - begin > 1:
            break
    return best / items


def main() -> None:
    """Measure and draw."""
    import matplotlib as mpl  # noqa: TID251

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "cmfast"
    from matplotlib import pyplot as plt  # noqa: TID251

    curves: dict[str, list[tuple[float, float]]] = {"cmfast": [], "NumPy, batched sweeps": [], "POT": []}
    _rivals.pot_sinkhorn(matrices(0.5)[:1], TOL)  # its import is no part of its time
    for gap in GAPS:
        M = matrices(gap)
        assert not cmfast.ipf(M, tol=TOL).status.any()
        curves["cmfast"].append((gap, seconds(lambda M=M: cmfast.ipf(M, tol=TOL), B)))
        for name, call, few in (
            ("NumPy, batched sweeps", _rivals.numpy_sinkhorn, 100),
            ("POT", _rivals.pot_sinkhorn, 1),
        ):
            if not curves[name] or curves[name][-1][1] * few < 3:  # a second for each tenfold: stop where it is minutes
                part = M[:few]
                curves[name].append((gap, seconds(lambda call=call, part=part: call(part, TOL), few)))
        print(f"1 - {gap:.0e}", *(f"{name} {points[-1][1]:.1e} s" for name, points in curves.items()), flush=True)
    figure, axes = plt.subplots(figsize=(7, 4))
    for name, points in curves.items():
        axes.loglog(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    axes.set(xlabel="1 - second singular value (harder to the left)", ylabel="seconds per 10 x 10 matrix")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(HERE / "difficulty.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
