"""Reproduction of Ahmadzadeh et al., Contingency Space: figures 1 to 9, and every claim that numbers can test."""

from dataclasses import asdict

from cmfast._pages.parts import Table
from cmfast._reproduce._reproduction import (
    Progress,
    Reproduction,
    limit_to_one_thread,
    make_figure_section,
    measure_time,
)
from cmfast._reproduce.contingency._training import ContingencySettings

QUICK = ContingencySettings(runs=20, rates=(0.01,), pair_runs=1, tracked=4, n_ratios=9)


def reproduce(*, quick: bool, progress: Progress, settings: ContingencySettings | None = None) -> Reproduction:
    """Draw every surface, train every network, and test the claims of the paper."""
    from cmfast._reproduce.contingency import _costs, _epochs, _paths, _pictures, _roc, _space, _surfaces

    settings = settings or (QUICK if quick else ContingencySettings())
    timings: dict[str, float] = {}
    with limit_to_one_thread():
        with measure_time(timings, "surfaces"):
            volumes, guesses = _surfaces.compute_sensitivities(settings.n_ratios), _space.compute_chance_levels()
            forecasts = _costs.compute_forecasts(settings.seed)
        with measure_time(timings, "paths"):
            paths = _paths.train_all_pairs(settings, progress("paths", "problems"))
        with measure_time(timings, "epochs"):
            tracks = _epochs.train_tracked(settings, progress("five digits", "runs"))
            scores = _roc.compute_scores(settings)
    with measure_time(timings, "claims"):
        claims = [
            *_space.claim_table_2(settings.seed),
            *_space.claim_definitions(),
            *_space.claim_guesses(guesses),
            *_surfaces.claim_shapes(),
            *_paths.claim_paths(paths, settings),
            *_surfaces.claim_volumes(volumes),
            *_costs.claim_costs(forecasts, settings.seed),
            *_epochs.claim_epochs(tracks, settings),
            *_roc.claim_roc(scores, settings),
        ]
    with measure_time(timings, "pictures"):
        sections = [
            make_figure_section("A metric is a surface (Fig. 1)", _pictures.draw_precision()),
            make_figure_section(
                "Twelve metrics (Fig. 2)",
                [_pictures.draw_metrics()],
                after=["Gilbert, Doolittle and TSS by the right formulas. Colours are those of [-1, 1] for all."],
            ),
            _space.make_chance_section(guesses),
            make_figure_section("Learning paths (Figs. 3 and 4)", _pictures.draw_paths(paths, settings.rates[0])),
            make_figure_section("Length and struggle, of every two digits", [_pictures.draw_pairs(paths)]),
            make_figure_section("Imbalance (Figs. 5 and 6)", _pictures.draw_imbalance_effects()),
            make_figure_section(
                "Sensitivity to it (Fig. 7)",
                _pictures.draw_sensitivities(volumes),
                after=["Dashed: agnostic. Metrics with the range [-1, 1] are rescaled to [0, 1] first."],
            ),
            make_figure_section(
                "Weighted tau and costs (Fig. 8)",
                [
                    _pictures.draw_weights(),
                    Table("Thresholds of a forecast", _costs.HEAD, _costs.format_forecasts(forecasts)),
                ],
                after=["Colours are those of [-1, 1], contours a tenth of v = 2. Two normal densities, 1.5 apart."],
            ),
            make_figure_section("Ten metrics by epoch (Fig. 9)", _pictures.draw_epochs(tracks)),
            make_figure_section("ROC space (section 6.1)", [_pictures.draw_roc(scores)]),
        ]
    return Reproduction(
        name="contingency",
        title="Contingency Space, computed again",
        source="Ahmadzadeh, Kempton, Martens, Angryk, Contingency Space: A Semimetric Space for Classification "
        "Evaluation, IEEE TPAMI 45, 2023",
        lead=(
            "The paper draws metrics as surfaces over both recalls, trainings as paths on them, and measures what "
            "imbalance does to them. Its nine figures again, its networks on the 1,797 digits of scikit-learn."
        ),
        claims=claims,
        sections=sections,
        settings={"quick": quick, **asdict(settings)},
        numbers={"guesses": guesses, "forecasts": _costs.numbers(forecasts)},
        reduced=(
            f"{settings.runs} trainings of every two digits in place of {ContingencySettings.runs}, {settings.tracked} "
            f"of five digits in place of {ContingencySettings.tracked}, {len(settings.rates)} of "
            f"{len(ContingencySettings.rates)} learning rates"
        ),
        timings=timings,
    )
