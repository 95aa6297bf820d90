"""Reproduction of Perlo et al., conformal correlation matrices: five experiments, on digits."""

from dataclasses import asdict

from cmfast._reproduce._reproduction import Progress, Reproduction, limit_to_one_thread, measure_time
from cmfast._reproduce.conformal._network import ALPHAS, OTHER, PAIR, ConformalSettings

QUICK = ConformalSettings(seeds=6)


def reproduce(*, quick: bool, progress: Progress, settings: ConformalSettings | None = None) -> Reproduction:
    """Train networks centrally and with clients, and test the claims on correlations of their sets."""
    from cmfast._reproduce.conformal import _central_training, _claims, _clients, _sections

    settings = settings or (QUICK if quick else ConformalSettings())
    timings: dict[str, float] = {}
    with limit_to_one_thread():
        with measure_time(timings, "centre"):
            centre = _central_training.train_seeds(settings, progress("networks", "seeds"))
        with measure_time(timings, "clients"):
            runs, apart = _clients.train_seeds(settings, progress("clients", "seeds"))
    with measure_time(timings, "pictures"):
        shown = [
            _sections.make_sets_section(centre),
            _sections.make_epochs_section(centre),
            _sections.make_rounds_section(runs),
            _sections.make_clients_section(apart, runs),
        ]
    return Reproduction(
        name="conformal",
        title="Conformal correlation matrices, reproduced",
        source=(
            "Perlo, Chiasserini, De Veciana, Malandrino, Characterizing the performance of classification models "
            "through conformal correlation matrices, Computer Communications 247, 2026"
        ),
        lead=(
            "The paper reads the correlation of two classes over conformal sets, in one place and with clients that "
            "learn together. Here on the 1,797 digits of scikit-learn, with a network of 16 hidden units, over "
            f"{settings.seeds} seeds. A claim holds or fails where the whole interval of {settings.interval:.0%} lies "
            "on one side of what is claimed, with a margin that was fixed before the full run; else it is undecided."
        ),
        claims=[
            *_claims.claim_sets(centre, settings),
            *_claims.claim_central_training(centre, settings),
            *_claims.claim_clients(apart, runs, settings),
        ],
        sections=shown,
        settings={"quick": quick, **asdict(settings), "alphas": ALPHAS, "pair": PAIR, "other_pair": OTHER},
        numbers={
            "first_seed": {key: value for key, value in centre[0].items() if key != "picture"},
            "chosen": runs,
        },
        reduced=f"{settings.seeds} seeds in place of {ConformalSettings.seeds}",
        timings=timings,
    )
