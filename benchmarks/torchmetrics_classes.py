"""``python -m benchmarks.torchmetrics_classes``: update and compute of our classes, compared with torchmetrics'.

Ratios of CPU times in one thread: calls of both libraries in turn on the same rows, least of several rounds each.
A ratio of 2 means that ours takes half of the time. Before it is timed, every value is compared with torchmetrics'.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
import torchmetrics

from cmfast.compat import torchmetrics as ours

NAMES = (
    *("Accuracy", "Precision", "Recall", "F1Score", "JaccardIndex"),
    *("MatthewsCorrCoef", "CohenKappa", "ConfusionMatrix", "Specificity", "StatScores"),
)
TASKS: dict[str, dict[str, Any]] = {
    "binary": {"task": "binary"},
    **{f"multiclass {C}": {"task": "multiclass", "num_classes": C} for C in (3, 10, 100)},
    "multilabel 5": {"task": "multilabel", "num_labels": 5},
}
ROWS = (32, 100, 500, 1000)
GIVEN = ("labels", "scores")


class Row(NamedTuple):
    """CPU seconds of one call of both libraries."""

    task: str
    name: str
    call: str
    n: int
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """The time of torchmetrics divided by ours."""
        return self.theirs / self.ours


def draw_rows(task: str, n: int, given: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return predictions, as labels or as scores, and targets; 70 % of the predictions equal the target."""
    generator = torch.Generator().manual_seed(0)
    options = TASKS[task]
    shape = (n, options["num_labels"]) if "num_labels" in options else (n,)
    C = options.get("num_classes", 2)
    target = torch.randint(C, shape, generator=generator)
    preds = torch.where(
        torch.rand(shape, generator=generator) < 0.7, target, torch.randint(C, shape, generator=generator)
    )
    if given == "scores":
        noise = torch.rand((*shape, C), generator=generator)
        scores = (noise + torch.nn.functional.one_hot(preds, C)).softmax(-1)
        preds = scores if "num_classes" in options else scores[..., 1]
    return preds, target


def make_metrics(task: str, name: str) -> tuple[Any, Any]:
    """Return our metric and torchmetrics', or collections of all metrics of the task; neither keeps its result."""
    names = [
        each for each in NAMES if name in (each, "collection") and (task[:10], each) != ("multilabel", "CohenKappa")
    ]
    made = []
    for module in (ours, torchmetrics):
        metrics: Any = [getattr(module, each)(**TASKS[task], compute_with_cache=False) for each in names]
        made.append(module.MetricCollection(metrics) if name == "collection" else metrics[0])
    return made[0], made[1]


def time_in_turn(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """Return the least CPU seconds per call of each function, over rounds in which all functions run in turn."""
    repeats = 1
    while True:
        begin = time.process_time()
        for _ in range(repeats):
            calls[0]()
        if time.process_time() - begin > seconds / 20 or repeats > 1000:
            break
        repeats *= 2
    least = [float("inf")] * len(calls)
    end = time.process_time() + seconds
    while time.process_time() < end:
        for k, call in enumerate(calls):
            begin = time.process_time()
            for _ in range(repeats):
                call()
            least[k] = min(least[k], (time.process_time() - begin) / repeats)
    return least


def check(mine: Any, other: Any) -> None:
    """Raise AssertionError unless both metrics have the same values."""
    a, b = mine.compute(), other.compute()
    for key in b if isinstance(b, dict) else [None]:
        torch.testing.assert_close(a if key is None else a[key], b if key is None else b[key], rtol=1e-5, atol=1e-6)


def measure(tasks: list[str], names: list[str], rows: list[int], seconds: float) -> Iterator[Row]:
    """Yield the times of every task, metric, call and number of rows."""
    for task in tasks:
        for name in names:
            if task.startswith("multilabel") and name == "CohenKappa":
                continue  # torchmetrics has none
            for n in rows:
                for given in GIVEN:
                    mine, other = make_metrics(task, name)
                    batch = draw_rows(task, n, given)
                    mine.update(*batch)
                    other.update(*batch)
                    check(mine, other)
                    pair = [lambda m=m, batch=batch: m.update(*batch) for m in (mine, other)]  # type: ignore[misc]
                    yield Row(task, name, f"update, {given}", n, *time_in_turn(pair, seconds))
                mine, other = make_metrics(task, name)
                mine.update(*batch)
                other.update(*batch)
                yield Row(task, name, "compute", n, *time_in_turn([mine.compute, other.compute], seconds))


def summarize(rows: list[Row]) -> Iterator[str]:
    """Yield a line per task, call and number of rows, for single metrics and the collection; then all that lose."""
    width = max((len(row.task) for row in rows), default=0)
    for task in dict.fromkeys(row.task for row in rows):
        for call in dict.fromkeys(row.call for row in rows):
            for n in dict.fromkeys(row.n for row in rows):
                same = [row for row in rows if (row.task, row.call, row.n) == (task, call, n)]
                single = [row for row in same if row.name != "collection"]
                text = f"{task:<{width}}  {call:<15}{n:>5} rows"
                if single:
                    worst = min(single, key=lambda row: row.ratio)
                    text += f"   one metric {worst.ratio:.2f} ({worst.name}) to {max(r.ratio for r in single):.2f} x,"
                    text += f" median {median(r.ratio for r in single):.2f}"
                    text += f" of {median(r.theirs for r in single) * 1e6:.0f} us"
                for row in same:
                    if row.name == "collection":
                        text += f"   collection {row.ratio:.2f} x of {row.theirs * 1e6:.0f} us"
                yield text
    slower = [row for row in rows if row.ratio < 1]
    yield f"slower than torchmetrics: {len(slower)} of {len(rows)}"
    for row in slower:
        yield (
            f"  {row.task} {row.name} {row.call} {row.n} rows: {row.ratio:.2f} x,"
            f" {row.ours * 1e6:.1f} us instead of {row.theirs * 1e6:.1f}"
        )


def main(argv: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torchmetrics_classes", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few rows, no time: every call runs, no figure counts")
    parser.add_argument("--task", choices=TASKS, action="append", help="these tasks alone (may be repeated)")
    parser.add_argument("--name", choices=[*NAMES, "collection"], action="append", help="these metrics alone")
    parser.add_argument("--rows", type=int, action="append", help="these numbers of rows alone")
    parser.add_argument("--seconds", type=float, default=0.1, help="CPU seconds for each pair of calls")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    options = parser.parse_args(argv)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        sizes = options.rows or ([20] if options.smoke else list(ROWS))
        names = options.name or [*NAMES, "collection"]
        rows = list(measure(options.task or list(TASKS), names, sizes, 0.001 if options.smoke else options.seconds))
    finally:
        torch.set_num_threads(threads)
    print(f"torch {torch.__version__}, torchmetrics {torchmetrics.__version__}, one thread")
    print(*summarize(rows), sep="\n")
    if options.json:
        options.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
