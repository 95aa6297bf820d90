"""Reproduction of a glossary of confusion matrices in infrastructure inspection: every table, with errata."""

from cmfast._reproduce._reproduction import Progress, Reproduction

SAMPLES, GLOSSARY_REPLICATES = 1_000_000, 10_000


def reproduce(*, quick: bool, progress: Progress, n: int | None = None) -> Reproduction:
    """Recompute the tables of the glossary; `n` is the number of samples of its random examples."""
    from cmfast._reproduce._reproduction import measure_time
    from cmfast._reproduce.glossary import _practice, _printed

    n = n or (20_000 if quick else SAMPLES)
    replicates = 1_000 if quick else GLOSSARY_REPLICATES
    timings: dict[str, float] = {}
    tick = progress("glossary", "parts")
    with measure_time(timings, "claims"):
        claims = _printed.list_claims()
        tick(1, 4)
        sections = _practice.draw_triple_cells()
        tick(2, 4)
        for found, shown in (
            _practice.judge_hierarchy(),
            ([], _practice.compare_checkpoints()),
            (_practice.judge_annotator_ceiling(n), []),
            _practice.judge_thresholds(n),
            _practice.judge_snippet(),
        ):
            claims += found
            sections += shown
    tick(3, 4)
    with measure_time(timings, "report"):
        page = _practice.report(replicates)
    tick(4, 4)
    return Reproduction(
        name="glossary",
        title="A glossary of confusion matrices, recomputed",
        source="TarmacView, glossary of infrastructure inspection, entry Confusion matrix",
        lead=(
            "Every figure that the entry says of its matrices, computed from the printed counts, and what it advises, "
            "done. The report that it recommends is grades_report.html, as cmfast report makes it."
        ),
        claims=claims,
        sections=sections,
        settings={"quick": quick, "n": n, "n_resamples": replicates},
        pages={"grades_report.html": page},
        reduced=f"{n:,} samples and {replicates:,} draws in place of {SAMPLES:,} and {GLOSSARY_REPLICATES:,}",
        timings=timings,
    )
