"""Sentences of a report from its facts; names of models and classes in them are isolated."""

import re
from typing import Any

import numpy as np

from cmfast._core import confused_pairs
from cmfast._core.markup import isolate
from cmfast._report._options import MOST_RESAMPLED_CLASSES
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
    "minus, to zoom; arrow keys move between cells. Correct predictions have a separate colour scale."
)
NO_MATRIX = "because its zeros allow no such matrix otherwise"
NOT_ACCURATE = "because its cells are not determined accurately otherwise"
SMOOTHING_REASONS = dict.fromkeys(
    ("LIMIT_ONLY", "INFEASIBLE", "ZERO_LINE"), NO_MATRIX
)  # by the status without smoothing
BALANCING = (
    "A confusion matrix mixes two things: which classes look alike to a model, and which are frequent in the data "
    "and in its predictions. Dividing by row sums removes the first frequency, dividing by column sums the second. "
    "Bi-normalisation scales rows and columns until all of them add up to 100 %, and shows which classes are alike. "
    "A rare class then counts as much as a frequent one, so look at the intervals."
)
CONFUSIONS = (
    "The largest confusions by count and when balanced. Both directions of two classes are added up unless they differ "
    "significantly; balanced shares are the mean of both. Intervals hold for each line separately. Because the largest "
    "were selected, they look a little larger than they are, and new samples may change their order; the significant "
    "confusions are listed at the top."
)
CLASSES = (
    "Recall is the share of a class that is predicted correctly, precision the share of its predictions that is right; "
    "balanced is the diagonal of the bi-normalised matrix: both at once, as if all classes were equally frequent and "
    "equally often predicted."
)
SOURCE = (
    "Bi-normalisation: Erbani et al., On the Normalization of Confusion Matrices: Methods and Geometric "
    "Interpretations."
)
GEOMETRY = (
    "How much true and predicted classes overlap in the space of the embeddings, with the weights of the balanced "
    "matrix. Compare the overlap with the guaranteed part and with that of permuted labels."
)


def write_lead(facts: Facts) -> str:
    """Return the lead: classes, samples and the significant confusions."""
    of = f"{len(facts['labels']):,} classes, {facts['samples']:,} samples"
    return f"{of}. {_write_main_confusions(facts['models'][0])}."


def explain_matrix(facts: Facts) -> str:
    """State how to use the matrix, and which classes it shows if not all."""
    if facts["shown"] == len(facts["labels"]):
        return MATRIX
    return (
        f"{MATRIX} Of the {len(facts['labels']):,} classes it shows the {facts['shown']:,} with most confused samples; "
        "shares refer to all classes."
    )


def _write_main_confusions(one: Facts) -> str:
    """State which confusions are significant, by count and when balanced."""
    found, name = one["standing"], isolate(one["name"])
    if not found["confused"]:
        return f"{name} has no confusions"
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


def explain_balancing(facts: Facts) -> list[str]:
    """State what bi-normalisation does, for this matrix, and what was added to it."""
    one = facts["models"][0]
    support, predicted = one["classes"]["support"], one["classes"]["predicted"]
    most, least = int(support.max()), int(support.min())
    labels = facts["labels"]
    if most == least:
        sizes = f"Here all classes have the same number of samples, {most:,}"
    else:
        large, small = isolate(labels[int(support.argmax())]), isolate(labels[int(support.argmin())])
        sizes = f"Here the largest class, {large}, has {most:,} samples, and the smallest, {small}, has {least:,}"
    most_predicted = int((predicted - support).argmax())
    said, true = int(predicted[most_predicted]), int(support[most_predicted])
    answers = (
        f"; {isolate(one['name'])} predicts {isolate(labels[most_predicted])} {said:,} times; it is the true class "
        f"{true:,} times"
        if said > true
        else ""
    )
    paragraphs = [BALANCING, f"{sizes}{answers}."]
    for model in facts["models"]:
        if model["smoothing"]:
            reason = "as requested" if model["asked"] else SMOOTHING_REASONS.get(model["status"], NOT_ACCURATE)
            added = f"{model['smoothing']:.3g} was added to every cell beforehand"
            paragraphs.append(f"{isolate(model['name'])}: {added}, {reason}.")
        if not model["settled"]:
            paragraphs.append(
                f"{isolate(model['name'])}: bi-normalisation did not converge, so balanced values are approximate."
            )
    return paragraphs


def explain_rank_changes(one: Facts) -> str:
    """State whether bi-normalisation changes a rank significantly; empty if a table lists changes."""
    found = one["standing"]
    if not found["judged"]:
        return (
            f"{isolate(one['name'])}: rank changes by balancing are tested for at most "
            f"{MOST_RESAMPLED_CLASSES} classes and without smoothing."
        )
    return "" if found["moved"] else f"{isolate(one['name'])}: no confusion changes its rank significantly."


def explain_intervals(facts: Facts) -> str:
    """State what the intervals cover."""
    return (
        f"In {100 * facts['confidence_level']:g} % of test sets like this one the interval contains the true value. "
        "Intervals cover the chance in the samples, not that of another training."
    )


def explain_comparison(one: Facts) -> str:
    """State which of two models is better, and how often only one is correct."""
    first, second = (isolate(name) for name in one["models"])
    only = one["right"]
    one_alone, other_alone = int(only["only_first"]), int(only["only_second"])
    said = f"Only {first} is correct in {one_alone:,} samples, only {second} in {other_alone:,}"
    verdict, balanced = (
        re.sub("the (first|second)", lambda which: {"first": first, "second": second}[which[1]], one["verdicts"][name])
        for name in ("accuracy", "balanced_accuracy")
    )
    more = sum(DECIDES in text for text in one["verdicts"].values()) - (DECIDES in verdict) - (DECIDES in balanced)
    of = f"{more} more metric{'s' * (more > 1)}"
    others = f" Interval and test contradict each other in {of}; {DECIDES}." if more else ""
    return (
        f"{said}. Accuracy: {verdict}. Balanced accuracy: {balanced}.{others} Differences are "
        "paired: on the same samples."
    )


def explain_groups(one: Facts) -> str:
    """State the groups with the lowest and the highest accuracy."""
    said = []
    for name, model in one["models"].items():
        values = model["metrics"]["accuracy"]["estimate"]
        if np.isnan(values).all():
            continue
        worst, best = int(np.nanargmin(values)), int(np.nanargmax(values))
        names = [isolate(one["groups"][g]) for g in (worst, best)]
        said.append(
            f"{isolate(name)} has its lowest accuracy in {names[0]} ({100 * values[worst]:.1f} %) and its highest in "
            f"{names[1]} ({100 * values[best]:.1f} %)"
        )
    return "; ".join(said) + ". " * bool(said) + "Groups with few samples have wide intervals."


def explain_sets(one: Facts) -> str:
    """State the nominal and the observed coverage of the prediction sets."""
    return (
        f"Each set contains its label with a probability of {100 * (1 - one['alpha']):g} %, calibrated on "
        f"{one['calibration']:,} samples; of the {one['samples']:,} others {100 * one['coverage']:.1f} % of the sets "
        f"contain it, with {one['mean_size']:.2f} labels on average. Classes that share sets more often than by chance "
        "are those that the model cannot tell apart."
    )


def explain_geometry(facts: Facts, *, drawn: bool) -> str:
    """State how to read the geometric matrix, and where it is shown."""
    return f"{GEOMETRY} Select it above; it is that of {isolate(facts['models'][0]['name'])}." if drawn else GEOMETRY


def describe_page(facts: Facts) -> str:
    """State what the page contains."""
    return (
        f"This page contains counts, not samples, and loads no other files. {facts['samples']:,} samples were counted."
    )
