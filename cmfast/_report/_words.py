"""What the numbers of a report say, in plain sentences, whichever way they turned out."""

from typing import Any

import numpy as np

Facts = dict[str, Any]

METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "precision_macro": "precision (macro)",
    "f1_macro": "F1 (macro)",
    "mcc": "MCC",
    "kappa": "Cohen's kappa",
}
MATRIX = (
    "Rows are the truth, columns the prediction. Point at a cell for its numbers; drag over cells, or press plus and "
    "minus, to zoom; arrow keys walk from cell to cell. Right answers have a colour scale of their own."
)
BALANCING = (
    "A confusion matrix mixes two things: which classes look alike to a model, and which are frequent, in the data "
    "and in its answers. Dividing rows removes the one, dividing columns the other. Bi-normalisation scales rows and "
    "columns until all of them add up to 100 %, and what is left is who is confused with whom. A rare class then "
    "counts as much as a frequent one, so look at the intervals."
)
CONFUSIONS = (
    "The largest by count and the largest when balanced. Intervals are of each confusion by itself; that these were "
    "picked because they are large makes them look a little larger than they are."
)
CLASSES = (
    "Recall is how much of a class is found, precision how much of what is called so is; balanced is the diagonal of "
    "the bi-normalised matrix: both at once, as if all classes were equally frequent and equally often predicted."
)
GEOMETRY = (
    "How far the clouds of a true class and of a predicted class overlap where the embeddings place them, by the same "
    "weights as the balanced matrix. What counts is how far the overlap stands above what was guaranteed and above "
    "permuted labels."
)


def lead(facts: Facts) -> str:
    """Say what this page is about, with the largest confusion."""
    of = f"{len(facts['labels']):,} classes, {facts['samples']:,} samples"
    one = facts["models"][0]
    if not one["confusions"]:
        return f"{of}. {one['name']} confuses nothing."
    by_count = min(one["confusions"], key=lambda c: c["rank"] or len(facts["labels"]) ** 2 + 1)
    balanced = max(one["confusions"], key=lambda c: c["balanced"])
    said = f"{of}. Most often {one['name']} takes {by_count['true']} for {by_count['predicted']}"
    if by_count is balanced:
        return f"{said}, which is also what it confuses most when all classes count alike."
    return (
        f"{said}, but that is also a matter of how frequent they are: when all classes count alike, what it confuses "
        f"most is {balanced['true']} with {balanced['predicted']}."
    )


def balancing(facts: Facts) -> list[str]:
    """Say what bi-normalisation does, to this matrix, and what was added to it."""
    one = facts["models"][0]
    support, predicted = one["classes"]["support"], one["classes"]["predicted"]
    most, least = int(support.max()), int(support.min())
    labels = facts["labels"]
    if most == least:
        sizes = f"Here all classes have the same number of samples, {most:,}"
    else:
        large, small = labels[int(support.argmax())], labels[int(support.argmin())]
        sizes = f"Here the largest class, {large}, has {most:,} samples, and the smallest, {small}, has {least:,}"
    asked = int((predicted - support).argmax())
    said, true = int(predicted[asked]), int(support[asked])
    answers = (
        f"; {one['name']} says {said:,} times {labels[asked]}, which is true {true:,} times" if said > true else ""
    )
    paragraphs = [BALANCING, f"{sizes}{answers}."]
    for model in facts["models"]:
        if model["smoothing"]:
            reason = "as was asked" if model["asked"] else "as its zeros leave no such matrix otherwise"
            added = f"{model['smoothing']:.3g} was added to every cell beforehand"
            paragraphs.append(f"{model['name']}: {added}, {reason}.")
    return paragraphs


def moved(confusions: list[Facts]) -> list[Facts]:
    """Return the confusions whose rank changes most between counts and balanced shares."""
    far = len(confusions) + 1

    def moves(one: Facts) -> int:
        return abs(int(one["rank"] or far) - int(one["rank_balanced"] or far))

    return [one for one in sorted(confusions, key=moves, reverse=True) if moves(one)][:8]


def intervals(facts: Facts) -> str:
    """Say what intervals are of."""
    return (
        f"Of test sets like this one, {100 * facts['level']:g} % have intervals that hold the true value. They know "
        "the chance in the samples alone, not that of another training."
    )


def comparison(one: Facts) -> str:
    """Say which of two is better, and how often one alone is right."""
    first, second = one["models"]
    only = one["right"]
    one_alone, other_alone = int(only["only_first"]), int(only["only_second"])
    said = f"Only {first} is right in {one_alone:,} samples, only {second} in {other_alone:,}"
    verdict = one["verdicts"]["accuracy"].replace("the first", first).replace("the second", second)
    balanced = one["verdicts"]["balanced_accuracy"].replace("the first", first).replace("the second", second)
    return f"{said}. Accuracy: {verdict}. Balanced accuracy: {balanced}. Differences are of the same samples, paired."


def groups(one: Facts) -> str:
    """Say which group is found worst."""
    said = []
    for name, model in one["models"].items():
        values = model["metrics"]["accuracy"]["estimate"]
        if np.isnan(values).all():
            continue
        worst, best = int(np.nanargmin(values)), int(np.nanargmax(values))
        names = one["groups"]
        said.append(
            f"{name} is right least often in {names[worst]} ({100 * values[worst]:.1f} %) and most often in "
            f"{names[best]} ({100 * values[best]:.1f} %)"
        )
    return "; ".join(said) + ". " * bool(said) + "Groups of few samples have wide intervals."


def sets(one: Facts) -> str:
    """Say what sets promise, and what they held."""
    return (
        f"Each set holds its label with a probability of {100 * (1 - one['alpha']):g} %, calibrated on "
        f"{one['calibration']:,} samples; of the {one['samples']:,} others {100 * one['coverage']:.1f} % of the sets "
        f"hold it, with {one['mean_size']:.2f} labels on average. Classes that share sets more often than by chance "
        "are those that the model cannot tell apart."
    )


def geometry(facts: Facts, *, drawn: bool) -> str:
    """Say how to read the geometric matrix, and where it is seen."""
    return f"{GEOMETRY} It is one of those to choose above, of {facts['models'][0]['name']}." if drawn else GEOMETRY


def making(facts: Facts) -> str:
    """Say what is in the page."""
    return (
        f"This page holds counts, not samples, and needs nothing but itself. {facts['samples']:,} samples were counted."
    )
