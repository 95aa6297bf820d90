"""Reproduction of Foucart's notebook 4.4.2.3: uncertainty of normalised matrices, and ranking of teams."""

from cmfast._reproduce._reproduction import Progress, Reproduction

SEED, RANKING_REPLICATES = 0, 20_000


def reproduce(*, quick: bool, progress: Progress, n_resamples: int | None = None) -> Reproduction:
    """Recompute the tables, the interval widths at three sizes, and the comparisons of teams."""
    from cmfast._pages.parts import Table
    from cmfast._reproduce._reproduction import make_figure_section, measure_time
    from cmfast._reproduce.uncertainty import _claims, _pictures, _ranking, _teams

    settings = {"quick": quick, "n_resamples": n_resamples or (2000 if quick else RANKING_REPLICATES), "seed": SEED}
    timings: dict[str, float] = {}
    tick = progress("uncertainty", "parts")
    widths: _claims.Widths = {}
    with measure_time(timings, "widths"):
        for k, scheme in enumerate(("expected_rounded", "multinomial")):
            widths[scheme] = {n: _teams.compute_widths(scheme, n, settings["n_resamples"], SEED) for n in _teams.SIZES}
            tick(k + 1, 3)
    with measure_time(timings, "differences"):
        found = _ranking.compute_differences(settings["n_resamples"], SEED)
        tick(3, 3)
    claims = [
        *_claims.claim_table(),
        *_claims.claim_simulation(widths, settings),
        *_claims.claim_question(found, SEED),
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
    told = _ranking.count_distinct_pairs(found)
    apart = Table(
        "Pairs of teams told apart, of 6",
        ["", *_teams.NAMES.values()],
        [
            [f"{kind}, {way}", *(str(told[kind][way][name]) for name in _teams.NAMES)]
            for way in _ranking.PAIRINGS
            for kind in _teams.KINDS
        ],
    )
    shown = [_pictures.draw_differences(found, "accuracy", way) for way in _ranking.PAIRINGS]
    ways = (
        "The notebook has one matrix per team, not the joint predictions of two teams. So two couplings are used: as "
        "often equal as their matrices allow, and independent given the true class. Intervals of 95 %, over all 15,491 "
        "true cells, including those that were not detected."
    )
    return Reproduction(
        name="uncertainty",
        title="Uncertainty of normalised confusion matrices, recomputed",
        source="Foucart, notebook 4.4.2.3, Normalized confusion matrix (MoNuSAC, four teams)",
        lead=(
            "The notebook asks whether metrics of row-normalised matrices are less certain than those of counts. Its "
            "table and its simulation are repeated and compared with full multinomial draws; then the teams are "
            "compared pairwise."
        ),
        claims=claims,
        sections=[
            make_figure_section("Widths", [_pictures.draw_widths(n, each) for n, each in rows.items()]),
            make_figure_section("Which team is better?", [*shown, apart], before=[ways]),
        ],
        settings=settings,
        numbers={"differences": [d._asdict() for d in found]},
        reduced=f"{settings['n_resamples']:,} draws instead of {RANKING_REPLICATES:,}",
        timings=timings,
    )
