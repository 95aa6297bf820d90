"""Draw the first picture of each article from its numbers: ``python docs/articles.py``."""

import json
import re
from collections import Counter
from pathlib import Path

import matplotlib as mpl  # noqa: TID251
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt  # noqa: TID251

HERE = Path(__file__).parent
BLUE, LIGHT, GREY, ORANGE = "#2a6fbb", "#9cc3e6", "#c4cad0", "#e08214"


def rows(page: str, head: str) -> list[list[str]]:
    """Return the cells of the table of a page whose first row begins with some text."""
    lines = (HERE / page).read_text(encoding="utf-8").splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(f"| {head}"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip(" *") for cell in line.strip("|").split("|")])
    return found


def stacked(name: str, names: list[str], parts: dict[str, tuple[str, list[int]]], label: str) -> None:
    """Draw horizontal bars in parts, each with its colour and numbers."""
    figure, ax = plt.subplots(figsize=(8, 0.9 + 0.27 * len(names)), layout="constrained")
    start = np.zeros(len(names))
    for part, (color, values) in parts.items():
        bars = ax.barh(names, values, left=start, color=color, label=part)
        ax.bar_label(bars, [f"{value or ''}" for value in values], label_type="center", fontsize=8)
        start += values
    ax.invert_yaxis()
    ax.set_xlabel(label)
    figure.legend(frameon=False, loc="outside upper center", ncols=len(parts))
    ax.spines[["top", "right"]].set_visible(False)
    save(figure, name)


def save(figure: plt.Figure, name: str) -> None:
    """Write a picture."""
    figure.savefig(HERE / f"{name}.png", dpi=80, metadata={"Software": None})


def rivals() -> None:
    """Draw how many answers of each tool were right."""
    table = rows("rivals.md", "tool | version")
    right, unsure, wrong = ([int(row[k]) for row in table] for k in (4, 5, 6))
    parts = {"right": (LIGHT, right), "unsure": (GREY, unsure), "wrong without a warning": (ORANGE, wrong)}
    stacked("rivals", [row[0] for row in table], parts, "cases")


def reproduced() -> None:
    """Draw how many claims of each paper hold."""
    kept = json.loads((HERE / "reproduced.json").read_text(encoding="utf-8"))
    colors = {"holds": LIGHT, "in part": GREY, "fails": ORANGE, "undecided": "#eceff1"}
    counted = []
    for paper in kept.values():
        verdicts = [claim["verdict"] for claim in paper["claims"]]
        counted.append(Counter(word if word in colors else "in part" for word in verdicts))
    parts = {word: (color, [found[word] for found in counted]) for word, color in colors.items()}
    parts = {word: part for word, part in parts.items() if any(part[1])}
    stacked("reproduced", [f"cmfast reproduce {name}" for name in kept], parts, "claims")


def simulated_teams() -> None:
    """Draw the widths of intervals of the counts, as published and with everything drawn."""
    text = (HERE / "simulated_teams.md").read_text(encoding="utf-8")
    names = re.search(r"^\| samples \| \| (.*) \|$", text, re.M)[1].split(" | ")
    figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
    for shift, scheme, color in ((-0.2, "expected_rounded", GREY), (0.2, "multinomial", BLUE)):
        cells = re.findall(rf'^\|[^|]*\| `"{scheme}"` \| (.*) \|$', text, re.M)[-1].split(" | ")
        ax.bar(np.arange(len(names)) + shift, [float(cell.split(" / ")[0]) for cell in cells], 0.4, color=color)
        ax.bar(0, 0, color=color, label=f'"{scheme}"')
    ax.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names], fontsize=8)
    ax.set_ylabel("width of the 95 % interval\nof 1,000 samples")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    save(figure, "simulated_teams")


def cuda() -> None:
    """Draw the predicted times of jobs on two devices, by the lower and upper end of each range."""
    found = []
    for job, _, _, items, *times in rows("cuda.md", "job | bytes per item"):
        ends = [re.fullmatch(r"([\d.]+)(?: to ([\d.]+))? ms", time) for time in times[:2]]
        if all(ends) and not job.startswith("the same"):
            found.append((f"{job.replace('`', '')}: {items}", [(float(e[1]), float(e[2] or e[1])) for e in ends]))
    figure, ax = plt.subplots(figsize=(8, 1 + 0.3 * len(found)), layout="constrained")
    for k, (shift, color, device) in enumerate(((-0.12, GREY, "H100"), (0.12, BLUE, "H200"))):
        for y, (_, times) in enumerate(found):
            low, high = times[k]
            ax.plot([low, high], [y + shift] * 2, color=color, marker="o", markersize=4, linewidth=3)
        ax.plot([], color=color, marker="o", label=device)
    ax.set_yticks(range(len(found)), [name for name, _ in found], fontsize=8)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlabel("predicted milliseconds; none of them is measured yet")
    ax.legend(frameon=False)
    save(figure, "cuda")


if __name__ == "__main__":
    for draw in (rivals, reproduced, simulated_teams, cuda):
        draw()
