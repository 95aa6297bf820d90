"""Advice of the glossary as examples: collapse, checkpoints, agreement, thresholds, colours, a report."""

import numpy as np

import cmfast
from cmfast import display, metrics
from cmfast._core import plotting
from cmfast._pages.parts import Claim, Section, Table
from cmfast._pages.pictures import make_picture
from cmfast._reproduce._reproduction import make_figure_section
from cmfast._reproduce.glossary import _matrices as given

AGREEMENT = 0.85
COSTS = (1, 4, 19)


def draw_triple_cells() -> list[Section]:
    """Return the section of the glossary's matrices with count, row share and column share in each cell."""
    shown = {
        "three_surfaces": (given.SURFACES, given.SURFACE_NAMES),
        "four_surfaces": (given.FOUR_SURFACES, given.FOUR_NAMES),
        "grades": (given.GRADES, given.GRADE_NAMES),
        "defects": (given.DEFECTS, given.DEFECT_NAMES),
    }
    pictures = []
    for name, (M, classes) in shown.items():
        picture = display.ConfusionDisplay.from_matrix(M, display_labels=classes).plot(text="triple")
        numbers = {
            "classes": classes,
            "counts": M,
            "rows": cmfast.normalize(M, "row"),
            "columns": cmfast.normalize(M, "col"),
        }
        pictures.append(make_picture(name, picture.figure_, numbers, f"triple cells of {name.replace('_', ' ')}"))
    said = "Count, share of the row and share of the column: on the diagonal the shares are recall and precision."
    return [make_figure_section("Its matrices, in triple cells", pictures, after=[said])]


def judge_hierarchy() -> tuple[list[Claim], list[Section]]:
    """Judge whether most confusions are within a category: the defects collapsed to categories."""
    M, names = metrics.collapse(given.DEFECTS, given.CATEGORIES)
    total, right = int(given.DEFECTS.sum()), int(np.trace(given.DEFECTS))
    stays = int(np.trace(M))
    within, across = stays - right, total - stays
    first, last = given.DEFECT_NAMES.index("hairline"), given.DEFECT_NAMES.index("intact")
    hairline = int(given.DEFECTS[first, last] + given.DEFECTS[last, first])
    numbers = {"categories": names, "matrix": M, "within": within, "across": across, "hairline_and_intact": hairline}
    claim = Claim(
        "Models often find the general category and confuse the subtype.",
        "hierarchical confusion",
        "holds where cracks and discolorations are categories"
        if within > across
        else "fails where its defects are counted",
        f"of {within + across} confusions {within} are within a category and {across} across, {hairline} of them "
        "hairline cracks "
        f"called intact or back; accuracy {right / total:.3f} by defect, {stays / total:.3f} by category",
        numbers,
    )
    picture = display.ConfusionDisplay.from_matrix(M, display_labels=list(names)).plot(text="triple")
    return [claim], [
        make_figure_section(
            "Defects by category", [make_picture("categories", picture.figure_, numbers, "four categories")]
        )
    ]


def compare_checkpoints() -> list[Section]:
    """Return the section on the difference of two checkpoints: the printed defects and an invented earlier one."""
    early = given.draw_earlier_checkpoint()
    shares = [np.asarray(cmfast.normalize(M, "row")) for M in (given.DEFECTS, early)]
    change = shares[0] - shares[1]
    picture = display.ConfusionDisplay.compare(
        given.DEFECTS, early, normalize="row", display_labels=given.DEFECT_NAMES
    ).plot()
    off = np.where(np.eye(len(change), dtype=bool), 0, change)
    worst = np.argsort(off, axis=None, kind="stable")[:5]
    rows = []
    for i, j in (divmod(int(k), len(change)) for k in worst):
        rows.append([f"{given.DEFECT_NAMES[i]} as {given.DEFECT_NAMES[j]}", *(f"{S[i, j]:.1%}" for S in shares[::-1])])
    said = (
        "The entry advises to compare matrices of checkpoints and prints none: the later one is its matrix of "
        "defects, the "
        f"earlier one a draw (seed {given.CHECKPOINT_SEED}) in which three tenths of all answers are chance."
    )
    numbers = {"early": early, "late": given.DEFECTS, "change_of_shares": change, "seed": given.CHECKPOINT_SEED}
    return [
        make_figure_section(
            "Two checkpoints",
            [
                make_picture("checkpoints", picture.figure_, numbers, "what changed between two checkpoints"),
                Table("Confusions that fell most", ["", "before", "now"], rows),
            ],
            after=[said],
        )
    ]


def judge_annotator_ceiling(n: int) -> list[Claim]:
    """Judge whether a model can agree with one annotator more often than two annotators do."""
    truth, one, other = given.draw_two_annotators(n, AGREEMENT)
    between, model = (cmfast.confusion_matrix(one, guess, n_classes=2) for guess in (other, truth))
    found = [float(metrics.accuracy(M)) for M in (between, model)]
    error = [float(cmfast.uncertainty.standard_error(M, "accuracy")) for M in (between, model)]
    kappa = float(metrics.kappa(between))
    return [
        Claim(
            "A model cannot be expected to exceed the agreement of two annotators.",
            "ambiguous ground truth",
            "fails where annotators err independently" if found[1] - found[0] > 3 * sum(error) else "holds",
            f"two people who agree in {found[0]:.3f} (kappa {kappa:.3f}), and a model that is always right: it "
            "agrees with "
            f"one in {found[1]:.3f}, as (1 + sqrt(2 * 0.85 - 1)) / 2 = 0.918; the ceiling is how right the "
            "reference is",
            {"n": n, "between": found[0], "model": found[1], "kappa": kappa, "standard_errors": error},
            seeds=(given.ANNOTATOR_SEED,),
        )
    ]


def judge_thresholds(n: int) -> tuple[list[Claim], list[Section]]:
    """Judge recall and precision over thresholds, and the threshold of least cost."""
    score, crack = given.draw_crack_scores(n)
    rates = {t: np.asarray(cmfast.confusion_matrix(crack, score >= t, n_classes=2)) for t in (0.3, 0.5, 0.8)}
    precision, recall = ({t: float(f(M)[1]) for t, M in rates.items()} for f in (metrics.precision, metrics.recall))
    counter = metrics.precision_recall([0, 1, 1], [0.9, 0.6, 0.5])
    rows = []
    best = {}
    for cost in COSTS:
        found = metrics.least_cost(crack, score, [[0, 1], [cost, 0]])
        best[cost] = {"threshold": float(found.threshold), "cost": float(found.cost), "matrix": found.matrix}
        at_half = float((rates[0.5] * [[0, 1], [cost, 0]]).sum())
        best[cost]["cost_at_half"] = at_half
        rows.append(
            [
                f"{cost} to 1",
                f"{1 / (1 + cost):.3f}",
                f"{best[cost]['threshold']:.3f}",
                f"{best[cost]['cost']:.0f}",
                f"{at_half:.0f}",
            ]
        )
    falls = precision[0.3] < precision[0.5] < precision[0.8] and recall[0.3] > recall[0.5] > recall[0.8]
    claim = Claim(
        "A threshold of 0.3 in place of 0.5 has more recall and less precision, one of 0.8 more precision and less "
        "recall.",
        "threshold",
        "holds where the share of cracks rises with the score" if falls else "fails",
        "; ".join(f"at {t:g} recall {recall[t]:.3f}, precision {precision[t]:.3f}" for t in rates)
        + "; recall can only fall, but of scores 0.9, 0.6, 0.5 of intact, crack, crack a higher one has less precision",
        {"recall": recall, "precision": precision, "counterexample": counter.precision, "by_cost": best},
        seeds=(given.SCORE_SEED,),
    )
    table = Table(
        "Threshold of least cost, by what a missed crack costs",
        ["miss to false alarm", "in theory", "found", "cost", "cost at 0.5"],
        rows,
    )
    note = (
        f"{n:,} drawn pictures (seed {given.SCORE_SEED}) whose scores are true probabilities: then the threshold of "
        "least "
        "cost is 1 / (1 + the cost of a miss), whatever the share of cracks. The entry says that it depends on "
        "costs, and "
        "gives no rule."
    )
    return [claim], [make_figure_section("A threshold by cost", [table], after=[note])]


def judge_snippet() -> tuple[list[Claim], list[Section]]:
    """Judge the glossary's program: its colours, and that it does not run."""
    colours = plotting.load_pyplot().get_cmap("RdYlGn")
    empty, full = ([round(float(part), 3) for part in colours(value)[:3]] for value in (0.0, 1.0))
    redder = full[0] - full[1] > empty[0] - empty[1]
    with np.errstate(invalid="ignore"):
        bare = np.array([[3, 1], [0, 0]]) / np.array([[4], [0]])
    claims = [
        Claim(
            "Off-diagonal cells are red, more so the larger the confusion.",
            "visualization, the program",
            "holds" if redder else "fails",
            f"its map RdYlGn from 0 to 1 paints a cell without confusion deepest red (rgb {empty}) and one of 100 % "
            "green "
            f"(rgb {full})",
            {"empty": empty, "full": full},
        ),
        Claim(
            "The program draws a matrix for publication.",
            "visualization, the program",
            "fails" if np.isnan(bare).any() else "holds",
            "its title names accuracy, which it never computes, and the rows of a class that does not occur are 0/0: "
            f"{int(np.isnan(bare).sum())} of 4 cells in an example",
            {"example": bare},
        ),
    ]
    picture = display.ConfusionDisplay.from_matrix(
        given.GRADES, normalize="row", display_labels=given.GRADE_NAMES
    ).plot()
    shown = make_picture(
        "colours", picture.figure_, {"shares": metrics.confusion_fractions(given.GRADES)}, "grades by row"
    )
    said = "The diagonal and what is beside it in colours of their own: nothing there is white, and darker is more."
    return claims, [make_figure_section("Colours", [shown], after=[said])]


def report(n_resamples: int) -> str:
    """Return the recommended report of the grades, with all counts as samples."""
    truth, guess = np.divmod(np.repeat(np.arange(given.GRADES.size), given.GRADES.ravel()), len(given.GRADES))
    names = np.array(given.GRADE_NAMES)
    title = "Grades of runway pavement"
    return cmfast.report(names[truth], names[guess], labels=names, title=title, n_resamples=n_resamples).html
