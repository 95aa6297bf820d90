"""Claims of the glossary about its own matrices, computed from the printed counts."""

import numpy as np

from cmfast import metrics
from cmfast._pages.parts import Claim
from cmfast._reproduce.glossary._matrices import (
    DEFECT_NAMES,
    DEFECTS,
    FOUR_NAMES,
    FOUR_SURFACES,
    GRADES,
    SURFACES,
    TRIVIAL,
)

SWAPPED = -1 + 1e-12
THREE, FOUR, GRADED, DEFECTIVE = (f"matrix of {name}" for name in ("3 surfaces", "4 surfaces", "grades", "defects"))


def _claim_printed(text: str, where: str, found: dict[str, float], printed: dict[str, float]) -> Claim:
    """Return a claim on printed values: it holds if all equal the computed values after rounding."""
    wrong = {
        name for name, value in printed.items() if abs(found[name] - value) > 0.5001 * 10.0 ** -_count_decimals(value)
    }
    said = ", ".join(
        f"{name} {found[name]:.3f}" + (f" (printed {printed[name]})" if name in wrong else "") for name in printed
    )
    return Claim(text, where, "fails" if wrong else "holds", said, {"found": found, "printed": printed})


def _count_decimals(value: float) -> int:
    """Return the number of decimals of a printed value."""
    return len(f"{value}".partition(".")[2])


def claim_three_surfaces() -> list[Claim]:
    """Judge the claims on asphalt, concrete and composite."""
    found = {"accuracy": float(metrics.accuracy(SURFACES))}
    for average in ("macro", "micro", "weighted"):
        found[f"precision_{average}"] = float(metrics.precision(SURFACES, average=average))
    by_class = {
        f"precision of {name}": float(v) for name, v in zip(FOUR_NAMES, metrics.precision(SURFACES), strict=False)
    }
    printed = {"precision of asphalt": 0.913, "precision of concrete": 0.889, "precision of composite": 0.889}
    value = metrics.most_confused(SURFACES, 2).value
    f1, low, high = (np.asarray(metric(DEFECTS)) for metric in (metrics.f1, metrics.precision, metrics.recall))
    between = bool(((np.minimum(low, high) <= f1) & (f1 <= np.maximum(low, high))).all())
    return [
        _claim_printed("Overall accuracy is 90 %.", THREE, found, {"accuracy": 0.9}),
        _claim_printed(
            "Macro precision is 0.897, of 0.913, 0.889 and 0.889; micro precision equals accuracy, 0.900; weighted "
            "precision is 0.900.",
            THREE,
            {**by_class, **found},
            {**printed, "precision_macro": 0.897, "precision_micro": 0.9, "precision_weighted": 0.9},
        ),
        Claim(
            "F1 always lies between precision and recall.",
            "metrics of a class",
            "holds" if between else "fails",
            "in each of the six classes of defects; a harmonic mean lies between its terms",
            {"f1": f1, "precision": low, "recall": high},
        ),
        Claim(
            "Composite is confused with asphalt nearly double as often as with concrete.",
            THREE,
            "holds" if value[0] > 1.75 * value[1] else "fails",
            f"{value[0]:g} to {value[1]:g}: {value[0] / value[1]:g} times",
            {"counts": value},
        ),
    ]


def claim_averages_and_mcc() -> list[Claim]:
    """Judge the claims on averages, the accuracy paradox and the MCC."""
    found = {
        name: float(metrics.compute(TRIVIAL, name)) for name in ("accuracy", "balanced_accuracy", "recall_weighted")
    }
    cycle = float(metrics.mcc([[0, 5, 0], [0, 0, 5], [5, 0, 0]]))
    swapped = float(metrics.mcc([[0, 3], [4, 0]]))
    where = "holds where two classes are exactly swapped" if swapped < SWAPPED else "fails"
    moved = SURFACES + np.array([[0, 4, -4], [-4, 0, 4], [4, -4, 0]])
    both = float(metrics.mcc(SURFACES)), float(metrics.mcc(moved))
    return [
        _claim_printed(
            "A model that always says intact has accuracy 95 %, recall of cracks 0 and balanced accuracy 0.50.",
            "accuracy paradox",
            {**found, "recall of cracks": float(metrics.recall(TRIVIAL)[1])},
            {"accuracy": 0.95, "recall of cracks": 0.0, "balanced_accuracy": 0.5},
        ),
        Claim(
            "Weighted averages account for class frequency without hiding poor performance on minor classes.",
            "averaging methods",
            "fails" if found["recall_weighted"] > 0.9 > found["balanced_accuracy"] else "holds",
            f"weighted recall of the model that finds no crack is {found['recall_weighted']:.2f}, its accuracy: "
            "weighted "
            "recall always is",
            found,
        ),
        Claim(
            "MCC is -1 for total disagreement.",
            "MCC",
            "holds" if cycle < SWAPPED else where,
            f"three classes, each taken for the next: {cycle:g}",
            {"cycle_of_three": cycle, "two_swapped": swapped},
        ),
        Claim(
            "MCC uses all cells of the matrix.",
            "MCC",
            "fails" if abs(both[0] - both[1]) < 1e-12 else "holds",
            f"of the diagonal and the margins alone: {both[0]:.4f} before and after 12 samples move beside the "
            "diagonal",
            {"before": both[0], "after": both[1], "moved": moved},
        ),
        Claim(
            "The printed formula defines the MCC of many classes.",
            "MCC",
            "fails",
            "its sums have free indices, so it is no number; Gorodkin's is (n a - sum t p) / "
            "sqrt((n^2 - sum t^2)(n^2 - sum p^2))",
        ),
    ]


def claim_four_surfaces() -> list[Claim]:
    """Judge the claims on the surfaces with gravel."""
    recall = {name: float(v) for name, v in zip(FOUR_NAMES, metrics.recall(FOUR_SURFACES), strict=True)}
    shares = np.asarray(metrics.confusion_fractions(FOUR_SURFACES))
    first = np.where(np.eye(4, dtype=bool), -1, shares).argmax(axis=1)
    as_said = shares[2, 0] == 0.12 and shares[2, 1] == 0.07 and first[:3].tolist() == [2, 2, 0]
    return [
        _claim_printed(
            "Recall is 94.0 %, 93.0 %, 78.0 % and 96.0 %.",
            FOUR,
            recall,
            {"asphalt": 0.94, "concrete": 0.93, "composite": 0.78, "gravel": 0.96},
        ),
        Claim(
            "Asphalt and concrete are most often taken for composite; composite for asphalt (12 %), then concrete "
            "(7 %).",
            FOUR,
            "holds" if as_said else "fails",
            ", ".join(
                f"{a} as {FOUR_NAMES[b]} {shares[FOUR_NAMES.index(a), b]:.1%}"
                for a, b in zip(FOUR_NAMES[:3], first, strict=False)
            ),
            {"shares": shares},
        ),
    ]


def claim_grades() -> list[Claim]:
    """Judge the claims on the four grades."""
    apart = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    errors, adjacent = int(GRADES[apart > 0].sum()), int(GRADES[apart == 1].sum())
    pairs = [int(GRADES[k, k + 1] + GRADES[k + 1, k]) for k in range(3)]
    shares = np.asarray(metrics.confusion_fractions(GRADES))
    kappas = {name: float(metrics.compute(GRADES, name)) for name in ("kappa", "kappa_linear", "kappa_quadratic")}
    return [
        Claim(
            "Errors are concentrated on adjacent grades; good is never called failed, failed never good.",
            GRADED,
            "holds" if 2 * adjacent > errors and not (GRADES[0, 3] or GRADES[3, 0]) else "fails",
            f"{adjacent} of {errors} errors are adjacent; in both corners {GRADES[0, 3]} and {GRADES[3, 0]}",
            {"errors": errors, "adjacent": adjacent},
        ),
        Claim(
            "64 confusions of good and fair, 54 of fair and poor, 34 of poor and failed.",
            GRADED,
            "holds" if pairs == [64, 54, 34] else "fails",
            ", ".join(map(str, pairs)),
            {"pairs": pairs},
        ),
        Claim(
            "The model is conservative: it downgrades good sections.",
            GRADED,
            "holds" if shares[0, 1] > shares[1, 0] else "fails",
            f"fair called good {shares[1, 0]:.0%}, good called fair {shares[0, 1]:.0%}: the unsafe side is the former",
            {"fair_called_good": shares[1, 0], "good_called_fair": shares[0, 1]},
        ),
        _claim_printed("Unweighted kappa is approximately 0.72.", GRADED, kappas, {"kappa": 0.72}),
        _claim_printed("Linearly weighted kappa is approximately 0.78.", GRADED, kappas, {"kappa_linear": 0.78}),
        Claim(
            "Unweighted kappa is lower than weighted kappa here, and quadratic weights forgive near errors more.",
            GRADED,
            "holds" if kappas["kappa"] < kappas["kappa_linear"] < kappas["kappa_quadratic"] else "fails",
            ", ".join(f"{name} {value:.3f}" for name, value in kappas.items()),
            kappas,
        ),
    ]


def claim_defects() -> list[Claim]:
    """Judge the claims on the six defects."""
    counts, i, j = metrics.most_confused(DEFECTS, 7, by="symmetric")
    shares, *first = metrics.most_confused(DEFECTS, 2, by="rate")
    shared = [f"{DEFECT_NAMES[min(a, b)]} and {DEFECT_NAMES[max(a, b)]}" for a, b in zip(*first, strict=True)]
    pairs = [f"{DEFECT_NAMES[a]} and {DEFECT_NAMES[b]}" for a, b in zip(i, j, strict=True)]
    found = dict(zip(pairs, counts.tolist(), strict=True))
    printed = {
        "hairline and intact": 160,
        "efflorescence and corrosion": 95,
        "hairline and structural": 45,
        "spalling and corrosion": 35,
    }
    said = "efflorescence and corrosion"
    by_share = "holds where pairs are ranked by the share of the class" if shared[0] == said else "fails"
    return [
        Claim(
            "Pairs: 95 efflorescence and corrosion, 160 hairline and intact, 45 both kinds of crack, 35 spalling "
            "and corrosion.",
            DEFECTIVE,
            "holds" if all(found[pair] == n for pair, n in printed.items()) else "fails",
            ", ".join(f"{found[pair]:g} {pair}" for pair in printed),
            {"pairs": found},
        ),
        Claim(
            "Efflorescence and corrosion are the most significant pair.",
            DEFECTIVE,
            "holds" if pairs[0] == said else by_share,
            f"by counts {pairs[0]} comes first, {counts[0]:g} to {counts[1]:g}; by share they do, "
            f"{shares[0]:.2f} and {shares[1]:.2f}",
            {"counts": counts, "shares": shares},
        ),
        Claim(
            "The table is of the most frequently confused pairs, of which four are discussed.",
            DEFECTIVE,
            "holds" if pairs[2] in printed else "fails",
            f"the third largest, {pairs[2]} with {counts[2]:g}, is not among them",
            {"third": pairs[2], "count": counts[2]},
        ),
    ]


def list_claims() -> list[Claim]:
    """Return all claims in the order of the glossary."""
    return [
        *claim_three_surfaces(),
        *claim_averages_and_mcc(),
        *claim_four_surfaces(),
        *claim_grades(),
        *claim_defects(),
    ]
