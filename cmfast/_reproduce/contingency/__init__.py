"""Ahmadzadeh et al., Contingency Space: figures 1 to 9, and every claim that numbers can judge."""

from dataclasses import asdict

from cmfast._pages.parts import Table
from cmfast._reproduce._reproduction import Progress, Reproduction, illustrate, one_thread, timed
from cmfast._reproduce.contingency._training import ContingencySettings

QUICK = ContingencySettings(runs=20, rates=(0.01,), pair_runs=1, tracked=4, n_ratios=9)


def reproduce(*, quick: bool, progress: Progress, settings: ContingencySettings | None = None) -> Reproduction:
    """Draw every surface, train every network, and hold the paper against both."""
    from cmfast._reproduce.contingency import _costs, _epochs, _paths, _pictures, _roc, _space, _surfaces

    settings = settings or (QUICK if quick else ContingencySettings())
    timings: dict[str, float] = {}
    with one_thread():
        with timed(timings, "surfaces"):
            volumes, guesses = _surfaces.sensitivities(settings.n_ratios), _space.levels()
            forecasts = _costs.forecasts(settings.seed)
        with timed(timings, "paths"):
            paths = _paths.trained(settings, progress("paths", "problems"))
        with timed(timings, "epochs"):
            tracks = _epochs.tracked(settings, progress("five digits", "runs"))
            scores = _roc.scored(settings)
    with timed(timings, "claims"):
        claims = [
            *_space.of_table_2(settings.seed),
            *_space.of_definitions(),
            *_space.of_guesses(guesses),
            *_surfaces.of_shapes(),
            *_paths.of_paths(paths, settings),
            *_surfaces.of_volumes(volumes),
            *_costs.of_tau(forecasts, settings.seed),
            *_epochs.of_epochs(tracks, settings),
            *_roc.of_roc(scores, settings),
        ]
    with timed(timings, "pictures"):
        sections = [
            illustrate("A metric is a surface (Fig. 1)", _pictures.precision()),
            illustrate(
                "Twelve metrics (Fig. 2)",
                [_pictures.of_metrics()],
                after=["Gilbert, Doolittle and TSS by the right formulas. Colours are those of [-1, 1] for all."],
            ),
            _space.of_chance(guesses),
            illustrate("Learning paths (Figs. 3 and 4)", _pictures.of_paths(paths, settings.rates[0])),
            illustrate("Length and struggle, of every two digits", [_pictures.of_pairs(paths)]),
            illustrate("Imbalance (Figs. 5 and 6)", _pictures.warped()),
            illustrate(
                "Sensitivity to it (Fig. 7)",
                _pictures.of_sensitivities(volumes),
                after=["Dashed: agnostic. Metrics with the range [-1, 1] are rescaled to [0, 1] first."],
            ),
            illustrate(
                "Weighted tau and costs (Fig. 8)",
                [_pictures.of_weights(), Table("Thresholds of a forecast", _costs.HEAD, _costs.table_rows(forecasts))],
                after=["Colours are those of [-1, 1], contours a tenth of v = 2. Two normal densities, 1.5 apart."],
            ),
            illustrate("Ten metrics by epoch (Fig. 9)", _pictures.of_epochs(tracks)),
            illustrate("ROC space (section 6.1)", [_pictures.of_roc(scores)]),
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
