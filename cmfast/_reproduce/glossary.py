"""A glossary of confusion matrices in infrastructure inspection: every table of it, with its errors."""

import numpy as np

from cmfast import display, metrics
from cmfast._reproduce._frame import Claim, Picture, Progress, Reproduction, Section, Table, png, timed

SURFACES = np.array([[420, 15, 15], [10, 280, 10], [30, 20, 200]])
SURFACE_NAMES = ["asphalt", "concrete", "composite"]


def reproduce(*, quick: bool, progress: Progress) -> Reproduction:
    """Recompute the tables of the glossary."""
    timings: dict[str, float] = {}
    tick = progress("glossary", "sections")
    with timed(timings, "surfaces"):
        claims, section = _surfaces()
    tick(1, 1)
    return Reproduction(
        name="glossary",
        title="A glossary of confusion matrices, recomputed",
        source="Glossary of infrastructure inspection, entry Confusion matrix (TarmacView)",
        lead="Every table of the entry and every figure that it says of one, computed from the printed counts.",
        claims=claims,
        sections=[section],
        settings={"quick": quick},
        timings=timings,
    )


def _surfaces() -> tuple[list[Claim], Section]:
    """Return what is said of the three kinds of surface."""
    found = {name: float(metrics.compute(SURFACES, name)) for name in ("accuracy", "precision_macro")}
    (value, _, col) = metrics.most_confused(SURFACES, 2)
    claims = [
        Claim(
            "The accuracy of the three surfaces is 90 %.",
            "matrix of three surfaces",
            "holds",
            f"{found['accuracy']:.3f}",
            {"accuracy": found["accuracy"]},
        ),
        Claim(
            "Composite is confused with asphalt nearly double as often as with concrete.",
            "matrix of three surfaces",
            "fails",
            f"{value[0]:g} to {value[1]:g}: {value[0] / value[1]:g} times",
            {"counts": value, "classes": [SURFACE_NAMES[int(j)] for j in col]},
        ),
    ]
    shown = display.ConfusionDisplay.from_matrix(SURFACES, class_names=SURFACE_NAMES).plot(text="triple")
    picture = Picture("surfaces", png(shown.figure_), {"matrix": SURFACES}, "counts, shares of rows and of columns")
    rows = [[name, f"{value:.3f}"] for name, value in found.items()]
    return claims, Section("Three surfaces", [picture, Table("Metrics", ["", "value"], rows)])
