"""Foucart's notebook 4.4.2.3: whether a normalised matrix is less certain, and which one should rank teams."""

from cmfast._reproduce._reproduction import Progress, Reproduction

SEED, RANKING_REPLICATES = 0, 20_000


def reproduce(*, quick: bool, progress: Progress, n_replicates: int | None = None) -> Reproduction:
    """Recompute the tables, the widths at three sizes beside real draws, and what tells teams apart."""
    from cmfast._pages.parts import Table
    from cmfast._reproduce._reproduction import illustrate, timed
    from cmfast._reproduce.uncertainty import _claims, _pictures, _ranking, _teams

    settings = {"quick": quick, "n_replicates": n_replicates or (2000 if quick else RANKING_REPLICATES), "seed": SEED}
    timings: dict[str, float] = {}
    tick = progress("uncertainty", "parts")
    widths: _claims.Widths = {}
    with timed(timings, "widths"):
        for k, scheme in enumerate(("expected_rounded", "multinomial")):
            widths[scheme] = {n: _teams.widths(scheme, n, settings["n_replicates"], SEED) for n in _teams.SIZES}
            tick(k + 1, 3)
    with timed(timings, "differences"):
        found = _ranking.differences(settings["n_replicates"], SEED)
        tick(3, 3)
    claims = [
        *_claims.of_the_table(),
        *_claims.of_the_simulation(widths, settings),
        *_claims.of_the_question(found, SEED),
    ]
    rows = {
        n: {
            f"{_teams.NAMES[name]}, {kind}": {
                "printed": _teams.PRINTED_WIDTHS[name][j][k],
                "class counts alone": widths["expected_rounded"][n][kind][name],
                "real draws": widths["multinomial"][n][kind][name],
            }
            for name in _teams.NAMES
            for j, kind in enumerate(_teams.KINDS)
        }
        for k, n in enumerate(_teams.SIZES)
    }
    told = _ranking.told_apart(found)
    apart = Table(
        "Pairs of teams told apart, of 6",
        ["", *_teams.NAMES.values()],
        [
            [f"{kind}, {way}", *(str(told[kind][way][name]) for name in _teams.NAMES)]
            for way in _ranking.PAIRINGS
            for kind in _teams.KINDS
        ],
    )
    shown = [_pictures.of_differences(found, "accuracy", way) for way in _ranking.PAIRINGS]
    ways = (
        "The notebook has a matrix for each team, not what two teams say of one cell. So two ways to pair them are "
        "drawn: as "
        "often the same as their matrices allow, and as if each erred alone, given the true class. Intervals of 95 "
        "%, of all "
        "15,491 cells of the truth, those that were not detected among them."
    )
    return Reproduction(
        name="uncertainty",
        title="Uncertainty of normalised confusion matrices, recomputed",
        source="Foucart, notebook 4.4.2.3, Normalized confusion matrix (MoNuSAC, four teams)",
        lead=(
            "The notebook asks whether metrics of rows divided by their sums are less certain than those of counts. "
            "Its table "
            "and its simulation are repeated, beside draws of everything that is random; then every two teams are "
            "compared."
        ),
        claims=claims,
        sections=[
            illustrate("Widths", [_pictures.of_widths(n, each) for n, each in rows.items()]),
            illustrate("Which team is better?", [*shown, apart], before=[ways]),
        ],
        settings=settings,
        numbers={"differences": [d._asdict() for d in found]},
        reduced=f"{settings['n_replicates']:,} draws in place of {RANKING_REPLICATES:,}",
        timings=timings,
    )
