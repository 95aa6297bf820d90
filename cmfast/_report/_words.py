"""What the numbers of a report say, in plain sentences, whichever way they turned out; names in them are isolated."""

import re
from typing import Any

import numpy as np

from cmfast._core import confused_pairs
from cmfast._core.markup import isolate
from cmfast._report._asked import MOST_RESAMPLED_CLASSES
from cmfast.uncertainty._comparison import DECIDES

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
NO_MATRIX = "as its zeros leave no such matrix otherwise"
NOT_ACCURATE = "as its cells are not determined to enough digits otherwise"
OF_SMOOTHING = dict.fromkeys(("LIMIT_ONLY", "INFEASIBLE", "ZERO_LINE"), NO_MATRIX)  # by the status without it
BALANCING = (
    "A confusion matrix mixes two things: which classes look alike to a model, and which are frequent, in the data "
    "and in its answers. Dividing rows removes the one, dividing columns the other. Bi-normalisation scales rows and "
    "columns until all of them add up to 100 %, and what is left is who is confused with whom. A rare class then "
    "counts as much as a frequent one, so look at the intervals."
)
CONFUSIONS = (
    "The largest by count and the largest when balanced, of every two classes both ways together: of the samples of "
    "both, and the mean of both balanced shares. The two directions are told apart only where they differ beyond "
    "chance. Intervals are of each line by itself; that these were picked because they are large makes them look a "
    "little larger than they are, and their order need not be that of the next samples: what stands out is said at "
    "the top."
)
CLASSES = (
    "Recall is how much of a class is found, precision how much of what is called so is; balanced is the diagonal of "
    "the bi-normalised matrix: both at once, as if all classes were equally frequent and equally often predicted."
)
SOURCE = (
    "Bi-normalisation: Erbani et al., On the Normalization of Confusion Matrices: Methods and Geometric "
    "Interpretations."
)
GEOMETRY = (
    "How far the clouds of a true class and of a predicted class overlap where the embeddings place them, by the same "
    "weights as the balanced matrix. What counts is how far the overlap stands above what was guaranteed and above "
    "permuted labels."
)


def lead(facts: Facts) -> str:
    """Say what this page is about, with the confusions that stand out."""
    of = f"{len(facts['labels']):,} classes, {facts['samples']:,} samples"
    return f"{of}. {_standing(facts['models'][0])}."


def matrix(facts: Facts) -> str:
    """Say how to read the picture, and which classes it has where it has not all."""
    if facts["shown"] == len(facts["labels"]):
        return MATRIX
    return (
        f"{MATRIX} Of the {len(facts['labels']):,} classes it has the {facts['shown']:,} of which most samples are "
        "confused; shares are of all classes."
    )


def _standing(one: Facts) -> str:
    """Say which confusions stand out beyond chance, by count and when all classes count alike."""
    found, name = one["standing"], isolate(one["name"])
    if not found["confused"]:
        return f"{name} confuses nothing"
    pairs = [
        confused_pairs.describe_pair(
            isolate(p["first"]), isolate(p["second"]), int(p["forth"]), int(p["back"]), told=p["told"]
        )
        for p in found["pairs"]
    ]
    if found["n_pairs"] == 1:
        return f"{name} confuses {pairs[0]}"
    balanced = found["balanced"]
    alike = f"{isolate(balanced['first'])} and {isolate(balanced['second'])}" if balanced else ""
    if not pairs:
        said = f"No confusion of {name} stands out"
        return f"{said}, but when all classes count alike, {alike} are confused most" if alike else said
    if len(pairs) > 1:
        said = f"{len(pairs)} confusions of {name} stand out: {'; '.join(pairs)}"
        return f"{said}; when all classes count alike, {alike} are confused most" if alike else said
    said = f"Most often {name} confuses {pairs[0]}"
    first = found["pairs"][0]
    if not alike:
        return said
    if (first["first"], first["second"]) == (balanced["first"], balanced["second"]):
        return f"{said}, which is also what it confuses most when all classes count alike"
    return (
        f"{said}, but that is also a matter of how frequent they are: when all classes count alike, {alike} are "
        "confused most"
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
        large, small = isolate(labels[int(support.argmax())]), isolate(labels[int(support.argmin())])
        sizes = f"Here the largest class, {large}, has {most:,} samples, and the smallest, {small}, has {least:,}"
    asked = int((predicted - support).argmax())
    said, true = int(predicted[asked]), int(support[asked])
    answers = (
        f"; {isolate(one['name'])} says {said:,} times {isolate(labels[asked])}, which is true {true:,} times"
        if said > true
        else ""
    )
    paragraphs = [BALANCING, f"{sizes}{answers}."]
    for model in facts["models"]:
        if model["smoothing"]:
            reason = "as was asked" if model["asked"] else OF_SMOOTHING.get(model["status"], NOT_ACCURATE)
            added = f"{model['smoothing']:.3g} was added to every cell beforehand"
            paragraphs.append(f"{isolate(model['name'])}: {added}, {reason}.")
        if not model["settled"]:
            paragraphs.append(
                f"{isolate(model['name'])}: balancing ended before all rows and columns added up to one, so balanced "
                "numbers are approximate."
            )
    return paragraphs


def moved(one: Facts) -> str:
    """Say whether balancing changes the rank of a confusion beyond chance."""
    found = one["standing"]
    if not found["judged"]:
        return (
            f"{isolate(one['name'])}: whether balancing changes ranks beyond chance is judged of at most "
            f"{MOST_RESAMPLED_CLASSES} classes, where nothing has to be added."
        )
    return "" if found["moved"] else f"{isolate(one['name'])}: no confusion changes its rank beyond chance."


def intervals(facts: Facts) -> str:
    """Say what intervals are of."""
    return (
        f"Of test sets like this one, {100 * facts['level']:g} % have intervals that hold the true value. They know "
        "the chance in the samples alone, not that of another training."
    )


def comparison(one: Facts) -> str:
    """Say which of two is better, and how often one alone is right."""
    first, second = (isolate(name) for name in one["models"])
    only = one["right"]
    one_alone, other_alone = int(only["only_first"]), int(only["only_second"])
    said = f"Only {first} is right in {one_alone:,} samples, only {second} in {other_alone:,}"
    verdict, balanced = (
        re.sub("the (first|second)", lambda which: {"first": first, "second": second}[which[1]], one["verdicts"][name])
        for name in ("accuracy", "balanced_accuracy")
    )
    more = sum(DECIDES in text for text in one["verdicts"].values()) - (DECIDES in verdict) - (DECIDES in balanced)
    of = f"{more} more metric{'s' * (more > 1)}"
    others = f" Interval and test contradict each other in {of}; {DECIDES}." if more else ""
    return (
        f"{said}. Accuracy: {verdict}. Balanced accuracy: {balanced}.{others} Differences are of the same samples, "
        "paired."
    )


def groups(one: Facts) -> str:
    """Say which group is found worst."""
    said = []
    for name, model in one["models"].items():
        values = model["metrics"]["accuracy"]["estimate"]
        if np.isnan(values).all():
            continue
        worst, best = int(np.nanargmin(values)), int(np.nanargmax(values))
        names = [isolate(one["groups"][g]) for g in (worst, best)]
        said.append(
            f"{isolate(name)} is right least often in {names[0]} ({100 * values[worst]:.1f} %) and most often in "
            f"{names[1]} ({100 * values[best]:.1f} %)"
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
    return (
        f"{GEOMETRY} It is one of those to choose above, of {isolate(facts['models'][0]['name'])}."
        if drawn
        else GEOMETRY
    )


def making(facts: Facts) -> str:
    """Say what is in the page."""
    return (
        f"This page holds counts, not samples, and needs nothing but itself. {facts['samples']:,} samples were counted."
    )
