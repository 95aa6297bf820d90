"""Claims of the notebook on tables, interval widths and rankings, with verdicts."""

from typing import Any

import numpy as np

from cmfast._pages.parts import Claim
from cmfast._reproduce.uncertainty import _ranking, _teams

Widths = dict[str, dict[int, dict[str, dict[str, float]]]]  # by scheme, size, kind and metric
MOST_RELATIVE_JUMP = 1 / 6  # relative jump of a width between random streams
SCATTER = 1 / 20  # ... and at most that of full draws
RIGHT = [name for name in _teams.NAMES if name != "f1_macro"]


def claim_table() -> list[Claim]:
    """Judge the table of metrics: five columns hold, the mean F1 does not."""
    found = {kind: _teams.compute_metrics(_teams.normalize_kind(_teams.COUNTS, kind)) for kind in _teams.KINDS}
    off = {
        name: max(
            float(np.abs(found[kind][name] - _teams.PRINTED[name][k]).max()) for k, kind in enumerate(_teams.KINDS)
        )
        for name in _teams.NAMES
    }
    two = {kind: _teams.average_first_two(_teams.normalize_kind(_teams.COUNTS, kind)) for kind in _teams.KINDS}
    apart = max(float(np.abs(two[kind] - _teams.PRINTED["f1_macro"][k]).max()) for k, kind in enumerate(_teams.KINDS))
    worst = max(off[name] for name in RIGHT)
    mean = " ".join(f"{value:.3f}" for value in found["counts"]["f1_macro"])
    return [
        Claim(
            "Accuracy, geometric mean, MCC, F1 of macro averages and kappa of the four teams, of counts and of rows.",
            "table of In [4]",
            "holds" if worst < 5.001e-4 else "fails",
            f"all 40 figures, to their last digit (largest difference {worst:.4f})",
            {
                "found": {kind: {name: v[name] for name in RIGHT} for kind, v in found.items()},
                "largest_difference": worst,
            },
        ),
        Claim(
            "The mean F1 (sF1) of the teams is .972 .978 .984 .962, normalised .887 .931 .915 .872.",
            "table of In [4]",
            "holds" if off["f1_macro"] < 5.001e-4 else "fails",
            f"of four classes it is {mean} of counts; the printed one is that of the first two (within {apart:.4f})",
            {"right": {kind: v["f1_macro"] for kind, v in found.items()}, "first_two": two},
        ),
    ]


def claim_simulation(widths: Widths, settings: dict[str, Any]) -> list[Claim]:
    """Judge the interval widths of the notebook's scheme against those of full multinomial draws."""
    seed = settings["seed"]
    rounded, real = widths["expected_rounded"], widths["multinomial"]
    printed = {
        (n, kind, name): _teams.PRINTED_WIDTHS[name][j][k]
        for k, n in enumerate(_teams.SIZES) for j, kind in enumerate(_teams.KINDS) for name in _teams.NAMES
    }  # fmt: skip
    near = {
        key: abs(rounded[key[0]][key[1]][key[2]] - value) <= 0.001 + MOST_RELATIVE_JUMP * value
        for key, value in printed.items()
    }
    right = [fits for (_, _, name), fits in near.items() if name != "f1_macro"]
    wrong = [fits for (_, _, name), fits in near.items() if name == "f1_macro"]
    ratios = [real[n][kind][name] / rounded[n][kind][name] for n, kind, name in printed]
    by_name = {said: [real[5000][kind][name] for kind in _teams.KINDS] for name, said in _teams.NAMES.items()}
    wider = [name for name, (counts, rows) in by_name.items() if rows > counts * (1 + SCATTER)]
    somewhere = f"holds where the metric is {', '.join(wider)}" if wider else "fails"
    verdict = "holds" if len(wider) == len(by_name) else somewhere
    true, predicted = _teams.TEAMS[0, 1:].sum(axis=1), _teams.TEAMS[:, :, 1:].sum(axis=1)
    shares = predicted / predicted.sum(axis=1, keepdims=True) / (true / true.sum())
    least, most = shares.min(axis=0), shares.max(axis=0)
    rare = int((most / least).argmax())
    return [
        Claim(
            "Widths of five metrics at 15000, 5000 and 1000 samples.",
            "In [6]",
            "holds where class counts alone are drawn" if all(right) else "fails",
            f"{sum(right)} of {len(right)} within a last digit and a sixth (they jump with the stream, as cells are "
            "rounded)",
            {"widths": rounded},
            seeds=(seed,),
        ),
        Claim(
            "Widths of sF1: .001 .001 .003 of counts, .002 .007 .035 normalised.",
            "In [6]",
            "holds" if all(wrong) else "fails",
            "of four classes "
            + ", ".join(" ".join(f"{rounded[n][kind]['f1_macro']:.3f}" for n in _teams.SIZES) for kind in _teams.KINDS)
            + "; printed are those of the first two",
            {"first_two": {kind: [rounded[n][kind]["first two"] for n in _teams.SIZES] for kind in _teams.KINDS}},
            seeds=(seed,),
        ),
        Claim(
            "The results are the uncertainty of the metrics due to random sampling.",
            "text before In [5]",
            "fails" if max(ratios) > 1 + MOST_RELATIVE_JUMP else "holds",
            f"cells are rounded expectations; with real draws they are {min(ratios):.1f} to {max(ratios):.1f} times "
            "as wide",
            {"least_ratio": min(ratios), "largest_ratio": max(ratios)},
            seeds=(seed,),
        ),
        Claim(
            "Rows divided by their sums are less certain than counts.",
            "title and tables",
            verdict,
            "real draws of 5000, of counts and normalised: "
            + ", ".join(f"{name} {counts:.3f} and {rows:.3f}" for name, (counts, rows) in by_name.items()),
            {"widths": real[5000]},
            seeds=(seed,),
        ),
        Claim(
            "pi_c, the proportions of the simulation, are those of the teams' predictions.",
            "text before In [3]",
            "holds" if np.allclose(shares, 1, rtol=0, atol=0.01) else "fails",
            f"its draws use those of the truth; of {_teams.CLASSES[rare]}s the shares that teams predict are "
            f"{least[rare]:.2f} to {most[rare]:.2f} times as large",
            {"true": true, "predicted": predicted},
        ),
        Claim("The simulation is repeated 1.000 times.", "text before In [5]", "fails", "its code runs 5000"),
    ]


def claim_question(found: list[_ranking.Difference], seed: int) -> list[Claim]:
    """Judge whether counts and normalised matrices distinguish pairs of teams."""
    told = _ranking.count_distinct_pairs(found)
    total = {kind: {way: sum(by.values()) for way, by in ways.items()} for kind, ways in told.items()}
    turned = _ranking.find_reversals(found)
    pairs = 6 * len(_teams.NAMES)
    sure = sum(both for *_, both in turned)
    rarest = sorted(_teams.TEAMS[0, 1:].sum(axis=1))[:2]
    who = sorted({f"{a + 1} and {b + 1}" for (a, b), _, _ in turned})
    like, alone = _ranking.PAIRINGS
    return [
        Claim(
            "Teams should be ranked by counts, which are less uncertain than rows divided by their sums.",
            "the question that its widths ask",
            "holds where classes should weigh as often as they occur",
            f"of {pairs} differences (6 pairs of teams, 6 metrics) counts tell {total['counts'][like]} apart, rows "
            f"{total['normalised'][like]}, if teams err alike; {total['counts'][alone]} and "
            f"{total['normalised'][alone]} if "
            f"each errs alone. In {len(turned)} both rank differently (teams {'; '.join(who)}), in {sure} of them "
            "both are sure: rows ask for the rare classes, of which there are "
            f"{' and '.join(map(str, rarest))} cells, and too few to say",
            {"told_apart": told, "ranked_differently": turned},
            seeds=(seed,),
        )
    ]
